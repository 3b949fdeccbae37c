//! Many writers at once: exactly one may win, except where the profile says otherwise.

use crate::{BUCKET, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{ChangeKind, Profile};
use futures_util::future::join_all;

const WRITERS: usize = 16;
const ROUNDS: usize = 8;

/// How many of a number of simultaneous writers were told that they had won.
async fn winners(client: &Client, key: &str, if_match: Option<&str>) -> usize {
    let writer = |n: usize| {
        let request = client.put_object().bucket(BUCKET).key(key);
        let request = request.body(ByteStream::from(format!("writer {n}").into_bytes()));
        match if_match {
            Some(tag) => request.if_match(tag).send(),
            None => request.if_none_match("*").send(),
        }
    };
    let outcomes = join_all((0..WRITERS).map(writer)).await.into_iter().map(outcome);
    let outcomes: Vec<_> = outcomes.collect();
    for lost in outcomes.iter().filter(|outcome| *outcome != "ok") {
        let refused = ["412 PreconditionFailed", "409 ConditionalRequestConflict"];
        assert!(refused.contains(&lost.as_str()), "{lost}");
    }
    outcomes.iter().filter(|outcome| *outcome == "ok").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn how_many_writers_win() {
    for profile in Profile::ALL {
        let (running, client) = start(profile).await;
        for round in 0..ROUNDS {
            let key = format!("create-{round}");
            let created = winners(&client, &key, None).await;
            let key = format!("replace-{round}");
            let tag = put(&client, &key, "first").await;
            let replaced = winners(&client, &key, Some(&tag)).await;
            match profile {
                Profile::Aws | Profile::AwsKms | Profile::Minio => {
                    assert_eq!((created, replaced), (1, 1), "{profile}");
                }
                Profile::Liar => assert_eq!((created, replaced), (WRITERS, WRITERS)),
                Profile::Racy => assert!(created > 1 && replaced > 1, "{created}, {replaced}"),
            }
        }
        let history = running.store().history();
        assert!(history.is_sorted_by(|a, b| a.sequence < b.sequence));
        let puts = history.iter().filter(|change| change.kind == ChangeKind::Put).count();
        match profile {
            Profile::Aws | Profile::AwsKms | Profile::Minio => assert_eq!(puts, 3 * ROUNDS),
            Profile::Liar => assert_eq!(puts, (2 * WRITERS + 1) * ROUNDS),
            Profile::Racy => assert!(puts > 3 * ROUNDS),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_conditional_deletes_wins() {
    let (_running, client) = start(Profile::Aws).await;
    for _ in 0..ROUNDS {
        let tag = put(&client, "k", "v").await;
        let delete = |_| client.delete_object().bucket(BUCKET).key("k").if_match(&tag).send();
        let outcomes = join_all((0..WRITERS).map(delete)).await.into_iter().map(outcome);
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(outcomes.iter().filter(|outcome| *outcome == "ok").count(), 1);
        assert_eq!(outcomes.iter().filter(|o| *o == "404 NoSuchKey").count(), WRITERS - 1);
    }
}

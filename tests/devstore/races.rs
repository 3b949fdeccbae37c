//! Many writers at once: exactly one may win, except where the profile says otherwise.

use crate::{BUCKET, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{ChangeKind, Profile};
use futures_util::future::join_all;

const WRITERS: usize = 16;
const ROUNDS: usize = 8;

/// What many simultaneous writers were told.
struct Told {
    winners: usize,
    /// Losers that were told nothing of why (500).
    unknown: usize,
}

async fn race(client: &Client, key: &str, if_match: Option<&str>) -> Told {
    let writer = |n: usize| {
        let request = client.put_object().bucket(BUCKET).key(key);
        let request = request.body(ByteStream::from(format!("writer {n}").into_bytes()));
        match if_match {
            Some(tag) => request.if_match(tag).send(),
            None => request.if_none_match("*").send(),
        }
    };
    let mut told = Told { winners: 0, unknown: 0 };
    for outcome in join_all((0..WRITERS).map(writer)).await.into_iter().map(outcome) {
        match outcome.as_str() {
            "ok" => told.winners += 1,
            "500 UnknownError" => told.unknown += 1,
            "412 PreconditionFailed" | "409 ConditionalRequestConflict" => {}
            other => panic!("{other}"),
        }
    }
    told
}

/// How many of many writers at once win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winners {
    One,
    Several,
    All,
}

fn expected(profile: Profile) -> Winners {
    match profile {
        Profile::Aws
        | Profile::AwsExpress
        | Profile::AwsKms
        | Profile::Minio
        | Profile::R2
        | Profile::Ceph
        | Profile::Spaces => Winners::One,
        Profile::Racy => Winners::Several,
        // The conditions of the race are S3's; for Google's see `gcs`.
        Profile::Wasabi | Profile::Garage | Profile::Gcs | Profile::Liar => Winners::All,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_many_writers_win() {
    for profile in Profile::ALL {
        let (running, client) = start(profile).await;
        let mut unknown = 0;
        for round in 0..ROUNDS {
            let key = format!("create-{round}");
            let created = race(&client, &key, None).await;
            assert_eq!(created.unknown, 0, "{profile}");
            let key = format!("replace-{round}");
            let tag = put(&client, &key, "first").await;
            let replaced = race(&client, &key, Some(tag.trim_matches('"'))).await;
            unknown += replaced.unknown;
            let winners = (created.winners, replaced.winners);
            match expected(profile) {
                Winners::One => assert_eq!(winners, (1, 1), "{profile}"),
                Winners::Several => assert!(winners.0 > 1 && winners.1 > 1, "{winners:?}"),
                Winners::All => assert_eq!(winners, (WRITERS, WRITERS), "{profile}"),
            }
        }
        assert_eq!(unknown > 0, profile == Profile::Ceph, "{profile}: {unknown}");
        let history = running.store().history();
        assert!(history.is_sorted_by(|a, b| a.sequence < b.sequence));
        let puts = history.iter().filter(|change| change.kind == ChangeKind::Put).count();
        match expected(profile) {
            Winners::One => assert_eq!(puts, 3 * ROUNDS, "{profile}"),
            Winners::Several => assert!(puts > 3 * ROUNDS),
            Winners::All => assert_eq!(puts, (2 * WRITERS + 1) * ROUNDS, "{profile}"),
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

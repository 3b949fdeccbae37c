//! Many writers at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost::devstore::{ChangeKind, Profile};

use super::on_every_store;
use super::support::{Backend, soon};

/// Eight writers that share a token, on one key, through two proxies: every write is applied once
/// or told to try again, and the store has seen exactly those that were told so.
#[tokio::test]
async fn writers_with_the_same_token_lose_nothing() {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 4;
    on_every_store(async |profile, regime| {
        let backend = Arc::new(Backend::embedded(profile).await);
        let settings = format!("fence.settle_delay_milliseconds = 50\n{regime}");
        let proxies = [backend.proxy(&settings).await, backend.proxy(&settings).await];
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let client = proxies[writer % 2].token(7);
                tokio::spawn(async move {
                    let mut written = Vec::new();
                    for round in 0..ROUNDS {
                        let body = format!("{writer}/{round}");
                        let answer = client.put("k", body.clone()).await;
                        match &*answer.short() {
                            "200" => written.push(answer.etag().to_owned()),
                            "503 FenceContended" => {}
                            other => panic!("writer {writer}: {other}"),
                        }
                    }
                    written
                })
            })
            .collect();
        let mut written = Vec::new();
        for writer in writers {
            written.extend(soon("a writer", writer).await.unwrap());
        }
        let history = backend.history("k");
        assert!(history.iter().all(|change| change.kind == ChangeKind::Put));
        let mut stored: Vec<_> =
            history.iter().map(|change| change.etag.clone().unwrap()).collect();
        let operations: BTreeSet<_> =
            history.iter().map(|change| change.metadata["fencepost-operation"].clone()).collect();
        assert_eq!(operations.len(), history.len(), "{profile}: none was applied twice");
        written.sort();
        stored.sort();
        assert_eq!(written, stored, "{profile}: applied is acknowledged, acknowledged is applied");
        assert!(written.len() >= ROUNDS, "{profile}: {} got through", written.len());
    })
    .await;
}

/// Every key its own fence: what goes on at one does not hold up another.
#[tokio::test]
async fn writers_of_different_keys_do_not_meet() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let client = proxy.token(writer + 1);
            tokio::spawn(async move { client.put(&format!("k{writer}"), "x").await.short() })
        })
        .collect();
    for writer in writers {
        assert_eq!(soon("a writer", writer).await.unwrap(), "200");
    }
}

/// Two holders at the same time through two proxies: whichever order the store sees, the higher
/// one is never followed by the lower one.
#[tokio::test]
async fn of_two_holders_at_the_same_time_the_newer_one_wins() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let settings = format!("fence.settle_delay_milliseconds = 0\n{regime}");
        let (one, other) = backend.proxies(&settings).await;
        for round in 0..10_u64 {
            let (older, newer) = (one.token(10 * round + 1), other.token(10 * round + 2));
            // The same two bodies in every round, so that ETags come back.
            let (late, new) = tokio::join!(older.put("k", "a"), newer.put("k", "b"));
            assert!(
                ["200", "409 StaleFenceToken"].contains(&&*late.short()),
                "{profile}: {late:?}"
            );
            assert_eq!(new.short(), "200", "{profile} {round}");
            assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"b"[..]), "{profile} {round}");
        }
    })
    .await;
}

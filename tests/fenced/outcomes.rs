//! Lost answers, and answers that say nothing (F6, F7, F10).

use fencepost::devstore::{Effect, Profile};
use http::Method;

use super::support::{Backend, until};
use super::{IMPATIENT, TIDY, on_data, on_every_store, tokens};

/// What was done though nobody said so.
const EXECUTED: [Effect; 3] = [
    Effect::LoseAnswer,
    Effect::ExecuteThenStatus(500, "InternalError"),
    Effect::ExecuteThenStatus(503, "SlowDown"),
];

/// What was not done though nobody said so.
const NOT_EXECUTED: [Effect; 3] =
    [Effect::CutBefore, Effect::Status(500, "InternalError"), Effect::Status(503, "SlowDown")];

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_recognised_by_its_stamp() {
    on_every_store(async |profile, regime| {
        for effect in EXECUTED {
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(&format!("{TIDY}{regime}")).await;
            assert_eq!(proxy.token(6).put("k", "one").await.short(), "200");
            let lost = backend.faults().add(on_data(effect.clone(), Method::PUT));
            let answer = proxy.token(7).put("k", "two").await;
            assert_eq!(answer.short(), "200", "{profile} {effect:?}");
            assert_eq!(lost.hits(), 1, "{profile} {effect:?}: it is sent once");
            assert_eq!(tokens(&backend, "k"), [6, 7], "{profile} {effect:?}: and applied once");
            let stored = backend.store().object("data", "k").await.unwrap().unwrap();
            assert_eq!(answer.etag(), stored.etag, "{profile} {effect:?}");
            until("the intent is settled", async || backend.intents("k").await.is_empty()).await;
            assert_eq!(proxy.counter("fence_outcome_unknown_total", "data").await, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_recognised_by_its_stamp() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{TIDY}{regime}")).await;
        backend.faults().add(on_data(Effect::LoseAnswer, Method::PUT));
        assert_eq!(proxy.token(7).put("k", "one").await.short(), "200", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7], "{profile}");
        until("the intent is settled", async || backend.intents("k").await.is_empty()).await;
    })
    .await;
}

#[tokio::test]
async fn a_put_that_may_still_be_on_its_way_is_reported_as_unknown_and_its_intent_stays() {
    for profile in [Profile::Aws, Profile::Minio] {
        for effect in NOT_EXECUTED {
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(TIDY).await;
            assert_eq!(proxy.token(6).put("k", "one").await.short(), "200");
            until("the first intent is settled", async || backend.intents("k").await.is_empty())
                .await;
            let fault = backend.faults().add(on_data(effect.clone(), Method::PUT));
            let answer = proxy.token(7).put("k", "two").await;
            assert_eq!(answer.short(), "503 FenceOutcomeUnknown", "{profile} {effect:?}");
            assert_eq!(answer.header("retry-after"), "1");
            assert_eq!(fault.hits(), 1, "{effect:?}: it is not sent again");
            assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]));
            assert_eq!(proxy.counter("fence_outcome_unknown_total", "data").await, 1);

            // A retry adds an intent and replaces none (F7); its own is settled.
            assert_eq!(proxy.token(7).put("k", "two").await.short(), "200", "{effect:?}");
            until("the retry's intent is settled", async || backend.intents("k").await.len() == 1)
                .await;
            proxy.stop().await;
            let left = backend.intents("k").await;
            assert_eq!(left.len(), 1, "{profile} {effect:?}: what is unknown stays");
            assert_eq!(left[0].token.get(), 7);
        }
    }
}

/// A deleted object carries no stamp: where DELETE is conditional, its absence proves nothing.
#[tokio::test]
async fn a_conditional_delete_whose_answer_is_lost_is_reported_as_unknown() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(IMPATIENT).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    backend.faults().add(on_data(Effect::LoseAnswer, Method::DELETE));
    assert_eq!(proxy.token(7).delete("k").await.short(), "503 FenceOutcomeUnknown");
    assert_eq!(backend.bytes("k").await, None);
    assert_eq!(proxy.token(7).delete("k").await.short(), "204", "the retry finds it done");
    assert_eq!(proxy.token(7).put("k", "two").await.short(), "200");
}

/// Nothing else deletes while an exclusive intent is open, so that absence is proof (F8).
#[tokio::test]
async fn an_exclusive_delete_whose_answer_is_lost_is_recognised_by_absence() {
    for effect in EXECUTED {
        let backend = Backend::embedded(Profile::Minio).await;
        let proxy = backend.proxy(TIDY).await;
        assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
        let lost = backend.faults().add(on_data(effect.clone(), Method::DELETE));
        assert_eq!(proxy.token(7).delete("k").await.short(), "204", "{effect:?}");
        assert_eq!(lost.hits(), 1);
        until("the intent is settled", async || backend.intents("k").await.is_empty()).await;
        assert_eq!(proxy.token(7).put("k", "two").await.short(), "200", "{effect:?}");
    }
}

#[tokio::test]
async fn a_delete_that_may_still_be_on_its_way_is_reported_as_unknown() {
    for profile in [Profile::Aws, Profile::Minio] {
        for effect in NOT_EXECUTED {
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(IMPATIENT).await;
            assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
            backend.faults().add(on_data(effect.clone(), Method::DELETE));
            let answer = proxy.token(7).delete("k").await;
            assert_eq!(answer.short(), "503 FenceOutcomeUnknown", "{profile} {effect:?}");
            assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]));
        }
    }
}

/// A refusal that the store gives to the operation's own success: its first copy has landed.
/// (Ours never sends a second copy; a store or a balancer in between may.)
#[tokio::test]
async fn a_refusal_after_the_operations_own_success_is_a_success() {
    for refusal in [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict")] {
        let backend = Backend::embedded(Profile::Aws).await;
        let proxy = backend.proxy(TIDY).await;
        assert_eq!(proxy.token(6).put("k", "one").await.short(), "200");
        let effect = Effect::ExecuteThenStatus(refusal.0, refusal.1);
        backend.faults().add(on_data(effect, Method::PUT));
        assert_eq!(proxy.token(7).put("k", "two").await.short(), "200", "{refusal:?}");
        assert_eq!(tokens(&backend, "k"), [6, 7], "{refusal:?}: applied once");
    }
}

#[tokio::test]
async fn what_the_store_refuses_for_a_reason_of_its_own_is_passed_on() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{TIDY}{regime}")).await;
        assert_eq!(proxy.token(6).put("k", "one").await.short(), "200");
        for (status, code) in [(403, "AccessDenied"), (400, "InvalidRequest"), (507, "NoSpace")] {
            backend.faults().add(on_data(Effect::Status(status, code), Method::PUT));
            let answer = proxy.token(7).put("k", "two").await;
            let wanted = match status {
                507 => "503 FenceOutcomeUnknown".to_owned(),
                _ => format!("{status} {code}"),
            };
            assert_eq!(answer.short(), wanted, "{profile}");
        }
        assert_eq!(tokens(&backend, "k"), [6], "{profile}");
        assert_eq!(proxy.token(7).put("k", "three").await.short(), "200", "{profile}");
    })
    .await;
}

/// A success without the object's new ETag leaves open what is there now; it is looked up.
#[tokio::test]
async fn an_answer_that_is_cut_in_its_body_is_an_answer_that_is_lost() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(TIDY).await;
    // A PUT's answer has no body: its head is whole, and that is all that counts.
    backend.faults().add(on_data(Effect::CutBody, Method::PUT));
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    assert_eq!(tokens(&backend, "k"), [7]);
}

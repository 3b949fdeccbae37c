//! The SeaweedFS that `tests/support/seaweedfs.py` has started.

use fencepost::config::Environment;

const ENDPOINT: &str = "FENCEPOST_TEST_SEAWEEDFS";

/// Where it answers, and the key pair that it knows.
pub(super) struct SeaweedFs {
    pub(super) endpoint: String,
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
}

/// The store, or `None` with a printed reason: a person need not have it, CI has to.
///
/// # Panics
///
/// When `CI` is set and the store is not.
pub(super) fn find() -> Option<SeaweedFs> {
    let environment = Environment::of_process();
    let given = |suffix: &str| environment.get(&format!("{ENDPOINT}{suffix}")).map(str::to_owned);
    let Some(endpoint) = given("") else {
        let how = "python tests/support/seaweedfs.py -- cargo test";
        assert!(!in_ci(), "{ENDPOINT} is not set, and in CI it has to be; run: {how}");
        println!("skipped over SeaweedFS: {ENDPOINT} is not set; run: {how}");
        return None;
    };
    Some(SeaweedFs {
        endpoint,
        access_key_id: given("_ACCESS_KEY").unwrap(),
        secret_access_key: given("_SECRET_KEY").unwrap(),
    })
}

#[expect(clippy::disallowed_methods, reason = "it is no setting of the program's")]
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// How long `tests/hammer.rs` goes on, in seconds, if somebody says so.
pub(crate) fn hammer_seconds() -> Option<u64> {
    Environment::of_process().get("FENCEPOST_TEST_HAMMER_SECONDS").map(|text| text.parse().unwrap())
}

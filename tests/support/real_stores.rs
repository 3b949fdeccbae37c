//! The real stores that the programs `tests/support/{seaweedfs,ministack,ceph}.py` have started.

use fencepost::config::Environment;

/// Where a store answers, and the key pair that it knows.
pub(super) struct RealStore {
    pub(super) endpoint: String,
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
}

/// SeaweedFS, or `None` with a printed reason: a person need not have it, CI has to.
///
/// # Panics
///
/// When `CI` is set and the store is not.
pub(super) fn seaweedfs() -> Option<RealStore> {
    const ENDPOINT: &str = "FENCEPOST_TEST_SEAWEEDFS";
    let found = find(ENDPOINT);
    if found.is_none() {
        let how = "python tests/support/seaweedfs.py -- cargo test";
        assert!(!in_ci(), "{ENDPOINT} is not set, and in CI it has to be; run: {how}");
        println!("skipped over SeaweedFS: {ENDPOINT} is not set; run: {how}");
    }
    found
}

/// MiniStack, or `None` with a printed reason: `.ci/run stores` starts it.
pub(super) fn ministack() -> Option<RealStore> {
    by_the_step_stores("MiniStack", "FENCEPOST_TEST_MINISTACK")
}

/// Ceph RGW, or `None` with a printed reason: `.ci/run stores` starts it.
pub(super) fn ceph() -> Option<RealStore> {
    by_the_step_stores("Ceph", "FENCEPOST_TEST_CEPH")
}

fn by_the_step_stores(name: &str, endpoint: &str) -> Option<RealStore> {
    let found = find(endpoint);
    if found.is_none() {
        println!("skipped over {name}: {endpoint} is not set; run: bash .ci/run stores");
    }
    found
}

fn find(variable: &str) -> Option<RealStore> {
    let environment = Environment::of_process();
    let given = |suffix: &str| environment.get(&format!("{variable}{suffix}")).map(str::to_owned);
    Some(RealStore {
        endpoint: given("")?,
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

//! The store behind the proxies of one test.

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Region, StalledStreamProtectionConfig};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use fencepost::clock;
use fencepost::config::{Config, ConfigFile, Purpose, Sources, TrustedBackend};
use fencepost::devstore::{
    Change, DevStore, DevStoreBuilder, Faults, HISTORY_CHANGES_MAX, Profile, RunningStore,
};
use fencepost::doctor::Unwatched;
use fencepost::doctor::report::Report;
use fencepost::fence::{Intent, Rules, Snapshot};
use fencepost::ledger::{Ledger as _, ObjectLedger, ObjectLedgerConfig, Scope};
use fencepost::s3::{Bucket, EtagQuotes, ObjectKey};
use fencepost::server::examine::{ExamineError, Options, examine, save};
use fencepost::server::{Server, StartError, Store, store};

use super::real_stores::{self, RealStore};
use super::{Proxy, S3};

/// The data bucket on the embedded store.
pub(crate) const DATA: &str = "data";

/// The ledger bucket on the embedded store.
pub(crate) const LEDGER: &str = "fencepost-ledger";

/// A store.
pub(crate) struct Backend {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    pub(crate) ledger: String,
    access_key_id: String,
    secret_access_key: String,
    /// What every proxy in front of it needs to be told.
    settings: &'static str,
    /// Whether proxies look into data buckets before they write there.
    looks: bool,
    embedded: Option<RunningStore>,
}

impl Backend {
    /// An embedded store in memory, its history on, with an empty data bucket.
    pub(crate) async fn embedded(profile: Profile) -> Self {
        Self::built(DevStore::builder().profile(profile)).await
    }

    /// The same with other settings.
    pub(crate) async fn built(builder: DevStoreBuilder) -> Self {
        let running = builder.history(true).build().unwrap().start().await.unwrap();
        let store = running.store();
        store.create_bucket(DATA).await.unwrap();
        store.create_bucket(LEDGER).await.unwrap();
        Self {
            endpoint: running.endpoint(),
            bucket: DATA.into(),
            ledger: LEDGER.into(),
            access_key_id: store.access_key_id().into(),
            secret_access_key: store.secret_access_key().into(),
            settings: "",
            looks: false,
            embedded: Some(running),
        }
    }

    /// The same, as users have it: before the first fenced write to a bucket a proxy asks it whether
    /// it keeps versions, and tries in it what nobody has. The embedded store's buckets are known,
    /// so that tests of other things do without, and see what *they* have sent; over real stores
    /// every test has it.
    pub(crate) fn looking(self) -> Self {
        Self { looks: true, ..self }
    }

    /// The SeaweedFS beside the test, with buckets of this test's own; `None`, and the reason is
    /// printed, where there is none.
    pub(crate) async fn seaweedfs() -> Option<Self> {
        Some(Self::beside(real_stores::seaweedfs()?).await)
    }

    /// The same with the MiniStack beside the test. It takes signatures of any age, which a proxy
    /// starts in front of only when told to (F9).
    pub(crate) async fn ministack() -> Option<Self> {
        let backend = Self::beside(real_stores::ministack()?).await;
        let settings = "backend.unsafe_trust_backend = [\"expiry\"]\n";
        Some(Self { settings, ..backend })
    }

    /// The same with the Ceph RGW beside the test. A DELETE there can be undone by a PUT that has
    /// looked before, which a proxy refuses to fence unless told to; the tests do not race the two.
    pub(crate) async fn ceph() -> Option<Self> {
        let backend = Self::beside(real_stores::ceph()?).await;
        let settings = "backend.unsafe_trust_backend = [\"exclusion\"]\n";
        Some(Self { settings, ..backend })
    }

    async fn beside(found: RealStore) -> Self {
        let name = format!("test-{:08x}", clock::random_u128() as u32);
        let backend = Self {
            endpoint: found.endpoint,
            ledger: format!("{name}-ledger"),
            bucket: name,
            access_key_id: found.access_key_id,
            secret_access_key: found.secret_access_key,
            settings: "",
            looks: true,
            embedded: None,
        };
        for bucket in [&backend.bucket, &backend.ledger] {
            backend.sdk(None).create_bucket().bucket(bucket).send().await.unwrap();
        }
        backend
    }

    /// The same store, reached by another way.
    pub(crate) fn by_way_of(&self, endpoint: String) -> Self {
        Self {
            endpoint,
            bucket: self.bucket.clone(),
            ledger: self.ledger.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            settings: self.settings,
            looks: self.looks,
            embedded: None,
        }
    }

    /// The same store with another ledger bucket.
    pub(crate) fn with_ledger(&self, bucket: &str) -> Self {
        Self { ledger: bucket.to_owned(), ..self.by_way_of(self.endpoint.clone()) }
    }

    /// The embedded store.
    pub(crate) fn store(&self) -> &DevStore {
        self.embedded.as_ref().expect("the store is embedded").store()
    }

    /// The embedded store's faults.
    pub(crate) fn faults(&self) -> &Faults {
        self.store().faults()
    }

    /// What happened in the data bucket since the store was started, oldest first; `None` where a
    /// real store keeps it to itself.
    pub(crate) fn whole_history(&self) -> Option<Vec<Change>> {
        let history = self.embedded.as_ref()?.store().history();
        assert!(history.len() < HISTORY_CHANGES_MAX, "its beginning is gone");
        let ours = |change: &Change| change.bucket == self.bucket;
        Some(history.into_iter().filter(ours).collect())
    }

    /// What happened to one key of the data bucket, oldest first.
    pub(crate) fn history(&self, key: &str) -> Vec<Change> {
        let ours = |change: &Change| change.bucket == self.bucket && change.key == key;
        self.store().history().into_iter().filter(ours).collect()
    }

    /// The bytes of an object of the data bucket, read past the wire.
    pub(crate) async fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let object = self.store().object(&self.bucket, key).await.unwrap();
        object.map(|object| object.body.to_vec())
    }

    /// The store's answers end here: the process is gone.
    pub(crate) fn stop_store(&mut self) {
        drop(self.embedded.take());
    }

    /// The AWS SDK's client, straight to the store unless another endpoint is given.
    pub(crate) fn sdk(&self, endpoint: Option<String>) -> Client {
        self.sdk_with_token(endpoint, None)
    }

    /// The same with a fencing token as its session token.
    pub(crate) fn sdk_with_token(&self, endpoint: Option<String>, token: Option<u64>) -> Client {
        let http = aws_smithy_http_client::Builder::new().build_http();
        self.sdk_over(http, endpoint.unwrap_or_else(|| self.endpoint.clone()), token)
    }

    /// The same over another HTTP client.
    pub(crate) fn sdk_over(
        &self,
        http: SharedHttpClient,
        endpoint: String,
        token: Option<u64>,
    ) -> Client {
        let token = token.map(|token| format!("fence:{token}"));
        let credentials =
            Credentials::new(&self.access_key_id, &self.secret_access_key, token, None, "test");
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials)
            .http_client(http)
            .retry_config(RetryConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .endpoint_url(endpoint)
            .force_path_style(true);
        Client::from_conf(config.build())
    }

    /// The key pair that the store knows: its id, and its secret.
    pub(crate) fn key_pair(&self) -> (&str, &str) {
        (&self.access_key_id, &self.secret_access_key)
    }

    /// A client that signs by itself, for any address that knows the store's key pair.
    pub(crate) fn s3(&self, address: std::net::SocketAddr) -> S3 {
        S3::new(address, &self.access_key_id, &self.secret_access_key, &self.bucket)
    }

    /// The same, straight to the store.
    pub(crate) fn direct(&self) -> S3 {
        self.s3(self.endpoint.strip_prefix("http://").unwrap().parse().unwrap())
    }

    /// Where its ledger's records are, read from the store itself.
    pub(crate) fn records(&self) -> ObjectLedger {
        let config = ObjectLedgerConfig {
            bucket: self.ledger.clone(),
            prefix: String::new(),
            quotes: EtagQuotes::Quoted,
            region: "us-east-1".into(),
        };
        ObjectLedger::new(self.sdk(None), config)
    }

    /// The scope of one key of the data bucket.
    pub(crate) fn scope(&self, key: &str) -> Scope {
        Scope::object(Bucket::new(&self.bucket), ObjectKey::new(key).unwrap())
    }

    /// The record of one key.
    pub(crate) async fn record(&self, key: &str) -> Snapshot {
        self.records().load(&self.scope(key)).await.unwrap()
    }

    /// The intents in the record of one key.
    pub(crate) async fn intents(&self, key: &str) -> Vec<Intent> {
        self.record(key).await.intents().to_vec()
    }

    /// The keys of the data bucket.
    pub(crate) async fn objects(&self) -> Vec<String> {
        self.objects_in(&self.bucket).await
    }

    /// The keys of a bucket, as the store lists them.
    pub(crate) async fn objects_in(&self, bucket: &str) -> Vec<String> {
        let listed = self.sdk(None).list_objects_v2().bucket(bucket).send().await.unwrap();
        listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }

    /// A proxy in front of the store, with the settings of this TOML text over the defaults.
    pub(crate) async fn proxy(&self, settings: &str) -> Proxy {
        self.try_proxy(settings, Rules::ALL).await.unwrap()
    }

    /// Two of them, started at the same time.
    pub(crate) async fn proxies(&self, settings: &str) -> (Proxy, Proxy) {
        tokio::join!(self.proxy(settings), self.proxy(settings))
    }

    /// A proxy with other rules in force.
    pub(crate) async fn proxy_with(&self, settings: &str, rules: Rules) -> Proxy {
        self.try_proxy(settings, rules).await.unwrap()
    }

    /// The same, which may fail.
    pub(crate) async fn try_proxy(
        &self,
        settings: &str,
        rules: Rules,
    ) -> Result<Proxy, StartError> {
        let (config, store) = self.configured(settings)?;
        let server = Server::start_with(&config, store, rules).await?;
        Ok(Proxy::run(server, self))
    }

    /// An examination of the data bucket.
    pub(crate) async fn examine(
        &self,
        settings: &str,
        options: Options,
    ) -> Result<Report, ExamineError> {
        let (config, store) = self.configured(settings).unwrap();
        examine(&config, &store, options, &Unwatched).await
    }

    /// Keeps a report in the ledger bucket, for proxies to plan by.
    pub(crate) async fn keep(&self, report: &Report) {
        let (config, store) = self.configured("").unwrap();
        save(&config, &store, report).await.unwrap();
    }

    fn configured(&self, settings: &str) -> Result<(Config, Store), StartError> {
        let file =
            ConfigFile { name: "test.toml".into(), text: format!("{}{settings}", self.settings) };
        let sources = Sources { file: Some(file), ..Sources::default() };
        let mut config = Config::load(&sources, Purpose::Other).unwrap();
        config.listen.set_port(0);
        let trusts = &mut config.backend.unsafe_trust_backend;
        if !self.looks && trusts.is_empty() {
            trusts.extend([TrustedBackend::Versions, TrustedBackend::Tags]);
        }
        config.admin_listen.set_port(0);
        if self.ledger != config.ledger.bucket.as_str() {
            let text = format!("[ledger]\nbucket = \"{}\"\n", self.ledger);
            let file = ConfigFile { name: "ledger.toml".into(), text };
            let sources = Sources { file: Some(file), ..Sources::default() };
            config.ledger.bucket = Config::load(&sources, Purpose::Other).unwrap().ledger.bucket;
        }
        let credentials =
            Credentials::new(&self.access_key_id, &self.secret_access_key, None, None, "test");
        let store = Store {
            url: self.endpoint.parse().unwrap(),
            credentials: SharedCredentialsProvider::new(credentials),
            http: match config.backend.ca_file.as_deref() {
                Some(ca_file) => store::sdk_http_client(Some(ca_file))?,
                None => aws_smithy_http_client::Builder::new().build_http(),
            },
        };
        Ok((config, store))
    }
}

//! Building a store, running it, and looking into it from the same process.

use super::access::Access;
use super::clock::StoreClock;
use super::disk::{Disk, Medium};
use super::faults::{Faults, Rule};
use super::gcs::Gcs;
use super::history::{Change, History};
use super::index::Index;
use super::ops::Operations;
use super::pace::Pace;
use super::profile::{Dialect, Profile};
use super::serve::{Server, Serving};
use super::store::Store;
use bytes::Bytes;
use s3s::S3Error;
use s3s::auth::SimpleAuth;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::S3ServiceBuilder;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;

/// The access key id of a store that was not given another.
pub const ACCESS_KEY_ID: &str = "fencepost-dev";

/// The secret access key of a store that was not given another. Not a secret.
pub const SECRET_ACCESS_KEY: &str = "fencepost-dev-secret-access-key";

/// How long a request's body may stop arriving, unless told otherwise.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a store.
#[derive(Debug)]
pub struct DevStoreBuilder {
    profile: Profile,
    data_dir: Option<PathBuf>,
    access_key_id: String,
    secret_access_key: String,
    history: bool,
    clock_offset_ms: i64,
    body_idle_timeout: Duration,
    race_window: Option<Duration>,
    write_interval: Option<Duration>,
    faults: Faults,
}

impl Default for DevStoreBuilder {
    fn default() -> Self {
        Self {
            profile: Profile::Aws,
            data_dir: None,
            access_key_id: ACCESS_KEY_ID.to_owned(),
            secret_access_key: SECRET_ACCESS_KEY.to_owned(),
            history: false,
            clock_offset_ms: 0,
            body_idle_timeout: BODY_IDLE_TIMEOUT,
            race_window: None,
            write_interval: None,
            faults: Faults::default(),
        }
    }
}

impl DevStoreBuilder {
    /// Which store it behaves like; [`Profile::Aws`] unless told otherwise.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Keeps everything in this directory, created where it is missing. In memory unless told.
    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// The one key pair that may sign; any region is accepted.
    #[must_use]
    pub fn credentials(mut self, access_key_id: &str, secret_access_key: &str) -> Self {
        access_key_id.clone_into(&mut self.access_key_id);
        secret_access_key.clone_into(&mut self.secret_access_key);
        self
    }

    /// Keeps a log of every change; off unless told.
    #[must_use]
    pub fn history(mut self, on: bool) -> Self {
        self.history = on;
        self
    }

    /// Shifts the store's clock by so many milliseconds, negative for a clock that is behind.
    #[must_use]
    pub fn clock_offset_ms(mut self, offset_ms: i64) -> Self {
        self.clock_offset_ms = offset_ms;
        self
    }

    /// Cuts a request whose body has not gone on arriving for this long; 60 s unless told.
    #[must_use]
    pub fn body_idle_timeout(mut self, timeout: Duration) -> Self {
        self.body_idle_timeout = timeout;
        self
    }

    /// How long [`Profile::Racy`] and [`Profile::Ceph`] wait between looking and acting; 25 ms and
    /// 3 ms unless told. No other profile waits.
    #[must_use]
    pub fn race_window(mut self, window: Duration) -> Self {
        self.race_window = Some(window);
        self
    }

    /// The shortest time between two writes of one key, zero for none: a second for
    /// [`Profile::R2`], none for the others unless told. Faster ones are refused with a 429
    /// (`TooManyRequests`, `SlowDown` of [`Profile::Gcs`]).
    #[must_use]
    pub fn write_interval(mut self, interval: Duration) -> Self {
        self.write_interval = Some(interval);
        self
    }

    /// A fault that is there from the start.
    #[must_use]
    pub fn fault(self, rule: Rule) -> Self {
        self.faults.add(rule);
        self
    }

    /// Holds every request back this long before executing it.
    #[must_use]
    pub fn latency(self, latency: Duration) -> Self {
        self.faults.set_latency(latency);
        self
    }

    /// Builds the store, reading its data directory if it has one.
    ///
    /// # Errors
    ///
    /// The directory is in use by another store, cannot be read or written, or is damaged.
    pub fn build(self) -> io::Result<DevStore> {
        let (medium, index) = match &self.data_dir {
            None => (Medium::Memory, Index::default()),
            Some(directory) => {
                let (disk, index) = Disk::open(directory)?;
                (Medium::Disk(disk), index)
            }
        };
        let behaviour = self.profile.behaviour();
        let store = Arc::new(Store {
            profile: self.profile,
            behaviour,
            pace: Pace::new(
                self.write_interval.unwrap_or(behaviour.write_interval),
                behaviour.too_fast,
            ),
            clock: StoreClock::new(self.clock_offset_ms),
            history: History::new(self.history),
            medium,
            race_window: self.race_window,
            index: Mutex::new(index),
        });
        let mut service = S3ServiceBuilder::new(Operations { store: store.clone() });
        service.set_auth(SimpleAuth::from_single(
            self.access_key_id.clone(),
            self.secret_access_key.clone(),
        ));
        service.set_access(Access { store: store.clone() });
        let mut config = S3Config::default();
        // Judged by the store's own clock instead; see `access`.
        config.presigned_url_max_skew_time_secs = u32::MAX;
        service.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let gcs = match behaviour.dialect {
            Dialect::S3 => None,
            Dialect::Gcs => Some(Gcs::new(&self.access_key_id, &self.secret_access_key)),
        };
        let server = Server {
            store,
            gcs,
            service: service.build(),
            faults: self.faults,
            body_idle_timeout: self.body_idle_timeout,
        };
        Ok(DevStore {
            server: Arc::new(server),
            access_key_id: self.access_key_id.into(),
            secret_access_key: self.secret_access_key.into(),
        })
    }
}

/// A store. Cloning gives another handle to the same one; a data directory is let go with the
/// last handle.
#[derive(Clone)]
pub struct DevStore {
    server: Arc<Server>,
    access_key_id: Arc<str>,
    secret_access_key: Arc<str>,
}

impl fmt::Debug for DevStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevStore")
            .field("profile", &self.server.store.profile)
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// An object as it is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The entity tag without quotes.
    pub etag: String,
    /// The version id; `"null"` without versioning.
    pub version_id: String,
    /// The user metadata, names in lower case without `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// When it was written, by the store's clock.
    pub modified: SystemTime,
    /// The bytes.
    pub body: Bytes,
}

impl DevStore {
    /// The settings of a store in memory that behaves like Amazon S3.
    #[must_use]
    pub fn builder() -> DevStoreBuilder {
        DevStoreBuilder::default()
    }

    /// A store in memory with its history on, served on a free loopback port.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub async fn start_for_test(profile: Profile) -> io::Result<RunningStore> {
        Self::builder().profile(profile).history(true).build()?.start().await
    }

    /// Serves the store on a free loopback port.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub async fn start(&self) -> io::Result<RunningStore> {
        self.serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
    }

    /// Serves the store on a listener. A store may be served on several.
    ///
    /// # Errors
    ///
    /// The listener's address cannot be read.
    pub fn serve(&self, listener: TcpListener) -> io::Result<RunningStore> {
        let serving = Serving::start(self.server.clone(), listener)?;
        Ok(RunningStore { store: self.clone(), serving })
    }

    /// The faults, to be switched while the store runs.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Every change so far, oldest first; empty when the history is off.
    #[must_use]
    pub fn history(&self) -> Vec<Change> {
        self.server.store.history.snapshot()
    }

    /// Shifts the store's clock from now on; see [`DevStoreBuilder::clock_offset_ms`].
    pub fn set_clock_offset_ms(&self, offset_ms: i64) {
        self.server.store.clock.set_offset_ms(offset_ms);
    }

    /// Lets requests with this OAuth token in until it expires, by the store's clock; of an effect
    /// with [`Profile::Gcs`] only. Said again, the last word counts.
    pub fn add_bearer_token(&self, token: &str, expires: SystemTime) {
        if let Some(gcs) = &self.server.gcs {
            gcs.add_token(token, expires);
        }
    }

    /// The access key id that requests are signed with.
    #[must_use]
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// The secret access key that requests are signed with.
    #[must_use]
    pub fn secret_access_key(&self) -> &str {
        &self.secret_access_key
    }

    /// Creates a bucket; one that exists is left as it is.
    ///
    /// # Errors
    ///
    /// The name is none that Amazon S3 allows, or it cannot be saved.
    pub async fn create_bucket(&self, name: &str) -> io::Result<()> {
        if !s3s::path::check_bucket_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a bucket name"));
        }
        let name = name.to_owned();
        let create = move |index: &mut Index, store: &Store| match index.bucket(&name) {
            Ok(_) => Ok(()),
            Err(_) => index.create_bucket(store, &name),
        };
        self.server.store.write(create).await.map_err(io_error)
    }

    /// The current version of an object, read past wire and faults; `None` when there is none.
    ///
    /// # Errors
    ///
    /// Its bytes cannot be read.
    pub async fn object(&self, bucket: &str, key: &str) -> io::Result<Option<StoredObject>> {
        let found = self.server.store.read(|index| {
            Ok(index.bucket(bucket).ok().and_then(|bucket| bucket.find(key, None).ok()))
        });
        let Some((version, content)) = found.map_err(io_error)? else { return Ok(None) };
        Ok(Some(StoredObject {
            body: content.body.read_all().await?,
            etag: content.etag,
            version_id: version.id.clone(),
            metadata: content.attributes.metadata,
            modified: version.modified,
        }))
    }
}

fn io_error(error: S3Error) -> io::Error {
    io::Error::other(error)
}

/// A store being served. Dropping it stops serving at once.
#[derive(Debug)]
pub struct RunningStore {
    store: DevStore,
    serving: Serving,
}

impl RunningStore {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.serving.addr
    }

    /// The URL to give to a client.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.serving.addr)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &DevStore {
        &self.store
    }

    /// Stops accepting, and lets requests in progress end for two seconds before cutting them.
    pub async fn shutdown(self) {
        self.serving.stop().await;
    }
}

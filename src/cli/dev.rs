//! `fencepost dev`: the proxy and an embedded store in one process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use clap::{Args, ValueEnum};
use fencepost::config::flags::CommonFlags;
use fencepost::config::{Config, Dialect};
use fencepost::devstore::{self, DevStore};
use fencepost::listener;
use fencepost::server::{Server, Store, store};

use super::healthcheck::reachable;
use super::serve::finish;
use super::{Failure, print};

/// Flags of `dev`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DevFlags {
    /// Keep the objects in this directory [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Which store the embedded one behaves like
    #[arg(long, value_enum, default_value_t = Profile::Aws)]
    pub(crate) profile: Profile,
    /// How long the store takes for every request, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) latency: u64,
    /// A fault of the store, once it has been examined: lose-answer, cut-before, cut-body,
    /// status=CODE, execute-then-status=CODE or delay=MS, and which requests it strikes, such as
    /// lose-answer,method=PUT,key=state/,times=2
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<devstore::Rule>,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

/// What the embedded store behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Amazon S3: conditional writes, ETags that repeat
    Aws,
    /// Amazon S3, directory bucket: every write has an ETag of its own, no versions
    AwsExpress,
    /// Amazon S3 with SSE-KMS: every write has an ETag of its own
    AwsKms,
    /// MinIO: DELETE and Copy ignore conditions, keys are paths
    Minio,
    /// Cloudflare R2: DELETE ignores conditions, a key is written once in a second
    R2,
    /// Ceph RGW 16: conditions on PUT alone, ETags without quotes, 500 for the losers of a race
    Ceph,
    /// Wasabi: ignores the conditions of writes; the proxy refuses it
    Wasabi,
    /// Garage: ignores the conditions of writes; the proxy refuses it
    Garage,
    /// DigitalOcean Spaces: conditions on PUT alone
    Spaces,
    /// Google Cloud Storage: conditions on generations; the proxy speaks its dialect
    Gcs,
    /// A store that ignores conditions; the proxy refuses it
    Liar,
    /// A store that checks conditions, then acts; the proxy refuses it
    Racy,
}

impl From<Profile> for devstore::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Aws => Self::Aws,
            Profile::AwsExpress => Self::AwsExpress,
            Profile::AwsKms => Self::AwsKms,
            Profile::Minio => Self::Minio,
            Profile::R2 => Self::R2,
            Profile::Ceph => Self::Ceph,
            Profile::Wasabi => Self::Wasabi,
            Profile::Garage => Self::Garage,
            Profile::Spaces => Self::Spaces,
            Profile::Gcs => Self::Gcs,
            Profile::Liar => Self::Liar,
            Profile::Racy => Self::Racy,
        }
    }
}

/// The bucket that is there from the start, so that the first command can write.
const FIRST_BUCKET: &str = "demo";

/// Runs until a signal ends it. The configuration has been checked and the log is set up;
/// `backend.url` is not needed.
pub(crate) async fn run(mut config: Config, flags: DevFlags) -> Result<(), Failure> {
    let stop = listener::termination()?;
    let embedded = build(&flags)?;
    embedded.create_bucket(FIRST_BUCKET).await?;
    let running = embedded.start().await?;
    config.ledger.create = true;
    if flags.profile == Profile::Gcs {
        config.backend.dialect = Dialect::Gcs;
    }
    let (id, secret) = (embedded.access_key_id(), embedded.secret_access_key());
    let credentials = Credentials::new(id, secret, None, None, "the embedded store");
    let store = Store {
        url: running.endpoint().parse()?,
        credentials: SharedCredentialsProvider::new(credentials),
        http: store::sdk_http_client(None)?,
    };
    let server = Server::start(&config, store).await?;
    // Only now: the examination is not what faults are for.
    embedded.faults().set_latency(Duration::from_millis(flags.latency));
    for rule in flags.faults.iter().cloned() {
        embedded.faults().add(rule);
    }
    let (data, admin) = (reachable(server.data_address()), reachable(server.admin_address()));
    let scheme = if config.tls.certificate_file.is_some() { "https" } else { "http" };
    let data = format!("{scheme}://{data}");
    print(&banner(&data, admin, id, secret, flags.data.as_deref()));
    finish(server, stop).await;
    running.shutdown().await;
    Ok(())
}

fn build(flags: &DevFlags) -> Result<DevStore, Failure> {
    let builder = DevStore::builder().profile(flags.profile.into());
    let Some(directory) = &flags.data else { return Ok(builder.build()?) };
    let context = |error| format!("the data in {} cannot be used: {error}", directory.display());
    Ok(builder.data_dir(directory).build().map_err(context)?)
}

/// What a person needs to begin: where it listens, then lines to paste, all of which run as they
/// stand (comments too, so that the whole can be pasted at once), and once more when they have
/// been pasted before: the tokens end where they begin.
fn banner(
    data: &str,
    admin: SocketAddr,
    id: &str,
    secret: &str,
    directory: Option<&Path>,
) -> String {
    let place = directory.map_or_else(
        || "in memory, gone when this process ends".to_owned(),
        |directory| format!("in {}", directory.display()),
    );
    format!(
        "
fencepost dev: a fenced S3 store, until Ctrl-C

  S3     {data}   with a bucket \"{FIRST_BUCKET}\", {place}
  admin  http://{admin}   /metrics /livez /readyz

Paste into another shell:

export AWS_ACCESS_KEY_ID={id}
export AWS_SECRET_ACCESS_KEY={secret}
export AWS_ENDPOINT_URL={data}
export AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
unset AWS_SESSION_TOKEN

# aws-cli: the holder of the lock writes with its token, 34. Any S3 client can send a session token.
echo 'by 34' | AWS_SESSION_TOKEN=fence:34 aws s3 cp - s3://{FIRST_BUCKET}/state

# curl: the holder before it, which has lost the lock, comes late with 33: 409 StaleFenceToken ...
curl -sS -i -X PUT --data-binary 'by 33' --aws-sigv4 aws:amz:us-east-1:s3 \\
  --user \"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY\" \\
  -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -H 'X-Fence-Token: 33' \\
  \"$AWS_ENDPOINT_URL/{FIRST_BUCKET}/state\"; echo

# ... and the object is still what 34 wrote.
aws s3 cp s3://{FIRST_BUCKET}/state -

# boto3: the holder of the lock goes on.
AWS_SESSION_TOKEN=fence:34 python3 -c \"
import boto3
s3 = boto3.client('s3')
s3.put_object(Bucket='{FIRST_BUCKET}', Key='state', Body=b'by 34 again')
print(s3.get_object(Bucket='{FIRST_BUCKET}', Key='state')['Body'].read())\"

# How often the fence has refused a write, and why.
curl -sS http://{admin}/metrics | grep ^fence_rejected_total
"
    )
}

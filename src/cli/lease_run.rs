//! `fencepost lease run`: a command that runs while a lease is held.
//!
//! ```text
//!   acquire ──► start the command ──► it ends ──────────────► release ──► its exit code
//!                  │          ▲          ▲
//!                  │ signals ─┘          │ SIGTERM
//!                  └─► renew every ttl/3 ┴─ lost, or over by this process's clock
//! ```
//!
//! The end of the lease is counted on this process's monotonic clock, from before the request was
//! sent that acquired or renewed it, so that it never lies behind the end that the proxy knows. It
//! is a courtesy to end the command then. What protects the data is the fence.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use fencepost::client::{Acquired, ClientError, Code, DataClient, Grant, Location};
use fencepost::clock;

use super::child::{Child, Signals, StartError, Variable};
use super::lease::LeaseFlags;
use super::remote::{Proxy, after};
use super::{Failure, exit, print_error, with_sources};

pub(crate) const HELP: &str = "\
Examples:
  export AWS_ENDPOINT_URL=http://127.0.0.1:9000
  fencepost lease run s3://warehouse/orders/ -- aws s3 sync out/ s3://warehouse/orders/
  fencepost lease run s3://jobs/nightly --ttl 1m --wait 0 -- ./nightly.sh

The command finds in its environment
  AWS_SESSION_TOKEN=fence:<n>  with which every S3 client writes with the lease's token; beside it
                               the key pair, where that was not in the environment already
  FENCE_TOKEN=<n>              the token alone
  FENCE_SCOPE                  the scope, such as s3://warehouse/orders/*

The lease is renewed every third of --ttl as long as the command runs, and released when it ends.
When the lease is lost (somebody has reset or taken it, or the proxy could not be reached until it
ended), the command gets SIGTERM. That is a courtesy, and no more: this process may be stopped as
well, and the command may go on. The fence is the safety: what is written with the old token after
the next holder has come is refused, whoever writes it.

SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on. Without a terminal the command gets a process
group of its own, and signals go to the whole group, so that they reach what a shell script has
started. In the foreground of a terminal it stays in this process's group, so that it can read from
the terminal; Ctrl-C reaches it from there and is not passed on a second time, and other signals go
to the command alone. A signal that is ignored at the start stays ignored, by both. When this
process is killed, the command goes on without it.

Exit codes: the command's own; 128+n when signal n has ended it; and
   69  the lease could not be acquired: the proxy cannot be reached, or cannot do it now
   73  the lease could not be acquired: somebody else had it for as long as --wait
   75  the lease was lost while the command ran, whatever the command's own code
   77  the lease could not be acquired: the credentials are missing, wrong or not enough
  126  the command cannot be started        127  the command was not found
    1  refused for another reason             2  the command line is wrong";

/// A failed renewal is tried again after this, or a tenth of what the lease lasts if that is less.
const RENEWAL_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long one renewal may take, even if the lease lasts longer: another connection may fare
/// better.
const RENEWAL_MAX: Duration = Duration::from_secs(10);

/// How long the release may take. Whoever waits for the lease waits as long, or for its end.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// Flags of `lease run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    lease: LeaseFlags,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// A lease, as this process knows it.
struct Held {
    client: DataClient,
    location: Location,
    grant: Grant,
    ttl_seconds: u64,
    /// When the request was sent that the grant is the answer to.
    asked_at: Instant,
}

/// How a lease ended before the command did.
enum Lost {
    /// It is another's, or nobody's.
    Refused(ClientError),
    /// It was over before it could be renewed, for the last of these reasons.
    Over(Option<ClientError>),
}

/// Runs the command. Its exit code, or that of what went wrong.
pub(crate) async fn run(flags: RunFlags) -> Result<ExitCode, Failure> {
    let until = after(flags.lease.wait);
    let mut signals = Signals::listen()?;
    let proxy = flags.lease.proxy.connect().await?;
    let acquired = tokio::select! {
        held = acquire(&proxy, &flags.lease, until) => Ok(held?),
        signal = signals.next() => Err(signal),
    };
    let mut held = match acquired {
        Ok(held) => held,
        // What was asked for may be granted yet, and then ends by itself.
        Err(signal) => return Ok(ExitCode::from(signal.exit_code())),
    };
    let variables = variables(&held.grant, &proxy);
    let child = match Child::start(&flags.command, &variables) {
        Ok(child) => child,
        Err(error) => {
            held.release().await;
            return Ok(cannot_start(&error));
        }
    };
    let code = attend(child, &mut held, &mut signals).await?;
    Ok(ExitCode::from(code))
}

/// Waits for the end of the command, and meanwhile renews and passes signals on. The lease is
/// released then, unless it was lost.
async fn attend(mut child: Child, held: &mut Held, signals: &mut Signals) -> Result<u8, Failure> {
    let lost = {
        let mut renewed = std::pin::pin!(held.renew());
        loop {
            tokio::select! {
                // A command that has ended has not ended because of a lost lease.
                biased;
                code = child.wait() => break Ok(code?),
                signal = signals.next() => child.pass_on(signal),
                lost = &mut renewed => break Err(lost),
            }
        }
    };
    let lost = match lost {
        Ok(code) => {
            held.release().await;
            return Ok(code);
        }
        Err(lost) => lost,
    };
    child.terminate();
    print_error(&format!(
        "the lease of {}, token {}, is lost: {}\nThe command was sent SIGTERM.",
        held.location,
        held.grant.token,
        lost.reason()
    ));
    loop {
        tokio::select! {
            code = child.wait() => {
                code?;
                return Ok(exit::LOST);
            }
            signal = signals.next() => child.pass_on(signal),
        }
    }
}

/// Acquires a lease of which so much is left that the command can begin.
async fn acquire(proxy: &Proxy, flags: &LeaseFlags, until: Instant) -> Result<Held, ClientError> {
    loop {
        let asked = flags.asked();
        let Acquired { grant, asked_at } =
            proxy.client.acquire(&flags.location, &asked, until).await?;
        let mut held = Held {
            client: proxy.client.clone(),
            location: flags.location.clone(),
            grant: grant.value,
            ttl_seconds: asked.ttl_seconds,
            asked_at,
        };
        if clock::monotonic() < held.renewal_at() {
            return Ok(held);
        }
        // The request has waited for somebody else's lease to end, and by this process's clock,
        // which began before it, not much is left.
        match held.renew_once().await {
            Ok(()) => return Ok(held),
            Err(error) if error.code() == Some(Code::LeaseLost) && clock::monotonic() < until => {}
            Err(error) => {
                held.release().await;
                return Err(error);
            }
        }
    }
}

impl Held {
    /// By this process's clock, when it is over.
    fn ends_at(&self) -> Instant {
        self.asked_at + self.grant.lasts()
    }

    /// When it is to be renewed: a third of its life before, so that two failures are survived.
    fn renewal_at(&self) -> Instant {
        self.asked_at + self.grant.lasts() / 3
    }

    /// Renews until the lease is lost.
    async fn renew(&mut self) -> Lost {
        let mut failed: Option<ClientError> = None;
        loop {
            let pause = self.grant.lasts() / 10;
            let next = match failed {
                None => self.renewal_at(),
                Some(_) => clock::monotonic() + pause.min(RENEWAL_PAUSE_MAX),
            };
            tokio::time::sleep_until(next.min(self.ends_at()).into()).await;
            if clock::monotonic() >= self.ends_at() {
                return Lost::Over(failed);
            }
            match self.renew_once().await {
                Ok(()) => failed = None,
                Err(error) => match error.code() {
                    Some(Code::LeaseLost | Code::Stale) => return Lost::Refused(error),
                    _ => {
                        if failed.is_none() {
                            print_error(&format!(
                                "the lease of {} could not be renewed yet: {}",
                                self.location,
                                with_sources(&error)
                            ));
                        }
                        failed = Some(error);
                    }
                },
            }
        }
    }

    /// Renews, in one request that is over before the lease is.
    async fn renew_once(&mut self) -> Result<(), ClientError> {
        let asked_at = clock::monotonic();
        let left = self.ends_at().saturating_duration_since(asked_at);
        // Over by this process's clock, it may still be held: the proxy knows.
        let most = (self.grant.lasts() / 3).clamp(Duration::from_secs(1), RENEWAL_MAX);
        let timeout = if left.is_zero() { most } else { most.min(left) };
        let ttl = Some(self.ttl_seconds);
        let grant = self.client.renew(&self.location, &self.grant.id, ttl, timeout).await?;
        self.grant = grant.value;
        self.asked_at = asked_at;
        Ok(())
    }

    /// Gives the lease back. A failure delays others until its end, and nothing else.
    async fn release(&self) {
        let released = self.client.release(&self.location, &self.grant.id, RELEASE_MAX).await;
        let Err(error) = released else { return };
        let note = match error.code() {
            Some(Code::LeaseLost) => {
                "The lease had ended before the command did; writes may have been refused."
            }
            _ => "It ends by itself.",
        };
        print_error(&format!(
            "the lease of {}, token {}, could not be released: {}\n{note}",
            self.location,
            self.grant.token,
            with_sources(&error)
        ));
    }
}

impl Lost {
    fn reason(&self) -> String {
        match self {
            Self::Refused(error) => with_sources(error),
            Self::Over(None) => "it was over before it could be renewed".to_owned(),
            Self::Over(Some(error)) => {
                format!("it could not be renewed until it was over: {}", with_sources(error))
            }
        }
    }
}

/// What the command finds in its environment.
fn variables(grant: &Grant, proxy: &Proxy) -> Vec<Variable> {
    let mut variables = vec![
        ("AWS_SESSION_TOKEN", format!("fence:{}", grant.token)),
        ("FENCE_TOKEN", grant.token.to_string()),
        ("FENCE_SCOPE", grant.scope.clone()),
    ];
    if let Some(keys) = &proxy.key_pair_from_elsewhere {
        // A session token counts only beside a key pair from the environment.
        variables.push(("AWS_ACCESS_KEY_ID", keys.id.clone()));
        variables.push(("AWS_SECRET_ACCESS_KEY", keys.secret.clone()));
    }
    variables
}

fn cannot_start(error: &StartError) -> ExitCode {
    print_error(error);
    ExitCode::from(error.exit_code())
}

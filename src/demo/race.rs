//! The steps that the acts are made of. Each lets one thing happen and prints it.

use std::fmt::Write as _;
use std::io::Write;

use super::lock::LockService;
use super::process::Worker;
use super::stage::Stage;
use super::timeline::{Timeline, Who, seconds, short_etag};
use super::wire::Answer;
use super::{DemoError, Options};
use crate::devstore::RuleHandle;

/// The two workers of one act.
pub(super) struct Pair {
    pub(super) a: Worker,
    pub(super) b: Worker,
}

impl Pair {
    /// Ends both.
    pub(super) async fn end(self) -> Result<(), DemoError> {
        self.a.end().await?;
        self.b.end().await
    }
}

/// A write that is held up in the network while another worker has taken over and written.
pub(super) struct HeldUp {
    pub(super) tokens: [u64; 2],
    /// The ETag that the write expects.
    pub(super) expects: String,
    /// The answer to the other worker.
    pub(super) of_b: Answer,
    held: RuleHandle,
}

/// A performance: the stage, the lock service, the printed timeline.
pub(super) struct Performance<'a, W> {
    pub(super) options: &'a Options,
    pub(super) stage: &'a Stage,
    pub(super) lock: LockService,
    pub(super) timeline: Timeline<W>,
}

impl<W: Write + Send> Performance<'_, W> {
    /// Starts both workers on one object, each with its own way to the store.
    pub(super) async fn enter(
        &mut self,
        key: &str,
        door_of_a: String,
        door_of_b: String,
    ) -> Result<Pair, DemoError> {
        let program = &self.options.program;
        let role = |door| self.stage.role(door, self.lock.address(), key);
        let pair = Pair {
            a: Worker::start(program, "A", &role(door_of_a)).await?,
            b: Worker::start(program, "B", &role(door_of_b)).await?,
        };
        let (a, b) = (pair.a.id(), pair.b.id());
        self.timeline.begin();
        self.timeline.event(Who::A, &format!("is process {a}, and B is process {b}"));
        Ok(pair)
    }

    /// The first worker gets the lock.
    pub(super) async fn acquire(&mut self, worker: &mut Worker) -> Result<u64, DemoError> {
        worker.acquire().await?;
        let grant = worker.acquired().await?;
        self.timeline.granted(Who::worker(worker.name()), grant);
        Ok(grant.token)
    }

    /// The second worker asks for the lock, waits for the first one's lease to run out, and gets it.
    pub(super) async fn take_over(&mut self, worker: &mut Worker) -> Result<u64, DemoError> {
        let who = Who::worker(worker.name());
        worker.acquire().await?;
        let grant = {
            let mut acquired = std::pin::pin!(worker.acquired());
            loop {
                tokio::select! {
                    // What the service says of the wait comes before the grant that ends it.
                    biased;
                    event = self.lock.event() => self.timeline.lock_event(who, event?),
                    grant = &mut acquired => break grant?,
                }
            }
        };
        self.timeline.granted(who, grant);
        Ok(grant.token)
    }

    /// A worker looks at its lease, finds it good, and is stopped before its write leaves.
    pub(super) async fn pause_before_write(
        &mut self,
        worker: &mut Worker,
        body: &str,
    ) -> Result<(), DemoError> {
        let who = Who::worker(worker.name());
        let left = worker.lease_left().await?;
        if left.is_zero() {
            return Err(DemoError::LeaseOver);
        }
        self.timeline
            .event(who, &format!("looks: {} of its lease left, so it may write", seconds(left)));
        worker.stop().await?;
        // It finds the order when it goes on, and does not look at its lease again.
        worker.put(body, false).await?;
        self.timeline.event(who, "is stopped, its write not yet sent (SIGSTOP)");
        Ok(())
    }

    /// The stopped worker goes on, and its write goes out.
    pub(super) async fn come_back(&mut self, worker: &mut Worker) -> Result<Answer, DemoError> {
        worker.resume()?;
        self.timeline.event(Who::worker(worker.name()), "goes on (SIGCONT) and writes");
        self.answered(worker).await
    }

    /// A writes `before`, and begins to write `after`; that request gets stuck just before the
    /// store. B takes over, and writes `before` again.
    pub(super) async fn hold_up(
        &mut self,
        key: &str,
        pair: &mut Pair,
        (before, after): (&str, &str),
        if_match: bool,
    ) -> Result<HeldUp, DemoError> {
        let token_of_a = self.acquire(&mut pair.a).await?;
        let first = self.write(&mut pair.a, before, false).await?;
        let held = self.stage.hold_put(key);
        self.begin_write(&mut pair.a, after, if_match).await?;
        tokio::select! {
            () = held.wait_parked(1) => {}
            answer = pair.a.answered() => return Err(DemoError::NotHeld(answer?.to_string())),
        }
        self.timeline.event(Who::Network, "holds A's request up, just before the store");
        let token_of_b = self.take_over(&mut pair.b).await?;
        let of_b = self.write(&mut pair.b, before, if_match).await?;
        let expects = first.etag.unwrap_or_default();
        Ok(HeldUp { tokens: [token_of_a, token_of_b], expects, of_b, held })
    }

    /// The write that was held up arrives.
    pub(super) async fn arrive(
        &mut self,
        pair: &mut Pair,
        held_up: &HeldUp,
    ) -> Result<Answer, DemoError> {
        held_up.held.release();
        self.timeline.event(Who::Network, "lets it go: A's request reaches the store");
        self.answered(&mut pair.a).await
    }

    /// A worker writes, and is answered.
    pub(super) async fn write(
        &mut self,
        worker: &mut Worker,
        body: &str,
        if_match: bool,
    ) -> Result<Answer, DemoError> {
        self.begin_write(worker, body, if_match).await?;
        self.answered(worker).await
    }

    /// A worker writes.
    pub(super) async fn begin_write(
        &mut self,
        worker: &mut Worker,
        body: &str,
        if_match: bool,
    ) -> Result<(), DemoError> {
        worker.put(body, if_match).await?;
        let condition = if if_match { " with If-Match" } else { "" };
        let what = format!("writes \"{body}\"{condition}");
        self.timeline.event(Who::worker(worker.name()), &what);
        Ok(())
    }

    /// A write is answered.
    pub(super) async fn answered(&mut self, worker: &mut Worker) -> Result<Answer, DemoError> {
        let answer = worker.answered().await?;
        let mut what = format!("is answered {answer}");
        if let Some(etag) = &answer.etag {
            write!(what, ", ETag {}", short_etag(etag)).expect("writing to a string cannot fail");
        }
        if let Some(highest) = &answer.highest {
            write!(what, "; the highest token is {highest}")
                .expect("writing to a string cannot fail");
        }
        self.timeline.event(Who::worker(worker.name()), &what);
        Ok(answer)
    }
}

//! The play: three acts, and what has to come of them.

use std::io::Write;

use super::lock::{FIRST_TOKEN, LEASE, LockService};
use super::race::{HeldUp, Pair, Performance};
use super::stage::{RunningProxy, Stage};
use super::timeline::{Timeline, Who, seconds};
use super::wire::Answer;
use super::{DemoError, Options, Outcome};

/// What the lock service must have handed out in every act.
const TOKENS: [u64; 2] = [FIRST_TOKEN, FIRST_TOKEN + 1];

/// What A and B write in the first two acts.
const OF_A: &str = "report by A";
const OF_B: &str = "report by B";

/// What the object holds at the start of the third act, and what B writes again.
const IDLE: &str = "idle";

/// What the delayed write of the third act would make of it.
const BUSY: &str = "busy: A";

/// Plays everything.
pub(super) async fn play<W: Write + Send>(options: &Options, out: W) -> Result<Outcome, DemoError> {
    let mut timeline = Timeline::new(out, options.colour);
    timeline.text("fencepost demo: a lock holder that comes back too late\n");
    let stage = Stage::set(options).await?;
    let lock = LockService::start().await?;
    timeline.text(&format!("  store    {}  embedded, in memory", stage.store_url()));
    timeline.text(&format!("  proxies  {}  and {}", stage.first.url(), stage.second.url()));
    timeline.text(&format!(
        "  lock     {}  a lease of {}, and a token",
        lock.address(),
        seconds(LEASE)
    ));
    let mut performance = Performance { options, stage: &stage, lock, timeline };
    performance.straight_to_the_store().await?;
    performance.through_the_proxy().await?;
    performance.late_with_if_match().await?;
    performance.late_with_fencepost().await?;
    let Performance { mut timeline, lock, .. } = performance;
    drop(lock);
    stage.strike().await;
    Ok(timeline.close())
}

impl<W: Write + Send> Performance<'_, W> {
    async fn straight_to_the_store(&mut self) -> Result<(), DemoError> {
        self.timeline.act(
            "Act 1: straight to the store",
            &["A gets the lock and is paused. B takes over. A wakes up and writes."],
        );
        let (key, door) = ("act-1", self.stage.store_url());
        let mut pair = self.enter(key, door.clone(), door).await?;
        let (tokens, of_b) = self.until_b_has_written(&mut pair).await?;
        let of_a = self.come_back(&mut pair.a).await?;
        pair.end().await?;
        self.check_tokens(tokens);
        self.check_status("B's write", "200", &of_b);
        self.check_status("A's late write", "200", &of_a);
        self.check_object(key, OF_A).await?;
        self.timeline.moral("B's report is gone, though B held the lock and was told 200.");
        Ok(())
    }

    async fn through_the_proxy(&mut self) -> Result<(), DemoError> {
        self.timeline.act(
            "Act 2: the same through Fencepost",
            &["The workers send their token along, as in act 1. Now somebody looks at it."],
        );
        let (stage, key) = (self.stage, "act-2");
        let door = stage.first.url();
        let mut pair = self.enter(key, door.clone(), door).await?;
        let (tokens, of_b) = self.until_b_has_written(&mut pair).await?;
        let before = self.scrape(&stage.first).await?;
        let of_a = self.come_back(&mut pair.a).await?;
        let after = self.scrape(&stage.first).await?;
        pair.end().await?;
        self.check_tokens(tokens);
        self.check_status("B's write", "200", &of_b);
        self.check_status("A's late write", "409 StaleFenceToken", &of_a);
        self.check_object(key, OF_B).await?;
        self.timeline.check("fence_rejected_total", rise(0, 1), rise(before, after));
        self.timeline.moral("A was refused and knows it; B's report is intact.");
        Ok(())
    }

    /// A has the lock, is about to write, and is stopped; B takes over and writes.
    async fn until_b_has_written(
        &mut self,
        pair: &mut Pair,
    ) -> Result<([u64; 2], Answer), DemoError> {
        let token_of_a = self.acquire(&mut pair.a).await?;
        self.pause_before_write(&mut pair.a, OF_A).await?;
        let token_of_b = self.take_over(&mut pair.b).await?;
        let answer = self.write(&mut pair.b, OF_B, false).await?;
        Ok(([token_of_a, token_of_b], answer))
    }

    async fn late_with_if_match(&mut self) -> Result<(), DemoError> {
        self.timeline.act(
            "Act 3: the write that If-Match does not stop, with If-Match alone",
            &[
                "A's write is under way, conditional on what A read, and is held up in the",
                "network. B takes over and writes what was there before: same bytes, same ETag.",
            ],
        );
        let (key, door) = ("act-3-if-match", self.stage.store_url());
        let mut pair = self.enter(key, door.clone(), door).await?;
        let held_up = self.hold_up(key, &mut pair, (IDLE, BUSY), true).await?;
        let of_a = self.arrive(&mut pair, &held_up).await?;
        pair.end().await?;
        self.check_held_up(&held_up, "yes");
        self.check_status("A's late write", "200", &of_a);
        self.check_object(key, BUSY).await?;
        self.timeline.moral("A's condition held, and B's write is gone all the same.");
        Ok(())
    }

    async fn late_with_fencepost(&mut self) -> Result<(), DemoError> {
        self.timeline.act(
            "Act 3 again, with Fencepost: A through one proxy, B through another",
            &[
                "A's proxy has sent the write, and can't call it back. But it was put on record",
                "first: B's proxy sees it there, and doesn't bring back the ETag it waits for.",
            ],
        );
        let (stage, key) = (self.stage, "act-3-fencepost");
        let mut pair = self.enter(key, stage.second.url(), stage.first.url()).await?;
        let held_up = self.hold_up(key, &mut pair, (IDLE, BUSY), false).await?;
        let before = self.scrape(&stage.second).await?;
        let of_a = self.arrive(&mut pair, &held_up).await?;
        let after = self.scrape(&stage.second).await?;
        pair.end().await?;
        self.check_held_up(&held_up, "no");
        self.check_status("A's late write", "409 StaleFenceToken", &of_a);
        self.check_object(key, IDLE).await?;
        self.timeline.check("fence_rejected_total", rise(0, 1), rise(before, after));
        self.timeline.moral("The late write reached the store, and changed nothing.");
        Ok(())
    }

    async fn scrape(&mut self, proxy: &RunningProxy) -> Result<u64, DemoError> {
        let value = proxy.rejected_total().await?;
        let what = format!("{}: fence_rejected_total {value}", proxy.metrics_url());
        self.timeline.event(Who::Proxy, &what);
        Ok(value)
    }

    fn check_tokens(&mut self, seen: [u64; 2]) {
        let text = |[a, b]: [u64; 2]| format!("A {a}, B {b}");
        self.timeline.check("tokens", text(TOKENS), text(seen));
    }

    fn check_status(&mut self, what: &str, expected: &str, answer: &Answer) {
        self.timeline.check(what, expected.to_owned(), answer.to_string());
    }

    fn check_held_up(&mut self, held_up: &HeldUp, etag_is_back: &'static str) {
        self.check_tokens(held_up.tokens);
        self.check_status("B's write", "200", &held_up.of_b);
        let back = held_up.of_b.etag.as_ref() == Some(&held_up.expects);
        let back = if back { "yes" } else { "no" };
        self.timeline.check("the ETag that A's write expects is back", etag_is_back, back);
    }

    async fn check_object(&mut self, key: &str, expected: &str) -> Result<(), DemoError> {
        let seen = self.stage.object(key).await?;
        self.timeline.check("the object", format!("\"{expected}\""), format!("\"{seen}\""));
        Ok(())
    }
}

fn rise(from: u64, to: u64) -> String {
    format!("{from} → {to}")
}

//! What the demo prints: one line an event, with the time since the act began, and one a check.
//!
//! It fits 80 columns. Colour helps where there is some and carries no meaning of its own. That the
//! reader has gone (`… | head`) does not stop the demo: it still has an exit code to give.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use super::Outcome;
use super::lock::Event;
use super::wire::Grant;
use crate::clock;

/// Milliseconds of a duration that is far from overflowing.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds with two decimals: `2.31 s`.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// The first eight digits of an ETag, and what tells a multipart upload's apart: `5f4dcc3b…-1`.
pub(super) fn short_etag(etag: &str) -> String {
    let (digest, parts) = etag.split_once('-').map_or((etag, None), |(d, p)| (d, Some(p)));
    let digest: String = digest.chars().take(8).collect();
    parts.map_or_else(|| format!("{digest}…"), |parts| format!("{digest}…-{parts}"))
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The worker that comes back too late.
    A,
    /// The worker that takes over.
    B,
    /// The lock service.
    Lock,
    /// What lies between a worker and the store.
    Network,
    /// A proxy.
    Proxy,
}

impl Who {
    /// The worker of this name.
    pub(super) fn worker(name: &str) -> Self {
        if name == "A" { Self::A } else { Self::B }
    }

    fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Lock => "lock",
            Self::Network => "network",
            Self::Proxy => "proxy",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::A => Style::Yellow,
            Self::B => Style::Cyan,
            Self::Lock | Self::Network | Self::Proxy => Style::Magenta,
        }
    }
}

#[derive(Clone, Copy)]
enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
}

impl Style {
    /// The number in ECMA-48's Select Graphic Rendition.
    fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Magenta => 35,
            Self::Cyan => 36,
        }
    }
}

/// The printed timeline, and the count of what was right and wrong in it.
pub(super) struct Timeline<W> {
    out: W,
    colour: bool,
    began: Instant,
    act_began: Instant,
    wrong_before_act: u32,
    outcome: Outcome,
}

impl<W: Write> Timeline<W> {
    pub(super) fn new(out: W, colour: bool) -> Self {
        let now = clock::monotonic();
        let outcome = Outcome { checks: 0, wrong: 0 };
        Self { out, colour, began: now, act_began: now, wrong_before_act: 0, outcome }
    }

    /// Text as it is.
    pub(super) fn text(&mut self, text: &str) {
        let _gone = writeln!(self.out, "{text}");
    }

    /// The heading of an act, and what it is about.
    pub(super) fn act(&mut self, title: &str, about: &[&str]) {
        let title = self.styled(Style::Bold, title);
        self.text(&format!("\n{title}"));
        for line in about {
            let line = self.styled(Style::Dim, line);
            self.text(&format!("  {line}"));
        }
        self.text("");
        self.wrong_before_act = self.outcome.wrong;
        self.begin();
    }

    /// Sets the clock of the act to zero.
    pub(super) fn begin(&mut self) {
        self.act_began = clock::monotonic();
    }

    /// Something happens now.
    pub(super) fn event(&mut self, who: Who, what: &str) {
        let at = format!("+{}", seconds(clock::monotonic() - self.act_began));
        let at = self.styled(Style::Dim, &format!("{at:>8}"));
        let who = self.styled(who.style(), &format!("{:<7}", who.name()));
        self.text(&format!("  {at}  {who}  {what}"));
    }

    /// Somebody gets the lock.
    pub(super) fn granted(&mut self, who: Who, grant: Grant) {
        let lease = seconds(Duration::from_millis(grant.lease_ms));
        self.event(who, &format!("gets the lock for {lease}, with token {}", grant.token));
    }

    /// The lock service sees `waiting` wait.
    pub(super) fn lock_event(&mut self, waiting: Who, event: Event) {
        match event {
            Event::Waiting { holder, left } => {
                let left = seconds(left);
                self.event(
                    waiting,
                    &format!("asks for the lock, which {holder} has for {left} more"),
                );
            }
            Event::Expired { holder } => {
                self.event(Who::Lock, &format!("the lease of {holder} has run out"));
            }
        }
    }

    /// Holds what was seen against what should be seen.
    pub(super) fn check<T: PartialEq + Display>(&mut self, what: &str, expected: T, seen: T) {
        self.outcome.checks += 1;
        if seen == expected {
            let mark = self.styled(Style::Green, "✓");
            self.text(&format!("  {mark} {what}: {seen}"));
        } else {
            self.outcome.wrong += 1;
            let mark = self.styled(Style::Red, "✗");
            self.text(&format!("  {mark} {what}: {seen}"));
            self.text(&format!("    expected: {expected}"));
        }
    }

    /// What the act shows, if everything in it was right.
    pub(super) fn moral(&mut self, moral: &str) {
        if self.outcome.wrong == self.wrong_before_act {
            let moral = self.styled(Style::Bold, moral);
            self.text(&format!("  {moral}"));
        } else {
            let wrong = self.styled(Style::Red, "That is not what should have come of it.");
            self.text(&format!("  {wrong}"));
        }
    }

    /// The last line.
    pub(super) fn close(&mut self) -> Outcome {
        let Outcome { checks, wrong } = self.outcome;
        let took = seconds(clock::monotonic() - self.began);
        let line = match wrong {
            0 => self.styled(Style::Green, &format!("All {checks} outcomes were the right ones.")),
            _ => self.styled(Style::Red, &format!("{wrong} of {checks} outcomes were wrong.")),
        };
        self.text(&format!("\n{line} It took {took}, and nothing is left running."));
        self.outcome
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{}m{text}\u{1b}[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(colour: bool, play: impl FnOnce(&mut Timeline<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        play(&mut Timeline::new(&mut out, colour));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_wrong_outcome_is_counted_and_said() {
        let text = printed(false, |timeline| {
            timeline.act("Act", &[]);
            timeline.check("status", 200, 200);
            timeline.moral("All is well.");
            timeline.act("Act", &[]);
            timeline.check("status", 409, 200);
            timeline.moral("All is well.");
            assert_eq!(timeline.close(), Outcome { checks: 2, wrong: 1 });
        });
        assert!(text.contains("  ✓ status: 200\n  All is well.\n"), "{text}");
        assert!(text.contains("  ✗ status: 200\n    expected: 409\n  That is not"), "{text}");
        assert!(text.contains("\n1 of 2 outcomes were wrong."), "{text}");
    }

    #[test]
    fn there_is_colour_only_where_it_is_wanted() {
        let play = |timeline: &mut Timeline<&mut Vec<u8>>| timeline.event(Who::A, "acts");
        assert!(printed(true, play).contains("\u{1b}[33mA      \u{1b}[0m"));
        assert_eq!(printed(false, play), "   +0.00 s  A        acts\n");
    }

    #[test]
    fn an_etag_keeps_what_tells_it_apart() {
        assert_eq!(short_etag("5f4dcc3b5aa765d61d8327deb882cf99"), "5f4dcc3b…");
        assert_eq!(short_etag("5f4dcc3b5aa765d61d8327deb882cf99-1"), "5f4dcc3b…-1");
    }
}

//! One client operation's way through the protocol: one outcome in, one effect out.
//!
//! The driver (`pipeline`, the model checker, the simulation) carries out the [`Effect`], reports
//! the [`Outcome`], and gets the next effect, until [`Effect::Finish`]. All that is decided is
//! decided here and in `admission`; the driver decides nothing.
//!
//! ```text
//! Start ─► Observe ─► Load ─► Swap ─► Send ─► Finish          a PUT or DELETE
//!             ▲                 │lost    │refused, unknown
//!             └──── Pause ◄─────┴────────┘
//! Start ─► Load ─► Observe ─► Begin ─► Load ─► Swap ─► Send ─► Finish      a streamed PUT
//! Start ─► Observe ─► Load ─► Swap ─► Observe ─► Finish       a DELETE of what is absent
//! Start ─► Load ─► Observe ─► Swap ─► Send ─► Finish          what is exclusive
//! Start ─► Load ─► Swap ─► Look ─► Finish                     a claim
//! ```
//!
//! In a scope of many keys there is a Look between Swap and Send as well, when lower intents are
//! open (`barrier`), and operations that wait for their swap may enter together (`group`).

mod barrier;
mod group;
mod next;
mod sent;

use self::barrier::Then;

use super::admission::{self, Contention};
use super::effect::{Effect, Outcome, Verdict};
use super::permit::{Terms, WritePermit};
use super::{
    Change, Compare, ConditionFailure, Contents, Forms, Intent, Memory, Operation, OperationId,
    Protocol, RecordVersion, Swap, Tag, Tags,
};

/// Why the object is being observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Why {
    /// To learn the tag to expect.
    Expect,
    /// To see whether it is still absent, or whose it is, now that the token has entered.
    Confirm,
    /// To see what became of a request whose outcome is unknown.
    ReadBack,
    /// To see whether a refusal came from the operation's own success.
    Surprise,
    /// To see whether an upload that is not there any more has become the object.
    Consumed,
    /// To see whether the completion that the store reported has left what it was to leave.
    Verify,
}

/// What a pause leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum After {
    /// Everything anew.
    Restart,
    /// Another look at the object.
    ReadBack,
    /// Another look at what the lower intents expect.
    Barrier(Then),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Fresh,
    Observing(Why),
    Loading,
    /// Loading the record to see whether the intent of an exclusive delete is still in it.
    Vouching,
    Streaming,
    /// With the terms of the request to send next; none when the token enters alone.
    Swapping(Swap, Option<Terms>),
    /// Looking at the keys of lower intents.
    Looking(Then),
    /// Loading the record before another look.
    Reloading(Then),
    Sending,
    Pausing(After, Contention),
    Finished,
}

/// The state of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    protocol: Protocol,
    operation: Operation,
    memory: Memory,
    phase: Phase,
    /// The tag to expect.
    tag: Option<Tag>,
    /// The record in memory was loaded by this operation, after `tag` was seen.
    record_fresh: bool,
    /// The client's condition does not hold on the tag that was seen last.
    failed: Option<ConditionFailure>,
    /// The object that was seen last was made by an earlier operation with the same stamp.
    done_before: bool,
    /// What the store said a completion has left.
    reported: Option<Tag>,
    /// The lower intents that stood in the way when they were looked at last.
    barred: Vec<Intent>,
    /// What the bytes leave behind, once it is known.
    forms: Option<Forms>,
    /// A stream was begun on these terms.
    draft: Option<Terms>,
    /// The request that was sent last.
    sent: Option<Terms>,
    rounds: u32,
    copies: u32,
    read_backs: u32,
}

impl Attempt {
    /// A new operation, and what the proxy remembers of its scope.
    #[must_use]
    pub fn new(protocol: Protocol, operation: Operation, memory: Memory) -> Self {
        let forms = match &operation.change {
            Change::Put(Contents::Buffered(forms)) => Some(forms.clone()),
            Change::Put(Contents::Streamed)
            | Change::Assemble(_)
            | Change::Delete
            | Change::Touch
            | Change::DeleteVersion
            | Change::Claim => None,
        };
        Self {
            protocol,
            operation,
            memory,
            phase: Phase::Fresh,
            tag: None,
            record_fresh: false,
            failed: None,
            done_before: false,
            reported: None,
            barred: Vec::new(),
            forms,
            draft: None,
            sent: None,
            rounds: 0,
            copies: 0,
            read_backs: 0,
        }
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// What the proxy now remembers of the scope.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Takes in what came of the last effect; says what to do next.
    pub fn advance(&mut self, outcome: Outcome) -> Effect {
        match (std::mem::replace(&mut self.phase, Phase::Finished), outcome) {
            (Phase::Fresh, Outcome::Start) => self.start(),
            (Phase::Observing(why), Outcome::Observed { tag, stamp }) => {
                self.observed(why, tag, stamp)
            }
            (Phase::Observing(why), Outcome::ObserveFailed) => self.observe_failed(why),
            (Phase::Loading, Outcome::Loaded(snapshot)) => {
                self.memory.loaded(snapshot);
                self.record_fresh = true;
                self.proceed()
            }
            (Phase::Loading, Outcome::LedgerFailed) => self.finish(Verdict::Unavailable),
            (Phase::Vouching, Outcome::Loaded(snapshot)) => self.vouched(snapshot),
            (Phase::Vouching, Outcome::LedgerFailed) => self.finish(Verdict::OutcomeUnknown),
            (Phase::Streaming, Outcome::Received(forms)) => {
                self.forms = Some(forms);
                self.record_fresh = false;
                self.proceed()
            }
            (Phase::Streaming, Outcome::BodyFailed) => self.finish(Verdict::BodyFailed),
            // The store answered before the body was complete, so it cannot have applied it.
            (Phase::Streaming, Outcome::Refused) => {
                self.memory.forget_object();
                self.finish(Verdict::Contended(Contention::LostRaces))
            }
            (Phase::Streaming, Outcome::Rejected) => self.finish(Verdict::Rejected),
            (Phase::Streaming, Outcome::Unknown) => self.finish(Verdict::Unavailable),
            (Phase::Swapping(swap, terms), outcome) => self.advance_swapping(swap, terms, outcome),
            (Phase::Looking(then), outcome) => self.advance_looking(then, outcome),
            (Phase::Reloading(then), outcome) => self.advance_reloading(then, outcome),
            (Phase::Pausing(After::Barrier(then), _), outcome) => {
                self.advance_barred(then, &outcome)
            }
            (Phase::Sending, Outcome::Applied(tag)) if self.completes_upload() => {
                self.reported = Some(tag);
                self.observe(Why::Verify)
            }
            (Phase::Sending, Outcome::Applied(tag)) => self.applied(tag, false),
            (Phase::Sending, Outcome::Unknown) => self.unknown(),
            (
                Phase::Sending,
                outcome
                @ (Outcome::Refused | Outcome::Rejected | Outcome::Consumed | Outcome::Done),
            ) => self.settled(&outcome),
            (Phase::Pausing(After::Restart, _), Outcome::Paused) => self.proceed(),
            (Phase::Pausing(After::ReadBack, _), Outcome::Paused) => self.observe(Why::ReadBack),
            (Phase::Pausing(After::Restart, why), Outcome::OutOfPatience) => {
                self.finish(Verdict::Contended(why))
            }
            (Phase::Pausing(After::ReadBack, _), Outcome::OutOfPatience) => {
                self.finish(Verdict::OutcomeUnknown)
            }
            (
                Phase::Fresh
                | Phase::Observing(_)
                | Phase::Loading
                | Phase::Vouching
                | Phase::Streaming
                | Phase::Sending
                | Phase::Pausing(After::Restart | After::ReadBack, _)
                | Phase::Finished,
                _,
            ) => self.broken(),
        }
    }

    fn observed(&mut self, why: Why, tag: Tag, stamp: Option<OperationId>) -> Effect {
        // An upload's stamp is that of everybody who tries to complete it. Where ordinary writes are
        // not on record, only a tag that has changed since shuts lower tokens out (F5).
        let repeats = self.protocol.tags == Tags::Repeat;
        let shuts_out = repeats || !self.assembles() || !self.sent_on(&tag);
        let own = stamp == Some(self.operation.stamp) && shuts_out;
        match why {
            Why::ReadBack | Why::Surprise | Why::Consumed if own => self.applied(tag, true),
            Why::ReadBack => self.read_back(&tag),
            // Its own request was refused, and no object shows that another one succeeded.
            Why::Consumed => self.finish(Verdict::Rejected),
            // The refusal was not about the tag; the store's word is the client's. (A copy whose
            // source is not the one that was asked for; AWS, when the key was written to since the
            // upload began.)
            Why::Surprise if self.assembles() && self.sent_on(&tag) => {
                self.finish(Verdict::Rejected)
            }
            // F5 is judged by what is there now. If that is another object, nobody can tell whether
            // this one was ever there.
            Why::Verify if own || (shuts_out && self.is_as_reported(&tag)) => {
                self.applied(tag, false)
            }
            Why::Verify => self.unverified(),
            Why::Expect if own && repeats && self.assembles() => {
                self.done_before = true;
                self.tag = Some(tag);
                self.proceed()
            }
            Why::Surprise if self.draft.is_some() || self.rounds > self.protocol.rounds_max => {
                self.finish(Verdict::Contended(Contention::LostRaces))
            }
            Why::Surprise | Why::Expect => {
                self.done_before = false;
                self.expect(tag)
            }
            Why::Confirm => self.confirm(tag, own),
        }
    }

    /// The tag to expect is known. Where tags are unique, the record must be loaded after this.
    fn expect(&mut self, tag: Tag) -> Effect {
        if let Err(failure) = self.operation.condition.check(&tag) {
            // It may have failed because a newer holder has written: that comes first (F1).
            self.memory.tag = Some(tag);
            self.failed = Some(failure);
            return self.load();
        }
        self.tag = Some(tag);
        if self.protocol.tags == Tags::Unique
            && self.protocol.rules.tag_before_record
            && self.draft.is_none()
            && !self.streamed()
            && !self.is_exclusive()
        {
            self.record_fresh = false;
        }
        self.proceed()
    }

    fn completes_upload(&self) -> bool {
        matches!(&self.operation.change, Change::Assemble(assembly) if assembly.of_upload)
    }

    /// Whether the store makes the object of bytes that it has. A claim that rewrites the object
    /// onto itself does so, too.
    fn assembles(&self) -> bool {
        matches!(self.operation.change, Change::Assemble(_) | Change::Claim)
    }

    /// Whether the request that was sent last expected this tag.
    fn sent_on(&self, tag: &Tag) -> bool {
        self.sent.as_ref().is_some_and(|terms| terms.expects == *tag)
    }

    /// The token has entered and the object was looked at after that: F5 for an operation that
    /// leaves everything as it is.
    fn confirm(&mut self, tag: Tag, own: bool) -> Effect {
        let unchanged = if self.done_before { own } else { tag == Tag::Absent };
        if !unchanged {
            // It has come into being meanwhile, or another has taken its place: a real operation
            // after all.
            self.done_before = false;
            self.record_fresh = false;
            return match self.next_round() {
                Some(verdict) => self.finish(verdict),
                None => self.expect(tag),
            };
        }
        if self.lower_takes_effect(&tag) {
            return self.contended(Contention::LowerOpen);
        }
        self.memory.tag = Some(tag.clone());
        let verdict = match (self.done_before, &self.operation.change) {
            (true, _) => Verdict::Applied { tag, recognised: true },
            (false, Change::Claim) => Verdict::Claimed,
            (
                false,
                Change::Put(_)
                | Change::Assemble(_)
                | Change::Delete
                | Change::Touch
                | Change::DeleteVersion,
            ) => Verdict::AlreadyAbsent,
        };
        self.barrier(Then::Finish(verdict))
    }

    fn observe_failed(&mut self, why: Why) -> Effect {
        match why {
            // The refusal may have come from the operation's own success (F10).
            Why::Surprise | Why::Consumed => self.finish(Verdict::OutcomeUnknown),
            Why::Verify => self.unverified(),
            Why::Expect | Why::Confirm => self.finish(Verdict::Unavailable),
            Why::ReadBack => self.read_back_later(),
        }
    }

    fn swapped(&mut self, swap: Swap, terms: Option<Terms>, version: RecordVersion) -> Effect {
        self.memory.swapped(swap.next, version);
        self.entered(terms)
    }

    /// The operation has entered the record.
    fn entered(&mut self, terms: Option<Terms>) -> Effect {
        self.record_fresh = true;
        // The record's token is now this operation's own: it must not refuse itself when it has to
        // start over. Another operation with this token has its own entry to pass.
        self.protocol.compare = Compare::AtLeast;
        match terms {
            Some(terms) => self.barrier(Then::Send(terms)),
            None => self.entered_alone(),
        }
    }

    /// The token has entered, and there is nothing to send.
    fn entered_alone(&mut self) -> Effect {
        if self.enters_only() {
            return self.barrier(Then::Finish(Verdict::Claimed));
        }
        self.observe(Why::Confirm)
    }

    /// A claim that never has anything to send.
    fn enters_only(&self) -> bool {
        self.operation.change == Change::Claim && !self.is_exclusive()
    }

    fn swap_lost(&mut self) -> Effect {
        self.contended(Contention::LostRaces)
    }

    /// The intent may be in the record all the same. Its request was never sent, so its outcome is
    /// known: it is settled (F6), and nothing was changed (F11).
    fn swap_failed(&mut self, terms: Option<Terms>) -> Effect {
        if let Some(id) = terms.and_then(|terms| terms.intent) {
            self.memory.settle(id);
            self.memory.doubted = true;
        }
        self.memory.forget_record();
        self.finish(Verdict::Unavailable)
    }

    fn lower_takes_effect(&self, tag: &Tag) -> bool {
        self.memory.snapshot.as_ref().is_none_or(|snapshot| {
            admission::lower_takes_effect(&self.operation, snapshot, &self.memory.settled, tag)
        })
    }

    /// Counts a lost race; the verdict when there were too many.
    fn next_round(&mut self) -> Option<Verdict> {
        self.rounds += 1;
        (self.rounds > self.protocol.rounds_max)
            .then_some(Verdict::Contended(Contention::LostRaces))
    }

    /// Waits, and learns everything anew. A stream goes on expecting the tag that it began with.
    fn contended(&mut self, why: Contention) -> Effect {
        let guessed = !self.record_fresh && why != Contention::LostRaces;
        self.memory.forget_record();
        self.record_fresh = false;
        if guessed {
            // It may be contended by an old record only: ask before waiting.
            if self.is_exclusive() {
                self.tag = None;
            }
            return self.load();
        }
        if why == Contention::LostRaces
            && let Some(verdict) = self.next_round()
        {
            return self.finish(verdict);
        }
        if self.draft.is_none() {
            self.tag = None;
        }
        self.pause(After::Restart, why)
    }

    /// Begins anew, by the record that has just been loaded. A stream cannot: its form is chosen.
    fn start_over(&mut self) -> Effect {
        // The intent that it had is settled; its name is not used again.
        self.copies += 1;
        self.record_fresh = true;
        self.done_before = false;
        if self.draft.is_none() {
            self.tag = None;
        }
        match self.next_round() {
            Some(verdict) => self.finish(verdict),
            None => self.proceed(),
        }
    }

    fn settle_sent(&mut self) {
        if let Some(id) = self.sent.as_ref().and_then(|terms| terms.intent) {
            self.memory.settle(id);
        }
    }

    fn observe(&mut self, why: Why) -> Effect {
        self.phase = Phase::Observing(why);
        Effect::Observe
    }

    fn load(&mut self) -> Effect {
        self.phase = Phase::Loading;
        Effect::Load
    }

    fn swap(&mut self, swap: Swap, terms: Option<Terms>) -> Effect {
        self.phase = Phase::Swapping(swap.clone(), terms);
        Effect::Swap(swap)
    }

    fn send(&mut self, terms: Terms) -> Effect {
        self.copies += 1;
        self.memory.chain = None;
        self.memory.tag = None;
        self.sent = Some(terms.clone());
        self.phase = Phase::Sending;
        Effect::Send(WritePermit::new(terms))
    }

    fn pause(&mut self, after: After, why: Contention) -> Effect {
        self.phase = Phase::Pausing(after, why);
        Effect::Pause
    }

    fn finish(&mut self, verdict: Verdict) -> Effect {
        self.phase = Phase::Finished;
        Effect::Finish(verdict)
    }

    /// What was remembered is thrown away with the operation that broke; what it registered stays.
    fn broken(&mut self) -> Effect {
        self.memory = Memory::default();
        self.finish(Verdict::Broken)
    }
}

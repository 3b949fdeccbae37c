//! The next step of an attempt, by what is known so far: which tag it expects, which record it
//! enters by, and whether it may send.
//!
//! What an outcome means is not judged here: that is the parent module's part.

use super::super::admission::{self, Admission, Choice, Entry};
use super::super::permit::{Form, StreamPermit, Terms};
use super::super::{
    Action, Change, Compare, Contents, Effect, IntentId, Keys, Snapshot, Swap, Tag, Tags, Verdict,
};
use super::barrier::Then;
use super::{Attempt, Phase, Why};

impl Attempt {
    /// A guess from memory serves a buffered write without a condition of its client's, where
    /// tags repeat: the store judges it. A client's condition must not fail on a guess, nobody
    /// judges an exclusive delete's, and where tags are unique a tag has to be seen before the
    /// record is loaded.
    pub(super) fn start(&mut self) -> Effect {
        if self.protocol.tags == Tags::Repeat
            && !self.streamed()
            && !self.is_exclusive()
            && self.operation.condition.is_none()
        {
            self.tag = self.memory.tag.clone();
        }
        self.proceed()
    }

    pub(super) fn streamed(&self) -> bool {
        self.operation.change == Change::Put(Contents::Streamed)
    }

    /// What is exclusive looks at the object *after* the record that its swap starts from was
    /// read: then the swap proves that nothing was admitted since that could have changed what was
    /// seen, but for intents that the record holds.
    ///
    /// A delete whose answer is lost is recognised by the object's absence, so the object must have
    /// been there when the intent entered the record. Looked at before, it may have been deleted by
    /// another operation that was settled by the time the record was read; absence would then be
    /// taken for success while the request is still on its way. What leaves the tag as it is has to
    /// know that no lower intent expects it; looked at before, the tag may have become one that
    /// does.
    pub(super) fn is_exclusive(&self) -> bool {
        self.operation.is_exclusive(&self.protocol)
    }

    /// The next step, by what is known so far.
    pub(super) fn proceed(&mut self) -> Effect {
        if let Some(snapshot) = &self.memory.snapshot
            && let Some(refusal) = admission::refusing(&self.protocol, snapshot, &self.operation)
        {
            return self.refuse(refusal);
        }
        if let Some(failure) = self.failed {
            return self.finish(Verdict::ConditionFailed(failure));
        }
        if self.operation.change == Change::Claim {
            match self.memory.snapshot.clone() {
                None => return self.load(),
                // The record is the ledger's, and this proxy has passed the barrier already.
                Some(snapshot)
                    if self.record_fresh
                        && admission::has_entered(&self.operation, &snapshot)
                        && self.memory.has_cleared(self.operation.token, snapshot.resets()) =>
                {
                    return self.barrier(Then::Finish(Verdict::Claimed));
                }
                Some(snapshot) if self.enters_only() => return self.enter(&snapshot),
                Some(_) => {}
            }
        }
        if self.streamed() && self.draft.is_none() && !self.record_fresh && self.tag.is_none() {
            // A stale token is refused before its body is taken in.
            return self.load();
        }
        if self.is_exclusive() && self.tag.is_none() && self.memory.snapshot.is_none() {
            return self.load();
        }
        if !self.protocol.rules.tag_before_record && self.tag.is_none() && !self.record_fresh {
            return self.load();
        }
        let Some(tag) = self.tag.clone() else {
            return self.next_in_chain().unwrap_or_else(|| self.observe(Why::Expect));
        };
        if self.streamed() && self.draft.is_none() {
            return self.begin(tag);
        }
        let guess_allowed =
            self.is_exclusive() || (self.protocol.tags == Tags::Repeat && !self.streamed());
        let Some(snapshot) =
            self.memory.snapshot.clone().filter(|_| self.record_fresh || guess_allowed)
        else {
            return self.load();
        };
        let leaves_absent = matches!(self.operation.change, Change::Delete | Change::Claim);
        if self.done_before || (leaves_absent && tag == Tag::Absent) {
            self.enter(&snapshot)
        } else {
            self.admit(&tag, &snapshot)
        }
    }

    /// The write that the chain vouches for, if there is one.
    fn next_in_chain(&mut self) -> Option<Effect> {
        let usable = self.protocol.tags == Tags::Unique
            && self.protocol.keys == Keys::One
            // A chain is the same token again, which the strict comparison refuses.
            && self.protocol.compare == Compare::AtLeast
            && self.rounds == 0
            && !self.streamed()
            && !self.is_exclusive()
            && self.operation.condition.is_none();
        let chain = self.memory.chain.clone().filter(|_| usable)?;
        if chain.token != self.operation.token || chain.bearer != self.operation.bearer {
            return None;
        }
        let deletes = self.operation.change == Change::Delete;
        if deletes && chain.absent_expected {
            return None;
        }
        Some(self.send(Terms {
            operation: self.operation.id,
            token: self.operation.token,
            intent: None,
            expects: Tag::Version(chain.tag),
            exclusive: false,
            form: Form::Plain,
            leaves: deletes.then_some(Tag::Absent),
            signed_at: self.operation.signed_at,
        }))
    }

    /// Whether, and on which terms, the operation may act on an object with this tag.
    pub(super) fn admission(&self, tag: &Tag, snapshot: &Snapshot) -> Admission {
        let id = IntentId { operation: self.operation.id, copy: self.copies };
        let begun = self.draft.as_ref().map(|draft| draft.form);
        admission::admit(
            &self.protocol,
            &self.operation,
            Choice { forms: self.forms.as_ref(), begun },
            id,
            tag,
            snapshot,
            &self.memory.settled,
        )
    }

    fn admit(&mut self, tag: &Tag, snapshot: &Snapshot) -> Effect {
        match self.admission(tag, snapshot) {
            Admission::Refused(refusal) => self.refuse(refusal),
            Admission::Contended(why) => self.contended(why),
            Admission::Clear { next: None, terms } => self.send(terms),
            Admission::Clear { next: Some(next), terms } => {
                self.swap(Swap { base: snapshot.version.clone(), next }, Some(terms))
            }
        }
    }

    fn enter(&mut self, snapshot: &Snapshot) -> Effect {
        match admission::enter(&self.protocol, &self.operation, snapshot, &self.memory.settled) {
            Entry::Refused(refusal) => self.refuse(refusal),
            Entry::Clear(Some(next)) => {
                self.swap(Swap { base: snapshot.version.clone(), next }, None)
            }
            // The record is the ledger's only if it was loaded now (F12).
            Entry::Clear(None) if self.record_fresh => self.entered_alone(),
            Entry::Clear(None) => self.load(),
        }
    }

    /// Chooses the form of a stream by what the open intents expect now. If at its end they expect
    /// otherwise, the stream is cut off and nothing has changed.
    fn begin(&mut self, tag: Tag) -> Effect {
        let expected: Vec<&Tag> = self
            .memory
            .snapshot
            .iter()
            .flat_map(|snapshot| admission::open(snapshot, &self.memory.settled))
            .filter(|intent| intent.key == self.operation.key)
            .filter(|intent| intent.token < self.operation.token)
            .filter_map(|intent| match &intent.action {
                Action::Conditional { expects } => Some(expects),
                Action::Exclusive => None,
            })
            .collect();
        let avoid_plain = expected.iter().any(|tag| match tag {
            Tag::Absent => false,
            // The tag of a multipart upload has a part count, that of a plain PUT has none.
            Tag::Version(etag) => !etag.contains('-'),
        });
        let terms = Terms {
            operation: self.operation.id,
            token: self.operation.token,
            intent: None,
            expects: tag,
            exclusive: false,
            form: if avoid_plain && self.protocol.tags == Tags::Repeat {
                Form::OnePart
            } else {
                Form::Plain
            },
            leaves: None,
            signed_at: self.operation.signed_at,
        };
        self.draft = Some(terms.clone());
        self.phase = Phase::Streaming;
        Effect::Begin(StreamPermit::new(terms))
    }
}

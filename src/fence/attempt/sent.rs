//! What became of a request that was sent: by its answer, or by what is seen of the object after it.

use super::super::effect::{Effect, Outcome, Verdict};
use super::super::memory::Chain;
use super::super::{Change, Contention, Keys, Snapshot, Tag, Tags};
use super::{After, Attempt, Phase, Why};

impl Attempt {
    /// The outcome of the request is known, and no tag comes with it.
    pub(super) fn settled(&mut self, outcome: &Outcome) -> Effect {
        self.settle_sent();
        self.memory.forget_object();
        if *outcome == Outcome::Refused {
            self.surprised()
        } else if *outcome == Outcome::Consumed {
            self.observe(Why::Consumed)
        } else if *outcome == Outcome::Done {
            self.finish(Verdict::Done)
        } else {
            self.finish(Verdict::Rejected)
        }
    }

    /// Looks for the outcome of a request that got no answer. Only a DELETE that was exclusive can
    /// be recognised by the object's absence, and only with the record's word for it.
    pub(super) fn read_back(&mut self, tag: &Tag) -> Effect {
        let exclusive = self.sent.as_ref().is_some_and(|terms| terms.exclusive);
        if exclusive && self.operation.change == Change::Delete && *tag == Tag::Absent {
            self.phase = Phase::Vouching;
            return Effect::Load;
        }
        self.read_back_later()
    }

    pub(super) fn read_back_later(&mut self) -> Effect {
        self.read_backs += 1;
        if self.read_backs < self.protocol.read_backs_max {
            return self.pause(After::ReadBack, Contention::LostRaces);
        }
        self.finish(Verdict::OutcomeUnknown)
    }

    /// The object was seen to be absent *before* this record was read. While the intent is in it,
    /// nothing else that deletes has been admitted (F8). If it is not, it has expired (F9), and the
    /// absence may be another operation's work.
    pub(super) fn vouched(&mut self, snapshot: Snapshot) -> Effect {
        let intent = self.sent.as_ref().and_then(|terms| terms.intent);
        let still_open = snapshot.intents().iter().any(|open| Some(open.id) == intent);
        self.memory.loaded(snapshot);
        if still_open {
            return self.applied(Tag::Absent, true);
        }
        self.finish(Verdict::OutcomeUnknown)
    }

    /// What was reported of an upload without a stamp of its own is told by its tag alone.
    pub(super) fn is_as_reported(&self, tag: &Tag) -> bool {
        self.operation.stamp == self.operation.id && self.reported.as_ref() == Some(tag)
    }

    /// The store has answered, so nothing is on its way any more; what it did is not known.
    pub(super) fn unverified(&mut self) -> Effect {
        self.settle_sent();
        self.memory.forget_object();
        self.finish(Verdict::OutcomeUnknown)
    }

    /// The store has applied the request. F4 has kept its tag from being one that a lower intent
    /// expects, if the store left the tag that was foretold; if it did not, that is checked here,
    /// and the answer is honest.
    pub(super) fn applied(&mut self, tag: Tag, recognised: bool) -> Effect {
        self.settle_sent();
        let absent_expected = self.lower_takes_effect(&Tag::Absent);
        let foretold = self.sent.as_ref().is_some_and(|sent| sent.leaves.as_ref() == Some(&tag));
        if self.protocol.tags == Tags::Repeat && !foretold && self.lower_takes_effect(&tag) {
            self.memory.forget_object();
            return self.finish(Verdict::OutcomeUnknown);
        }
        self.memory.tag = Some(tag.clone());
        if !recognised
            && (self.protocol.keys == Keys::Many || self.operation.change == Change::Claim)
        {
            // The others were looked at before it was sent.
            self.remember_cleared();
        }
        self.memory.chain = match (&tag, self.protocol.tags) {
            // What is recognised of an assembly may be another's work, under a newer token.
            (Tag::Version(etag), Tags::Unique) if !(recognised && self.assembles()) => {
                Some(Chain {
                    token: self.operation.token,
                    bearer: self.operation.bearer.clone(),
                    tag: etag.clone(),
                    absent_expected,
                })
            }
            (Tag::Version(_) | Tag::Absent, Tags::Repeat | Tags::Unique) => None,
        };
        self.finish(Verdict::Applied { tag, recognised })
    }

    /// F7: the intent stays.
    pub(super) fn unknown(&mut self) -> Effect {
        if !self.protocol.rules.keep_unknown {
            self.settle_sent();
        }
        self.memory.forget_object();
        match self.operation.change {
            // Nothing that can be seen tells of them.
            Change::Touch | Change::DeleteVersion => self.finish(Verdict::OutcomeUnknown),
            Change::Put(_) | Change::Assemble(_) | Change::Delete | Change::Claim => {
                self.observe(Why::ReadBack)
            }
        }
    }

    /// A precondition did not hold: another writer was faster, or it was the operation itself. One
    /// look at the object tells, after the last round too.
    pub(super) fn surprised(&mut self) -> Effect {
        self.rounds += 1;
        self.tag = None;
        self.record_fresh = false;
        self.observe(Why::Surprise)
    }
}

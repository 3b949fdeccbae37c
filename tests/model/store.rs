//! The object store: which writes it takes, what they leave behind, and until when (F9). The
//! properties of the protocol are judged here, where a write takes effect.

use super::search::Part;
use super::world::{
    Ask, End, Flight, Object, Phase, Run, Setting, UPLOADS, Violation, World, assembled, forms, id,
};
use fencepost::fence::{Compare, Enforcement, Form, Tag, Tags, Terms};

impl Setting {
    /// Whether the store would let the write pass now.
    pub(crate) fn passes(&self, world: &World, run: &Run, flight: &Flight) -> bool {
        let enforced = match run.client.ask {
            Ask::Delete => self.protocol.delete,
            Ask::Complete(_) | Ask::CompleteUnforetold(_) => self.assembles,
            Ask::Touch | Ask::DeleteVersion => Enforcement::Exclusive,
            Ask::Claim => Enforcement::Conditional,
            Ask::Put(_) | Ask::Stream(_) => match flight.terms.form {
                Form::Plain => Enforcement::Conditional,
                Form::OnePart => self.protocol.complete,
            },
        };
        world.now <= flight.deadline
            && !Self::is_consumed(world, run)
            && match enforced {
                Enforcement::Conditional => {
                    flight.terms.expects == world.objects[run.client.key].tag
                }
                Enforcement::Exclusive => true,
            }
    }

    /// Whether an earlier try has completed the run's upload.
    pub(crate) fn is_consumed(world: &World, run: &Run) -> bool {
        let completes = matches!(run.client.ask, Ask::Complete(_) | Ask::CompleteUnforetold(_));
        completes && world.runs.iter().any(|other| other.first == run.first && other.applied > 0)
    }

    /// The store takes the write in; the properties are judged here.
    pub(crate) fn commit(&self, world: &mut World, number: usize) -> Tag {
        let run = world.runs[number].clone();
        let flight = run.flight.as_ref().expect("it is on its way");
        let key = run.client.key;
        let before = (*world.objects[key]).clone();
        let tag = match run.client.ask {
            Ask::Delete => Tag::Absent,
            Ask::Touch => before.tag.clone(),
            Ask::DeleteVersion => before.previous.clone(),
            Ask::Complete(_) | Ask::CompleteUnforetold(_) if self.protocol.tags == Tags::Unique => {
                Tag::Version(format!("u{}", world.writes + 1))
            }
            // It rewrites the object onto itself, where tags are unique.
            Ask::Claim => Tag::Version(format!("u{}", world.writes + 1)),
            Ask::Complete(content) => assembled(content),
            // As it may be with a copy of what was uploaded in parts.
            Ask::CompleteUnforetold(content) => forms(content).plain,
            Ask::Put(content) | Ask::Stream(content) => {
                match (self.protocol.tags, flight.terms.form) {
                    (Tags::Unique, _) => Tag::Version(format!("u{}", world.writes + 1)),
                    (Tags::Repeat, Form::Plain) => forms(content).plain,
                    (Tags::Repeat, Form::OnePart) => forms(content).one_part,
                }
            }
        };
        let changes = before.tag != Tag::Absent || tag != Tag::Absent;
        let before_the_reset = run.entered < world.resets && world.acknowledged > 0;
        if changes && (run.client.token < world.acknowledged || before_the_reset) {
            world.blame(Violation::StaleWriteLanded);
        }
        if run.client.condition.check(&before.tag).is_err() {
            world.blame(Violation::ConditionBroken);
        }
        let used = |other: &Part<Run>| other.applied > 0 && other.client.token == run.client.token;
        if self.protocol.compare == Compare::StrictlyGreater && world.runs.iter().any(used) {
            world.blame(Violation::TokenUsedTwice);
        }
        match run.phase {
            Phase::Over(End::Refused | End::AlreadyAbsent | End::Claimed) => {
                world.blame(Violation::RefusedYetApplied);
            }
            Phase::Over(End::Applied) => world.blame(Violation::NotExactlyOnce),
            Phase::Ready | Phase::Running { .. } | Phase::Over(End::Unknown | End::Retried) => {}
        }
        world.last[key] = Some((run.client.token, run.first));
        world.writes += u16::from(self.protocol.tags == Tags::Unique);
        let stamp = match run.client.ask {
            Ask::Delete | Ask::DeleteVersion => None,
            Ask::Touch => before.stamp,
            Ask::Put(_) | Ask::Stream(_) | Ask::Claim => Some(id(number)),
            Ask::Complete(_) | Ask::CompleteUnforetold(_) => Some(id(run.first + UPLOADS)),
        };
        let previous = if tag == before.tag { before.previous } else { before.tag };
        world.objects[key] = Part::new(Object { tag: tag.clone(), stamp, previous });
        world.edit(number, |run| {
            run.applied += 1;
            run.flight = None;
        });
        tag
    }

    /// Until when the store takes the request: the store's side of F9.
    pub(crate) fn flight(&self, run: &Run, terms: &Terms) -> Flight {
        let protocol = &self.protocol;
        let deadline = match (run.client.ask, terms.form, run.stream) {
            (Ask::Delete | Ask::DeleteVersion, _, _) => {
                terms.signed_at + protocol.bodiless_life_seconds
            }
            (Ask::Touch, _, _) => {
                terms.signed_at + protocol.bodiless_life_seconds + protocol.body_stall_seconds
            }
            (Ask::Complete(_) | Ask::CompleteUnforetold(_) | Ask::Claim, _, _) => {
                let executes = protocol.body_stall_seconds + protocol.assembly_seconds;
                terms.signed_at + protocol.bodiless_life_seconds + executes
            }
            (Ask::Stream(_), Form::Plain, Some(alive)) => {
                alive.max(terms.signed_at + protocol.signature_seconds)
                    + protocol.body_stall_seconds
            }
            (Ask::Put(_) | Ask::Stream(_), _, _) => {
                terms.signed_at + protocol.signature_seconds + protocol.body_stall_seconds
            }
        };
        Flight { terms: terms.clone(), deadline }
    }
}

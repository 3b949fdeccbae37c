//! The object store: which writes it takes, what they leave behind, and until when (F9). The
//! properties of the protocol are judged here, where a write takes effect.

use super::search::Part;
use super::world::{Ask, End, Flight, Object, Phase, Run, Setting, Violation, World, forms, id};
use fencepost::fence::{Compare, Enforcement, Form, Tag, Tags, Terms};

impl Setting {
    /// Whether the store would let the write pass now.
    pub(crate) fn passes(&self, world: &World, run: &Run, flight: &Flight) -> bool {
        let enforced = match run.client.ask {
            Ask::Delete => self.protocol.delete,
            Ask::Put(_) | Ask::Stream(_) => match flight.terms.form {
                Form::Plain => Enforcement::Conditional,
                Form::OnePart => self.protocol.complete,
            },
        };
        world.now <= flight.deadline
            && match enforced {
                Enforcement::Conditional => flight.terms.expects == world.object.tag,
                Enforcement::Exclusive => true,
            }
    }

    /// The store takes the write in; the properties are judged here.
    pub(crate) fn commit(&self, world: &mut World, number: usize) -> Tag {
        let run = world.runs[number].clone();
        let flight = run.flight.as_ref().expect("it is on its way");
        let tag = match run.client.ask {
            Ask::Delete => Tag::Absent,
            Ask::Put(content) | Ask::Stream(content) => {
                match (self.protocol.tags, flight.terms.form) {
                    (Tags::Unique, _) => Tag::Version(format!("u{}", world.writes + 1)),
                    (Tags::Repeat, Form::Plain) => forms(content).plain,
                    (Tags::Repeat, Form::OnePart) => forms(content).one_part,
                }
            }
        };
        let changes = world.object.tag != Tag::Absent || tag != Tag::Absent;
        if changes && run.client.token < world.acknowledged {
            world.blame(Violation::StaleWriteLanded);
        }
        if run.client.condition.check(&world.object.tag).is_err() {
            world.blame(Violation::ConditionBroken);
        }
        let used = |other: &Part<Run>| other.applied > 0 && other.client.token == run.client.token;
        if self.protocol.compare == Compare::StrictlyGreater && world.runs.iter().any(used) {
            world.blame(Violation::TokenUsedTwice);
        }
        match run.phase {
            Phase::Over(End::Refused | End::AlreadyAbsent) => {
                world.blame(Violation::RefusedYetApplied);
            }
            Phase::Over(End::Applied) => world.blame(Violation::NotExactlyOnce),
            Phase::Ready | Phase::Running { .. } | Phase::Over(End::Unknown | End::Retried) => {}
        }
        world.writes += u16::from(self.protocol.tags == Tags::Unique);
        let stamp = (tag != Tag::Absent).then(|| id(number));
        world.object = Part::new(Object { tag: tag.clone(), stamp });
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
            (Ask::Delete, _, _) => terms.signed_at + protocol.bodiless_life_seconds,
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

//! Words for a trace: what a step does, and the state it leads to.

use super::search::{Part, Space};
use super::world::{Action, Ask, Phase, Run, Setting, Wait, World};
use fencepost::fence::Action as Reach;
use fencepost::fence::{Form, Tag};

fn name(number: usize, run: &Run) -> String {
    let what = match run.client.ask {
        Ask::Put(content) => format!("PUT {content}"),
        Ask::Stream(content) => format!("streamed PUT {content}"),
        Ask::Delete => "DELETE".to_owned(),
        Ask::Complete(content) => format!("Complete of {content:?}"),
        Ask::CompleteUnforetold(content) => format!("Complete of {content:?}, tag unknown"),
        Ask::Touch => "touch".to_owned(),
        Ask::DeleteVersion => "DELETE of a version".to_owned(),
        Ask::Claim => "claim".to_owned(),
    };
    let key = if run.client.key == 0 { String::new() } else { format!(" of k{}", run.client.key) };
    format!("#{number} ({what}{key}, token {})", run.client.token)
}

fn show(tag: &Tag) -> &str {
    match tag {
        Tag::Absent => "absent",
        Tag::Version(etag) => etag,
    }
}

impl World {
    fn who(&self, number: usize) -> String {
        name(number, &self.runs[number])
    }

    /// What a step does.
    fn describe(&self, action: Action) -> String {
        match action {
            Action::Start(number, proxy) => {
                format!("{} comes to proxy {proxy}", self.who(number))
            }
            Action::Ask(number) => format!("{} {}", self.who(number), self.asks(number)),
            Action::AskInVain(number) => {
                format!("{} {}, and gets no answer", self.who(number), self.asks(number))
            }
            Action::Together(proxy) => format!("proxy {proxy} enters all that wait together"),
            Action::TogetherInVain(proxy) => {
                format!("proxy {proxy} enters all that wait together, and gets no answer")
            }
            Action::BodyBreaks(number) => format!("the body of {} breaks off", self.who(number)),
            Action::Arrive(number) => format!("the request of {} arrives", self.who(number)),
            Action::TimeOut(number) => {
                format!("{} gets no answer; its request is still on its way", self.who(number))
            }
            Action::LateSwap(number) => format!("the lost swap of {} lands", self.who(number)),
            Action::Withdraw(proxy) => format!("proxy {proxy} takes out what is settled"),
            Action::Crash(proxy) => format!("proxy {proxy} dies"),
            Action::Tick => "a second passes".to_owned(),
            Action::Reset => "a person resets the record".to_owned(),
            Action::Retry(number, proxy) => {
                format!("the client of {} asks again, at proxy {proxy}", self.who(number))
            }
        }
    }

    fn asks(&self, number: usize) -> &'static str {
        match &self.runs[number].phase {
            Phase::Running { wait, .. } => match wait {
                Wait::Observe => "looks at the object",
                Wait::Load => "loads the record",
                Wait::Look(..) => "looks at another key",
                Wait::Body => "takes in the body",
                Wait::Swap(_) => "swaps the record",
                Wait::Answer => "has sent its request",
            },
            Phase::Ready | Phase::Over(_) => "is not running",
        }
    }

    /// The state in one line.
    fn line(&self) -> String {
        let record = self.record.as_ref().map_or_else(
            || "none".to_owned(),
            |record| {
                let intents = record.intents.iter().map(|intent| {
                    let key = String::from_utf8_lossy(intent.key.as_bytes());
                    match &intent.action {
                        Reach::Conditional { expects } => {
                            format!("{} if {key} is {}", intent.token, show(expects))
                        }
                        Reach::Exclusive => format!("{} on {key} always", intent.token),
                    }
                });
                format!("{} {:?}", record.token, intents.collect::<Vec<_>>())
            },
        );
        let on_the_way = self.runs.iter().filter_map(|run: &Part<Run>| {
            let terms = &run.flight.as_ref()?.terms;
            let form = match terms.form {
                Form::Plain => "",
                Form::OnePart => ", one part",
            };
            Some(format!("{} if {}{form}", terms.token, show(&terms.expects)))
        });
        format!(
            "objects {:?}; record {record}; on the way {:?}; acknowledged {}; second {}",
            self.objects.iter().map(|object| show(&object.tag)).collect::<Vec<_>>(),
            on_the_way.collect::<Vec<_>>(),
            self.acknowledged,
            self.now,
        )
    }
}

/// A trace, one step a line.
pub(crate) fn trace(setting: &Setting, start: &World, actions: &[Action]) -> String {
    let mut world = start.clone();
    let mut text = format!("       {}\n", world.line());
    for (step, action) in actions.iter().enumerate() {
        let next = setting.step(&world, action);
        text +=
            &format!("  {:>3}. {}\n       {}\n", step + 1, world.describe(*action), next.line());
        world = next;
    }
    text + &format!("       violated: {:?}\n", world.violation)
}

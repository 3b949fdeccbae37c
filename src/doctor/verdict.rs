//! From checks to verdicts. Pure.
//!
//! | verdict | when |
//! |---|---|
//! | conditional | every check of the operation's condition has passed |
//! | exclusive | not so, but the operation works, requests expire (F9), and no PUT that expects the state before undoes it |
//! | refused | neither; and PUT, on which the ledger and every fence rest, if it is not conditional |
//!
//! What was not tried, or could not be judged, has not passed.

use std::collections::BTreeMap;

use super::catalogue::{CATALOGUE, Entry, Need};
use super::report::{Check, Depth, Operation, Outcome, Plan, Verdict};

/// How a verdict says that a check has failed.
pub const FAILS: &str = "fails:";

/// How a verdict says that a start-up does not try it.
pub const UNTRIED: &str = "takes a full examination";

/// What an operator knows better (`backend.unsafe_trust_backend`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Operations whose conditions are taken for sound.
    pub operations: Vec<Operation>,
    /// Whether requests are taken to expire.
    pub expiry: bool,
    /// Whether what is sent without a condition is taken not to be undone.
    pub exclusion: bool,
    /// Whether tags are taken to be unique where the configuration says so.
    pub tags: bool,
    /// Whether buckets that keep versions are taken to be like those that do not, if nobody has
    /// tried.
    pub versions: bool,
}

impl Trust {
    /// Nothing: what was found out counts.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// By name, for `/readyz` and metrics.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let expiry = self.expiry.then_some("expiry");
        let exclusion = self.exclusion.then_some("exclusion");
        let tags = self.tags.then_some("tags");
        let operations = self.operations.iter().map(|operation| operation.name());
        let versions = self.versions.then_some("versions");
        operations.chain(expiry).chain(exclusion).chain(tags).chain(versions).collect()
    }
}

/// The verdicts on one bucket.
#[must_use]
pub fn verdicts(checks: &[Check], depth: Depth, trust: &Trust) -> BTreeMap<Operation, Verdict> {
    let case = Case { checks, depth, trust };
    let mut verdicts: BTreeMap<Operation, Verdict> = Operation::ALL
        .into_iter()
        .filter(|operation| *operation != Operation::DeleteObjects)
        .map(|operation| (operation, case.verdict(operation)))
        .collect();
    let rests = verdicts.get(&Operation::Put).is_some_and(|put| put.plan == Plan::Refused);
    if rests {
        let because = "everything rests on PutObject, which cannot be fenced";
        for (_, verdict) in verdicts.iter_mut().filter(|(of, _)| **of != Operation::Put) {
            *verdict = Verdict { plan: Plan::Refused, because: because.to_owned() };
        }
    }
    let single = verdicts.get(&Operation::Delete).cloned();
    if let Some(single) = single {
        verdicts.insert(Operation::DeleteObjects, case.of_batches(&single));
    }
    verdicts
}

struct Case<'a> {
    checks: &'a [Check],
    depth: Depth,
    trust: &'a Trust,
}

impl Case<'_> {
    fn verdict(&self, operation: Operation) -> Verdict {
        let verdict = |plan, because| Verdict { plan, because };
        if let Some(why) = self.against(|entry| entry.need == Need::Fence) {
            return verdict(Plan::Refused, why);
        }
        let expiry = self.against(|entry| entry.need == Need::Expiry);
        if let (Some(why), false) = (&expiry, self.trust.expiry) {
            let because = format!("requests do not expire, so that intents cannot (F9): {why}");
            return verdict(Plan::Refused, because);
        }
        if let Some(why) = self.against(|entry| entry.need == Need::Works(operation)) {
            return verdict(Plan::Refused, why);
        }
        let condition = self.against(|entry| entry.need == Need::Condition(operation));
        match (condition, operation) {
            (None, _) => verdict(Plan::Conditional, self.summary(operation)),
            (Some(why), _) if self.trust.operations.contains(&operation) => {
                verdict(Plan::Conditional, format!("trusted, against what was found: {why}"))
            }
            (Some(why), Operation::Put) => verdict(Plan::Refused, why),
            (Some(why), _) => {
                match self.against(|entry| entry.need == Need::Exclusion(operation)) {
                    _ if self.trust.exclusion => verdict(Plan::Exclusive, why),
                    None => verdict(Plan::Exclusive, why),
                    Some(worse) => verdict(Plan::Refused, format!("{why}; {worse}")),
                }
            }
        }
    }

    /// The proxy takes a batch apart, so that it is fenced as its parts are.
    fn of_batches(&self, single: &Verdict) -> Verdict {
        let own = self.checks.iter().find(|check| check.id == "delete-objects.tags");
        let own = match own.map(|check| check.outcome) {
            Some(Outcome::Passed) => "; its own ETags are honoured",
            Some(Outcome::Failed) => "; its own ETags are ignored",
            Some(Outcome::Noted | Outcome::Unclear) | None => "",
        };
        Verdict { plan: single.plan, because: format!("sent as one DeleteObject a key{own}") }
    }

    /// The first check of a kind that has not passed, in words.
    fn against(&self, kind: impl Fn(&Entry) -> bool) -> Option<String> {
        let mut wanted = CATALOGUE.iter().filter(|entry| kind(entry));
        wanted.find_map(|entry| self.fails(entry))
    }

    fn fails(&self, entry: &Entry) -> Option<String> {
        let found = self.checks.iter().find(|check| check.id == entry.id);
        match found {
            Some(Check { outcome: Outcome::Passed, .. }) => None,
            Some(Check { outcome: Outcome::Failed, evidence, .. }) => {
                Some(format!("{} {FAILS} {evidence}", entry.id))
            }
            Some(Check { evidence, .. }) => {
                Some(format!("{} could not be judged: {evidence}", entry.id))
            }
            // A start-up judges what it has time for.
            None if self.depth == Depth::Quick && !entry.quick => match entry.need {
                Need::Condition(Operation::Put | Operation::Delete) | Need::Exclusion(_) => None,
                Need::Condition(_) => Some(format!("{} {UNTRIED}", entry.id)),
                Need::Fence | Need::Works(_) | Need::Expiry | Need::Nothing => None,
            },
            None => Some(format!("{} was not tried", entry.id)),
        }
    }

    /// How many checks speak for it, and how its races went.
    fn summary(&self, operation: Operation) -> String {
        let of = |check: &&Check| {
            let entry = super::catalogue::entry_of(&check.id);
            entry.is_some_and(|entry| entry.need == Need::Condition(operation))
        };
        let passed: Vec<&Check> = self.checks.iter().filter(of).collect();
        let race = passed.iter().rev().find(|check| check.id.ends_with(".race"));
        let race =
            race.map_or_else(String::new, |race| format!("; {}: {}", race.id, race.evidence));
        format!("{} checks passed{race}", passed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, outcome: Outcome) -> Check {
        Check { id: id.to_owned(), outcome, evidence: "evidence".to_owned() }
    }

    fn all_passed() -> Vec<Check> {
        CATALOGUE.iter().map(|entry| check(entry.id, Outcome::Passed)).collect()
    }

    fn but(id: &str, outcome: Outcome) -> Vec<Check> {
        let mut checks = all_passed();
        for check in &mut checks {
            if check.id == id {
                check.outcome = outcome;
            }
        }
        checks
    }

    fn plans(checks: &[Check], depth: Depth, trust: &Trust) -> [Plan; 5] {
        let verdicts = verdicts(checks, depth, trust);
        Operation::ALL.map(|operation| verdicts[&operation].plan)
    }

    #[test]
    fn what_has_passed_everything_is_fenced_by_its_condition() {
        assert_eq!(plans(&all_passed(), Depth::Full, &Trust::none()), [Plan::Conditional; 5]);
    }

    #[test]
    fn every_check_that_is_needed_counts() {
        use Plan::{Conditional, Exclusive, Refused};
        for entry in CATALOGUE {
            for outcome in [Outcome::Failed, Outcome::Unclear] {
                let found = plans(&but(entry.id, outcome), Depth::Full, &Trust::none());
                let expected = match entry.need {
                    Need::Nothing
                    | Need::Exclusion(_)
                    | Need::Condition(Operation::DeleteObjects) => [Conditional; 5],
                    Need::Fence | Need::Expiry => [Refused; 5],
                    Need::Condition(of) | Need::Works(of) => Operation::ALL.map(|operation| {
                        let works = matches!(entry.need, Need::Works(_));
                        let of_batch =
                            of == Operation::Delete && operation == Operation::DeleteObjects;
                        match operation == of || of_batch {
                            _ if of == Operation::Put => Refused,
                            false => Conditional,
                            true if works => Refused,
                            true => Exclusive,
                        }
                    }),
                };
                assert_eq!(found, expected, "{} {outcome:?}", entry.id);
            }
        }
    }

    #[test]
    fn what_can_be_undone_is_refused_where_it_has_no_condition() {
        for (race, condition, at) in [
            ("delete.plain.race", "delete.swap.stale", 3),
            ("complete.plain.race", "complete.swap.race", 1),
            ("copy.plain.race", "copy.create.taken", 2),
        ] {
            let mut checks = but(race, Outcome::Failed);
            assert_eq!(plans(&checks, Depth::Full, &Trust::none())[at], Plan::Conditional);
            for check in checks.iter_mut().filter(|check| check.id == condition) {
                check.outcome = Outcome::Failed;
            }
            assert_eq!(plans(&checks, Depth::Full, &Trust::none())[at], Plan::Refused, "{race}");
        }
    }

    #[test]
    fn what_was_not_tried_has_not_passed() {
        for entry in CATALOGUE.iter().filter(|entry| entry.need != Need::Nothing) {
            let mut checks = all_passed();
            checks.retain(|check| check.id != entry.id);
            let found = plans(&checks, Depth::Full, &Trust::none());
            let counts = !matches!(
                entry.need,
                Need::Condition(Operation::DeleteObjects) | Need::Exclusion(_)
            );
            assert_eq!(found != [Plan::Conditional; 5], counts, "{}", entry.id);
        }
    }

    #[test]
    fn a_start_up_leaves_complete_and_copy_exclusive() {
        let quick: Vec<Check> = CATALOGUE
            .iter()
            .filter(|entry| entry.quick)
            .map(|entry| check(entry.id, Outcome::Passed))
            .collect();
        let found = plans(&quick, Depth::Quick, &Trust::none());
        use Plan::{Conditional, Exclusive};
        assert_eq!(found, [Conditional, Exclusive, Exclusive, Conditional, Conditional]);
    }

    #[test]
    fn trust_is_by_operation_and_says_so() {
        let trust = Trust { operations: vec![Operation::Put], ..Trust::none() };
        let verdicts = verdicts(&but("put.swap.race", Outcome::Failed), Depth::Full, &trust);
        let put = &verdicts[&Operation::Put];
        assert_eq!(put.plan, Plan::Conditional);
        assert_eq!(put.because, "trusted, against what was found: put.swap.race fails: evidence");
        let trust = Trust { expiry: true, ..Trust::none() };
        let found = plans(&but("signature.too-old", Outcome::Failed), Depth::Full, &trust);
        assert_eq!(found, [Plan::Conditional; 5]);
        let found = plans(&but("put.swap.race", Outcome::Failed), Depth::Full, &trust);
        assert_eq!(found[0], Plan::Refused);
    }
}

//! Total accounting of a history by what its last reads saw: nothing that was acknowledged is missing, and nothing is there twice.
//!
//! In plainer words than those of the checkers of orders, and by a few lines that know nothing of orders.

use std::collections::{BTreeMap, HashMap};

use tyr_sim::{Action, Blob, History, Operation, Outcome, Register};

use crate::failure::{Failure, Result};

/// What the account is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Appends that were acknowledged, and found.
    pub appends: usize,
    /// Counters whose value is what was added.
    pub counters: usize,
}

/// Compares the last reads of a history with everything else in it. The operations from `last` on are those reads.
pub fn check(history: &History, last: usize) -> Result<Account> {
    let (done, reads) = history.operations().split_at(last);
    let mut account = Account::default();
    for action in reads.iter().filter(|read| read.committed()).flat_map(|read| &read.actions) {
        if let Action::ReadList { blob, elements } = action {
            account.appends += check_list(done, *blob, elements.as_deref().unwrap_or_default())?;
        }
    }
    let sums = Sums::of(done);
    for action in reads.iter().filter(|read| read.committed()).flat_map(|read| &read.actions) {
        if let Action::Read { register, value, .. } = action
            && let Some((certain, possible)) = sums.0.get(register)
        {
            let value = value.unwrap_or(0);
            if value < *certain || value > certain + possible {
                return Err(Failure::new(format!(
                    "counter {register} is {value}, but {certain} was added for certain and {possible} perhaps"
                )));
            }
            account.counters += 1;
        }
    }
    Ok(account)
}

fn check_list(done: &[Operation], blob: Blob, elements: &[u64]) -> Result<usize> {
    let wrong = |text: String| Err(Failure::new(format!("list {blob}: {text}")));
    let mut places: HashMap<u64, u64> = HashMap::new();
    for (place, element) in (0..).zip(elements) {
        if let Some(first) = places.insert(*element, place) {
            return wrong(format!("element {element} is there twice, at {first} and {place}"));
        }
    }
    let mut acknowledged = 0;
    let mut possible = 0;
    for operation in done {
        for action in &operation.actions {
            let Action::Append { blob: of, element, offset } = action else { continue };
            if *of != blob {
                continue;
            }
            let found = places.get(element);
            match (operation.outcome, found) {
                (Outcome::Committed, Some(place)) if offset.is_none_or(|told| told == *place) => {
                    acknowledged += 1
                }
                (Outcome::Committed, Some(place)) => {
                    return wrong(format!("element {element} is at {place}, and {offset:?} was told"));
                }
                (Outcome::Committed, None) => {
                    return wrong(format!("element {element} was acknowledged and is lost"));
                }
                (Outcome::Conflict, Some(place)) => {
                    return wrong(format!("element {element} is at {place}, and was refused"));
                }
                (Outcome::Unknown, Some(_)) => possible += 1,
                (Outcome::Conflict | Outcome::Unknown, None) => {}
            }
        }
    }
    match acknowledged + possible == elements.len() {
        true => Ok(acknowledged),
        false => wrong("there is an element that nobody has appended".to_owned()),
    }
}

/// By counter: what was added for certain, and what may have been.
struct Sums(BTreeMap<Register, (u64, u64)>);

impl Sums {
    fn of(done: &[Operation]) -> Sums {
        let mut sums: BTreeMap<Register, (u64, u64)> = BTreeMap::new();
        for operation in done.iter().filter(|operation| operation.possible()) {
            for action in &operation.actions {
                let Action::Add { register, operand, .. } = action else { continue };
                let (certain, possible) = sums.entry(*register).or_default();
                *if operation.committed() { certain } else { possible } += operand;
            }
        }
        Sums(sums)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_sim::{ClientId, TransactionId};

    use super::*;

    fn history(steps: &[(Outcome, Action)]) -> History {
        let mut history = History::new();
        for (time, (outcome, action)) in (0..).zip(steps) {
            let place = history.begin(ClientId(1), TransactionId(time), "step", time * 10);
            history.act(place, action.clone());
            history.end(place, time * 10 + 5, *outcome);
        }
        history
    }

    fn append(element: u64, offset: Option<u64>) -> Action {
        Action::Append { blob: Blob(3), element, offset }
    }

    fn list(elements: &[u64]) -> Action {
        Action::ReadList { blob: Blob(3), elements: Some(elements.to_vec()) }
    }

    fn add(operand: u64) -> Action {
        Action::Add { register: Blob(5).register(0), operand, old: None }
    }

    fn number(value: u64) -> Action {
        Action::Read { register: Blob(5).register(0), value: Some(value), number: None }
    }

    use Outcome::{Committed, Conflict, Unknown};

    #[test]
    fn a_list_has_what_was_acknowledged_once_at_its_place() {
        let steps = |read: &[u64]| {
            let (first, second) = ((Committed, append(7, Some(0))), (Unknown, append(8, None)));
            history(&[first, second, (Conflict, append(9, None)), (Committed, list(read))])
        };
        assert_eq!(check(&steps(&[7]), 3).unwrap().appends, 1);
        assert_eq!(check(&steps(&[7, 8]), 3).unwrap().appends, 1);
        for wrong in [&[8, 7][..], &[], &[7, 7], &[7, 9], &[7, 8, 10]] {
            assert!(check(&steps(wrong), 3).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_counter_is_between_what_was_added_and_what_may_have_been() {
        let steps = |read| {
            history(&[(Committed, add(5)), (Unknown, add(2)), (Conflict, add(9)), (Committed, number(read))])
        };
        for right in [5, 6, 7] {
            assert_eq!(check(&steps(right), 3).unwrap().counters, 1);
        }
        for wrong in [0, 4, 8, 14, 16] {
            assert!(check(&steps(wrong), 3).is_err(), "{wrong}");
        }
    }
}

//! Small lies: each changes a history somewhere at random. Whether it is still right is for the checkers to say.

use tyr_sim::{Action, History, Outcome};
use tyr_types::Number;

use super::{Random, in_hundred, reference::take_answers};

/// Tells one lie.
pub fn lie(random: &mut Random, history: &mut History) {
    let values = values(history);
    let operations = history.operations_mut();
    let at = random.index(operations.len());
    let operation = &mut operations[at];
    match random.below(9) {
        0 => {
            // Answered earlier, or begun later: real time now says more.
            let span = operation.completed.unwrap_or(operation.invoked).saturating_sub(operation.invoked);
            operation.completed = operation.completed.map(|end| end - random.below(span + 1));
        }
        1 => operation.invoked += random.below(100),
        2 => operation.outcome = [Outcome::Committed, Outcome::Conflict][random.index(2)],
        3 => {
            operation.outcome = Outcome::Unknown;
            take_answers(operation);
        }
        _ if operation.actions.is_empty() => {}
        4 if operation.actions.len() > 1 => {
            let forgotten = random.index(operation.actions.len());
            operation.actions.remove(forgotten);
        }
        _ => {
            let action = random.index(operation.actions.len());
            change(random, &mut operation.actions[action], &values);
        }
    }
    if let Some(completed) = &mut operation.completed {
        *completed = operation.invoked.max(*completed);
    }
}

fn values(history: &History) -> Vec<u64> {
    let actions = history.operations().iter().flat_map(|operation| &operation.actions);
    let written = actions.filter_map(|action| match action {
        Action::Write { value, .. } => Some(*value),
        _ => None,
    });
    written.collect()
}

fn change(random: &mut Random, action: &mut Action, values: &[u64]) {
    match action {
        Action::Read { value, number, .. } => match (random.below(3), number) {
            (0, Some(number)) => *number = Number::from_u64(random.below(2 + 2 * number.to_u64())),
            (1, _) if !values.is_empty() => *value = Some(values[random.index(values.len())]),
            _ => *value = value.filter(|_| in_hundred(random, 50)),
        },
        Action::ReadList { elements: Some(elements), .. } if !elements.is_empty() => {
            let (one, other) = (random.index(elements.len()), random.index(elements.len()));
            match random.below(3) {
                0 => elements.swap(one, other),
                1 => drop(elements.remove(one)),
                _ => elements.truncate(one),
            }
        }
        Action::Exists { exists, .. } => *exists = !*exists,
        Action::Append { offset: Some(offset), .. } => *offset = offset.saturating_sub(random.below(2)),
        Action::Add { old: Some(old), .. } => *old = old.saturating_sub(random.below(3)),
        _ => {}
    }
}

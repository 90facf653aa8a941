//! Many chunks: where each write writes the same value to all parts of a blob, each read sees one value in all that it reads.

use std::collections::HashMap;

use super::{Verdict, Violation};
use crate::history::{Action, Blob, History, Operation, Shown};

/// Every committed transaction that read several parts of one of the blobs saw them all alike.
///
/// The workload promises that each transaction which writes to one of the blobs writes one value to all its parts, or deletes it.
pub fn check(history: &History, blobs: &[Blob]) -> Verdict {
    for (place, operation) in history.operations().iter().enumerate() {
        if !operation.committed() {
            continue;
        }
        if let Some(why) = torn(operation, blobs) {
            return Err(Violation::new(history, "torn read", why, &[place]));
        }
    }
    Ok(())
}

fn torn(operation: &Operation, blobs: &[Blob]) -> Option<String> {
    let mut first: HashMap<Blob, (u32, Option<u64>)> = HashMap::new();
    for action in operation.actions.iter().take_while(|action| !action.changes()) {
        let Action::Read { register, value, .. } = action else { continue };
        if !blobs.contains(&register.blob) {
            continue;
        }
        let (part, seen) = *first.entry(register.blob).or_insert((register.part, *value));
        if seen != *value {
            let (name, blob) = (operation.transaction, register.blob);
            return Some(format!(
                "{name} reads {blob} in two versions: {} in part {part} and {} in part {}",
                Shown(seen),
                Shown(*value),
                register.part
            ));
        }
    }
    None
}

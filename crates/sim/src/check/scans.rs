//! Scans: keys in order, each that exists throughout exactly once, and none that cannot have existed meanwhile.
//!
//! A scan is not a snapshot: what is created or deleted while it runs may be found or not.

use super::{
    Verdict, Violation,
    existence::{Lifetimes, Seen},
};
use crate::history::{Action, Blob, History};

/// Checks the scans over blobs that the history creates; others do not exist.
pub fn check(history: &History) -> Verdict {
    let lifetimes = Lifetimes::of(history);
    let blobs = lifetimes.blobs();
    for (place, operation) in history.operations().iter().enumerate() {
        if !operation.committed() {
            continue;
        }
        for action in &operation.actions {
            let Action::Scan { from, to, found } = action else { continue };
            let fault = |rule, why| Err(Violation::new(history, rule, why, &[place]));
            let name = operation.transaction;
            if let Some(pair) = found.windows(2).find(|pair| pair[0] >= pair[1]) {
                return fault("scan order", format!("{name} finds {} and then {}", pair[0], pair[1]));
            }
            if let Some(outside) = found.iter().find(|blob| *blob < from || *blob >= to) {
                return fault("scan range", format!("{name} asks for {from}..{to} and finds {outside}"));
            }
            if let Some(ghost) = found.iter().find(|blob| blobs.binary_search(blob).is_err()) {
                return fault("ghost blob", format!("{name} finds {ghost}, which nobody ever created"));
            }
            for blob in within(&blobs, *from, *to) {
                let there = found.binary_search(blob).is_ok();
                let seen = if there { Seen::There } else { Seen::NotThere };
                lifetimes.expect(place, operation, *blob, seen)?;
            }
        }
    }
    Ok(())
}

fn within(blobs: &[Blob], from: Blob, to: Blob) -> &[Blob] {
    let first = blobs.partition_point(|blob| *blob < from);
    let end = blobs.partition_point(|blob| *blob < to);
    blobs.get(first..end).unwrap_or_default()
}

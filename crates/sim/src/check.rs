//! Checkers: each reads a whole [`History`] and says what no strictly serializable store could have answered.
//!
//! What is claimed, for every checker:
//! - It is *sound*: a violation is one, whatever the operations of unknown outcome did. Nothing is guessed.
//! - A transaction of unknown outcome is counted once something that it wrote was seen by a counted one; then all of it happened.
//! - What a transaction that ended in conflict has read is not judged: reads over several blobs are promised to agree only in
//!   what commits.
//! - A verdict depends on the history alone; the first violation in a fixed order is reported.
//!
//! [`serializability`] is the general one; the others know a workload and say in plainer words what is wrong with it, and
//! see some things that no order of transactions tells (a hole in a log, a scan that misses a key). [`exact`] decides small
//! histories completely and slowly; it is here to judge the judges.

pub mod appends;
pub mod bank;
pub mod chunks;
pub mod counters;
pub mod documents;
pub mod exact;
pub mod existence;
mod graph;
pub mod scans;
pub mod serializability;
pub mod survival;

use std::fmt;

use crate::history::History;

/// What a checker finds.
pub type Verdict = Result<(), Box<Violation>>;

/// Something that a strictly serializable store cannot have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The short name of what was violated.
    pub rule: &'static str,
    /// What is wrong, in words.
    pub why: String,
    /// The operations that show it, by place in the history.
    pub operations: Vec<usize>,
    /// The same operations as text.
    shown: Vec<String>,
}

impl Violation {
    pub(crate) fn new(history: &History, rule: &'static str, why: String, operations: &[usize]) -> Box<Self> {
        let mut places: Vec<usize> = Vec::new();
        for place in operations {
            if !places.contains(place) {
                places.push(*place);
            }
        }
        let shown = places.iter().map(|place| history.operations()[*place].to_string()).collect();
        Box::new(Violation { rule, why, operations: places, shown })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.why)?;
        self.shown.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

impl std::error::Error for Violation {}

/// Every checker that fits any history: lists, registers, counters, existence, and scans. The plainer ones come first, since
/// they explain better what the general one would also find.
pub fn general(history: &History) -> Verdict {
    appends::check(history)?;
    counters::check(history)?;
    existence::check(history)?;
    scans::check(history)?;
    serializability::check(history)
}

//! What a primary must not log: promises past the bounds of what it takes on, and a second promise of the same transaction.

use std::collections::BTreeMap;

use tyr_node::Node;
use tyr_proto::{
    Epoch, HeadPlan, Operation, Outcome, Output, PartitionId, TransactionId, encoding::to_bytes,
    entry::Entry, message::Answer,
};
use tyr_types::Number;

use super::bounds::Bounds;

/// Where each transaction was prepared: at most once in a partition, for ever, whatever became of the log.
#[derive(Debug, Default)]
pub struct Prepared(BTreeMap<(PartitionId, TransactionId), (Epoch, u64)>);

/// An entry that promises a transaction: the partition, the transaction, and the entry's place.
pub type Promise = (PartitionId, TransactionId, (Epoch, u64));

impl Prepared {
    /// Takes a promise that a node logs. Says what is wrong if it is another one than the transaction has there.
    pub fn note(&mut self, (partition, id, place): Promise) -> Option<String> {
        let first = *self.0.entry((partition, id)).or_insert(place);
        let (epoch, index) = place;
        (first != place).then(|| format!("prepared twice: {id} at {partition}, then as {epoch:?} {index}"))
    }

    /// The number that a transaction has at a partition's heads, if it was promised there.
    pub fn number(&self, partition: PartitionId, id: TransactionId) -> Option<Number> {
        let (epoch, index) = self.0.get(&(partition, id))?;
        Some(Number::new(epoch.0, *index))
    }
}

/// The promise in what a node wants written.
pub fn of(output: &Output) -> Option<Promise> {
    let Output::Store { partition, index, epoch, entry } = output else { return None };
    let Entry::Prepare(prepare) = &**entry else { return None };
    Some((*partition, prepare.id(), (*epoch, *index)))
}

/// The transactions that what a node wants done shows to be committed.
pub fn committed(output: &Output) -> Vec<TransactionId> {
    match output {
        Output::Store { entry, .. } => match &**entry {
            Entry::Outcomes(outcomes) => {
                let committed = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Committed);
                committed.map(|(id, _)| *id).collect()
            }
            _ => Vec::new(),
        },
        Output::Answer(_, Answer::Outcome { id, outcome: Some((Outcome::Committed, _)) }) => vec![*id],
        _ => Vec::new(),
    }
}

/// What is wrong with what a node wants written, if anything is.
pub fn check(node: &Node, output: &Output, bounds: &Bounds, is_short: bool) -> Option<String> {
    let Output::Store { partition: id, epoch, entry, .. } = output else { return None };
    // By that it is told whether a log and a message take it.
    let (size, reckoned) = (to_bytes(&**entry).len(), entry.size());
    if size > reckoned {
        return Some(format!("an entry has {size} bytes, and {reckoned} were reckoned: {entry:?} at {id}"));
    }
    let Entry::Prepare(prepare) = &**entry else { return None };
    let partition = node.partition(*id)?;
    let configuration = partition.configuration();
    if configuration.primary() != Some(node.replica()) || configuration.epoch != *epoch {
        return None;
    }
    let own = &prepare.plan.heads[prepare.stop().heads.clone()];
    let broken = |rule: &str| Some(format!("{rule}: {} at {id}", prepare.id()));
    if own.iter().any(|head| !head.only_reads()) {
        if configuration.replicas.len() < usize::from(bounds.min_replicas) {
            return broken("a write was taken with too few replicas");
        }
        // Whether an attribute had a value as long before is known no more.
        let takes_none = |operation: &Operation| {
            operation.frees_room() || matches!(operation, Operation::SetAttribute { .. })
        };
        let frees = |head: &HeadPlan| head.operations.iter().all(takes_none);
        if is_short && !prepare.plan.only_notes(prepare.stop().heads.clone()) && !own.iter().all(frees) {
            return broken("a write was taken without room");
        }
    }
    let most = bounds.limits.places_max;
    let is_crowded =
        |head: &HeadPlan| partition.state().head(&head.blob).is_some_and(|head| head.places().len() > most);
    if own.iter().any(is_crowded) { broken("too many places at a head") } else { None }
}

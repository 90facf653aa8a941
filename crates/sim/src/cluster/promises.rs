//! What a primary must not log: promises past the bounds of what it takes on.

use tyr_proto::{Operation, Output, Router, entry::Entry};

use super::bounds::Bounds;

/// What is wrong with what a node wants written, if anything is.
pub fn check(router: &Router, output: &Output, bounds: &Bounds, is_short: bool) -> Option<String> {
    let Output::Store { partition: id, epoch, entry, .. } = output else { return None };
    let Entry::Prepare(prepare) = &**entry else { return None };
    let partition = router.partition(*id)?;
    let configuration = partition.configuration();
    if configuration.primary() != Some(router.me()) || configuration.epoch != *epoch {
        return None;
    }
    let own = &prepare.plan.heads[prepare.stop().heads.clone()];
    let frees = |operation: &Operation| matches!(operation, Operation::Delete | Operation::Truncate { .. });
    let broken = |rule: &str| Some(format!("{rule}: {} at {id}", prepare.id()));
    if own.iter().any(|head| !head.only_reads()) {
        if configuration.replicas.len() < usize::from(bounds.min_replicas) {
            return broken("a write was taken with too few replicas");
        }
        if is_short && own.iter().any(|head| !head.operations.iter().all(frees)) {
            return broken("a write was taken without room");
        }
    }
    let most = bounds.limits.places_max;
    let is_crowded = |head: &tyr_proto::HeadPlan| {
        partition.state().head(&head.blob).is_some_and(|head| head.places().len() > most)
    };
    if own.iter().any(is_crowded) { broken("too many places at a head") } else { None }
}

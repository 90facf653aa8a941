//! Keeps what snapshots with names show: tells who opens one what it has kept, and lets go of what is over.

use alloc::vec::Vec;

use super::Partition;
use crate::{
    BlobName, KeepName,
    effects::Context,
    entry::Entry,
    freeze::first_name,
    head::Head,
    message::{Answer, Looked, RequestId},
    snapshots::Standing,
};

/// One answer looks at most at so many heads.
const VISITS_MAX: usize = 1024;
/// What is over is looked for this often, in microseconds.
const LOOK_EVERY: u64 = 500_000;
/// One entry for each keep that is let go of is logged at a tick, and at most so many.
const LET_GO_MAX: usize = 16;

impl Partition {
    /// A client opens a snapshot with a name: which blobs does it show after one?
    pub fn handle_kept(
        &mut self,
        cx: &mut Context<'_>,
        request: RequestId,
        keep: &KeepName,
        after: Option<BlobName>,
    ) {
        let answer = if self.may_serve(cx) { self.kept(cx, request, keep, after) } else { None };
        cx.answer(request.session, answer.unwrap_or_else(|| self.elsewhere()));
    }

    /// Nothing if this replica does not know of the keep yet.
    fn kept(
        &self,
        cx: &Context<'_>,
        request: RequestId,
        name: &KeepName,
        after: Option<BlobName>,
    ) -> Option<Answer> {
        let is_over = is_over(cx, name);
        let Some(keep) = self.state.keeps().get(name).filter(|_| !is_over) else {
            // What was durable everywhere before the snapshot was complete is not here: everybody has lost it.
            let known = cx.keyspaces.get(&name.keyspace).and_then(|known| known.snapshots.get(name.snapshot));
            let is_lost = known.is_some_and(|known| known.point == Some(name.point));
            return (is_over || is_lost).then_some(Answer::Expired { request });
        };
        let first = after.clone().or_else(|| first_name(name.keyspace, &[]))?;
        let is_of = |blob: &BlobName| blob.keyspace == name.keyspace;
        let is_next = |blob: &BlobName| after.as_ref() != Some(blob);
        let mut replaced = keep.replaced_from(&first).filter(|(blob, _)| is_next(blob)).peekable();
        let heads = self.state.heads_from(&first).take_while(|(blob, _)| is_of(blob));
        let mut heads = heads.filter(|(blob, _)| is_next(blob)).peekable();
        let (mut blobs, mut visits, mut room) = (Vec::new(), 0, cx.limits.copy_max);
        let mut last = None;
        let next = loop {
            // A head that was replaced is in both; one of a blob that is gone for good is in neither.
            let (in_replaced, in_heads) =
                (replaced.peek().map(|(blob, _)| *blob), heads.peek().map(|(blob, _)| *blob));
            let Some(blob) = in_replaced.into_iter().chain(in_heads).min().cloned() else { break None };
            if visits == VISITS_MAX || room == 0 {
                break last;
            }
            visits += 1;
            let was = replaced.next_if(|(name, _)| **name == blob).map(|(_, looked)| looked.clone());
            let head = heads.next_if(|(name, _)| **name == blob).map(|(_, head)| head);
            let as_then = head.filter(|head| head.newest() < keep.number());
            if let Some(looked) = was.or_else(|| as_then.and_then(Head::looked)) {
                room = room.saturating_sub(size_of(&blob, &looked));
                blobs.push((blob.clone(), looked));
            }
            last = Some(blob);
        };
        Some(Answer::Kept { request, number: keep.number(), blobs, next })
    }

    /// Lets go of what is kept for snapshots that are over.
    pub(super) fn tick_keeps(&mut self, cx: &mut Context<'_>) {
        if self.state.keeps().is_empty() || cx.now.since(self.keeps_looked_at) < LOOK_EVERY {
            return;
        }
        self.keeps_looked_at = cx.now;
        let over = self.state.keeps().held().map(|(name, _)| name).filter(|name| is_over(cx, name));
        for name in over.take(LET_GO_MAX).copied().collect::<Vec<_>>() {
            self.append(cx, Entry::LetGo(name));
        }
    }
}

/// Whether nothing is kept any more for a snapshot, or for its whole keyspace.
fn is_over(cx: &Context<'_>, name: &KeepName) -> bool {
    cx.keyspaces.get(&name.keyspace).is_some_and(|known| {
        known.is_dropped || known.snapshots.standing(name.snapshot, name.point) == Standing::Over
    })
}

/// What it takes in a message, about.
fn size_of(blob: &BlobName, looked: &Looked) -> usize {
    let attributes = looked.attributes.iter().map(|(name, value)| name.len() + value.len() + 8);
    blob.key.as_bytes().len() + 32 + attributes.sum::<usize>() + 16 * looked.written.len()
}

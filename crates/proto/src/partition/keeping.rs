//! Keeps what snapshots with names show: tells who opens one what it has kept, and lets go of what is over.

use alloc::vec::Vec;

use super::Partition;
use crate::{
    BlobName, KeepName,
    effects::Context,
    entry::Entry,
    freeze::first_name,
    message::{Answer, Looked, RequestId},
    snapshots::Standing,
};

/// One answer tells of at most so many blobs.
const BLOBS_MAX: usize = 1024;
/// One entry for each keep that is let go of is logged at a tick, and at most so many.
const LET_GO_MAX: usize = 16;

impl Partition {
    /// A client opens a snapshot with a name: which blobs does it show after one?
    pub fn handle_kept(
        &mut self,
        cx: &mut Context,
        request: RequestId,
        keep: &KeepName,
        after: Option<BlobName>,
    ) {
        let answer = self.kept(cx, request, keep, after);
        let answer = answer.filter(|_| self.may_serve(cx)).unwrap_or_else(|| self.elsewhere());
        cx.answer(request.session, answer);
    }

    /// Nothing if this replica does not know of the keep, or not yet.
    fn kept(
        &self,
        cx: &Context,
        request: RequestId,
        name: &KeepName,
        after: Option<BlobName>,
    ) -> Option<Answer> {
        let known = cx.keyspaces.get(&name.keyspace);
        let standing = known.map(|known| known.snapshots.standing(name.snapshot, name.point));
        if standing == Some(Standing::Over) {
            return Some(Answer::Expired { request });
        }
        let keep = self.state.keeps().get(name)?;
        let first = after.clone().or_else(|| first_name(name.keyspace, &[]))?;
        let is_of = |blob: &BlobName| blob.keyspace == name.keyspace && after.as_ref() != Some(blob);
        let mut replaced = keep.replaced_from(&first).filter(|(blob, _)| is_of(blob)).peekable();
        let heads = self.state.heads_from(&first).take_while(|(blob, _)| blob.keyspace == name.keyspace);
        let as_then = heads.filter(|(blob, head)| is_of(blob) && head.newest() < keep.number());
        let mut as_then = as_then.filter_map(|(blob, head)| Some((blob, head.looked()?))).peekable();
        let (mut blobs, mut room) = (Vec::new(), cx.limits.copy_max);
        let more = loop {
            // What was replaced is not as it was then, so that no blob is in both.
            let next = match (replaced.peek(), as_then.peek()) {
                (Some((one, _)), Some((other, _))) if one < other => next_of(&mut replaced),
                (Some(_), None) => next_of(&mut replaced),
                (_, Some(_)) => as_then.next().map(|(blob, looked)| (blob.clone(), looked)),
                (None, None) => None,
            };
            let Some((blob, looked)) = next else { break false };
            if blobs.len() >= BLOBS_MAX || room == 0 {
                break true;
            }
            room = room.saturating_sub(size_of(&blob, &looked));
            blobs.push((blob, looked));
        };
        Some(Answer::Kept { request, number: keep.number(), blobs, more })
    }

    /// Lets go of what is kept for snapshots that are over.
    pub(super) fn tick_keeps(&mut self, cx: &mut Context) {
        if self.state.keeps().is_empty() {
            return;
        }
        let is_over = |name: &&KeepName| {
            let known = cx.keyspaces.get(&name.keyspace);
            known.is_some_and(|known| known.snapshots.standing(name.snapshot, name.point) == Standing::Over)
        };
        let over = self.state.keeps().held().map(|(name, _)| name).filter(is_over);
        for name in over.take(LET_GO_MAX).copied().collect::<Vec<_>>() {
            self.append(cx, Entry::LetGo(name));
        }
    }
}

fn next_of<'a>(
    replaced: &mut impl Iterator<Item = (&'a BlobName, &'a Looked)>,
) -> Option<(BlobName, Looked)> {
    replaced.next().map(|(blob, looked)| (blob.clone(), looked.clone()))
}

/// What it takes in a message, about.
fn size_of(blob: &BlobName, looked: &Looked) -> usize {
    let attributes = looked.attributes.iter().map(|(name, value)| name.len() + value.len() + 8);
    blob.key.as_bytes().len() + 32 + attributes.sum::<usize>() + 16 * looked.written.len()
}

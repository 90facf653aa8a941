//! What a client borrows: asked for to be kept, recalled, and given back.
//!
//! Invariant: when a copy is given back it is gone here, an answer that is under way is not kept when it comes, and nobody who was told
//! of it believes it any more.

use alloc::{sync::Arc, vec::Vec};

use super::{Client, Event, copies::BlobCopy};
use crate::{
    BlobName, NodeId, PartitionId, Time,
    message::{Answer, Message, READ_SIZE_MAX, RequestId},
};

/// Something that was asked for to be kept, and was not answered.
#[derive(Debug)]
pub(super) struct Borrowing {
    blob: BlobName,
    /// When it was asked for first.
    since: Time,
    /// Whether it may be kept when it comes.
    may_keep: bool,
}

impl Client {
    /// As [`Client::get`], of one blob. What is answered goes to the [copies](Client::keep_copies), too, if the primary lends it.
    pub fn borrow(&mut self, now: Time, blob: BlobName, size_max: u64, turn: usize) -> RequestId {
        let partition = self.partition_of(&blob, 0);
        let size_max = size_max.min(READ_SIZE_MAX);
        let borrowing = Borrowing { blob: blob.clone(), since: now, may_keep: self.copies.is_some() };
        let id = self.request(now, partition, turn, |request| Message::Borrow { request, blob, size_max });
        self.borrowing.insert(id, borrowing);
        id
    }

    /// What is lent to this client of a blob now.
    pub(super) fn copy_of(&self, now: Time, blob: &BlobName) -> Option<BlobCopy> {
        self.copies.as_ref()?.get(now, blob)
    }

    /// Keeps nothing any more of what was asked for of a blob up to a request, now or when it comes. Returns the last such request, if there was
    /// one that may have been lent something, and whether somebody may still believe what that says.
    pub(super) fn take_out(&mut self, blob: &BlobName, asked: u64) -> (Option<u64>, bool) {
        let taken = self.copies.as_ref().and_then(|copies| copies.take(blob, asked));
        let mut last = taken.map(|taken| taken.asked);
        let under_way = self.borrowing.iter_mut();
        for (request, borrowing) in under_way.filter(|(id, of)| id.number <= asked && of.blob == *blob) {
            borrowing.may_keep = false;
            last = last.max(Some(request.number));
        }
        (last, taken.is_some_and(|taken| taken.is_told) || self.doubted.contains_key(blob))
    }

    /// Gives back what was lent of a blob that is about to be changed here, so that its primary has not to ask for that.
    pub(super) fn give_back(&mut self, blob: &BlobName) {
        if self.copies.is_none() {
            return;
        }
        let (Some(asked), is_told) = self.take_out(blob, u64::MAX) else { return };
        let partition = self.partition_of(blob, 0);
        let primary = self.ring.get(&partition).and_then(|configuration| configuration.replicas.first());
        if let Some(primary) = primary.map(|replica| replica.node) {
            self.return_to(primary, partition, blob.clone(), asked, is_told);
        }
    }

    /// Says that a copy is gone, when those who were told of it believe it no more.
    pub(super) fn return_to(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        blob: BlobName,
        asked: u64,
        is_told: bool,
    ) {
        if self.tells_recalls && is_told {
            *self.doubted.entry(blob.clone()).or_default() += 1;
            return self.events.push_back(Event::Recalled(node, partition, blob, asked));
        }
        let session = self.session;
        self.send_to(node, partition, Message::GiveBack { session, blob, asked });
    }

    /// Gives back what was [recalled](Event::Recalled): nobody believes it any more.
    pub fn give_back_recalled(&mut self, node: NodeId, partition: PartitionId, blob: BlobName, asked: u64) {
        if let Some(times) = self.doubted.get_mut(&blob) {
            *times -= 1;
            if *times == 0 {
                self.doubted.remove(&blob);
            }
        }
        self.return_to(node, partition, blob, asked, false);
    }

    /// What a request was answered that borrows.
    pub(super) fn handle_lent(&mut self, now: Time, answer: Answer) {
        let Answer::Lent { request, number, blob, bytes, lasts } = answer else { return };
        let Some(Borrowing { blob: name, since, may_keep }) = self.borrowing.remove(&request) else { return };
        if self.requests.remove(&request).is_none() {
            return;
        }
        if let Some(copies) = self.copies.as_ref().filter(|_| may_keep && lasts > 0) {
            let copy =
                BlobCopy { number, blob: blob.clone().map(Arc::new), bytes: bytes.as_deref().map(Arc::from) };
            copies.keep(now, (&name, request.number), copy, since, lasts);
        }
        self.events.push_back(Event::Got(request, number, blob, bytes.map(Vec::from), Vec::new()));
    }
}

//! Several blobs as they were at one point, to be read as long as they are held.

use alloc::vec::Vec;
use core::ops::Range;

use tyr_types::Number;

use super::{
    Client, Event, FrozenBlob,
    reads::{ReadAnswer, ReadId, Reads},
};
use crate::{
    BlobName, Time,
    message::{Looked, RequestId},
};

/// A snapshot. Reads of it never conflict, and may go to any replica.
#[derive(Debug)]
pub struct Snapshot {
    /// What holds it; nothing if it has a name and lasts until it is dropped.
    asked: Option<RequestId>,
    reads: Reads,
}

impl Snapshot {
    /// What [`Client::snapshot`] asked for and [`Event::Frozen`] told. The turn chooses among replicas: any number.
    pub fn new(asked: RequestId, blobs: Vec<FrozenBlob>, turn: usize) -> Self {
        let mut reads = Reads::new(turn);
        reads.see_frozen(blobs);
        Snapshot { asked: Some(asked), reads }
    }

    /// One with a name, of which all partitions have told what they keep.
    pub(super) fn opened(blobs: Vec<FrozenBlob>, turn: usize) -> Self {
        let mut reads = Reads::new(turn);
        reads.see_frozen(blobs);
        Snapshot { asked: None, reads }
    }

    /// What holds it; nothing if it has a name and lasts until it is dropped.
    pub fn asked(&self) -> Option<RequestId> {
        self.asked
    }

    /// The blobs in it that exist.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobName> {
        self.reads.existing()
    }

    /// A blob as it was, with the number at which it is read; `None` if it is no part of the snapshot or did not exist.
    pub fn looked(&self, blob: &BlobName) -> Option<(Number, &Looked)> {
        self.reads.looked(blob)
    }

    /// Reads bytes of a blob; `None` if it is no part of the snapshot.
    pub fn read(
        &mut self,
        client: &mut Client,
        now: Time,
        blob: &BlobName,
        range: Range<u64>,
    ) -> Option<ReadId> {
        self.reads.knows(blob).then(|| self.reads.read(client, now, blob.clone(), range, Vec::new()))
    }

    /// Asks what a blob is; `None` if it is no part of the snapshot.
    pub fn stat(&mut self, client: &mut Client, now: Time, blob: &BlobName) -> Option<ReadId> {
        self.reads.knows(blob).then(|| self.reads.stat(client, now, blob.clone(), Vec::new()))
    }

    /// The blob that a request of the client is to read.
    pub fn read_by(&self, request: RequestId) -> Option<BlobName> {
        self.reads.held_for(request).map(|(blob, _)| blob)
    }

    /// Takes what the client was told, if it concerns this snapshot.
    pub fn handle(&mut self, client: &mut Client, now: Time, event: &mut Event) -> bool {
        self.reads.handle(client, now, event)
    }

    /// The next answer. After [`ReadAnswer::Lost`] the snapshot is to be taken anew.
    pub fn poll_answer(&mut self) -> Option<(ReadId, ReadAnswer)> {
        self.reads.poll_answer()
    }

    /// Lets go of it.
    pub fn let_go(&mut self, client: &mut Client) {
        self.reads.let_go(client);
        if let Some(asked) = self.asked {
            client.let_go(asked);
        }
    }
}

//! What is taken back of what was lent to a client, for who has told others of it.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tyr_proto::{BlobName, NodeId, PartitionId};

use crate::{Keyspace, driver::call::Call};

/// What is taken back of what was lent to a client that keeps [copies](crate::OpenOptions::copies), one after the other.
#[derive(Debug)]
pub struct Recalls {
    receiver: UnboundedReceiver<Recall>,
}

/// A blob of which no copy is here any more, because it is about to change. Who wants to change it waits until this is dropped, or the time of the copy is
/// over.
#[derive(Debug)]
pub struct Recall {
    blob: BlobName,
    owed: Option<Owed>,
}

/// What has to be said when a copy is given back.
#[derive(Debug)]
pub(crate) struct Owed {
    pub node: NodeId,
    pub partition: PartitionId,
    pub asked: u64,
    pub calls: UnboundedSender<Call>,
}

impl Recalls {
    pub(crate) fn new(receiver: UnboundedReceiver<Recall>) -> Self {
        Recalls { receiver }
    }

    /// Waits for the next one; `None` when the store is closed. Not to be called in an asynchronous context.
    pub fn wait(&mut self) -> Option<Recall> {
        self.receiver.blocking_recv()
    }
}

impl Recall {
    pub(crate) fn new(blob: BlobName, owed: Owed) -> Self {
        Recall { blob, owed: Some(owed) }
    }

    /// The key of the blob, if it is in this keyspace.
    pub fn key_in(&self, keyspace: &Keyspace) -> Option<&[u8]> {
        keyspace.is(self.blob.keyspace).then(|| self.blob.key.as_ref())
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        if let Some(Owed { node, partition, asked, calls }) = self.owed.take() {
            // If the client has ended, nobody waits for it.
            let _ = calls.send(Call::GiveBack { node, partition, blob: self.blob.clone(), asked });
        }
    }
}

//! How a client opens a snapshot with a name: it asks each partition of the keyspace what it has kept.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Client, Event, FrozenBlob, Snapshot};
use crate::{
    KeepName, PartitionId, Time,
    message::{Message, RequestId},
};

/// A snapshot that is being opened.
#[derive(Debug)]
pub struct Opening {
    keep: KeepName,
    turn: usize,
    /// Which partition each request asks.
    asked: BTreeMap<RequestId, PartitionId>,
    /// Those that were not asked yet.
    next: Vec<PartitionId>,
    blobs: Vec<FrozenBlob>,
}

/// What has come of opening a snapshot.
#[derive(Debug)]
pub enum Opened {
    /// It can be read until it is dropped.
    Snapshot(Snapshot),
    /// It has been dropped.
    Over,
    /// There is no right to read it.
    Denied,
}

/// As many partitions are asked at once.
const ASKED_MAX: usize = 32;

impl Opening {
    /// Begins to open a snapshot of a keyspace that exists. The turn chooses among replicas: any number.
    pub fn begin(client: &mut Client, now: Time, keep: KeepName, turn: usize) -> Self {
        let mut opening = Opening {
            keep,
            turn,
            asked: BTreeMap::new(),
            next: client.keyspaces.get(&keep.keyspace).map(crate::Keyspace::partitions).unwrap_or_default(),
            blobs: Vec::new(),
        };
        opening.next.reverse();
        opening.go_on(client, now);
        opening
    }

    fn go_on(&mut self, client: &mut Client, now: Time) {
        while self.asked.len() < ASKED_MAX
            && let Some(partition) = self.next.pop()
        {
            let request = client.kept(now, partition, self.keep, None, self.turn);
            self.asked.insert(request, partition);
        }
    }

    /// Whether a request is one of its own.
    pub fn has_asked(&self, request: RequestId) -> bool {
        self.asked.contains_key(&request)
    }

    /// Takes what the client was told, if it concerns this: then what has come of it, once that is known.
    pub fn handle(&mut self, client: &mut Client, now: Time, event: &mut Event) -> Option<Opened> {
        match event {
            Event::Kept(request, number, blobs, more) => {
                let partition = self.asked.remove(request)?;
                let last = blobs.last().map(|(blob, _)| blob.clone());
                let seen = blobs.drain(..).map(|(blob, looked)| (blob, *number, Some(looked)));
                self.blobs.extend(seen);
                if let Some(last) = last.filter(|_| *more) {
                    let request = client.kept(now, partition, self.keep, Some(last), self.turn);
                    self.asked.insert(request, partition);
                }
                self.go_on(client, now);
                let blobs = self.asked.is_empty().then(|| core::mem::take(&mut self.blobs))?;
                Some(Opened::Snapshot(Snapshot::opened(blobs, self.turn)))
            }
            Event::Expired(request) => self.asked.remove(request).map(|_| Opened::Over),
            Event::Denied(request) => self.asked.remove(request).map(|_| Opened::Denied),
            _ => None,
        }
    }

    /// Wants it no more.
    pub fn let_go(self, client: &mut Client) {
        self.asked.into_keys().for_each(|request| client.forget(request));
    }
}

impl Client {
    /// Asks a partition what it has kept for a snapshot, after a blob.
    fn kept(
        &mut self,
        now: Time,
        partition: PartitionId,
        keep: KeepName,
        after: Option<crate::BlobName>,
        turn: usize,
    ) -> RequestId {
        self.request(now, partition, turn, |request| Message::Kept { request, keep, after })
    }
}

//! Snapshots that callers have taken or are taking, and their reads.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use tyr_proto::{
    BlobName, Client, Event, KeepName, Opened, Opening, ReadAnswer, ReadId, Snapshot, Stand, Time,
    message::RequestId,
};
use tyr_types::{Error, KeyspaceId, Result};

use super::{
    Driver, Owner,
    asked::Asked,
    call::{Found, Handle},
};
use crate::words;

/// The snapshots of a driver.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Those that are being taken, and as what.
    freezes: BTreeMap<RequestId, (Handle, Asked<()>)>,
    /// Those with names that are being taken,
    named: BTreeMap<RequestId, Asked<Stand>>,
    /// and opened.
    openings: BTreeMap<Handle, (Opening, Asked<()>)>,
    frozen: BTreeMap<Handle, Frozen>,
}

/// A snapshot that was taken.
#[derive(Debug)]
struct Frozen {
    snapshot: Snapshot,
    reads: BTreeMap<ReadId, Asked<Option<Vec<u8>>>>,
}

impl Snapshots {
    /// Whether there is such a snapshot.
    pub fn has(&self, of: Handle) -> bool {
        self.frozen.contains_key(&of)
    }

    /// Whether something is asked for to take a snapshot.
    pub fn are_taking(&self, request: RequestId) -> bool {
        self.freezes.contains_key(&request)
    }

    /// One cannot be taken.
    pub fn not_taken(&mut self, request: RequestId) {
        if let Some((_, asked)) = self.freezes.remove(&request) {
            asked.answer(Err(expired()));
        }
    }

    /// Waits for a snapshot with a name to be taken.
    pub fn take(&mut self, request: RequestId, asked: Asked<Stand>) {
        self.named.insert(request, asked);
    }

    /// Whether a snapshot with a name is being taken by this.
    pub fn are_taking_named(&self, request: RequestId) -> bool {
        self.named.contains_key(&request)
    }

    /// One has been taken, or cannot be.
    pub fn taken(&mut self, request: RequestId, point: Result<Stand>) {
        if let Some(asked) = self.named.remove(&request) {
            asked.answer(point);
        }
    }

    /// Begins to open one.
    pub fn open(
        &mut self,
        client: &mut Client,
        now: Time,
        of: Handle,
        keep: KeepName,
        turn: usize,
        asked: Asked<()>,
    ) {
        let opening = Opening::begin(client, now, keep, turn);
        match opening.is_of_nothing() {
            true => asked.answer(Err(expired())),
            false => drop(self.openings.insert(of, (opening, asked))),
        }
    }

    /// Whether something is asked for to open a snapshot.
    pub fn are_opening(&self, request: RequestId) -> bool {
        self.openings.values().any(|(opening, _)| opening.has_asked(request))
    }

    /// A node has answered what was asked to open a snapshot.
    pub fn opened(&mut self, client: &mut Client, now: Time, request: RequestId, event: &mut Event) {
        let mut openings = self.openings.iter_mut();
        let Some((of, (opening, _))) = openings.find(|(_, (opening, _))| opening.has_asked(request)) else {
            return;
        };
        let of = *of;
        let Some(opened) = opening.handle(client, now, event) else { return };
        let Some((opening, asked)) = self.openings.remove(&of) else { return };
        opening.let_go(client);
        match opened {
            Opened::Snapshot(_) if asked.reply.is_closed() => {}
            Opened::Snapshot(snapshot) => {
                self.frozen.insert(of, Frozen { snapshot, reads: BTreeMap::new() });
                asked.answer(Ok(()));
            }
            Opened::Over => asked.answer(Err(expired())),
            Opened::Denied => asked.answer(Err(words::denied())),
        }
    }

    /// There is no right to what a snapshot was to show. False if that is not what was asked for.
    pub fn deny(&mut self, request: RequestId) -> bool {
        if let Some(asked) = self.named.remove(&request) {
            asked.answer(Err(words::denied()));
            return true;
        }
        let taken = self.freezes.remove(&request);
        taken.map(|(_, asked)| asked.answer(Err(words::denied()))).is_some()
    }

    /// Nobody answers any more.
    pub fn deny_all(&mut self, client: &mut Client, denied: impl Fn() -> Error) {
        for (request, (_, asked)) in std::mem::take(&mut self.freezes) {
            client.let_go(request);
            asked.answer(Err(denied()));
        }
        for (request, asked) in std::mem::take(&mut self.named) {
            client.let_go(request);
            asked.answer(Err(denied()));
        }
        for (opening, asked) in std::mem::take(&mut self.openings).into_values() {
            opening.let_go(client);
            asked.answer(Err(denied()));
        }
        for frozen in self.frozen.values_mut() {
            std::mem::take(&mut frozen.reads).into_values().for_each(|asked| asked.answer(Err(denied())));
        }
    }

    /// A blob in a snapshot.
    pub fn look(&self, of: Handle, blob: &BlobName) -> Result<Option<Found>> {
        self.find(of).map(|snapshot| found(snapshot, blob))
    }

    /// Blobs of a keyspace in a snapshot with a prefix, after a key.
    pub fn list(
        &self,
        of: Handle,
        keyspace: KeyspaceId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(BlobName, Found)>> {
        let snapshot = self.find(of)?;
        let is_wanted = |blob: &&BlobName| {
            let key = blob.key.as_bytes();
            blob.keyspace == keyspace && key.starts_with(prefix) && after.is_none_or(|after| key > after)
        };
        let listed = snapshot.blobs().filter(is_wanted).take(limit);
        Ok(listed.filter_map(|blob| Some((blob.clone(), found(snapshot, blob)?))).collect())
    }

    /// Lets go of a snapshot.
    pub fn let_go(&mut self, client: &mut Client, of: Handle) {
        if let Some((opening, _)) = self.openings.remove(&of) {
            opening.let_go(client);
        }
        if let Some(mut frozen) = self.frozen.remove(&of) {
            frozen.snapshot.let_go(client);
        }
    }

    /// Lets go of all, and takes no more.
    pub fn close(&mut self, client: &mut Client) {
        self.freezes.clear();
        self.named.clear();
        self.openings.clear();
        for mut frozen in std::mem::take(&mut self.frozen).into_values() {
            frozen.snapshot.let_go(client);
        }
    }

    /// Tells a snapshot what has come of one of its requests.
    pub fn handle(&mut self, client: &mut Client, now: Time, of: Handle, event: &mut Event) {
        if let Some(frozen) = self.frozen.get_mut(&of) {
            frozen.snapshot.handle(client, now, event);
        }
    }

    /// Tells that to the snapshot whose request it is, if one's it is.
    pub fn offer(&mut self, client: &mut Client, now: Time, event: &mut Event) -> Option<Handle> {
        let mut frozen = self.frozen.iter_mut();
        frozen.find_map(|(of, frozen)| frozen.snapshot.handle(client, now, event).then_some(*of))
    }

    /// Answers those who have waited too long, and forgets what nobody waits for.
    pub fn give_up(&mut self, client: &mut Client, at: Instant, late: impl Fn() -> Error) {
        for (request, (_, asked)) in self.freezes.extract_if(.., |_, (_, asked)| asked.is_over(at)) {
            client.let_go(request);
            asked.answer(Err(late()));
        }
        for (request, asked) in self.named.extract_if(.., |_, asked| asked.is_over(at)) {
            client.let_go(request);
            asked.answer(Err(late()));
        }
        for (_, (opening, asked)) in self.openings.extract_if(.., |_, (_, asked)| asked.is_over(at)) {
            opening.let_go(client);
            asked.answer(Err(late()));
        }
        for frozen in self.frozen.values_mut() {
            for (_, asked) in frozen.reads.extract_if(.., |_, asked| asked.is_late(at)) {
                asked.answer(Err(late()));
            }
        }
    }

    fn find(&self, of: Handle) -> Result<&Snapshot> {
        self.frozen.get(&of).map(|frozen| &frozen.snapshot).ok_or_else(words::closed)
    }
}

impl Frozen {
    /// Passes on what has been read.
    fn settle(&mut self) {
        while let Some((id, answer)) = self.snapshot.poll_answer() {
            let Some(asked) = self.reads.remove(&id) else { continue };
            asked.answer(match answer {
                ReadAnswer::Bytes(bytes) => Ok(bytes),
                ReadAnswer::Denied => Err(words::denied()),
                ReadAnswer::BytesLost => Err(words::bytes_lost()),
                ReadAnswer::Stat(_) | ReadAnswer::Lost => Err(expired()),
            });
        }
    }
}

impl Driver {
    /// Begins to take a snapshot of keyspaces.
    pub(super) fn begin_freeze(&mut self, of: Handle, keyspaces: BTreeSet<KeyspaceId>, asked: Asked<()>) {
        let now = self.now();
        let prefixes = keyspaces.into_iter().map(|keyspace| (keyspace, &b""[..]));
        let request = self.client.snapshot_prefixes(now, &prefixes.collect());
        self.snapshots.freezes.insert(request, (of, asked));
    }

    /// A snapshot has been taken.
    pub(super) fn freeze(&mut self, event: Event) {
        let Event::Frozen(request, blobs) = event else { return };
        let Some((of, asked)) = self.snapshots.freezes.remove(&request) else { return };
        let turn = self.turn();
        let mut snapshot = Snapshot::new(request, blobs, turn);
        if asked.reply.is_closed() {
            snapshot.let_go(&mut self.client);
            return;
        }
        self.snapshots.frozen.insert(of, Frozen { snapshot, reads: BTreeMap::new() });
        asked.answer(Ok(()));
    }

    /// Reads bytes of a blob in a snapshot.
    pub(super) fn read_frozen(
        &mut self,
        of: Handle,
        blob: &BlobName,
        range: Range<u64>,
        asked: Asked<Option<Vec<u8>>>,
    ) {
        let now = self.now();
        let Some(frozen) = self.snapshots.frozen.get_mut(&of) else {
            return asked.answer(Err(words::closed()));
        };
        match frozen.snapshot.read(&mut self.client, now, blob, range) {
            Some(id) => drop(frozen.reads.insert(id, asked)),
            None => asked.answer(Ok(None)),
        }
        self.settle_snapshot(of);
    }

    /// Sends what a snapshot asks, and passes on what it was told.
    pub(super) fn settle_snapshot(&mut self, of: Handle) {
        self.flush(Some(Owner::Snapshot(of)));
        if let Some(frozen) = self.snapshots.frozen.get_mut(&of) {
            frozen.settle();
        }
    }
}

fn found(snapshot: &Snapshot, blob: &BlobName) -> Option<Found> {
    snapshot.looked(blob).map(|(number, looked)| Found { number, looked: looked.clone() })
}

pub(super) fn expired() -> Error {
    Error::expired(
        "what the snapshot shows is not kept any more, after a failure or a long pause, or since it was dropped; take another one",
    )
}

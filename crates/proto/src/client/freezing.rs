//! How a client freezes blobs: for a snapshot, or for a transaction that would be refused again and again.
//!
//! One that is not answered in time is let go and asked for anew under another name: what two passes through the stops saw is never put
//! together.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use tyr_types::{KeyspaceId, Number};

use super::{Client, Event, Pin, RENEW_AFTER};
use crate::{
    BlobName, Extent, Freeze, NodeId, PartitionId, SnapshotId, Stand, Time,
    message::{Looked, Message, RequestId},
};

/// A freeze that has not been answered by all its stops.
#[derive(Debug)]
pub(super) struct Freezing {
    freeze: Arc<Freeze>,
    stops: Vec<PartitionId>,
    told: BTreeMap<Stand, BTreeMap<PartitionId, Stop>>,
    sent_at: Time,
    patience: u64,
}

/// What a stop has told at one point.
#[derive(Debug)]
struct Stop {
    node: NodeId,
    blobs: Vec<FrozenBlob>,
    /// Whether it has more to tell.
    more: bool,
    renewed_at: Time,
}

/// What a stop tells at once.
#[derive(Debug)]
pub(super) struct ToldPart {
    pub partition: PartitionId,
    /// The blob after which that comes; `None` if it is the first.
    pub after: Option<BlobName>,
    pub blobs: Vec<FrozenBlob>,
    pub more: bool,
}

impl Freezing {
    /// The stops that have told something and are to hold it readable while others are heard.
    pub(super) fn renew(&mut self, now: Time) -> Vec<(NodeId, PartitionId, RequestId)> {
        let request = self.freeze.request;
        let stops = self.told.values_mut().flatten();
        let late = stops.filter(|(_, stop)| now.since(stop.renewed_at) >= RENEW_AFTER);
        late.map(|(partition, stop)| {
            stop.renewed_at = now;
            (stop.node, *partition, request)
        })
        .collect()
    }
}

/// A blob as it is at the point of a freeze: its number, and what it is if it exists.
pub type FrozenBlob = (BlobName, Number, Option<Looked>);

/// A freeze is asked for anew after this many microseconds without an answer, and as many more for each stop; after twice as long the next time, up to
/// as long as it may wait at a stop.
const PATIENCE: u64 = 400_000;
const STOP_PATIENCE: u64 = 500;

impl Client {
    /// Sees several blobs at one point. They stay readable at their numbers until they are let go.
    pub fn snapshot(&mut self, now: Time, blobs: &BTreeSet<BlobName>) -> RequestId {
        let extent = self.extent_of(blobs);
        self.begin_freeze(now, false, extent)
    }

    /// Has all blobs of a keyspace kept as they are at one point, for a snapshot that was begun at the cluster manager. When that is done
    /// [`Event::Taken`] tells the point, which completes it.
    pub fn take_snapshot(&mut self, now: Time, keyspace: KeyspaceId, snapshot: SnapshotId) -> RequestId {
        self.begin_freeze(now, false, Extent::Keyspace(keyspace, snapshot))
    }

    /// Sees all blobs of some keyspaces whose keys begin so at one point. They stay readable at their numbers until they are let go. At
    /// most [`crate::FREEZE_PREFIXES_MAX`] prefixes.
    pub fn snapshot_prefixes(&mut self, now: Time, prefixes: &BTreeSet<(KeyspaceId, &[u8])>) -> RequestId {
        let prefixes = prefixes.iter().map(|(keyspace, prefix)| (*keyspace, Arc::from(*prefix)));
        self.begin_freeze(now, false, Extent::Prefixes(prefixes.collect()))
    }

    /// Sees several blobs at one point and keeps everybody else from changing them, until a transaction comes that names this as its
    /// reserve, it is let go, or [`crate::FREEZE_MAX`] is over.
    pub fn reserve(&mut self, now: Time, blobs: &BTreeSet<BlobName>) -> RequestId {
        let extent = self.extent_of(blobs);
        self.begin_freeze(now, true, extent)
    }

    fn extent_of(&self, blobs: &BTreeSet<BlobName>) -> Extent {
        let mut placed: Vec<_> =
            blobs.iter().map(|blob| (self.partition_of(blob, 0), blob.clone())).collect();
        placed.sort();
        Extent::Blobs(placed)
    }

    fn begin_freeze(&mut self, now: Time, stays: bool, extent: Extent) -> RequestId {
        let request = self.next_request();
        let freeze = Arc::new(Freeze { request, stays, extent });
        let stops = freeze.stops(&self.keyspaces);
        if stops.is_empty() {
            // What needs keyspaces needs them all.
            let nothing = Event::Frozen(request, Vec::new());
            let event = if freeze.is_of_keyspaces() { Event::Expired(request) } else { nothing };
            self.events.push_back(event);
            return request;
        }
        let patience = PATIENCE + STOP_PATIENCE * stops.len() as u64;
        let freezing = Freezing { freeze, stops, told: BTreeMap::new(), sent_at: now, patience };
        self.send_freeze(&freezing);
        self.freezes.insert(request, freezing);
        request
    }

    fn send_freeze(&mut self, freezing: &Freezing) {
        let message = Message::Freeze { freeze: freezing.freeze.clone(), stands: Vec::new() };
        self.send(freezing.stops[0], message);
    }

    /// A stop tells what it sees, or some of that. Complete is what all stops told with the same point. One of them is asked for more at a
    /// time: what many tell at once, nobody could hold.
    pub(super) fn handle_frozen(
        &mut self,
        now: Time,
        from: NodeId,
        request: RequestId,
        point: Stand,
        part: ToldPart,
    ) {
        let of_request = |(_, freezing): &(&RequestId, &mut Freezing)| freezing.freeze.request == request;
        let Some((asked, freezing)) = self.freezes.iter_mut().find(of_request) else { return };
        let asked = *asked;
        let told = freezing.told.entry(point).or_default();
        let ToldPart { partition, after, mut blobs, more } = part;
        match told.get_mut(&partition) {
            None if after.is_none() => {
                told.insert(partition, Stop { node: from, blobs, more, renewed_at: now });
            }
            Some(stop)
                if stop.more
                    && stop.node == from
                    && stop.blobs.last().map(|(blob, ..)| blob) == after.as_ref() =>
            {
                stop.blobs.append(&mut blobs);
                stop.more = more;
            }
            // What has been told is told again.
            _ => return,
        }
        freezing.sent_at = now;
        if told.len() < freezing.stops.len() {
            return;
        }
        if let Some((partition, stop)) = told.iter().find(|(_, stop)| stop.more) {
            let (node, partition) = (stop.node, *partition);
            if let Some((after, ..)) = stop.blobs.last() {
                let message = Message::TellFrozen { request, after: after.clone() };
                self.send_to(node, partition, message);
            }
            return;
        }
        let told = core::mem::take(told);
        let takes = self.freezes.remove(&asked).is_some_and(|freezing| freezing.freeze.takes_snapshot());
        if takes {
            return self.events.push_back(Event::Taken(asked, point));
        }
        let (mut pins, mut blobs) = (Vec::new(), Vec::new());
        for (partition, Stop { node, blobs: mut own, renewed_at, .. }) in told {
            pins.push(Pin { request, partition, node, renewed_at });
            blobs.append(&mut own);
        }
        self.pins.insert(asked, pins);
        self.events.push_back(Event::Frozen(asked, blobs));
    }

    /// The name under which a freeze stands that was asked for and told.
    pub fn name_of_freeze(&self, asked: RequestId) -> Option<RequestId> {
        self.pins.get(&asked).and_then(|pins| pins.first()).map(|pin| pin.request)
    }

    /// As what a freeze was asked for that was not answered and stands under this name.
    pub(super) fn asked_freeze(&self, request: RequestId) -> Option<RequestId> {
        let of_request = |(_, freezing): &(&RequestId, &Freezing)| freezing.freeze.request == request;
        self.freezes.iter().find(of_request).map(|(asked, _)| *asked)
    }

    /// Wants a freeze no more that was not answered.
    pub(super) fn drop_freeze(&mut self, asked: RequestId) {
        let Some(freezing) = self.freezes.remove(&asked) else { return };
        self.tell_dropped(&freezing);
    }

    fn tell_dropped(&mut self, freezing: &Freezing) {
        for partition in freezing.stops.clone() {
            self.send(partition, Message::Pin { request: freezing.freeze.request, keep: false });
        }
    }

    /// Asks anew for freezes that pass a partition whose holders have changed.
    pub(super) fn freeze_again_at(&mut self, now: Time, partition: PartitionId) {
        self.freeze_again(now, |freezing| freezing.stops.contains(&partition));
    }

    /// Asks anew for freezes that were not answered in time. Says whether there are any.
    pub(super) fn tick_freezes(&mut self, now: Time) -> bool {
        self.freeze_again(now, |freezing| now.since(freezing.sent_at) >= freezing.patience)
    }

    fn freeze_again(&mut self, now: Time, is_lost: impl Fn(&Freezing) -> bool) -> bool {
        let lost = self.freezes.iter().filter(|(_, freezing)| is_lost(freezing));
        let asked: Vec<RequestId> = lost.map(|(asked, _)| *asked).collect();
        for asked in &asked {
            let Some(mut freezing) = self.freezes.remove(asked) else { continue };
            self.tell_dropped(&freezing);
            freezing.stops = freezing.freeze.stops(&self.keyspaces);
            if freezing.stops.is_empty() {
                // A keyspace was dropped meanwhile.
                self.events.push_back(Event::Expired(*asked));
                continue;
            }
            let Freeze { stays, extent, .. } = Freeze::clone(&freezing.freeze);
            freezing.freeze = Arc::new(Freeze { request: self.next_request(), stays, extent });
            freezing.told.clear();
            let most = freezing.freeze.lasts(freezing.stops.len());
            (freezing.sent_at, freezing.patience) = (now, (2 * freezing.patience).min(most));
            self.send_freeze(&freezing);
            self.freezes.insert(*asked, freezing);
        }
        !asked.is_empty()
    }
}

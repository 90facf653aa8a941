//! Freezes heads, so that a client sees several blobs at one point or changes them before others do.
//!
//! A freeze visits its heads in the order of chains and is to others what a transaction that holds their slots is: a snapshot one that
//! only reads, a reserve one that writes; only the transaction that names a reserve passes it. So it adds no circle to who waits for whom.
//! It passes on when everything that has a number at a stop is decided there, so at its last stop all heads stand still at once, and
//! nothing that it sees is decided later than something that comes after it: that is its point. It orders nothing, is in no log, ends by
//! itself, and dies with its primary; who was told nothing by then asks for another one.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use core::ops::Bound;

use tyr_types::{KeyspaceId, Number};

use super::{PIN_TIMEOUT, Partition, reading::keeps_versions};
use crate::{
    BlobName, FrozenBlob, PartitionId, Time,
    canary::{Canary, planted},
    effects::Context,
    entry::Entry,
    freeze::{Extent, Freeze, Stand, first_name},
    head::{Access, Head},
    message::{Answer, Looked, Message, RequestId},
};

/// The freezes that stand at a partition.
#[derive(Debug, Default)]
pub struct Freezes {
    count: u64,
    standing: Vec<Standing>,
}

/// A freeze that stands.
///
/// Invariant: as long as it keeps writers out, nothing below a head's number in `numbers` is missing there, and no writer is above it.
#[derive(Debug)]
struct Standing {
    freeze: Arc<Freeze>,
    stop: PartitionId,
    stand: Stand,
    /// How it stands at the stops before this one.
    earlier: Vec<Stand>,
    has_passed: bool,
    /// The last number of each head when it was frozen.
    numbers: BTreeMap<BlobName, Number>,
    /// Those whose keyspace keeps superseded versions.
    pinned: BTreeSet<BlobName>,
    /// The blobs at these numbers, as far as everything up to them is decided.
    seen: BTreeMap<BlobName, Option<Looked>>,
    point: Option<Stand>,
    /// Where that is logged what it keeps, if it takes a snapshot with a name.
    kept_at: Option<u64>,
    is_answered: bool,
    /// Whether its client has not been told all of it.
    more: bool,
    since: Time,
    lasts: u64,
    until: Time,
}

/// A freeze that waits in the queue of heads.
#[derive(Debug)]
pub struct FreezeVisit {
    /// The freeze.
    pub freeze: Arc<Freeze>,
    stands: Vec<Stand>,
    lasts: u64,
    until: Time,
}

/// As many stand or wait at one partition; more are not heard,
const FREEZES_MAX: usize = 1024;
/// nor are those that would have them name more blobs than this.
const NAMES_MAX: usize = 64 << 10;

impl Freezes {
    /// Whether none stands.
    pub fn are_none(&self) -> bool {
        self.standing.is_empty()
    }

    /// Whether a transaction has to wait that does not come for its own reserve.
    pub fn keep_out(&self, now: Time, blob: &BlobName, access: Access, reserve: Option<RequestId>) -> bool {
        let keeps_out = |standing: &Standing| {
            standing.keeps_out(now)
                && (standing.freeze.stays || access == Access::Writes)
                && Some(standing.freeze.request) != reserve
                && standing.covers(blob)
        };
        self.standing.iter().any(keeps_out) && !planted(Canary::FreezeIgnored)
    }

    /// Whether a transaction's own reserve stands at a blob.
    pub fn is_reserved(&self, now: Time, blob: &BlobName, reserve: Option<RequestId>) -> bool {
        let of_it = |standing: &&Standing| Some(standing.freeze.request) == reserve && standing.freeze.stays;
        let mut own = self.standing.iter().filter(of_it);
        own.any(|standing| standing.keeps_out(now) && standing.covers(blob))
    }

    /// How many stand.
    pub fn len(&self) -> usize {
        self.standing.len()
    }
}

impl Standing {
    fn keeps_out(&self, now: Time) -> bool {
        self.until > now && (self.freeze.stays || self.point.is_none())
    }

    fn covers(&self, blob: &BlobName) -> bool {
        self.freeze.covers(self.stop, blob)
    }

    /// Whether nothing needs it any more.
    fn is_told(&self) -> bool {
        self.is_answered && !self.more && !self.freeze.stays
    }

    /// Is there a while longer, for a client that has not been told everything.
    fn keep(&mut self, now: Time) {
        if self.more && !self.freeze.stays {
            self.until = now.after(PIN_TIMEOUT);
        }
    }

    /// Tells its client what it sees after a blob: of the first that all its stops tell at once a sixteenth of what one message may hold.
    fn tell(&mut self, cx: &mut Context<'_>, point: Stand, after: Option<BlobName>) {
        let (request, partition) = (self.freeze.request, self.stop);
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let size_max = if after.is_none() { cx.limits.copy_max / 16 } else { cx.limits.copy_max };
        let (mut blobs, mut size) = (Vec::new(), 0);
        let mut seen =
            self.seen.range((from, Bound::Unbounded)).filter(|_| !self.freeze.takes_snapshot()).peekable();
        while let Some((blob, looked)) = seen.next_if(|_| size < size_max || blobs.is_empty()) {
            let told = (blob.clone(), self.numbers[blob], looked.clone());
            size += size_of_frozen(&told);
            blobs.push(told);
        }
        let more = seen.peek().is_some();
        cx.answer(
            request.session,
            match after {
                None if !more => Answer::Frozen { request, point, partition, blobs },
                _ => Answer::FrozenPart { request, point, partition, after, blobs, more },
            },
        );
        self.more = more;
        self.keep(cx.now);
    }

    /// Goes on to the next stop. At the last one all heads stand still.
    fn pass_on(&mut self, cx: &mut Context<'_>) {
        self.has_passed = true;
        let (freeze, stops) = (self.freeze.clone(), self.freeze.stops(cx.keyspaces));
        if stops.get(self.earlier.len()) != Some(&self.stop) {
            // The keyspaces have changed: it is of no use any more.
            return;
        }
        if let Some(next) = stops.get(self.earlier.len() + 1) {
            let mut stands = self.earlier.clone();
            stands.push(self.stand);
            return cx.to_primary(*next, Message::Freeze { freeze, stands });
        }
        if self.until <= cx.now || !cx.has_lease {
            return;
        }
        self.point = Some(self.stand);
        for (stop, stand) in stops.into_iter().zip(&self.earlier) {
            cx.to_primary(
                stop,
                Message::Frozen { request: freeze.request, stand: *stand, point: self.stand },
            );
        }
    }
}

/// How many bytes it takes in a message, about.
fn size_of_frozen((blob, _, looked): &FrozenBlob) -> usize {
    let of_looked = |looked: &Looked| {
        let attributes = looked.attributes.iter().map(|(name, value)| name.len() + value.len() + 16);
        32 + attributes.sum::<usize>() + 24 * looked.written.len()
    };
    32 + blob.key.as_bytes().len() + looked.as_ref().map_or(0, of_looked)
}

impl Partition {
    /// A freeze arrives, from its client or from the stop before.
    pub fn handle_freeze(&mut self, cx: &mut Context<'_>, freeze: Arc<Freeze>, stands: Vec<Stand>) {
        if !self.is_established() {
            return;
        }
        if !cx.has_lease {
            cx.answer(freeze.request.session, self.elsewhere());
            return;
        }
        let is_known = self.freezes.standing.iter().any(|own| own.freeze.request == freeze.request)
            || self.chain.waits_to_freeze(freeze.request);
        let stops = freeze.stops(cx.keyspaces);
        let is_here = stops.get(stands.len()) == Some(&self.id);
        // The first stop looks for all of them: what comes from another stop it has let in.
        let is_placed = !stands.is_empty() || freeze.is_placed(cx.keyspaces);
        if is_known || !is_here || !is_placed || !freeze.is_due(cx.keyspaces) || !self.takes(&freeze) {
            return;
        }
        let lasts = freeze.lasts(stops.len());
        self.chain.wait_to_freeze(FreezeVisit { freeze, stands, lasts, until: cx.now.after(lasts) });
        self.settle(cx);
    }

    /// Whether there is room for one more freeze.
    fn takes(&self, freeze: &Freeze) -> bool {
        let standing = self.freezes.standing.iter().map(|own| &own.freeze);
        let (count, names) = standing
            .chain(self.chain.waiting_freezes())
            .fold((0, freeze.names()), |(count, names), other| (count + 1, names + other.names()));
        count < FREEZES_MAX && names <= NAMES_MAX
    }

    /// The blobs of a freeze whose heads are here.
    fn blobs_of(&self, freeze: &Freeze) -> Vec<BlobName> {
        match &freeze.extent {
            Extent::Blobs(blobs) => {
                let own = blobs.iter().filter(|(partition, _)| *partition == self.id);
                own.map(|(_, blob)| blob.clone()).collect()
            }
            Extent::Prefixes(prefixes) => prefixes
                .iter()
                .flat_map(|(keyspace, prefix)| self.heads_with(*keyspace, prefix, |_| true))
                .collect(),
            // Of all others it is known how they are.
            Extent::Keyspace(keyspace, _) => self.heads_with(*keyspace, &[], Head::is_in_motion),
        }
    }

    fn heads_with(
        &self,
        keyspace: KeyspaceId,
        prefix: &[u8],
        is_wanted: impl Fn(&Head) -> bool,
    ) -> Vec<BlobName> {
        let Some(first) = first_name(keyspace, prefix) else { return Vec::new() };
        let is_of = |blob: &BlobName| blob.keyspace == keyspace && blob.key.as_bytes().starts_with(prefix);
        let heads = self.state.heads_from(&first).take_while(|(blob, _)| is_of(blob));
        heads.filter(|(_, head)| is_wanted(head)).map(|(blob, _)| blob.clone()).collect()
    }

    /// Whether a freeze need not wait: for no slot of a chain that is at a later stop, and for no reserve.
    pub(super) fn can_freeze(&self, cx: &Context<'_>, visit: &FreezeVisit) -> bool {
        let freeze = &visit.freeze;
        let access = if freeze.stays { Access::Writes } else { Access::Reads };
        let is_free =
            |blob: &BlobName| self.state.head(blob).is_none_or(|head| head.slot_is_free_for(access));
        let excludes = |standing: &Standing| {
            let one_stays = freeze.stays || standing.freeze.stays;
            one_stays && standing.keeps_out(cx.now) && standing.freeze.meets(freeze)
        };
        self.blobs_of(freeze).iter().all(is_free) && !self.freezes.standing.iter().any(excludes)
    }

    /// Freezes the heads that are here.
    pub(super) fn freeze(&mut self, cx: &mut Context<'_>, visit: FreezeVisit) {
        let FreezeVisit { freeze, stands: earlier, lasts, .. } = visit;
        self.freezes.count += 1;
        let stand = Stand { epoch: self.configuration.epoch, count: self.freezes.count };
        let after = self.state.heads_after();
        let number = |blob: &BlobName| self.state.head(blob).map_or(after, Head::frozen_number);
        let numbers: BTreeMap<BlobName, Number> = self
            .blobs_of(&freeze)
            .into_iter()
            .map(|blob| {
                let number = number(&blob);
                (blob, number)
            })
            .collect();
        // What takes a snapshot with a name is logged before anything comes after it.
        let is_pinned = |blob: &&BlobName| !freeze.takes_snapshot() && keeps_versions(cx, blob);
        let pinned = numbers.keys().filter(is_pinned).cloned().collect();
        self.freezes.standing.push(Standing {
            freeze,
            stop: self.id,
            stand,
            earlier,
            has_passed: false,
            pinned,
            numbers,
            seen: BTreeMap::new(),
            point: None,
            kept_at: None,
            is_answered: false,
            more: false,
            since: cx.now,
            lasts,
            until: cx.now.after(lasts),
        });
        self.see_frozen();
        self.run_frozen(cx);
    }

    /// All heads of a freeze stand still, if it still stands here.
    pub fn handle_frozen(&mut self, cx: &mut Context<'_>, request: RequestId, stand: Stand, point: Stand) {
        let (now, may_serve) = (cx.now, self.is_established() && cx.has_lease);
        let mut standing = self.freezes.standing.iter_mut();
        let own = standing.find(|own| own.freeze.request == request && own.point.is_none());
        let stands = |own: &&mut Standing| own.stand == stand && own.until > now && may_serve;
        if let Some(own) = own.filter(stands) {
            own.point = Some(point);
            if !planted(Canary::KeptLate) {
                self.keep_frozen(cx, request);
            }
            self.chain.stir();
            self.settle(cx);
        }
    }

    /// A client has been told some of what its freeze sees, and asks for what comes after a blob.
    pub fn handle_tell_frozen(&mut self, cx: &mut Context<'_>, request: RequestId, after: BlobName) {
        let mut standing = self.freezes.standing.iter_mut();
        let Some(own) = standing.find(|own| own.freeze.request == request && own.is_answered) else { return };
        if let Some(point) = own.point {
            own.tell(cx, point, Some(after));
            self.readers.keep(request, cx.now);
            self.freezes.standing.retain(|standing| !standing.is_told());
        }
    }

    /// Sees the blobs of freezes as far as everything up to their numbers is decided. What comes after them is decided later, so this is
    /// called whenever anything was.
    pub(super) fn see_frozen(&mut self) {
        let looks = |standing: &&mut Standing| standing.seen.len() < standing.numbers.len();
        for standing in self.freezes.standing.iter_mut().filter(looks) {
            let unseen = standing.numbers.iter().filter(|(blob, _)| !standing.seen.contains_key(*blob));
            let mut seen = Vec::new();
            for (blob, number) in unseen {
                let head = self.state.head(blob);
                if head.is_none_or(|head| head.is_decided_up_to(*number)) {
                    // Of a snapshot with a name, what they are is asked for by who opens it.
                    let looks = !standing.freeze.takes_snapshot();
                    let looked = head.filter(|_| looks).and_then(Head::looked);
                    seen.push((blob.clone(), *number, looked));
                }
            }
            for (blob, number, looked) in seen {
                if standing.pinned.contains(&blob) {
                    let Standing { since, until, .. } = *standing;
                    self.readers.pin(standing.freeze.request, blob.clone(), number, since, until);
                }
                standing.seen.insert(blob, looked);
            }
        }
    }

    /// Logs what is kept for a snapshot with a name whose point is known, before a writer comes to what has stood still until now.
    fn keep_frozen(&mut self, cx: &mut Context<'_>, request: RequestId) {
        let of_request = |own: &&Standing| own.freeze.request == request && own.kept_at.is_none();
        let own = self.freezes.standing.iter().find(of_request);
        let Some(name) = own.and_then(|own| own.freeze.keep_at(own.point?)) else { return };
        let index = self.append(cx, Entry::Keep(name));
        let mut standing = self.freezes.standing.iter_mut();
        if let Some(own) = standing.find(|own| own.freeze.request == request) {
            (own.kept_at, own.until) = (Some(index), cx.now.after(own.lasts));
        }
    }

    /// Passes freezes on whose blobs are seen, and tells clients of those that stand everywhere.
    pub(super) fn run_frozen(&mut self, cx: &mut Context<'_>) {
        let mut last = Vec::new();
        for standing in &mut self.freezes.standing {
            let is_seen = standing.seen.len() == standing.numbers.len();
            if !standing.has_passed && (is_seen || planted(Canary::FreezeUndecided)) {
                standing.pass_on(cx);
                last.extend(standing.point.map(|_| standing.freeze.request));
            }
        }
        if !last.is_empty() {
            // Whether its client has been told everything by now or not: it keeps nobody out any more.
            self.chain.stir();
        }
        last.into_iter().for_each(|request| self.keep_frozen(cx, request));
        let durable = self.durable;
        for standing in &mut self.freezes.standing {
            let is_seen = standing.seen.len() == standing.numbers.len();
            let Some(point) = standing.point.filter(|_| is_seen && !standing.is_answered) else { continue };
            let is_kept = standing.kept_at.is_some_and(|index| index <= durable);
            if standing.freeze.takes_snapshot() && !is_kept {
                continue;
            }
            standing.is_answered = true;
            self.readers.keep(standing.freeze.request, cx.now);
            standing.tell(cx, point, None);
        }
        let before = self.freezes.len();
        self.freezes.standing.retain(|standing| !standing.is_told());
        if self.freezes.len() < before {
            self.chain.stir();
        }
    }

    /// Whether every freeze that has gone on from here sees only what is decided.
    pub fn has_frozen_rightly(&self) -> bool {
        let is_decided = |(blob, number): (&BlobName, &Number)| {
            self.state.head(blob).is_none_or(|head| head.is_decided_up_to(*number))
        };
        let passed = self.freezes.standing.iter().filter(|standing| standing.has_passed);
        passed.flat_map(|standing| &standing.numbers).all(is_decided)
    }

    /// A client still hears what a freeze sees.
    pub(super) fn keep_freeze(&mut self, now: Time, request: RequestId) {
        let own = self.freezes.standing.iter_mut().find(|own| own.freeze.request == request);
        if let Some(own) = own {
            own.keep(now);
        }
    }

    /// Ends a freeze: its transaction has come, or its client wants it no more.
    pub(super) fn end_freeze(&mut self, request: RequestId) {
        let before = self.freezes.len();
        self.freezes.standing.retain(|standing| standing.freeze.request != request);
        if self.chain.forget_freezes(|visit| visit.freeze.request == request) || self.freezes.len() < before {
            self.chain.stir();
        }
    }

    pub(super) fn tick_freezes(&mut self, cx: &mut Context<'_>) {
        if planted(Canary::KeptLate) {
            let all: Vec<RequestId> = self.freezes.standing.iter().map(|own| own.freeze.request).collect();
            all.into_iter().for_each(|request| self.keep_frozen(cx, request));
        }
        let before = self.freezes.len();
        self.freezes.standing.retain(|standing| standing.until > cx.now);
        let is_late = |visit: &FreezeVisit| visit.until <= cx.now;
        if self.chain.forget_freezes(is_late) || self.freezes.len() < before {
            self.chain.stir();
            self.settle(cx);
        }
    }

    /// Ends all freezes: nobody is told any more that they stand.
    pub(super) fn drop_freezes(&mut self) {
        self.freezes.standing.clear();
    }
}

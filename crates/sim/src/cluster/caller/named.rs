//! Snapshots with names: begun at the cluster manager, taken by a freeze, completed at the manager, and opened at some later time.
//!
//! What is read then is what was there when it was taken, so that it counts for that time. Nothing of it may be gone before it is dropped.

use tyr_proto::{Event, KeepName, Opened, Opening, SnapshotId, Stand, Time, message::RequestId};

use super::{
    Caller,
    task::{Source, Stage},
};
use crate::cluster::layout::KEYSPACE;

/// What a client asks of the cluster manager.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// To begin a snapshot.
    Begin,
    /// To complete it.
    Complete(SnapshotId, Stand),
    /// To drop it. Nobody waits for the answer.
    Drop(SnapshotId),
}

/// How far a client is with a snapshot that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Which one.
    pub id: SnapshotId,
    /// Where it was taken.
    pub point: Stand,
}

/// It is opened after this many microseconds at most,
const OPENED_AFTER: u64 = 200_000;
/// and one of eight later than a pin lasts.
const OPENED_LATE_AFTER: u64 = 4_000_000;

impl Caller {
    /// Has a snapshot begun.
    pub(super) fn begin_named(&mut self) {
        let Some(task) = &mut self.task else { return };
        task.stage = Stage::Ordering;
        self.orders.push((task.place, Order::Begin));
    }

    /// The cluster manager has done what the operation at a place asked for.
    pub fn ordered(&mut self, now: u64, place: usize, order: Order, id: SnapshotId) {
        let Some(task) = self.task.as_mut().filter(|task| task.place == place) else { return };
        match order {
            Order::Begin => {
                task.stage = Stage::Taking(id, self.client.take_snapshot(Time(now), KEYSPACE, id))
            }
            Order::Complete(id, point) => {
                task.named = Some(Named { id, point });
                task.taken_at = now;
                let late = self.random.below(8) == 0;
                let most = if late { OPENED_LATE_AFTER } else { OPENED_AFTER };
                task.stage = Stage::Unopened(now + self.random.below(most));
            }
            Order::Drop(_) => {}
        }
    }

    /// All stops keep what the snapshot shows.
    pub(super) fn taken(&mut self, told: RequestId, point: Stand) {
        let Some(task) = &mut self.task else { return };
        let Stage::Taking(id, asked) = task.stage else { return };
        if asked == told {
            task.stage = Stage::Ordering;
            self.orders.push((task.place, Order::Complete(id, point)));
        }
    }

    /// Opens what was taken some time ago.
    pub(super) fn open(&mut self, now: u64) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let Some(Named { id, point }) = task.named else { return };
        let keep = KeepName { keyspace: KEYSPACE, snapshot: id, point };
        task.actions.clear();
        task.stage = Stage::Opening(Opening::begin(&mut self.client, Time(now), keep, turn));
    }

    /// A partition has told what it keeps.
    pub(super) fn opened(&mut self, now: u64, mut event: Event) {
        let Some(task) = &mut self.task else { return };
        let Stage::Opening(opening) = &mut task.stage else { return };
        match opening.handle(&mut self.client, Time(now), &mut event) {
            Some(Opened::Snapshot(snapshot)) => {
                task.source = Source::Snapshot(snapshot);
                self.read(now);
            }
            Some(Opened::Over | Opened::Denied) => {
                self.wrong.push("a snapshot that was not dropped is over".to_owned());
            }
            None => {}
        }
    }

    /// It has been read, or given up: drops it, or leaves that to somebody else.
    pub(super) fn leave_named(&mut self, place: usize, named: Named) {
        if self.random.below(2) == 0 {
            self.orders.push((place, Order::Drop(named.id)));
        }
    }
}

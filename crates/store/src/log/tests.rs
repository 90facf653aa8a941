//! Batches in flight together, on a disk that holds every durable write back until the test lets it go.

use std::{collections::BTreeMap, io, thread};

use parking_lot::Condvar;
use tyr_env::{Access, Space};
use tyr_sim_env::SimDisk;
use tyr_types::ErrorKind;
use tyr_wire::extent::SegmentId;

use super::*;

/// What becomes of a write that is let go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    Failed,
}

struct HoldingDisk {
    disk: Arc<SimDisk>,
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    /// Writes that have arrived.
    arrived: usize,
    /// Which of them may go on, by the order of their arrival.
    fates: BTreeMap<usize, Fate>,
    /// Nothing is held back any more.
    is_open: bool,
}

impl HoldingDisk {
    fn new() -> Arc<Self> {
        let state = Mutex::new(Held { is_open: true, ..Held::default() });
        Arc::new(HoldingDisk { disk: SimDisk::new(1), state, changed: Condvar::new() })
    }

    fn hold(&self) {
        *self.state.lock() = Held::default();
    }

    fn let_go(&self, write: usize, fate: Fate) {
        self.state.lock().fates.insert(write, fate);
        self.changed.notify_all();
    }

    fn let_all_go(&self) {
        self.state.lock().is_open = true;
        self.changed.notify_all();
    }

    fn wait_for_arrival(&self, count: usize) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.arrived < count);
    }
}

impl Disk for HoldingDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.disk.open(name, access)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.arrived += 1;
        let write = state.arrived;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| !state.is_open && !state.fates.contains_key(&write));
        let fate = state.fates.get(&write).copied().unwrap_or(Fate::Written);
        drop(state);
        match fate {
            Fate::Written => self.disk.write_durably(writes),
            Fate::Failed => Err(io::Error::other("as the test wants it")),
        }
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

fn open_log(disk: &Arc<HoldingDisk>) -> Log {
    let segments = Arc::new(Segments::new(disk.clone(), 4 << 20, SegmentId(1)));
    let segment = segments.take(SegmentKind::Log).expect("there is space");
    let origin = Origin { store: [1; 16], epoch: 1, segment, position: 0, sequence: 1 };
    let log = Log::new(disk.clone(), Arc::default(), segments, origin, Number::ZERO);
    log.begin().expect("begins");
    disk.hold();
    log
}

fn append(log: &Log, number: u64, len: usize) -> Place {
    let payload = Payload::new(&vec![u8::try_from(number).expect("small"); len]);
    let body = |_: &[Place], out: &mut Vec<u8>| out.extend_from_slice(b"body");
    let draft = Draft { payloads: &[&payload], body: &body };
    log.append(&draft, Number::from_u64(number), Durability::Disk).expect("there is space")[0]
}

fn wait_until(log: &Log, holds: impl Fn(&State) -> bool) {
    while !holds(&log.state.lock()) {
        thread::yield_now();
    }
}

const LARGE: usize = 300 << 10;

#[test]
fn a_large_batch_that_overtakes_another_is_durable_only_after_it() {
    let disk = HoldingDisk::new();
    let log = open_log(&disk);
    thread::scope(|scope| {
        let first = append(&log, 1, LARGE);
        let waits_for_first = scope.spawn(|| log.wait(Number::from_u64(1)));
        disk.wait_for_arrival(1);
        let second = append(&log, 2, LARGE);
        let waits_for_second = scope.spawn(|| log.wait(Number::from_u64(2)));
        disk.wait_for_arrival(2);
        disk.let_go(2, Fate::Written);
        wait_until(&log, |state| state.flight.is_written(1));
        assert_eq!(log.durable(), Number::ZERO);
        let mut byte = [0];
        assert!(log.read_pending(first, &mut byte) && byte == [1]);
        assert!(log.read_pending(second, &mut byte) && byte == [2]);
        disk.let_go(1, Fate::Written);
        waits_for_first.join().expect("does not panic").expect("is durable");
        waits_for_second.join().expect("does not panic").expect("is durable");
        assert_eq!(log.durable(), Number::from_u64(2));
        assert!(!log.read_pending(first, &mut byte), "it is on the disk");
    });
}

#[test]
fn what_was_written_behind_a_failed_batch_is_not_acknowledged_but_still_read() {
    let disk = HoldingDisk::new();
    let log = open_log(&disk);
    thread::scope(|scope| {
        append(&log, 1, LARGE);
        let waits_for_first = scope.spawn(|| log.wait(Number::from_u64(1)));
        disk.wait_for_arrival(1);
        let second = append(&log, 2, LARGE);
        let waits_for_second = scope.spawn(|| log.wait(Number::from_u64(2)));
        disk.wait_for_arrival(2);
        disk.let_go(2, Fate::Written);
        wait_until(&log, |state| state.flight.is_written(1));
        disk.let_go(1, Fate::Failed);
        waits_for_first.join().expect("does not panic").expect_err("was not written");
        waits_for_second.join().expect("does not panic").expect_err("cannot be reached");
        assert_eq!(log.durable(), Number::ZERO);
        let mut byte = [0];
        assert!(log.read_pending(second, &mut byte) && byte == [2]);
    });
}

#[test]
fn small_commits_wait_for_each_other_and_share_a_batch() {
    let disk = HoldingDisk::new();
    let log = open_log(&disk);
    thread::scope(|scope| {
        append(&log, 1, 100);
        scope.spawn(|| log.wait(Number::from_u64(1)).expect("is durable"));
        disk.wait_for_arrival(1);
        for number in 2..5 {
            append(&log, number, 100);
            let log = &log;
            scope.spawn(move || log.wait(Number::from_u64(number)).expect("is durable"));
        }
        wait_until(&log, |state| state.waiters.len() == 3);
        disk.let_all_go();
    });
    assert_eq!(disk.state.lock().arrived, 2);
}

#[test]
fn a_flush_that_has_what_it_waited_for_leaves_the_lead_to_another() {
    let disk = HoldingDisk::new();
    let log = open_log(&disk);
    thread::scope(|scope| {
        append(&log, 1, 100);
        scope.spawn(|| log.wait(Number::from_u64(1)).expect("is durable"));
        disk.wait_for_arrival(1);
        scope.spawn(|| log.flush().expect("is durable"));
        wait_until(&log, |state| state.waiters.len() == 1);
        append(&log, 2, 100);
        scope.spawn(|| log.wait(Number::from_u64(2)).expect("is durable"));
        wait_until(&log, |state| state.waiters.len() == 2);
        disk.let_all_go();
    });
    assert_eq!(log.durable(), Number::from_u64(2));
}

#[test]
fn nobody_waits_for_what_was_never_appended() {
    let disk = HoldingDisk::new();
    let log = open_log(&disk);
    disk.let_all_go();
    append(&log, 1, 100);
    let error = log.wait(Number::from_u64(2)).expect_err("nothing has that number");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = log.poll(Number::from_u64(2), &mut cx) else { panic!("waits for ever") };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    log.wait(Number::from_u64(1)).expect("is durable");
}

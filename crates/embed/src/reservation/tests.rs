use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tyr_os::{IoMode, OsDisk, OsOptions};

use super::*;
use crate::pool::Pool;
use crate::wait::Mode;

fn waiting(directory: &tempfile::TempDir) -> Waiting {
    let options = OsOptions { create: true, io: IoMode::Buffered };
    let disk = OsDisk::open(directory.path(), options).unwrap();
    let create = tyr_store::Create::IfMissing;
    let engine =
        tyr_store::Store::open(disk, tyr_sim_env::SimClock::new(), create, tyr_store::Options::default())
            .unwrap();
    Waiting { engine: Arc::new(engine), pool: Pool::default() }
}

fn place(n: u8) -> Place {
    (KeyspaceId(1), Key::new([n]).unwrap())
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn admit<'a>(
    reservations: &'a Reservations,
    waiting: &'a Waiting,
    place: &'a Place,
) -> impl Future<Output = Result<()>> + 'a {
    reservations.admit(waiting, Mode::Async, std::iter::once((place.0, &place.1)))
}

#[test]
fn writers_of_reserved_blobs_wait_until_the_turn_ends_and_others_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let (waiting, reservations) = (waiting(&directory), Arc::new(Reservations::default()));
    let (one, two, three) = (place(1), place(2), place(3));
    let turn =
        pollster::block_on(reservations.take_turn(&waiting, Mode::Async, [one.clone()].into())).unwrap();
    turn.reserve(two.0, &two.1);
    let mut first = pin!(admit(&reservations, &waiting, &one));
    let mut second = pin!(admit(&reservations, &waiting, &two));
    let mut third = pin!(admit(&reservations, &waiting, &three));
    assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none());
    assert!(poll(third.as_mut()).is_some());
    assert!(!turn.is_over());
    drop(turn);
    assert!(poll(first).is_some() && poll(second).is_some());
}

#[test]
fn turns_are_taken_in_the_order_of_asking_also_when_one_gives_up() {
    let directory = tempfile::tempdir().unwrap();
    let (waiting, reservations) = (waiting(&directory), Arc::new(Reservations::default()));
    let take = || reservations.take_turn(&waiting, Mode::Async, BTreeSet::new());
    let turn = pollster::block_on(take()).unwrap();
    let mut first = Box::pin(take());
    let mut second = pin!(take());
    let mut third = pin!(take());
    assert!(poll(first.as_mut()).is_none());
    assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
    drop(turn);
    // It is the first's turn, whoever looks first.
    assert!(poll(third.as_mut()).is_none());
    drop(first);
    assert!(poll(third.as_mut()).is_none());
    let turn = poll(second).expect("it is in front").unwrap();
    assert!(poll(third.as_mut()).is_none());
    drop(turn);
    assert!(poll(third).is_some());
}

#[test]
fn a_turn_that_hangs_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (waiting, reservations) = (waiting(&directory), Arc::new(Reservations::default()));
    let blob = place(1);
    let turn =
        pollster::block_on(reservations.take_turn(&waiting, Mode::Async, [blob.clone()].into())).unwrap();
    pollster::block_on(admit(&reservations, &waiting, &blob)).unwrap();
    assert!(turn.is_over());
    let next = pollster::block_on(reservations.take_turn(&waiting, Mode::Async, BTreeSet::new())).unwrap();
    // What was left of the first has no say in the second.
    turn.reserve(blob.0, &blob.1);
    drop(turn);
    assert!(!next.is_over());
    pollster::block_on(admit(&reservations, &waiting, &blob)).unwrap();
    assert!(!next.is_over());
}

#[test]
fn who_waits_when_the_store_is_closed_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let (waiting, reservations) = (waiting(&directory), Arc::new(Reservations::default()));
    let blob = place(1);
    let take = || reservations.take_turn(&waiting, Mode::Async, [blob.clone()].into());
    let turn = pollster::block_on(take()).unwrap();
    let mut first = pin!(take());
    let mut writer = pin!(admit(&reservations, &waiting, &blob));
    assert!(poll(first.as_mut()).is_none() && poll(writer.as_mut()).is_none());
    waiting.pool.close();
    let is_told = |error: tyr_types::Error| error.message().contains("closed");
    assert!(poll(first).is_some_and(|turn| turn.err().is_some_and(is_told)));
    assert!(poll(writer).is_some_and(|admitted| admitted.is_err_and(is_told)));
    // Nor does one wait that comes later.
    assert!(poll(pin!(take())).is_some_and(|turn| turn.is_err()));
    assert!(!turn.is_over());
    drop(turn);
    assert!(poll(pin!(take())).is_some_and(|turn| turn.is_ok()), "nobody is before it");
}

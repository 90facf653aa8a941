//! Several threads that work on what one thread hands out. The first failure stops all of them.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use crate::failure::{Failure, Result};

/// Does `work` on every item, on so many threads. Few items are in flight, so that a long list takes little memory.
pub fn work_on<T: Send>(
    threads: usize,
    items: impl Iterator<Item = Result<T>>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let first_failure = FirstFailure::default();
    let (sender, receiver) = mpsc::sync_channel::<T>(threads);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // The lock is held while waiting: whoever has it takes the next item.
                let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(item) = next() {
                    if first_failure.is_set() {
                        continue;
                    }
                    if let Err(failure) = work(item) {
                        first_failure.set(failure);
                    }
                }
            });
        }
        for item in items {
            match item {
                _ if first_failure.is_set() => break,
                Ok(item) => sender.send(item).expect("the receiver outlives the threads"),
                Err(failure) => first_failure.set(failure),
            }
        }
        drop(sender);
    });
    first_failure.into_result()
}

#[derive(Default)]
struct FirstFailure {
    is_set: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl FirstFailure {
    fn set(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.is_set.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn into_result(self) -> Result<()> {
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        let sum = AtomicU64::new(0);
        let worked = work_on(3, (1..=1000).map(Ok), |item| {
            sum.fetch_add(item, Ordering::Relaxed);
            Ok(())
        });
        assert!(worked.is_ok());
        assert_eq!(sum.into_inner(), 500_500);
    }

    #[test]
    fn the_first_failure_stops_the_others() {
        let worked = AtomicU64::new(0);
        let failed = work_on(2, (0..1_000_000).map(Ok), |item: u64| {
            worked.fetch_add(1, Ordering::Relaxed);
            if item == 10 { Err(Failure::Local("broken".to_owned())) } else { Ok(()) }
        });
        assert_eq!(failed.expect_err("fails").to_string(), "broken");
        assert!(worked.into_inner() < 1_000_000);
    }

    #[test]
    fn a_failure_of_the_list_is_a_failure() {
        let items = [Ok(1), Err(Failure::Local("no more".to_owned()))];
        assert_eq!(work_on(2, items.into_iter(), |_| Ok(())).expect_err("fails").to_string(), "no more");
    }
}

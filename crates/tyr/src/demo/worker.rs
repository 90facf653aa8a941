//! The process that is killed: writes all batches that are not in the store yet, on several threads, and says `ack N` on
//! standard output when batch N is acknowledged.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
};

use tyr_client::{Create, blocking::Store};

use super::ledger::{Batch, KEYSPACE, Ledger, Written};
use crate::{
    failure::{Failure, Result},
    opening::with_store,
    output::Output,
    settings::Settings,
    workers::work_on,
};

/// Writes what is missing of one of so many shares.
pub fn run(
    ledger: &Ledger,
    (share, shares): (usize, usize),
    settings: &Settings,
    out: &mut Output,
) -> Result<()> {
    with_store(settings, Create::Never, |store| {
        let next = AtomicUsize::new(share);
        let (acknowledged, to_tell) = channel();
        thread::scope(|scope| {
            let working = scope.spawn(move || {
                let threads = (0..settings.threads).map(|_| Ok(acknowledged.clone()));
                work_on(settings.threads, threads, |acknowledged| {
                    write_batches(ledger, store, (&next, shares), &acknowledged)
                })
            });
            // Ends when the last thread has dropped its sender.
            let told = to_tell.iter().try_for_each(|batch: Batch| {
                out.line(format_args!("ack {batch}"))?;
                out.flush()
            });
            drop(to_tell);
            let worked = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            told.and(worked)
        })
    })
}

/// Writes one batch after another. Only the commit's own acknowledgement leads to one here.
fn write_batches(
    ledger: &Ledger,
    store: &Store,
    (next, step): (&AtomicUsize, usize),
    acknowledged: &Sender<Batch>,
) -> Result<()> {
    let keyspace = store.keyspace(KEYSPACE)?;
    loop {
        let batch = next.fetch_add(step, Ordering::Relaxed);
        if batch >= ledger.batches() {
            return Ok(());
        }
        if ledger.write(store, &keyspace, batch)? == Written::Now {
            // Nobody listens if standard output is closed: then there is nobody to work for.
            acknowledged.send(batch).map_err(|_| Failure::BrokenPipe)?;
        }
    }
}

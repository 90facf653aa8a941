//! The process that is killed: writes all batches that are not in the store yet, on several threads, and says `ack N` on
//! standard output when batch N is acknowledged. A thread does nothing more before that is said: so when the process is killed, no more
//! than a batch of each thread is there that it has not said.

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
            let told = to_tell.iter().try_for_each(|Told { batch, told }: Told| {
                out.line(format_args!("ack {batch}"))?;
                out.flush()?;
                // The thread waits for it.
                let _ended = told.send(());
                Ok(())
            });
            drop(to_tell);
            let worked = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            told.and(worked)
        })
    })
}

/// A batch that is to be told, and who waits for that.
struct Told {
    batch: Batch,
    told: Sender<()>,
}

/// Writes one batch after another. Only the commit's own acknowledgement leads to one here.
fn write_batches(
    ledger: &Ledger,
    store: &Store,
    (next, step): (&AtomicUsize, usize),
    acknowledged: &Sender<Told>,
) -> Result<()> {
    let keyspace = store.keyspace(KEYSPACE)?;
    loop {
        let batch = next.fetch_add(step, Ordering::Relaxed);
        if batch >= ledger.batches() {
            return Ok(());
        }
        if ledger.write(store, &keyspace, batch)? == Written::Now {
            // Nobody listens if standard output is closed: then there is nobody to work for.
            let (told, is_told) = channel();
            acknowledged.send(Told { batch, told }).map_err(|_| Failure::BrokenPipe)?;
            is_told.recv().map_err(|_| Failure::BrokenPipe)?;
        }
    }
}

//! Has the kernel forget what it was told of an inode before the store changes it.
//!
//! What the kernel is told of an inode it may believe for half as long as the copy lasts from which that was told, or until it is told that this is over: before
//! the copy is given back, so before anybody is told that the inode is another one. A mount that hangs, or is cut off, is not waited for when the
//! copy's time is over. The kernel believes nothing of it by then, unless whoever had asked it was handed the answer so much later than the mount gave it
//! as the other half is long.
//!
//! A thread of its own does so: what the kernel waits for when it is told may need the client's, to be written back for instance. If the kernel has no such
//! inode it may be about to have it, from an answer that it was given and has not taken yet: then it is told again until it has, or believes it no more.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use tyr_fs::{Recall, Recalls};

use crate::{kernel::Kernel, shared::Shared};

/// Where the kernel is told.
pub type Bell = Arc<OnceLock<Arc<Kernel>>>;

/// Tells the kernel from now on, until the store is closed.
pub fn tell_kernel(shared: Arc<Shared>, mut recalls: Recalls) -> io::Result<()> {
    let (insist, insisted) = channel();
    let for_insisting = shared.clone();
    let tell = move || {
        while let Some(recall) = recalls.wait() {
            shared.recalls.fetch_add(1, Ordering::SeqCst);
            shared.names.end(Instant::now());
            let site = shared.filesystem.site_of(&recall);
            let mut numbers = site.map(|site| shared.known.numbers_at(&site)).unwrap_or_default();
            numbers.retain(|number| !shared.doubt(*number));
            if !numbers.is_empty() {
                // The other thread ends after this one.
                let _ = insist.send((numbers, recall));
            }
        }
    };
    thread::Builder::new().name("tyr-recalls".to_owned()).spawn(tell)?;
    let tell = move || keep_telling(&for_insisting, &insisted);
    thread::Builder::new().name("tyr-insists".to_owned()).spawn(tell).map(drop)
}

/// Tells the kernel of inodes that it did not have, each until it has it or believes nothing of it, and gives back what was recalled then.
fn keep_telling(shared: &Shared, insisted: &Receiver<(Vec<u64>, Recall)>) {
    let mut waiting: Vec<(Vec<u64>, Recall)> = Vec::new();
    loop {
        let next = match waiting.is_empty() {
            true => insisted.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => insisted.recv_timeout(PAUSE),
        };
        match next {
            Ok(next) => waiting.push(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let is_believed =
            |number| shared.known.believed_until(number).is_some_and(|until| until > Instant::now());
        waiting.retain_mut(|(numbers, _)| {
            numbers.retain(|number| is_believed(*number) && !shared.doubt(*number));
            !numbers.is_empty()
        });
    }
}

/// Between two times that the kernel is told.
const PAUSE: Duration = Duration::from_millis(1);

//! Has the kernel forget what it was told of an inode before the store changes it.
//!
//! What the kernel is told of an inode it may believe for half as long as the copy lasts from which that was told, or until it is told that this is over: before
//! the copy is given back, so before anybody is told that the inode is another one. A mount that hangs, or is cut off, is not waited for when the
//! copy's time is over. The kernel believes nothing of it by then, unless whoever had asked it was handed the answer so much later than the mount gave it
//! as the other half is long.
//!
//! A thread of its own does so: what the kernel waits for when it is told may need the client's, to be written back for instance.

use std::{
    io,
    sync::{Arc, OnceLock},
    thread,
    time::Instant,
};

use fuser::Notifier;
use tyr_fs::Recalls;

use crate::shared::Shared;

/// Where the kernel is told.
pub type Bell = Arc<OnceLock<Notifier>>;

/// Tells the kernel from now on, until the store is closed.
pub fn tell_kernel(shared: Arc<Shared>, mut recalls: Recalls) -> io::Result<()> {
    let tell = move || {
        while let Some(recall) = recalls.wait() {
            shared.names.end(Instant::now());
            let site = shared.filesystem.site_of(&recall);
            let number = site.and_then(|site| shared.known.number_at(&site));
            number.into_iter().for_each(|number| shared.doubt(number));
            drop(recall);
        }
    };
    thread::Builder::new().name("tyr-recalls".to_owned()).spawn(tell).map(drop)
}

//! A simulated environment: a disk in memory that breaks as real ones do, a clock that is advanced by hand, and tasks of several
//! nodes on one thread.
//!
//! Everything is decided by a seed: the same calls in the same order meet the same fate. Nothing here sleeps, starts a
//! thread, or touches the real disk. A typical test of crash safety counts the operations of a run, then repeats the run and
//! crashes at each of them:
//!
//! ```
//! use tyr_env::{Access, Blocks, Disk};
//! use tyr_sim_env::{CrashMode, Fault, SimDisk};
//!
//! fn run(disk: &SimDisk) -> std::io::Result<()> {
//!     let file = disk.open("a", Access::Create)?;
//!     file.write_at(0, Blocks::zeroed(8192).as_bytes())?;
//!     file.sync()?;
//!     disk.sync_names()
//! }
//!
//! let empty = SimDisk::new(1);
//! let first = empty.snapshot();
//! run(&first).expect("nothing fails yet");
//! for n in 0..first.operations() {
//!     let disk = empty.snapshot();
//!     disk.fail_at(n, Fault::Crash);
//!     run(&disk).expect_err("crashes");
//!     for mode in CrashMode::ALL {
//!         let found = disk.crash(mode);
//!         // Reopen what is being tested on `found`, and check what it promised.
//!         assert!(found.names().expect("lists").len() <= 1);
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod clock;
mod content;
mod damage;
mod disk;
mod fault;
mod file;
mod inode;
mod names;
mod random;
mod state;
mod tasks;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use fault::{Fault, Place, Strike};
pub use inode::CrashMode;
pub use state::Counts;
pub use tasks::{Drift, SimTasks, Sleep, Task, here};

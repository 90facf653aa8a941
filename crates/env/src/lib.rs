//! What Týr needs from its surroundings, as traits: the disk now, later the network and tasks.
//!
//! Production runs on `tyr-os`; tests and simulations run the same code on `tyr-sim-env`, which breaks things on
//! purpose. Nothing here does I/O.

#![forbid(unsafe_code)]

mod blocks;
mod clock;
mod contract;
mod disk;

pub use blocks::{BLOCK_SIZE, Blocks};
pub use clock::Clock;
pub use contract::{LENGTH_MAX, LOCK_NAME, NAME_SIZE_MAX, check_blocks, check_name};
pub use disk::{Access, Disk, File, Space, Write};

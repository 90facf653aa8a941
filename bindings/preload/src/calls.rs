//! The calls that this library stands before, by what they are about.

#[cfg(target_arch = "x86_64")]
mod arguments;
mod attributes;
mod content;
mod copying;
mod daemon;
mod descriptors;
mod directories;
mod jumps;
mod locks;
mod mapping;
mod names;
mod opening;
mod printing;
mod processes;
mod requests;
mod searches;
mod status;
mod times;

pub use descriptors::{close, fcntl, forget};
pub use opening::open_path;

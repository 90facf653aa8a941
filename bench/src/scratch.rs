//! Directories for stores under test, removed when they are no longer needed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::system::Outcome;

/// A new, empty directory that is removed with all its files on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below `parent`.
    pub fn new(parent: &Path) -> Outcome<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

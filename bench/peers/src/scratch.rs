//! A directory for everything that a comparison starts, removed at its end.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::system::Outcome;

/// A new, empty directory that is removed with all its files on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below `parent`.
    pub fn new(parent: &Path) -> Outcome<Self> {
        let path = std::path::absolute(parent)?.join(std::process::id().to_string());
        fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// Makes an empty directory in it.
    pub fn directory(&self, name: &str) -> Outcome<PathBuf> {
        let path = self.0.join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

//! The directories of an export: created when needed, each known to be a directory and no symbolic link to one, so that
//! nothing is written outside of the root.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::failure::{Failure, Result};

/// The root of an export, and what is known below it.
pub struct Directories {
    root: PathBuf,
    known: Mutex<HashSet<PathBuf>>,
}

impl Directories {
    /// Nothing is created yet.
    pub fn new(root: &Path) -> Self {
        Directories { root: root.to_owned(), known: Mutex::default() }
    }

    /// The directory that is exported to.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates the root with all that leads to it; the root may be named by a symbolic link.
    pub fn create_root(&self) -> Result<()> {
        fs::create_dir_all(&self.root).map_err(|error| failed("create", &self.root, &error))
    }

    /// Makes sure that the directory that `path`, below the root, is in exists.
    pub fn create_parent(&self, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |parent| self.create(parent))
    }

    /// Makes sure that the directory, which is the root or below it, exists.
    pub fn create(&self, directory: &Path) -> Result<()> {
        let below = directory.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if below.as_os_str().is_empty() || known.contains(directory) {
            return Ok(());
        }
        let mut path = self.root.clone();
        for name in below.components() {
            path.push(name);
            if !known.contains(&path) {
                create_one(&path)?;
                known.insert(path.clone());
            }
        }
        Ok(())
    }
}

fn create_one(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::Local(format!(
            "'{}' is in the way: it is no directory, but something below it is to be written; move it away",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir(path).map_err(|error| failed("create", path, &error))
        }
        Err(error) => Err(failed("look at", path, &error)),
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("cannot {what} the directory '{}'", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_created_with_those_above_them() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directories = Directories::new(&scratch.path().join("root"));
        directories.create_root().expect("created");
        directories.create_parent(&directories.root().join("a/b/file")).expect("created");
        directories.create(&directories.root().join("a/b")).expect("is there");
        assert!(directories.root().join("a/b").is_dir());
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directories = Directories::new(&scratch.path().join("root"));
        directories.create_root().expect("created");
        std::os::unix::fs::symlink(scratch.path(), directories.root().join("link")).expect("linked");
        let failure = directories.create(&directories.root().join("link/b")).expect_err("refused");
        assert!(failure.to_string().contains("in the way"), "{failure}");
        assert!(!scratch.path().join("b").exists());
    }
}

//! Walks a directory tree and cuts it into batches.
//!
//! The walk is in order of names, does not follow symbolic links, and holds one list of names for each level that it is
//! deep in.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    LARGE_FILE,
    node::{Kind, Node},
    path::ROOT,
};

/// Something that was found in the tree.
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its key, below the prefix.
    pub key: Vec<u8>,
    /// What it is.
    pub node: Node,
    /// Bytes of its content when it was found.
    pub size: u64,
}

/// What the walk comes upon.
pub enum Step {
    /// Something to import.
    Found(Found),
    /// Something that is not imported.
    LeftOut,
    /// Something that could not be looked at.
    Failed(PathBuf, io::Error),
}

/// A walk in progress.
pub struct Walk {
    /// A directory that is left out with all that is in it: device and inode.
    excluded: Option<(u64, u64)>,
    /// The directories that the walk is in, the innermost last, each with the names that are still to come, backwards.
    levels: Vec<(PathBuf, Vec<OsString>)>,
    /// Bytes of paths that are not part of keys: those of the root and the slash after it.
    root_length: usize,
    pending: Option<Step>,
}

impl Walk {
    /// Starts at a directory, which may be named by a symbolic link. The directory `excluded` is left out.
    pub fn new(root: &Path, excluded: Option<&Path>) -> io::Result<Self> {
        let metadata = fs::metadata(root)?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let excluded = excluded.and_then(|path| fs::metadata(path).ok()).map(identity);
        let names = names(root)?;
        let pending = Node::from_metadata(&metadata)
            .map(|node| Step::Found(Found { path: root.to_owned(), key: ROOT.to_vec(), node, size: 0 }));
        let root_length = root.join("x").as_os_str().len() - 1;
        Ok(Walk { excluded, levels: vec![(root.to_owned(), names)], root_length, pending })
    }

    fn look_at(&mut self, path: PathBuf) -> Step {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return Step::Failed(path, error),
        };
        let Some(node) = Node::from_metadata(&metadata) else { return Step::LeftOut };
        let mut key = path.as_os_str().as_bytes()[self.root_length..].to_vec();
        if node.kind == Kind::Directory {
            if self.excluded == Some((metadata.dev(), metadata.ino())) {
                return Step::LeftOut;
            }
            match names(&path) {
                Ok(names) => self.levels.push((path.clone(), names)),
                Err(error) => return Step::Failed(path, error),
            }
            key.push(b'/');
        }
        let size = if node.kind == Kind::File { metadata.len() } else { 0 };
        Step::Found(Found { path, key, node, size })
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.pending.take() {
            return Some(step);
        }
        loop {
            let (directory, names) = self.levels.last_mut()?;
            if let Some(name) = names.pop() {
                let path = directory.join(name);
                return Some(self.look_at(path));
            }
            self.levels.pop();
        }
    }
}

/// The names in a directory, backwards.
fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(directory)?;
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

/// Collects what was found into batches, each to be one transaction.
pub struct Batcher {
    batch: Vec<Found>,
    bytes: u64,
    files_max: usize,
    bytes_max: u64,
}

/// The most files of a batch in a directory,
const BATCH_FILES: u64 = 256;
/// and in a cluster, where each partition that a transaction visits logs what the ones after it are to do.
const BATCH_FILES_OF_CLUSTER: u64 = 16;
/// The most bytes of content of a batch of small files.
const BATCH_BYTES: u64 = 4 << 20;

impl Batcher {
    /// For a store with segments of this size. A transaction has to fit a part of a segment, so small ones make small
    /// batches.
    pub fn new(segment_size: u64, is_cluster: bool) -> Self {
        let most = if is_cluster { BATCH_FILES_OF_CLUSTER } else { BATCH_FILES };
        let files_max = (segment_size >> 14).clamp(1, most);
        Batcher {
            batch: Vec::new(),
            bytes: 0,
            files_max: usize::try_from(files_max).unwrap_or(1),
            bytes_max: (segment_size >> 4).min(BATCH_BYTES),
        }
    }

    /// Adds something; returns a batch that has become full. A large file is a batch of its own.
    pub fn add(&mut self, found: Found) -> Option<Vec<Found>> {
        if found.size >= LARGE_FILE {
            return Some(vec![found]);
        }
        self.bytes += found.size;
        self.batch.push(found);
        (self.batch.len() >= self.files_max || self.bytes >= self.bytes_max).then(|| self.take())
    }

    /// What is left.
    pub fn take(&mut self) -> Vec<Found> {
        self.bytes = 0;
        std::mem::take(&mut self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(walk: Walk) -> Vec<String> {
        let key = |step| match step {
            Step::Found(found) => String::from_utf8(found.key).expect("these are text"),
            Step::LeftOut => "left out".to_owned(),
            Step::Failed(path, error) => format!("{}: {error}", path.display()),
        };
        walk.map(key).collect()
    }

    #[test]
    fn the_walk_is_in_order_and_does_not_follow_links() {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["b", "a", "a/empty"] {
            fs::create_dir_all(root.path().join(name)).expect("created");
        }
        fs::write(root.path().join("b/file"), "x").expect("written");
        fs::write(root.path().join("a!"), "x").expect("written");
        std::os::unix::fs::symlink("/", root.path().join("link")).expect("linked");
        let walk = Walk::new(root.path(), None).expect("starts");
        assert_eq!(keys(walk), ["./", "a/", "a/empty/", "a!", "b/", "b/file", "link"]);
        let walk = Walk::new(root.path(), Some(&root.path().join("a"))).expect("starts");
        assert_eq!(keys(walk), ["./", "left out", "a!", "b/", "b/file", "link"]);
        let slash = PathBuf::from(format!("{}/", root.path().display()));
        assert_eq!(keys(Walk::new(&slash, None).expect("starts")).len(), 7);
    }

    #[test]
    fn a_file_is_no_tree() {
        let root = tempfile::NamedTempFile::new().expect("a file");
        assert!(Walk::new(root.path(), None).is_err());
    }

    #[test]
    fn large_files_go_alone_and_small_ones_together() {
        let found = |size| {
            let metadata = fs::metadata("/").expect("exists");
            let node = Node::from_metadata(&metadata).expect("a directory");
            Found { path: PathBuf::new(), key: Vec::new(), node, size }
        };
        let mut batcher = Batcher::new(64 << 20, false);
        assert!(batcher.add(found(1)).is_none());
        assert_eq!(batcher.add(found(LARGE_FILE)).map(|batch| batch.len()), Some(1));
        assert!((0..4).all(|_| batcher.add(found(LARGE_FILE - 1)).is_none()));
        assert_eq!(batcher.add(found(10)).map(|batch| batch.len()), Some(6));
        let full: Vec<usize> =
            (0..600).filter_map(|_| batcher.add(found(0))).map(|batch| batch.len()).collect();
        assert_eq!((full, batcher.take().len()), (vec![256, 256], 88));
    }
}

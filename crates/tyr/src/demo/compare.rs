//! Compares two directory trees: names, kinds, modes, times, targets of links, and every byte of every file.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use crate::{
    failure::{Failure, Result},
    payload::PIECE_SIZE,
    transfer::{FILE_MODE_BITS, Kind, Node},
};

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Regular files compared.
    pub files: u64,
    /// Directories compared.
    pub directories: u64,
    /// Symbolic links compared.
    pub symlinks: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// What differs, in sentences; not all of it if it is much.
    pub differences: Vec<String>,
}

/// Differences that are described; more are as bad.
const DIFFERENCES_MAX: usize = 10;

impl Comparison {
    /// Adds the comparison of two directories with all that is in them.
    pub fn add(&mut self, original: &Path, copy: &Path) -> Result<()> {
        self.compare(original, copy).map_err(|error| {
            Failure::local(
                format!("cannot compare '{}' and '{}'", original.display(), copy.display()),
                &error,
            )
        })
    }

    fn compare(&mut self, original: &Path, copy: &Path) -> io::Result<()> {
        let (ours, theirs) = (node(original)?, node(copy)?);
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            self.differ(original, "is no file, directory, or link in one of the trees");
            return Ok(());
        };
        if ours.kind != theirs.kind {
            self.differ(original, "is of another kind in the copy");
            return Ok(());
        }
        if ours.mode != theirs.mode && ours.kind != Kind::Symlink {
            self.differ(original, "has another mode in the copy");
        }
        if ours.mtime != theirs.mtime {
            self.differ(original, "has another time in the copy");
        }
        match ours.kind {
            Kind::Directory => self.compare_directories(original, copy),
            Kind::Symlink => {
                self.symlinks += 1;
                if fs::read_link(original)? != fs::read_link(copy)? {
                    self.differ(original, "leads elsewhere in the copy");
                }
                Ok(())
            }
            Kind::File => {
                self.files += 1;
                if !self.contents_equal(original, copy)? {
                    self.differ(original, "has other content in the copy");
                }
                Ok(())
            }
        }
    }

    fn compare_directories(&mut self, original: &Path, copy: &Path) -> io::Result<()> {
        self.directories += 1;
        let (ours, theirs) = (names(original)?, names(copy)?);
        if ours != theirs {
            self.differ(original, "has other names in it in the copy");
        }
        for name in ours.iter().filter(|name| theirs.contains(name)) {
            self.compare(&original.join(name), &copy.join(name))?;
        }
        Ok(())
    }

    fn contents_equal(&mut self, original: &Path, copy: &Path) -> io::Result<bool> {
        let (mut ours, mut theirs) = (File::open(original)?, File::open(copy)?);
        let (mut our_piece, mut their_piece) = (Vec::new(), Vec::new());
        loop {
            our_piece.clear();
            their_piece.clear();
            ours.by_ref().take(PIECE_SIZE as u64).read_to_end(&mut our_piece)?;
            theirs.by_ref().take(PIECE_SIZE as u64).read_to_end(&mut their_piece)?;
            if our_piece != their_piece {
                return Ok(false);
            }
            if our_piece.is_empty() {
                return Ok(true);
            }
            self.bytes += our_piece.len() as u64;
        }
    }

    fn differ(&mut self, path: &Path, how: &str) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(format!("'{}' {how}", path.display()));
        }
    }
}

/// The node, with the bits of the mode that an export keeps.
fn node(path: &Path) -> io::Result<Option<Node>> {
    let node = Node::from_metadata(&fs::symlink_metadata(path)?);
    Ok(node.map(|node| match node.kind {
        Kind::File => Node { mode: node.mode & FILE_MODE_BITS, ..node },
        _ => node,
    }))
}

/// The names of everything that is imported, in order.
fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if Node::from_metadata(&entry.metadata()?).is_some() {
            names.push(entry.file_name());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::SystemTime};

    use super::*;

    fn make(root: &Path, content: &str) {
        fs::create_dir_all(root.join("d")).expect("created");
        fs::write(root.join("d/file"), content).expect("written");
        fs::set_permissions(root.join("d/file"), fs::Permissions::from_mode(0o640)).expect("set");
        for path in ["d/file", "d", ""] {
            let file = File::open(root.join(path)).expect("opens");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        }
    }

    fn differences(original: &Path, copy: &Path) -> String {
        let mut comparison = Comparison::default();
        comparison.add(original, copy).expect("compares");
        comparison.differences.join("; ")
    }

    #[test]
    fn equal_trees_are_equal_and_each_difference_is_seen() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (a, b) = (scratch.path().join("a"), scratch.path().join("b"));
        make(&a, "same");
        make(&b, "same");
        assert_eq!(differences(&a, &b), "");
        make(&b, "else");
        assert!(differences(&a, &b).contains("other content"));
        make(&b, "same");
        fs::set_permissions(b.join("d/file"), fs::Permissions::from_mode(0o600)).expect("set");
        assert!(differences(&a, &b).contains("another mode"));
        make(&b, "same");
        File::open(b.join("d")).expect("opens").set_modified(SystemTime::now()).expect("set");
        assert!(differences(&a, &b).contains("another time"));
        make(&b, "same");
        fs::remove_file(b.join("d/file")).expect("removed");
        assert!(differences(&a, &b).contains("other names"));
        fs::create_dir(b.join("d/file")).expect("created");
        assert!(differences(&a, &b).contains("another kind"));
    }
}

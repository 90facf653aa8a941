//! A file system in memory, as simple as can be: what the real one is compared with. One user, who may do everything.

use std::collections::BTreeMap;

use tyr_fs::{Errno, Kind, Over};

/// A file system in memory.
pub struct Reference {
    pub inodes: BTreeMap<usize, Inode>,
    next: usize,
}

/// What a name means.
pub struct Inode {
    pub kind: Kind,
    pub content: Vec<u8>,
    pub entries: BTreeMap<Vec<u8>, usize>,
    pub target: Vec<u8>,
    pub links: u32,
}

type Answer<T> = Result<T, Errno>;

/// Where a path leads: a directory, a name in it unless it is that directory itself, and what that means.
pub struct End {
    pub directory: usize,
    pub name: Option<Vec<u8>>,
    pub found: Option<usize>,
}

pub const ROOT: usize = 0;

impl Reference {
    pub fn new() -> Self {
        let mut new = Reference { inodes: BTreeMap::new(), next: 0 };
        new.add(Kind::Directory);
        new
    }

    fn add(&mut self, kind: Kind) -> usize {
        let inode =
            Inode { kind, content: Vec::new(), entries: BTreeMap::new(), target: Vec::new(), links: 1 };
        self.inodes.insert(self.next, inode);
        self.next += 1;
        self.next - 1
    }

    pub fn get(&self, inode: usize) -> &Inode {
        &self.inodes[&inode]
    }

    pub fn content(&mut self, inode: usize) -> &mut Vec<u8> {
        &mut self.inodes.get_mut(&inode).unwrap().content
    }

    pub fn walk(&self, path: &str, follow: bool) -> Answer<End> {
        let mut parts: Vec<Vec<u8>> = split(path.as_bytes());
        let (mut way, mut links) = (vec![ROOT], 0);
        while let Some(part) = parts.pop() {
            let at = *way.last().unwrap();
            if self.get(at).kind != Kind::Directory {
                return Err(Errno::ENOTDIR);
            }
            if part == b"." {
                continue;
            }
            if part == b".." {
                if way.len() > 1 {
                    way.pop();
                }
                continue;
            }
            let found = self.get(at).entries.get(&part).copied();
            let Some(inode) = found else {
                return match parts.is_empty() {
                    true => Ok(End { directory: at, name: Some(part), found: None }),
                    false => Err(Errno::ENOENT),
                };
            };
            if self.get(inode).kind == Kind::Symlink && (follow || !parts.is_empty()) {
                links += 1;
                if links > 40 {
                    return Err(Errno::ELOOP);
                }
                if self.get(inode).target.starts_with(b"/") {
                    way.truncate(1);
                }
                parts.extend(split(&self.get(inode).target));
            } else if parts.is_empty() {
                return Ok(End { directory: at, name: Some(part), found: Some(inode) });
            } else {
                way.push(inode);
            }
        }
        let found = way.pop().unwrap();
        Ok(End { directory: way.pop().unwrap_or(found), name: None, found: Some(found) })
    }

    pub fn find(&self, path: &str, follow: bool) -> Answer<usize> {
        self.walk(path, follow)?.found.ok_or(Errno::ENOENT)
    }

    pub fn make(&mut self, path: &str, kind: Kind, target: &str) -> Answer<usize> {
        let end = self.walk(path, false)?;
        let Some(name) = end.name.filter(|_| end.found.is_none()) else { return Err(Errno::EEXIST) };
        let inode = self.add(kind);
        self.inodes.get_mut(&inode).unwrap().target = target.into();
        self.enter(end.directory, name, inode);
        Ok(inode)
    }

    fn enter(&mut self, directory: usize, name: Vec<u8>, inode: usize) {
        self.inodes.get_mut(&directory).unwrap().entries.insert(name, inode);
    }

    /// Opens what is there, or makes it.
    pub fn open(&mut self, path: &str) -> Answer<usize> {
        let end = self.walk(path, true)?;
        let inode = match (end.found, end.name) {
            (Some(found), _) => found,
            (None, Some(name)) => {
                let inode = self.add(Kind::File);
                self.enter(end.directory, name, inode);
                inode
            }
            (None, None) => return Err(Errno::ENOENT),
        };
        match self.get(inode).kind {
            Kind::File => Ok(inode),
            Kind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::ENXIO),
        }
    }

    pub fn link(&mut self, old: &str, new: &str) -> Answer<()> {
        let inode = self.find(old, false)?;
        let end = self.walk(new, false)?;
        let Some(name) = end.name.filter(|_| end.found.is_none()) else { return Err(Errno::EEXIST) };
        if self.get(inode).kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        self.inodes.get_mut(&inode).unwrap().links += 1;
        self.enter(end.directory, name, inode);
        Ok(())
    }

    fn take_name(&mut self, directory: usize, name: &[u8]) {
        let inode = self.inodes.get_mut(&directory).unwrap().entries.remove(name).unwrap();
        self.inodes.get_mut(&inode).unwrap().links -= 1;
    }

    pub fn unlink(&mut self, path: &str) -> Answer<()> {
        let end = self.walk(path, false)?;
        let found = end.found.ok_or(Errno::ENOENT)?;
        if self.get(found).kind == Kind::Directory {
            return Err(Errno::EISDIR);
        }
        self.take_name(end.directory, &end.name.unwrap());
        Ok(())
    }

    pub fn remove_directory(&mut self, path: &str) -> Answer<()> {
        let end = self.walk(path, false)?;
        let found = end.found.ok_or(Errno::ENOENT)?;
        let last = path.rsplit('/').find(|part| !part.is_empty());
        let name = end.name.ok_or(match last {
            Some(".") => Errno::EINVAL,
            Some("..") => Errno::ENOTEMPTY,
            _ => Errno::EBUSY,
        })?;
        if self.get(found).kind != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        if !self.get(found).entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.take_name(end.directory, &name);
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str, over: Over) -> Answer<()> {
        let from = self.walk(from, false)?;
        let to = self.walk(to, false)?;
        let moved = from.found.ok_or(Errno::ENOENT)?;
        let (Some(old), Some(new)) = (from.name, to.name) else { return Err(Errno::EBUSY) };
        let is_directory = |inode: usize| self.get(inode).kind == Kind::Directory;
        match (to.found, over) {
            (Some(_), Over::Refuse) => return Err(Errno::EEXIST),
            (None, Over::Exchange) => return Err(Errno::ENOENT),
            (Some(other), _) if other == moved => return Ok(()),
            (Some(other), Over::Replace) if is_directory(moved) && !is_directory(other) => {
                return Err(Errno::ENOTDIR);
            }
            (Some(other), Over::Replace) if !is_directory(moved) && is_directory(other) => {
                return Err(Errno::EISDIR);
            }
            _ => {}
        }
        let is_across = from.directory != to.directory;
        if is_across && self.is_in(to.directory, moved) {
            return Err(Errno::EINVAL);
        }
        if over == Over::Exchange && is_across && self.is_in(from.directory, to.found.unwrap()) {
            return Err(Errno::EINVAL);
        }
        if let Some(other) = to.found.filter(|_| over == Over::Replace) {
            if is_directory(other) && !self.get(other).entries.is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            self.take_name(to.directory, &new);
        }
        self.inodes.get_mut(&from.directory).unwrap().entries.remove(&old);
        if let Some(other) = to.found.filter(|_| over == Over::Exchange) {
            self.enter(from.directory, old, other);
        }
        self.enter(to.directory, new, moved);
        Ok(())
    }

    /// Whether a directory is another inode, or below it.
    fn is_in(&self, below: usize, above: usize) -> bool {
        below == above || self.get(above).entries.values().any(|inode| self.is_in(below, *inode))
    }
}

/// The parts of a path, the first one last.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).rev().map(<[u8]>::to_vec).collect()
}

//! From a path to what it means, and who may go there.

use std::collections::VecDeque;

use tyr_client::{ErrorKind, Stat};

use crate::{
    cells::{Meant, is_named_in},
    errno::{Errno, Error, Result},
    filesystem::Filesystem,
    inode::{Inode, Kind, Metadata},
    namespace::{no_directory_but_file, no_name},
    site::{NAME_MAX, PATH_MAX, Site},
};

/// Who wants something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user; 0 is the superuser, who may do everything.
    pub uid: u32,
    /// The group that what it creates gets.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// The superuser.
    pub fn superuser() -> Self {
        Caller { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Whether it is in a group.
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// Whether it may do this with what has these permissions.
    pub fn may(&self, metadata: &Metadata, want: Want) -> bool {
        if self.uid == 0 {
            // Nobody executes what nobody may execute.
            let is_directory = metadata.inode.kind == Kind::Directory;
            return want != Want::Enter || is_directory || metadata.mode & 0o111 != 0;
        }
        if let Some(acl) = &metadata.acl {
            return acl.allows(self, (metadata.uid, metadata.gid), want);
        }
        let class = match () {
            () if self.uid == metadata.uid => 6,
            () if self.is_in(metadata.gid) => 3,
            () => 0,
        };
        metadata.mode >> class & u32::from(want.bit()) != 0
    }

    /// Fails with [`Errno::EACCES`] unless it may.
    pub fn require(&self, metadata: &Metadata, want: Want) -> Result<()> {
        match self.may(metadata, want) {
            true => Ok(()),
            false => Err(Errno::EACCES.because("the permissions do not allow it")),
        }
    }

    /// Fails with [`Errno::EPERM`] unless it owns it.
    pub fn require_owner(&self, metadata: &Metadata) -> Result<()> {
        match self.uid == 0 || self.uid == metadata.uid {
            true => Ok(()),
            false => Err(Errno::EPERM.because("only the owner may do this")),
        }
    }

    /// Fails unless it may take a name from a directory, or give it to something else: in a sticky one only to what it owns.
    pub fn require_removal(&self, directory: &Metadata, removed: &Metadata) -> Result<()> {
        self.require(directory, Want::Write)?;
        self.require(directory, Want::Enter)?;
        let is_sticky = directory.mode & libc::S_ISVTX != 0;
        if is_sticky && self.uid != 0 && self.uid != directory.uid && self.uid != removed.uid {
            return Err(Errno::EPERM.because("in a sticky directory only owners remove"));
        }
        Ok(())
    }
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To read a file, or to list a directory.
    Read,
    /// To write to a file, or to change names in a directory.
    Write,
    /// To go through a directory, or to execute a file.
    Enter,
}

impl Want {
    /// Of the three bits that one class has in a mode.
    pub(crate) fn bit(self) -> u16 {
        match self {
            Want::Read => 4,
            Want::Write => 2,
            Want::Enter => 1,
        }
    }
}

/// What becomes of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// It is followed.
    Yes,
    /// It is what is meant.
    No,
}

/// Where a path leads: the directory, and the name in it that is not followed any more.
#[derive(Debug)]
pub(crate) struct End {
    pub directory: Metadata,
    /// None if the path ends with the directory itself: `/`, `.`, or `..`.
    pub name: Option<Vec<u8>>,
    /// What it means, if there is anything.
    pub found: Option<Metadata>,
    /// Whether the path says by a slash at its end that it means a directory.
    pub is_directory_meant: bool,
}

/// How programs of a machine see a directory of a file system, and nothing else of that.
#[derive(Debug)]
pub(crate) struct Prefix {
    /// The path by which they know the directory.
    pub path: Box<[u8]>,
    /// Its path in the file system, without a slash at its end: of the root it is empty.
    pub directory: Box<[u8]>,
}

impl Prefix {
    /// The path of the directory, and what of a path in the file system comes after that.
    fn split<'a>(&'a self, path: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
        if self.directory.is_empty() {
            return Ok((b"/", path));
        }
        match path.strip_prefix(&*self.directory) {
            Some(b"") => Ok((&self.directory, b"/")),
            Some(below) if below.starts_with(b"/") => Ok((&self.directory, below)),
            _ => Err(no_name()),
        }
    }
}

impl End {
    /// Whether the path says that it means a directory, and there is something else.
    pub fn is_no_directory(&self) -> bool {
        let is_other = |found: &Metadata| found.inode.kind != Kind::Directory;
        self.is_directory_meant && self.found.as_ref().is_some_and(is_other)
    }
}

impl Filesystem {
    /// Goes along a path, with the permissions of a caller who sees a directory below a prefix, or everything.
    pub(crate) async fn walk(
        &self,
        caller: &Caller,
        path: &[u8],
        follow: Follow,
        prefix: Option<&Prefix>,
    ) -> Result<End> {
        if let Some(flat) = self.flat() {
            return self.flat_walk(flat, path).await;
        }
        let root = self.metadata(&self.root()).await?;
        let Some(prefix) = prefix else { return self.walk_from(root, caller, path, follow, None).await };
        // The directory is where its path leads in the file system. What comes after that does not lead out of it.
        let (directory, below) = prefix.split(path)?;
        let directory = self.walk_from(root, caller, directory, Follow::Yes, None).await?;
        let directory = directory.found.ok_or_else(no_name)?;
        self.walk_from(directory, caller, below, follow, Some(&prefix.path)).await
    }

    /// Goes along a path from a directory that is not left, and that the caller knows by a path of its machine, or as the root.
    async fn walk_from(
        &self,
        root: Metadata,
        caller: &Caller,
        path: &[u8],
        follow: Follow,
        mounted_at: Option<&[u8]>,
    ) -> Result<End> {
        let mut parts = check_path(path)?;
        let mut is_directory_meant = path.ends_with(b"/");
        // The directories on the way, the root first.
        let mut way = vec![root];
        let mut links = 0;
        while let Some(part) = parts.pop_front() {
            let at = way.last().expect("the root is never left").clone();
            if at.inode.kind != Kind::Directory {
                return Err(no_directory_but_file());
            }
            caller.require(&at, Want::Enter)?;
            match part.as_slice() {
                b"." => continue,
                b".." => {
                    way.truncate(way.len().max(2) - 1);
                    continue;
                }
                name if name.len() > NAME_MAX => {
                    return Err(Errno::ENAMETOOLONG.because(format!("a name has at most {NAME_MAX} bytes")));
                }
                _ => {}
            }
            let is_last = parts.is_empty();
            let found = match self.lookup(&at.inode, &part).await {
                Ok(found) => found,
                Err(error) if error.errno() == Errno::ENOENT && is_last => {
                    return Ok(End { directory: at, name: Some(part), found: None, is_directory_meant });
                }
                Err(error) if error.errno() == Errno::ENOENT => return Err(no_directory_on_the_way(&part)),
                Err(error) => return Err(error),
            };
            let follows = !is_last || follow == Follow::Yes || is_directory_meant;
            match found.target.as_ref().filter(|_| follows) {
                Some(target) => {
                    links += 1;
                    if links > LINKS_FOLLOWED {
                        return Err(Errno::ELOOP.because("too many symbolic links on the way"));
                    }
                    is_directory_meant |= is_last && target.ends_with(b"/");
                    let mut before = check_path(target)?;
                    if target.starts_with(b"/") {
                        way.truncate(1);
                        if let Some(directory) = mounted_at {
                            before = below(before, directory)?;
                        }
                    }
                    before.into_iter().rev().for_each(|part| parts.push_front(part));
                }
                None if is_last && found.inode.kind != Kind::Directory => {
                    if is_directory_meant {
                        return Err(no_directory_but_file());
                    }
                    return Ok(End {
                        directory: at,
                        name: Some(part),
                        found: Some(found),
                        is_directory_meant,
                    });
                }
                None if is_last => {
                    return Ok(End {
                        directory: at,
                        name: Some(part),
                        found: Some(found),
                        is_directory_meant,
                    });
                }
                None => way.push(found),
            }
        }
        let found = way.pop().expect("the root is never left");
        let directory = way.pop().unwrap_or_else(|| found.clone());
        Ok(End { directory, name: None, found: Some(found), is_directory_meant })
    }

    /// Goes to the name at the end of a path that is to be made, taken away, or given to something else. A symbolic link of that name is meant itself, also if the
    /// path says by a slash that it means a directory: whoever does something with what is found sees to that.
    pub(crate) async fn walk_to_name(
        &self,
        caller: &Caller,
        path: &[u8],
        prefix: Option<&Prefix>,
    ) -> Result<End> {
        let bare = match path.iter().rposition(|byte| *byte != b'/') {
            Some(last) if self.flat().is_none() => &path[..=last],
            _ => path,
        };
        let end = self.walk(caller, bare, Follow::No, prefix).await?;
        Ok(End { is_directory_meant: path.ends_with(b"/"), ..end })
    }

    /// The metadata and the content of a regular file, by one request: the file is found by its path, and the node that holds it has copies of
    /// the heads of the directories whose permissions count, if these are popular; others are asked for then, all at once. `None` if something on the way was renamed, is a symbolic link, or does
    /// not exist: then the path has to be walked.
    pub(crate) async fn try_fetch(
        &self,
        caller: &Caller,
        path: &[u8],
    ) -> Result<Option<(Metadata, Vec<u8>)>> {
        let parts = check_path(path)?;
        let is_plain = parts.iter().all(|part| *part != b"." && *part != b".." && part.len() <= NAME_MAX);
        if parts.is_empty() || !is_plain || path.ends_with(b"/") {
            return Ok(None);
        }
        let mut sites = vec![Site::root()];
        for part in &parts {
            let last = sites.last().expect("there is that of the root");
            if !last.is_short() {
                return Ok(None);
            }
            sites.push(last.of(part));
        }
        let site = sites.pop().expect("there are at least two");
        let (blob, ancestors) = match self.keyspace().get_with_stats(&site, &sites).await {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut above = self.root();
        for (site, stat) in sites.iter().zip(&ancestors) {
            let Some(stat) = stat else { return Ok(None) };
            let Some(directory) = found_here(&above, site, stat)? else { return Ok(None) };
            if directory.inode.kind != Kind::Directory {
                return Ok(None);
            }
            caller.require(&directory, Want::Enter)?;
            above = directory.inode;
        }
        match found_here(&above, &site, &blob.stat)? {
            Some(metadata) if metadata.inode.kind == Kind::File => {
                caller.require(&metadata, Want::Read)?;
                Ok(Some((self.counted(metadata).await, blob.bytes)))
            }
            _ => Ok(None),
        }
    }
}

/// The inode that lies in the own site of a name in a directory, if it is whom the name means.
fn found_here(directory: &Inode, site: &Site, stat: &Stat) -> Result<Option<Metadata>> {
    match Meant::decode(&stat.attributes)? {
        Meant::Here if is_named_in(directory, &stat.attributes) => {
            Metadata::decode(site, &stat.attributes, stat.size)
        }
        _ => Ok(None),
    }
}

/// Where a symbolic link that begins with a slash leads below a directory of the machine; dots on the way there are understood by the names alone.
fn below(target: VecDeque<Vec<u8>>, directory: &[u8]) -> Result<VecDeque<Vec<u8>>> {
    let directory = check_path(directory)?;
    let (mut outer, mut inner, mut depth) = (VecDeque::new(), VecDeque::new(), 0_usize);
    for part in target {
        match (part.as_slice(), outer == directory) {
            (b".", false) => {}
            (b"..", false) => drop(outer.pop_back()),
            (_, false) => outer.push_back(part),
            (b"..", true) if depth == 0 => {
                inner.clear();
                outer.pop_back();
            }
            (name, true) => {
                depth = match name {
                    b"." => depth,
                    b".." => depth - 1,
                    _ => depth + 1,
                };
                inner.push_back(part);
            }
        }
    }
    match outer == directory {
        true => Ok(inner),
        false => Err(Errno::ENOENT.because("a symbolic link leads out of the file system")),
    }
}

/// The parts of a path between its slashes.
pub(crate) fn check_path(path: &[u8]) -> Result<VecDeque<Vec<u8>>> {
    if path.is_empty() {
        return Err(Errno::ENOENT.because("a path is not empty"));
    }
    if path.len() > PATH_MAX {
        return Err(too_long());
    }
    if path.contains(&0) {
        return Err(Errno::EINVAL.because("a path has no zero bytes"));
    }
    Ok(path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect())
}

#[cold]
fn no_directory_on_the_way(name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    Errno::ENOENT.because(format!("there is no directory '{}' on the way", name.escape_debug()))
}

#[cold]
fn too_long() -> Error {
    Errno::ENAMETOOLONG.because(format!("a path has at most {PATH_MAX} bytes"))
}

/// As many as Linux follows.
const LINKS_FOLLOWED: usize = 40;

//! Flat keyspaces: the path of a file is the key of its blob, and there are no directories.
//!
//! Opening, creating, reading, and removing a file is one request each, however deep it lies. A directory is what some key lies below; one
//! that was made and is empty is a blob whose key ends with the separator, which nobody reads but who asks for the directory itself. What is
//! in a directory is found by scanning keys. Any blob is a file, whoever wrote it: what it does not say of itself is taken to be usual.
//!
//! What needs more than that is refused: links, locks, owners and permissions of directories, and renaming of directories.

use std::collections::BTreeMap;

use tyr_client::{
    Attributes, Check, ErrorKind, KEY_SIZE_MAX, Keyspace, KeyspaceSettings, Store, Transaction,
};

use crate::{
    change::Changes,
    errno::{Errno, Error, Result, Stop},
    file::{File, check_range},
    filesystem::{FORMAT, Filesystem, ROOT_NUMBER, gone, transact},
    inode::{CHANGED, Inode, Kind, MODE, MODE_MASK, MODIFIED, Metadata, Timestamp, encode_mode, encode_time},
    listing::Entry,
    namespace::{New, is_directory, no_directory_but_file, no_name},
    rename::{Named, Over},
    site::{NAME_MAX, Site},
    view::{How, View},
    walk::{End, Want, check_path},
};

/// How paths become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flat {
    /// The key is the path without the slash that it begins with.
    Slashes,
    /// The same with underscores in place of slashes, for stores that others use so. `a_b` and `a/b` are one file.
    Underscores,
}

impl Flat {
    fn separator(self) -> u8 {
        match self {
            Flat::Slashes => b'/',
            Flat::Underscores => b'_',
        }
    }

    /// The key of a name in a directory.
    pub fn site(self, directory: &Site, name: &[u8]) -> Site {
        match directory.key() {
            b"" => Site::from_key(name),
            directory => Site::from_key(&[directory, &[self.separator()], name].concat()),
        }
    }

    /// The same. Fails with [`Errno::ENAMETOOLONG`] if it is longer than keys are.
    fn short_site(self, directory: &Site, name: &[u8]) -> Result<Site> {
        let site = self.site(directory, name);
        match site.key().len() > KEY_SIZE_MAX {
            true => Err(too_long()),
            false => Ok(site),
        }
    }

    /// Whether a name can be part of a path here. One that begins or ends with an underscore, or has two in a row, has parts that are
    /// empty when underscores stand for slashes: nobody would see it in a directory, or it would be another one's mark.
    fn has(self, name: &[u8]) -> bool {
        self != Flat::Underscores || name.split(|byte| *byte == self.separator()).all(|part| !part.is_empty())
    }

    /// Fails unless a name can be made.
    fn check_new(self, name: &[u8]) -> Result<()> {
        match self.has(name) {
            true => Ok(()),
            false => Err(Errno::EINVAL.because(
                "no underscore begins or ends a name, or follows another one, where they stand for slashes",
            )),
        }
    }

    /// The key of a file that is to be made, or renamed to. Fails with [`Errno::EINVAL`] for the one by which a keyspace says that it holds a file system: nobody
    /// could open it as flat files after that.
    fn new_site(self, directory: &Site, name: &[u8]) -> Result<Site> {
        self.check_new(name)?;
        let site = self.short_site(directory, name)?;
        match site.key() == FORMAT.as_bytes() {
            true => Err(Errno::EINVAL.because(
                "a keyspace with something of this name would be taken for a file system that is not flat",
            )),
            false => Ok(site),
        }
    }

    /// What all keys below a directory begin with.
    fn prefix(self, directory: &Site) -> Vec<u8> {
        match directory.key() {
            b"" => Vec::new(),
            directory => [directory, &[self.separator()]].concat(),
        }
    }

    /// After which key to go on with what is in a directory: what else is in the same one below it is of no interest.
    fn past(self, prefix: &[u8], key: &[u8]) -> Vec<u8> {
        let mut past = key.to_vec();
        let rest = key.get(prefix.len()..).unwrap_or_default();
        if let Some(end) = rest.iter().position(|byte| *byte == self.separator()) {
            past.truncate(prefix.len() + end + 1);
            past.resize(KEY_SIZE_MAX, u8::MAX);
        }
        past
    }

    fn root() -> Inode {
        Inode { number: ROOT_NUMBER, kind: Kind::Directory, site: Site::from_key(b"") }
    }

    fn file(site: Site) -> Inode {
        Inode { number: number(site.key(), 1), kind: Kind::File, site }
    }

    fn directory(site: Site) -> Inode {
        match site.key() {
            b"" => Flat::root(),
            key => Inode { number: number(key, 2), kind: Kind::Directory, site },
        }
    }
}

/// The hash of a key, by Fowler, Noll, and Vo: the same at all clients. Small numbers are others'. Two keys can have one, and who wants that finds some: nobody is
/// to take them for one file by that, and a mount, whose kernel would, gives one of them another number.
fn number(key: &[u8], kind: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ kind;
    let hash = key.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash | 1 << 62
}

impl Filesystem {
    /// Opens a keyspace as flat files, whatever blobs are in it.
    ///
    /// Fails with [`Errno::EINVAL`] if it holds a file system.
    pub async fn open_flat(store: &Store, keyspace: &Keyspace, flat: Flat) -> Result<Filesystem> {
        if keyspace.exists(FORMAT).await? {
            let name = keyspace.name();
            return Err(
                Errno::EINVAL.because(format!("keyspace '{name}' holds a file system, which is not flat"))
            );
        }
        Ok(Filesystem::of(store, keyspace, Some(flat)))
    }

    /// As [`Filesystem::open_flat`]; makes the keyspace if there is none.
    pub async fn open_or_create_flat(store: &Store, keyspace: &str, flat: Flat) -> Result<Filesystem> {
        let keyspace = match store.keyspace(keyspace) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match store.create_keyspace(keyspace, KeyspaceSettings::default()).await {
                    Err(error) if error.kind() == ErrorKind::Exists => store.keyspace(keyspace)?,
                    result => result?,
                }
            }
            result => result?,
        };
        Filesystem::open_flat(store, &keyspace, flat).await
    }

    /// How paths become keys here, if it is flat.
    pub fn flat(&self) -> Option<Flat> {
        self.inner.flat
    }

    /// What a blob says of itself as a file.
    async fn flat_file(&self, site: &Site) -> Result<Option<Metadata>> {
        match self.keyspace().stat(site).await {
            Ok(stat) => Ok(Some(file_of(site.clone(), &stat.attributes, stat.size))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there is anything below a key.
    async fn flat_has_directory(&self, flat: Flat, site: &Site) -> Result<bool> {
        let prefix = flat.prefix(site);
        if prefix.len() > KEY_SIZE_MAX {
            // Nothing can lie below it.
            return Ok(false);
        }
        if prefix.is_empty() || self.keyspace().exists(&prefix).await? {
            return Ok(true);
        }
        Ok(!self.keyspace().scan(&prefix, None, 1).await?.is_empty())
    }

    pub(crate) async fn flat_metadata(&self, inode: &Inode) -> Result<Metadata> {
        match inode.kind {
            Kind::Directory => Ok(directory_of(inode.clone())),
            // Whoever asks may know it by a number of his own.
            _ => {
                let found = self.flat_file(&inode.site).await?.ok_or_else(gone)?;
                Ok(Metadata { inode: inode.clone(), ..found })
            }
        }
    }

    pub(crate) async fn flat_lookup(&self, flat: Flat, directory: &Inode, name: &[u8]) -> Result<Metadata> {
        self.check_lookup(directory, name)?;
        if !flat.has(name) {
            return Err(no_name());
        }
        let site = flat.short_site(&directory.site, name)?;
        if let Some(found) = self.flat_file(&site).await? {
            return Ok(found);
        }
        match self.flat_has_directory(flat, &site).await? {
            true => Ok(directory_of(Flat::directory(site))),
            false => Err(no_name()),
        }
    }

    pub(crate) async fn flat_lookup_all(
        &self,
        flat: Flat,
        directory: &Inode,
        names: &[&[u8]],
    ) -> Result<Vec<Option<Metadata>>> {
        let mut sites = Vec::with_capacity(names.len());
        for name in names {
            self.check_lookup(directory, name)?;
            sites.push(flat.short_site(&directory.site, name)?);
        }
        let mut found = Vec::with_capacity(names.len());
        let stats = self.keyspace().stats(&sites).await?;
        for ((site, stat), name) in sites.into_iter().zip(stats).zip(names) {
            found.push(match stat {
                _ if !flat.has(name) => None,
                Some(stat) => Some(file_of(site, &stat.attributes, stat.size)),
                None if self.flat_has_directory(flat, &site).await? => {
                    Some(directory_of(Flat::directory(site)))
                }
                None => None,
            });
        }
        Ok(found)
    }

    pub(crate) async fn flat_make(
        &self,
        flat: Flat,
        directory: &Inode,
        name: &[u8],
        new: &New,
    ) -> Result<Metadata> {
        self.check_lookup(directory, name)?;
        flat.check_new(name)?;
        let site = flat.short_site(&directory.site, name)?;
        if new.kind == Kind::Directory {
            if self.flat_file(&site).await?.is_some() {
                return Err(exists());
            }
            let mark = flat.prefix(&site);
            if mark.len() > KEY_SIZE_MAX {
                return Err(too_long());
            }
            return match self.keyspace().create(mark).await {
                Err(error) if error.kind() == ErrorKind::Exists => Err(exists()),
                Err(error) => Err(error.into()),
                Ok(()) => Ok(directory_of(Flat::directory(site))),
            };
        }
        if new.kind != Kind::File {
            return Err(Errno::EPERM.because("a flat keyspace has regular files only"));
        }
        let site = flat.new_site(&directory.site, name)?;
        let now = new.made.unwrap_or_else(Timestamp::now);
        let made = Metadata {
            mode: new.mode & MODE_MASK & !(new.umask & 0o777),
            uid: new.uid,
            gid: new.gid,
            size: new.content.len() as u64,
            accessed: now,
            modified: now,
            changed: now,
            ..file_of(site, &Attributes::default(), 0)
        };
        transact!(self, |transaction, _again| self.try_flat_make(transaction, &made, &new.content));
        Ok(made)
    }

    async fn try_flat_make(
        &self,
        transaction: &mut Transaction,
        made: &Metadata,
        content: &[u8],
    ) -> Result<(), Stop> {
        let (keyspace, site) = (self.keyspace(), &made.inode.site);
        match transaction.create(keyspace, site).await {
            Err(error) if error.kind() == ErrorKind::Exists => return Err(exists().into()),
            result => result?,
        }
        if !content.is_empty() {
            transaction.write(keyspace, site, 0, content).await?;
        }
        transaction.set_attribute(keyspace, site, MODE, Some(&encode_mode(made))).await?;
        transaction.set_attribute(keyspace, site, MODIFIED, Some(&encode_time(made.modified))).await?;
        Ok(())
    }

    pub(crate) async fn flat_remove(
        &self,
        flat: Flat,
        directory: &Inode,
        name: &[u8],
        kind: Kind,
    ) -> Result<()> {
        self.check_lookup(directory, name)?;
        if !flat.has(name) {
            return Err(no_name());
        }
        let site = flat.short_site(&directory.site, name)?;
        if kind != Kind::Directory {
            return match self.keyspace().delete(&site).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Err(if self.flat_has_directory(flat, &site).await? { is_directory() } else { no_name() })
                }
                result => Ok(result?),
            };
        }
        if self.flat_file(&site).await?.is_some() {
            // It hides a directory of the same name.
            return Err(no_directory_but_file());
        }
        let prefix = flat.prefix(&site);
        if prefix.len() > KEY_SIZE_MAX {
            return Err(no_name());
        }
        let below = self.keyspace().scan(&prefix, None, 2).await?;
        match below.as_slice() {
            // It went with the last file in it, which who removes a tree has just taken.
            [] => Ok(()),
            [only] if only.key.as_ref() == prefix.as_slice() => match self.keyspace().delete(&prefix).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Err(no_name()),
                result => Ok(result?),
            },
            _ => Err(Errno::ENOTEMPTY.because("the directory has entries")),
        }
    }

    pub(crate) async fn flat_list(&self, flat: Flat, directory: &Inode) -> Result<Vec<Entry>> {
        let prefix = flat.prefix(&directory.site);
        let mut entries: BTreeMap<Vec<u8>, Inode> = BTreeMap::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.keyspace().scan(&prefix, after.as_deref(), PAGE).await?;
            for found in &page {
                let rest = found.key.as_ref().get(prefix.len()..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == flat.separator());
                let name = &rest[..end.unwrap_or(rest.len())];
                // The directory's own mark, and keys that are no path's.
                if name.is_empty()
                    || name == b"."
                    || name == b".."
                    || name.len() > NAME_MAX
                    || name.contains(&0)
                {
                    continue;
                }
                let site = flat.site(&directory.site, name);
                let inode = if end.is_some() { Flat::directory(site) } else { Flat::file(site) };
                // A file hides a directory of the same name, as it does for who looks for it.
                let known = entries.entry(name.to_vec()).or_insert_with(|| inode.clone());
                if inode.kind == Kind::File {
                    *known = inode;
                }
            }
            after = match page.last() {
                Some(last) if page.len() == PAGE => Some(flat.past(&prefix, last.key.as_ref())),
                _ => break,
            };
        }
        let entry = |(name, inode): (Vec<u8>, Inode)| Entry { name, number: inode.number, kind: inode.kind };
        Ok(entries.into_iter().map(entry).collect())
    }

    pub(crate) async fn flat_rename(
        &self,
        flat: Flat,
        from: Named<'_>,
        to: Named<'_>,
        over: Over,
    ) -> Result<()> {
        let old = flat.short_site(&from.directory.site, from.name)?;
        if !flat.has(from.name) {
            return Err(no_name());
        }
        let new = flat.new_site(&to.directory.site, to.name)?;
        if self.flat_file(&old).await?.is_none() {
            return Err(match self.flat_has_directory(flat, &old).await? {
                true => {
                    Errno::EXDEV.because("in a flat keyspace a directory has no name to be changed; copy it")
                }
                false => no_name(),
            });
        }
        if over == Over::Exchange {
            return Err(not_renamed());
        }
        if old != new {
            transact!(self, |transaction, _again| self.try_flat_rename(transaction, (&old, &new), over));
        }
        Ok(())
    }

    async fn try_flat_rename(
        &self,
        transaction: &mut Transaction,
        (old, new): (&Site, &Site),
        over: Over,
    ) -> Result<(), Stop> {
        let keyspace = self.keyspace();
        let found = |result: tyr_client::Result<_>| match result {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            result => result.map(Some),
        };
        let Some(moved) = found(transaction.stat(keyspace, old).await)? else { return Err(no_name().into()) };
        if moved.size > RENAMED_MAX {
            return Err(not_renamed().into());
        }
        let replaced = found(transaction.stat(keyspace, new).await)?;
        if replaced.is_some() && over == Over::Refuse {
            return Err(exists().into());
        }
        let content = transaction.read(keyspace, old, ..).await?;
        if replaced.is_some() {
            transaction.delete(keyspace, new).await?;
        }
        transaction.create(keyspace, new).await?;
        if !content.is_empty() {
            transaction.write(keyspace, new, 0, content).await?;
        }
        for (name, value) in moved.attributes.iter() {
            transaction.set_attribute(keyspace, new, name, Some(value)).await?;
        }
        transaction.delete(keyspace, old).await?;
        Ok(())
    }

    pub(crate) async fn flat_change(&self, inode: &Inode, changes: &Changes) -> Result<Metadata> {
        if inode.kind == Kind::Directory {
            // There is nothing that could remember it; who copies trees goes on.
            return self.flat_metadata(inode).await;
        }
        if let Some(size) = changes.size {
            check_range(size, 0)?;
        }
        if *changes != Changes::default() {
            transact!(self, |transaction, _again| self.try_flat_change(transaction, inode, changes));
        }
        self.flat_metadata(inode).await
    }

    async fn try_flat_change(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        changes: &Changes,
    ) -> Result<(), Stop> {
        let (keyspace, site) = (self.keyspace(), &inode.site);
        let stat = match transaction.stat(keyspace, site).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone().into()),
            result => result?,
        };
        let before = file_of(site.clone(), &stat.attributes, stat.size);
        if let Some(size) = changes.size {
            transaction.truncate(keyspace, site, size).await?;
        }
        let mode = changes.mode_after(before.mode);
        if mode.is_some() || changes.uid.is_some() || changes.gid.is_some() {
            let after = Metadata {
                mode: mode.unwrap_or(before.mode),
                uid: changes.uid.unwrap_or(before.uid),
                gid: changes.gid.unwrap_or(before.gid),
                ..before
            };
            transaction.set_attribute(keyspace, site, MODE, Some(&encode_mode(&after))).await?;
        }
        if let Some(modified) = changes.modified.or(changes.size.map(|_| Timestamp::now())) {
            transaction.set_attribute(keyspace, site, MODIFIED, Some(&encode_time(modified))).await?;
        }
        let now = encode_time(Timestamp::now());
        transaction.set_attribute(keyspace, site, CHANGED, Some(&now)).await?;
        Ok(())
    }

    /// Has the commit refused unless the blob exists; when that has happened, refuses by itself.
    pub(crate) async fn flat_require(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        again: bool,
    ) -> Result<(), Stop> {
        if !again {
            transaction.check(self.keyspace(), &inode.site, Check::Exists)?;
            return Ok(());
        }
        match transaction.stat(self.keyspace(), &inode.site).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(gone().into()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Where a path leads, by its names alone. Only what is meant is asked for, nothing on the way.
    pub(crate) async fn flat_walk(&self, flat: Flat, path: &[u8]) -> Result<End> {
        let is_directory_meant = path.ends_with(b"/");
        let Some((directory, name)) = flat_place(flat, path)? else {
            let root = directory_of(Flat::root());
            return Ok(End { directory: root.clone(), name: None, found: Some(root), is_directory_meant });
        };
        let directory = directory_of(directory);
        let found = match self.flat_lookup(flat, &directory.inode, &name).await {
            Ok(found) if is_directory_meant && found.inode.kind != Kind::Directory => {
                return Err(no_directory_but_file());
            }
            Ok(found) => Some(found),
            Err(error) if error.errno() == Errno::ENOENT => None,
            Err(error) => return Err(error),
        };
        Ok(End { directory, name: Some(name), found, is_directory_meant })
    }
}

impl View {
    pub(crate) async fn flat_open(&self, flat: Flat, path: &[u8], how: How) -> Result<File> {
        let (directory, name) = flat_place(flat, path)?.ok_or_else(is_directory)?;
        if path.ends_with(b"/") {
            return Err(is_directory());
        }
        let (filesystem, caller) = (self.filesystem(), self.caller());
        match how.creates {
            Some(_) => flat.check_new(&name)?,
            None if !flat.has(&name) => return Err(no_name()),
            None => {}
        }
        let inode = Flat::file(flat.short_site(&directory.site, &name)?);
        loop {
            if !how.is_new {
                match filesystem.open_file(&inode).await {
                    Ok((file, found)) => {
                        if how.reads {
                            caller.require(&found, Want::Read)?;
                        }
                        if how.writes || how.truncates {
                            caller.require(&found, Want::Write)?;
                        }
                        if how.truncates && found.size > 0 {
                            self.truncate(&file).await?;
                        }
                        return Ok(file);
                    }
                    Err(error) if error.errno() == Errno::ESTALE => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(mode) = how.creates else {
                let is_one = filesystem.flat_has_directory(flat, &inode.site).await?;
                return Err(if is_one { is_directory() } else { no_name() });
            };
            let new = self.new_of(Kind::File, mode);
            match filesystem.make_file(&directory, &name, &new).await {
                Err(error) if error.errno() == Errno::EEXIST && !how.is_new => {}
                result => return result.map(|(file, _)| file),
            }
        }
    }

    pub(crate) async fn flat_remove_directory(&self, flat: Flat, path: &[u8]) -> Result<()> {
        let root = || Errno::EBUSY.because("the root is not removed");
        let (directory, name) = flat_place(flat, path)?.ok_or_else(root)?;
        self.filesystem().remove_directory(&directory, &name).await
    }

    pub(crate) async fn flat_fetch(&self, flat: Flat, path: &[u8]) -> Result<(Metadata, Vec<u8>)> {
        let (directory, name) = flat_place(flat, path)?.ok_or_else(is_directory)?;
        if !flat.has(&name) {
            return Err(no_name());
        }
        let (filesystem, site) = (self.filesystem(), flat.short_site(&directory.site, &name)?);
        match filesystem.keyspace().get(&site).await {
            Ok(blob) => {
                let found = file_of(site, &blob.stat.attributes, blob.stat.size);
                self.caller().require(&found, Want::Read)?;
                Ok((found, blob.bytes))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_one = filesystem.flat_has_directory(flat, &site).await?;
                Err(if is_one { is_directory() } else { no_name() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The directory and the name that a path means, or `None` if that is the root.
fn flat_place(flat: Flat, path: &[u8]) -> Result<Option<(Inode, Vec<u8>)>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for part in check_path(path)? {
        match part.as_slice() {
            b"." => {}
            b".." => drop(parts.pop()),
            name if name.len() > NAME_MAX => {
                return Err(Errno::ENAMETOOLONG.because(format!("a name has at most {NAME_MAX} bytes")));
            }
            _ => parts.push(part),
        }
    }
    let Some(name) = parts.pop() else { return Ok(None) };
    if !parts.iter().all(|part| flat.has(part)) {
        return Err(no_name());
    }
    let directory = Site::from_key(&parts.join(&flat.separator()));
    Ok(Some((Flat::directory(directory), name)))
}

/// What a blob is as a file.
fn file_of(site: Site, attributes: &Attributes, size: u64) -> Metadata {
    let time = |name| attributes.value(name).and_then(Timestamp::decode);
    let modified = time(MODIFIED).unwrap_or_default();
    let words = attributes.value(MODE).unwrap_or_default().chunks_exact(4);
    let mut words = words.map_while(|word| word.first_chunk::<4>()).map(|word| u32::from_le_bytes(*word));
    let (mode, uid, gid) = (words.next(), words.next(), words.next());
    Metadata {
        inode: Flat::file(site),
        mode: mode.unwrap_or(0o666) & MODE_MASK,
        uid: uid.unwrap_or(0),
        gid: gid.unwrap_or(0),
        device: 0,
        links: 1,
        size,
        data_size: size,
        may_have_holes: false,
        cut: None,
        accessed: modified,
        modified,
        changed: time(CHANGED).unwrap_or(modified),
        target: None,
        acl: None,
        leaving: None,
    }
}

/// What every directory is.
fn directory_of(inode: Inode) -> Metadata {
    let time = Timestamp::default();
    Metadata {
        inode,
        mode: 0o777,
        uid: 0,
        gid: 0,
        device: 0,
        links: 1,
        size: 0,
        data_size: 0,
        may_have_holes: false,
        cut: None,
        accessed: time,
        modified: time,
        changed: time,
        target: None,
        acl: None,
        leaving: None,
    }
}

#[cold]
fn not_renamed() -> Error {
    Errno::EXDEV
        .because("two files are not exchanged in a flat keyspace, nor is a large one renamed; copy it")
}

#[cold]
fn too_long() -> Error {
    Errno::ENAMETOOLONG.because(format!("a path in a flat keyspace has at most {KEY_SIZE_MAX} bytes"))
}

#[cold]
fn exists() -> Error {
    Errno::EEXIST.because("there is something of that name already")
}

/// Keys that are asked for at once.
const PAGE: usize = 1000;
/// Larger files are copied by who renames them, as from device to device.
const RENAMED_MAX: u64 = 64 << 20;

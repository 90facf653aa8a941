//! Names: found, made, and removed. Each change is one transaction.

use std::task::Poll;

use tyr_client::{ErrorKind, Transaction};

use crate::{
    acl::Which,
    cells::{Cells, Meant, is_named_in},
    errno::{Errno, Error, Result, Stop},
    file::SIZE_MAX,
    filesystem::{Filesystem, gone, transact},
    inode::{CHANGED, Inode, Kind, LINKS, MODE, Metadata, Timestamp, encode_links, encode_time},
    listing::{self, Entry, Listing, Records},
    orphans,
    rename::Named,
    site::{PATH_MAX, Site, check_name},
    uses::Door,
};

/// What is to be made.
#[derive(Clone, Debug)]
pub struct New {
    /// What it is.
    pub kind: Kind,
    /// Its permissions; in a directory with the bit for set-group-id a directory has that, too.
    pub mode: u32,
    /// Permissions that it does not get after all, as umask(2) has it, unless the directory has a default access control list.
    pub umask: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group, unless the directory has the bit for set-group-id: then it is the directory's.
    pub gid: u32,
    /// What a device file is of.
    pub device: u32,
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
    /// What a regular file holds from the beginning.
    pub content: Vec<u8>,
    /// When it is made, if that is not to be found out when it is.
    pub made: Option<Timestamp>,
}

impl New {
    /// A thing of this kind with these permissions, which belongs to the superuser.
    pub fn of(kind: Kind, mode: u32) -> Self {
        New { kind, mode, umask: 0, uid: 0, gid: 0, device: 0, target: None, content: Vec::new(), made: None }
    }

    /// The same, without permissions that a process does not give.
    #[must_use]
    pub fn masked(self, umask: u32) -> Self {
        New { umask, ..self }
    }

    /// The same, with an owner and a group.
    #[must_use]
    pub fn owned(self, uid: u32, gid: u32) -> Self {
        New { uid, gid, ..self }
    }

    /// A symbolic link.
    pub fn symlink(target: &[u8]) -> Self {
        New { target: Some(target.to_vec()), ..New::of(Kind::Symlink, 0o777) }
    }
}

impl Filesystem {
    /// What a name in a directory means. Fails with [`Errno::ENOENT`] if there is none.
    ///
    /// One request to the store, or two if it was renamed and has not moved since.
    pub async fn lookup(&self, directory: &Inode, name: &[u8]) -> Result<Metadata> {
        if let Some(flat) = self.flat() {
            return self.flat_lookup(flat, directory, name).await;
        }
        self.check_lookup(directory, name)?;
        let own = directory.site.of(name);
        loop {
            let stat = match self.keyspace().stat(&own).await {
                Ok(stat) => stat,
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_name()),
                Err(error) => return Err(error.into()),
            };
            match Meant::decode(&stat.attributes)? {
                _ if !is_named_in(directory, &stat.attributes) => return Err(no_name()),
                Meant::Nobody => return Err(no_name()),
                Meant::Here => {
                    let metadata = Metadata::decode(&own, &stat.attributes, stat.size)?;
                    return Ok(self.counted(metadata.ok_or_else(no_name)?).await);
                }
                Meant::Elsewhere(inode) => match self.metadata(&inode).await {
                    // The name has come to mean somebody else in between, or nobody.
                    Err(error) if error.errno() == Errno::ESTALE => {}
                    Err(error) => return Err(error),
                    Ok(metadata) => {
                        self.inner.strays.note(Named { directory, name }, &metadata);
                        return Ok(metadata);
                    }
                },
            }
        }
    }

    /// What many names in a directory mean, each at some moment during the call; `None` for one that means nothing. One request for all of
    /// them if the store can, and one more for each that was renamed.
    pub async fn lookup_all(&self, directory: &Inode, names: &[&[u8]]) -> Result<Vec<Option<Metadata>>> {
        if let Some(flat) = self.flat() {
            return self.flat_lookup_all(flat, directory, names).await;
        }
        let mut sites = Vec::with_capacity(names.len());
        for name in names {
            self.check_lookup(directory, name)?;
            sites.push(directory.site.of(name));
        }
        let mut found = Vec::with_capacity(names.len());
        let stats = self.keyspace().stats(&sites).await?;
        for ((name, site), stat) in names.iter().zip(&sites).zip(stats) {
            let Some(stat) = stat else {
                found.push(None);
                continue;
            };
            found.push(match Meant::decode(&stat.attributes)? {
                _ if !is_named_in(directory, &stat.attributes) => None,
                Meant::Here => match Metadata::decode(site, &stat.attributes, stat.size)? {
                    Some(metadata) => Some(self.counted(metadata).await),
                    None => None,
                },
                _ => match self.lookup(directory, name).await {
                    Ok(metadata) => Some(metadata),
                    Err(error) if error.errno() == Errno::ENOENT => None,
                    Err(error) => return Err(error),
                },
            });
        }
        Ok(found)
    }

    pub(crate) fn check_lookup(&self, directory: &Inode, name: &[u8]) -> Result<()> {
        if directory.kind != Kind::Directory {
            return Err(Errno::ENOTDIR.because("a part of the path is no directory"));
        }
        check_name(name)
    }

    /// Makes something under a new name. Fails with [`Errno::EEXIST`] if there is such a name.
    pub async fn make(&self, directory: &Inode, name: &[u8], new: &New) -> Result<Metadata> {
        if let Some(flat) = self.flat() {
            return self.flat_make(flat, directory, name, new).await;
        }
        let number = self.number().await?;
        self.make_numbered(directory, name, new, number).await
    }

    pub(crate) async fn make_numbered(
        &self,
        directory: &Inode,
        name: &[u8],
        new: &New,
        number: u64,
    ) -> Result<Metadata> {
        self.check_lookup(directory, name)?;
        if new.target.as_ref().is_some_and(|target| target.len() > PATH_MAX) {
            return Err(Errno::ENAMETOOLONG.because("a symbolic link leads to a path of at most 4095 bytes"));
        }
        if new.target.as_ref().is_some_and(Vec::is_empty) {
            return Err(Errno::ENOENT.because("a symbolic link leads somewhere"));
        }
        let committed = transact!(self, |transaction, again| self.try_make(
            transaction,
            again,
            directory,
            name,
            new,
            number
        ));
        Ok(committed.value)
    }

    async fn try_make(
        &self,
        transaction: &mut Transaction,
        again: bool,
        directory: &Inode,
        name: &[u8],
        new: &New,
        number: u64,
    ) -> Result<Metadata, Stop> {
        let mut cells = Cells::default();
        let (own, named) = cells.load_name(transaction, self.keyspace(), directory, name).await?;
        if named.is_some() {
            return Err(Errno::EEXIST.because("there is something of that name already").into());
        }
        let is_free = cells.load(transaction, self.keyspace(), &own).await?.held().is_none();
        let fits = is_free && (new.kind != Kind::Directory || own.is_short());
        let site = if fits { own.clone() } else { Site::fresh(number) };
        let inherited = match self.attribute(transaction, directory, MODE).await {
            Err(Stop::Refused(error)) if error.errno() == Errno::ESTALE => return Err(no_directory().into()),
            result => result?.unwrap_or_default(),
        };
        let word = |place: usize| {
            let bytes = inherited.get(4 * place..).and_then(<[u8]>::first_chunk::<4>);
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let (mut mode, acl, default) = self.inherit(transaction, directory, new).await?;
        let mut gid = new.gid;
        if word(0) & libc::S_ISGID != 0 {
            gid = word(2);
            if new.kind == Kind::Directory {
                mode |= libc::S_ISGID;
            }
        }
        let now = new.made.unwrap_or_else(Timestamp::now);
        let (parent, content) = match new.kind {
            Kind::Directory => (Some(directory), listing::empty()),
            Kind::File => (None, new.content.clone()),
            _ => (None, Vec::new()),
        };
        let metadata = Metadata {
            inode: Inode { number, kind: new.kind, site },
            mode,
            uid: new.uid,
            gid,
            device: new.device,
            links: 1,
            size: match &new.target {
                Some(target) => target.len() as u64,
                None => content.len() as u64,
            },
            data_size: content.len() as u64,
            may_have_holes: false,
            cut: None,
            accessed: now,
            modified: now,
            changed: now,
            target: new.target.clone(),
            acl,
            leaving: None,
        };
        cells.add_inode(&metadata, parent, content);
        if let Some(default) = default {
            let cell = cells.load(transaction, self.keyspace(), &metadata.inode.site).await?;
            cell.set(Which::Default.attribute(), Some(default.encode()));
        }
        cells.name(&own, directory, Some(&metadata.inode));
        cells.write(transaction, self.keyspace()).await?;
        let mut records = Records::default();
        records.came(name, &metadata.inode);
        self.note(transaction, directory, records, again).await?;
        Ok(metadata)
    }

    /// Gives an inode another name, a hard link. Fails with [`Errno::EPERM`] for a directory, with [`Errno::ENOENT`] if it has no name any more,
    /// and with [`Errno::ESTALE`] if it is no more.
    pub async fn link(&self, inode: &Inode, directory: &Inode, name: &[u8]) -> Result<Metadata> {
        self.check_lookup(directory, name)?;
        if self.flat().is_some() {
            return Err(Errno::EPERM.because("in a flat keyspace a file has one name"));
        }
        if inode.kind == Kind::Directory {
            return Err(Errno::EPERM.because("a directory has one name only"));
        }
        let linked =
            transact!(self, |transaction, again| self.try_link(transaction, again, inode, directory, name));
        Ok(self.counted(linked.value).await)
    }

    async fn try_link(
        &self,
        transaction: &mut Transaction,
        again: bool,
        inode: &Inode,
        directory: &Inode,
        name: &[u8],
    ) -> Result<Metadata, Stop> {
        let mut cells = Cells::default();
        let (own, named) = cells.load_name(transaction, self.keyspace(), directory, name).await?;
        if named.is_some() {
            return Err(Errno::EEXIST.because("there is something of that name already").into());
        }
        let cell = cells.load(transaction, self.keyspace(), &inode.site).await?;
        // It may have moved.
        let before = cell.held().filter(|held| held.inode == *inode).ok_or_else(gone)?;
        match before.links {
            0 => return Err(Errno::ENOENT.because("the file has no name any more").into()),
            links if links >= LINKS_MAX => {
                return Err(Errno::EMLINK.because(format!("a file has at most {LINKS_MAX} names")).into());
            }
            _ => {}
        }
        let linked = Metadata { links: before.links + 1, changed: Timestamp::now(), ..before.clone() };
        cell.set(LINKS, Some(encode_links(linked.links)));
        cell.set(CHANGED, Some(encode_time(linked.changed)));
        cells.name(&own, directory, Some(inode));
        cells.write(transaction, self.keyspace()).await?;
        let mut records = Records::default();
        records.came(name, inode);
        self.note(transaction, directory, records, again).await?;
        Ok(linked)
    }

    /// Takes a name from a file; with the last one the file goes, when nobody has it open any more. Fails with [`Errno::EISDIR`] for a
    /// directory. Returns what it was before, but of a flat keyspace.
    pub async fn unlink(&self, directory: &Inode, name: &[u8]) -> Result<Option<Metadata>> {
        self.remove(directory, name, What::File).await
    }

    /// Removes an empty directory. Fails with [`Errno::ENOTDIR`] for anything else, and with [`Errno::ENOTEMPTY`] if it has entries.
    pub async fn remove_directory(&self, directory: &Inode, name: &[u8]) -> Result<()> {
        self.remove(directory, name, What::Directory).await.map(drop)
    }

    async fn remove(&self, directory: &Inode, name: &[u8], what: What) -> Result<Option<Metadata>> {
        if let Some(flat) = self.flat() {
            let kind = if what == What::Directory { Kind::Directory } else { Kind::File };
            return self.flat_remove(flat, directory, name, kind).await.map(|()| None);
        }
        self.check_lookup(directory, name)?;
        let door = Door::default();
        let removing = async || {
            let removed = transact!(self, |transaction, again| {
                self.try_remove(transaction, again, &door, (directory, name), what)
            });
            Ok(removed.value)
        };
        let removed = removing().await;
        let removed = door.end(removed)?;
        self.tidy(directory).await;
        Ok(Some(removed))
    }

    async fn try_remove(
        &self,
        transaction: &mut Transaction,
        again: bool,
        door: &Door,
        (directory, name): (&Inode, &[u8]),
        what: What,
    ) -> Result<Metadata, Stop> {
        door.begin();
        let mut cells = Cells::default();
        let (own, named) = cells.load_name(transaction, self.keyspace(), directory, name).await?;
        let inode = named.ok_or_else(no_name)?;
        match (what, inode.kind) {
            (What::File, Kind::Directory) => return Err(is_directory().into()),
            (What::Directory, Kind::Directory) => {}
            (What::Directory, _) => return Err(no_directory_but_file().into()),
            (What::File, _) => {}
        }
        cells.name(&own, directory, None);
        let removed = self.take_name(transaction, &mut cells, door, &inode).await?;
        cells.write(transaction, self.keyspace()).await?;
        let mut records = Records::default();
        records.went(name);
        self.note(transaction, directory, records, again).await?;
        Ok(removed)
    }

    /// One name less for an inode; returns what it was before. A directory has to be empty. With the last name it goes, or waits until nobody has it open; nobody comes to have it
    /// open here meanwhile.
    pub(crate) async fn take_name(
        &self,
        transaction: &mut Transaction,
        cells: &mut Cells,
        door: &Door,
        inode: &Inode,
    ) -> Result<Metadata, Stop> {
        let cell = cells.load(transaction, self.keyspace(), &inode.site).await?;
        let before = Self::meant(cell, inode)?.clone();
        let links = before.links;
        if inode.kind == Kind::Directory {
            let start = transaction.read(self.keyspace(), &inode.site, ..8).await?;
            if listing::count(&start)? > 0 {
                return Err(Errno::ENOTEMPTY.because("the directory has entries").into());
            }
            cell.drop_inode();
            return Ok(before);
        }
        if links > 1 {
            cell.set(LINKS, Some(encode_links(links - 1)));
            cell.set(CHANGED, Some(encode_time(Timestamp::now())));
            // If it lies in this name's own site, nothing of that goes.
            self.make_room(transaction, inode).await?;
            return Ok(before);
        }
        // Somebody is opening or removing it at this moment: a little later it is known how that ended.
        let Some(shut) = self.inner.uses.shut(inode.number) else {
            // Whoever it is may be of the same thread.
            give_way().await;
            return Err(crate::errno::changed());
        };
        door.hold(shut);
        if self.may_be_open(transaction, inode).await? {
            cell.set(LINKS, Some(encode_links(0)));
            cell.set(CHANGED, Some(encode_time(Timestamp::now())));
            self.make_room(transaction, inode).await?;
            orphans::note(transaction, self.keyspace(), inode).await?;
        } else {
            cell.drop_inode();
        }
        Ok(before)
    }

    /// Has a transaction that takes a name from an inode count as one that makes room, which it does in the end: it is to go on where there is none.
    async fn make_room(&self, transaction: &mut Transaction, inode: &Inode) -> Result<(), Stop> {
        // There is nothing so far behind.
        Ok(transaction.punch(self.keyspace(), &inode.site, SIZE_MAX - 1..SIZE_MAX).await?)
    }

    /// What is in a directory, at one moment, in the order of the names' bytes. Empty if it was removed.
    pub async fn list(&self, directory: &Inode) -> Result<Vec<Entry>> {
        if directory.kind != Kind::Directory {
            return Err(no_directory_but_file());
        }
        if let Some(flat) = self.flat() {
            return self.flat_list(flat, directory).await;
        }
        let content = match self.keyspace().get(&directory.site).await {
            Ok(blob) => {
                let metadata = Metadata::decode(&directory.site, &blob.stat.attributes, blob.stat.size)?;
                let is_it = metadata.is_some_and(|metadata| metadata.inode == *directory);
                if is_it { blob.bytes } else { listing::empty() }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => listing::empty(),
            Err(error) => return Err(error.into()),
        };
        let listing = Listing::decode(&content)?;
        if listing.is_long() {
            // If it does not work now, it will next time.
            let _ = self.compact(directory).await;
        }
        Ok(listing.into_entries())
    }

    /// A name was taken from a directory. Now and then its listing is looked at, and compacted if that is due.
    pub(crate) async fn tidy(&self, directory: &Inode) {
        if self.inner.removals.note(directory.number) {
            // If it does not work now, it will next time.
            let entries = self.list(directory).await.map_or(0, |entries| entries.len());
            self.inner.removals.listed(directory.number, entries);
        }
    }

    /// Writes a directory's listing anew, without what is out of date. Tried once: who adds something meanwhile comes first.
    async fn compact(&self, directory: &Inode) -> Result<(), Stop> {
        let mut transaction = self.store().begin();
        self.require(&mut transaction, directory, false).await?;
        let content = transaction.read(self.keyspace(), &directory.site, ..).await?;
        let compacted = Listing::decode(&content)?.compacted();
        transaction.put(self.keyspace(), &directory.site, &compacted).await?;
        // A conflict says that somebody came first.
        let _ = transaction.commit().await?;
        Ok(())
    }
}

/// What is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    File,
    Directory,
}

/// Lets others of the same thread go on.
async fn give_way() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cold]
pub(crate) fn no_name() -> Error {
    Errno::ENOENT.because("there is nothing of that name")
}

#[cold]
pub(crate) fn no_directory() -> Error {
    Errno::ENOENT.because("the directory was removed")
}

#[cold]
pub(crate) fn is_directory() -> Error {
    Errno::EISDIR.because("it is a directory")
}

#[cold]
pub(crate) fn no_directory_but_file() -> Error {
    Errno::ENOTDIR.because("it is no directory")
}

/// The most names that a file has, as other file systems have it.
pub const LINKS_MAX: u32 = 65_000;

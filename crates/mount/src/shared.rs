//! What the threads of a mount share.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fuser::{FileAttr, FopenFlags, Generation, INodeNo, RenameFlags, ReplyAttr, ReplyEntry, Request};
use tyr_fs::{
    Caller, Changes, Errno, Filesystem, Inode, Kind, Metadata, Named, New, Over, Owed, Put, Renamed, Result,
    Timestamp, Which, site::Site,
};

use crate::{
    Settings, Sharing,
    access_log::AccessLog,
    accesses::Accesses,
    ahead::Ahead,
    attributes::attributes,
    counts::Counts,
    directories::Fit,
    handles::{Handle, Handles},
    known::Known,
    locks::Unlocking,
    names::Names,
    own::Own,
    recalls::Bell,
    waiting::Waiting,
    watched::Watched,
};

/// The file system, and what is known of what the kernel has of it.
pub struct Shared {
    pub filesystem: Filesystem,
    pub settings: Settings,
    /// Whether its root is that of the file system.
    pub is_whole: bool,
    pub known: Known,
    pub handles: Handles,
    pub unlocking: Unlocking,
    pub waiting: Waiting,
    /// Locks that could not be given up when they were to be.
    pub owed: Arc<Owed>,
    pub counts: Counts,
    /// Whether the kernel believes names.
    pub names: Arc<Names>,
    /// What of directories is about to be asked for.
    pub ahead: Ahead,
    /// How much of a listing the kernel takes at once.
    pub fit: Fit,
    /// Of what the kernel may have pages.
    pub watched: Watched,
    /// Where the kernel is told, once it is mounted.
    pub bell: Bell,
    /// Whether it is told of what is recalled.
    tells_recalls: bool,
    /// How much was recalled.
    pub recalls: AtomicU64,
    pub log: AccessLog,
    /// When files were read, if that is not noted yet.
    pub unnoted: Arc<Accesses>,
    /// Whether the kernel keeps what is written, and knows where files end.
    pub writes_back: AtomicBool,
}

impl Shared {
    pub fn new(filesystem: Filesystem, root: Inode, settings: Settings, tells_recalls: bool) -> Self {
        Shared {
            settings,
            is_whole: root == filesystem.root(),
            known: Known::new(root, filesystem.flat()),
            handles: Handles::default(),
            unlocking: Unlocking::default(),
            waiting: Waiting::default(),
            owed: Arc::default(),
            counts: Counts::default(),
            names: Arc::default(),
            ahead: Ahead::default(),
            fit: Fit::default(),
            watched: Watched::default(),
            bell: Bell::default(),
            tells_recalls,
            recalls: AtomicU64::new(0),
            log: AccessLog::default(),
            unnoted: Arc::default(),
            writes_back: AtomicBool::new(false),
            filesystem,
        }
    }

    /// Opens a file of the mount itself.
    pub fn open_own(&self, own: Own) -> (u64, FopenFlags) {
        match own {
            Own::Stats => {
                let text = Arc::new(self.counts.text().into_bytes());
                (self.handles.add(Handle::Text(text)), FopenFlags::FOPEN_DIRECT_IO)
            }
            Own::AccessLog => {
                let reader = self.handles.add(Handle::Log(self.log.open()));
                (reader, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_STREAM)
            }
        }
    }

    pub fn attributes(&self, metadata: &Metadata) -> FileAttr {
        let number = self.known.number(&metadata.inode);
        FileAttr { atime: self.unnoted.last(metadata).into(), ..attributes(number, metadata) }
    }

    /// Tells the kernel of an inode that a name means, with how long that is certain.
    pub fn enter(
        &self,
        reply: ReplyEntry,
        (parent, name): (INodeNo, &OsStr),
        metadata: &Metadata,
        assured: Option<&Assured>,
    ) {
        // What was recalled while the kernel could not be told of it, as it did not know it, may have been this.
        let number = self.known.number(&metadata.inode);
        let is_known = self.known.numbers_at(&metadata.inode.site).contains(&number);
        let until = assured.map_or_else(Instant::now, |assured| assured.until);
        let _ = self.known.tell(&metadata.inode, (parent.0, name.as_bytes()), until);
        let name = assured.filter(|assured| assured.is_for_names).map_or(Duration::ZERO, Assured::left);
        let name = name.max(self.settings.entry_cache);
        let assured =
            assured.filter(|assured| is_known || assured.recalls == self.recalls.load(Ordering::SeqCst));
        let cache = self.attribute_cache(metadata, assured);
        reply.entry_with_ttls(&cache, &name, &self.attributes(metadata), Generation(0));
    }

    /// Tells the kernel what is known of an inode.
    pub fn describe(&self, reply: ReplyAttr, metadata: &Metadata, assured: Option<&Assured>) {
        reply.attr(&self.attribute_cache(metadata, assured), &self.attributes(metadata));
    }

    /// For how long the kernel may believe what it is told of an inode.
    pub fn attribute_cache(&self, metadata: &Metadata, assured: Option<&Assured>) -> Duration {
        if self.doubts_pages(metadata) {
            return Duration::ZERO;
        }
        let inode = &metadata.inode;
        let assured =
            assured.filter(|assured| assured.site == inode.site).map_or(Duration::ZERO, Assured::left);
        match self.watched.has(inode.number) {
            true => assured,
            false => assured.max(self.settings.attribute_cache),
        }
    }

    /// Whether the kernel may have pages of a file that has changed since, and would keep them: the file was given the time back that they are of.
    pub fn doubts_pages(&self, metadata: &Metadata) -> bool {
        let is_shared = self.settings.sharing == Sharing::Shared;
        is_shared && self.watched.has(metadata.inode.number) && self.known.doubts_pages(metadata)
    }

    /// For how long what is told from now on of the inode that lies somewhere is certain, but for what is recalled. To be asked before it is read: what is
    /// recalled then is, or it is told of by the time that the kernel hears of the inode, and takes what it hears for too old.
    pub fn assure(&self, site: Site) -> Assured {
        let recalls = self.recalls.load(Ordering::SeqCst);
        let is_for_names = self.believes_names();
        let left = if self.is_told() { self.filesystem.assured(&site) } else { Duration::ZERO };
        Assured { site, until: Instant::now() + left, recalls, is_for_names }
    }

    /// What is read of the inode that lies somewhere, and for how long that is certain. What was not, because nothing was lent of it, mostly is once it was
    /// read; then it is read again, from what was lent.
    pub async fn certain<T>(&self, site: Site, read: impl AsyncFn() -> Result<T>) -> Result<(T, Assured)> {
        let assured = self.assure(site.clone());
        let found = read().await?;
        if !self.is_told() || !assured.left().is_zero() {
            return Ok((found, assured));
        }
        let assured = self.assure(site);
        match assured.left().is_zero() {
            true => Ok((found, assured)),
            false => Ok((read().await?, assured)),
        }
    }

    /// Whether the kernel is told when what it believes is over.
    pub fn is_told(&self) -> bool {
        self.tells_recalls && self.bell.get().is_some()
    }

    /// Whether the kernel may believe names that are looked up from now on. In a flat keyspace what a name means does not hang on what lies there alone.
    fn believes_names(&self) -> bool {
        self.is_told() && self.filesystem.flat().is_none() && self.names.begin(Instant::now())
    }

    /// Has the kernel ask anew what an inode is. False if it has none of that number, or not yet.
    pub fn doubt(&self, number: u64) -> bool {
        self.bell.get().is_none_or(|kernel| kernel.doubt(number))
    }

    /// Has the kernel write back what it keeps of a file; see [`crate::kernel::Kernel::write_back`].
    pub fn write_back(&self, number: u64) {
        self.bell.get().into_iter().for_each(|kernel| kernel.write_back(number));
    }

    /// Does something with an inode that the kernel knows; where it lies now, if it has moved.
    pub async fn at<T>(&self, inode: Inode, work: impl AsyncFn(&Inode) -> Result<T>) -> Result<T> {
        match work(&inode).await {
            Err(error) if error.errno() == Errno::ESTALE => match self.find_again(&inode).await {
                Some(found) => work(&found).await,
                None => Err(error),
            },
            result => result,
        }
    }

    /// An inode that does not lie where it did, if it has the name by which it was known last.
    async fn find_again(&self, inode: &Inode) -> Option<Inode> {
        if self.filesystem.flat().is_some() {
            // There it lies where its name says, and nowhere else.
            return None;
        }
        let now = self.known.get(inode.number).ok()?;
        if now != *inode {
            return Some(now);
        }
        let (parent, name) = self.known.named(inode.number)?;
        let found = self.filesystem.lookup(&self.known.get(parent).ok()?, &name).await.ok()?.inode;
        if found.number != inode.number {
            return None;
        }
        self.known.lies(&found);
        Some(found)
    }

    /// Refuses to take a name of the mount's own, unless there may have been something of that name before it became the root.
    pub fn refuse_own(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        match Own::named(parent, name).filter(|_| self.is_whole) {
            Some(_) => Err(Errno::EACCES.because("the mount itself has something of that name")),
            None => Ok(()),
        }
    }

    pub async fn make(&self, parent: INodeNo, name: &OsStr, new: &New) -> Result<Metadata> {
        self.refuse_own(parent, name)?;
        self.filesystem.make(&self.known.get(parent.0)?, name.as_bytes(), &self.made_now(new)).await
    }

    /// What is made now. Where the kernel writes back it sets the times of what is written itself, by a clock that is behind: what is made goes by that as well, or it would look newer than
    /// what is written after it.
    pub fn made_now(&self, new: &New) -> New {
        let made = self.writes_back.load(Ordering::Relaxed).then(Timestamp::of_kernel);
        New { made, ..new.clone() }
    }

    pub async fn unlink(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        self.refuse_own(parent, name)?;
        let directory = self.known.get(parent.0)?;
        let removed = self.filesystem.unlink(&directory, name.as_bytes()).await?;
        self.has_lost_name(removed);
        self.flat_site(&directory, name.as_bytes()).into_iter().for_each(|site| self.lose(&site));
        Ok(())
    }

    /// The key of a name in a directory, if the file system is flat.
    fn flat_site(&self, directory: &Inode, name: &[u8]) -> Option<Site> {
        Some(self.filesystem.flat()?.site(&directory.site, name))
    }

    /// This mount has removed the flat file at a key, or given it another key. Whoever has it open gets at nothing that comes to lie there, nor does the
    /// kernel take that for it.
    fn lose(&self, site: &Site) {
        self.handles.lose(site);
        self.known.lose(site);
    }

    /// The number of a flat file that is about to be renamed, if it is open to be written to: then the kernel may have pages of it that programs have mapped and
    /// changed, and tells them to what was opened.
    pub fn mapped_flat(&self, parent: INodeNo, name: &OsStr) -> Option<u64> {
        let site = self.flat_site(&self.known.get(parent.0).ok()?, name.as_bytes())?;
        let is_written = |number: &u64| {
            self.known.get(*number).is_ok_and(|inode| inode.kind == Kind::File)
                && self.handles.is_written_at(&site)
        };
        self.known.numbers_at(&site).into_iter().find(is_written)
    }

    /// Remembers what has lost its last name and may be open: what is of regular files is there as long as they are, of the others the kernel alone knows.
    fn has_lost_name(&self, removed: Option<Metadata>) {
        let is_last = |removed: &Metadata| match removed.inode.kind {
            Kind::File => false,
            Kind::Directory => true,
            _ => removed.links <= 1,
        };
        removed.filter(is_last).into_iter().for_each(|removed| self.known.remove(removed));
    }

    pub async fn remove_directory(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        let parent = self.known.get(parent.0)?;
        let removed = self.directory(&parent, name).await;
        self.filesystem.remove_directory(&parent, name.as_bytes()).await?;
        removed.into_iter().for_each(|removed| self.known.remove(removed));
        Ok(())
    }

    /// The directory that a name means, if it means one.
    async fn directory(&self, parent: &Inode, name: &OsStr) -> Option<Metadata> {
        let found = self.filesystem.lookup(parent, name.as_bytes()).await.ok()?;
        (found.inode.kind == Kind::Directory).then_some(found)
    }

    /// What is known of an inode. Of a directory, a pipe, or the like that this mount has removed, what was known of it then: POSIX lets whoever has it open ask.
    pub async fn metadata(&self, inode: &Inode) -> Result<Metadata> {
        match self.filesystem.metadata(inode).await {
            Err(error) if error.errno() == Errno::ESTALE => self.known.removed(inode.number).ok_or(error),
            result => result,
        }
    }

    pub async fn link(&self, inode: INodeNo, parent: INodeNo, name: &OsStr) -> Result<Metadata> {
        self.refuse_own(parent, name)?;
        let (inode, directory) = (self.known.get(inode.0)?, self.known.get(parent.0)?);
        let link = async |inode: &Inode| self.filesystem.link(inode, &directory, name.as_bytes()).await;
        self.at(inode, link).await
    }

    pub async fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        self.refuse_own(from.0, from.1)?;
        self.refuse_own(to.0, to.1)?;
        let over = match flags {
            flags if flags.is_empty() => Over::Replace,
            RenameFlags::RENAME_NOREPLACE => Over::Refuse,
            RenameFlags::RENAME_EXCHANGE => Over::Exchange,
            _ => return Err(Errno::EINVAL.because("it is not renamed so")),
        };
        let directories = (self.known.get(from.0.0)?, self.known.get(to.0.0)?);
        let old = Named { directory: &directories.0, name: from.1.as_bytes() };
        let new = Named { directory: &directories.1, name: to.1.as_bytes() };
        let Renamed { inode, back, replaced } = self.filesystem.rename(old, new, over).await?;
        let renamed = inode.map(|inode| (inode, (to.0.0, new.name)));
        let back = back.map(|inode| (inode, (from.0.0, old.name)));
        for (inode, name) in renamed.into_iter().chain(back) {
            self.known.rename(inode.number, name);
        }
        self.has_lost_name(replaced);
        let sites = (self.flat_site(&directories.0, old.name), self.flat_site(&directories.1, new.name));
        if let (Some(old), Some(new)) = sites
            && old != new
        {
            [old, new].iter().for_each(|site| self.lose(site));
        }
        Ok(())
    }

    /// Changes what is known of an inode, through what is open if the kernel says through what.
    pub async fn change(&self, number: u64, handle: Option<u64>, changes: &Changes) -> Result<Metadata> {
        let inode = self.known.get(number)?;
        if changes.accessed.is_some() {
            self.unnoted.forget(inode.number);
        }
        match handle.and_then(|handle| self.handles.file(handle).ok()) {
            Some(open) => open.file.change(changes).await,
            None => {
                self.at(inode, async |inode| self.filesystem.apply(inode, changes).await).await?;
                let find = async |inode: &Inode| self.filesystem.metadata(inode).await;
                self.at(self.known.get(number)?, find).await
            }
        }
    }

    pub async fn target(&self, number: u64) -> Result<Vec<u8>> {
        let find = async |inode: &Inode| self.filesystem.metadata(inode).await;
        let metadata = self.at(self.known.get(number)?, find).await?;
        metadata.target.ok_or_else(|| Errno::EINVAL.because("it is no symbolic link"))
    }

    pub async fn set_extended(
        &self,
        number: u64,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        request: &Request,
    ) -> Result<()> {
        let (inode, name) = (self.known.get(number)?, name.as_bytes());
        if let Some(which) = Which::named(name) {
            let caller = caller(request);
            let set = async |inode: &Inode| self.filesystem.set_acl(inode, which, Some(value), &caller).await;
            return self.at(inode, set).await;
        }
        let put = match flags {
            libc::XATTR_CREATE => Put::Create,
            libc::XATTR_REPLACE => Put::Replace,
            _ => Put::Any,
        };
        let set = async |inode: &Inode| self.filesystem.set_extended(inode, name, Some(value), put).await;
        self.at(inode, set).await
    }

    pub async fn remove_extended(&self, number: u64, name: &OsStr) -> Result<()> {
        let inode = self.known.get(number)?;
        let name = name.as_bytes();
        let remove =
            async |inode: &Inode| self.filesystem.set_extended(inode, name, None, Put::Replace).await;
        self.at(inode, remove).await
    }

    /// The names of all extended attributes that a user may see, each with a zero byte after it.
    pub async fn extended_names(&self, number: u64, uid: u32) -> Result<Vec<u8>> {
        let list = async |inode: &Inode| self.filesystem.extended_names(inode).await;
        let mut names = self.at(self.known.get(number)?, list).await?;
        names.retain(|name| uid == 0 || !name.starts_with(b"trusted."));
        Ok(names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect())
    }
}

/// Who asks, with all its groups as far as this machine tells.
pub fn caller(request: &Request) -> Caller {
    let status = fs::read_to_string(format!("/proc/{}/status", request.pid())).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    let groups = groups.split_whitespace().filter_map(|group| group.parse().ok()).collect();
    Caller { uid: request.uid(), gid: request.gid(), groups }
}

/// Until when something is certain.
pub struct Assured {
    site: Site,
    until: Instant,
    /// How much was recalled before.
    recalls: u64,
    /// Whether the kernel may believe the name that lies there as well.
    is_for_names: bool,
}

impl Assured {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// What mknod(2) is to make.
pub fn special(mode: u32, device: u32) -> Result<New> {
    let kind = Kind::from_mode(mode).filter(|kind| !matches!(kind, Kind::Directory | Kind::Symlink));
    let kind = kind.ok_or_else(|| Errno::EINVAL.because("nothing of that kind is made so"))?;
    Ok(New { device, ..New::of(kind, mode) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Instant;

    use fuser::WriteFlags;
    use pollster::block_on;
    use tyr_client::Store;
    use tyr_fs::Flat;

    use super::*;
    use crate::Sharing;

    #[test]
    fn what_is_no_file_and_was_removed_or_replaced_is_known_to_who_has_it_open() {
        let place = tempfile::tempdir().unwrap();
        let store = block_on(Store::open(place.path())).unwrap();
        let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
        let (root, number) = (files.root(), INodeNo(files.root().number));
        let shared = Shared::new(files, root, Settings::of("files", Sharing::Shared), false);
        let (root, [pipe, other]) = (number, ["pipe", "other"].map(OsStr::new));
        let removals: [&dyn Fn() -> Result<()>; 2] = [&|| block_on(shared.unlink(root, pipe)), &|| {
            block_on(shared.rename((root, other), (root, pipe), RenameFlags::empty()))
        }];
        for removes in removals {
            let made =
                [pipe, other].map(|name| block_on(shared.make(root, name, &New::of(Kind::Pipe, 0o644))));
            let inode = made.map(Result::unwrap).map(|made| made.inode)[0].clone();
            shared.known.tell(&inode, (root.0, b"pipe"), Instant::now());
            removes().unwrap();
            assert_eq!(block_on(shared.metadata(&inode)).unwrap().links, 0);
            let _ = block_on(shared.unlink(root, other));
        }
    }

    #[test]
    fn who_has_a_flat_file_open_gets_at_nothing_that_comes_to_its_key() {
        let place = tempfile::tempdir().unwrap();
        let store = block_on(Store::open(place.path())).unwrap();
        let files = block_on(Filesystem::open_or_create_flat(&store, "files", Flat::Slashes)).unwrap();
        let (root, number) = (files.root(), INodeNo(files.root().number));
        let shared = Shared::new(files, root, Settings::of("files", Sharing::Shared), false);
        let [one, two] = ["one", "two"].map(OsStr::new);
        let (file, emptied) = (New::of(Kind::File, 0o644), Changes { size: Some(0), ..Changes::default() });
        let create = |name| {
            let create = shared.create(number.0, name, &file, 0, Caller::superuser);
            let (file, metadata) = block_on(create).unwrap();
            let told = shared.known.tell(&metadata.inode, (number.0, name.as_bytes()), Instant::now());
            (told, shared.opened(file, libc::O_RDWR, crate::content::Caching::None))
        };
        let write = |handle, bytes: &[u8]| {
            let write = shared.write(handle, 0, bytes, (WriteFlags::empty(), 0));
            block_on(write).map_err(|error| error.errno())
        };
        let read = |handle| block_on(shared.read(handle, 0, 100)).map_err(|error| error.errno());
        let (_, removed) = create(one);
        block_on(shared.unlink(number, one)).unwrap();
        let (renamed_number, renamed) = create(one);
        let (replaced_number, replaced) = create(two);
        write(renamed, b"renamed").unwrap();
        assert_eq!(shared.mapped_flat(number, one), Some(renamed_number));
        block_on(shared.rename((number, one), (number, two), RenameFlags::empty())).unwrap();
        let (new_number, new) = create(one);
        write(new, b"new").unwrap();
        assert!(new_number != renamed_number);
        for handle in [removed, renamed, replaced] {
            assert_eq!((read(handle), write(handle, b"lost")), (Err(Errno::ESTALE), Err(Errno::ESTALE)));
            shared.confirm_written(handle).unwrap();
            block_on(shared.handles.sync(handle)).unwrap();
        }
        for number in [renamed_number, replaced_number] {
            let change = shared.change(number, None, &emptied);
            assert_eq!(block_on(change).unwrap_err().errno(), Errno::ESTALE);
        }
        assert_eq!(read(new).unwrap(), b"new");
        let found = block_on(shared.filesystem.lookup(&shared.known.get(number.0).unwrap(), b"two")).unwrap();
        assert_eq!(found.size, 7);
        // To its own name it loses nothing.
        block_on(shared.rename((number, one), (number, one), RenameFlags::empty())).unwrap();
        assert_eq!(read(new).unwrap(), b"new");
        shared.handles.remove(new);
        assert_eq!(shared.mapped_flat(number, one), None);
    }
}

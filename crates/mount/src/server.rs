//! What the kernel asks, answered.

use std::{
    ffi::OsStr,
    future::Future,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use tyr_fs::{
    Allocate, Changes, Entry, Errno, File, Filesystem, Inode, Kind, Lock, LockKind, Metadata, Named, New,
    Over, Owner, Put, ROOT_NUMBER, Result, Seek, Timestamp,
};

use crate::{
    AccessTimes, Settings, Sharing,
    counts::{Ask, Counts},
    handles::{Handle, Handles, OpenFile},
    known::Known,
};

/// A mounted file system.
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    filesystem: Filesystem,
    settings: Settings,
    known: Known,
    handles: Handles,
    counts: Counts,
    /// Whether the kernel keeps what is written, and knows where files end.
    writes_back: AtomicBool,
}

impl Server {
    pub fn new(filesystem: Filesystem, root: Inode, settings: Settings) -> Self {
        let shared = Shared {
            filesystem,
            settings,
            known: Known::new(root),
            handles: Handles::default(),
            counts: Counts::default(),
            writes_back: AtomicBool::new(false),
        };
        Server { shared: Arc::new(shared) }
    }
}

impl Shared {
    /// Does what was asked, and counts it.
    fn answer<T>(&self, ask: Ask, work: impl Future<Output = Result<T>>) -> Result<T, fuser::Errno> {
        self.counts.ask(ask);
        pollster::block_on(work).map_err(|error| {
            self.counts.failed();
            fuser::Errno::from_i32(error.errno().number())
        })
    }

    fn attributes(&self, metadata: &Metadata) -> FileAttr {
        FileAttr {
            ino: INodeNo(self.known.number(&metadata.inode)),
            size: metadata.size,
            blocks: metadata.size.div_ceil(512),
            atime: metadata.accessed.into(),
            mtime: metadata.modified.into(),
            ctime: metadata.changed.into(),
            crtime: SystemTime::UNIX_EPOCH,
            kind: file_type(metadata.inode.kind),
            perm: u16::try_from(metadata.mode).unwrap_or(0),
            nlink: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            rdev: metadata.device,
            blksize: BLOCK,
            flags: 0,
        }
    }

    fn stats_attributes(&self) -> FileAttr {
        let now = SystemTime::now();
        FileAttr {
            ino: INodeNo(STATS),
            // It is read to its end, wherever that is then.
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: 0o444,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// Tells the kernel of an inode.
    fn enter(&self, metadata: &Metadata, reply: ReplyEntry) {
        self.known.tell(&metadata.inode);
        let Settings { attribute_cache, entry_cache, .. } = &self.settings;
        reply.entry_with_ttls(attribute_cache, entry_cache, &self.attributes(metadata), Generation(0));
    }

    fn entered(&self, result: Result<Metadata, fuser::Errno>, reply: ReplyEntry) {
        match result {
            Ok(metadata) => self.enter(&metadata, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn open_flags(&self) -> FopenFlags {
        match self.settings.sharing {
            Sharing::Alone => FopenFlags::FOPEN_KEEP_CACHE,
            Sharing::Shared => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        }
    }

    fn opened(&self, file: File, flags: i32) -> u64 {
        if self.settings.access_times == AccessTimes::Never || self.settings.access == crate::Access::ReadOnly
        {
            file.without_access_times();
        }
        let appends = flags & libc::O_APPEND != 0 && !self.writes_back.load(Ordering::Relaxed);
        self.handles.add(Handle::File(Arc::new(OpenFile { file, appends })))
    }

    /// The entries of an open directory. They are read anew when the reading begins anew.
    async fn listed(&self, number: u64, handle: u64, offset: u64) -> Result<Arc<Vec<Entry>>> {
        let Handle::Directory(kept) = self.handles.get(handle)? else {
            return Err(Errno::EBADF.because("no directory of that number is open"));
        };
        let known = kept.lock().clone();
        match known.filter(|_| offset > 0) {
            Some(known) => Ok(known),
            None => {
                let directory = self.known.get(number)?;
                let read = Arc::new(self.filesystem.list(&directory).await?);
                *kept.lock() = Some(read.clone());
                Ok(read)
            }
        }
    }

    async fn make(&self, parent: INodeNo, name: &OsStr, new: &New) -> Result<Metadata> {
        refuse_own(parent, name)?;
        self.filesystem.make(&self.known.get(parent.0)?, name.as_bytes(), new).await
    }

    /// Takes a lock as soon as it can be had. That nobody waits for any more who is gone, or is to end.
    async fn lock(&self, inode: &Inode, owner: Owner, lock: Lock, waits: bool, process: u32) -> Result<()> {
        let mut pause = Duration::from_millis(1);
        loop {
            match self.filesystem.lock(inode, owner, lock).await {
                Err(error) if error.errno() == Errno::EAGAIN && waits => {}
                result => return result,
            }
            if is_signalled(process) {
                return Err(Errno::EINTR.because("the wait for a lock was interrupted"));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOCK_PAUSE_MAX);
        }
    }
}

/// Whether a process is gone, or has a signal to handle.
fn is_signalled(process: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { return true };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}

/// The root's own name is not to be taken.
fn refuse_own(parent: INodeNo, name: &OsStr) -> Result<()> {
    match parent.0 == ROOT_NUMBER && name == STATS_NAME {
        true => Err(Errno::EACCES.because("the mount itself has something of that name")),
        false => Ok(()),
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

fn timestamp(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::SpecificTime(time) => time.into(),
        TimeOrNow::Now => Timestamp::now(),
    }
}

fn done(result: Result<(), fuser::Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn valued(result: Result<Vec<u8>, fuser::Errno>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(fuser::Errno::ERANGE),
        },
        Err(errno) => reply.error(errno),
    }
}

impl fuser::Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_BIG_WRITES,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        if self.shared.settings.sharing == Sharing::Alone {
            wanted.extend([InitFlags::FUSE_WRITEBACK_CACHE, InitFlags::FUSE_CACHE_SYMLINKS]);
        } else {
            wanted.push(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        for flag in wanted {
            let is_granted = config.add_capabilities(flag).is_ok();
            if flag == InitFlags::FUSE_WRITEBACK_CACHE {
                self.shared.writes_back.store(is_granted, Ordering::Relaxed);
            }
        }
        // What is larger than allowed is answered with what is.
        let _ = config.set_max_write(REQUEST_MAX);
        let _ = config.set_max_readahead(REQUEST_MAX);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        // A guest that cannot say so is removed by the others when it is silent for long.
        let _ = pollster::block_on(self.shared.filesystem.leave());
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let shared = &self.shared;
        if refuse_own(parent, name).is_err() {
            return reply.entry(&Duration::ZERO, &shared.stats_attributes(), Generation(0));
        }
        let found = shared.answer(Ask::Lookup, async {
            shared.filesystem.lookup(&shared.known.get(parent.0)?, name.as_bytes()).await
        });
        shared.entered(found, reply);
    }

    fn forget(&self, _request: &Request, inode: INodeNo, times: u64) {
        self.shared.known.forget(inode.0, times);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let shared = &self.shared;
        if inode.0 == STATS {
            return reply.attr(&Duration::ZERO, &shared.stats_attributes());
        }
        let told = shared
            .answer(Ask::Attributes, async { shared.filesystem.metadata(&shared.known.get(inode.0)?).await });
        match told {
            Ok(metadata) => reply.attr(&shared.settings.attribute_cache, &shared.attributes(&metadata)),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_anything: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let shared = &self.shared;
        let (accessed, modified) = (accessed.map(timestamp), modified.map(timestamp));
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        let changed = shared.answer(Ask::Change, async {
            shared.filesystem.change(&shared.known.get(inode.0)?, &changes).await
        });
        match changed {
            Ok(metadata) => reply.attr(&shared.settings.attribute_cache, &shared.attributes(&metadata)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        let shared = &self.shared;
        let target = shared.answer(Ask::Attributes, async {
            let metadata = shared.filesystem.metadata(&shared.known.get(inode.0)?).await?;
            metadata.target.ok_or_else(|| Errno::EINVAL.because("it is no symbolic link"))
        });
        match target {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let shared = &self.shared;
        let made = shared.answer(Ask::Make, async {
            let kind = Kind::from_mode(mode).filter(|kind| !matches!(kind, Kind::Directory | Kind::Symlink));
            let kind = kind.ok_or_else(|| Errno::EINVAL.because("nothing of that kind is made so"))?;
            let new = New { device, ..New::of(kind, mode).owned(request.uid(), request.gid()) };
            shared.make(parent, name, &new).await
        });
        shared.entered(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let shared = &self.shared;
        let new = New::of(Kind::Directory, mode).owned(request.uid(), request.gid());
        shared.entered(shared.answer(Ask::Make, shared.make(parent, name, &new)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let shared = &self.shared;
        let new = New::symlink(target.as_os_str().as_bytes()).owned(request.uid(), request.gid());
        shared.entered(shared.answer(Ask::Make, shared.make(parent, name, &new)), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let shared = &self.shared;
        let removed = shared.answer(Ask::Remove, async {
            refuse_own(parent, name)?;
            shared.filesystem.unlink(&shared.known.get(parent.0)?, name.as_bytes()).await
        });
        done(removed, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let shared = &self.shared;
        let removed = shared.answer(Ask::Remove, async {
            shared.filesystem.remove_directory(&shared.known.get(parent.0)?, name.as_bytes()).await
        });
        done(removed, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        let renamed = shared.answer(Ask::Rename, async {
            refuse_own(parent, name)?;
            refuse_own(new_parent, new_name)?;
            let over = match flags {
                flags if flags.is_empty() => Over::Replace,
                RenameFlags::RENAME_NOREPLACE => Over::Refuse,
                RenameFlags::RENAME_EXCHANGE => Over::Exchange,
                _ => return Err(Errno::EINVAL.because("it is not renamed so")),
            };
            let (from, to) = (shared.known.get(parent.0)?, shared.known.get(new_parent.0)?);
            let from = Named { directory: &from, name: name.as_bytes() };
            let to = Named { directory: &to, name: new_name.as_bytes() };
            shared.filesystem.rename(from, to, over).await
        });
        done(renamed, reply);
    }

    fn link(
        &self,
        _request: &Request,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let shared = &self.shared;
        let linked = shared.answer(Ask::Link, async {
            refuse_own(new_parent, new_name)?;
            let (inode, directory) = (shared.known.get(inode.0)?, shared.known.get(new_parent.0)?);
            shared.filesystem.link(&inode, &directory, new_name.as_bytes()).await
        });
        shared.entered(linked, reply);
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let shared = &self.shared;
        if inode.0 == STATS {
            let text = Arc::new(shared.counts.text().into_bytes());
            let handle = shared.handles.add(Handle::Text(text));
            return reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
        }
        let opened = shared.answer(Ask::Open, async {
            let (file, _) = shared.filesystem.open_file(&shared.known.get(inode.0)?).await?;
            if flags.0 & libc::O_TRUNC != 0 {
                file.truncate(0).await?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => reply.opened(FileHandle(shared.opened(file, flags.0)), shared.open_flags()),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let shared = &self.shared;
        let made = shared.answer(Ask::Make, async {
            refuse_own(parent, name)?;
            let (directory, name) = (shared.known.get(parent.0)?, name.as_bytes());
            let new = New::of(Kind::File, mode).owned(request.uid(), request.gid());
            loop {
                match shared.filesystem.make_file(&directory, name, &new).await {
                    Err(error) if error.errno() == Errno::EEXIST && flags & libc::O_EXCL == 0 => {}
                    result => return result,
                }
                // Another mount was faster: then it is opened.
                let found = shared.filesystem.lookup(&directory, name).await;
                match found {
                    Ok(found) => {
                        let (file, metadata) = shared.filesystem.open_file(&found.inode).await?;
                        if flags & libc::O_TRUNC != 0 {
                            file.truncate(0).await?;
                        }
                        return Ok((file, metadata));
                    }
                    Err(error) if error.errno() == Errno::ENOENT => {}
                    Err(error) => return Err(error),
                }
            }
        });
        match made {
            Ok((file, metadata)) => {
                shared.known.tell(&metadata.inode);
                let attributes = shared.attributes(&metadata);
                let handle = FileHandle(shared.opened(file, flags));
                let cache = shared.settings.attribute_cache.min(shared.settings.entry_cache);
                reply.created(&cache, &attributes, Generation(0), handle, shared.open_flags());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let shared = &self.shared;
        let length = usize::try_from(size).unwrap_or(0);
        let read = shared.answer(Ask::Read, async {
            match shared.handles.get(handle.0)? {
                Handle::File(open) => open.file.read(offset, length).await,
                Handle::Text(text) => {
                    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                    Ok(text[start..start.saturating_add(length).min(text.len())].to_vec())
                }
                Handle::Directory(_) => Err(Errno::EISDIR.because("it is a directory")),
            }
        });
        match read {
            Ok(bytes) => {
                shared.counts.read(bytes.len());
                reply.data(&bytes);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let shared = &self.shared;
        let written = shared.answer(Ask::Write, async {
            let open = shared.handles.file(handle.0)?;
            // Pages that the kernel writes later have their place.
            match open.appends && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
                true => open.file.append(bytes).await.map(drop),
                false => open.file.write(offset, bytes).await,
            }
        });
        match (written, u32::try_from(bytes.len())) {
            (Ok(()), Ok(length)) => {
                shared.counts.written(bytes.len());
                reply.written(length);
            }
            (Ok(()), Err(_)) => reply.error(fuser::Errno::EIO),
            (Err(errno), _) => reply.error(errno),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        if !shared.handles.stops_locking(inode.0, owner.0) {
            return reply.ok();
        }
        let owner = Owner { of_ranges: true, number: owner.0, process: 0 };
        let released = shared.answer(Ask::Lock, async {
            shared.filesystem.unlock(&shared.known.get(inode.0)?, owner, 0, u64::MAX).await
        });
        done(released, reply);
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.shared.handles.remove(handle.0);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        let shared = &self.shared;
        let synced = shared.answer(Ask::Sync, async { shared.handles.file(handle.0)?.file.sync().await });
        done(synced, reply);
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.shared.handles.add(Handle::Directory(Arc::new(Mutex::new(None))));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let shared = &self.shared;
        let entries = match shared.answer(Ask::List, shared.listed(inode.0, handle.0, offset)) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        for (place, name) in DOTS.into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX))
        {
            if reply.add(inode, place as u64 + 1, FileType::Directory, name) {
                return reply.ok();
            }
        }
        let first = usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX);
        for (place, entry) in entries.iter().enumerate().skip(first) {
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.number), place as u64 + 3, file_type(entry.kind), name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let shared = &self.shared;
        let first = usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX);
        let listed = shared.answer(Ask::List, async {
            let entries = shared.listed(inode.0, handle.0, offset).await?;
            let directory = shared.known.get(inode.0)?;
            let own = shared.filesystem.metadata(&directory).await;
            let names: Vec<_> =
                entries.iter().skip(first).take(LOOKED_AT_ONCE).map(|entry| entry.name.as_slice()).collect();
            let found = shared.filesystem.lookup_all(&directory, &names).await?;
            Ok((own, entries, found))
        });
        let (own, entries, found) = match listed {
            Ok(listed) => listed,
            Err(errno) => return reply.error(errno),
        };
        let Settings { entry_cache, attribute_cache, .. } = &shared.settings;
        let cache = (*entry_cache).min(*attribute_cache);
        if let Ok(own) = own {
            let attributes = shared.attributes(&own);
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            for (place, name) in DOTS.into_iter().enumerate().skip(skipped) {
                // The kernel takes no lookup of these.
                if reply.add(inode, place as u64 + 1, name, &Duration::ZERO, &attributes, Generation(0)) {
                    return reply.ok();
                }
            }
        }
        let pairs = entries.iter().enumerate().skip(first).zip(found);
        for ((place, entry), metadata) in pairs {
            // One that was removed meanwhile is passed over.
            let Some(metadata) = metadata else { continue };
            let (number, name) = (shared.known.number(&metadata.inode), OsStr::from_bytes(&entry.name));
            let attributes = shared.attributes(&metadata);
            if reply.add(INodeNo(number), place as u64 + 3, name, &cache, &attributes, Generation(0)) {
                break;
            }
            shared.known.tell(&metadata.inode);
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shared.handles.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let device = self.shared.settings.device.as_ref();
        let (blocks, free, available) = match device.and_then(|device| rustix::fs::statvfs(device).ok()) {
            Some(told) => {
                let scale = |blocks: u64| blocks.saturating_mul(told.f_frsize) / u64::from(BLOCK);
                (scale(told.f_blocks), scale(told.f_bfree), scale(told.f_bavail))
            }
            None => (UNKNOWN, UNKNOWN, UNKNOWN),
        };
        let names = u32::try_from(tyr_fs::site::NAME_MAX).unwrap_or(255);
        reply.statfs(blocks, free, available, UNKNOWN, UNKNOWN, BLOCK, names, BLOCK);
    }

    fn setxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        let set = shared.answer(Ask::Extended, async {
            let put = match flags {
                libc::XATTR_CREATE => Put::Create,
                libc::XATTR_REPLACE => Put::Replace,
                _ => Put::Any,
            };
            shared
                .filesystem
                .set_extended(&shared.known.get(inode.0)?, name.as_bytes(), Some(value), put)
                .await
        });
        done(set, reply);
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        // The kernel asks for this before each write.
        if name == "security.capability" {
            return reply.error(fuser::Errno::ENODATA);
        }
        let shared = &self.shared;
        let value = shared.answer(Ask::Extended, async {
            shared.filesystem.extended(&shared.known.get(inode.0)?, name.as_bytes()).await
        });
        valued(value, size, reply);
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let shared = &self.shared;
        let names = shared.answer(Ask::Extended, async {
            let names = shared.filesystem.extended_names(&shared.known.get(inode.0)?).await?;
            Ok(names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect::<Vec<u8>>())
        });
        valued(names, size, reply);
    }

    fn removexattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let shared = &self.shared;
        let removed = shared.answer(Ask::Extended, async {
            let inode = shared.known.get(inode.0)?;
            shared.filesystem.set_extended(&inode, name.as_bytes(), None, Put::Replace).await
        });
        done(removed, reply);
    }

    fn getlk(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        reply: ReplyLock,
    ) {
        let shared = &self.shared;
        let owner = Owner { of_ranges: true, number: owner.0, process };
        let found = shared.answer(Ask::Lock, async {
            let lock = Lock { kind: lock_kind(kind), start, end };
            shared.filesystem.lock_in_the_way(&shared.known.get(inode.0)?, owner, lock).await
        });
        match found {
            Ok(Some((lock, process))) => {
                let kind = match lock.kind {
                    LockKind::Shared => libc::F_RDLCK,
                    LockKind::Exclusive => libc::F_WRLCK,
                };
                reply.locked(lock.start, lock.end, kind, process);
            }
            Ok(None) => reply.locked(start, end, libc::F_UNLCK, 0),
            Err(errno) => reply.error(errno),
        }
    }

    fn setlk(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let shared = self.shared.clone();
        let number = owner.0;
        let owner = Owner { of_ranges: true, number, process };
        let work = move || {
            let result = shared.answer(Ask::Lock, async {
                let known = shared.known.get(inode.0)?;
                if kind == libc::F_UNLCK {
                    return shared.filesystem.unlock(&known, owner, start, end).await;
                }
                shared.handles.has_locked(inode.0, number);
                let lock = Lock { kind: lock_kind(kind), start, end };
                shared.lock(&known, owner, lock, waits, process).await
            });
            done(result, reply);
        };
        // Who waits must not keep a thread from those who would end the wait.
        match waits && kind != libc::F_UNLCK {
            true => drop(thread::spawn(work)),
            false => work(),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        let allocated = shared.answer(Ask::Write, async {
            const KEEP_AND_PUNCH: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
            const KEEP_AND_ZERO: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_ZERO_RANGE;
            let what = match mode {
                0 => Allocate::Extend,
                libc::FALLOC_FL_KEEP_SIZE => Allocate::Keep,
                KEEP_AND_PUNCH | KEEP_AND_ZERO => Allocate::Punch,
                libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero,
                _ => return Err(Errno::ENOTSUP.because("room is not kept so")),
            };
            shared.handles.file(handle.0)?.file.allocate(what, offset, length).await
        });
        done(allocated, reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let shared = &self.shared;
        let found = shared.answer(Ask::Read, async {
            let what = match whence {
                libc::SEEK_DATA => Seek::Data,
                libc::SEEK_HOLE => Seek::Hole,
                _ => return Err(Errno::EINVAL.because("nothing is sought so")),
            };
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO.because("the offset is negative"))?;
            shared.handles.file(handle.0)?.file.seek(what, offset).await
        });
        match found.map(i64::try_from) {
            Ok(Ok(found)) => reply.offset(found),
            Ok(Err(_)) => reply.error(fuser::Errno::EFBIG),
            Err(errno) => reply.error(errno),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _inode_in: INodeNo,
        handle_in: FileHandle,
        offset_in: u64,
        _inode_out: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let shared = &self.shared;
        let copied = shared.answer(Ask::Write, async {
            let (from, to) = (shared.handles.file(handle_in.0)?, shared.handles.file(handle_out.0)?);
            from.file.copy(offset_in, (&to.file, offset_out), length.min(COPY_MAX)).await
        });
        match copied.map(u32::try_from) {
            Ok(Ok(copied)) => reply.written(copied),
            Ok(Err(_)) => reply.error(fuser::Errno::EIO),
            Err(errno) => reply.error(errno),
        }
    }
}

fn lock_kind(kind: i32) -> LockKind {
    if kind == libc::F_RDLCK { LockKind::Shared } else { LockKind::Exclusive }
}

/// What every directory has.
const DOTS: [&str; 2] = [".", ".."];
/// The inode of the file that tells what the mount has done.
const STATS: u64 = 2;
/// Its name, in the root.
const STATS_NAME: &str = ".stats";
/// What is told as the unit of I/O and of space.
const BLOCK: u32 = 4096;
/// The largest request to read or write.
const REQUEST_MAX: u32 = 1 << 20;
/// How much is copied before the kernel is answered, so that who wants it to end is heard.
const COPY_MAX: u64 = 64 << 20;
/// So many entries are looked at for one answer; about as many fit it.
const LOOKED_AT_ONCE: usize = 64;
/// Blocks and inodes where nobody knows how many there are: as many as no program takes for none.
const UNKNOWN: u64 = 1 << 40;
/// The longest pause between two tries for a lock.
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(50);

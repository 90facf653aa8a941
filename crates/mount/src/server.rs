//! What the kernel asks, answered.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc::channel},
    thread,
    time::{Duration, Instant, SystemTime},
};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use tyr_fs::{Changes, Errno, File, Filesystem, Inode, Kind, Metadata, New};

use crate::{
    Access, Settings, Sharing, WholeFileLocks,
    access_log::{Idle, Reader},
    attributes::timestamp,
    call::Call,
    counts::Ask,
    directories::tell_listed,
    handles::Handle,
    locks,
    names::Names,
    own::Own,
    recalls::{Bell, tell_kernel},
    reply::{done, value, written},
    shared::{Assured, Shared, caller, special},
};

/// A mounted file system.
pub struct Server {
    shared: Arc<Shared>,
    /// Notes when files were read, until it is unmounted.
    noting: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub fn new(filesystem: Filesystem, root: Inode, settings: Settings) -> io::Result<Self> {
        // Who is alone needs nobody to tell him.
        let is_shared = settings.sharing == Sharing::Shared;
        let recalls = is_shared.then(|| filesystem.recalls()).flatten();
        let shared = Arc::new(Shared::new(filesystem, root, settings, recalls.is_some()));
        if let Some(recalls) = recalls {
            tell_kernel(shared.clone(), recalls)?;
        }
        let (accesses, noted) = (shared.unnoted.clone(), shared.clone());
        let note = move |inode: &Inode, time| {
            let note = async |inode: &Inode| noted.filesystem.note_access(inode, time).await;
            // What cannot be noted is not.
            let _ = pollster::block_on(noted.at(inode.clone(), note));
        };
        let thread = thread::Builder::new().name("tyr-accesses".to_owned());
        let noting = thread.spawn(move || accesses.note_all(note))?;
        Ok(Server { shared, noting: Some(noting) })
    }

    /// Where it has to be set how the kernel is told.
    pub fn bell(&self) -> Bell {
        self.shared.bell.clone()
    }

    /// What the kernel may believe of names, which has to be connected to it.
    pub fn names(&self) -> Arc<Names> {
        self.shared.names.clone()
    }

    /// Tells the kernel what a file is once it has dropped the pages that it has of it, in a thread: what holds them may wait for this mount.
    fn describe_without_pages(&self, reply: ReplyAttr, metadata: Metadata, assured: Assured) {
        let shared = self.shared.clone();
        let describe = move || {
            shared.write_back(shared.known.number(&metadata.inode));
            shared.known.reads_pages(&metadata);
            shared.describe(reply, &metadata, Some(&assured));
        };
        // Without a thread the reply is dropped, which refuses it.
        let _ = thread::Builder::new().name("tyr-pages".to_owned()).spawn(describe);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it was never mounted.
        self.shared.unnoted.end();
    }
}

impl fuser::Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_READ,
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
        if self.shared.filesystem.obeys_acls() {
            // In a directory with a default list no umask counts.
            wanted.extend([InitFlags::FUSE_POSIX_ACL, InitFlags::FUSE_DONT_MASK]);
        }
        // Who changes nothing has locks of his own: one that others see is written to the store, which may have no room for it, or deny it.
        if self.shared.settings.access == Access::ReadWrite {
            wanted.push(InitFlags::FUSE_POSIX_LOCKS);
        }
        if self.shared.settings.whole_file_locks == WholeFileLocks::Everywhere {
            wanted.push(InitFlags::FUSE_FLOCK_LOCKS);
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
        self.shared.unnoted.end();
        self.shared.owed.end();
        // A guest that cannot say so in time is removed by the others when it is silent for long.
        let (filesystem, (left, has_left)) = (self.shared.filesystem.clone(), channel());
        let noting = self.noting.take();
        let leaves = move || {
            noting.into_iter().for_each(|noting| drop(noting.join()));
            drop(left.send(pollster::block_on(filesystem.leave())));
        };
        // Without a thread the sender is dropped, and nothing waited for.
        let _ = thread::Builder::new().spawn(leaves);
        let _ = has_left.recv_timeout(LEAVE_WITHIN);
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let shared = &self.shared;
        let own = Own::named(parent, name);
        if let Some(own) = own.filter(|_| shared.is_whole) {
            return reply.entry(&Duration::ZERO, &own.attributes(), Generation(0));
        }
        let work = async {
            let directory = shared.known.get(parent.0)?;
            shared.look_ahead(parent.0, &directory, name.as_bytes()).await;
            let site = directory.site.of(name.as_bytes());
            let find = async || shared.filesystem.lookup(&directory, name.as_bytes()).await;
            // What is nowhere in the store may be something of the mount.
            match (shared.certain(site, find).await, own) {
                (Err(error), Some(own)) if error.errno() == Errno::ENOENT => Ok(Err(own)),
                (found, _) => found.map(Ok),
            }
        };
        shared.answer_while_asked(
            Call::of(request, Ask::Lookup, parent).named(name),
            reply,
            work,
            |reply, found| match found {
                Ok((found, assured)) => shared.enter(reply, (parent, name), &found, Some(&assured)),
                Err(own) => reply.entry(&Duration::ZERO, &own.attributes(), Generation(0)),
            },
        );
    }

    fn forget(&self, _request: &Request, inode: INodeNo, times: u64) {
        self.shared.known.forget(inode.0, times);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let shared = &self.shared;
        if let Some(own) = Own::numbered(inode) {
            return reply.attr(&Duration::ZERO, &own.attributes());
        }
        let work = async {
            let find = async |inode: &Inode| {
                shared.certain(inode.site.clone(), async || shared.metadata(inode).await).await
            };
            shared.at(shared.known.get(inode.0)?, find).await
        };
        shared.answer_while_asked(
            Call::of(request, Ask::Attributes, inode),
            reply,
            work,
            |reply, (metadata, assured)| match shared.doubts_pages(&metadata) {
                true => self.describe_without_pages(reply, metadata, assured),
                false => shared.describe(reply, &metadata, Some(&assured)),
            },
        );
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_anything: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if Own::numbered(inode).is_some() {
            return reply.error(fuser::Errno::EPERM);
        }
        let shared = &self.shared;
        let (accessed, modified) = (accessed.map(timestamp), modified.map(timestamp));
        let changes = Changes { mode, uid, gid, size, accessed, modified, ..Changes::default() };
        let work = shared.change(inode.0, handle.map(|handle| handle.0), &changes);
        shared.answer(Call::of(request, Ask::Change, inode), reply, work, |reply, metadata| {
            shared.describe(reply, &metadata, None)
        });
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let work = self.shared.target(inode.0);
        self.shared.answer_while_asked(
            Call::of(request, Ask::Attributes, inode),
            reply,
            work,
            |reply, target| reply.data(&target),
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let shared = &self.shared;
        let work = async {
            let new = special(mode, device)?.masked(umask).owned(request.uid(), request.gid());
            shared.make(parent, name, &new).await
        };
        shared.answer(Call::of(request, Ask::Make, parent).named(name), reply, work, |reply, made| {
            shared.enter(reply, (parent, name), &made, None)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let shared = &self.shared;
        let new = New::of(Kind::Directory, mode).masked(umask).owned(request.uid(), request.gid());
        let work = shared.make(parent, name, &new);
        shared.answer(Call::of(request, Ask::Make, parent).named(name), reply, work, |reply, made| {
            shared.enter(reply, (parent, name), &made, None)
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let shared = &self.shared;
        let new = New::symlink(target.as_os_str().as_bytes()).owned(request.uid(), request.gid());
        let work = shared.make(parent, name, &new);
        shared.answer(Call::of(request, Ask::Make, parent).named(name), reply, work, |reply, made| {
            shared.enter(reply, (parent, name), &made, None)
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.shared.answer(
            Call::of(request, Ask::Remove, parent).named(name),
            reply,
            self.shared.unlink(parent, name),
            done,
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let work = self.shared.remove_directory(parent, name);
        self.shared.answer(Call::of(request, Ask::Remove, parent).named(name), reply, work, done);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (shared, call) = (&self.shared, Call::of(request, Ask::Rename, parent));
        let Some(number) = shared.mapped_flat(parent, name) else {
            let work = shared.rename((parent, name), (new_parent, new_name), flags);
            return shared.answer(call.named(name), reply, work, done);
        };
        // What was written to its mapped pages goes with it. The kernel tells that while this thread answers it.
        let shared = shared.clone();
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let rename = move || {
            shared.write_back(number);
            let work = shared.rename((parent, &name), (new_parent, &new_name), flags);
            shared.answer(call.named(&name), reply, work, done);
        };
        // Without a thread the reply is dropped, which refuses it.
        let _ = thread::Builder::new().name("tyr-rename".to_owned()).spawn(rename);
    }

    fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        if Own::numbered(inode).is_some() {
            return reply.error(fuser::Errno::EPERM);
        }
        let shared = &self.shared;
        let work = shared.link(inode, new_parent, new_name);
        shared.answer(
            Call::of(request, Ask::Link, new_parent).named(new_name),
            reply,
            work,
            |reply, linked| shared.enter(reply, (new_parent, new_name), &linked, None),
        );
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let shared = &self.shared;
        if let Some(own) = Own::numbered(inode) {
            if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
                return reply.error(fuser::Errno::EACCES);
            }
            let (handle, flags) = shared.open_own(own);
            return reply.opened(FileHandle(handle), flags);
        }
        let call = Call::of(request, Ask::Open, inode);
        let work = shared.open(inode.0, flags.0, request.uid());
        let tell = |reply: ReplyOpen, (file, metadata): (File, Metadata)| {
            let caching = shared.caching(flags.0, metadata.size);
            let may_keep = shared.known.reads_pages(&metadata);
            let handle = FileHandle(shared.opened(file, flags.0, caching));
            reply.opened(handle, shared.open_flags(caching, may_keep));
        };
        match flags.0 & libc::O_TRUNC {
            0 => shared.answer_while_asked(call, reply, work, tell),
            _ => shared.answer(call, reply, work, tell),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let shared = &self.shared;
        let work = async {
            shared.refuse_own(parent, name)?;
            let new = New::of(Kind::File, mode).masked(umask).owned(request.uid(), request.gid());
            shared.create(parent.0, name, &new, flags, || caller(request)).await
        };
        shared.answer(
            Call::of(request, Ask::Make, parent).named(name),
            reply,
            work,
            |reply, (file, metadata)| {
                let _ = shared.known.tell(&metadata.inode, (parent.0, name.as_bytes()), Instant::now());
                let attributes = shared.attributes(&metadata);
                let caching = shared.caching(flags, metadata.size);
                let handle = FileHandle(shared.opened(file, flags, caching));
                let cache = shared.settings.attribute_cache.min(shared.settings.entry_cache);
                let may_keep = shared.known.reads_pages(&metadata);
                let flags = shared.open_flags(caching, may_keep);
                reply.created(&cache, &attributes, Generation(0), handle, flags);
            },
        );
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let shared = &self.shared;
        if let Ok(Handle::Log(reader)) = shared.handles.get(handle.0) {
            return read_log(reader, size, flags.0, request.pid(), reply);
        }
        shared.answer_while_asked(
            Call::of(request, Ask::Read, inode).ranged(offset, size.into()),
            reply,
            shared.read(handle.0, offset, size),
            |reply, bytes| {
                shared.counts.read(bytes.len());
                reply.data(&bytes);
            },
        );
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let shared = &self.shared;
        let work = shared.write(handle.0, offset, bytes, (write_flags, flags.0));
        shared.answer(
            Call::of(request, Ask::Write, inode).ranged(offset, bytes.len() as u64),
            reply,
            work,
            |reply, length| {
                shared.counts.written(bytes.len());
                written(reply, length);
            },
        );
    }

    fn flush(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        let stops_locking = shared.handles.stops_locking(inode.0, owner.0);
        if shared.handles.locks_through(inode.0, handle.0) {
            shared.unlocking.expect(inode.0, handle.0);
        }
        let confirmed = shared.confirm_written(handle.0);
        if !stops_locking && confirmed.is_ok() {
            return reply.ok();
        }
        let work = async {
            if stops_locking {
                shared.unlock_all(&shared.known.get(inode.0)?, owner.0).await?;
            }
            confirmed
        };
        shared.answer(Call::of(request, Ask::Lock, inode), reply, work, done);
    }

    fn release(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let shared = &self.shared;
        // Who closed it does not wait for this: whoever asks for a lock now has asked after it was closed.
        let unlocking = shared.unlocking.begin(inode.0, handle.0);
        shared.handles.remove(handle.0);
        let mut owners = shared.handles.stop_locking_through(inode.0, handle.0);
        owners
            .extend(owner.map(|owner| owner.0).filter(|owner| shared.handles.stops_locking(inode.0, *owner)));
        if owners.is_empty() {
            return reply.ok();
        }
        let work = async {
            let known = shared.known.get(inode.0)?;
            let mut result = Ok(());
            for owner in owners {
                result = result.and(shared.unlock_all(&known, owner).await);
            }
            result
        };
        shared.answer(Call::of(request, Ask::Lock, inode), reply, work, done);
        drop(unlocking);
    }

    fn fsync(&self, request: &Request, inode: INodeNo, handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        let shared = &self.shared;
        let work = shared.handles.sync(handle.0);
        shared.answer(Call::of(request, Ask::Sync, inode), reply, work, done);
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.shared.handles.add(Handle::Directory(Arc::new(Mutex::new(None))));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let work = self.shared.listed(inode.0, handle.0, offset);
        self.shared.answer_while_asked(Call::of(request, Ask::List, inode), reply, work, |reply, entries| {
            tell_listed(inode, offset, &entries, reply)
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let shared = &self.shared;
        let work = shared.looked(inode.0, handle.0, offset);
        shared.answer_while_asked(Call::of(request, Ask::List, inode), reply, work, |reply, looked| {
            shared.tell_looked(inode, offset, looked, reply);
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shared.ahead.close(inode.0);
        self.shared.handles.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _data: bool,
        reply: ReplyEmpty,
    ) {
        let work = self.shared.filesystem.sync();
        self.shared.answer(Call::of(request, Ask::Sync, inode), reply, work, done);
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        self.shared.room().tell(reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if Own::numbered(inode).is_some() {
            return reply.error(fuser::Errno::EPERM);
        }
        if name == "security.capability" {
            return reply.error(fuser::Errno::EOPNOTSUPP);
        }
        let work = self.shared.set_extended(inode.0, name, value, flags, request);
        self.shared.answer(Call::of(request, Ask::Extended, inode), reply, work, done);
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        // The kernel asks for this before each write, so nothing has it; see `setxattr`.
        if name == "security.capability" || Own::numbered(inode).is_some() {
            return reply.error(fuser::Errno::ENODATA);
        }
        let shared = &self.shared;
        let find = async |inode: &Inode| shared.filesystem.extended(inode, name.as_bytes()).await;
        let work = async { shared.at(shared.known.get(inode.0)?, find).await };
        shared.answer_while_asked(Call::of(request, Ask::Extended, inode), reply, work, |reply, found| {
            value(reply, &found, size)
        });
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        if Own::numbered(inode).is_some() {
            return value(reply, &[], size);
        }
        let work = self.shared.extended_names(inode.0, request.uid());
        self.shared.answer_while_asked(
            Call::of(request, Ask::Extended, inode),
            reply,
            work,
            |reply, names| value(reply, &names, size),
        );
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if Own::numbered(inode).is_some() {
            return reply.error(fuser::Errno::EPERM);
        }
        let work = self.shared.remove_extended(inode.0, name);
        self.shared.answer(Call::of(request, Ask::Extended, inode), reply, work, done);
    }

    fn getlk(
        &self,
        request: &Request,
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
        // What was closed before this was asked has no locks any more.
        shared.unlocking.wait(inode.0);
        let work = async {
            let (owner, lock) = (locks::owner(owner, process), locks::lock(kind, start, end));
            shared.lock_in_the_way(&shared.known.get(inode.0)?, owner, lock).await
        };
        shared.answer_while_asked(
            Call::of(request, Ask::Lock, inode),
            reply,
            work,
            |reply, found| match found {
                // The kernel takes no lock that goes on past what it can say.
                Some((lock, process)) => {
                    reply.locked(lock.start, lock.end.min(i64::MAX as u64), locks::kind(lock), process);
                }
                None => reply.locked(start, end, libc::F_UNLCK, 0),
            },
        );
    }

    fn setlk(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let (shared, call) = (self.shared.clone(), Call::of(request, Ask::Lock, inode));
        // What FUSE calls the process of a request is the thread; that of the lock is the process.
        let waiting = waits.then_some(request.pid());
        let set = async move |shared: &Shared| {
            let known = shared.known.get(inode.0)?;
            let number = owner.0;
            let owner = locks::owner(owner, process);
            if kind == libc::F_UNLCK {
                return shared.unlock(&known, owner, start, end).await;
            }
            shared.unlocking.wait(inode.0);
            shared.handles.has_locked(inode.0, number, handle.0);
            shared.unlock_owed(&known, number)?;
            let taken = shared.lock(&known, owner, locks::lock(kind, start, end), waiting).await;
            // Who has closed another of its files meanwhile had none then.
            shared.handles.has_locked(inode.0, number, handle.0);
            taken
        };
        let work = move || shared.answer(call, reply, set(&shared), done);
        // Who waits must not keep a thread from those who would end the wait.
        match waits && kind != libc::F_UNLCK {
            true => drop(thread::Builder::new().spawn(work)),
            false => work(),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let work = self.shared.allocate(handle.0, mode, offset, length);
        self.shared.answer(Call::of(request, Ask::Write, inode).ranged(offset, length), reply, work, done);
    }

    fn lseek(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let call = Call::of(request, Ask::Read, inode);
        if !self.shared.is_kept_back(handle.0) {
            let work = self.shared.seek(handle.0, offset, whence);
            return self.shared.answer_while_asked(call, reply, work, ReplyLseek::offset);
        }
        // What was written is data, also if the kernel has not told it yet. It does while this thread answers it.
        let shared = self.shared.clone();
        let seek = move || {
            shared.write_back(inode.0);
            shared.answer_while_asked(call, reply, shared.seek(handle.0, offset, whence), ReplyLseek::offset);
        };
        // Without a thread the reply is dropped, which refuses it.
        let _ = thread::Builder::new().name("tyr-seek".to_owned()).spawn(seek);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _inode_in: INodeNo,
        handle_in: FileHandle,
        offset_in: u64,
        inode_out: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let work = self.shared.copy((handle_in.0, offset_in), (handle_out.0, offset_out), length);
        self.shared.answer(
            Call::of(request, Ask::Write, inode_out).ranged(offset_out, length),
            reply,
            work,
            written,
        );
    }
}

/// Reads the access log, on a thread of its own: it may take until something happens.
fn read_log(reader: Arc<Reader>, size: u32, flags: i32, process: u32, reply: ReplyData) {
    let idle = match flags & libc::O_NONBLOCK {
        0 => Idle::Wait { process },
        _ => Idle::Refuse,
    };
    // Without a thread the reply is dropped, which tells the kernel that it failed.
    let _ =
        thread::Builder::new().spawn(move || match reader.read(usize::try_from(size).unwrap_or(0), idle) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(fuser::Errno::from_i32(error.errno().number())),
        });
}

/// The largest request to read or write.
pub const REQUEST_MAX: u32 = 1 << 20;
/// A file system that is unmounted waits so long for its cluster to hear of it.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

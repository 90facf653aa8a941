//! Open files, and their content.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::{Arc, atomic::Ordering},
};

use fuser::{FopenFlags, WriteFlags};
use tyr_fs::{Allocate, Caller, Errno, File, Inode, Kind, Metadata, New, Result, Seek, Want};

use crate::{
    Access, AccessTimes, Sharing,
    handles::{Handle, OpenFile},
    shared::Shared,
};

impl Shared {
    /// Opens what the kernel knows by a number. Returns what it is, too.
    pub async fn open(&self, number: u64, flags: i32, uid: u32) -> Result<(File, Metadata)> {
        let reads_only = flags & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_RDONLY;
        let open = async |inode: &Inode| match reads_only {
            true => self.filesystem.open_file_to_read(inode).await,
            false => self.filesystem.open_file(inode).await,
        };
        let (file, metadata) = self.at(self.known.get(number)?, open).await?;
        if flags & libc::O_TRUNC != 0 {
            empty(&file, uid).await?;
            return Ok((file, Metadata { size: 0, ..metadata }));
        }
        Ok((file, metadata))
    }

    /// Makes a file and opens it; opens the one that another mount was faster to make, if the caller may. The kernel takes it for one that was just made, and asks
    /// nobody for permission. What it might see otherwise than this mount is refused with [`Errno::ESTALE`], at which it looks the name up and asks as usual.
    pub async fn create(
        &self,
        parent: u64,
        name: &OsStr,
        new: &New,
        flags: i32,
        caller: impl Fn() -> Caller,
    ) -> Result<(File, Metadata)> {
        let (directory, name) = (self.known.get(parent)?, name.as_bytes());
        loop {
            match self.filesystem.make_file(&directory, name, &self.made_now(new)).await {
                Err(error) if error.errno() == Errno::EEXIST && flags & libc::O_EXCL == 0 => {}
                result => return result,
            }
            // Another mount was faster: then it is opened.
            let found = self.filesystem.lookup(&directory, name).await;
            match found {
                Ok(found) => {
                    let caller = caller();
                    self.check_open(&directory, &found, flags, &caller).await?;
                    let (file, metadata) = match self.filesystem.open_file(&found.inode).await {
                        // It has moved, or lost its name.
                        Err(error) if error.errno() == Errno::ESTALE => continue,
                        result => result?,
                    };
                    if flags & libc::O_TRUNC != 0 {
                        empty(&file, caller.uid).await?;
                        return Ok((file, Metadata { size: 0, ..metadata }));
                    }
                    return Ok((file, metadata));
                }
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Fails unless the kernel would let a caller open what lies in a directory, as far as that is certain here.
    async fn check_open(
        &self,
        directory: &Inode,
        found: &Metadata,
        flags: i32,
        caller: &Caller,
    ) -> Result<()> {
        let unsure = || Errno::ESTALE.because("another mount has made it meanwhile");
        if found.inode.kind != Kind::File {
            return Err(unsure());
        }
        let access = flags & libc::O_ACCMODE;
        if access == libc::O_RDONLY || access == libc::O_RDWR {
            caller.require(found, Want::Read)?;
        }
        if access != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
            caller.require(found, Want::Write)?;
        }
        // In a sticky directory, and with some flags, the kernel looks at more than that.
        let is_sticky = self.filesystem.metadata(directory).await?.mode & libc::S_ISVTX != 0;
        match found.uid != caller.uid && (is_sticky || flags & libc::O_NOATIME != 0) {
            true => Err(unsure()),
            false => Ok(()),
        }
    }

    /// Whether the kernel keeps what is read of a file that is opened so. What is shared it does as long as it is told when the file changes, and only for who
    /// does not write; small content is kept here anyway. What changes a flat file may leave its time alone.
    pub fn caching(&self, flags: i32, size: u64) -> Caching {
        let reads_only = flags & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_RDONLY;
        match self.settings.sharing {
            Sharing::Alone => Caching::Pages,
            Sharing::Shared if !reads_only || size <= SMALL || self.filesystem.flat().is_some() => {
                Caching::None
            }
            Sharing::Shared if self.is_told() => Caching::Pages,
            Sharing::Shared => Caching::None,
        }
    }

    /// The number that the kernel gets for an open file.
    pub fn opened(&self, file: File, flags: i32, caching: Caching) -> u64 {
        let is_unwanted = self.settings.access_times == AccessTimes::Never || flags & libc::O_NOATIME != 0;
        if is_unwanted || self.settings.access == Access::ReadOnly {
            file.without_access_times();
        }
        let is_watched = caching == Caching::Pages && self.settings.sharing == Sharing::Shared;
        let watch = is_watched.then(|| self.watched.add(file.inode().number));
        if watch.is_some() {
            // It may believe what it was told before for longer than that is certain.
            let _ = self.doubt(file.inode().number);
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        self.handles.add(Handle::File(Arc::new(OpenFile::new(file, writes, watch))))
    }

    /// What the kernel may do with what it reads of files, and whether it may keep what it has read.
    pub fn open_flags(&self, caching: Caching, may_keep: bool) -> FopenFlags {
        match caching {
            Caching::Pages if may_keep => FopenFlags::FOPEN_KEEP_CACHE,
            Caching::Pages => FopenFlags::empty(),
            Caching::None => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        }
    }

    pub async fn read(&self, handle: u64, offset: u64, size: u32) -> Result<Vec<u8>> {
        let length = usize::try_from(size).unwrap_or(0);
        match self.handles.get(handle)? {
            Handle::File(_) => {
                let open = self.handles.file(handle)?;
                let (bytes, access) = open.file.read_first(offset, length).await?;
                if let Some(access) = access.filter(|access| !self.unnoted.add(open.file.inode(), *access)) {
                    let _ = self.filesystem.note_access(open.file.inode(), access).await;
                }
                Ok(bytes)
            }
            Handle::Text(text) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                Ok(text[start..start.saturating_add(length).min(text.len())].to_vec())
            }
            Handle::Directory(_) => Err(Errno::EISDIR.because("it is a directory")),
            Handle::Log(_) => Err(Errno::EINVAL.because("it has no offsets")),
        }
    }

    /// Returns how much was written: all of it. Whether it goes to the end may have changed since the file was opened.
    pub async fn write(
        &self,
        handle: u64,
        offset: u64,
        bytes: &[u8],
        (flags, open_flags): (WriteFlags, i32),
    ) -> Result<u64> {
        let open = self.handles.file(handle)?;
        // What the kernel keeps it has seen to itself.
        if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            open.file.drop_privileges().await?;
        }
        // Pages that the kernel writes later have their place, and who keeps what is written knows where the file ends.
        let is_placed =
            flags.contains(WriteFlags::FUSE_WRITE_CACHE) || self.writes_back.load(Ordering::Relaxed);
        match open_flags & libc::O_APPEND != 0 && !is_placed {
            true => open.file.append(bytes).await.map(drop)?,
            false => open.file.write(offset, bytes).await?,
        }
        Ok(bytes.len() as u64)
    }

    /// Fails if a file that may have been written to is known to be void. What was written before was written; who closes it is told that it ends so.
    pub fn confirm_written(&self, handle: u64) -> Result<()> {
        match self.handles.file(handle) {
            Ok(open) if open.writes => open.file.confirm_here(),
            _ => Ok(()),
        }
    }

    pub async fn allocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        const KEEP_AND_PUNCH: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        const KEEP_AND_ZERO: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_ZERO_RANGE;
        let what = match mode {
            0 => Allocate::Extend,
            libc::FALLOC_FL_KEEP_SIZE => Allocate::Keep,
            KEEP_AND_PUNCH | KEEP_AND_ZERO => Allocate::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero,
            _ => return Err(Errno::ENOTSUP.because("room is not kept so")),
        };
        let file = &self.handles.file(handle)?.file;
        if matches!(what, Allocate::Extend | Allocate::Keep) {
            let size = file.metadata().await?.size;
            let more = offset.saturating_add(length).saturating_sub(size);
            if more > self.room().left() {
                return Err(Errno::ENOSPC.because("there is not so much room"));
            }
        }
        file.allocate(what, offset, length).await
    }

    /// Whether the kernel may keep what was written to a file that is open, and has not told it yet.
    pub fn is_kept_back(&self, handle: u64) -> bool {
        let writes_back = self.writes_back.load(Ordering::Relaxed);
        writes_back && self.handles.file(handle).is_ok_and(|open| self.handles.is_written(open.file.inode()))
    }

    pub async fn seek(&self, handle: u64, offset: i64, whence: i32) -> Result<i64> {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::EINVAL.because("nothing is sought so")),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO.because("the offset is negative"))?;
        let found = self.handles.file(handle)?.file.seek(what, offset).await?;
        i64::try_from(found)
            .map_err(|_| Errno::EFBIG.because("the offset is more than there are numbers for"))
    }

    /// Copies between open files, not all of it at once, and returns how much.
    pub async fn copy(&self, from: (u64, u64), to: (u64, u64), length: u64) -> Result<u64> {
        let (source, target) = (self.handles.file(from.0)?, self.handles.file(to.0)?);
        source.file.copy(from.1, (&target.file, to.1), length.min(COPY_MAX)).await
    }
}

/// Empties an open file for a user, who may not be one who gives rights.
async fn empty(file: &File, uid: u32) -> Result<()> {
    if uid != 0 {
        file.drop_privileges().await?;
    }
    file.truncate(0).await
}

/// Of what an open file has the kernel keeps what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Nothing: each read and write is one of the store.
    None,
    /// Pages, as long as time and size of the last change are those that it knows.
    Pages,
}

/// Files of so many bytes come with their metadata.
const SMALL: u64 = 64 << 10;
/// How much is copied before the kernel is answered, so that who wants it to end is heard.
const COPY_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use pollster::block_on;
    use tyr_client::Store;
    use tyr_fs::Filesystem;

    use super::*;
    use crate::Settings;

    #[test]
    fn what_another_mount_was_faster_to_make_is_told_as_it_is_once_it_was_emptied() {
        let place = tempfile::tempdir().unwrap();
        let store = block_on(Store::open(place.path())).unwrap();
        let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
        let root = files.root();
        let new = New { content: b"content".to_vec(), ..New::of(Kind::File, 0o644) };
        block_on(files.make(&root, b"file", &new)).unwrap();
        let shared = Shared::new(files, root.clone(), Settings::of("files", Sharing::Shared), false);
        for (flags, size) in [(libc::O_RDWR, 7), (libc::O_RDWR | libc::O_TRUNC, 0)] {
            let create = shared.create(root.number, OsStr::new("file"), &new, flags, Caller::superuser);
            let (file, told) = block_on(create).unwrap();
            assert_eq!((told.size, block_on(file.metadata()).unwrap().size), (size, size));
        }
    }
}

//! A file system as a user sees it.

use std::{path::Path, sync::Arc};

use tyr_client::Transaction;

use crate::{
    acl::Which,
    change::{Changes, Put, no_attribute},
    errno::{Errno, Result, Stop},
    file::{File, check_has_content, unprivileged},
    filesystem::{Filesystem, transact},
    inode::{CUT, Inode, Kind, Metadata, Timestamp, encode_time},
    listing::Entry,
    namespace::{New, is_directory, no_directory_but_file, no_name},
    rename::{Named, Over},
    walk::{Caller, End, Follow, Prefix, Want},
};

/// A file system by paths, with the permissions of a caller. Paths begin at the root, whether they begin with a slash or not. Cheap to
/// clone.
///
/// ```
/// # pollster::block_on(async {
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_client::Store;
/// use tyr_fs::{Caller, Filesystem, How, View};
///
/// let store = Store::open(directory.path()).await?;
/// let files = View::new(Filesystem::open_or_create(&store, "files").await?, Caller::superuser());
/// files.create_directory("/logs", 0o755).await?;
/// files.put("/logs/today", b"a first line\n").await?;
/// files.rename("/logs", "/archive").await?;
/// let (metadata, content) = files.fetch("/archive/today").await?;
/// assert_eq!((metadata.size, content.as_slice()), (13, b"a first line\n".as_slice()));
/// let file = files.open("/archive/today", How::WRITE).await?;
/// assert_eq!(file.append(b"a second line\n").await?, 13);
/// # drop(file);
/// # drop(files);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct View {
    filesystem: Filesystem,
    caller: Caller,
    /// How programs see it, if not all of it.
    prefix: Option<Arc<Prefix>>,
    /// Permissions that it gives to nothing.
    umask: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// To read.
    pub reads: bool,
    /// To write.
    pub writes: bool,
    /// It is made if it is not there, with these permissions.
    pub creates: Option<u32>,
    /// It must not be there before.
    pub is_new: bool,
    /// It is cut to nothing.
    pub truncates: bool,
}

impl How {
    /// To read what is there.
    pub const READ: How = How { reads: true, writes: false, creates: None, is_new: false, truncates: false };
    /// To read and write what is there.
    pub const WRITE: How = How { writes: true, ..How::READ };
    /// To read and write what is there, or is made.
    pub const CREATE: How = How { creates: Some(0o644), ..How::WRITE };
    /// To read and write what must not be there before.
    pub const NEW: How = How { is_new: true, ..How::CREATE };
}

/// The most bytes that [`View::put`] makes a content at once: half of what a cluster takes in one transaction.
pub const PUT_WHOLE_MAX: usize = 512 << 20;

impl View {
    /// What the caller sees of a file system.
    pub fn new(filesystem: Filesystem, caller: Caller) -> View {
        View { filesystem, caller, prefix: None, umask: 0 }
    }

    /// The same for programs that know a directory of the file system, which may be the root, as one of their machine with another path, and see nothing else
    /// of it. Paths are those in the file system still, and begin with that of the directory. Neither `..` nor a symbolic link leads out of it: one that
    /// begins with a slash is meant as a path of the machine, and leads nowhere if that is not one of the directory's.
    #[must_use]
    pub fn mounted_at(self, place: &Path, directory: &Path) -> View {
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec().into_boxed_slice();
        let directory = if directory == Path::new("/") { Box::default() } else { bytes(directory) };
        View { prefix: Some(Arc::new(Prefix { path: bytes(place), directory })), ..self }
    }

    /// The same for a process that does not give some permissions to what it makes, as umask(2) has it: in a directory with a default access control list that one counts.
    #[must_use]
    pub fn masked(self, umask: u32) -> View {
        View { umask, ..self }
    }

    /// The same for another caller.
    #[must_use]
    pub fn by(self, caller: Caller) -> View {
        View { caller, ..self }
    }

    /// Whose permissions it has.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The file system.
    pub fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    async fn walk(&self, path: impl AsRef<Path>, follow: Follow) -> Result<End> {
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        self.filesystem.walk(&self.caller, path, follow, self.prefix.as_deref()).await
    }

    async fn walk_to_name(&self, path: impl AsRef<Path>) -> Result<End> {
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        self.filesystem.walk_to_name(&self.caller, path, self.prefix.as_deref()).await
    }

    /// Does something with what a path means, and looks for it anew if it has moved meanwhile, or was removed.
    pub async fn with<T>(
        &self,
        path: impl AsRef<Path>,
        follow: Follow,
        work: impl AsyncFn(&Metadata) -> Result<T>,
    ) -> Result<T> {
        for _ in 1..LOOKED_FOR_MAX {
            match work(&self.metadata(&path, follow).await?).await {
                Err(error) if error.errno() == Errno::ESTALE => {}
                result => return result,
            }
        }
        work(&self.metadata(&path, follow).await?).await
    }

    /// What is known of what a path means.
    pub async fn metadata(&self, path: impl AsRef<Path>, follow: Follow) -> Result<Metadata> {
        self.walk(path, follow).await?.found.ok_or_else(no_name)
    }

    /// The metadata and the whole content of a regular file. All requests that this takes are under way at once, if nothing on the way was
    /// renamed and no part is a symbolic link.
    pub async fn fetch(&self, path: impl AsRef<Path>) -> Result<(Metadata, Vec<u8>)> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_encoded_bytes();
        if let Some(flat) = self.filesystem.flat() {
            return self.flat_fetch(flat, bytes).await;
        }
        if let Some(fetched) = self.filesystem.try_fetch(&self.caller, bytes).await? {
            return Ok(fetched);
        }
        // Guests move what is not found where its name has it, if this client may be one. What is not opened here does not stay for that.
        let _ = self.filesystem.join().await;
        self.with(path, Follow::Yes, async |found| self.fetch_found(found).await).await
    }

    async fn fetch_found(&self, found: &Metadata) -> Result<(Metadata, Vec<u8>)> {
        check_has_content(&found.inode)?;
        self.caller.require(found, Want::Read)?;
        self.filesystem.content(&found.inode).await
    }

    /// Opens a regular file.
    pub async fn open(&self, path: impl AsRef<Path>, how: How) -> Result<File> {
        let path = path.as_ref();
        if let Some(flat) = self.filesystem.flat() {
            return self.flat_open(flat, path.as_os_str().as_encoded_bytes(), how).await;
        }
        loop {
            let end = self.walk(path, if how.is_new { Follow::No } else { Follow::Yes }).await?;
            let opened = match &end.found {
                Some(_) if how.is_new => {
                    return Err(Errno::EEXIST.because("there is something of that name already"));
                }
                Some(found) => self.open_found(found, how).await,
                None => match how.creates {
                    Some(mode) => self.create_file(&end, mode).await,
                    None => return Err(no_name()),
                },
            };
            match opened {
                // Somebody was faster with making or removing it: it is looked for again.
                Err(error) if error.errno() == Errno::ESTALE => {}
                Err(error) if error.errno() == Errno::EEXIST && !how.is_new => {}
                result => return result,
            }
        }
    }

    async fn open_found(&self, found: &Metadata, how: How) -> Result<File> {
        if found.inode.kind == Kind::Directory {
            return Err(is_directory());
        }
        if how.reads {
            self.caller.require(found, Want::Read)?;
        }
        if how.writes || how.truncates {
            self.caller.require(found, Want::Write)?;
        }
        let (file, _) = match how.writes || how.truncates {
            true => self.filesystem.open_file(&found.inode).await?,
            false => self.filesystem.open_file_to_read(&found.inode).await?,
        };
        if how.truncates {
            self.truncate(&file).await?;
        }
        Ok(file)
    }

    /// Empties a file that is open.
    pub(crate) async fn truncate(&self, file: &File) -> Result<()> {
        if self.caller.uid != 0 {
            file.drop_privileges().await?;
        }
        file.truncate(0).await
    }

    async fn create_file(&self, end: &End, mode: u32) -> Result<File> {
        let name = self.addable(end, Kind::File)?;
        let directory = &end.directory;
        let gives_group = directory.mode & libc::S_ISGID != 0 && !self.caller.is_in(directory.gid);
        // Nobody makes programs that run with the rights of a group which is not theirs.
        let mode = match gives_group && self.caller.uid != 0 {
            true => unprivileged(mode) | mode & libc::S_ISUID,
            false => mode,
        };
        let new = self.new_of(Kind::File, mode);
        let (file, _) = self.filesystem.make_file(&end.directory.inode, name, &new).await?;
        Ok(file)
    }

    pub(crate) fn new_of(&self, kind: Kind, mode: u32) -> New {
        New::of(kind, mode).masked(self.umask).owned(self.caller.uid, self.caller.gid)
    }

    /// The name by which something may be added where a path leads.
    fn addable<'a>(&self, end: &'a End, kind: Kind) -> Result<&'a [u8]> {
        let exists = || Errno::EEXIST.because("there is something of that name already");
        let name = end.name.as_deref().ok_or_else(exists)?;
        if end.found.is_some() {
            return Err(exists());
        }
        if end.is_directory_meant && kind != Kind::Directory {
            return Err(is_directory());
        }
        self.caller.require(&end.directory, Want::Write)?;
        Ok(name)
    }

    /// Makes the bytes the whole content of a regular file, which is made if it is not there. A new file appears with them, and one that is there has its
    /// old content until it has them all, if they are at most 512 MiB; a larger content is written in parts once the old one is gone.
    pub async fn put(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        let path = path.as_ref();
        loop {
            let end = self.walk(path, Follow::Yes).await?;
            let Some(found) = &end.found else {
                let name = self.addable(&end, Kind::File)?;
                let new = New { content: content.to_vec(), ..self.new_of(Kind::File, 0o644) };
                match self.filesystem.make(&end.directory.inode, name, &new).await {
                    Err(error) if error.errno() == Errno::EEXIST => continue,
                    result => return result.map(drop),
                }
            };
            match self.replace(found, content).await {
                Err(error) if error.errno() == Errno::ESTALE => {}
                result => return result,
            }
        }
    }

    /// Makes the bytes the whole content of a file that is there: in one transaction, so that nobody finds it empty, and it is as it was if that fails.
    async fn replace(&self, found: &Metadata, content: &[u8]) -> Result<()> {
        if found.inode.kind == Kind::Directory {
            return Err(is_directory());
        }
        check_has_content(&found.inode)?;
        self.caller.require(found, Want::Write)?;
        if content.len() > PUT_WHOLE_MAX {
            let file = self.open_found(found, How { truncates: true, ..How::WRITE }).await?;
            return file.write(0, content).await;
        }
        let (filesystem, inode, cut) = (&self.filesystem, &found.inode, Timestamp::now());
        if self.caller.uid != 0 && unprivileged(found.mode) != found.mode {
            filesystem.apply(inode, &Changes { drops_privileges: true, ..Changes::default() }).await?;
        }
        transact!(filesystem, |transaction, again| self.try_replace(transaction, again, inode, content, cut));
        filesystem.inner.uses.learn(inode.number, Some(cut), content.len() as u64);
        Ok(())
    }

    async fn try_replace(
        &self,
        transaction: &mut Transaction,
        again: bool,
        inode: &Inode,
        content: &[u8],
        cut: Timestamp,
    ) -> Result<(), Stop> {
        let (filesystem, keyspace) = (&self.filesystem, self.filesystem.keyspace());
        filesystem.require(transaction, inode, again).await?;
        transaction.put(keyspace, &inode.site, content).await?;
        if filesystem.flat().is_none() {
            // Who knew how long it was asks anew.
            transaction.set_attribute(keyspace, &inode.site, CUT, Some(&encode_time(cut))).await?;
        }
        filesystem.mark_holes(transaction, inode, false).await?;
        filesystem.touch(transaction, inode, cut).await
    }

    /// Makes a directory.
    pub async fn create_directory(&self, path: impl AsRef<Path>, mode: u32) -> Result<Metadata> {
        let end = self.walk_to_name(path).await?;
        let name = self.addable(&end, Kind::Directory)?;
        self.filesystem.make(&end.directory.inode, name, &self.new_of(Kind::Directory, mode)).await
    }

    /// Makes a symbolic link that leads to a target.
    pub async fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<Metadata> {
        let end = self.walk_to_name(path).await?;
        let name = self.addable(&end, Kind::Symlink)?;
        let link = New::symlink(target.as_ref().as_os_str().as_encoded_bytes());
        let link = link.owned(self.caller.uid, self.caller.gid);
        self.filesystem.make(&end.directory.inode, name, &link).await
    }

    /// Gives a file another name.
    pub async fn hard_link(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<Metadata> {
        let new = new.as_ref();
        let link = async |found: &Metadata| {
            let end = self.walk_to_name(new).await?;
            let name = self.addable(&end, found.inode.kind)?;
            self.filesystem.link(&found.inode, &end.directory.inode, name).await
        };
        self.with(old, Follow::No, link).await
    }

    /// Where a symbolic link leads.
    pub async fn read_link(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let found = self.metadata(path, Follow::No).await?;
        found.target.ok_or_else(|| Errno::EINVAL.because("it is no symbolic link"))
    }

    /// What is in a directory, at one moment, in the order of the names' bytes.
    pub async fn read_directory(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>> {
        let found = self.metadata(path, Follow::Yes).await?;
        if found.inode.kind != Kind::Directory {
            return Err(no_directory_but_file());
        }
        self.caller.require(&found, Want::Read)?;
        self.filesystem.list(&found.inode).await
    }

    /// Takes a name from a file.
    pub async fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let end = self.walk_to_name(path).await?;
        let (Some(name), Some(found)) = (&end.name, &end.found) else {
            return Err(if end.found.is_some() { is_directory() } else { no_name() });
        };
        if end.is_no_directory() {
            return Err(no_directory_but_file());
        }
        self.caller.require_removal(&end.directory, found)?;
        self.filesystem.unlink(&end.directory.inode, name).await.map(drop)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, path: impl AsRef<Path>) -> Result<()> {
        if let Some(flat) = self.filesystem.flat() {
            return self.flat_remove_directory(flat, path.as_ref().as_os_str().as_encoded_bytes()).await;
        }
        let path = path.as_ref();
        let end = self.walk_to_name(path).await?;
        let (Some(name), Some(found)) = (&end.name, &end.found) else {
            let parts = path.as_os_str().as_encoded_bytes().rsplit(|byte| *byte == b'/');
            let last = parts.into_iter().find(|part| !part.is_empty()).unwrap_or_default();
            return Err(match end.found {
                Some(_) if last == b"." => {
                    Errno::EINVAL.because("a directory is not removed by its name '.'")
                }
                Some(_) if last == b".." => Errno::ENOTEMPTY.because("the directory has entries"),
                Some(_) => Errno::EBUSY.because("a path that ends so names no entry to be removed"),
                None => no_name(),
            });
        };
        self.caller.require_removal(&end.directory, found)?;
        self.filesystem.remove_directory(&end.directory.inode, name).await
    }

    /// Gives what has a name another one, and replaces what has that.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_over(from, to, Over::Replace).await
    }

    /// As [`View::rename`], with a choice of what becomes of what has the new name.
    pub async fn rename_over(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, over: Over) -> Result<()> {
        let from = self.walk_to_name(from).await?;
        let to = self.walk_to_name(to).await?;
        let found = from.found.as_ref().ok_or_else(no_name)?;
        let (Some(old), Some(new)) = (&from.name, &to.name) else {
            return Err(Errno::EBUSY.because("a path that ends so names no entry to be renamed"));
        };
        let is_file = found.inode.kind != Kind::Directory;
        if from.is_no_directory()
            || to.is_no_directory()
            || to.is_directory_meant && is_file && over != Over::Exchange
        {
            return Err(no_directory_but_file());
        }
        self.caller.require_removal(&from.directory, found)?;
        self.caller.require(&to.directory, Want::Write)?;
        if let Some(replaced) = &to.found {
            self.caller.require_removal(&to.directory, replaced)?;
        }
        // Whoever moves a directory elsewhere changes what `..` means in it.
        if from.directory.inode != to.directory.inode {
            let back = to.found.as_ref().filter(|_| over == Over::Exchange);
            let moved = [Some(found), back].into_iter().flatten();
            for directory in moved.filter(|moved| moved.inode.kind == Kind::Directory) {
                self.caller.require(directory, Want::Write)?;
            }
        }
        let from = Named { directory: &from.directory.inode, name: old };
        let to = Named { directory: &to.directory.inode, name: new };
        self.filesystem.rename(from, to, over).await.map(drop)
    }

    /// Changes permissions, owner, size, or times, as far as the caller may.
    pub async fn change(
        &self,
        path: impl AsRef<Path>,
        follow: Follow,
        changes: &Changes,
    ) -> Result<Metadata> {
        let path = path.as_ref();
        let change = async |found: &Metadata| {
            self.change_found(found, changes).await?;
            Ok(found.inode.clone())
        };
        let changed = self.with(path, follow, change).await?;
        match self.filesystem.metadata(&changed).await {
            // It has moved since, and what has happened is not to happen again.
            Err(error) if error.errno() == Errno::ESTALE => self.metadata(path, follow).await,
            result => result,
        }
    }

    /// As [`View::change`], of what is known already, as an open file is.
    pub async fn change_found(&self, found: &Metadata, changes: &Changes) -> Result<()> {
        let mut changes = changes.clone();
        if let Some(mode) = &mut changes.mode {
            self.caller.require_owner(found)?;
            if self.caller.uid != 0 && !self.caller.is_in(found.gid) {
                *mode &= !libc::S_ISGID;
            }
        }
        let new_owner = changes.uid.filter(|uid| *uid != found.uid);
        let foreign_group = changes.gid.filter(|gid| *gid != found.gid && !self.caller.is_in(*gid));
        if self.caller.uid != 0 && (new_owner.is_some() || foreign_group.is_some()) {
            return Err(Errno::EPERM.because("only the superuser gives files away"));
        }
        let is_given = changes.uid.is_some() || changes.gid.is_some();
        if is_given {
            self.caller.require_owner(found)?;
        }
        let mode = changes.mode.unwrap_or(found.mode);
        // With another owner a file runs with the rights of neither, whoever gives it away. What is in it the superuser may change.
        let takes_rights = is_given || (changes.size.is_some() && self.caller.uid != 0);
        changes.drops_privileges |=
            takes_rights && found.inode.kind == Kind::File && unprivileged(mode) != mode;
        let is_owner = self.caller.require_owner(found);
        if changes.touches {
            is_owner.or_else(|_| self.caller.require(found, Want::Write))?;
        } else if changes.accessed.is_some() || changes.modified.is_some() {
            is_owner?;
        }
        if changes.size.is_some() {
            self.caller.require(found, Want::Write)?;
        }
        self.filesystem.apply(&found.inode, &changes).await
    }

    /// Sets an extended attribute of what a path means, or removes it.
    pub async fn set_extended(
        &self,
        path: impl AsRef<Path>,
        name: &[u8],
        value: Option<&[u8]>,
        put: Put,
    ) -> Result<()> {
        let set = async |found: &Metadata| self.set_extended_found(found, name, value, put).await;
        self.with(path, Follow::Yes, set).await
    }

    /// The value of an extended attribute of what is known already.
    pub async fn extended_found(&self, found: &Metadata, name: &[u8]) -> Result<Vec<u8>> {
        self.check_extended(found, name, Want::Read)?;
        self.filesystem.extended(&found.inode, name).await
    }

    /// The names of all extended attributes of what is known already, those of the superuser only for him.
    pub async fn extended_names_found(&self, found: &Metadata) -> Result<Vec<Vec<u8>>> {
        let mut names = self.filesystem.extended_names(&found.inode).await?;
        names.retain(|name| self.caller.uid == 0 || !name.starts_with(b"trusted."));
        Ok(names)
    }

    /// Whether the caller may read or write an extended attribute: as Linux has it, by the namespace that its name begins with.
    fn check_extended(&self, found: &Metadata, name: &[u8], want: Want) -> Result<()> {
        let (kind, is_read) = (found.inode.kind, want == Want::Read);
        let is_superuser = self.caller.uid == 0;
        let only_superuser = || Errno::EPERM.because("only the superuser may do this");
        if name.starts_with(b"user.") {
            if !matches!(kind, Kind::File | Kind::Directory) {
                let reason = "only files and directories have attributes of users";
                return Err(if is_read { no_attribute() } else { Errno::EPERM.because(reason) });
            }
            if !is_read && kind == Kind::Directory && found.mode & libc::S_ISVTX != 0 {
                self.caller.require_owner(found)?;
            }
            return self.caller.require(found, want);
        }
        match (name.starts_with(b"trusted."), name.starts_with(b"security.")) {
            _ if is_superuser => Ok(()),
            (true, _) if is_read => Err(no_attribute()),
            (true, _) | (_, true) if !is_read => Err(only_superuser()),
            _ if is_read => Ok(()),
            _ => self.caller.require_owner(found),
        }
    }

    /// As [`View::set_extended`], of what is known already.
    pub async fn set_extended_found(
        &self,
        found: &Metadata,
        name: &[u8],
        value: Option<&[u8]>,
        put: Put,
    ) -> Result<()> {
        self.check_extended(found, name, Want::Write)?;
        if let Some(which) = Which::named(name) {
            return self.filesystem.set_acl(&found.inode, which, value, &self.caller).await;
        }
        self.filesystem.set_extended(&found.inode, name, value, put).await
    }
}

/// What has moved so often while it was looked for is given up.
const LOOKED_FOR_MAX: usize = 8;

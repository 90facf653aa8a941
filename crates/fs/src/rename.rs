//! Renaming: of files, over others, and of whole trees, always in one transaction that touches a few blobs.
//!
//! Nothing is moved at first. The new name's own site gets a staple, which says where the inode lies; the old one's says that nobody is meant, or,
//! if only a staple was there, is deleted. What lies below a renamed directory is found from the directory's site as before. A staple
//! always refers to the inode itself, never to another staple: so a lookup takes one request more for each name on its way that was
//! renamed, however often. When an inode comes back to the name whose own site it lies in, the staple is gone, and so it is when the inode
//! moves to its name ([`crate::strays`]).

use std::collections::BTreeSet;

use tyr_client::Transaction;

use crate::{
    cells::Cells,
    errno::{Errno, Result, Stop, changed},
    filesystem::{Filesystem, transact},
    inode::{
        CHANGED, Inode, Kind, Metadata, PARENT, Timestamp, decode_reference, encode_reference, encode_time,
    },
    listing::Records,
    namespace::{is_directory, no_directory, no_directory_but_file, no_name},
    uses::Door,
};

/// What becomes of what has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It loses the name.
    Replace,
    /// The renaming fails with [`Errno::EEXIST`].
    Refuse,
    /// It gets the old name.
    Exchange,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The directory.
    pub directory: &'a Inode,
    /// The name.
    pub name: &'a [u8],
}

/// What a renaming has done. Nothing is known of that in a flat keyspace, where what was renamed is something else now.
#[derive(Clone, Debug, Default)]
pub struct Renamed {
    /// What was renamed.
    pub inode: Option<Inode>,
    /// What it was exchanged with, if it was.
    pub back: Option<Inode>,
    /// What has lost the name to it, if anything has: what was known of it before.
    pub replaced: Option<Metadata>,
}

/// The same, and what is to be seen to.
struct Done<'a> {
    renamed: Renamed,
    /// Whether there was something of the new name: its directory says it twice now.
    is_said_twice: bool,
    /// Names that have staples now, each with what was known of what it means.
    stapled: Vec<(Named<'a>, Metadata)>,
}

impl Filesystem {
    /// Gives what has a name another name instead.
    ///
    /// Fails with [`Errno::ENOENT`] if there is no such name, with [`Errno::EINVAL`] if a directory would come to be in itself, and with
    /// [`Errno::EISDIR`], [`Errno::ENOTDIR`], or [`Errno::ENOTEMPTY`] if what has the new name cannot be replaced by it. If both names
    /// are of the same file, nothing happens.
    pub async fn rename(&self, from: Named<'_>, to: Named<'_>, over: Over) -> Result<Renamed> {
        self.check_lookup(from.directory, from.name)?;
        self.check_lookup(to.directory, to.name)?;
        if let Some(flat) = self.flat() {
            return self.flat_rename(flat, from, to, over).await.map(|()| Renamed::default());
        }
        let door = Door::default();
        let renaming = async || {
            let done = transact!(self, |transaction, again| {
                self.try_rename(transaction, again, &door, (from, to), over)
            });
            Ok(done.value)
        };
        let done = renaming().await;
        let Done { renamed, is_said_twice, stapled } = door.end(done)?;
        for (named, metadata) in stapled {
            self.inner.strays.note(named, &metadata);
        }
        self.tidy(from.directory).await;
        if is_said_twice && from.directory != to.directory {
            self.tidy(to.directory).await;
        }
        Ok(renamed)
    }

    async fn try_rename<'a>(
        &self,
        transaction: &mut Transaction,
        again: bool,
        door: &Door,
        (from, to): (Named<'a>, Named<'a>),
        over: Over,
    ) -> Result<Done<'a>, Stop> {
        door.begin();
        let mut cells = Cells::default();
        let (old, moved) = cells.load_name(transaction, self.keyspace(), from.directory, from.name).await?;
        let moved = moved.ok_or_else(no_name)?;
        let (new, other) = cells.load_name(transaction, self.keyspace(), to.directory, to.name).await?;
        match (&other, over) {
            (Some(_), Over::Refuse) => {
                return Err(Errno::EEXIST.because("there is something of the new name already").into());
            }
            (None, Over::Exchange) => return Err(no_name().into()),
            (Some(other), _) if *other == moved => {
                let renamed = Renamed { inode: Some(moved), ..Renamed::default() };
                return Ok(Done { renamed, is_said_twice: false, stapled: Vec::new() });
            }
            (Some(other), Over::Replace)
                if moved.kind == Kind::Directory && other.kind != Kind::Directory =>
            {
                return Err(no_directory_but_file().into());
            }
            (Some(other), Over::Replace)
                if moved.kind != Kind::Directory && other.kind == Kind::Directory =>
            {
                return Err(is_directory().into());
            }
            _ => {}
        }
        let is_across = from.directory != to.directory;
        if is_across && moved.kind == Kind::Directory {
            self.refuse_loop(transaction, &moved, to.directory).await?;
        }
        let back = other.as_ref().filter(|_| over == Over::Exchange);
        if let Some(back) = back.filter(|back| is_across && back.kind == Kind::Directory) {
            self.refuse_loop(transaction, back, from.directory).await?;
        }
        let replaced = match other.as_ref().filter(|_| over != Over::Exchange) {
            Some(other) => Some(self.take_name(transaction, &mut cells, door, other).await?),
            None => None,
        };
        cells.name(&old, from.directory, back);
        cells.name(&new, to.directory, Some(&moved));
        let mut stapled = vec![(to, self.settle(transaction, &mut cells, &moved, to.directory).await?)];
        if let Some(back) = back {
            stapled.push((from, self.settle(transaction, &mut cells, back, from.directory).await?));
        }
        stapled.retain(|(named, metadata)| metadata.inode.site != named.directory.site.of(named.name));
        cells.write(transaction, self.keyspace()).await?;
        let (mut here, mut there) = (Records::default(), Records::default());
        match back {
            Some(back) => here.is_now(from.name, back),
            None => here.went(from.name),
        }
        let added = if is_across { &mut there } else { &mut here };
        match other {
            Some(_) => added.is_now(to.name, &moved),
            None => added.came(to.name, &moved),
        }
        self.note(transaction, from.directory, here, again).await?;
        if is_across {
            self.note(transaction, to.directory, there, again).await?;
        }
        let is_said_twice = other.is_some();
        let back = other.filter(|_| over == Over::Exchange);
        let renamed = Renamed { inode: Some(moved), back, replaced };
        Ok(Done { renamed, is_said_twice, stapled })
    }

    /// What an inode itself has of being in another directory. Returns what was known of it.
    async fn settle(
        &self,
        transaction: &mut Transaction,
        cells: &mut Cells,
        inode: &Inode,
        directory: &Inode,
    ) -> Result<Metadata, Stop> {
        let cell = cells.load(transaction, self.keyspace(), &inode.site).await?;
        let metadata = Self::meant(cell, inode)?.clone();
        cell.set(CHANGED, Some(encode_time(Timestamp::now())));
        if inode.kind == Kind::Directory {
            cell.set(PARENT, Some(encode_reference(directory)));
        }
        Ok(metadata)
    }

    /// Refuses if a directory is another one or above it. All that are on the way up count as read, so that no two renamings make a
    /// loop together.
    async fn refuse_loop(
        &self,
        transaction: &mut Transaction,
        moved: &Inode,
        below: &Inode,
    ) -> Result<(), Stop> {
        let (root, mut at, mut seen) = (self.root(), below.clone(), BTreeSet::new());
        while at != root {
            if at == *moved {
                return Err(Errno::EINVAL.because("a directory cannot be moved into itself").into());
            }
            if !seen.insert(at.number) {
                return Err(changed());
            }
            self.require(transaction, &at, true).await.map_err(|stop| match stop {
                // A directory above is not removed before the one below.
                Stop::Refused(error) if error.errno() == Errno::ESTALE => no_directory().into(),
                stop => stop,
            })?;
            let above = self.attribute(transaction, &at, PARENT).await?;
            at = decode_reference(&above.unwrap_or_default())?;
        }
        Ok(())
    }
}

//! Changes of what is known of an inode: owner, permissions, size, times, and extended attributes.

use std::sync::atomic::Ordering;

use tyr_client::{Attributes, Stat, Transaction};

use crate::{
    acl::{self, Which},
    errno::{Errno, Result, Stop, damaged},
    file::{PRIVILEGES, check_range, unprivileged},
    filesystem::{Filesystem, gone, transact},
    inode::{
        ACCESSED, CHANGED, CUT, Inode, Kind, MODE, MODE_MASK, MODIFIED, Metadata, Timestamp, encode_time,
    },
    uses::Reach,
    walk::Caller,
};

/// What is to be otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permissions.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size, of a regular file.
    pub size: Option<u64>,
    /// When it was read last.
    pub accessed: Option<Timestamp>,
    /// When its content changed last.
    pub modified: Option<Timestamp>,
    /// Whether no more is asked for than that both times be those of now, as touch(1) does: whoever may write may have that.
    pub touches: bool,
    /// Whether the bits go by which a file runs with the rights of its owner or its group, as when somebody changes it who may not give those.
    pub drops_privileges: bool,
}

/// What becomes of an extended attribute that is there already, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is set in any case.
    Any,
    /// Fails with [`Errno::EEXIST`] if it is there.
    Create,
    /// Fails with [`Errno::ENODATA`] if it is not.
    Replace,
}

impl Changes {
    /// The permissions afterwards, if they are otherwise or were set.
    pub(crate) fn mode_after(&self, before: u32) -> Option<u32> {
        let set = self.mode.map(|mode| mode & MODE_MASK);
        if !self.drops_privileges {
            return set;
        }
        let bare = unprivileged(set.unwrap_or(before));
        if set.is_some() || bare != before { Some(bare) } else { None }
    }
}

impl Filesystem {
    /// Changes what is known of an inode, and returns what is known then.
    pub async fn change(&self, inode: &Inode, changes: &Changes) -> Result<Metadata> {
        self.change_as(None, inode, changes).await
    }

    /// The same, by who has it open as a guest, if that is given.
    pub(crate) async fn change_as(
        &self,
        guest: Option<u64>,
        inode: &Inode,
        changes: &Changes,
    ) -> Result<Metadata> {
        if self.flat().is_some() {
            return self.flat_change(inode, changes).await;
        }
        self.apply_as(guest, inode, changes).await?;
        self.metadata(inode).await
    }

    /// Changes what is known of an inode, for who looks for it by himself afterwards: it may have moved by then.
    pub async fn apply(&self, inode: &Inode, changes: &Changes) -> Result<()> {
        if self.flat().is_some() {
            return self.flat_change(inode, changes).await.map(drop);
        }
        self.apply_as(None, inode, changes).await
    }

    async fn apply_as(&self, guest: Option<u64>, inode: &Inode, changes: &Changes) -> Result<()> {
        if let Some(size) = changes.size {
            match inode.kind {
                Kind::File => check_range(size, 0)?,
                Kind::Directory => return Err(Errno::EISDIR.because("a directory has no size to set")),
                _ => return Err(Errno::EINVAL.because("only regular files have a size to set")),
            }
        }
        if *changes != Changes::default() {
            // Who makes it longer leaves a hole, and so may who does not know how long it is.
            let known = self.inner.uses.reaches(inode.number, changes.size.unwrap_or(0));
            let cut = Timestamp::now();
            transact!(self, |transaction, again| self.try_change(
                transaction,
                again,
                (guest, inode),
                changes,
                (known, cut)
            ));
            if let Some(size) = changes.size {
                self.inner.uses.learn(inode.number, Some(cut), size);
            }
            if changes.mode.is_some_and(|mode| mode & PRIVILEGES != 0) {
                self.inner.privileges_given.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    async fn try_change(
        &self,
        transaction: &mut Transaction,
        again: bool,
        (guest, inode): (Option<u64>, &Inode),
        changes: &Changes,
        (known, cut): (Reach, Timestamp),
    ) -> Result<(), Stop> {
        if let Some(guest) = guest {
            self.require_guest(transaction, guest, again).await?;
        }
        self.require(transaction, inode, again).await?;
        let (keyspace, site, now) = (self.keyspace(), &inode.site, Timestamp::now());
        if let Some(size) = changes.size {
            let known = self.known_end(transaction, inode, known, size, again).await?;
            is_there(transaction.truncate(keyspace, site, size).await)?;
            transaction.set_attribute(keyspace, site, CUT, Some(&encode_time(cut))).await?;
            let may_have_holes = size > 0 && !known.is_joined;
            if may_have_holes || size == 0 {
                self.mark_holes(transaction, inode, may_have_holes).await?;
            }
        }
        let mut mode = None;
        if changes.mode.is_some()
            || changes.uid.is_some()
            || changes.gid.is_some()
            || changes.drops_privileges
        {
            let value = self.attribute(transaction, inode, MODE).await?.unwrap_or_default();
            let mut words = value.chunks_exact(4);
            let first = words.clone().next().and_then(|word| word.first_chunk::<4>());
            let before = first.map(|word| u32::from_le_bytes(*word)).ok_or_else(|| damaged("an inode"))?;
            mode = changes.mode_after(before);
            let mut after = Vec::new();
            for change in [mode, changes.uid, changes.gid, None] {
                let old = words.next().ok_or_else(|| damaged("an inode"))?;
                after.extend_from_slice(&change.map_or(old.to_vec(), |new| new.to_le_bytes().to_vec()));
            }
            if after != value {
                transaction.set_attribute(keyspace, site, MODE, Some(&after)).await?;
            }
        }
        // A list and the mode say the same, also for who does not obey it.
        if let Some(mode) = mode {
            let name = Which::Access.attribute();
            if let Some(value) = self.attribute(transaction, inode, name).await? {
                let acl = acl::stored(&value)?.with_mode(mode);
                transaction.set_attribute(keyspace, site, name, Some(&acl.encode())).await?;
            }
        }
        let modified = changes.modified.or(changes.size.map(|_| now));
        for (name, time) in [(ACCESSED, changes.accessed), (MODIFIED, modified), (CHANGED, Some(now))] {
            if let Some(time) = time {
                is_there(transaction.set_attribute(keyspace, site, name, Some(&encode_time(time))).await)?;
            }
        }
        Ok(())
    }

    /// The value of an extended attribute. Fails with [`Errno::ENODATA`] if it is not set.
    pub async fn extended(&self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        if Which::named(name).is_some() && !self.obeys_acls() {
            return Err(acl::no_acls());
        }
        let name = encode_name(name)?;
        if self.is_flat_directory(inode) {
            return Err(no_attribute());
        }
        let stat = is_there(self.keyspace().stat(&inode.site).await)?;
        self.check_lies_here(inode, &stat)?;
        stat.attributes.value(&name).map(<[u8]>::to_vec).ok_or_else(no_attribute)
    }

    fn is_flat_directory(&self, inode: &Inode) -> bool {
        self.flat().is_some() && inode.kind == Kind::Directory
    }

    fn check_lies_here(&self, inode: &Inode, stat: &Stat) -> Result<()> {
        if self.flat().is_some() {
            return Ok(());
        }
        let metadata = Metadata::decode(&inode.site, &stat.attributes, stat.size)?;
        metadata.filter(|metadata| metadata.inode == *inode).map(drop).ok_or_else(gone)
    }

    /// The names of all extended attributes.
    pub async fn extended_names(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        if self.is_flat_directory(inode) {
            return Ok(Vec::new());
        }
        let stat = is_there(self.keyspace().stat(&inode.site).await)?;
        self.check_lies_here(inode, &stat)?;
        Ok(stat.attributes.iter().filter_map(|(name, _)| decode_name(name)).collect())
    }

    /// Sets an extended attribute, or removes it if there is no value. All of an inode together have less than 64 KiB: more fails with
    /// [`Errno::ENOSPC`]. What is an access control list is set as the superuser does it; see [`Filesystem::set_acl`].
    pub async fn set_extended(
        &self,
        inode: &Inode,
        name: &[u8],
        value: Option<&[u8]>,
        put: Put,
    ) -> Result<()> {
        if let Some(which) = Which::named(name) {
            return self.set_acl(inode, which, value, &Caller::superuser()).await;
        }
        let name = encode_name(name)?;
        if self.is_flat_directory(inode) {
            return Err(Errno::ENOTSUP.because("a directory of a flat keyspace has no attributes"));
        }
        if value.is_some_and(|value| value.len() + name.len() > EXTENDED_MAX) {
            return Err(too_much());
        }
        transact!(self, |transaction, again| self.try_set_extended(
            transaction,
            again,
            inode,
            &name,
            value,
            put
        ));
        Ok(())
    }

    async fn try_set_extended(
        &self,
        transaction: &mut Transaction,
        again: bool,
        inode: &Inode,
        name: &str,
        value: Option<&[u8]>,
        put: Put,
    ) -> Result<(), Stop> {
        self.require(transaction, inode, again).await?;
        let stat = is_there(transaction.stat(self.keyspace(), &inode.site).await)?;
        check_put(&stat.attributes, name, value, put)?;
        transaction.set_attribute(self.keyspace(), &inode.site, name, value).await?;
        let now = encode_time(Timestamp::now());
        transaction.set_attribute(self.keyspace(), &inode.site, CHANGED, Some(&now)).await?;
        Ok(())
    }
}

/// Fails unless an attribute may be put where these are.
pub(crate) fn check_put(attributes: &Attributes, name: &str, value: Option<&[u8]>, put: Put) -> Result<()> {
    let before = attributes.value(name);
    match (before, put) {
        (Some(_), Put::Create) => {
            return Err(Errno::EEXIST.because("the extended attribute is set already"));
        }
        (None, Put::Replace) => return Err(no_attribute()),
        _ => {}
    }
    let others = attributes.size() - before.map_or(0, |before| before.len() + name.len());
    match value.is_some_and(|value| others + name.len() + value.len() > EXTENDED_MAX) {
        true => Err(too_much()),
        false => Ok(()),
    }
}

/// What is missing is a file that is no more.
pub(crate) fn is_there<T>(result: tyr_client::Result<T>) -> Result<T> {
    result.map_err(|error| match error.kind() {
        tyr_client::ErrorKind::NotFound => gone(),
        _ => error.into(),
    })
}

/// The attribute of the blob for an extended attribute. The namespace becomes one letter, so that the longest name fits.
fn encode_name(name: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(name)
        .map_err(|_| Errno::EINVAL.because("the name of an extended attribute is UTF-8"))?;
    if name.len() > crate::site::NAME_MAX {
        return Err(Errno::ERANGE.because("the name of an extended attribute has at most 255 bytes"));
    }
    let found = NAMESPACES.iter().find_map(|(letter, prefix)| Some((*letter, text.strip_prefix(prefix)?)));
    match found {
        Some((ACLS, _)) if Which::named(name).is_none() => Err(no_namespace()),
        Some((_, "")) => {
            Err(Errno::EINVAL.because("the name of an extended attribute goes on after its namespace"))
        }
        Some((letter, rest)) => Ok(format!("x{letter}{rest}")),
        None => Err(no_namespace()),
    }
}

fn decode_name(attribute: &str) -> Option<Vec<u8>> {
    let mut letters = attribute.strip_prefix('x')?.chars();
    let letter = letters.next()?;
    let (_, prefix) = NAMESPACES.iter().find(|(known, _)| *known == letter)?;
    Some(format!("{prefix}{}", letters.as_str()).into_bytes())
}

#[cold]
fn no_namespace() -> crate::Error {
    Errno::ENOTSUP.because("extended attributes begin with 'user.', 'trusted.', or 'security.'")
}

#[cold]
pub(crate) fn no_attribute() -> crate::Error {
    Errno::ENODATA.because("the extended attribute is not set")
}

#[cold]
fn too_much() -> crate::Error {
    Errno::ENOSPC.because("the extended attributes would take too much room")
}

/// Of `system.` only access control lists, see [`Which`].
const NAMESPACES: [(char, &str); 4] =
    [('u', "user."), ('t', "trusted."), ('s', "security."), (ACLS, "system.posix_acl_")];
const ACLS: char = 'p';
/// What all attributes of a blob may have, less what an inode needs at most: the longest target, and the longest reference twice.
const EXTENDED_MAX: usize = (64 << 10) - 3 * 4096 - 512;

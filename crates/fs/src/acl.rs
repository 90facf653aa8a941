//! Access control lists, as draft 17 of POSIX.1e has them and Linux hands them over as extended attributes.
//!
//! A file system obeys them once it was told to ([`Filesystem::obey_acls`]). Invariants:
//!
//! - The mode of an inode with a list says what the list says: the owner's permissions, the mask's as those of the group, and everybody else's.
//! - A list that says no more than a mode can is not kept.

use std::sync::atomic::Ordering;

use tyr_client::Transaction;

use crate::{
    change::{Put, check_put, is_there},
    errno::{Errno, Error, Result, Stop, damaged},
    filesystem::{FORMAT, Filesystem, gone, transact},
    inode::{CHANGED, Inode, Kind, MODE, MODE_MASK, Metadata, Timestamp, encode_mode, encode_time},
    namespace::New,
    walk::{Caller, Want},
};

/// An access control list: who may do what. Its lines are in the order of their tags: the owner, named users, the group, named groups, the mask, everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Line>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    subject: Subject,
    /// What is allowed: 4 to read, 2 to write, 1 to execute or to enter.
    permissions: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Others,
}

/// Which of the two lists of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That which says who may do what with it.
    Access,
    /// Of a directory: that which is made in it begins with.
    Default,
}

impl Which {
    /// The list that an extended attribute is, if it is one.
    pub fn named(name: &[u8]) -> Option<Which> {
        match name {
            b"system.posix_acl_access" => Some(Which::Access),
            b"system.posix_acl_default" => Some(Which::Default),
            _ => None,
        }
    }

    /// The attribute of the blob that has it.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Which::Access => "xpaccess",
            Which::Default => "xpdefault",
        }
    }
}

impl Subject {
    fn new(tag: u16, id: u32) -> Option<Subject> {
        match tag {
            0x01 => Some(Subject::Owner),
            0x02 | 0x08 if id == NOBODY => None,
            0x02 => Some(Subject::User(id)),
            0x04 => Some(Subject::OwningGroup),
            0x08 => Some(Subject::Group(id)),
            0x10 => Some(Subject::Mask),
            0x20 => Some(Subject::Others),
            _ => None,
        }
    }

    fn tag_and_id(self) -> (u16, u32) {
        match self {
            Subject::Owner => (0x01, NOBODY),
            Subject::User(id) => (0x02, id),
            Subject::OwningGroup => (0x04, NOBODY),
            Subject::Group(id) => (0x08, id),
            Subject::Mask => (0x10, NOBODY),
            Subject::Others => (0x20, NOBODY),
        }
    }

    fn is_named(self) -> bool {
        matches!(self, Subject::User(_) | Subject::Group(_))
    }
}

impl Acl {
    /// Reads the value of an extended attribute; `None` for a list without lines. Fails with [`Errno::EINVAL`] if it is no list: each needs the owner, the group, and
    /// everybody else once, a mask if anybody is named, nobody twice, and its lines in order; and with [`Errno::ENOSPC`] if it has more than 511 lines, of which Linux takes no
    /// more from a mount.
    pub fn decode(value: &[u8]) -> Result<Option<Acl>> {
        if value.is_empty() {
            return Ok(None);
        }
        if value.len() > SIZE_MAX {
            return Err(Errno::ENOSPC.because("an access control list has at most 511 lines"));
        }
        let invalid = || Errno::EINVAL.because("it is no access control list");
        let (version, lines) = value.split_first_chunk::<4>().ok_or_else(invalid)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::ENOTSUP.because("access control lists of this version are not known"));
        }
        let (lines, rest) = lines.as_chunks::<8>();
        let read = |[tag, tags, bits, more, id @ ..]: &[u8; 8]| {
            let permissions = u16::from_le_bytes([*bits, *more]);
            let subject = Subject::new(u16::from_le_bytes([*tag, *tags]), u32::from_le_bytes(*id))?;
            (permissions <= 7).then_some(Line { subject, permissions })
        };
        let lines: Option<Vec<Line>> = lines.iter().map(read).collect();
        let lines = lines.filter(|_| rest.is_empty()).ok_or_else(invalid)?;
        if lines.is_empty() {
            return Ok(None);
        }
        let has = |subject| lines.iter().any(|line| line.subject == subject);
        let is_whole = has(Subject::Owner) && has(Subject::OwningGroup) && has(Subject::Others);
        let is_masked = has(Subject::Mask) || !lines.iter().any(|line| line.subject.is_named());
        let ascends = lines.windows(2).all(|pair| pair[0].subject < pair[1].subject);
        (is_whole && is_masked && ascends).then_some(Some(Acl(lines))).ok_or_else(invalid)
    }

    /// The value of an extended attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for line in &self.0 {
            let (tag, id) = line.subject.tag_and_id();
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&line.permissions.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    /// The permissions of a mode that say the same as far as a mode can: `0o777` at most.
    pub fn mode(&self) -> u32 {
        let of = |subject| self.0.iter().find(|line| line.subject == subject).map(|line| line.permissions);
        let group = of(Subject::Mask).or(of(Subject::OwningGroup)).unwrap_or(0);
        let (owner, others) = (of(Subject::Owner).unwrap_or(0), of(Subject::Others).unwrap_or(0));
        u32::from(owner) << 6 | u32::from(group) << 3 | u32::from(others)
    }

    /// Whether a mode says all of it.
    pub fn is_a_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// The same, after chmod(2).
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Acl {
        self.altered(|_, class| class_of(mode, class))
    }

    /// What something has that is made with a mode in a directory of which this is the default: no more than the mode allows.
    #[must_use]
    pub fn inherited(&self, mode: u32) -> Acl {
        self.altered(|permissions, class| permissions & class_of(mode, class))
    }

    /// The lines that a mode says have other permissions: 2 is the owner's, 1 the mask's or else the group's, 0 that of everybody else.
    fn altered(&self, alter: impl Fn(u16, u32) -> u16) -> Acl {
        let has_mask = self.0.iter().any(|line| line.subject == Subject::Mask);
        let alter = |line: &Line| {
            let class = match line.subject {
                Subject::Owner => 2,
                Subject::Mask => 1,
                Subject::OwningGroup if !has_mask => 1,
                Subject::Others => 0,
                _ => return *line,
            };
            Line { permissions: alter(line.permissions, class), ..*line }
        };
        Acl(self.0.iter().map(alter).collect())
    }

    /// Whether a caller may do something with what belongs to an owner and a group: who is the owner or named is asked by his own line alone, who is in groups by
    /// any of theirs, and only who is nothing of that by that of everybody else.
    pub fn allows(&self, caller: &Caller, (owner, group): (u32, u32), want: Want) -> bool {
        let bit = want.bit();
        let mask =
            self.0.iter().find(|line| line.subject == Subject::Mask).map_or(7, |line| line.permissions);
        let mut is_in_any = false;
        for Line { subject, permissions } in &self.0 {
            match *subject {
                Subject::Owner if caller.uid == owner => return permissions & bit != 0,
                Subject::User(uid) if caller.uid == uid => return permissions & mask & bit != 0,
                Subject::OwningGroup if caller.is_in(group) => is_in_any = true,
                Subject::Group(gid) if caller.is_in(gid) => is_in_any = true,
                Subject::Others => return !is_in_any && permissions & bit != 0,
                _ => continue,
            }
            if permissions & mask & bit != 0 {
                return true;
            }
        }
        false
    }
}

fn class_of(mode: u32, class: u32) -> u16 {
    u16::try_from(mode >> (3 * class) & 7).unwrap_or(0)
}

impl Filesystem {
    /// Whether access control lists are obeyed. Without that there are none.
    pub fn obeys_acls(&self) -> bool {
        self.inner.obeys_acls.load(Ordering::Relaxed)
    }

    /// Has access control lists be obeyed from now on, by everybody who opens the file system after this. Fails with [`Errno::ENOTSUP`] for a flat keyspace.
    pub async fn obey_acls(&self) -> Result<()> {
        if self.flat().is_some() {
            return Err(Errno::ENOTSUP.because("a flat keyspace has no access control lists"));
        }
        if !self.obeys_acls() {
            self.keyspace().set_attribute(FORMAT, OBEYS_ACLS, Some(&[])).await?;
            self.inner.obeys_acls.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sets an access control list of an inode, as the value of the extended attribute that it is, or removes it if there is no value. If it is the list for access,
    /// the mode says then what it says, and if the mode can say all of it, there is no list; the bit for set-group-id goes, if the caller is not in the group. Whether the caller may do that is not asked.
    ///
    /// Fails with [`Errno::EACCES`] for a default list of what is no directory, with [`Errno::EINVAL`] for a value that is no list, and with [`Errno::ENOTSUP`] for
    /// a symbolic link and where no lists are obeyed.
    pub async fn set_acl(
        &self,
        inode: &Inode,
        which: Which,
        value: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<()> {
        if !self.obeys_acls() {
            return Err(no_acls());
        }
        if inode.kind == Kind::Symlink {
            return Err(Errno::ENOTSUP.because("a symbolic link has no access control list"));
        }
        if which == Which::Default && inode.kind != Kind::Directory {
            return Err(Errno::EACCES.because("only a directory has a default access control list"));
        }
        let acl = value.map_or(Ok(None), Acl::decode)?;
        transact!(self, |transaction, again| self.try_set_acl(
            transaction,
            again,
            inode,
            which,
            acl.as_ref(),
            caller
        ));
        Ok(())
    }

    async fn try_set_acl(
        &self,
        transaction: &mut Transaction,
        again: bool,
        inode: &Inode,
        which: Which,
        acl: Option<&Acl>,
        caller: &Caller,
    ) -> Result<(), Stop> {
        self.require(transaction, inode, again).await?;
        let (keyspace, site) = (self.keyspace(), &inode.site);
        let stat = is_there(transaction.stat(keyspace, site).await)?;
        let mut metadata = Metadata::decode(site, &stat.attributes, stat.size)?.ok_or_else(gone)?;
        let is_mode = which == Which::Access && acl.is_some_and(Acl::is_a_mode);
        let value = acl.filter(|_| !is_mode).map(Acl::encode);
        check_put(&stat.attributes, which.attribute(), value.as_deref(), Put::Any)?;
        if let Some(acl) = acl.filter(|_| which == Which::Access) {
            metadata.mode = metadata.mode & !0o777 | acl.mode();
            if caller.uid != 0 && !caller.is_in(metadata.gid) {
                metadata.mode &= !libc::S_ISGID;
            }
            transaction.set_attribute(keyspace, site, MODE, Some(&encode_mode(&metadata))).await?;
        }
        if value.is_some() || stat.attributes.value(which.attribute()).is_some() {
            transaction.set_attribute(keyspace, site, which.attribute(), value.as_deref()).await?;
        }
        transaction.set_attribute(keyspace, site, CHANGED, Some(&encode_time(Timestamp::now()))).await?;
        Ok(())
    }

    /// What permissions something gets that is made in a directory: its mode, its list, and for a directory its own default list.
    pub(crate) async fn inherit(
        &self,
        transaction: &mut Transaction,
        directory: &Inode,
        new: &New,
    ) -> Result<(u32, Option<Acl>, Option<Acl>), Stop> {
        let mode = new.mode & MODE_MASK;
        // It is inherited by what those make, too, who do not obey lists.
        let default = match new.kind {
            Kind::Symlink => None,
            _ => self.attribute(transaction, directory, Which::Default.attribute()).await?,
        };
        let Some(default) = default else { return Ok((mode & !(new.umask & 0o777), None, None)) };
        let default = stored(&default)?;
        let acl = default.inherited(mode);
        let mode = mode & !0o777 | acl.mode();
        let own = (new.kind == Kind::Directory).then_some(default);
        Ok((mode, Some(acl).filter(|acl| !acl.is_a_mode()), own))
    }
}

#[cold]
pub(crate) fn no_acls() -> Error {
    Errno::ENOTSUP.because("access control lists are not obeyed here; mount the file system with --acl once")
}

/// A list as it was kept.
pub(crate) fn stored(value: &[u8]) -> Result<Acl> {
    Acl::decode(value).ok().flatten().ok_or_else(|| damaged("an access control list"))
}

/// The version that Linux has of extended attributes for lists.
const VERSION: u32 = 2;
/// The bytes of the longest list that the kernel takes from a mount.
const SIZE_MAX: usize = 4096;
/// The number of who has none.
const NOBODY: u32 = u32::MAX;
/// Attribute of the blob that says what the keyspace holds: access control lists are obeyed.
pub(crate) const OBEYS_ACLS: &str = "acls";

#[cfg(test)]
mod tests {
    use super::*;

    /// Tag, permissions, and number of each line.
    fn value(lines: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in lines {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&permissions.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    fn acl(lines: &[(u16, u16, u32)]) -> Acl {
        Acl::decode(&value(lines)).unwrap().unwrap()
    }

    fn caller(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, groups: vec![77] }
    }

    const LONG: [(u16, u16, u32); 7] = [
        (0x01, 7, NOBODY),
        (0x02, 6, 1001),
        (0x02, 0, 1002),
        (0x04, 4, NOBODY),
        (0x08, 7, 77),
        (0x10, 5, NOBODY),
        (0x20, 1, NOBODY),
    ];

    #[test]
    fn a_list_is_what_it_was() {
        let list = acl(&LONG);
        assert_eq!(list.encode(), value(&LONG));
        assert_eq!((list.mode(), list.is_a_mode()), (0o751, false));
        let short = acl(&[(0x01, 6, NOBODY), (0x04, 4, NOBODY), (0x20, 0, NOBODY)]);
        assert_eq!((short.mode(), short.is_a_mode()), (0o640, true));
        assert_eq!(Acl::decode(&value(&[])).unwrap(), None);
        assert_eq!(Acl::decode(&[]).unwrap(), None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let errno = |value: &[u8]| Acl::decode(value).unwrap_err().errno();
        for end in 1..4 {
            assert_eq!(errno(&value(&LONG)[..end]), Errno::EINVAL);
        }
        assert_eq!(errno(&value(&LONG)[..13]), Errno::EINVAL, "half a line");
        let mut many = vec![LONG[0]];
        many.extend((0..508).map(|uid| (0x02, 7, uid)));
        many.extend(&LONG[3..]);
        assert_eq!(errno(&value(&many)), Errno::ENOSPC);
        many.remove(1);
        many.remove(1);
        assert!(Acl::decode(&value(&many)).is_ok());
        let mut other = value(&LONG);
        other[0] = 3;
        assert_eq!(errno(&other), Errno::ENOTSUP);
        for missing in LONG {
            let lines: Vec<_> = LONG.into_iter().filter(|line| *line != missing).collect();
            // Nobody needs to be named.
            let is_needed = !matches!(missing.0, 0x02 | 0x08);
            assert_eq!(Acl::decode(&value(&lines)).is_err(), is_needed, "without {missing:?}");
        }
        for (place, line) in
            [(0, (0x03, 7, 0)), (1, (0x02, 8, 1001)), (2, (0x02, 6, 1001)), (3, (0x08, 7, 77))]
        {
            let mut lines = LONG;
            lines[place] = line;
            assert_eq!(errno(&value(&lines)), Errno::EINVAL, "{line:?} at {place}");
        }
    }

    #[test]
    fn each_caller_is_asked_by_his_own_lines() {
        let list = acl(&LONG);
        let may = |uid, gid, groups: &[u32]| {
            let caller = Caller { uid, gid, groups: groups.to_vec() };
            [Want::Read, Want::Write, Want::Enter].map(|want| list.allows(&caller, (1000, 50), want))
        };
        assert_eq!(may(1000, 9, &[]), [true, true, true], "the owner, whom no mask concerns");
        assert_eq!(
            may(1001, 77, &[]),
            [true, false, false],
            "named, under the mask, whatever groups he is in"
        );
        assert_eq!(may(1002, 50, &[]), [false, false, false], "named to have nothing");
        assert_eq!(may(5, 50, &[]), [true, false, false], "in the owning group");
        assert_eq!(may(5, 50, &[77]), [true, false, true], "in two: any of them will do");
        assert_eq!(may(5, 9, &[]), [false, false, true], "anybody else");
    }

    #[test]
    fn a_mode_and_a_list_say_the_same() {
        let list = acl(&LONG);
        let changed = list.with_mode(0o4620);
        assert_eq!(changed.mode(), 0o620);
        assert!(!changed.allows(&caller(1001, 9), (1000, 50), Want::Read), "the mask does not let him");
        assert!(changed.allows(&caller(1000, 9), (1000, 50), Want::Write));
        let made = list.inherited(0o666);
        assert_eq!(made.mode(), 0o640);
        assert_eq!(list.inherited(0o777).mode(), 0o751, "no more than the default");
        let without_mask = acl(&[(0x01, 7, NOBODY), (0x04, 7, NOBODY), (0x20, 7, NOBODY)]);
        assert_eq!(without_mask.inherited(0o640).mode(), 0o640);
    }
}

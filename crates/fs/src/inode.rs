//! Inodes: what a file is apart from its names, and how its blob's attributes say it.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tyr_client::Attributes;

use crate::{
    acl::{self, Acl, Which},
    errno::{Result, damaged},
    site::Site,
};

/// An inode: its number, which no other ever has, what it is, and where it lies. Number and kind never change; the site does when a file that was renamed moves to its
/// name, which happens only while nobody has it open. What is asked of an inode then by its former site fails with [`crate::Errno::ESTALE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inode {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
    /// Where it lies.
    pub site: Site,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A named pipe.
    Pipe = 4,
    /// A socket.
    Socket = 5,
    /// A character device.
    CharacterDevice = 6,
    /// A block device.
    BlockDevice = 7,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Directory,
        Kind::Symlink,
        Kind::Pipe,
        Kind::Socket,
        Kind::CharacterDevice,
        Kind::BlockDevice,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// The bits of a `st_mode` that say it.
    pub fn mode_bits(self) -> u32 {
        match self {
            Kind::File => libc::S_IFREG,
            Kind::Directory => libc::S_IFDIR,
            Kind::Symlink => libc::S_IFLNK,
            Kind::Pipe => libc::S_IFIFO,
            Kind::Socket => libc::S_IFSOCK,
            Kind::CharacterDevice => libc::S_IFCHR,
            Kind::BlockDevice => libc::S_IFBLK,
        }
    }

    /// What these bits of a `st_mode` say; no bits mean a regular file.
    pub fn from_mode(mode: u32) -> Option<Kind> {
        match mode & libc::S_IFMT {
            0 => Some(Kind::File),
            bits => Self::ALL.into_iter().find(|kind| kind.mode_bits() == bits),
        }
    }
}

/// A moment: seconds and nanoseconds since 1970, the latter below 10⁹ and counted forward also before 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Now, by this machine's clock.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Now, by the clock by which the kernel of this machine sets times itself: it is behind the other one by up to some milliseconds, and does not tell apart what happens within these.
    pub fn of_kernel() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec.try_into().unwrap_or(0) }
    }

    fn encode(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (seconds, nanoseconds) = bytes.split_first_chunk::<8>()?;
        let nanoseconds = u32::from_le_bytes(nanoseconds.try_into().ok()?).min(999_999_999);
        Some(Timestamp { seconds: i64::from_le_bytes(*seconds), nanoseconds })
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp { seconds: whole(since.as_secs()), nanoseconds: since.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Timestamp { seconds: -whole(before.as_secs()), nanoseconds: 0 },
                    part => {
                        Timestamp { seconds: -whole(before.as_secs()) - 1, nanoseconds: 1_000_000_000 - part }
                    }
                }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let part = Duration::from_nanos(time.nanoseconds.into());
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let base = match time.seconds >= 0 {
            true => UNIX_EPOCH.checked_add(whole),
            false => UNIX_EPOCH.checked_sub(whole),
        };
        base.and_then(|base| base.checked_add(part)).unwrap_or(UNIX_EPOCH)
    }
}

/// What is known of an inode besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Which inode, and what it is.
    pub inode: Inode,
    /// Permissions, and the bits for set-user-id, set-group-id, and sticky: `0o7777`.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What a device file is of.
    pub device: u32,
    /// Its names; 0 if it has none any more but is open. 1 for a directory.
    pub links: u32,
    /// Bytes of content; for a symbolic link those of its target, for a directory those of its listing.
    pub size: u64,
    /// How many bytes of its content are data, not holes, or a bit more.
    pub data_size: u64,
    /// Whether holes were noted; without them all of its content is data.
    pub may_have_holes: bool,
    /// When its size was set last, if it ever was: it may be shorter since.
    pub cut: Option<Timestamp>,
    /// When it was read last, within what `relatime` promises.
    pub accessed: Timestamp,
    /// When its content changed last.
    pub modified: Timestamp,
    /// When anything of it changed last.
    pub changed: Timestamp,
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
    /// Who may do what, if that is more than `mode` can say.
    pub acl: Option<Acl>,
    /// The mark that it has if it is about to move to its name's own site.
    pub leaving: Option<u64>,
}

impl Metadata {
    /// The `st_mode`.
    pub fn st_mode(&self) -> u32 {
        self.inode.kind.mode_bits() | self.mode
    }

    /// What the attributes of the blob at a site say of the inode that lies there, if one does.
    pub(crate) fn decode(site: &Site, attributes: &Attributes, size: u64) -> Result<Option<Metadata>> {
        let Some(number) = attributes.value(NUMBER) else { return Ok(None) };
        let read = || {
            let (code, number) = number.split_first()?;
            let number = u64::from_le_bytes(number.try_into().ok()?);
            let inode = Inode { number, kind: Kind::from_code(*code)?, site: site.clone() };
            let mut words = attributes.value(MODE)?.chunks_exact(4).map(word);
            let (mode, uid, gid, device) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let time = |name| Timestamp::decode(attributes.value(name)?);
            let target = attributes.value(TARGET).map(<[u8]>::to_vec);
            let acl = attributes.value(Which::Access.attribute()).map(acl::stored).transpose();
            Some(Metadata {
                inode,
                mode: mode & MODE_MASK,
                uid,
                gid,
                device,
                links: attributes.value(LINKS).map_or(1, word),
                size: target.as_ref().map_or(size, |target| target.len() as u64),
                data_size: if target.is_some() { 0 } else { size },
                may_have_holes: attributes.value(HOLES).is_some(),
                cut: time(CUT),
                accessed: time(ACCESSED)?,
                modified: time(MODIFIED)?,
                changed: time(CHANGED)?,
                target,
                acl: acl.ok()?,
                leaving: attributes
                    .value(LEAVING)
                    .and_then(<[u8]>::first_chunk)
                    .map(|mark| u64::from_le_bytes(*mark)),
            })
        };
        read().map(Some).ok_or_else(|| damaged("an inode"))
    }

    /// The attributes that say this, but for the directory in which a directory is, and for a mark.
    pub(crate) fn encode(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut attributes = BTreeMap::from([
            (NUMBER.to_owned(), Some(encode_number(&self.inode))),
            (MODE.to_owned(), Some(encode_mode(self))),
            (ACCESSED.to_owned(), Some(encode_time(self.accessed))),
            (MODIFIED.to_owned(), Some(encode_time(self.modified))),
            (CHANGED.to_owned(), Some(encode_time(self.changed))),
        ]);
        if let Some(target) = &self.target {
            attributes.insert(TARGET.to_owned(), Some(target.clone()));
        }
        if let Some(acl) = &self.acl {
            attributes.insert(Which::Access.attribute().to_owned(), Some(acl.encode()));
        }
        if self.links != 1 {
            attributes.insert(LINKS.to_owned(), Some(encode_links(self.links)));
        }
        attributes
    }
}

/// The value that says which inode lies in a blob.
pub(crate) fn encode_number(inode: &Inode) -> Vec<u8> {
    let mut value = vec![inode.kind as u8];
    value.extend_from_slice(&inode.number.to_le_bytes());
    value
}

/// The value for permissions, owner, group, and device.
pub(crate) fn encode_mode(metadata: &Metadata) -> Vec<u8> {
    let Metadata { mode, uid, gid, device, .. } = metadata;
    [mode, uid, gid, device].into_iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The value for a number of links.
pub(crate) fn encode_links(links: u32) -> Vec<u8> {
    links.to_le_bytes().to_vec()
}

/// The value for a moment.
pub(crate) fn encode_time(time: Timestamp) -> Vec<u8> {
    time.encode().to_vec()
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The value that names another inode: a staple, or the directory in which a directory is.
pub(crate) fn encode_reference(inode: &Inode) -> Vec<u8> {
    let mut value = encode_number(inode);
    value.extend_from_slice(inode.site.key());
    value
}

pub(crate) fn decode_reference(value: &[u8]) -> Result<Inode> {
    let read = || {
        let (number, site) = value.split_at_checked(9)?;
        let (code, number) = number.split_first()?;
        let (number, kind) = (u64::from_le_bytes(number.try_into().ok()?), Kind::from_code(*code)?);
        (!site.is_empty()).then(|| Inode { number, kind, site: Site::from_key(site) })
    };
    read().ok_or_else(|| damaged("a staple"))
}

/// The bits of a mode that are kept.
pub const MODE_MASK: u32 = 0o7777;

/// Attribute: what lies here, and its number. A blob without it holds no inode.
pub(crate) const NUMBER: &str = "i";
/// Attribute: permissions, owner, group, device.
pub(crate) const MODE: &str = "m";
/// Attribute: how many names it has, unless that is one.
pub(crate) const LINKS: &str = "l";
/// Attribute: when it was read last.
pub(crate) const ACCESSED: &str = "a";
/// Attribute: when its content changed last.
pub(crate) const MODIFIED: &str = "t";
/// Attribute: when anything of it changed last.
pub(crate) const CHANGED: &str = "c";
/// Attribute: where a symbolic link leads.
pub(crate) const TARGET: &str = "s";
/// Attribute: there may be holes in it.
pub(crate) const HOLES: &str = "h";
/// Attribute: when its size was set last.
pub(crate) const CUT: &str = "u";
/// Attribute: the mark of an inode that is about to move.
pub(crate) const LEAVING: &str = "v";
/// Attribute: the directory in which a directory is.
pub(crate) const PARENT: &str = "p";
/// Attribute: whom the name means whose own site this is, unless it is the inode that lies here.
pub(crate) const NAME: &str = "n";
/// Attribute: the number of the directory that this name is in.
pub(crate) const DIRECTORY: &str = "d";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let inode = Inode { number: u64::MAX - 3, kind: Kind::Symlink, site: Site::fresh(7) };
        let before = Timestamp::from(UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(before, Timestamp { seconds: -2, nanoseconds: 500_000_000 });
        assert_eq!(SystemTime::from(before), UNIX_EPOCH - Duration::from_millis(1500));
        let metadata = Metadata {
            inode: inode.clone(),
            mode: 0o4755,
            uid: 1000,
            gid: u32::MAX - 1,
            device: 5,
            links: 3,
            size: 4,
            data_size: 0,
            may_have_holes: false,
            cut: None,
            accessed: before,
            modified: Timestamp::now(),
            changed: Timestamp { seconds: i64::MAX, nanoseconds: 1 },
            target: Some(b"to/x".to_vec()),
            acl: None,
            leaving: None,
        };
        let mut attributes = Attributes::default();
        for (name, value) in metadata.encode() {
            attributes.set(&name, value.as_deref()).unwrap();
        }
        assert_eq!(Metadata::decode(&inode.site, &attributes, 0), Ok(Some(metadata)));
        assert_eq!(decode_reference(&encode_reference(&inode)), Ok(inode));
    }

    #[test]
    fn bytes_that_are_none_are_damage_and_no_panic() {
        for length in 0..9 {
            assert!(decode_reference(&vec![1; length]).is_err());
        }
        let mut attributes = Attributes::default();
        attributes.set(NUMBER, Some(&[9; 9])).unwrap();
        assert!(Metadata::decode(&Site::root(), &attributes, 0).is_err());
        attributes.set(NUMBER, Some(&[1])).unwrap();
        assert!(Metadata::decode(&Site::root(), &attributes, 0).is_err());
    }
}

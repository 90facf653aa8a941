//! Listings: the content of a directory's blob.
//!
//! First how many entries there are and how often the listing was compacted; then a record for each name that came or went, in the order in
//! which that happened. The last record of a name says whether it is there. Whether a name *exists* is said by the blob that is its own
//! site, and by nothing else; both are changed by one transaction.

use std::collections::BTreeMap;

use crate::{
    errno::{Result, damaged},
    inode::{Inode, Kind},
};

/// What a directory has of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// The number of the inode that it names.
    pub number: u64,
    /// What that is.
    pub kind: Kind,
}

/// A listing, worked out.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// How often it was compacted.
    pub compactions: u64,
    /// How many records there were.
    pub records: usize,
    entries: BTreeMap<Vec<u8>, (u64, Kind)>,
}

impl Listing {
    /// Works out what the content of a directory's blob says.
    pub fn decode(content: &[u8]) -> Result<Listing> {
        let read = || {
            let (header, mut rest) = content.split_at_checked(HEADER)?;
            let compactions = u64::from_le_bytes(*header[8..].first_chunk::<8>()?);
            let mut listing = Listing { compactions, ..Listing::default() };
            while let Some((&[code, length], after)) = rest.split_first_chunk::<2>() {
                let (number, after) = after.split_first_chunk::<8>()?;
                let (name, after) = after.split_at_checked(length.into())?;
                match code {
                    GONE => {
                        listing.entries.remove(name);
                    }
                    code => {
                        let what = (u64::from_le_bytes(*number), Kind::from_code(code)?);
                        listing.entries.insert(name.to_vec(), what);
                    }
                }
                listing.records += 1;
                rest = after;
            }
            rest.is_empty().then_some(listing)
        };
        read().ok_or_else(|| damaged("a directory's listing"))
    }

    /// A content that says the same with as few records as there can be.
    pub fn compacted(&self) -> Vec<u8> {
        let mut content = header(self.entries.len() as u64, self.compactions + 1);
        for (name, (number, kind)) in &self.entries {
            push(&mut content, *kind as u8, *number, name);
        }
        content
    }

    /// Whether so many records are out of date that it should be compacted.
    pub fn is_long(&self) -> bool {
        self.records > 64 && self.records > 2 * self.entries.len()
    }

    /// The entries in the order of their names' bytes.
    pub fn into_entries(self) -> Vec<Entry> {
        let entry = |(name, (number, kind))| Entry { name, number, kind };
        self.entries.into_iter().map(entry).collect()
    }
}

/// The content for an empty directory.
pub(crate) fn empty() -> Vec<u8> {
    header(0, 0)
}

/// How many entries the first bytes say there are.
pub(crate) fn count(start: &[u8]) -> Result<u64> {
    start
        .first_chunk::<8>()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| damaged("a directory's listing"))
}

/// Records of what happened to names in one directory at once.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// How many more entries there are afterwards.
    pub more: i64,
}

impl Records {
    /// A name that was not there names the inode.
    pub fn came(&mut self, name: &[u8], inode: &Inode) {
        self.is_now(name, inode);
        self.more += 1;
    }

    /// A name that was there names this inode now.
    pub fn is_now(&mut self, name: &[u8], inode: &Inode) {
        push(&mut self.bytes, inode.kind as u8, inode.number, name);
    }

    /// A name is not there any more.
    pub fn went(&mut self, name: &[u8]) {
        push(&mut self.bytes, GONE, 0, name);
        self.more -= 1;
    }
}

fn header(entries: u64, compactions: u64) -> Vec<u8> {
    [entries.to_le_bytes(), compactions.to_le_bytes()].concat()
}

fn push(content: &mut Vec<u8>, code: u8, number: u64, name: &[u8]) {
    content.push(code);
    content.push(u8::try_from(name.len()).expect("names were checked to have at most 255 bytes"));
    content.extend_from_slice(&number.to_le_bytes());
    content.extend_from_slice(name);
}

/// Bytes before the records.
const HEADER: usize = 16;
/// The code of a record of a name that went; others are those of kinds.
const GONE: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;

    fn inode(number: u64) -> Inode {
        Inode { number, kind: Kind::File, site: Site::fresh(number) }
    }

    #[test]
    fn the_last_record_of_a_name_counts_and_compaction_says_the_same() {
        let mut records = Records::default();
        records.came(b"a", &inode(1));
        records.came(b"b", &inode(2));
        records.went(b"a");
        records.is_now(b"b", &inode(3));
        assert_eq!(records.more, 1);
        let listing = Listing::decode(&[empty(), records.bytes].concat()).unwrap();
        let compacted = Listing::decode(&listing.compacted()).unwrap();
        assert_eq!((listing.records, compacted.records, compacted.compactions), (4, 1, 1));
        assert_eq!(count(&listing.compacted()), Ok(1));
        let listed = compacted.into_entries();
        assert_eq!(listed, [Entry { name: b"b".to_vec(), number: 3, kind: Kind::File }]);
        assert_eq!(listed, listing.into_entries());
    }

    #[test]
    fn what_is_cut_or_wrong_is_damage_and_no_panic() {
        let mut records = Records::default();
        records.came(b"name", &inode(1));
        let whole = [empty(), records.bytes].concat();
        for length in (0..whole.len()).filter(|length| *length != 16) {
            assert!(Listing::decode(&whole[..length]).is_err(), "{length}");
        }
        let mut wrong = whole;
        wrong[16] = 99;
        assert!(Listing::decode(&wrong).is_err());
    }
}

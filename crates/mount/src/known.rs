//! The inodes that the kernel knows by their numbers.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Instant,
};

use parking_lot::Mutex;
use tyr_fs::{Errno, Error, Flat, Inode, Kind, Metadata, ROOT_NUMBER, Result, Timestamp, site::Site};

/// Each inode that the kernel was told of and has not forgotten, with how often it was told. The root, whatever directory that is, is always
/// known, as number 1.
///
/// In a flat keyspace the number of an inode is a hash of its key, and whoever may make files can find keys with the hash of another one's. The kernel takes what
/// has one number for one file, and its permissions for those that it was told last. So there an inode is known by its key, and of two whose numbers are the same the
/// one that the kernel is told of later gets a number of this mount's own for as long as it is known. A key that this mount has taken from one file is known as that
/// file no more: what comes to lie there is another one, also to a kernel that has the first one open, with what it knows of its size and content.
#[derive(Debug)]
pub struct Known {
    root: Inode,
    /// How keys are made of paths, if the file system is flat.
    flat: Option<Flat>,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// By their numbers.
    told: HashMap<u64, Told>,
    /// Their numbers, by where they were found to lie: who is slow may say last where one lay before.
    numbers: HashMap<Site, Vec<u64>>,
    /// How many numbers of this mount's own were given. None is given again.
    own_numbers: u64,
}

#[derive(Debug)]
struct Told {
    /// With the number by which the kernel knows it.
    inode: Inode,
    /// Where it was found to lie.
    sites: Vec<Site>,
    /// The number of the directory in which it was found last, and by what name, unless it is a directory: then it stays where it lies.
    named: Option<(u64, Vec<u8>)>,
    /// How often the kernel was told of it.
    times: u64,
    /// Until when it may believe what it was told.
    believed_until: Instant,
    /// What the file was of which the kernel may have pages.
    pages: Option<Content>,
    /// What is no regular file, and was removed by this mount, as it was: whoever has it open may ask.
    removed: Option<Metadata>,
    /// A flat file of which the key is not its own any more.
    is_lost: bool,
}

/// What says that the content of a file is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    size: u64,
    modified: Timestamp,
    /// Nobody can set this one back.
    changed: Timestamp,
}

impl Content {
    fn of(metadata: &Metadata) -> Self {
        Content { size: metadata.size, modified: metadata.modified, changed: metadata.changed }
    }
}

impl Known {
    pub fn new(root: Inode, flat: Option<Flat>) -> Self {
        Known { root, flat, others: Mutex::default() }
    }

    /// The inode of a number.
    pub fn get(&self, number: u64) -> Result<Inode> {
        if number == ROOT_NUMBER {
            return Ok(self.root.clone());
        }
        let others = self.others.lock();
        match others.told.get(&number) {
            Some(told) if told.is_lost => Err(lost()),
            Some(told) => Ok(told.inode.clone()),
            None => Err(Errno::ESTALE.because("the kernel asks for what it was not told of")),
        }
    }

    /// The number by which the kernel knows an inode.
    pub fn number(&self, inode: &Inode) -> u64 {
        match *inode == self.root {
            true => ROOT_NUMBER,
            false => self.others.lock().number(self.flat, inode).unwrap_or(inode.number),
        }
    }

    /// The kernel is told of an inode that has a name in a directory, and may believe what it is told until then. Returns the number that it is told.
    pub fn tell(&self, inode: &Inode, (parent, name): (u64, &[u8]), believed_until: Instant) -> u64 {
        if *inode == self.root {
            return ROOT_NUMBER;
        }
        self.lies(inode);
        let others = &mut *self.others.lock();
        let number = match others.number(self.flat, inode) {
            Some(number) => number,
            None => others.new_number(inode),
        };
        let inode = &Inode { number, ..inode.clone() };
        let new = || Told {
            inode: inode.clone(),
            sites: Vec::new(),
            named: None,
            times: 0,
            believed_until,
            pages: None,
            removed: None,
            is_lost: false,
        };
        let told = others.told.entry(number).or_insert_with(new);
        told.named = (inode.kind != Kind::Directory).then(|| (parent, name.to_vec()));
        told.times += 1;
        told.believed_until = told.believed_until.max(believed_until);
        note_site(told, &mut others.numbers, &inode.site);
        number
    }

    /// An inode, if the kernel knows it, was found to lie where it does: it may have moved. In a flat keyspace nothing moves.
    pub fn lies(&self, inode: &Inode) {
        if self.flat.is_some() {
            return;
        }
        let others = &mut *self.others.lock();
        let Some(told) = others.told.get_mut(&inode.number).filter(|told| told.inode != *inode) else {
            return;
        };
        told.inode = inode.clone();
        note_site(told, &mut others.numbers, &inode.site);
    }

    /// An inode, if the kernel knows it, has another name.
    pub fn rename(&self, number: u64, (parent, name): (u64, &[u8])) {
        if let Some(named) = self.others.lock().told.get_mut(&number).and_then(|told| told.named.as_mut()) {
            *named = (parent, name.to_vec());
        }
    }

    /// This mount has removed the flat file at a key, or given it another key. Whoever has it open is told that it is not there, and what is found at the key
    /// from now on has another number for as long as the kernel knows this one.
    pub fn lose(&self, site: &Site) {
        let others = &mut *self.others.lock();
        let Entry::Occupied(mut numbers) = others.numbers.entry(site.clone()) else { return };
        numbers.get_mut().retain(|number| {
            let Some(told) = others.told.get_mut(number).filter(|told| told.inode.kind == Kind::File) else {
                return true;
            };
            told.sites.retain(|other| other != site);
            told.is_lost = true;
            false
        });
        if numbers.get().is_empty() {
            numbers.remove();
        }
    }

    /// The number of the directory in which an inode was found last, and by what name, unless it is a directory itself.
    pub fn named(&self, number: u64) -> Option<(u64, Vec<u8>)> {
        self.others.lock().told.get(&number).and_then(|told| told.named.clone())
    }

    /// Until when the kernel may believe what it was told of an inode other than the root.
    pub fn believed_until(&self, number: u64) -> Option<Instant> {
        self.others.lock().told.get(&number).map(|told| told.believed_until)
    }

    /// The numbers by which the kernel knows what lies somewhere, and what lay there.
    pub fn numbers_at(&self, site: &Site) -> Vec<u64> {
        match *site == self.root.site {
            true => vec![ROOT_NUMBER],
            false => self.others.lock().numbers.get(site).cloned().unwrap_or_default(),
        }
    }

    /// The kernel reads pages of a file from now on. Returns whether those that it may have are of the same content.
    pub fn reads_pages(&self, metadata: &Metadata) -> bool {
        let content = Content::of(metadata);
        let mut others = self.others.lock();
        let told = others.of(self.flat, &metadata.inode);
        told.and_then(|told| told.pages.replace(content)).is_none_or(|pages| pages == content)
    }

    /// The kernel is told what a file is now. Returns whether it may have pages of another content that it takes for this one: it looks at the size and the time
    /// of the last modification.
    pub fn doubts_pages(&self, metadata: &Metadata) -> bool {
        let content = Content::of(metadata);
        let mut others = self.others.lock();
        let told = others.of(self.flat, &metadata.inode);
        let Some(pages) = told.and_then(|told| told.pages.as_mut()) else { return false };
        if (pages.size, pages.modified) != (content.size, content.modified) {
            // It drops them.
            *pages = content;
        }
        *pages != content
    }

    /// What is no regular file was removed, as which it was known like this before.
    pub fn remove(&self, removed: Metadata) {
        if let Some(told) = self.others.lock().of(self.flat, &removed.inode) {
            told.removed = Some(Metadata { links: 0, ..removed });
        }
    }

    /// What is no regular file and has a number, if it was removed and the kernel has not forgotten it.
    pub fn removed(&self, number: u64) -> Option<Metadata> {
        self.others.lock().told.get(&number).and_then(|told| told.removed.clone())
    }

    /// The kernel forgets that it was told so often.
    pub fn forget(&self, number: u64, times: u64) {
        let others = &mut *self.others.lock();
        let Some(told) = others.told.get_mut(&number) else { return };
        told.times = told.times.saturating_sub(times);
        if told.times == 0 {
            for site in std::mem::take(&mut told.sites) {
                if let Entry::Occupied(mut numbers) = others.numbers.entry(site) {
                    numbers.get_mut().retain(|other| *other != number);
                    if numbers.get().is_empty() {
                        numbers.remove();
                    }
                }
            }
            others.told.remove(&number);
        }
    }
}

impl Others {
    /// The number by which the kernel knows an inode, if it does.
    fn number(&self, flat: Option<Flat>, inode: &Inode) -> Option<u64> {
        if flat.is_none() {
            return self.told.contains_key(&inode.number).then_some(inode.number);
        }
        let is_it = |number: &u64| self.told.get(number).is_some_and(|told| told.inode.kind == inode.kind);
        self.numbers.get(&inode.site)?.iter().copied().find(is_it)
    }

    /// A number for an inode that the kernel does not know: its own one, unless another one has that.
    fn new_number(&mut self, inode: &Inode) -> u64 {
        if !self.told.contains_key(&inode.number) {
            return inode.number;
        }
        self.own_numbers += 1;
        FIRST_OWN_NUMBER + self.own_numbers
    }

    fn of(&mut self, flat: Option<Flat>, inode: &Inode) -> Option<&mut Told> {
        let number = self.number(flat, inode)?;
        self.told.get_mut(&number)
    }
}

/// That a file is no more at the key by which it was opened.
#[cold]
pub fn lost() -> Error {
    Errno::ESTALE.because("the file was removed or renamed, and a flat file is what lies at its key")
}

/// An inode was found to lie there.
fn note_site(told: &mut Told, numbers: &mut HashMap<Site, Vec<u64>>, site: &Site) {
    if !told.sites.contains(site) {
        told.sites.push(site.clone());
        numbers.entry(site.clone()).or_default().push(told.inode.number);
    }
}

/// Numbers of this mount's own are larger, and smaller than any that a flat keyspace makes of a key; see [`crate::own`] for the first few.
const FIRST_OWN_NUMBER: u64 = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::accesses::tests::metadata;

    #[test]
    fn an_inode_is_known_as_often_as_it_was_told_of() {
        let inode = |number| Inode { number, kind: Kind::Directory, site: Site::fresh(number) };
        let known = Known::new(inode(20), None);
        assert_eq!(known.get(1).unwrap(), inode(20));
        assert_eq!(known.number(&inode(20)), 1);
        let now = Instant::now();
        known.tell(&inode(30), (1, b"name"), now + Duration::from_secs(1));
        known.tell(&inode(30), (1, b"name"), now);
        assert_eq!(known.believed_until(30), Some(now + Duration::from_secs(1)));
        known.forget(30, 1);
        assert_eq!(known.get(30).unwrap(), inode(30));
        assert_eq!(
            [20, 30, 40].map(|site| known.numbers_at(&Site::fresh(site))),
            [vec![1], vec![30], vec![]]
        );
        known.forget(30, 1);
        assert!(known.numbers_at(&Site::fresh(30)).is_empty() && known.believed_until(30).is_none());
        assert_eq!(known.get(30).unwrap_err().errno(), Errno::ESTALE);
    }

    #[test]
    fn pages_are_doubted_if_only_the_time_that_nobody_sets_says_that_the_content_is_another() {
        let inode = Inode { number: 30, kind: Kind::File, site: Site::fresh(7) };
        let root = Inode { kind: Kind::Directory, ..inode.clone() };
        let known = Known::new(Inode { number: 1, ..root }, None);
        known.tell(&inode, (1, b"name"), Instant::now());
        let time = |seconds| Timestamp { seconds, nanoseconds: 0 };
        let file = |size, modified, changed| Metadata {
            size,
            modified: time(modified),
            changed: time(changed),
            inode: inode.clone(),
            ..metadata(30)
        };
        assert!(!known.doubts_pages(&file(10, 1, 1)), "it has none");
        assert!(known.reads_pages(&file(10, 1, 1)));
        assert!(!known.doubts_pages(&file(10, 1, 1)));
        assert!(!known.doubts_pages(&file(10, 2, 2)), "the kernel sees that by itself");
        assert!(known.doubts_pages(&file(10, 2, 3)) && known.doubts_pages(&file(10, 2, 3)));
        assert!(!known.reads_pages(&file(10, 2, 3)) && !known.doubts_pages(&file(10, 2, 3)));
    }

    #[test]
    fn what_has_moved_is_known_where_it_lies_and_by_its_last_name() {
        let inode = |number, site| Inode { number, kind: Kind::File, site: Site::fresh(site) };
        let known = Known::new(Inode { kind: Kind::Directory, ..inode(1, 1) }, None);
        known.tell(&inode(30, 7), (1, b"old"), Instant::now());
        known.rename(30, (40, b"new"));
        assert_eq!(known.named(30), Some((40, b"new".to_vec())));
        // Another one has come to lie there.
        known.tell(&inode(31, 7), (1, b"other"), Instant::now());
        known.lies(&inode(30, 8));
        assert_eq!(known.get(30).unwrap(), inode(30, 8));
        let at = |site| known.numbers_at(&Site::fresh(site));
        assert_eq!((at(7), at(8)), (vec![30, 31], vec![30]));
        // Who has found it before it moved says so last: it is found at neither place in vain.
        known.tell(&inode(30, 7), (1, b"new"), Instant::now());
        assert_eq!((at(7), at(8)), (vec![30, 31], vec![30]));
        known.forget(30, 2);
        assert!(known.get(30).is_err());
        assert_eq!((at(7), at(8)), (vec![31], vec![]));
        known.lies(&inode(30, 10));
        assert!(at(10).is_empty(), "the kernel has forgotten it");
    }

    #[test]
    fn no_two_flat_files_have_one_number() {
        let inode = |key: &str, kind| Inode { number: 1 << 62, kind, site: Site::from_key(key.as_bytes()) };
        let (file, other) = (inode("payroll", Kind::File), inode("collides", Kind::File));
        let known = Known::new(inode("", Kind::Directory), Some(Flat::Slashes));
        let tell = |inode: &Inode| known.tell(inode, (1, inode.site.key()), Instant::now());
        let first = tell(&file);
        assert_eq!(first, file.number, "it is the same on all machines, if it can be");
        let second = tell(&other);
        assert_ne!(first, second);
        assert_eq!((known.number(&file), known.number(&other)), (first, second));
        // Nor has a directory of the same name.
        let directory = tell(&inode("payroll", Kind::Directory));
        assert!(directory != first && directory != second);
        // Each stays what it was, whatever is found and in whatever order.
        for _ in 0..2 {
            assert_eq!((tell(&other), tell(&file)), (second, first));
            known.lies(&other);
        }
        let at = |number| known.get(number).unwrap().site;
        assert_eq!((at(first), at(second)), (file.site.clone(), other.site.clone()));
        assert_eq!(known.numbers_at(&other.site), [second]);
        // What is known of one is not of the other.
        known.remove(Metadata { inode: other.clone(), ..metadata(30) });
        assert!(known.removed(first).is_none() && known.removed(second).is_some());
        known.forget(second, 3);
        assert!(known.get(second).is_err());
        let third = tell(&other);
        assert!(third != second && third != first, "no number comes back for another file");
        known.forget(first, 3);
        assert!(known.get(first).is_err() && known.get(third).is_ok());
    }

    #[test]
    fn what_comes_to_a_key_that_was_taken_from_a_flat_file_is_another_one() {
        let inode = |kind| Inode { number: 1 << 62, kind, site: Site::from_key(b"report") };
        let root = Inode { number: 1, kind: Kind::Directory, site: Site::from_key(b"") };
        let known = Known::new(root, Some(Flat::Slashes));
        let tell = |kind| known.tell(&inode(kind), (1, b"report"), Instant::now());
        let (file, directory) = (tell(Kind::File), tell(Kind::Directory));
        known.lose(&inode(Kind::File).site);
        assert_eq!(known.get(file).unwrap_err().errno(), Errno::ESTALE, "somebody has it open");
        assert_eq!(known.get(directory).unwrap(), Inode { number: directory, ..inode(Kind::Directory) });
        let other = tell(Kind::File);
        assert!(other != file && other != directory);
        assert_eq!(
            (known.get(other).unwrap().site, known.get(file).is_err()),
            (inode(Kind::File).site, true)
        );
        // Forgetting the one leaves the other where it is.
        known.forget(file, 1);
        assert_eq!(known.numbers_at(&inode(Kind::File).site), [directory, other]);
        assert_eq!(tell(Kind::File), other);
        known.lose(&Site::from_key(b"nothing"));
    }
}

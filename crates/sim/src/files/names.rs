//! What names there are: a file system without content, in which one deed happens after the other.

use std::collections::{BTreeMap, BTreeSet};

use tyr_fs::{Errno, Over, ROOT_NUMBER};

use super::tale::{Act, Name, Told};

/// All inodes and their names. Who made an inode by the deed at a place knows it by that; the root is known by none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    inodes: BTreeMap<Maker, Inode>,
    /// Inodes whose numbers were told.
    numbers: BTreeMap<u64, Maker>,
}

/// The place of the deed by which an inode was made.
type Maker = Option<usize>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inode {
    is_directory: bool,
    links: u32,
    entries: BTreeMap<Name, Maker>,
}

impl Inode {
    fn new(is_directory: bool) -> Self {
        Inode { is_directory, links: 1, entries: BTreeMap::new() }
    }
}

impl Default for Names {
    fn default() -> Self {
        let inodes = BTreeMap::from([(None, Inode::new(true))]);
        Names { inodes, numbers: BTreeMap::from([(ROOT_NUMBER, None)]) }
    }
}

impl Names {
    /// Does the deed at a place, whatever is told of it; and says what that is. `None` if nobody was ever told of an inode that it is about.
    fn act(&mut self, place: usize, act: &Act) -> Option<Result<(), Errno>> {
        Some(match *act {
            Act::Make { directory, name, is_directory } => {
                let directory = self.maker(directory)?;
                self.enter(directory, name).map(|()| {
                    self.entries(directory).insert(name, Some(place));
                    self.inodes.insert(Some(place), Inode::new(is_directory));
                })
            }
            Act::Link { inode, directory, name } => {
                let (inode, directory) = (self.maker(inode)?, self.maker(directory)?);
                self.enter(directory, name).and_then(|()| match self.inodes[&inode].links {
                    0 => Err(Errno::ENOENT),
                    _ => {
                        self.entries(directory).insert(name, inode);
                        self.links(inode, 1);
                        Ok(())
                    }
                })
            }
            Act::Unlink { directory, name } => {
                let directory = self.maker(directory)?;
                self.remove(directory, name, false)
            }
            Act::RemoveDirectory { directory, name } => {
                let directory = self.maker(directory)?;
                self.remove(directory, name, true)
            }
            Act::Rename { from, to, over } => {
                self.rename((self.maker(from.0)?, from.1), (self.maker(to.0)?, to.1), over)
            }
            Act::Look { .. } | Act::List { .. } | Act::Count { .. } => Ok(()),
        })
    }

    /// Does the deed at a place if that is what was told of it; if nothing was, then only if it is not refused. False if it cannot happen now.
    pub fn happen(&mut self, place: usize, act: &Act, told: Option<&Told>, made: &BTreeSet<u64>) -> bool {
        // That something was looked at of which nobody was told changes nothing.
        if told.is_none() && matches!(act, Act::Look { .. } | Act::List { .. } | Act::Count { .. }) {
            return false;
        }
        let Some(done) = self.act(place, act) else { return false };
        match (told, done) {
            (None, done) => done.is_ok(),
            (Some(Told::Done), Ok(())) => true,
            (Some(Told::Inode(number, is_directory)), Ok(())) => match *act {
                Act::Make { .. } => self.numbers.insert(*number, Some(place)).is_none(),
                Act::Look { directory, name } => {
                    let Some(directory) = self.maker(directory) else { return false };
                    let found = self.inodes[&directory].entries.get(name).copied();
                    found.is_some_and(|found| self.is(found, *number, *is_directory, made))
                }
                _ => false,
            },
            (Some(Told::Names(names)), Ok(())) => {
                let &Act::List { directory } = act else { return false };
                let Some(directory) = self.maker(directory) else { return false };
                let entries = self.inodes[&directory].entries.clone();
                entries.len() == names.len()
                    && entries.into_iter().all(|(name, maker)| {
                        let told = names.get(name);
                        told.is_some_and(|(number, is_directory)| {
                            self.is(maker, *number, *is_directory, made)
                        })
                    })
            }
            (Some(Told::Links(links)), Ok(())) => {
                let &Act::Count { inode } = act else { return false };
                self.maker(inode).is_some_and(|maker| self.inodes[&maker].links == *links)
            }
            (Some(Told::Refused(errno)), Ok(())) => match *act {
                Act::Look { directory, name } => {
                    let Some(directory) = self.maker(directory) else { return false };
                    *errno == Errno::ENOENT && !self.inodes[&directory].entries.contains_key(name)
                }
                Act::Count { inode } => {
                    *errno == Errno::ESTALE
                        && self.maker(inode).is_some_and(|maker| self.inodes[&maker].links == 0)
                }
                _ => false,
            },
            (Some(Told::Refused(errno)), Err(refusal)) => *errno == refusal,
            (Some(_), Err(_)) => false,
        }
    }

    fn maker(&self, number: u64) -> Option<Maker> {
        self.numbers.get(&number).copied()
    }

    /// Whether an inode may have a number that was told: no two have the same, and none has two. Of who was told nothing when it
    /// was made, this is the first that is heard.
    fn is(&mut self, maker: Maker, number: u64, is_directory: bool, made: &BTreeSet<u64>) -> bool {
        let is_known = match self.numbers.get(&number) {
            Some(known) => *known == maker,
            None if made.contains(&number) || self.numbers.values().any(|known| *known == maker) => false,
            None => {
                self.numbers.insert(number, maker);
                true
            }
        };
        is_known && self.inodes[&maker].is_directory == is_directory
    }

    fn entries(&mut self, directory: Maker) -> &mut BTreeMap<Name, Maker> {
        &mut self.inodes.get_mut(&directory).expect("it was made").entries
    }

    fn links(&mut self, inode: Maker, more: i32) {
        let inode = self.inodes.get_mut(&inode).expect("it was made");
        inode.links = inode.links.checked_add_signed(more).expect("each name was counted");
    }

    fn enter(&self, directory: Maker, name: Name) -> Result<(), Errno> {
        match &self.inodes[&directory] {
            Inode { links: 0, .. } => Err(Errno::ENOENT),
            known if known.entries.contains_key(name) => Err(Errno::EEXIST),
            _ => Ok(()),
        }
    }

    fn find(&self, directory: Maker, name: Name) -> Result<Maker, Errno> {
        self.inodes[&directory].entries.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn remove(&mut self, directory: Maker, name: Name, is_directory: bool) -> Result<(), Errno> {
        let found = self.find(directory, name)?;
        match (self.inodes[&found].is_directory, is_directory) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        if !self.inodes[&found].entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.entries(directory).remove(name);
        self.links(found, -1);
        Ok(())
    }

    fn rename(&mut self, from: (Maker, Name), to: (Maker, Name), over: Over) -> Result<(), Errno> {
        let moved = self.find(from.0, from.1)?;
        let other = self.find(to.0, to.1).ok();
        let is_directory = |inode: Maker| self.inodes[&inode].is_directory;
        match other {
            Some(_) if over == Over::Refuse => return Err(Errno::EEXIST),
            None if over == Over::Exchange => return Err(Errno::ENOENT),
            Some(other) if other == moved => return Ok(()),
            Some(other) if over == Over::Replace => match (is_directory(moved), is_directory(other)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            },
            _ => {}
        }
        let is_across = from.0 != to.0;
        let back = other.filter(|_| over == Over::Exchange);
        if is_across && (self.is_in(to.0, moved) || back.is_some_and(|back| self.is_in(from.0, back))) {
            return Err(Errno::EINVAL);
        }
        if self.inodes[&to.0].links == 0 {
            return Err(Errno::ENOENT);
        }
        if let Some(other) = other.filter(|_| back.is_none()) {
            if !self.inodes[&other].entries.is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            self.links(other, -1);
        }
        self.entries(from.0).remove(from.1);
        if let Some(back) = back {
            self.entries(from.0).insert(from.1, back);
        }
        self.entries(to.0).insert(to.1, moved);
        Ok(())
    }

    /// Whether an inode is another one, or below it.
    fn is_in(&self, below: Maker, above: Maker) -> bool {
        below == above || self.inodes[&above].entries.values().any(|inode| self.is_in(below, *inode))
    }
}

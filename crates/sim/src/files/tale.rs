//! What was done to names, and what was told of it.

#![expect(missing_docs, reason = "what fields are is said by their variant")]

use std::collections::BTreeMap;

use tyr_fs::{Errno, Over};

/// A name in a directory.
pub type Name = &'static str;

/// Something that is done to names of directories and files, which are known by the numbers of their inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Makes a file or directory under a new name.
    Make { directory: u64, name: Name, is_directory: bool },
    /// Gives a file another name.
    Link { inode: u64, directory: u64, name: Name },
    /// Takes a name from a file.
    Unlink { directory: u64, name: Name },
    /// Removes an empty directory.
    RemoveDirectory { directory: u64, name: Name },
    /// Gives what has a name another one.
    Rename { from: (u64, Name), to: (u64, Name), over: Over },
    /// Says what a name means.
    Look { directory: u64, name: Name },
    /// Says what names a directory has.
    List { directory: u64 },
    /// Says how many names an inode has.
    Count { inode: u64 },
}

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is done.
    Done,
    /// The number of an inode, and whether it is a directory.
    Inode(u64, bool),
    /// The same of all names.
    Names(BTreeMap<String, (u64, bool)>),
    /// How many names there are.
    Links(u32),
    /// It was refused.
    Refused(Errno),
}

/// Something that was begun at some time; what was told of it and when, unless that is not known: then it may happen at any time, or never.
#[derive(Clone, Debug)]
pub struct Deed {
    /// What.
    pub act: Act,
    /// Since when, in simulated microseconds.
    pub begun: u64,
    /// What was told, and when.
    pub told: Option<(Told, u64)>,
}

/// All that was done in a run, in the order in which it was begun.
#[derive(Debug, Default)]
pub struct Tale {
    /// The deeds.
    pub deeds: Vec<Deed>,
}

impl Tale {
    /// Something is begun. Returns its place.
    pub fn begin(&mut self, now: u64, act: Act) -> usize {
        self.deeds.push(Deed { act, begun: now, told: None });
        self.deeds.len() - 1
    }

    /// Something was told of what was begun.
    pub fn tell(&mut self, now: u64, place: usize, told: Told) {
        self.deeds[place].told = Some((told, now));
    }
}

impl std::fmt::Display for Tale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, Deed { act, begun, told }) in self.deeds.iter().enumerate() {
            match told {
                Some((told, at)) => writeln!(f, "{place}: {begun} to {at}: {act:?}: {told:?}")?,
                None => writeln!(f, "{place}: since {begun}: {act:?}")?,
            }
        }
        Ok(())
    }
}

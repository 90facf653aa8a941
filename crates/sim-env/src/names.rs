//! The directory of the simulated disk: which name belongs to which file, now and durably.
//!
//! Invariants: the current names are the durable ones with all pending changes applied in order; a file has at most one name at a time.
//! What is asked with every operation takes no longer the more changes are pending, for there may be many before a sync.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{inode::CrashMode, random::Random};

/// Identifies a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

/// The names of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    current: Directory,
    durable: Directory,
    pending: Vec<Pending>,
    /// The files that pending changes create.
    created: BTreeSet<FileId>,
}

/// Which name belongs to which file.
#[derive(Clone, Debug, Default)]
struct Directory {
    names: BTreeMap<String, FileId>,
    /// Those that have a name.
    files: BTreeSet<FileId>,
}

/// A change that a crash may undo.
#[derive(Clone, Debug)]
struct Pending {
    change: Change,
    /// A sync of this failed: later ones pass over it.
    abandoned: bool,
}

/// What happens to a name.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create { name: String, file: FileId },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Names {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, FileId)> {
        self.current.names.iter().map(|(name, file)| (name, *file))
    }

    pub(crate) fn file(&self, name: &str) -> Option<FileId> {
        self.current.names.get(name).copied()
    }

    /// Whether the file has a name, or may have one again after a crash.
    pub(crate) fn refers_to(&self, file: FileId) -> bool {
        self.is_current(file) || self.durable.files.contains(&file) || self.created.contains(&file)
    }

    /// Whether the file has a name now.
    pub(crate) fn is_current(&self, file: FileId) -> bool {
        self.current.files.contains(&file)
    }

    /// Changes the names, not durably.
    pub(crate) fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.created.extend(change.created());
        self.pending.push(Pending { change, abandoned: false });
    }

    /// Gives a name to a file and makes all names durable.
    pub(crate) fn plant(&mut self, name: &str, file: FileId) {
        self.current.insert(name.into(), file);
        self.durable = self.current.clone();
        self.pending.clear();
        self.created.clear();
    }

    /// Makes durable what can be made so.
    pub(crate) fn sync(&mut self) {
        (self.durable, self.pending) = self.settle(|pending| !pending.abandoned);
        self.created = self.pending.iter().filter_map(|pending| pending.change.created()).collect();
    }

    /// A sync failed: what is pending now will not be made durable by another one.
    pub(crate) fn abandon(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.abandoned = true);
    }

    /// The names as they are found after a power loss.
    pub(crate) fn crash(&self, mode: CrashMode, random: &mut Random) -> Names {
        let kept_of_eight = match mode {
            CrashMode::LoseAll => 0,
            CrashMode::KeepAll => 8,
            CrashMode::Random => [2, 4, 7][random.index(3)],
        };
        let (names, _) = self.settle(|_| random.in_eight(kept_of_eight));
        Names { current: names.clone(), durable: names, ..Names::default() }
    }

    /// The durable names with some of the pending changes, and the changes that were left out: those that are not to be kept, and
    /// those that come after such a one of the same name.
    fn settle(&self, mut keep: impl FnMut(&Pending) -> bool) -> (Directory, Vec<Pending>) {
        let mut names = self.durable.clone();
        let mut left_out = Vec::new();
        let mut touched: BTreeSet<&str> = BTreeSet::new();
        for pending in &self.pending {
            let follows = pending.change.names().any(|name| touched.contains(name));
            if keep(pending) && !follows {
                pending.change.apply(&mut names);
            } else {
                touched.extend(pending.change.names());
                left_out.push(pending.clone());
            }
        }
        (names, left_out)
    }
}

impl Directory {
    fn insert(&mut self, name: String, file: FileId) {
        if let Some(replaced) = self.names.insert(name, file) {
            self.files.remove(&replaced);
        }
        self.files.insert(file);
    }

    fn remove(&mut self, name: &str) -> Option<FileId> {
        let file = self.names.remove(name)?;
        self.files.remove(&file);
        Some(file)
    }
}

impl Change {
    fn apply(&self, names: &mut Directory) {
        match self {
            Change::Create { name, file } => names.insert(name.clone(), *file),
            Change::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Change::Remove { name } => {
                names.remove(name);
            }
        }
    }

    fn created(&self) -> Option<FileId> {
        match self {
            Change::Create { file, .. } => Some(*file),
            Change::Rename { .. } | Change::Remove { .. } => None,
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let (one, two) = match self {
            Change::Create { name, .. } | Change::Remove { name } => (name, None),
            Change::Rename { from, to } => (from, Some(to)),
        };
        std::iter::once(one).chain(two).map(String::as_str)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Create { name, .. } => write!(f, "create '{name}'"),
            Change::Rename { from, to } => write!(f, "rename '{from}' to '{to}'"),
            Change::Remove { name } => write!(f, "remove '{name}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str, file: u64) -> Change {
        Change::Create { name: name.into(), file: FileId(file) }
    }

    fn rename(from: &str, to: &str) -> Change {
        Change::Rename { from: from.into(), to: to.into() }
    }

    fn shown(names: &Names) -> String {
        names.iter().map(|(name, file)| format!("{name}{}", file.0)).collect::<Vec<_>>().join(" ")
    }

    /// Every outcome of many random crashes.
    fn outcomes(names: &Names) -> BTreeSet<String> {
        let mut random = Random::new(1);
        (0..500).map(|_| shown(&names.crash(CrashMode::Random, &mut random))).collect()
    }

    fn expect(names: &Names, expected: &[&str]) {
        assert_eq!(outcomes(names), expected.iter().map(|s| s.to_string()).collect());
    }

    #[test]
    fn an_unsynced_create_may_vanish() {
        let mut names = Names::default();
        names.change(create("a", 1));
        names.change(create("b", 2));
        expect(&names, &["", "a1", "b2", "a1 b2"]);
        names.sync();
        expect(&names, &["a1 b2"]);
    }

    #[test]
    fn an_unsynced_remove_may_be_undone() {
        let mut names = Names::default();
        names.change(create("a", 1));
        names.sync();
        names.change(Change::Remove { name: "a".into() });
        assert_eq!(shown(&names), "");
        expect(&names, &["", "a1"]);
        names.change(create("a", 2));
        expect(&names, &["", "a1", "a2"]);
    }

    #[test]
    fn an_unsynced_rename_happens_as_a_whole_or_not_at_all() {
        let mut names = Names::default();
        names.change(create("a", 1));
        names.change(create("b", 2));
        names.sync();
        names.change(rename("a", "b"));
        assert_eq!(shown(&names), "b1");
        expect(&names, &["a1 b2", "b1"]);
        assert!(names.refers_to(FileId(2)));
        names.sync();
        assert!(!names.refers_to(FileId(2)));
    }

    #[test]
    fn a_change_is_not_kept_without_an_earlier_one_of_the_same_name() {
        let mut names = Names::default();
        names.change(create("a", 1));
        names.change(rename("a", "b"));
        names.change(rename("b", "c"));
        expect(&names, &["", "a1", "b1", "c1"]);
    }

    #[test]
    fn what_a_failed_sync_left_behind_no_later_one_makes_durable() {
        let mut names = Names::default();
        names.change(create("a", 1));
        names.abandon();
        names.change(rename("a", "b"));
        names.change(create("c", 3));
        names.sync();
        let mut random = Random::new(1);
        assert_eq!(shown(&names), "b1 c3");
        assert_eq!(shown(&names.crash(CrashMode::LoseAll, &mut random)), "c3");
        assert_eq!(shown(&names.crash(CrashMode::KeepAll, &mut random)), "b1 c3");
    }
}

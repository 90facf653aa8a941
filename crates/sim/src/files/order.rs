//! Whether all that was done to names may have happened one after the other, each deed between when it was begun and when it was told of.
//!
//! The search is that of Wing and Gong (JPDC 1993) with the memory of Lowe (2017): what has happened, and what names there are then, is tried
//! once. Deeds of which nothing was told may happen at any time after they were begun, or never.

use std::collections::{BTreeSet, HashSet};

use super::{
    names::Names,
    tale::{Act, Tale, Told},
};

/// Fails with the deeds that no order explains: those that did not happen in the longest order that was found.
pub fn check(tale: &Tale) -> Result<(), String> {
    let made = tale.deeds.iter().filter_map(|deed| match (&deed.act, &deed.told) {
        (Act::Make { .. }, Some((Told::Inode(number, _), _))) => Some(*number),
        _ => None,
    });
    let mut search = Search { tale, made: made.collect(), tried: HashSet::new(), longest: Vec::new() };
    let mut happened = vec![false; tale.deeds.len()];
    if search.go_on(&mut happened, &mut Vec::new(), &Names::default())? {
        return Ok(());
    }
    let left = (0..tale.deeds.len()).filter(|place| !search.longest.contains(place));
    let left: Vec<usize> = left.filter(|place| tale.deeds[*place].told.is_some()).take(8).collect();
    Err(format!("names: no order of what was done explains {left:?} after {:?}:\n{tale}", search.longest))
}

struct Search<'a> {
    tale: &'a Tale,
    /// Numbers of inodes of which was told when they were made.
    made: BTreeSet<u64>,
    tried: HashSet<(Vec<bool>, Names)>,
    longest: Vec<usize>,
}

impl Search<'_> {
    fn go_on(
        &mut self,
        happened: &mut Vec<bool>,
        order: &mut Vec<usize>,
        names: &Names,
    ) -> Result<bool, String> {
        let deeds = &self.tale.deeds;
        let open = || (0..deeds.len()).filter(|place| !happened[*place]);
        let Some(first_told) = open().filter_map(|place| deeds[place].told.as_ref().map(|(_, at)| *at)).min()
        else {
            return Ok(true);
        };
        if !self.tried.insert((happened.clone(), names.clone())) {
            return Ok(false);
        }
        if self.tried.len() > TRIED_MAX {
            return Err(format!("names: too many orders to try:\n{}", self.tale));
        }
        // What was told of comes first: what was not is needed seldom.
        let mut next: Vec<usize> = open().filter(|place| deeds[*place].begun <= first_told).collect();
        next.sort_by_key(|place| deeds[*place].told.as_ref().map_or(u64::MAX, |(_, at)| *at));
        for place in next {
            let deed = &self.tale.deeds[place];
            let mut names = names.clone();
            if names.happen(place, &deed.act, deed.told.as_ref().map(|(told, _)| told), &self.made) {
                happened[place] = true;
                order.push(place);
                if order.len() > self.longest.len() {
                    self.longest.clone_from(order);
                }
                if self.go_on(happened, order, &names)? {
                    return Ok(true);
                }
                order.pop();
                happened[place] = false;
            }
        }
        Ok(false)
    }
}

/// More is not tried.
const TRIED_MAX: usize = 2_000_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tyr_fs::{Errno, Over, ROOT_NUMBER as ROOT};

    use super::*;
    use crate::files::tale::Deed;

    fn tale(deeds: Vec<Deed>) -> Tale {
        Tale { deeds }
    }

    fn make(number: u64, name: &'static str, begun: u64) -> Deed {
        let act = Act::Make { directory: ROOT, name, is_directory: false };
        Deed { act, begun, told: Some((Told::Inode(number, false), begun + 1)) }
    }

    fn rename(begun: u64, told: Option<(Told, u64)>) -> Deed {
        Deed { act: Act::Rename { from: (ROOT, "a"), to: (ROOT, "b"), over: Over::Replace }, begun, told }
    }

    fn list(begun: u64, names: &[(&str, u64)]) -> Deed {
        let names: BTreeMap<String, _> =
            names.iter().map(|(name, number)| ((*name).to_owned(), (*number, false))).collect();
        Deed { act: Act::List { directory: ROOT }, begun, told: Some((Told::Names(names), begun + 1)) }
    }

    fn look(name: &'static str, begun: u64, told: Told) -> Deed {
        Deed { act: Act::Look { directory: ROOT, name }, begun, told: Some((told, begun + 1)) }
    }

    #[test]
    fn what_happened_one_after_the_other_is_explained_and_half_a_rename_is_not() {
        let whole = vec![make(20, "a", 0), make(21, "b", 10), rename(20, Some((Told::Done, 30)))];
        let with = |last| tale(whole.iter().cloned().chain([last]).collect());
        assert_eq!(check(&with(list(40, &[("b", 20)]))), Ok(()));
        for names in [&[("a", 20), ("b", 20)][..], &[("b", 21)], &[("a", 20)], &[]] {
            assert!(check(&with(list(40, names))).is_err(), "{names:?}");
        }
        // While it was under way, both may be seen, but not backwards.
        let [old, new] =
            [[("a", 20), ("b", 21)].as_slice(), &[("b", 20)]].map(|names| move |at| list(at, names));
        assert_eq!(check(&tale([whole.clone(), vec![old(22), new(25)]].concat())), Ok(()));
        assert!(check(&tale([whole.clone(), vec![new(22), old(25)]].concat())).is_err());
    }

    #[test]
    fn what_nobody_was_told_of_happens_late_or_never_but_as_a_whole() {
        let begun = [make(20, "a", 0), rename(5, None)];
        let with = |rest: Vec<_>| tale(begun.iter().cloned().chain(rest).collect());
        let (there, gone) = (Told::Inode(20, false), Told::Refused(Errno::ENOENT));
        let [old, new] = [[("a", 20)], [("b", 20)]].map(|names| move |at| list(at, &names));
        assert_eq!(check(&with(vec![old(10), old(20)])), Ok(()));
        assert_eq!(check(&with(vec![old(10), new(20), look("a", 30, gone.clone())])), Ok(()));
        assert!(check(&with(vec![new(10), old(20)])).is_err());
        assert!(check(&with(vec![look("a", 10, gone.clone()), look("b", 20, gone)])).is_err());
        assert!(check(&with(vec![look("b", 10, there.clone()), look("a", 20, there)])).is_err());
    }

    #[test]
    fn a_file_of_whose_making_nothing_was_told_keeps_the_number_that_is_told_first() {
        let act = Act::Make { directory: ROOT, name: "c", is_directory: false };
        let unknown = Deed { act, begun: 0, told: None };
        let seen = |number, at| look("c", at, Told::Inode(number, false));
        assert_eq!(check(&tale(vec![unknown.clone(), seen(30, 5), seen(30, 9)])), Ok(()));
        assert!(check(&tale(vec![unknown.clone(), seen(30, 5), seen(31, 9)])).is_err());
        assert!(check(&tale(vec![unknown, make(30, "a", 2), seen(30, 5)])).is_err(), "it is another's");
    }
}

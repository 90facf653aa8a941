//! What a transaction saw of one blob, and whether that still holds when it commits.
//!
//! Existence is compared by the blob's identity, size and attributes by value and only if they were seen, bytes by the number of the
//! newest write that touched them, and by their being there still: cutting off a hole is no write. What a transaction did not see cannot conflict.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use tyr_store::{Head, Pin, Stop, Writer};
use tyr_types::{Attributes, Key, KeyspaceId, Number};

/// What was seen of one blob.
pub(crate) struct Observed {
    /// Keeps what was seen readable; `None` in keyspaces without versions.
    pub(crate) pin: Option<Pin>,
    /// The state that was seen, newest first seen where nothing is pinned.
    pub(crate) head: Option<Arc<Head>>,
    /// Whether the size was seen.
    pub(crate) size: bool,
    existence: bool,
    /// The blob must not end before this position, since bytes up to here were seen.
    reach: u64,
    attributes: Seen,
    ranges: Vec<(Range<u64>, Number)>,
    /// With so many ranges it is time to look for some to join.
    ranges_max: usize,
    /// What changed between two reads, where nothing is pinned.
    pub(crate) doomed: Option<&'static str>,
}

/// Which attributes were seen.
enum Seen {
    Names(BTreeSet<String>),
    All,
}

impl Observed {
    pub(crate) fn new(pin: Option<Pin>, head: Option<Arc<Head>>) -> Self {
        Observed {
            pin,
            head,
            size: false,
            existence: false,
            reach: 0,
            attributes: Seen::Names(BTreeSet::new()),
            ranges: Vec::new(),
            ranges_max: RANGES_MAX,
            doomed: None,
        }
    }

    pub(crate) fn see_existence(&mut self) {
        self.existence = true;
    }

    pub(crate) fn see_size(&mut self) {
        self.existence = true;
        self.size = true;
    }

    pub(crate) fn see_attributes(&mut self) {
        self.existence = true;
        self.attributes = Seen::All;
    }

    pub(crate) fn see_attribute(&mut self, name: &str) {
        self.existence = true;
        if let Seen::Names(names) = &mut self.attributes
            && !names.contains(name)
        {
            names.insert(name.into());
        }
    }

    /// Takes note that bytes were seen as they were at a number.
    pub(crate) fn see_bytes(&mut self, range: Range<u64>, at: Number) {
        self.existence = true;
        let size = self.head.as_ref().map_or(0, |head| head.size);
        self.reach = self.reach.max(range.end.min(size));
        if let Some((last, number)) = self.ranges.last_mut()
            && *number == at
            && range.start <= last.end
            && last.start <= range.end
        {
            *last = last.start.min(range.start)..last.end.max(range.end);
            return;
        }
        self.ranges.push((range, at));
        if self.ranges.len() > self.ranges_max {
            self.ranges = coarsened(std::mem::take(&mut self.ranges));
            // Ranges that are far apart stay apart; looking for neighbours again has to be worth it.
            self.ranges_max = RANGES_MAX.max(2 * self.ranges.len());
        }
    }

    /// Takes note of the state that a later read met, which can be another one where nothing is pinned.
    pub(crate) fn meet(&mut self, head: Option<Arc<Head>>) {
        let (old, new) = (self.head.as_deref(), head.as_deref());
        if old.map(|head| head.number) == new.map(|head| head.number) {
            return;
        }
        if self.doomed.is_none() {
            self.doomed = self.difference(new);
        }
        self.head = head;
    }

    /// What of the seen state is different in another one.
    fn difference(&self, new: Option<&Head>) -> Option<&'static str> {
        let old = self.head.as_deref();
        if self.existence && old.map(|head| head.blob) != new.map(|head| head.blob) {
            return Some(match (old, new) {
                (None, _) => "it was created",
                (_, None) => "it was deleted",
                _ => "it was deleted and created anew",
            });
        }
        let (Some(old), Some(new)) = (old, new) else { return None };
        if self.size && old.size != new.size || new.size < self.reach {
            return Some("its size was changed");
        }
        self.attributes.differ(&old.attributes, &new.attributes).then_some("an attribute was changed")
    }

    /// What was changed since by others, if that matters. Must run before anything of the transaction is applied.
    pub(crate) fn conflict(
        &self,
        writer: &mut Writer<'_>,
        keyspace: KeyspaceId,
        key: &Key,
    ) -> Result<Option<String>, Stop<Infallible>> {
        if let Some(what) = self.doomed {
            return Ok(Some(what.into()));
        }
        if !self.existence {
            return Ok(None);
        }
        let head = writer.head(keyspace, key)?;
        if let Some(what) = self.difference(head.as_deref()) {
            return Ok(Some(what.into()));
        }
        if head.is_none() {
            return Ok(None);
        }
        for (range, at) in &self.ranges {
            if writer.newest(keyspace, key, range.clone())? > *at {
                return Ok(Some(format!("bytes in {}..{} were written", range.start, range.end)));
            }
        }
        Ok(None)
    }
}

/// The ranges in order, those joined that overlap and those that lie within [`JOINED_SPAN_MAX`]. That may refuse a commit that would have
/// been possible, but only for a write so close to what was seen.
fn coarsened(mut ranges: Vec<(Range<u64>, Number)>) -> Vec<(Range<u64>, Number)> {
    ranges.sort_by_key(|(range, _)| range.start);
    let mut joined: Vec<(Range<u64>, Number)> = Vec::new();
    for (range, number) in ranges {
        if let Some((last, at)) = joined.last_mut() {
            let end = last.end.max(range.end);
            let is_exact = range.start <= last.end && *at == number;
            if is_exact || end - last.start <= JOINED_SPAN_MAX {
                last.end = end;
                *at = (*at).min(number);
                continue;
            }
        }
        joined.push((range, number));
    }
    joined
}

impl Seen {
    fn differ(&self, old: &Arc<Attributes>, new: &Arc<Attributes>) -> bool {
        match self {
            _ if Arc::ptr_eq(old, new) => false,
            Seen::All => old != new,
            Seen::Names(names) => names.iter().any(|name| old.value(name) != new.value(name)),
        }
    }
}

/// So many ranges of one blob are told apart however close they are.
const RANGES_MAX: usize = 1024;

/// How long a range may become by being joined with another: what the engine keeps together, a leaf.
const JOINED_SPAN_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let mut observed = Observed::new(None, None);
        ranges.for_each(|range| observed.see_bytes(range, Number::first_of_epoch(1)));
        observed.ranges.into_iter().map(|(range, _)| range).collect()
    }

    #[test]
    fn ranges_that_are_far_apart_are_never_joined() {
        let all: Vec<Range<u64>> = (0..5000).map(|n| n * (1 << 20)..n * (1 << 20) + 10).collect();
        // In an order in which no two neighbours follow one another.
        let mut found = seen((0..5000).map(|n| all[n * 1999 % 5000].clone()));
        found.sort_by_key(|range| range.start);
        assert_eq!(found, all);
    }

    #[test]
    fn many_small_ranges_are_joined_within_bounds_and_none_is_forgotten() {
        let all: Vec<Range<u64>> = (0..40_000).map(|n| n * 100..n * 100 + 10).collect();
        let found = seen((0..40_000).map(|n| all[n * 19_997 % 40_000].clone()));
        assert!(found.len() <= 4 * RANGES_MAX, "{} ranges", found.len());
        assert!(found.iter().all(|range| range.end - range.start <= JOINED_SPAN_MAX));
        let covers = |one: &Range<u64>, all: &[Range<u64>]| {
            all.iter().any(|range| range.start <= one.start && one.end <= range.end)
        };
        assert!(all.iter().step_by(97).all(|one| covers(one, &found)));
    }

    #[test]
    fn what_was_seen_at_several_numbers_counts_as_seen_at_the_first() {
        let first = Number::first_of_epoch(1);
        let later = first.next();
        let seen = vec![(10..20, later), (0..5, first), (100..200_000, first), (150_000..300_000, later)];
        assert_eq!(coarsened(seen), [(0..20, first), (100..200_000, first), (150_000..300_000, later)]);
    }
}

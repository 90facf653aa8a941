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
        if self.ranges.len() > RANGES_MAX {
            self.coarsen();
        }
    }

    /// Joins neighbours until half as many ranges are left. May refuse a commit that would have been possible.
    fn coarsen(&mut self) {
        self.ranges.sort_by_key(|(range, _)| range.start);
        let join = |pair: &[(Range<u64>, Number)]| {
            let end = pair.iter().map(|(range, _)| range.end).max().unwrap_or_default();
            let number = pair.iter().map(|(_, number)| *number).min().unwrap_or_default();
            (pair[0].0.start..end, number)
        };
        self.ranges = self.ranges.chunks(2).map(join).collect();
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

impl Seen {
    fn differ(&self, old: &Arc<Attributes>, new: &Arc<Attributes>) -> bool {
        match self {
            _ if Arc::ptr_eq(old, new) => false,
            Seen::All => old != new,
            Seen::Names(names) => names.iter().any(|name| old.value(name) != new.value(name)),
        }
    }
}

/// How many ranges of one blob are told apart.
const RANGES_MAX: usize = 1024;

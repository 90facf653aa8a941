//! Lists names of a keyspace, a page at a time.
//!
//! A page counts what is undecided as if it were there, and so ends before it is known how many names are on it: who lists waits for nobody in
//! another keyspace, nor for what comes after the page, and a partition is not walked to its end for each page of it. Where a page turns out
//! to have too few names, it goes on.

use alloc::{collections::BTreeSet, vec::Vec};

use tyr_types::Number;

use super::Partition;
use crate::{
    BlobName,
    head::Head,
    message::{Answer, RequestId},
};

/// Names that are asked for.
#[derive(Clone, Debug)]
pub struct Page {
    after: BlobName,
    inclusive: bool,
    limit: usize,
    /// The first name that is not on it; `None` if it goes to the keyspace's end.
    rest: Option<BlobName>,
    /// The last writes on it that were undecided when it came to them.
    open: BTreeSet<(BlobName, Number)>,
}

/// A page has at most so many names, however many are asked for.
const NAMES_MAX: usize = 1024;

impl Page {
    /// Asks for names after one, or from it on.
    pub fn new(after: BlobName, inclusive: bool, limit: u32) -> Self {
        let limit = usize::try_from(limit).map_or(NAMES_MAX, |limit| limit.clamp(1, NAMES_MAX));
        Page { rest: Some(after.clone()), after, inclusive, limit, open: BTreeSet::new() }
    }

    /// The writes that it waits for.
    pub fn open(&self) -> impl Iterator<Item = &(BlobName, Number)> {
        self.open.iter()
    }
}

impl Partition {
    /// Whether all that is on a page is decided. A page with too few names goes on until it has them, or something has to be waited for.
    pub(super) fn is_listed(&self, page: &mut Page) -> bool {
        loop {
            let decided = |blob: &BlobName, number: Number| {
                self.state.head(blob).is_none_or(|head| head.is_decided_up_to(number))
            };
            if !page.open().all(|(blob, number)| decided(blob, *number)) {
                return false;
            }
            page.open.clear();
            let Some(from) = page.rest.take() else { return true };
            let room = page.limit.saturating_sub(self.names_before(page, Some(&from)).count());
            if room == 0 {
                page.rest = Some(from);
                return true;
            }
            self.turn_over(page, from, room);
        }
    }

    /// Puts so many more names on a page, as far as there are any.
    fn turn_over(&self, page: &mut Page, from: BlobName, room: usize) {
        let names = self.heads_of(&from).filter(|(blob, _)| page.inclusive || **blob != page.after);
        let mut names = names.filter_map(|(blob, head)| {
            let last = head.places().rev().find(|place| !place.only_reads).map(|place| place.number);
            (head.blob().is_some() || last.is_some()).then_some((blob, last))
        });
        for (blob, last) in names.by_ref().take(room) {
            page.open.extend(last.map(|number| (blob.clone(), number)));
        }
        page.rest = names.next().map(|(blob, _)| blob.clone());
    }

    /// The heads of a blob's keyspace from it on: whoever may list one learns nothing of the others.
    fn heads_of(&self, from: &BlobName) -> impl Iterator<Item = (&BlobName, &Head)> {
        self.state.heads_from(from).take_while(|(blob, _)| blob.keyspace == from.keyspace)
    }

    /// The names that are on a page before what is not.
    fn names_before(&self, page: &Page, rest: Option<&BlobName>) -> impl Iterator<Item = &BlobName> {
        let names =
            self.heads_of(&page.after).filter(|(_, head)| head.blob().is_some()).map(|(blob, _)| blob);
        let names = names.take_while(move |blob| rest.is_none_or(|rest| *blob < rest));
        names.filter(|blob| page.inclusive || **blob != page.after)
    }

    /// What is on a page.
    pub(super) fn names(&self, request: RequestId, page: &Page) -> Answer {
        let names: Vec<BlobName> =
            self.names_before(page, page.rest.as_ref()).take(page.limit).cloned().collect();
        Answer::Names { request, names, more: page.rest.is_some() }
    }
}

//! What a transaction or a snapshot has seen: each blob at one number, held by a pin, so that whoever reads it again sees the same.
//!
//! The first read of a blob asks its head and its chunks at once. What the chunks answer is taken if it is the version that the head
//! names; the rest is read again at the head's number. Of a blob that is lent to the client nothing is asked: the copy says what the head would.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_types::Number;

use super::{Client, Event, FrozenBlob};
use crate::{
    BlobName, ChunkName, Operation, Seen, Time,
    canary::{Canary, planted},
    message::{Looked, READ_SIZE_MAX, RequestId},
    overlay::Overlay,
};

/// Names a read of one transaction or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// What a read answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadAnswer {
    /// The bytes, fewer than were asked for if the blob ends before. `None` if there is no such blob.
    Bytes(Option<Vec<u8>>),
    /// What the blob is, if it exists. For one that the transaction creates, the numbers are zero.
    Stat(Option<Looked>),
    /// What it had seen of the blob is gone: it cannot go on, and is to be run again.
    Lost,
    /// Bytes that were written are nowhere any more: all that held them in memory have ended, and where they were has begun anew.
    BytesLost,
    /// There is no right to read it.
    Denied,
}

/// Blobs as they are seen.
#[derive(Debug, Default)]
pub(super) struct Reads {
    blobs: BTreeMap<BlobName, View>,
    reads: BTreeMap<ReadId, Read>,
    last: u64,
    turn: usize,
    answers: VecDeque<(ReadId, ReadAnswer)>,
}

/// A blob as it is seen.
#[derive(Debug, Default)]
struct View {
    look: Option<RequestId>,
    base: Option<Base>,
    /// Asks whether the blob still is what is seen: what was written was not there.
    doubt: Option<RequestId>,
    /// Whether something is nowhere any more that the blob still has.
    is_lost: bool,
    /// Whether the base is a copy that was lent to the client. Nothing holds its number.
    is_lent: bool,
    /// All that it holds, if that was lent, too.
    content: Option<Arc<[u8]>>,
    /// What was answered of it.
    seen: Seen,
    is_seen: bool,
}

#[derive(Clone, Debug)]
struct Base {
    number: Number,
    blob: Option<Looked>,
}

#[derive(Debug)]
struct Read {
    blob: BlobName,
    wants: Wants,
    /// What the transaction did to the blob before.
    operations: Vec<Operation>,
    pieces: BTreeMap<RequestId, Piece>,
    /// Pieces of newest versions, which came before the head's answer.
    early: Vec<(Piece, Number, Vec<u8>)>,
    base: Vec<(u64, Vec<u8>)>,
    /// Chunks that were written and were not there, with the number of their last write.
    missing: BTreeMap<u64, Number>,
    /// Whether all pieces were asked for.
    is_asked: bool,
}

#[derive(Clone, Debug)]
enum Wants {
    Bytes(Range<u64>),
    Stat,
    /// What it is, without having seen more than whether it is there.
    Probe,
}

/// A part of a read that one message asks for.
#[derive(Clone, Debug)]
struct Piece {
    chunk: u64,
    within: Range<u64>,
    /// Where it begins in the blob.
    start: u64,
    /// Whether the newest version was asked for, which may be another one.
    is_newest: bool,
}

/// A read of more pieces than this first asks what the blob is, and how large.
const EARLY_PIECES_MAX: usize = 8;

impl Reads {
    /// Nothing is seen yet. The turn chooses among replicas.
    pub(super) fn new(turn: usize) -> Self {
        Reads { turn, ..Reads::default() }
    }

    /// Sees blobs as they are frozen.
    pub(super) fn see_frozen(&mut self, blobs: Vec<FrozenBlob>) {
        for (name, number, blob) in blobs {
            let base = Some(Base { number, blob });
            self.blobs.insert(name, View { base, ..View::default() });
        }
    }

    /// The blobs that were looked at.
    pub(super) fn blobs(&self) -> impl Iterator<Item = &BlobName> {
        self.blobs.keys()
    }

    /// The blobs that exist.
    pub(super) fn existing(&self) -> impl Iterator<Item = &BlobName> {
        let exists = |view: &View| view.base.as_ref().is_some_and(|base| base.blob.is_some());
        self.blobs.iter().filter(move |(_, view)| exists(view)).map(|(blob, _)| blob)
    }

    /// Whether a blob was asked about.
    pub(super) fn has(&self, blob: &BlobName) -> bool {
        self.blobs.contains_key(blob)
    }

    /// Whether a blob is known.
    pub(super) fn knows(&self, blob: &BlobName) -> bool {
        self.blobs.get(blob).is_some_and(|view| view.base.is_some())
    }

    /// The number at which a blob is seen.
    pub(super) fn number(&self, blob: &BlobName) -> Option<Number> {
        self.blobs.get(blob).and_then(|view| view.base.as_ref()).map(|base| base.number)
    }

    /// What a blob is that is known to exist, with the number at which it is seen.
    pub(super) fn looked(&self, blob: &BlobName) -> Option<(Number, &Looked)> {
        let base = self.blobs.get(blob)?.base.as_ref()?;
        Some((base.number, base.blob.as_ref()?))
    }

    /// What was seen of a blob.
    pub(super) fn seen(&self, blob: &BlobName) -> Option<Seen> {
        let view = self.blobs.get(blob).filter(|view| view.is_seen)?;
        let number = view.base.as_ref()?.number;
        Some(Seen { number, existence: true, ..view.seen.clone() })
    }

    /// Notes that something of a blob matters.
    pub(super) fn see(&mut self, blob: &BlobName, see: impl FnOnce(&mut Seen)) {
        if let Some(view) = self.blobs.get_mut(blob) {
            view.is_seen = true;
            see(&mut view.seen);
        }
    }

    /// The next answer.
    pub(super) fn poll_answer(&mut self) -> Option<(ReadId, ReadAnswer)> {
        self.answers.pop_front()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.reads.is_empty()
    }

    /// Reads bytes of a blob under some changes of it.
    pub(super) fn read(
        &mut self,
        client: &mut Client,
        now: Time,
        blob: BlobName,
        range: Range<u64>,
        operations: Vec<Operation>,
    ) -> ReadId {
        self.begin(client, now, blob, Wants::Bytes(range), operations)
    }

    /// Asks what a blob is under some changes of it.
    pub(super) fn stat(
        &mut self,
        client: &mut Client,
        now: Time,
        blob: BlobName,
        operations: Vec<Operation>,
    ) -> ReadId {
        self.begin(client, now, blob, Wants::Stat, operations)
    }

    /// Asks what a blob is for somebody who notes himself what he sees of that.
    pub(super) fn probe(&mut self, client: &mut Client, now: Time, blob: BlobName) -> ReadId {
        self.begin(client, now, blob, Wants::Probe, Vec::new())
    }

    fn begin(
        &mut self,
        client: &mut Client,
        now: Time,
        blob: BlobName,
        wants: Wants,
        operations: Vec<Operation>,
    ) -> ReadId {
        self.last += 1;
        let id = ReadId(self.last);
        let mut read = Read {
            blob: blob.clone(),
            wants,
            operations,
            pieces: BTreeMap::new(),
            early: Vec::new(),
            base: Vec::new(),
            missing: BTreeMap::new(),
            is_asked: false,
        };
        let view = self.blobs.entry(blob).or_default();
        if view.base.is_none()
            && view.look.is_none()
            && let Some(copy) = client.copy_of(now, &read.blob)
        {
            let blob = copy.blob.map(Arc::unwrap_or_clone);
            let size = blob.as_ref().map_or(0, |blob| blob.size);
            view.base = Some(Base { number: copy.number, blob });
            // Content that is not all of it is asked for like what was not lent.
            (view.is_lent, view.content) = (true, copy.bytes.filter(|bytes| bytes.len() as u64 == size));
        }
        if view.base.is_none() {
            self.turn += 1;
            let is_first = view.look.is_none();
            view.look.get_or_insert_with(|| client.look(now, read.blob.clone(), self.turn));
            if is_first {
                self.ask_early(client, now, &mut read);
            }
        }
        self.reads.insert(id, read);
        self.go_on(client, now, id);
        id
    }

    /// Asks the chunks before the head has answered.
    fn ask_early(&mut self, client: &mut Client, now: Time, read: &mut Read) {
        let Wants::Bytes(range) = read.wants.clone() else { return };
        let overlay = Overlay::of(&read.operations, true, u64::MAX);
        let needed = overlay.base_of(range);
        let length = |range: &Range<u64>| range.end - range.start;
        if needed.iter().map(length).fold(0, u64::saturating_add) > EARLY_BYTES_MAX {
            return;
        }
        let pieces = self.pieces(client, &read.blob, &needed, true);
        if pieces.len() <= EARLY_PIECES_MAX {
            read.is_asked = true;
            self.ask(client, now, read, pieces, None);
        }
    }

    fn pieces(&self, client: &Client, blob: &BlobName, ranges: &[Range<u64>], is_newest: bool) -> Vec<Piece> {
        let keyspace = client.keyspace(blob);
        let mut pieces = Vec::new();
        for range in ranges {
            for piece in keyspace.pieces(range.start, range.end - range.start) {
                let (chunk, mut within) = (piece.chunk, piece.within);
                let mut start = range.start + piece.part.start as u64;
                while !within.is_empty() {
                    let next = within.end.min(within.start + READ_SIZE_MAX);
                    pieces.push(Piece { chunk, within: within.start..next, start, is_newest });
                    start += next - within.start;
                    within.start = next;
                }
            }
        }
        pieces
    }

    fn ask(
        &mut self,
        client: &mut Client,
        now: Time,
        read: &mut Read,
        pieces: Vec<Piece>,
        at: Option<Number>,
    ) {
        for piece in pieces {
            self.turn += 1;
            let chunk = ChunkName { blob: read.blob.clone(), index: piece.chunk };
            let request = client.read(now, chunk, piece.within.clone(), at, self.turn);
            read.pieces.insert(request, piece);
        }
    }

    /// Does what can be done now for a read: asks for what is missing, or answers.
    fn go_on(&mut self, client: &mut Client, now: Time, id: ReadId) {
        let Some(mut read) = self.reads.remove(&id) else { return };
        let Some(base) = self.blobs.get(&read.blob).and_then(|view| view.base.clone()) else {
            self.reads.insert(id, read);
            return;
        };
        let size = base.blob.as_ref().map_or(0, |blob| blob.size);
        let overlay = Overlay::of(&read.operations, base.blob.is_some(), size);
        if let Wants::Bytes(range) = &read.wants
            && !read.is_asked
        {
            read.is_asked = true;
            let needed = overlay.base_of(range.start..range.end.min(overlay.size).max(range.start));
            let needed: Vec<_> = needed.into_iter().map(|range| range.start..range.end.min(size)).collect();
            let needed: Vec<_> = needed.into_iter().filter(|range| !range.is_empty()).collect();
            let content = self.blobs.get(&read.blob).and_then(|view| view.content.as_deref());
            let (lent, needed) = match content {
                Some(content) => (parts(content, &needed), Vec::new()),
                None => (Vec::new(), needed),
            };
            read.base.extend(lent);
            let pieces = self.pieces(client, &read.blob, &needed, false);
            self.ask(client, now, &mut read, pieces, Some(base.number));
        }
        for (piece, version, bytes) in core::mem::take(&mut read.early) {
            self.take(client, now, &mut read, piece, version, bytes);
        }
        if !read.pieces.is_empty() {
            self.reads.insert(id, read);
        } else if !read.missing.is_empty()
            && let Some(view) = self.blobs.get_mut(&read.blob).filter(|view| !view.is_lost)
        {
            self.turn += 1;
            view.doubt.get_or_insert_with(|| client.look(now, read.blob.clone(), self.turn));
            self.reads.insert(id, read);
        } else {
            self.answer(id, read, &base, &overlay);
        }
    }

    /// What was written is not there. If the blob still is what is seen, it is nowhere; else it was collected since, and what was left of the chunk
    /// was purged.
    fn settle_doubt(&mut self, client: &mut Client, now: Time, name: &BlobName, blob: Option<&Looked>) {
        let Some(view) = self.blobs.get_mut(name) else { return };
        view.doubt.take().into_iter().for_each(|doubt| client.let_go(doubt));
        let of_blob = self.reads.values().filter(|read| read.blob == *name);
        let is_there = |(chunk, number): (&u64, &Number)| {
            blob.is_some_and(|blob| blob.written.get(chunk) == Some(number))
        };
        if of_blob.flat_map(|read| &read.missing).all(is_there) {
            view.is_lost = true;
            self.go_on_with(client, now, name);
        } else {
            self.expire(client, now, name);
        }
    }

    /// Takes a piece, if it is of the version that is seen; else asks for that one.
    fn take(
        &mut self,
        client: &mut Client,
        now: Time,
        read: &mut Read,
        mut piece: Piece,
        version: Number,
        bytes: Vec<u8>,
    ) {
        let Some(base) = self.blobs.get(&read.blob).and_then(|view| view.base.as_ref()) else {
            read.early.push((piece, version, bytes));
            return;
        };
        let Some(blob) = &base.blob else { return };
        let (written, number) =
            (blob.written.get(&piece.chunk).copied().unwrap_or(Number::ZERO), base.number);
        // Behind its end it has nothing, whatever its chunks have, which were asked before that was known. What grows it then shows zeros there.
        let is_within = piece.start < blob.size;
        if piece.is_newest && version != written && is_within {
            piece.is_newest = false;
            self.ask(client, now, read, Vec::from([piece]), Some(number));
        } else if is_within {
            // A replica answers what was decided up to the number that it is asked for, unless its partition has begun anew, or the chunk is gone.
            if version < written && !planted(Canary::CollectedIsRead) {
                read.missing.insert(piece.chunk, written);
            }
            read.base.push((piece.start, bytes));
        }
    }

    fn answer(&mut self, id: ReadId, read: Read, base: &Base, overlay: &Overlay) {
        let Some(view) = self.blobs.get_mut(&read.blob) else { return };
        view.is_seen = true;
        let answer = match read.wants {
            Wants::Bytes(_) if !read.missing.is_empty() => ReadAnswer::BytesLost,
            Wants::Bytes(range) => {
                view.seen.size |= overlay.shows_size(&range);
                overlay.base_of(range.clone()).into_iter().for_each(|range| view.seen.see_bytes(range));
                let read = || overlay.read(read.base, &range).expect("a client has its payload in memory");
                ReadAnswer::Bytes(overlay.exists.then(read))
            }
            Wants::Probe => ReadAnswer::Stat(base.blob.clone()),
            Wants::Stat => {
                view.seen.size |= overlay.depends_on_size;
                view.seen.all_attributes = true;
                ReadAnswer::Stat(overlay.exists.then(|| stat(base, overlay, &read.operations)))
            }
        };
        self.answers.push_back((id, answer));
    }

    /// Takes what the client was told, if it was asked for here.
    pub(super) fn handle(&mut self, client: &mut Client, now: Time, event: &mut Event) -> bool {
        match event {
            Event::Looked(request, number, blob) => {
                let doubts = |(_, view): &(&BlobName, &View)| view.doubt == Some(*request);
                if let Some(name) = self.blobs.iter().find(doubts).map(|(name, _)| name.clone()) {
                    self.settle_doubt(client, now, &name, blob.as_ref());
                    return true;
                }
                let mut views = self.blobs.iter_mut();
                let of_request = |(_, view): &(&BlobName, &mut View)| view.look == Some(*request);
                let Some((name, view)) = views.find(of_request) else { return false };
                view.base = Some(Base { number: *number, blob: blob.clone() });
                let name = name.clone();
                self.go_on_with(client, now, &name);
                true
            }
            Event::Bytes(request, version, bytes, _) => {
                let Some(id) = self.read_of(*request) else { return false };
                let Some(mut read) = self.reads.remove(&id) else { return false };
                if let Some(piece) = read.pieces.remove(request) {
                    self.take(client, now, &mut read, piece, *version, core::mem::take(bytes));
                }
                self.reads.insert(id, read);
                self.go_on(client, now, id);
                true
            }
            Event::Expired(request) => {
                let Some(id) = self.read_of(*request) else { return false };
                let blob = self.reads[&id].blob.clone();
                self.expire(client, now, &blob);
                true
            }
            Event::Denied(request) => {
                let asks = |view: &View| [view.look, view.doubt].contains(&Some(*request));
                let looked = self.blobs.iter().find(|(_, view)| asks(view));
                let read = || self.read_of(*request).map(|id| self.reads[&id].blob.clone());
                let Some(blob) = looked.map(|(blob, _)| blob.clone()).or_else(read) else { return false };
                self.deny(client, &blob);
                true
            }
            _ => false,
        }
    }

    fn read_of(&self, request: RequestId) -> Option<ReadId> {
        let of_request = |(_, read): &(&ReadId, &Read)| read.pieces.contains_key(&request);
        self.reads.iter().find(of_request).map(|(id, _)| *id)
    }

    fn go_on_with(&mut self, client: &mut Client, now: Time, blob: &BlobName) {
        let of_blob = self.reads.iter().filter(|(_, read)| read.blob == *blob).map(|(id, _)| *id);
        for id in of_blob.collect::<Vec<_>>() {
            self.go_on(client, now, id);
        }
    }

    /// What is seen of a blob is gone. If nothing of it was answered, it is looked at again.
    fn expire(&mut self, client: &mut Client, now: Time, blob: &BlobName) {
        let Some(view) = self.blobs.get_mut(blob) else { return };
        let (look, doubt) = (view.look.take(), view.doubt.take());
        let begins_again = (look.is_some() || view.is_lent) && !view.is_seen;
        (view.is_lent, view.is_lost, view.content) = (false, false, None);
        view.base = view.base.take().filter(|_| !begins_again);
        look.into_iter().chain(doubt).for_each(|look| client.let_go(look));
        let of_blob = self.reads.iter().filter(|(_, read)| read.blob == *blob).map(|(id, _)| *id);
        let ids: BTreeSet<ReadId> = of_blob.collect();
        for id in ids {
            let Some(read) = self.reads.remove(&id) else { continue };
            read.pieces.keys().for_each(|request| client.forget(*request));
            if begins_again {
                let empty = Read {
                    pieces: BTreeMap::new(),
                    early: Vec::new(),
                    base: Vec::new(),
                    missing: BTreeMap::new(),
                    is_asked: false,
                    ..read
                };
                self.reads.insert(id, empty);
            } else {
                self.answers.push_back((id, ReadAnswer::Lost));
            }
        }
        if begins_again {
            self.turn += 1;
            let look = client.look(now, blob.clone(), self.turn);
            self.blobs.entry(blob.clone()).or_default().look = Some(look);
        }
    }

    /// There is no right to read a blob.
    fn deny(&mut self, client: &mut Client, blob: &BlobName) {
        if let Some(view) = self.blobs.get_mut(blob) {
            view.look.take().into_iter().chain(view.doubt.take()).for_each(|look| client.let_go(look));
        }
        for (id, read) in self.reads.extract_if(.., |_, read| read.blob == *blob) {
            read.pieces.keys().for_each(|request| client.forget(*request));
            self.answers.push_back((id, ReadAnswer::Denied));
        }
    }

    /// Nobody waits for a read any more. If nothing else was asked of its blob, nothing was seen of it.
    pub(super) fn forget(&mut self, client: &mut Client, id: ReadId) {
        let Some(read) = self.reads.remove(&id) else { return };
        read.pieces.keys().for_each(|request| client.forget(*request));
        let mut of_blob = self.reads.values().filter(|other| other.blob == read.blob);
        if of_blob.all(|other| other.missing.is_empty())
            && let Some(view) = self.blobs.get_mut(&read.blob)
        {
            view.doubt.take().into_iter().for_each(|doubt| client.let_go(doubt));
        }
        let is_needless = |view: &View| view.base.is_none() && !view.is_seen;
        if self.reads.values().all(|other| other.blob != read.blob)
            && self.blobs.get(&read.blob).is_some_and(is_needless)
            && let Some(view) = self.blobs.remove(&read.blob)
        {
            view.look.into_iter().for_each(|look| client.let_go(look));
        }
    }

    /// Lets go of everything.
    pub(super) fn let_go(&mut self, client: &mut Client) {
        for view in self.blobs.values_mut() {
            view.look.take().into_iter().chain(view.doubt.take()).for_each(|look| client.let_go(look));
        }
        for read in core::mem::take(&mut self.reads).into_values() {
            read.pieces.keys().for_each(|request| client.forget(*request));
        }
    }

    /// The blob that a request is to read, and the look that holds what is seen of it.
    pub(super) fn held_for(&self, request: RequestId) -> Option<(BlobName, Option<RequestId>)> {
        let blob = &self.reads[&self.read_of(request)?].blob;
        Some((blob.clone(), self.blobs.get(blob).and_then(|view| view.look)))
    }
}

/// Ranges of all that a blob holds, each with where it begins.
fn parts(content: &[u8], ranges: &[Range<u64>]) -> Vec<(u64, Vec<u8>)> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let part = |range: &Range<u64>| {
        let bytes = content.get(place(range.start)..place(range.end)).unwrap_or_default();
        (range.start, bytes.to_vec())
    };
    ranges.iter().map(part).collect()
}

/// What a blob is under some changes.
fn stat(base: &Base, overlay: &Overlay, operations: &[Operation]) -> Looked {
    let unknown =
        Looked { creation: Number::ZERO, size: 0, attributes: BTreeMap::new(), written: BTreeMap::new() };
    let mut looked = base.blob.clone().unwrap_or_else(|| unknown.clone());
    for operation in operations {
        match operation {
            Operation::Delete => looked = unknown.clone(),
            Operation::SetAttribute { name, value: Some(value) } => {
                looked.attributes.insert(name.clone(), value.clone());
            }
            Operation::SetAttribute { name, value: None } => {
                looked.attributes.remove(name);
            }
            _ => {}
        }
    }
    looked.size = overlay.size;
    looked
}

/// A read of more bytes than this first asks what the blob is, and how large.
const EARLY_BYTES_MAX: u64 = 1 << 20;

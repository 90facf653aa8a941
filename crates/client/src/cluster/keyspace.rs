//! Operations on the blobs of a cluster's keyspace outside transactions: each is a transaction of one, or a read at one number.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::{Range, RangeBounds},
    slice,
    sync::Arc,
    time::Duration,
};

use tyr_embed::{Blob, ErrorKind, KeyspaceSettings, Operand, Result, Stat};
use tyr_proto::{
    BlobCopy, BlobName, ChunkName, Operation, Refusal, ResultValue,
    message::{HeadStat, Looked, READ_SIZE_MAX, STAT_BLOBS_MAX},
};
use tyr_types::{Attributes, Error, Key, KeyspaceId, KeyspaceName, Number, Seek, Transform, range_end};

use super::{
    Core,
    draft::{stat_of, stat_of_head, stat_of_looked},
    reading::{Span, read_blocks},
    run::Run,
    transaction::{Open, PAYLOAD_MAX, appends, fits, passing, punch, puts, set_attribute, writes},
};
use crate::{
    data_size::DataSize,
    driver::call::{Answered, Call, Ended, Found, Got, Newest},
    words,
};

/// What all handles of one keyspace share.
#[derive(Debug)]
pub struct Entry {
    /// Its number.
    pub id: KeyspaceId,
    /// Its name.
    pub name: KeyspaceName,
}

/// A keyspace.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(crate) core: Arc<Core>,
    pub(crate) entry: Arc<Entry>,
}

/// Reads again what was collected while it was read: where nothing is pinned, or after a failure. Not a function that takes what to do:
/// of what is given as an asynchronous closure, the compiler cannot tell whether it may be sent to another thread.
struct Tries {
    until: tokio::time::Instant,
}

impl Tries {
    fn goes_on<T>(&self, result: &Result<T>) -> bool {
        let is_lost = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict);
        is_lost && tokio::time::Instant::now() < self.until
    }
}

impl Keyspace {
    /// See [`crate::Keyspace::within`].
    pub fn within(&self, patience: Duration) -> Keyspace {
        Keyspace { core: self.core.within(patience), entry: self.entry.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.entry.name.as_str()
    }

    /// See [`crate::Keyspace::identity`].
    pub fn identity(&self) -> String {
        format!("cluster-{:016x}-{}", self.core.catalog.seed(self.entry.id), self.entry.id.0)
    }

    /// Its settings as far as they are known here.
    pub fn settings(&self) -> KeyspaceSettings {
        self.core.catalog.settings(self.entry.id)
    }

    /// Fails unless it exists.
    pub fn require(&self) -> Result<()> {
        self.core.catalog.require(self.entry.id, self.name())
    }

    /// The name of a blob.
    pub fn blob(&self, key: &[u8]) -> Result<BlobName> {
        Ok(BlobName { keyspace: self.entry.id, key: Key::new(key)? })
    }

    /// See [`crate::Keyspace::create`].
    pub async fn create(&self, key: &[u8]) -> Result<()> {
        self.apply(key, vec![Operation::Create], 0).await.map(drop)
    }

    /// See [`crate::Keyspace::delete`].
    pub async fn delete(&self, key: &[u8]) -> Result<()> {
        self.apply(key, vec![Operation::Delete], 0).await.map(drop)
    }

    /// See [`crate::Keyspace::write`].
    pub async fn write(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<()> {
        range_end(offset, bytes.len() as u64)?;
        self.apply(key, writes(offset, bytes), bytes.len()).await.map(drop)
    }

    /// See [`crate::Keyspace::put`].
    pub async fn put(&self, key: &[u8], bytes: &[u8]) -> Result<()> {
        self.apply(key, puts(bytes), bytes.len()).await.map(drop)
    }

    /// See [`crate::Keyspace::append`].
    pub async fn append(&self, key: &[u8], bytes: &[u8]) -> Result<u64> {
        match self.apply(key, appends(bytes), bytes.len()).await?.get(&0) {
            Some(ResultValue::Offset(offset)) => Ok(*offset),
            _ => Err(Error::internal("an append has an offset; please report it")),
        }
    }

    /// See [`crate::Keyspace::truncate`].
    pub async fn truncate(&self, key: &[u8], size: u64) -> Result<()> {
        range_end(size, 0)?;
        self.apply(key, vec![Operation::Truncate { size }], 0).await.map(drop)
    }

    /// See [`crate::Keyspace::punch`].
    pub async fn punch(&self, key: &[u8], range: Range<u64>) -> Result<()> {
        self.apply(key, vec![punch(range)?], 0).await.map(drop)
    }

    /// See [`crate::Keyspace::seek`].
    pub async fn seek(&self, key: &[u8], what: Seek, from: u64) -> Result<Option<u64>> {
        let blob = self.required(key)?;
        let tries = self.tries();
        loop {
            let sought = self.seek_once(&blob, what, from).await;
            if !tries.goes_on(&sought) {
                return sought;
            }
        }
    }

    /// The head tells in which chunks something was written, and each of these where. It is asked of several at once.
    async fn seek_once(&self, blob: &BlobName, what: Seek, from: u64) -> Result<Option<u64>> {
        let Some(found) = Open::new(self.core.clone()).probe(blob).await? else {
            return Err(self.missing(&blob.key));
        };
        let Looked { size, written, .. } = found.looked;
        if from >= size {
            return Ok(None);
        }
        let keyspace = self.core.catalog.layout(self.entry.id).ok_or_else(|| words::dropped(self.name()))?;
        let layout = keyspace.placement.layout;
        let mut under_way = VecDeque::new();
        let mut chunks =
            written.keys().copied().skip_while(|chunk| *chunk < layout.chunk_at(from)).peekable();
        // Where it goes on, if nothing was found so far.
        let mut at = from;
        loop {
            while under_way.len() < SEEKS_MAX
                && let Some(chunk) = chunks.next_if(|chunk| layout.range_of(*chunk).start < size)
            {
                let whole = layout.range_of(chunk);
                let range = from.max(whole.start) - whole.start..size.min(whole.end) - whole.start;
                let asked = self.seek_in(blob, chunk, range.clone(), what);
                under_way.push_back((whole.start + range.start..whole.start + range.end, whole.start, asked));
            }
            let Some((range, start, asked)) = under_way.pop_front() else { break };
            if what == Seek::Hole && at < range.start {
                break;
            }
            if let Some(within) = asked.await? {
                return Ok(Some(start + within));
            }
            at = range.end;
        }
        Ok((what == Seek::Hole).then_some(at))
    }

    /// Where in a range of a chunk the first data or hole begins.
    fn seek_in(&self, blob: &BlobName, chunk: u64, range: Range<u64>, what: Seek) -> Answered<Option<u64>> {
        let (chunk, until) = (ChunkName { blob: blob.clone(), index: chunk }, self.core.until());
        self.core.ask(|reply| Call::Seek { chunk, range, what, until, reply })
    }

    /// See [`crate::Keyspace::data_size`].
    pub async fn data_size(&self, key: &[u8]) -> Result<u64> {
        let blob = self.required(key)?;
        let tries = self.tries();
        loop {
            let counted = self.data_size_once(&blob).await;
            if !tries.goes_on(&counted) {
                return counted;
            }
        }
    }

    async fn data_size_once(&self, blob: &BlobName) -> Result<u64> {
        let Some(found) = Open::new(self.core.clone()).probe(blob).await? else {
            return Err(self.missing(&blob.key));
        };
        let Looked { size, written, .. } = found.looked;
        let keyspace = self.core.catalog.layout(self.entry.id).ok_or_else(|| words::dropped(self.name()))?;
        let layout = keyspace.placement.layout;
        let mut sum = 0;
        for chunk in written.keys().copied() {
            let whole = layout.range_of(chunk);
            let range = 0..size.min(whole.end).saturating_sub(whole.start);
            if written.len() > COUNTED_CHUNKS_MAX {
                sum += range.end;
                continue;
            }
            let mut data = DataSize::of(range.clone());
            while let Some((what, from)) = data.question() {
                data.take(self.seek_in(blob, chunk, from..range.end, what).await?);
            }
            sum += data.sum();
        }
        Ok(sum)
    }

    /// See [`crate::Keyspace::transform`].
    pub async fn transform(&self, key: &[u8], offset: u64, transform: Transform) -> Result<Operand> {
        range_end(offset, transform.number_type().size() as u64)?;
        match self.apply(key, vec![Operation::Transform { offset, transform }], 0).await?.get(&0) {
            Some(ResultValue::Old(old)) => Operand::from_le_bytes(transform.number_type(), old),
            _ => Err(Error::internal("a transform has an old value; please report it")),
        }
    }

    /// See [`crate::Keyspace::set_attribute`]. That the blob exists has to be seen, so this may have to be tried again: as a run, whose tries keep a distance from
    /// one another. Whatever they were refused for, it is no more than that there was no time for another one.
    pub async fn set_attribute(&self, key: &[u8], name: &str, value: Option<&[u8]>) -> Result<()> {
        Attributes::default().set(name, value)?;
        let blob = self.required(key)?;
        let until = self.core.until();
        let (mut open, mut run) = (Open::new(self.core.clone()), None);
        loop {
            let found = open.probe(&blob).await?.ok_or_else(|| self.missing(&blob.key))?;
            fits(&found, name, value)?;
            open.change(&blob, vec![set_attribute(name, value)]);
            let refusal = match open.commit(false).await? {
                Ended::Committed(_) => return Ok(()),
                // Like the rest that is no transaction of the caller's, it waits for them.
                Ended::Refused(refusal @ Refusal::TooFewReplicas) => refusal,
                Ended::Refused(refusal) => passing(refusal)?,
            };
            if tokio::time::Instant::now() >= until {
                return Err(words::not_begun(""));
            }
            let run = run.get_or_insert_with(|| Run::new(self.core.clone()));
            run.refused(refusal, BTreeSet::from([blob.clone()]));
            open = run.open().await?;
        }
    }

    /// See [`crate::Keyspace::read`].
    pub async fn read(&self, key: &[u8], range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        let (blob, span) = (self.required(key)?, Span::new(range)?);
        let tries = self.tries();
        loop {
            let read = self.read_once(&blob, span).await;
            if !tries.goes_on(&read) {
                return read?.ok_or_else(|| self.missing(&blob.key));
            }
        }
    }

    async fn read_once(&self, blob: &BlobName, span: Span) -> Result<Option<Vec<u8>>> {
        if let Some(copy) = self.core.copy_of(blob) {
            let Some(looked) = &copy.blob else { return Ok(None) };
            self.note_read(looked.size);
            if let Some(bytes) = &copy.bytes {
                return Ok(Some(span.of(bytes)?.to_vec()));
            }
        }
        if span.is_short()
            && let Some((_, bytes)) = self.read_newest(blob, span.start..span.end()).await?
        {
            return Ok(Some(bytes));
        }
        let open = Open::new(self.core.clone());
        if span.is_short() {
            return read_blocks(span.start..span.end(), span.end(), |range| open.read(blob, range)).await;
        }
        Ok(self.whole(&open, blob, span).await?.map(|(_, bytes)| bytes))
    }

    /// See [`crate::Keyspace::get`].
    pub async fn get(&self, key: &[u8]) -> Result<Blob> {
        let blob = self.required(key)?;
        let tries = self.tries();
        loop {
            let got = self.get_once(&blob, &[]).await;
            if !tries.goes_on(&got) {
                return self.blob_of(&blob, got?.0);
            }
        }
    }

    /// See [`crate::Keyspace::get_with_stats`].
    pub async fn get_with_stats(&self, key: &[u8], others: &[&[u8]]) -> Result<(Blob, Vec<Option<Stat>>)> {
        let blob = self.required(key)?;
        let others: Vec<BlobName> = others.iter().map(|key| self.blob(key)).collect::<Result<_>>()?;
        let (first, rest) = others.split_at(others.len().min(STAT_BLOBS_MAX));
        let tries = self.tries();
        let (got, told) = loop {
            let got = self.get_once(&blob, first).await;
            if !tries.goes_on(&got) {
                break got?;
            }
        };
        let got = self.blob_of(&blob, got)?;
        let mut stats = self.complete(first, told).await?;
        stats.extend(self.stats_of(rest).await?);
        Ok((got, stats))
    }

    fn blob_of(&self, blob: &BlobName, got: Option<(Found, Vec<u8>)>) -> Result<Blob> {
        let (found, bytes) = got.ok_or_else(|| self.missing(&blob.key))?;
        Ok(Blob { stat: stat_of(&found), bytes })
    }

    fn note_read(&self, size: u64) {
        self.core.borrowed.iter().for_each(|borrowed| borrowed.note_read(size));
    }

    /// A blob with its bytes, if it exists, and of others what the node knows that is asked for it.
    async fn get_once(
        &self,
        blob: &BlobName,
        others: &[BlobName],
    ) -> Result<(Option<(Found, Vec<u8>)>, Vec<Option<HeadStat>>)> {
        let Got { found, bytes, others } = self.got(blob, others).await?;
        found.iter().for_each(|found| self.note_read(found.looked.size));
        let whole = match (found, bytes) {
            (None, _) => None,
            (Some(found), Some(bytes)) => Some((found, bytes)),
            (Some(found), None) => match self.newest_of(blob, &found.looked).await? {
                Some(bytes) => Some((found, bytes)),
                None => self.whole(&Open::new(self.core.clone()), blob, Span::ALL).await?,
            },
        };
        Ok((whole, others))
    }

    /// The bytes of a span, from any node that has them all; `None` if a head has to be asked. What one chunk holds needs no transaction:
    /// whoever answers waits for what was being written to it.
    async fn read_newest(&self, blob: &BlobName, range: Range<u64>) -> Result<Option<Newest>> {
        let (blob, until) = (blob.clone(), self.core.until());
        self.core.ask(|reply| Call::ReadNewest { blob, range, until, reply }).await
    }

    /// The bytes of a blob that has one chunk, if these are still what the head has seen.
    async fn newest_of(&self, blob: &BlobName, looked: &Looked) -> Result<Option<Vec<u8>>> {
        let newest = self.read_newest(blob, 0..looked.size).await?;
        let is_seen = |version: &Number| looked.written.values().eq([version]);
        Ok(newest.filter(|(version, _)| is_seen(version)).map(|(_, bytes)| bytes))
    }

    /// What a blob is, if it exists, with its bytes if these are few; and what others are.
    async fn got(&self, blob: &BlobName, others: &[BlobName]) -> Result<Got> {
        let (name, others, until) = (blob.clone(), others.to_vec(), self.core.until());
        if !others.is_empty() || self.core.borrowed.is_none() {
            return self.core.ask(|reply| Call::Get { blob: name, others, until, reply }).await;
        }
        match self.core.copy_of(blob) {
            Some(BlobCopy { blob: None, .. }) => Ok(Got { found: None, bytes: None, others: Vec::new() }),
            Some(BlobCopy { number, blob: Some(looked), bytes: Some(bytes) }) => {
                let found = Found { number, looked: looked.as_ref().clone() };
                Ok(Got { found: Some(found), bytes: Some(bytes.to_vec()), others: Vec::new() })
            }
            _ => self.borrow(blob, READ_SIZE_MAX).await,
        }
    }

    /// What a blob is, if it exists, with its bytes if these are no more than so many. What is answered is kept if it is lent.
    fn borrow(&self, blob: &BlobName, size_max: u64) -> Answered<Got> {
        let (blob, until) = (blob.clone(), self.core.until());
        self.core.ask(|reply| Call::Borrow { blob, size_max, until, reply })
    }

    /// A blob with its bytes in a span, of one version.
    async fn whole(&self, open: &Open, blob: &BlobName, span: Span) -> Result<Option<(Found, Vec<u8>)>> {
        let Some(found) = open.probe(blob).await? else { return Ok(None) };
        let range = span.within(found.looked.size)?;
        let end = range.end;
        let bytes = read_blocks(range, end, |range| open.read(blob, range)).await?;
        Ok(bytes.map(|bytes| (found, bytes)))
    }

    /// See [`crate::Keyspace::stat`].
    pub async fn stat(&self, key: &[u8]) -> Result<Stat> {
        let blob = self.required(key)?;
        self.known(&blob).await?.ok_or_else(|| self.missing(&blob.key))
    }

    /// What a blob is, if it exists.
    async fn known(&self, blob: &BlobName) -> Result<Option<Stat>> {
        let Some(borrowed) = &self.core.borrowed else {
            let told = self.heads(vec![blob.clone()]).await?;
            return Ok(self.complete(slice::from_ref(blob), told).await?.pop().flatten());
        };
        if let Some(BlobCopy { number, blob, .. }) = self.core.copy_of(blob) {
            return Ok(blob.map(|looked| stat_of_looked(number, &looked)));
        }
        let Got { found, bytes, .. } = self.borrow(blob, borrowed.size_max()).await?;
        if bytes.is_some_and(|bytes| !bytes.is_empty()) {
            borrowed.note_sent();
        }
        Ok(found.map(|found| stat_of(&found)))
    }

    /// See [`crate::Keyspace::stats`].
    pub async fn stats(&self, keys: &[&[u8]]) -> Result<Vec<Option<Stat>>> {
        let blobs: Vec<BlobName> = keys.iter().map(|key| self.required(key)).collect::<Result<_>>()?;
        self.stats_of(&blobs).await
    }

    async fn stats_of(&self, blobs: &[BlobName]) -> Result<Vec<Option<Stat>>> {
        if self.core.borrowed.is_some() {
            return self.lent_stats(blobs).await;
        }
        let mut stats = Vec::with_capacity(blobs.len());
        for blobs in blobs.chunks(STATS_AT_ONCE) {
            let asked = |blobs: &[BlobName]| self.heads(blobs.to_vec());
            let all: Vec<_> = blobs.chunks(STAT_BLOBS_MAX).map(|blobs| (blobs, asked(blobs))).collect();
            for (blobs, told) in all {
                stats.extend(self.complete(blobs, told.await?).await?);
            }
        }
        Ok(stats)
    }

    /// What blobs are, each asked of its primary, all at once. What is lent of that is kept: who asks for many mostly asks for each after that.
    async fn lent_stats(&self, blobs: &[BlobName]) -> Result<Vec<Option<Stat>>> {
        let mut stats = Vec::with_capacity(blobs.len());
        for blobs in blobs.chunks(STATS_AT_ONCE) {
            let kept_or_asked = |blob| self.core.copy_of(blob).ok_or_else(|| self.borrow(blob, 0));
            let all: Vec<_> = blobs.iter().map(kept_or_asked).collect();
            for one in all {
                stats.push(match one {
                    Ok(BlobCopy { number, blob, .. }) => blob.map(|looked| stat_of_looked(number, &looked)),
                    Err(asked) => asked.await?.found.map(|found| stat_of(&found)),
                });
            }
        }
        Ok(stats)
    }

    /// What blobs are, the first for certain, the others if the node that answers knows.
    fn heads(&self, blobs: Vec<BlobName>) -> Answered<Vec<Option<HeadStat>>> {
        let until = self.core.until();
        self.core.ask(|reply| Call::Heads { blobs, until, reply })
    }

    /// What blobs are. What one node did not know is asked of those that hold it, at once.
    async fn complete(
        &self,
        blobs: &[BlobName],
        mut told: Vec<Option<HeadStat>>,
    ) -> Result<Vec<Option<Stat>>> {
        let missing = blobs.iter().zip(&mut told).filter(|(_, stat)| stat.is_none());
        let asked: Vec<_> = missing.map(|(blob, stat)| (stat, self.heads(vec![blob.clone()]))).collect();
        for (stat, answer) in asked {
            *stat = answer.await?.pop().flatten();
        }
        let stats = told.into_iter().map(|stat| {
            let HeadStat { number, blob } = stat.expect("a blob that is asked for by itself is told");
            Ok(blob.map(|blob| stat_of_head(number, &blob)))
        });
        stats.collect()
    }

    /// See [`crate::Keyspace::assured`].
    pub fn assured(&self, key: &[u8]) -> Duration {
        self.blob(key).map_or(Duration::ZERO, |blob| self.core.assured(&blob))
    }

    /// See [`crate::Keyspace::exists`].
    pub async fn exists(&self, key: &[u8]) -> Result<bool> {
        let blob = self.required(key)?;
        Ok(self.known(&blob).await?.is_some())
    }

    /// See [`crate::Keyspace::attribute`].
    pub async fn attribute(&self, key: &[u8], name: &str) -> Result<Option<Vec<u8>>> {
        let blob = self.required(key)?;
        let stat = self.known(&blob).await?.ok_or_else(|| self.missing(&blob.key))?;
        Ok(stat.attributes.value(name).map(<[u8]>::to_vec))
    }

    /// A blob that is looked at until it is seen.
    pub(super) async fn found(&self, blob: &BlobName) -> Result<Option<Found>> {
        let tries = self.tries();
        loop {
            let found = Open::new(self.core.clone()).probe(blob).await;
            if !tries.goes_on(&found) {
                return found;
            }
        }
    }

    fn tries(&self) -> Tries {
        Tries { until: self.core.until() }
    }

    fn required(&self, key: &[u8]) -> Result<BlobName> {
        self.require()?;
        self.blob(key)
    }

    /// The error of an operation on a blob that does not exist.
    pub fn missing(&self, key: &Key) -> Error {
        words::no_blob(self.name(), key)
    }

    /// Changes a blob in a transaction of its own.
    async fn apply(
        &self,
        key: &[u8],
        operations: Vec<Operation>,
        bytes: usize,
    ) -> Result<BTreeMap<u16, ResultValue>> {
        let blob = self.required(key)?;
        if bytes as u64 > PAYLOAD_MAX {
            return Err(Error::invalid(format!(
                "{bytes} bytes are too many to be written at once; write parts"
            )));
        }
        let until = self.core.until();
        let key = blob.key.clone();
        let applied = self.core.ask(|reply| Call::Apply { blob, operations, until, reply }).await;
        applied.map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.require().err().unwrap_or_else(|| self.missing(&key)),
            ErrorKind::Exists => {
                let name = self.name();
                Error::exists(format!(
                    "keyspace '{name}' has a blob '{key}' already; delete it first, or write to it"
                ))
            }
            _ => error,
        })
    }
}

/// As many chunks are asked at once where data or holes are.
const SEEKS_MAX: usize = 8;
/// Of so many blobs it is asked at once what they are.
const STATS_AT_ONCE: usize = 4 * STAT_BLOBS_MAX;
/// Of more chunks than these it is not asked how many of their bytes are data.
const COUNTED_CHUNKS_MAX: usize = 64;

//! What a node that starts finds of its partitions: each state from its checkpoint, and the entries that were logged after it.
//!
//! The time that it takes grows with the checkpoints and with what was logged since, which [`super::Options`] bounds.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;
use tyr_proto::{Epoch, Log, Partition, PartitionId, Replica, ShardId, State, entry::Entry};
use tyr_store::{Miss, Store, Wait};
use tyr_types::{Error, Key, KeyspaceId, Number, Result};

use super::{
    CHECKPOINT_BUNDLES, ENTRY_WEIGHT, Journal, Limits, Options, Stored, Tail,
    base::Base,
    bundle::{self, Item},
    bundles::{Bundles, Note},
    keys,
    shelf::{Finder, Shelf},
    start,
};

/// A partition as it was found.
#[derive(Debug)]
pub struct Restored {
    id: PartitionId,
    log: Log,
    state: State,
}

impl Restored {
    /// The partition, at a replica that is this start of the node.
    pub fn into_partition(self, me: Replica) -> Partition {
        Partition::restored(self.id, me, self.log, self.state)
    }
}

impl Journal {
    /// The journal of a shard, with the partitions that are found. Fails with `corrupt` if a log has a hole or cannot be read.
    pub fn open(store: Arc<Store>, shard: ShardId, options: Options) -> Result<(Journal, Vec<Restored>)> {
        let space = start::space(&store)?;
        let limits = Limits::of(store.stats().segment_size);
        let shelf = Shelf::new(&store, space);
        let mut bases = BTreeMap::new();
        for key in keys_of(&store, space, &keys::BASES)? {
            let malformed = || Error::corrupt("a key of the journal is malformed");
            let id = keys::partition_of_base(&key).ok_or_else(malformed)?;
            if shard.holds(id) {
                let base = read(&store, space, &key)?.ok_or_else(|| missing("a base"))?;
                bases.insert(id, Base::decode(&base)?);
            }
        }
        let (mut bundles, mut entries) =
            (Bundles::new(options.checkpoint_size / CHECKPOINT_BUNDLES), BTreeMap::new());
        let mut is_first = true;
        for keys in keys_of(&store, space, &keys::bundles(shard))?.chunks(BUNDLES_AT_ONCE) {
            for (key, bytes) in keys.iter().zip(read_all(&store, space, keys, options.readers)) {
                let number =
                    keys::number_of(key).ok_or_else(|| Error::corrupt("a key of a bundle is malformed"))?;
                if std::mem::take(&mut is_first) {
                    bundles.begin_at(number);
                } else if number != bundles.next() {
                    return Err(missing(&format!("bundle {}", bundles.next())));
                }
                let bytes = bytes?.ok_or_else(|| missing("a bundle"))?;
                bundles.push(bytes.len() as u64);
                let items = bundle::items(&bytes)
                    .map_err(|error| error.context(format_args!("bundle {number} of the journal")))?;
                for item in items {
                    replay(item, &bases, &mut entries, &mut bundles);
                }
            }
        }
        let mut tails = BTreeMap::new();
        let mut found = Vec::new();
        for (id, base) in bases {
            bundles.note(Note::Start(id, base.start));
            let entries = entries.remove(&id).unwrap_or_default();
            let (restored, tail) = restore(&store, space, &shelf, id, base, entries)
                .map_err(|error| error.context(format_args!("the log of partition {id}")))?;
            tails.insert(id, tail);
            found.push(restored);
        }
        let journal = Journal {
            store,
            space,
            shard,
            options,
            limits,
            checkpoints_weight: tails.values().map(|tail: &Tail| tail.checkpoint_weight).sum(),
            tails,
            due: BTreeSet::new(),
            bundles,
            queue: VecDeque::new(),
            committed: VecDeque::new(),
            shelf,
            in_memory: Vec::new(),
            failure: None,
            is_full: false,
            queue_stuck: None,
            trim_stuck: None,
        };
        Ok((journal, found))
    }
}

/// The entries of a log by index, each with its epoch. They are not decoded before all bundles were read, for what one refers to may be gone
/// if it was cut later.
type Entries = BTreeMap<u64, (Epoch, Vec<u8>)>;

/// Does to logs what a bundle says.
fn replay(
    item: Item<'_>,
    bases: &BTreeMap<PartitionId, Base>,
    entries: &mut BTreeMap<PartitionId, Entries>,
    bundles: &mut Bundles,
) {
    match item {
        Item::Entry { stored: Stored { partition, index, epoch }, bytes } => {
            bundles.note(Note::Entry(partition, index, bytes.len() as u64));
            if bases.get(&partition).is_some_and(|base| index > base.start) {
                entries.entry(partition).or_default().insert(index, (epoch, bytes.to_vec()));
            }
        }
        Item::Cut { partition, last } => {
            bundles.note(Note::Cut(partition, last));
            entries.get_mut(&partition).map(|entries| entries.split_off(&last.saturating_add(1)));
        }
    }
}

fn missing(what: &str) -> Error {
    Error::corrupt(format!("{what} is missing"))
}

fn restore(
    store: &Store,
    space: KeyspaceId,
    shelf: &Arc<Shelf>,
    id: PartitionId,
    base: Base,
    entries: Entries,
) -> Result<(Restored, Tail)> {
    let mut payload = Finder::new(shelf.clone(), id);
    let mut state = State::new(id);
    let mut checkpoint_weight = 0;
    if let Some(folded) = base.folded {
        let bytes = read(store, space, &keys::checkpoint(id))?.ok_or_else(|| missing("the checkpoint"))?;
        checkpoint_weight = bytes.len() as u64;
        state = payload.decode(&bytes).map_err(|_| Error::corrupt("the checkpoint is malformed"))?;
        state.cut_log(folded);
    }
    let mut log = Log::after(base.start, base.epochs.clone());
    let mut weight = 0;
    for (found, (epoch, bytes)) in entries {
        let index = log.last() + 1;
        if found != index {
            return Err(missing(&format!("entry {index}")));
        }
        let entry: Entry =
            payload.decode(&bytes).map_err(|_| Error::corrupt(format!("entry {index} is malformed")))?;
        let entry = Arc::new(entry);
        log.push(epoch, entry.clone());
        if base.folded.is_none_or(|folded| index > folded) {
            state.apply(index, epoch, &entry);
            weight += bytes.len() as u64 + ENTRY_WEIGHT;
        }
    }
    if base.folded.is_some_and(|folded| folded > log.last()) {
        return Err(missing(&format!("entry {}", log.last() + 1)));
    }
    let mut next_payload = 0;
    for key in keys_of(store, space, &keys::payloads(id))? {
        let number = keys::number_of(&key).ok_or_else(|| Error::corrupt("a key of payload is malformed"))?;
        if !payload.has(number) {
            // How large it is was not read. It goes with the next checkpoint, and brings none itself.
            shelf.bury(id, number, 0);
        }
        next_payload = number + 1;
    }
    let tail = Tail { last: log.last(), weight, checkpoint_weight, base, next_payload };
    Ok((Restored { id, log, state }, tail))
}

/// The keys that begin with a prefix, in order.
fn keys_of(store: &Store, space: KeyspaceId, prefix: &[u8]) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    loop {
        let after = keys.last().cloned();
        let after = after.as_ref().map(Key::as_bytes);
        let page = store.scan(space, prefix, after, PAGE, Number::MAX)?;
        let is_last = page.len() < PAGE;
        keys.extend(page.into_iter().map(|(key, _)| key));
        if is_last {
            return Ok(keys);
        }
    }
}

/// The bytes of a blob; `None` if there is none.
pub fn read(store: &Store, space: KeyspaceId, key: &Key) -> Result<Option<Vec<u8>>> {
    let miss = |miss| match miss {
        Miss::Failed(error) => error,
        Miss::WouldBlock => Error::internal("a read that may wait did not"),
    };
    let Some(head) = store.head(space, key, Number::MAX, Wait::Allowed).map_err(miss)? else {
        return Ok(None);
    };
    let size = usize::try_from(head.size).map_err(|_| Error::corrupt("a blob does not fit memory"))?;
    let mut bytes = vec![0; size];
    let read = store.read(space, key, Number::MAX, 0, &mut bytes, Wait::Allowed).map_err(miss)?;
    Ok(read.map(|_| bytes))
}

/// The bytes of many blobs, in their order. So many are read at once: one after the other, each would wait for the device.
fn read_all(store: &Store, space: KeyspaceId, keys: &[Key], readers: usize) -> Vec<Result<Option<Vec<u8>>>> {
    let (left, done) = (Mutex::new(keys.iter().enumerate()), Mutex::new(Vec::with_capacity(keys.len())));
    let read_some = || {
        loop {
            let Some((place, key)) = left.lock().next() else { break };
            let bytes = read(store, space, key);
            done.lock().push((place, bytes));
        }
    };
    thread::scope(|scope| {
        for _ in 1..readers {
            // Without a thread the others read it.
            let _ = thread::Builder::new().name("tyr-restore".to_owned()).spawn_scoped(scope, read_some);
        }
        read_some();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Bundles that are in memory together while they are read; a shard's weigh some tens of megabytes in all.
const BUNDLES_AT_ONCE: usize = 4096;
/// Keys that are listed together.
const PAGE: usize = 1024;

//! Entries and leaves in memory: those that changed since the last checkpoint, and a cache of others.
//!
//! Objects are immutable behind `Arc`s and replaced when they change, so a reader keeps what it took. An object is *dirty* from its
//! change until a checkpoint has written that very state to the index; dirty objects are never evicted. Lookups that miss
//! load from the index; a load that raced with an eviction is thrown away, for it may be older than what was evicted.
//!
//! The object that was loaded last is still there when its loader comes back with a lock, unless others have loaded meanwhile; so
//! "load, lock, and once more if it is gone" comes to an end. Every key in a shard's queue has an object, and only one place there. Every
//! clean object has one; a dirty one that is found in the queue leaves it, and comes back when it is clean.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasher, Hash},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::{FxBuildHasher, FxHashMap};

/// A sharded map of objects.
pub struct Objects<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    /// Bytes that all objects may take, by [`Weigh`], before clean ones are evicted.
    budget: usize,
    dirty_bytes: AtomicI64,
    bytes: AtomicI64,
    /// How many [`Hold`]s there are.
    holds: AtomicUsize,
}

/// Keeps everything in memory as long as it exists, for who needs more objects at once than the budget allows.
pub struct Hold<'a>(&'a AtomicUsize);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One shard: a lock, and the objects under it.
pub struct Shard<K, V> {
    slots: FxHashMap<K, Slot<V>>,
    dirty: BTreeSet<K>,
    /// Keys in the order of arrival, for eviction by second chance.
    queue: VecDeque<K>,
    bytes: usize,
    /// Raised by every eviction.
    generation: u64,
}

struct Slot<V> {
    value: Arc<V>,
    weight: usize,
    was_used: bool,
    is_dirty: bool,
    is_queued: bool,
}

/// How much memory an object takes, roughly.
pub trait Weigh {
    /// In bytes, without the key; zero if there is nothing.
    fn weight(&self) -> usize;
}

impl<K: Clone + Eq + Hash + Ord, V: Weigh> Objects<K, V> {
    /// An empty map that evicts clean objects beyond `budget` bytes.
    pub fn new(budget: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        Objects {
            shards,
            budget,
            dirty_bytes: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
            holds: AtomicUsize::new(0),
        }
    }

    /// Evicts nothing until the hold is dropped.
    pub fn hold(&self) -> Hold<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        Hold(&self.holds)
    }

    /// Locks the shard that has the key.
    pub fn lock(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        // The map inside uses the lowest bits for the bucket and the highest for the tag; these choose the shard.
        let hash = FxBuildHasher.hash_one(key);
        self.shards[usize::try_from((hash >> 40) % SHARDS as u64).expect("less than the number of shards")]
            .lock()
    }

    /// The object, if it is in memory.
    pub fn find(&self, key: &K) -> Option<Arc<V>> {
        self.lock(key).find(key)
    }

    /// The object from memory, or else from `load`.
    pub fn find_or_load<E>(&self, key: &K, mut load: impl FnMut() -> Result<V, E>) -> Result<Arc<V>, E> {
        loop {
            let generation = {
                let mut shard = self.lock(key);
                if let Some(value) = shard.find(key) {
                    return Ok(value);
                }
                shard.generation
            };
            let value = Arc::new(load()?);
            let mut shard = self.lock(key);
            if let Some(value) = shard.find(key) {
                return Ok(value);
            }
            if shard.generation == generation {
                self.put(&mut shard, key, value.clone(), false);
                return Ok(value);
            }
        }
    }

    /// Replaces the object in its locked shard and marks it dirty.
    pub fn change(&self, shard: &mut Shard<K, V>, key: &K, value: Arc<V>) {
        self.put(shard, key, value, true);
    }

    fn put(&self, shard: &mut Shard<K, V>, key: &K, value: Arc<V>, is_dirty: bool) {
        let weight = value.weight() + SLOT_WEIGHT;
        let mut delta = 0;
        match shard.slots.get_mut(key) {
            Some(slot) => {
                delta += signed(weight) - signed(slot.weight);
                let dirty_before = if slot.is_dirty { signed(slot.weight) } else { 0 };
                let became_dirty = is_dirty && !slot.is_dirty;
                let dirty_after = if slot.is_dirty || is_dirty { signed(weight) } else { 0 };
                self.dirty_bytes.fetch_add(dirty_after - dirty_before, Ordering::Relaxed);
                slot.value = value;
                slot.weight = weight;
                slot.was_used = true;
                slot.is_dirty |= is_dirty;
                if became_dirty {
                    shard.dirty.insert(key.clone());
                }
            }
            None => {
                delta += signed(weight);
                let slot = Slot { value, weight, was_used: false, is_dirty, is_queued: !is_dirty };
                shard.slots.insert(key.clone(), slot);
                if is_dirty {
                    shard.dirty.insert(key.clone());
                    self.dirty_bytes.fetch_add(signed(weight), Ordering::Relaxed);
                } else {
                    shard.queue.push_back(key.clone());
                }
            }
        }
        self.bytes.fetch_add(delta, Ordering::Relaxed);
        shard.bytes = shard.bytes.saturating_add_signed(isize::try_from(delta).unwrap_or(0));
        self.evict(shard);
    }

    fn evict(&self, shard: &mut Shard<K, V>) {
        if self.holds.load(Ordering::Acquire) > 0 {
            return;
        }
        let budget = self.budget / SHARDS;
        // What was inserted last is at the back and stays, however small the budget.
        let mut chances = shard.queue.len().saturating_sub(1).min(EVICTION_CHANCES);
        while shard.bytes > budget && chances > 0 {
            chances -= 1;
            let Some(key) = shard.queue.pop_front() else { return };
            let Some(slot) = shard.slots.get_mut(&key) else { continue };
            if slot.is_dirty {
                slot.is_queued = false;
                continue;
            }
            if std::mem::take(&mut slot.was_used) {
                shard.queue.push_back(key);
                continue;
            }
            let weight = slot.weight;
            shard.slots.remove(&key);
            self.forget(shard, weight);
        }
    }

    fn forget(&self, shard: &mut Shard<K, V>, weight: usize) {
        shard.bytes = shard.bytes.saturating_sub(weight);
        shard.generation += 1;
        self.bytes.fetch_sub(signed(weight), Ordering::Relaxed);
    }

    /// Removes the clean objects whose key is chosen, and replaces the dirty ones.
    pub fn replace_dirty(&self, mut choose: impl FnMut(&K) -> bool, mut replace: impl FnMut(&V) -> V) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let chosen = shard.slots.iter().filter(|(key, _)| choose(key));
            let chosen: Vec<(K, Arc<V>, bool)> =
                chosen.map(|(key, slot)| (key.clone(), slot.value.clone(), slot.is_dirty)).collect();
            for (key, value, is_dirty) in chosen {
                if is_dirty {
                    self.change(&mut shard, &key, Arc::new(replace(&value)));
                } else if let Some(slot) = shard.slots.remove(&key) {
                    self.forget(&mut shard, slot.weight);
                }
            }
            // A key that was left here would stand for the object that is loaded next: that one would be evicted as it arrives, again and
            // again.
            let Shard { slots, queue, .. } = &mut *shard;
            queue.retain(|key| slots.contains_key(key));
        }
    }

    /// All dirty objects, in no order. A snapshot only if the caller keeps changes out.
    pub fn collect_dirty(&self) -> Vec<(K, Arc<V>)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            all.extend(
                shard.dirty.iter().filter_map(|key| Some((key.clone(), shard.slots.get(key)?.value.clone()))),
            );
        }
        all
    }

    /// Marks an object as clean if it is still as it was collected.
    pub fn mark_clean(&self, key: &K, value: &Arc<V>) {
        let mut shard = self.lock(key);
        let Some(slot) = shard.slots.get_mut(key) else { return };
        if slot.is_dirty && Arc::ptr_eq(&slot.value, value) {
            slot.is_dirty = false;
            let (weight, is_queued) = (slot.weight, std::mem::replace(&mut slot.is_queued, true));
            shard.dirty.remove(key);
            self.dirty_bytes.fetch_sub(signed(weight), Ordering::Relaxed);
            if !is_queued && value.weight() == 0 {
                // Nothing is left of what was deleted, and nobody will look for it.
                shard.slots.remove(key);
                return self.forget(&mut shard, weight);
            }
            if !is_queued {
                shard.queue.push_back(key.clone());
            }
            self.evict(&mut shard);
        }
    }

    /// Up to `limit` dirty objects with keys in the range, in order.
    pub fn dirty_range(&self, range: (Bound<&K>, Bound<&K>), limit: usize) -> Vec<(K, Arc<V>)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let dirty = shard.dirty.range(range).take(limit);
            all.extend(dirty.filter_map(|key| Some((key.clone(), shard.slots.get(key)?.value.clone()))));
        }
        all.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        all.truncate(limit);
        all
    }

    /// The keys of dirty objects that are chosen.
    pub fn dirty_keys(&self, mut choose: impl FnMut(&K) -> bool) -> BTreeSet<K> {
        let mut keys = BTreeSet::new();
        for shard in &self.shards {
            keys.extend(shard.lock().dirty.iter().filter(|key| choose(key)).cloned());
        }
        keys
    }

    /// Bytes of dirty objects.
    pub fn dirty_bytes(&self) -> u64 {
        u64::try_from(self.dirty_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of all objects.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl<K: Eq + Hash, V> Shard<K, V> {
    /// The object, if it is in memory.
    pub fn find(&mut self, key: &K) -> Option<Arc<V>> {
        let slot = self.slots.get_mut(key)?;
        slot.was_used = true;
        Some(slot.value.clone())
    }
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Shard {
            slots: HashMap::default(),
            dirty: BTreeSet::new(),
            queue: VecDeque::new(),
            bytes: 0,
            generation: 0,
        }
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

const SHARDS: usize = 64;

/// Slot, key, queue, and the allocations of an object, roughly.
const SLOT_WEIGHT: usize = 320;

/// How many objects one insertion may look at, which bounds the time under the lock.
const EVICTION_CHANCES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for u64 {
        fn weight(&self) -> usize {
            1000
        }
    }

    impl Weigh for () {
        fn weight(&self) -> usize {
            0
        }
    }

    fn load(value: u64) -> impl FnMut() -> Result<u64, ()> {
        move || Ok(value)
    }

    #[test]
    fn clean_objects_go_and_dirty_ones_stay() {
        let objects: Objects<u64, u64> = Objects::new(64 * 5000);
        for key in 0..500 {
            objects.change(&mut objects.lock(&key), &key, Arc::new(key));
        }
        for key in 500..5000 {
            objects.find_or_load(&key, load(key)).expect("loads");
        }
        assert!((0..500).all(|key| objects.find(&key).is_some()));
        let dirty = objects.collect_dirty();
        assert_eq!(dirty.len(), 500);
        for (key, value) in &dirty {
            objects.mark_clean(key, value);
        }
        assert_eq!(objects.dirty_bytes(), 0);
        for key in 5000..10_000 {
            objects.find_or_load(&key, load(key)).expect("loads");
        }
        assert!(objects.bytes() <= 64 * 5000 + 64 * 1320);
    }

    #[test]
    fn an_object_that_changed_after_it_was_collected_stays_dirty() {
        let objects: Objects<u64, u64> = Objects::new(1 << 20);
        objects.change(&mut objects.lock(&1), &1, Arc::new(10));
        let collected = objects.collect_dirty();
        objects.change(&mut objects.lock(&1), &1, Arc::new(11));
        objects.mark_clean(&collected[0].0, &collected[0].1);
        assert_eq!(objects.collect_dirty().len(), 1);
    }

    #[test]
    fn a_load_that_raced_with_an_eviction_is_tried_again() {
        let objects: Objects<u64, u64> = Objects::new(1 << 20);
        let mut loads = 0;
        let value = objects.find_or_load(&1, || {
            loads += 1;
            if loads == 1 {
                objects.change(&mut objects.lock(&1), &1, Arc::new(7));
                let collected = objects.collect_dirty();
                objects.mark_clean(&1, &collected[0].1);
                objects.replace_dirty(|_| true, |value| *value);
            }
            Ok::<u64, ()>(loads)
        });
        assert_eq!((value.map(|value| *value), loads), (Ok(2), 2));
    }

    #[test]
    fn what_was_loaded_last_stays_however_small_the_budget_also_after_a_removal() {
        let objects: Objects<u64, u64> = Objects::new(0);
        for round in 0..3 {
            objects.find_or_load(&1, load(round)).expect("loads");
            assert!(objects.find(&1).is_some(), "in round {round}");
            objects.replace_dirty(|_| true, |value| *value);
            assert!(objects.find(&1).is_none());
        }
    }

    #[test]
    fn what_was_deleted_leaves_memory_as_soon_as_it_is_clean() {
        let objects: Objects<u64, ()> = Objects::new(1 << 20);
        for key in 0..100 {
            objects.change(&mut objects.lock(&key), &key, Arc::new(()));
        }
        assert!(objects.find(&7).is_some());
        objects.collect_dirty().iter().for_each(|(key, value)| objects.mark_clean(key, value));
        assert_eq!((objects.bytes(), objects.dirty_bytes()), (0, 0));
        assert!(objects.find(&7).is_none());
    }

    #[test]
    fn dirty_keys_are_found_in_order() {
        let objects: Objects<u64, u64> = Objects::new(1 << 20);
        for key in [5, 1, 9, 3, 7] {
            objects.change(&mut objects.lock(&key), &key, Arc::new(key));
        }
        let range = (Bound::Excluded(&1), Bound::Unbounded);
        let keys: Vec<u64> = objects.dirty_range(range, 3).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [3, 5, 7]);
    }
}

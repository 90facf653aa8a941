//! The handles that are alive.
//!
//! A handle is a number that looks like a pointer: the generation of its place, the place, the kind, and one bit so that it is no
//! address of anything. Who has freed it, or has made it up, is told so.

use std::{
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;

use crate::{
    fork,
    status::{Failure, TYR_UNAVAILABLE},
};

/// What a handle may name. `KIND` is its number in handles, `C` its type in C.
pub trait Object: Send + Sync + 'static {
    /// The type that C sees.
    type C;
    /// What it is called in errors.
    const NAME: &'static str;
    /// Wraps it.
    fn wrap(this: Arc<Self>) -> Kept;
    /// Unwraps it.
    fn unwrap(kept: &Kept) -> Option<&Arc<Self>>;
}

macro_rules! objects {
    ($($kept:ident($object:ty) is $c:ty, $name:literal;)*) => {
        /// What a handle names.
        pub enum Kept {
            $(#[doc = $name] $kept(Arc<$object>),)*
        }

        $(
            impl Object for $object {
                type C = $c;
                const NAME: &'static str = $name;
                fn wrap(this: Arc<Self>) -> Kept {
                    Kept::$kept(this)
                }
                fn unwrap(kept: &Kept) -> Option<&Arc<Self>> {
                    match kept {
                        Kept::$kept(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

objects! {
    Store(crate::store::Store) is crate::types::tyr_store, "store";
    Keyspace(crate::keyspace::Keyspace) is crate::types::tyr_keyspace, "keyspace";
    Transaction(crate::transaction::Transaction) is crate::types::tyr_transaction, "transaction";
    Snapshot(crate::snapshot::Snapshot) is crate::types::tyr_snapshot, "snapshot";
    Pending(crate::transaction::Pending) is crate::types::tyr_pending, "pending outcome";
    Receipt(crate::transaction::Receipt) is crate::types::tyr_receipt, "receipt";
    Queue(crate::queue::Queue) is crate::types::tyr_queue, "queue";
    List(crate::list::List) is crate::types::tyr_list, "list";
    Content(crate::list::Content) is crate::types::tyr_content, "content";
    Operation(crate::operation::Operation) is crate::types::tyr_operation, "operation";
}

/// So many parts, so that threads seldom wait for one another.
const SHARDS: usize = 32;
/// Bits of a handle, from the lowest: one that is set, the shard, the place, and the generation.
const SHARD_BITS: u32 = 5;
const PLACE_BITS: u32 = 26;
const GENERATION_BITS: u32 = 64 - 1 - SHARD_BITS - PLACE_BITS;

#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    generation: u64,
    kept: Option<Kept>,
}

struct Registry {
    shards: [RwLock<Shard>; SHARDS],
    next: AtomicUsize,
    forks: u32,
}

static CURRENT: AtomicPtr<Registry> = AtomicPtr::new(null_mut());

/// The registry of this process. One is never freed, so references to it stay valid.
#[inline(always)]
fn registry() -> &'static Registry {
    // SAFETY: it was leaked when it was made.
    match unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        Some(current) => current,
        None => first_registry(),
    }
}

#[cold]
fn first_registry() -> &'static Registry {
    fork::watch();
    let new = Box::leak(Box::new(Registry {
        shards: std::array::from_fn(|_| RwLock::default()),
        next: AtomicUsize::new(0),
        forks: fork::count(),
    }));
    match CURRENT.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        // SAFETY: another thread leaked it in between.
        Err(other) => unsafe { &*other },
    }
}

/// After a fork: what there was is left to the parent, with locks that nobody here can open any more.
pub fn forget() {
    CURRENT.store(null_mut(), Ordering::Release);
}

/// Registers something, and makes its handle.
pub fn insert<T: Object>(object: Arc<T>) -> *mut T::C {
    let registry = registry();
    let shard_number = registry.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
    let mut shard = registry.shards[shard_number].write();
    let place = shard.free.pop().unwrap_or_else(|| {
        shard.slots.push(Slot::default());
        shard.slots.len() - 1
    });
    let slot = &mut shard.slots[place];
    // The forks make handles of a parent others than those of its child.
    slot.generation += 1;
    let generation = (slot.generation << 3) | u64::from(registry.forks & 7);
    slot.kept = Some(T::wrap(object));
    let bits = (generation << (1 + SHARD_BITS + PLACE_BITS))
        | ((place as u64) << (1 + SHARD_BITS))
        | ((shard_number as u64) << 1)
        | 1;
    std::ptr::without_provenance_mut(usize::try_from(bits).unwrap_or(0))
}

const MASK: u64 = (1 << (GENERATION_BITS - 3)) - 1;

struct Parts {
    shard: usize,
    place: usize,
    generation: u64,
    forks: u32,
}

#[inline(always)]
fn parts(bits: u64) -> Option<Parts> {
    let place = (bits >> (1 + SHARD_BITS)) & ((1 << PLACE_BITS) - 1);
    let generation = bits >> (1 + SHARD_BITS + PLACE_BITS);
    (bits & 1 == 1).then_some(Parts {
        shard: usize::try_from((bits >> 1) & (SHARDS as u64 - 1)).ok()?,
        place: usize::try_from(place).ok()?,
        generation: generation >> 3,
        forks: u32::try_from(generation & 7).ok()?,
    })
}

/// What a handle names.
#[inline(always)]
pub fn find<T: Object>(handle: *const T::C) -> Result<Arc<T>, Failure> {
    let bits = handle.addr() as u64;
    let found = parts(bits).and_then(|parts| {
        let registry = registry();
        if parts.forks != registry.forks & 7 {
            return None;
        }
        let shard = registry.shards[parts.shard].read();
        let slot = shard.slots.get(parts.place).filter(|slot| slot.generation == parts.generation)?;
        slot.kept.as_ref().and_then(T::unwrap).cloned()
    });
    found.ok_or_else(|| unknown::<T>(bits))
}

/// Takes a handle out, so that nobody finds what it named any more.
pub fn remove<T: Object>(handle: *mut T::C) -> Result<Arc<T>, Failure> {
    let object = find::<T>(handle)?;
    let bits = handle.addr() as u64;
    let Some(parts) = parts(bits) else { return Err(unknown::<T>(bits)) };
    let mut shard = registry().shards[parts.shard].write();
    let slot = shard.slots.get_mut(parts.place).filter(|slot| slot.generation == parts.generation);
    let taken = slot.and_then(|slot| slot.kept.take());
    if taken.is_none() {
        // Another thread was first.
        return Err(unknown::<T>(bits));
    }
    // One whose generations are used up is left, so that no handle ever comes twice.
    if parts.generation < MASK {
        shard.free.push(parts.place);
    }
    drop(shard);
    // Outside of the lock: what ends with it may call back.
    drop(taken);
    Ok(object)
}

#[cold]
fn unknown<T: Object>(bits: u64) -> Failure {
    let name = T::NAME;
    if bits == 0 {
        return Failure::invalid(format!("the handle of a {name} is null"));
    }
    match parts(bits) {
        Some(parts) if parts.forks != fork::count() & 7 => Failure {
            status: TYR_UNAVAILABLE,
            message: format!("the {name} is of before a fork; a child opens the store itself, or calls exec"),
        },
        _ => Failure::invalid(format!(
            "this is not the handle of a {name}, or not any more: it was freed, or is of something else"
        )),
    }
}

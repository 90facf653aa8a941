//! The handles that are alive.
//!
//! A handle is a number that looks like a pointer: the generation of its place, the place, how many forks ago it was made, and one bit so
//! that it is no address of anything. Who has freed it, or has made it up, is told so.
//!
//! A place counts who uses what lies there, so that finding something takes one atomic step, and letting go of it another. What was freed
//! stays until nobody uses it any more; whoever is the last takes it away.

use std::{
    cell::UnsafeCell,
    ops::Deref,
    ptr::{NonNull, null_mut},
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

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

/// What a handle names, as long as this lives.
pub struct Used<T: Object> {
    slot: &'static Slot,
    object: NonNull<Arc<T>>,
}

// SAFETY: it is a reference to something that threads may share, and what it is counted by is atomic.
unsafe impl<T: Object> Send for Used<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Used<T> {}

impl<T: Object> Used<T> {
    /// Keeps it longer than its handle.
    pub fn arc(&self) -> Arc<T> {
        // SAFETY: it is counted, so it is there.
        unsafe { self.object.as_ref() }.clone()
    }
}

impl<T: Object> Deref for Used<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it is counted, so it is there.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Object> Drop for Used<T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.slot.let_go();
    }
}

/// A place. Its state is the generation, two bits, and how many use what lies there.
struct Slot {
    state: AtomicU64,
    kept: UnsafeCell<Option<Kept>>,
    place: usize,
    registry: &'static Registry,
}

// SAFETY: `kept` is changed only by who has got the right to by the state.
unsafe impl Sync for Slot {}

/// How many may use something, in bits, is more than there can be threads and operations.
const USERS: u64 = (1 << 33) - 1;
/// There is something.
const PRESENT: u64 = 1 << 33;
/// It was not freed.
const ALIVE: u64 = 1 << 34;
/// One generation more.
const GENERATION: u64 = 1 << 35;
const GENERATION_MAX: u64 = (1 << 29) - 1;

impl Slot {
    /// Has one less use it.
    #[inline(always)]
    fn let_go(&'static self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before & (USERS | ALIVE | PRESENT) == PRESENT | 1 {
            self.clear(before - 1);
        }
    }

    /// Takes what was freed away, if nobody uses it.
    #[cold]
    fn clear(&'static self, state: u64) {
        let cleared = state & !PRESENT;
        if self.state.compare_exchange(state, cleared, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // Somebody looked, who does this when they see that it was freed.
            return;
        }
        // SAFETY: nobody uses it, and only one clears what is present.
        let kept = unsafe { &mut *self.kept.get() }.take();
        // One whose generations are used up is left, so that no handle ever comes twice.
        // Nor is one that a child of a fork has found in use.
        if state / GENERATION < GENERATION_MAX && std::ptr::eq(self.registry, registry()) {
            self.registry.places.lock().free.push(self);
        }
        // What ends with it may call back.
        drop(kept);
    }
}

#[derive(Default)]
struct Places {
    free: Vec<&'static Slot>,
    made: usize,
}

/// Places lie in blocks, each twice as long as the one before, which are never freed.
struct Registry {
    blocks: [AtomicPtr<Slot>; BLOCKS],
    places: Mutex<Places>,
    forks: u32,
}

const BLOCKS: usize = 24;
const FIRST_LENGTH: usize = 64;
/// Bits of a handle, from the lowest: one that is set, the place, the forks, and the generation.
const PLACE_BITS: u32 = 31;
const FORK_BITS: u32 = 3;
const FORK_MASK: u32 = (1 << FORK_BITS) - 1;

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
        blocks: std::array::from_fn(|_| AtomicPtr::default()),
        places: Mutex::default(),
        forks: fork::count() & FORK_MASK,
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

impl Registry {
    /// Where a place lies: the block, and which one of it.
    #[inline(always)]
    fn block(place: usize) -> (usize, usize) {
        let number = place + FIRST_LENGTH;
        let bits = number.ilog2();
        ((bits - FIRST_LENGTH.ilog2()) as usize, number - (1 << bits))
    }

    #[inline(always)]
    fn slot(&self, place: usize) -> Option<&'static Slot> {
        let (block, index) = Self::block(place);
        let first = self.blocks.get(block)?.load(Ordering::Acquire);
        // SAFETY: a block that is there has as many places, and is never freed.
        (!first.is_null()).then(|| unsafe { &*first.add(index) })
    }

    /// A place where nothing lies.
    fn vacant(&'static self) -> &'static Slot {
        let mut places = self.places.lock();
        if let Some(slot) = places.free.pop() {
            return slot;
        }
        let first = places.made;
        let (block, index) = Self::block(first);
        if index == 0 {
            let slot =
                |place| Slot { state: AtomicU64::new(0), kept: UnsafeCell::new(None), place, registry: self };
            let slots: Box<[Slot]> = (first..first + (FIRST_LENGTH << block)).map(slot).collect();
            self.blocks[block].store(Box::leak(slots).as_mut_ptr(), Ordering::Release);
        }
        places.made += 1;
        // SAFETY: its block was made with the first place in it.
        unsafe { &*self.blocks[block].load(Ordering::Acquire).add(index) }
    }
}

/// Registers something, and makes its handle.
pub fn insert<T: Object>(object: Arc<T>) -> *mut T::C {
    let registry = registry();
    let slot = registry.vacant();
    // SAFETY: nothing lies there, and nobody else was given the place.
    unsafe { *slot.kept.get() = Some(T::wrap(object)) };
    // Added, because somebody with an old handle may be looking.
    let before = slot.state.fetch_add(GENERATION | ALIVE | PRESENT, Ordering::AcqRel);
    let generation = before / GENERATION + 1;
    let bits = (generation << (1 + PLACE_BITS + FORK_BITS))
        | (u64::from(registry.forks) << (1 + PLACE_BITS))
        | ((slot.place as u64) << 1)
        | 1;
    std::ptr::without_provenance_mut(usize::try_from(bits).unwrap_or(0))
}

struct Parts {
    place: usize,
    forks: u32,
    generation: u64,
}

#[inline(always)]
fn parts(bits: u64) -> Option<Parts> {
    (bits & 1 == 1).then_some(Parts {
        place: ((bits >> 1) & ((1 << PLACE_BITS) - 1)) as usize,
        forks: (bits >> (1 + PLACE_BITS)) as u32 & FORK_MASK,
        generation: bits >> (1 + PLACE_BITS + FORK_BITS),
    })
}

/// What a handle names.
#[inline(always)]
pub fn find<T: Object>(handle: *const T::C) -> Result<Used<T>, Failure> {
    let bits = handle.addr() as u64;
    let found = parts(bits).and_then(|parts| {
        let registry = registry();
        if parts.forks != registry.forks {
            return None;
        }
        let slot = registry.slot(parts.place)?;
        let before = slot.state.fetch_add(1, Ordering::Acquire);
        if before / GENERATION != parts.generation || before & ALIVE == 0 {
            slot.let_go();
            return None;
        }
        // SAFETY: it is counted, so nobody changes it.
        let object = unsafe { &*slot.kept.get() }.as_ref().and_then(T::unwrap);
        match object {
            Some(object) => Some(Used { slot, object: NonNull::from(object) }),
            None => {
                slot.let_go();
                None
            }
        }
    });
    found.ok_or_else(|| unknown::<T>(bits))
}

/// Frees a handle, so that nobody finds what it named any more.
pub fn remove<T: Object>(handle: *mut T::C) -> Result<Used<T>, Failure> {
    let object = find::<T>(handle)?;
    let bits = handle.addr() as u64;
    let free = |state: u64| {
        let is_same = parts(bits).is_some_and(|parts| state / GENERATION == parts.generation);
        (is_same && state & ALIVE != 0).then_some(state & !ALIVE)
    };
    match object.slot.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, free) {
        Ok(_) => Ok(object),
        // Another thread was first.
        Err(_) => Err(unknown::<T>(bits)),
    }
}

#[cold]
fn unknown<T: Object>(bits: u64) -> Failure {
    let name = T::NAME;
    if bits == 0 {
        return Failure::invalid(format!("the handle of a {name} is null"));
    }
    match parts(bits) {
        Some(parts) if fork::count() > 0 && parts.forks != fork::count() & FORK_MASK => Failure {
            status: TYR_UNAVAILABLE,
            message: format!(
                "the {name} is of before a fork; a child calls exec before it opens a store itself"
            ),
        },
        _ => Failure::invalid(format!(
            "this is not the handle of a {name}, or not any more: it was freed, or is of something else"
        )),
    }
}

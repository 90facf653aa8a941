//! What this client has open.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::{
    errno::{Errno, Result},
    inode::Timestamp,
};

/// How often each inode is open here, and what keeps opening and removing apart.
///
/// Who opens a file notes it here first and looks then whether it still has a name; who takes its last name looks here first. Both hold
/// the gate of the inode meanwhile, so that neither comes between the other's two steps.
#[derive(Debug)]
pub(crate) struct Uses {
    open: Mutex<HashMap<u64, Use>>,
    gates: Vec<Arc<RwLock<()>>>,
    /// Inodes of which it may not be known whether they are no more.
    doubted: Arc<Mutex<HashSet<u64>>>,
}

/// The shut gate of an inode. Dropped, it is in doubt whether the inode is still there.
#[derive(Debug)]
pub(crate) struct Shut {
    number: u64,
    is_doubtful: bool,
    doubted: Arc<Mutex<HashSet<u64>>>,
    /// Opened last.
    _gate: OwnedRwLockWriteGuard<()>,
}

impl Shut {
    /// It is known what has become of the inode: what was begun before is refused, if it has not happened.
    fn settle(mut self) {
        self.is_doubtful = false;
        self.doubted.lock().remove(&self.number);
    }

    /// Nothing was begun meanwhile that takes the inode away, or it has not happened.
    fn keep(mut self) {
        self.is_doubtful = false;
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        if self.is_doubtful {
            self.doubted.lock().insert(self.number);
        }
    }
}

/// The gate that a transaction shuts, through all its tries.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Option<Shut>>);

impl Door {
    /// A try begins: what the one before it was to do has not happened.
    pub fn begin(&self) {
        self.0.lock().take().into_iter().for_each(Shut::keep);
    }

    /// A try has shut the gate.
    pub fn hold(&self, shut: Shut) {
        *self.0.lock() = Some(shut);
    }

    /// The transaction has ended. Unless its end is not known, what was to happen has happened, or has not.
    pub fn end<T>(self, result: Result<T>) -> Result<T> {
        let shut = self.0.into_inner();
        match &result {
            Ok(_) => shut.into_iter().for_each(Shut::settle),
            // Who is not let in any more is not told either.
            Err(error) if matches!(error.errno(), Errno::EIO | Errno::EACCES) => {}
            Err(_) => shut.into_iter().for_each(Shut::keep),
        }
        result
    }
}

/// How an inode is open here.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    times: usize,
    /// Where it ends at least, unless somebody has cut it.
    end: u64,
    /// When it was cut last, as far as is known here.
    cut: Option<Timestamp>,
}

/// What is known here of where an inode ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Whether it reaches up to the offset that was asked for.
    pub is_joined: bool,
    /// It does if this is when it was cut last.
    pub cut: Option<Timestamp>,
}

impl Default for Uses {
    fn default() -> Self {
        let gates = (0..GATES).map(|_| Arc::default()).collect();
        Uses { open: Mutex::default(), gates, doubted: Arc::default() }
    }
}

impl Uses {
    /// Waits until nobody here removes the inode, and keeps it so.
    pub async fn enter(&self, number: u64) -> OwnedRwLockReadGuard<()> {
        self.gate(number).read_owned().await
    }

    /// Keeps the inode from being opened here, unless somebody is just opening it.
    pub fn shut(&self, number: u64) -> Option<Shut> {
        let gate = self.gate(number).try_write_owned().ok()?;
        Some(Shut { number, is_doubtful: true, doubted: self.doubted.clone(), _gate: gate })
    }

    /// Whether it may not be known what becomes of an inode that is there: a commit that takes it away may still be under way.
    pub fn is_doubted(&self, number: u64) -> bool {
        self.doubted.lock().contains(&number)
    }

    /// It is there, and what was begun before is refused, for who has [entered](Uses::enter) and has changed the inode since.
    pub fn trust(&self, number: u64) {
        self.doubted.lock().remove(&number);
    }

    fn gate(&self, number: u64) -> Arc<RwLock<()>> {
        let place = usize::try_from(number % GATES as u64).expect("it is less than a usize");
        self.gates[place].clone()
    }

    pub fn add(&self, number: u64) {
        self.open.lock().entry(number).or_default().times += 1;
    }

    /// One use less; whether it was the last.
    pub fn remove(&self, number: u64) -> bool {
        let mut open = self.open.lock();
        match open.get_mut(&number) {
            Some(Use { times: 1, .. }) | None => {
                open.remove(&number);
                true
            }
            Some(uses) => {
                uses.times -= 1;
                false
            }
        }
    }

    /// A range of an inode will be there. Returns what was known of whether it reaches up to where that begins.
    pub fn reach(&self, number: u64, range: Range<u64>) -> Reach {
        let mut open = self.open.lock();
        let Some(uses) = open.get_mut(&number) else { return Reach::default() };
        let is_joined = range.start <= uses.end;
        uses.end = uses.end.max(range.end);
        Reach { is_joined, cut: uses.cut }
    }

    /// It is not known whether a range that begins there has come to be: who writes behind it may leave a hole.
    pub fn doubt(&self, number: u64, start: u64) {
        if let Some(uses) = self.open.lock().get_mut(&number) {
            uses.end = uses.end.min(start);
        }
    }

    /// Whether an inode is known to reach up to an offset.
    pub fn reaches(&self, number: u64, offset: u64) -> Reach {
        let open = self.open.lock();
        let known = open.get(&number).map(|uses| Reach { is_joined: offset <= uses.end, cut: uses.cut });
        known.unwrap_or_default()
    }

    /// An inode was found to be cut last then, and to be as long at least.
    pub fn learn(&self, number: u64, cut: Option<Timestamp>, end: u64) {
        if let Some(uses) = self.open.lock().get_mut(&number) {
            uses.end = if uses.cut == cut { uses.end.max(end) } else { end };
            uses.cut = cut;
        }
    }

    /// An inode has become as long at least, while it was cut last then.
    pub fn extend(&self, number: u64, cut: Option<Timestamp>, end: u64) {
        if let Some(uses) = self.open.lock().get_mut(&number).filter(|uses| uses.cut == cut) {
            uses.end = uses.end.max(end);
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        self.open.lock().contains_key(&number)
    }
}

/// More than threads that open and remove at a time, so that they seldom meet by chance.
const GATES: usize = 256;

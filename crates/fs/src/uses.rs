//! What this client has open.

use std::{collections::HashMap, ops::Range, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How often each inode is open here, and what keeps opening and removing apart.
///
/// Who opens a file notes it here first and looks then whether it still has a name; who takes its last name looks here first. Both hold
/// the gate of the inode meanwhile, so that neither comes between the other's two steps.
#[derive(Debug)]
pub(crate) struct Uses {
    open: Mutex<HashMap<u64, Use>>,
    gates: Vec<Arc<RwLock<()>>>,
}

/// How an inode is open here.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    times: usize,
    /// Where it ends at least, as far as is known here.
    end: u64,
}

impl Default for Uses {
    fn default() -> Self {
        Uses { open: Mutex::default(), gates: (0..GATES).map(|_| Arc::default()).collect() }
    }
}

impl Uses {
    /// Waits until nobody here removes the inode, and keeps it so.
    pub async fn enter(&self, number: u64) -> OwnedRwLockReadGuard<()> {
        self.gate(number).read_owned().await
    }

    /// Keeps the inode from being opened here, unless somebody is just opening it.
    pub fn shut(&self, number: u64) -> Option<OwnedRwLockWriteGuard<()>> {
        self.gate(number).try_write_owned().ok()
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

    /// A range of an inode that is open here is there, or will be. False if nothing was known to be there up to where it begins.
    pub fn reach(&self, number: u64, range: Range<u64>) -> bool {
        let mut open = self.open.lock();
        let Some(uses) = open.get_mut(&number) else { return true };
        let is_joined = range.start <= uses.end;
        uses.end = uses.end.max(range.end);
        is_joined
    }

    /// Whether something is known to be there up to an offset of an inode that is open here.
    pub fn reaches(&self, number: u64, offset: u64) -> bool {
        self.open.lock().get(&number).is_none_or(|uses| offset <= uses.end)
    }

    /// An inode ends somewhere from now on. False if it was not known to be as long before.
    pub fn cut(&self, number: u64, end: u64) -> bool {
        let mut open = self.open.lock();
        let Some(uses) = open.get_mut(&number) else { return false };
        let was_longer = end <= uses.end;
        uses.end = end;
        was_longer
    }

    pub fn contains(&self, number: u64) -> bool {
        self.open.lock().contains_key(&number)
    }
}

/// More than threads that open and remove at a time, so that they seldom meet by chance.
const GATES: usize = 256;

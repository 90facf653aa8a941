//! What this client has open.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How often each inode is open here, and what keeps opening and removing apart.
///
/// Who opens a file notes it here first and looks then whether it still has a name; who takes its last name looks here first. Both hold
/// the gate of the inode meanwhile, so that neither comes between the other's two steps.
#[derive(Debug)]
pub(crate) struct Uses {
    open: Mutex<HashMap<u64, usize>>,
    gates: Vec<Arc<RwLock<()>>>,
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
        *self.open.lock().entry(number).or_default() += 1;
    }

    /// One use less; whether it was the last.
    pub fn remove(&self, number: u64) -> bool {
        let mut open = self.open.lock();
        match open.get_mut(&number) {
            Some(1) | None => {
                open.remove(&number);
                true
            }
            Some(uses) => {
                *uses -= 1;
                false
            }
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        self.open.lock().contains_key(&number)
    }
}

/// More than threads that open and remove at a time, so that they seldom meet by chance.
const GATES: usize = 256;

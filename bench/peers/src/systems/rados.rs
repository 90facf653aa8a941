//! RADOS: one monitor and three BlueStore servers, without authentication, and librados.
//!
//! A counter is added to in three manners: by the class `numops` that comes with RADOS, by writing under the condition that the bytes are
//! still those that were read, and under a lock. Two objects change together only under locks.

mod c;
mod cluster;

use std::{
    ffi::{CStr, CString},
    sync::Arc,
    thread,
    time::Duration,
};

use super::Setting;
use crate::{
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};
use c::{Client, Pool};
use cluster::Cluster;

/// The servers' processes.
pub struct Rados {
    cluster: Cluster,
}

impl Rados {
    /// Starts a cluster with new directories.
    pub async fn start(setting: &Setting, scratch: &Scratch) -> Outcome<Self> {
        Ok(Rados { cluster: Cluster::start(setting, scratch).await? })
    }
}

impl System for Rados {
    fn name(&self) -> &'static str {
        "RADOS"
    }

    /// Those that keep data: the monitor is not on the way of an operation.
    fn processes(&self) -> Vec<u32> {
        self.cluster.servers()
    }

    fn manners(&self, work: Work, _size: usize) -> Vec<Manner> {
        match work {
            Work::Counter => vec![Manner::ServerClass, Manner::CompareAndWrite, Manner::Locks],
            Work::HotTransfer | Work::ColdTransfer => vec![Manner::Locks],
            _ => vec![Manner::Usual],
        }
    }

    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for client in 0..clients {
                let pool = Arc::new(Client::connect(self.cluster.configuration())?.pool(cluster::POOL)?);
                for lane in 0..lanes {
                    let cookie = CString::new(format!("{client}-{lane}"))?;
                    all.push(Box::new(Caller { pool: pool.clone(), manner, cookie, buffer: Vec::new() }));
                }
            }
            Ok(all)
        })
    }
}

/// A caller of a client, which others share.
struct Caller {
    pool: Arc<Pool>,
    manner: Manner,
    /// What tells this holder of locks from others.
    cookie: CString,
    buffer: Vec<u8>,
}

impl Caller {
    /// Each manner has counters of its own: they are kept in other ways.
    fn counter_name(&self, blob: u64) -> Outcome<CString> {
        Ok(CString::new(format!("{blob:x}{}", self.manner.name()))?)
    }

    async fn compare_and_add(&self, name: &CStr) -> Outcome<()> {
        loop {
            let (_, old) = self.pool.read(name, 0, vec![0; 8]).await?;
            let number = i64::from_le_bytes(old.as_slice().try_into()?);
            if self.pool.compare_and_write(name, &old, &(number + 1).to_le_bytes()).await? {
                return Ok(());
            }
        }
    }

    /// Adds to numbers under the locks of all of them, which are taken in the order given, on a thread that may block.
    async fn change_under_locks(&self, changes: Vec<(CString, i64)>) -> Outcome<()> {
        let (pool, cookie) = (self.pool.clone(), self.cookie.clone());
        let change = move || {
            for (name, _) in &changes {
                while !pool.try_lock(name, &cookie)? {
                    thread::sleep(Duration::from_micros(fastrand::u64(LOCK_PAUSE_US)));
                }
            }
            for (name, added) in &changes {
                pool.write_number(name, pool.read_number(name)? + added)?;
            }
            changes.iter().try_for_each(|(name, _)| pool.unlock(name, &cookie))
        };
        tokio::task::spawn_blocking(change).await?
    }
}

impl Lane for Caller {
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { self.pool.write_full(&name(blob)?, payload).await })
    }

    fn get(&mut self, blob: u64, size: usize) -> Doing<'_, usize> {
        self.read(blob, 0, size)
    }

    fn write(&mut self, blob: u64, offset: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { self.pool.write(&name(blob)?, offset, payload).await })
    }

    fn read(&mut self, blob: u64, offset: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(size, 0);
            let (count, buffer) = self.pool.read(&name(blob)?, offset, buffer).await?;
            self.buffer = buffer;
            Ok(count)
        })
    }

    fn append(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { self.pool.append(&name(blob)?, payload).await })
    }

    fn open(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move { self.pool.write_full(&self.counter_name(blob)?, &[0; 8]).await })
    }

    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move {
            let name = self.counter_name(blob)?;
            match self.manner {
                Manner::ServerClass => self.pool.execute(&name, c"numops", c"add", &numops_input()).await,
                Manner::CompareAndWrite => self.compare_and_add(&name).await,
                _ => self.change_under_locks(vec![(name, 1)]).await,
            }
        })
    }

    fn transfer(&mut self, from: u64, to: u64) -> Doing<'_, ()> {
        Box::pin(async move {
            let mut changes = vec![(self.counter_name(from)?, -1), (self.counter_name(to)?, 1)];
            // In one order for all, so that nobody waits for one who waits for them.
            changes.sort_unstable();
            self.change_under_locks(changes).await
        })
    }

    /// What `numops` counts is kept as text under a key of the object.
    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        Box::pin(async move {
            if self.manner == Manner::ServerClass {
                return Ok(None);
            }
            Ok(Some(self.pool.read_number(&self.counter_name(blob)?)?))
        })
    }
}

/// A key and what is added to it, both as text, each with its length before it.
fn numops_input() -> Vec<u8> {
    let mut input = Vec::new();
    for text in ["counter", "1"] {
        input.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
        input.extend(text.as_bytes());
    }
    input
}

fn name(blob: u64) -> Outcome<CString> {
    Ok(CString::new(format!("{blob:x}"))?)
}

/// How long one waits who finds an object locked, at random.
const LOCK_PAUSE_US: std::ops::Range<u64> = 200..1000;

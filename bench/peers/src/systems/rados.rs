//! RADOS: one monitor and three BlueStore servers, without authentication, and librados.
//!
//! A counter is added to in three manners: by the class `numops` that comes with RADOS, by writing under the condition that the bytes are
//! still those that were read, and under a lock. Several objects change together only under locks: they are locked in order, then read,
//! written, and unlocked, each of that for all at once.

mod c;
mod cluster;

use std::{
    ffi::{CStr, CString},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::future::try_join_all;
use tokio::sync::Mutex;

use super::{
    Setting,
    etcd::{Etcd, Gateway},
};
use crate::{
    case::Case,
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};
use c::{Client, Pool};
use cluster::Cluster;

/// The servers' processes.
pub struct Rados {
    cluster: Cluster,
    /// Which may keep the locks.
    etcd: Option<Etcd>,
}

impl Rados {
    /// Starts a cluster with new directories.
    pub async fn start(setting: &Setting, etcd: Option<Etcd>, scratch: &Scratch) -> Outcome<Self> {
        Ok(Rados { cluster: Cluster::start(setting, scratch).await?, etcd })
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

    fn processes_of(&self, manner: Manner) -> Vec<u32> {
        let lockers = self.etcd.iter().filter(|_| manner == Manner::EtcdLocks);
        lockers.flat_map(System::processes).chain(self.processes()).collect()
    }

    fn places(&self) -> Vec<PathBuf> {
        self.cluster.places()
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Counter => vec![Manner::ServerClass, Manner::CompareAndWrite, Manner::Locks],
            Work::Batch => vec![Manner::Separately, Manner::Locks],
            Work::Shared => vec![Manner::OneObject, Manner::Striped],
            Work::HotTransfer | Work::ColdTransfer if self.etcd.is_some() => {
                vec![Manner::Locks, Manner::EtcdLocks]
            }
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
                    let gateway = match &self.etcd {
                        Some(etcd) if manner == Manner::EtcdLocks => {
                            Some(Mutex::new(etcd.gateway(all.len()).await?))
                        }
                        _ => None,
                    };
                    let (pool, buffer) = (pool.clone(), Vec::new());
                    all.push(Box::new(Caller { pool, manner, cookie, gateway, buffer }));
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
    /// Where it takes locks, if RADOS does not keep them.
    gateway: Option<Mutex<Gateway>>,
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

    /// Changes objects under the locks of all of them, which are taken in the order given.
    async fn under_locks(
        &self,
        objects: Vec<CString>,
        change: impl AsyncFnOnce(&[CString]) -> Outcome<()>,
    ) -> Outcome<()> {
        if let Some(gateway) = &self.gateway {
            let mut gateway = gateway.lock().await;
            let names = objects.iter().map(|object| object.to_string_lossy().into_owned());
            let held = gateway.lock(&names.collect::<Vec<_>>()).await?;
            let changed = change(&objects).await;
            gateway.unlock(held).await?;
            return changed;
        }
        let objects = self.lock(objects).await?;
        let changed = change(&objects).await;
        try_join_all(objects.iter().map(|object| self.pool.unlock(object, &self.cookie))).await?;
        changed
    }

    /// Locks objects, on a thread that may block: the library has no other way.
    async fn lock(&self, objects: Vec<CString>) -> Outcome<Vec<CString>> {
        let (pool, cookie) = (self.pool.clone(), self.cookie.clone());
        let lock = move || {
            for object in &objects {
                while !pool.try_lock(object, &cookie)? {
                    thread::sleep(Duration::from_micros(fastrand::u64(LOCK_PAUSE_US)));
                }
            }
            Ok(objects)
        };
        tokio::task::spawn_blocking(lock).await?
    }

    /// Adds to a number, which nobody else may do meanwhile.
    async fn read_and_add(&self, object: &CStr, added: i64) -> Outcome<()> {
        let (_, old) = self.pool.read(object, 0, vec![0; 8]).await?;
        let number = i64::from_le_bytes(old.as_slice().try_into()?);
        self.pool.write(object, 0, &(number + added).to_le_bytes()).await
    }

    async fn add_under_locks(&self, changes: Vec<(CString, i64)>) -> Outcome<()> {
        let (objects, added): (Vec<CString>, Vec<i64>) = changes.into_iter().unzip();
        let change = async |objects: &[CString]| {
            let adds = objects.iter().zip(added).map(|(object, added)| self.read_and_add(object, added));
            try_join_all(adds).await.map(drop)
        };
        self.under_locks(objects, change).await
    }

    /// Where a part of a blob is: in the object of the blob, or in that of a stripe. Parts are not larger than stripes, and aligned.
    fn place(&self, blob: u64, offset: u64) -> Outcome<(CString, u64)> {
        if self.manner == Manner::Striped {
            let stripe = offset / STRIPE_SIZE;
            return Ok((CString::new(format!("{blob:x}.{stripe:x}"))?, offset % STRIPE_SIZE));
        }
        Ok((name(blob)?, offset))
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
        Box::pin(async move {
            let (object, offset) = self.place(blob, offset)?;
            self.pool.write(&object, offset, payload).await
        })
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
                _ => self.add_under_locks(vec![(name, 1)]).await,
            }
        })
    }

    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        Box::pin(async move {
            let named = changes.into_iter().map(|(blob, added)| Ok((self.counter_name(blob)?, added)));
            // They come in one order for all, so that nobody waits for one who waits for them.
            self.add_under_locks(named.collect::<Outcome<_>>()?).await
        })
    }

    fn put_all(&mut self, puts: Vec<(u64, &'static [u8])>) -> Doing<'_, ()> {
        Box::pin(async move {
            let (blobs, payloads): (Vec<u64>, Vec<&[u8]>) = puts.into_iter().unzip();
            let objects = blobs.into_iter().map(name).collect::<Outcome<Vec<CString>>>()?;
            let write = async |objects: &[CString]| {
                let both = objects.iter().zip(payloads);
                try_join_all(both.map(|(object, payload)| self.pool.write_full(object, payload)))
                    .await
                    .map(drop)
            };
            if self.manner == Manner::Separately {
                return write(&objects).await;
            }
            self.under_locks(objects, write).await
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
/// Of a blob that is kept in stripes; that of files of Ceph.
const STRIPE_SIZE: u64 = 4 << 20;

//! RocksDB with blob files, through its C interface, set up as a user who stores blobs would: values of 1 KiB and more go to blob
//! files, whose garbage is collected; a block cache of 256 MiB, a Bloom filter of 10 bits, background threads for every core; sync
//! writes; everything else as the library comes.
//!
//! A small blob is one value. [`Rocks::write`] and [`Rocks::read`] are for large blobs, cut into values of 64 KiB: RocksDB has no
//! writes of parts of a value, and a read of a part reads the value whole. An append is a put under the next number; a counter uses
//! the library's own merge operator for 64-bit sums.
//!
//! All `unsafe` of the benchmark is here.
#![expect(unsafe_code, reason = "RocksDB is called through its C interface")]

use std::{
    ffi::{CStr, CString, c_char},
    os::unix::ffi::OsStrExt,
    ptr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::system::{Durability, Outcome, Setting, System, Temperature};

mod c;

/// An open database.
pub struct Rocks {
    db: *mut c::rocksdb_t,
    write: *mut c::rocksdb_writeoptions_t,
    read: *mut c::rocksdb_readoptions_t,
    appends: AtomicU64,
}

// SAFETY: RocksDB allows calls on one database from any number of threads, and the two option objects are only read after
// `open` has set them.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

/// Bytes of a value of a large blob.
const VALUE_SIZE: u64 = 64 << 10;
const MIN_BLOB_SIZE: u64 = 1 << 10;
const CACHE_SIZE: usize = 256 << 20;
/// Enough for indexes and filters of a benchmark, too little for payload.
const COLD_CACHE_SIZE: usize = 8 << 20;

impl Rocks {
    /// Opens a database, creating it if need be.
    pub fn open(setting: &Setting) -> Outcome<Self> {
        let path = CString::new(setting.directory.as_os_str().as_bytes())?;
        let threads = i32::try_from(thread::available_parallelism()?.get())?;
        let cold = setting.temperature == Temperature::Cold;
        let mut error = ptr::null_mut();
        // SAFETY: every pointer comes from the library's own constructors and is used before it is destroyed; the table options
        // take over the filter, and the options copy the table options and share the cache.
        unsafe {
            let options = c::rocksdb_options_create();
            c::rocksdb_options_set_create_if_missing(options, 1);
            c::rocksdb_options_increase_parallelism(options, threads);
            c::rocksdb_options_set_uint64add_merge_operator(options);
            c::rocksdb_options_set_enable_blob_files(options, 1);
            c::rocksdb_options_set_min_blob_size(options, MIN_BLOB_SIZE);
            c::rocksdb_options_set_enable_blob_gc(options, 1);
            c::rocksdb_options_set_use_direct_reads(options, cold.into());
            let cache = c::rocksdb_cache_create_lru(if cold { COLD_CACHE_SIZE } else { CACHE_SIZE });
            let table = c::rocksdb_block_based_options_create();
            c::rocksdb_block_based_options_set_block_cache(table, cache);
            c::rocksdb_block_based_options_set_filter_policy(
                table,
                c::rocksdb_filterpolicy_create_bloom(10.0),
            );
            c::rocksdb_options_set_block_based_table_factory(options, table);
            let db = c::rocksdb_open(options, path.as_ptr(), &raw mut error);
            c::rocksdb_block_based_options_destroy(table);
            c::rocksdb_cache_destroy(cache);
            c::rocksdb_options_destroy(options);
            check(error)?;
            let write = c::rocksdb_writeoptions_create();
            c::rocksdb_writeoptions_set_sync(write, (setting.durability == Durability::Disk).into());
            Ok(Rocks { db, write, read: c::rocksdb_readoptions_create(), appends: AtomicU64::new(0) })
        }
    }

    fn put_value(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and the slices live throughout the call, which copies them.
        unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            c::rocksdb_put(self.db, self.write, key_at, key.len(), value_at, value.len(), &raw mut error);
            check(error)
        }
    }

    fn with_value<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Outcome<T> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open; the value is looked at before the slice that pins it is destroyed.
        unsafe {
            let pinned =
                c::rocksdb_get_pinned(self.db, self.read, key.as_ptr().cast(), key.len(), &raw mut error);
            check(error)?;
            if pinned.is_null() {
                return Err("no such value".into());
            }
            let mut length = 0;
            let value = c::rocksdb_pinnableslice_value(pinned, &raw mut length);
            let looked = look(std::slice::from_raw_parts(value.cast(), length));
            c::rocksdb_pinnableslice_destroy(pinned);
            Ok(looked)
        }
    }

    fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: the database is open, the name ends with a zero byte, and the value is ours.
        let status = unsafe { c::rocksdb_property_int(self.db, name.as_ptr(), &raw mut value) };
        if status == 0 { value } else { 0 }
    }

    fn flush(&self) -> Outcome<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open; the options are destroyed after the call, which waits.
        unsafe {
            let options = c::rocksdb_flushoptions_create();
            c::rocksdb_flush(self.db, options, &raw mut error);
            c::rocksdb_flushoptions_destroy(options);
            check(error)
        }
    }
}

impl System for Rocks {
    fn put(&self, blob: u64, payload: &'static [u8]) -> Outcome<()> {
        self.put_value(&blob.to_be_bytes(), payload)
    }

    fn get(&self, blob: u64, buffer: &mut [u8]) -> Outcome<()> {
        self.with_value(&blob.to_be_bytes(), |value| buffer.copy_from_slice(value))
    }

    fn put_many(&self, first: u64, payloads: &[&'static [u8]]) -> Outcome<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the batch copies keys and values; it is destroyed after the write, which waits.
        unsafe {
            let batch = c::rocksdb_writebatch_create();
            for (key, payload) in (first..).map(u64::to_be_bytes).zip(payloads) {
                let value = payload.as_ptr().cast();
                c::rocksdb_writebatch_put(batch, key.as_ptr().cast(), key.len(), value, payload.len());
            }
            c::rocksdb_write(self.db, self.write, batch, &raw mut error);
            c::rocksdb_writebatch_destroy(batch);
            check(error)
        }
    }

    /// Only whole values, at their borders.
    fn write(&self, blob: u64, offset: u64, payload: &'static [u8]) -> Outcome<()> {
        for (number, value) in (offset / VALUE_SIZE..).zip(payload.chunks(usize::try_from(VALUE_SIZE)?)) {
            self.put_value(&value_key(blob, number), value)?;
        }
        Ok(())
    }

    fn append(&self, payload: &'static [u8]) -> Outcome<()> {
        self.put_value(&value_key(0, self.appends.fetch_add(1, Ordering::Relaxed)), payload)
    }

    fn read(&self, blob: u64, mut offset: u64, mut buffer: &mut [u8]) -> Outcome<()> {
        while !buffer.is_empty() {
            let within = usize::try_from(offset % VALUE_SIZE)?;
            let length = buffer.len().min(usize::try_from(VALUE_SIZE)? - within);
            let (now, later) = buffer.split_at_mut(length);
            self.with_value(&value_key(blob, offset / VALUE_SIZE), |value| {
                now.copy_from_slice(&value[within..within + length]);
            })?;
            offset += length as u64;
            buffer = later;
        }
        Ok(())
    }

    fn increment(&self) -> Outcome<()> {
        let one = 1_u64.to_le_bytes();
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and the arrays live throughout the call, which copies them.
        unsafe {
            let (key_at, value_at) = (COUNTER.as_ptr().cast(), one.as_ptr().cast());
            c::rocksdb_merge(self.db, self.write, key_at, COUNTER.len(), value_at, one.len(), &raw mut error);
            check(error)
        }
    }

    fn counter(&self) -> Outcome<u64> {
        let sum = self.with_value(COUNTER, |value| value.try_into().map(u64::from_le_bytes))?;
        Ok(sum?)
    }

    fn settle(&self) -> Outcome<()> {
        self.flush()?;
        let busy = [
            c"rocksdb.num-running-flushes",
            c"rocksdb.num-running-compactions",
            c"rocksdb.compaction-pending",
            c"rocksdb.mem-table-flush-pending",
        ];
        while busy.iter().any(|property| self.property(property) > 0) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        self.flush()?;
        // SAFETY: the database is open; without a start and a limit all of it is compacted before the call returns.
        unsafe { c::rocksdb_compact_range(self.db, ptr::null(), 0, ptr::null(), 0) };
        self.settle()
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: nobody else has the database any more; each object is destroyed once.
        unsafe {
            c::rocksdb_close(self.db);
            c::rocksdb_writeoptions_destroy(self.write);
            c::rocksdb_readoptions_destroy(self.read);
        }
    }
}

const COUNTER: &[u8] = b"counter";

fn value_key(blob: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&blob.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Takes over the message that the library allocates on failure.
///
/// # Safety
///
/// `error` is null or was set by the library and is not used again.
unsafe fn check(error: *mut c_char) -> Outcome<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises that it is a string of the library; it is copied, then freed once.
    let message = unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        c::rocksdb_free(error.cast());
        message
    };
    Err(format!("RocksDB: {message}").into())
}

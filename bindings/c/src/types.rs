//! The types that C sees, plain memory all of them.

use std::ffi::{c_char, c_int, c_void};

/// An open store: one in a directory, or a cluster. Threads may share it.
pub struct tyr_store(());
/// An isolated namespace of blobs. Keeps its store open. Threads may share it.
pub struct tyr_keyspace(());
/// A transaction over any number of blobs of a store. Operations on it follow one another in the order in which they were begun.
pub struct tyr_transaction(());
/// All blobs of some keyspaces as they were at one point. Threads may share it.
pub struct tyr_snapshot(());
/// Finds out how a transaction ended whose commit was not answered in time.
pub struct tyr_pending(());
/// What a committed transaction resulted in.
pub struct tyr_receipt(());
/// Where operations are told of that have ended.
pub struct tyr_queue(());
/// An operation under way.
pub struct tyr_operation(());
/// A list: of blobs, keyspaces, attributes, or damage.
pub struct tyr_list(());
/// Bytes that were read.
pub struct tyr_content(());

/// Bytes of the caller: a key, a value, or a part of what is to be written. `data` may be null if there are none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_bytes {
    /// The first of them.
    pub data: *const c_void,
    /// How many.
    pub size: usize,
}

/// Memory of the caller that is read into. `data` may be null if it has no bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_buffer {
    /// Where it begins.
    pub data: *mut c_void,
    /// How many bytes it has.
    pub size: usize,
}

/// What is called when an operation has ended, on a thread of the library. It may call everything in this header, and wait: while it does
/// not return, other callbacks wait, but operations go on. `tyr_error_message` tells what was wrong.
pub type tyr_callback = Option<unsafe extern "C" fn(context: *mut c_void, status: c_int)>;

/// What a run does in each of its tries: `TYR_OK` to have it committed, anything else to end the run with that status. A status that
/// a call in it returned is passed on as it is; numbers above zero are free for the program.
pub type tyr_body =
    Option<unsafe extern "C" fn(context: *mut c_void, transaction: *mut tyr_transaction) -> c_int>;

/// How an operation is told of that the caller does not wait for: at the queue, or, if that is null, by the callback. Read before the
/// call returns; buffers and results must stay where they are until the operation has ended.
#[repr(C)]
pub struct tyr_async {
    /// The queue, or null.
    pub queue: *mut tyr_queue,
    /// The callback, or null.
    pub callback: tyr_callback,
    /// What event or callback are given.
    pub context: *mut c_void,
    /// Set by the call, before the operation can end: for `tyr_cancel`.
    pub operation: *mut tyr_operation,
}

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_event {
    /// What the operation was begun with.
    pub context: *mut c_void,
    /// The operation, which is over.
    pub operation: *mut tyr_operation,
    /// How it ended.
    pub status: c_int,
    /// What was wrong, or an empty text. Valid until this thread waits at a queue again.
    pub message: *const c_char,
}

/// Options for opening a store. Zeros are the defaults, so `tyr_options options = {0};` is a good beginning.
#[repr(C)]
pub struct tyr_options {
    /// How long a call to a cluster waits for an answer, in milliseconds. 30 seconds by default.
    pub deadline_ms: u64,
    /// How long opening a cluster waits for any of its nodes, in milliseconds. 5 seconds by default.
    pub connect_timeout_ms: u64,
    /// Whether a store is created: `TYR_CREATE_*`.
    pub create: c_int,
    /// How a directory is read and written: `TYR_IO_*`.
    pub io: c_int,
    /// Bytes of memory for content that was read or written lately. 256 MiB by default.
    pub data_cache: u64,
    /// Bytes of memory for the index. 256 MiB by default.
    pub index_cache: u64,
    /// Capacity of a segment file, a power of two; fixed when the store is created. 64 MiB by default.
    pub segment_size: u64,
    /// The zone that this client is in, or null.
    pub zone: *const c_char,
    /// For `tyr+tls://`: the file of the authority's certificates, in PEM, or null.
    pub tls_authority: *const c_char,
    /// The file of the own certificate, or null for a client that stays anonymous.
    pub tls_certificate: *const c_char,
    /// The file of its key, or null.
    pub tls_key: *const c_char,
    /// Not 0: nodes on this host send what could be read from their files.
    pub without_files: c_int,
    /// Not 0: the index of a directory is built anew.
    pub rebuild_index: c_int,
    /// The token that says who this client of a cluster is, or null: then the one that the environment variable `TYR_TOKEN` has, or the file
    /// that `TYR_TOKEN_FILE` names.
    pub token: *const c_char,
    /// The file with that token, which only its owner, or its group, may read; or null. Not both.
    pub token_file: *const c_char,
}

/// Open what is there, or create a store in an empty directory. The default.
pub const TYR_CREATE_IF_MISSING: c_int = 0;
/// Only open what is there.
pub const TYR_CREATE_NEVER: c_int = 1;
/// Only create; fail if there is a store.
pub const TYR_CREATE_NEW: c_int = 2;

/// The best that works here. The default.
pub const TYR_IO_AUTO: c_int = 0;
/// Direct I/O and `io_uring`.
pub const TYR_IO_DIRECT_RING: c_int = 1;
/// Direct I/O without `io_uring`.
pub const TYR_IO_DIRECT: c_int = 2;
/// Through the page cache.
pub const TYR_IO_BUFFERED: c_int = 3;

/// The settings of a keyspace. `tyr_settings_default` has the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_settings {
    /// When a commit is acknowledged: `TYR_MEMORY` or `TYR_DISK`.
    pub durability: c_int,
    /// Not 0: superseded versions are kept for readers that pinned them.
    pub multi_version: c_int,
    /// Bytes of a blob that are placed together, a power of two. Cannot be altered.
    pub chunk_size: u64,
    /// The most bytes that the blobs' sizes may add up to, or `TYR_NO_QUOTA`.
    pub quota: u64,
}

/// A commit is acknowledged when it is in memory.
pub const TYR_MEMORY: c_int = 0;
/// A commit is acknowledged when it is on disk.
pub const TYR_DISK: c_int = 1;
/// No quota.
pub const TYR_NO_QUOTA: u64 = u64::MAX;
/// The end of a range that goes on to the end of the blob.
pub const TYR_END: u64 = u64::MAX;
/// What was written is sought.
pub const TYR_DATA: c_int = 0;
/// What was never written, or of which nothing is left, is sought.
pub const TYR_HOLE: c_int = 1;
/// What a list says of a keyspace in a cluster, which does not count.
pub const TYR_UNKNOWN: u64 = u64::MAX;

/// The state of a blob, without its bytes and attributes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct tyr_stat {
    /// Bytes of content.
    pub size: u64,
    /// Which of the blobs that ever had this key it is.
    pub blob: u64,
    /// The number of the transaction that changed it last.
    pub version: u64,
}

/// One of a list. Its bytes are valid as long as the list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_item {
    /// The key of a blob, the name of a keyspace, snapshot, or attribute; or one damage, as a sentence.
    pub key: tyr_bytes,
    /// The value of an attribute.
    pub value: tyr_bytes,
    /// Not 0 unless a blob that was asked for does not exist, or a snapshot is not complete: it is being taken, or who took it has failed.
    pub exists: c_int,
    /// The state of a blob; a list of a scan has no `blob`.
    pub stat: tyr_stat,
    /// The settings of a keyspace.
    pub settings: tyr_settings,
    /// How many blobs a keyspace has, or `TYR_UNKNOWN`.
    pub blobs: u64,
    /// The sum of their sizes, or `TYR_UNKNOWN`.
    pub bytes: u64,
    /// When a snapshot was taken, in seconds since 1970, by the clock of who took it.
    pub taken: u64,
}

/// The value of a number, as its type says.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub union tyr_value {
    pub u8: u8,
    pub u16: u16,
    pub u32: u32,
    pub u64: u64,
    pub i8: i8,
    pub i16: i16,
    pub i32: i32,
    pub i64: i64,
    pub f32: f32,
    pub f64: f64,
}

/// A number that a transform works on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_number {
    /// Its type: `TYR_U8` and so on.
    pub r#type: c_int,
    /// Its value.
    pub value: tyr_value,
}

/// An unsigned number of 8 bits.
pub const TYR_U8: c_int = 0;
/// An unsigned number of 16 bits.
pub const TYR_U16: c_int = 1;
/// An unsigned number of 32 bits.
pub const TYR_U32: c_int = 2;
/// An unsigned number of 64 bits.
pub const TYR_U64: c_int = 3;
/// A signed number of 8 bits.
pub const TYR_I8: c_int = 4;
/// A signed number of 16 bits.
pub const TYR_I16: c_int = 5;
/// A signed number of 32 bits.
pub const TYR_I32: c_int = 6;
/// A signed number of 64 bits.
pub const TYR_I64: c_int = 7;
/// A floating-point number of 32 bits.
pub const TYR_F32: c_int = 8;
/// A floating-point number of 64 bits.
pub const TYR_F64: c_int = 9;

/// What a transform does with the old number and its operand, where the blob lives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_transform {
    /// The op: `TYR_ADD` and so on.
    pub op: c_int,
    /// The operand.
    pub operand: tyr_number,
    /// What `TYR_COMPARE_AND_SWAP` expects, a number of the operand's type; nobody reads it for another op.
    pub expected: tyr_number,
}

/// old + operand. Integers wrap.
pub const TYR_ADD: c_int = 0;
/// old * operand. Integers wrap.
pub const TYR_MULTIPLY: c_int = 1;
/// The smaller of the two.
pub const TYR_MIN: c_int = 2;
/// The larger of the two.
pub const TYR_MAX: c_int = 3;
/// Bitwise and; integers only.
pub const TYR_AND: c_int = 4;
/// Bitwise or; integers only.
pub const TYR_OR: c_int = 5;
/// Bitwise exclusive or; integers only.
pub const TYR_XOR: c_int = 6;
/// The operand.
pub const TYR_SWAP: c_int = 7;
/// The operand if the old number's bits equal those that are expected, else the old number.
pub const TYR_COMPARE_AND_SWAP: c_int = 8;

/// A condition on the committed state of a blob at the moment of the commit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tyr_check {
    /// Which: `TYR_CHECK_*`.
    pub what: c_int,
    /// A version, a size, or the offset of bytes.
    pub number: u64,
    /// The bytes at the offset, or the value of the attribute.
    pub bytes: tyr_bytes,
    /// The name of the attribute.
    pub name: *const c_char,
}

/// The blob exists.
pub const TYR_CHECK_EXISTS: c_int = 0;
/// The blob does not exist.
pub const TYR_CHECK_MISSING: c_int = 1;
/// The blob exists and has the version `number`, which a stat told.
pub const TYR_CHECK_VERSION: c_int = 2;
/// The blob exists and has `number` bytes.
pub const TYR_CHECK_SIZE: c_int = 3;
/// The blob exists and has `bytes` at the offset `number`.
pub const TYR_CHECK_BYTES: c_int = 4;
/// The blob exists and its attribute `name` has the value `bytes`.
pub const TYR_CHECK_ATTRIBUTE: c_int = 5;
/// The blob exists and its attribute `name` is not set.
pub const TYR_CHECK_NO_ATTRIBUTE: c_int = 6;

/// How reads of a cluster were answered since it was opened: one for each part of a chunk that was asked for.
#[repr(C)]
pub struct tyr_reads {
    /// From files of nodes on this host.
    pub from_files: u64,
    /// Bytes of these.
    pub bytes_from_files: u64,
    /// By nodes over the network.
    pub from_network: u64,
    /// Bytes of these.
    pub bytes_from_network: u64,
    /// Those that were to be read from files and then were over the network.
    pub fell_back: u64,
    /// Of these, those for which a file was damaged.
    pub damaged: u64,
}

/// What a store in a directory holds and has done.
#[repr(C)]
pub struct tyr_stats {
    /// The number of this opening.
    pub epoch: u32,
    /// How I/O is done, as a text.
    pub io: [c_char; 64],
    /// Capacity of a segment, in bytes.
    pub segment_size: u64,
    /// Segments of the log.
    pub log_segments: u64,
    /// Segments of bulk payload.
    pub bulk_segments: u64,
    /// Bytes in segments that are live, roughly.
    pub live: u64,
    /// Bytes of segments in use that have been filled.
    pub filled: u64,
    /// Bytes of files that are kept for recycling.
    pub idle: u64,
    /// Bytes written to the log.
    pub log_written: u64,
    /// Bytes written to bulk segments.
    pub bulk_written: u64,
    /// Batches written.
    pub batches: u64,
    /// Tables of the index on disk.
    pub index_tables: u64,
    /// Their entries.
    pub index_entries: u64,
    /// Those of them that say that something was removed.
    pub index_tombstones: u64,
    /// Bytes of their files.
    pub index_bytes: u64,
    /// Lookups in the index that were answered from memory.
    pub index_cache_hits: u64,
    /// Lookups that were not.
    pub index_cache_misses: u64,
    /// Bytes of the index in memory.
    pub index_memory_used: u64,
    /// Bytes of entries and leaves in memory.
    pub objects: u64,
    /// Of these, changed since the last checkpoint.
    pub dirty: u64,
    /// Bytes of payload in memory.
    pub cached: u64,
    /// Lookups of payload blocks that found them in memory.
    pub cache_hits: u64,
    /// Lookups that did not.
    pub cache_misses: u64,
    /// Pins held.
    pub pins: u64,
    /// Seconds since the oldest pin was taken; below zero if there is none.
    pub oldest_pin: f64,
    /// Pieces of garbage waiting to be collected.
    pub garbage: u64,
    /// Leaves waiting to be defragmented.
    pub fragmented: u64,
}

/// What a check of a directory found.
#[repr(C)]
#[derive(Default)]
pub struct tyr_check_report {
    /// Tables read.
    pub tables: u64,
    /// Frames of the log read.
    pub frames: u64,
    /// Entries of keys read.
    pub entries: u64,
    /// Extents read.
    pub extents: u64,
    /// Payload bytes verified.
    pub bytes: u64,
    /// By how many bytes the counts of what is live in segments are wrong.
    pub miscounted: u64,
    /// Pieces of damage.
    pub damage: u64,
}

/// What compacting did.
#[repr(C)]
#[derive(Default)]
pub struct tyr_compact_report {
    /// Segments that were emptied.
    pub segments: u64,
    /// Bytes of segment files before.
    pub bytes_before: u64,
    /// Bytes of segment files afterwards.
    pub bytes_after: u64,
}

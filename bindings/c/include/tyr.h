/*
 * libtyr: the client of Tyr, a transactional blob store.
 *
 * Generated from bindings/c/src by `scripts/bindings-c header`; do not edit.
 *
 * Every function that may fail returns a status: TYR_OK, or a number below zero; tyr_error_message()
 * says in a sentence what was wrong. A result is set only if the status is TYR_OK.
 *
 * What may wait takes a `tyr_async` last. With null it waits, and is done when it returns. Otherwise it
 * returns at once, and the queue or the callback tells when it has ended: unless the call returns an
 * error itself, which says that nothing was begun and nobody is told. Keys, names, options, and settings
 * are copied before a call returns; payload, buffers, and results have to stay until it has ended.
 *
 * Threads may use the same handles. A handle that was freed, or is of something else, is an error
 * (TYR_INVALID). A child of a fork cannot use what its parent has opened (TYR_UNAVAILABLE), and calls
 * exec before it opens a store itself.
 */

#ifndef TYR_H
#define TYR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * It is done.
 */
#define TYR_OK 0

/**
 * Another transaction changed what this one read, or a check does not hold: run it again.
 */
#define TYR_CONFLICT -1

/**
 * Cannot be served now: retry later.
 */
#define TYR_UNAVAILABLE -2

/**
 * The blob, keyspace, or attribute does not exist.
 */
#define TYR_NOT_FOUND -3

/**
 * The blob or keyspace exists already.
 */
#define TYR_EXISTS -4

/**
 * The call itself is wrong: fix it.
 */
#define TYR_INVALID -5

/**
 * The caller may not do this.
 */
#define TYR_DENIED -6

/**
 * No space is left on the device or in the quota. Reads go on.
 */
#define TYR_FULL -7

/**
 * What was to be read was collected, because it was not read in time.
 */
#define TYR_EXPIRED -8

/**
 * Bytes on disk are not what was written.
 */
#define TYR_CORRUPT -9

/**
 * A defect of Týr itself: report it.
 */
#define TYR_INTERNAL -10

/**
 * The operation was cancelled by `tyr_cancel`. What it was to change happened as a whole or not at all.
 */
#define TYR_CANCELLED -100

/**
 * Open what is there, or create a store in an empty directory. The default.
 */
#define TYR_CREATE_IF_MISSING 0

/**
 * Only open what is there.
 */
#define TYR_CREATE_NEVER 1

/**
 * Only create; fail if there is a store.
 */
#define TYR_CREATE_NEW 2

/**
 * The best that works here. The default.
 */
#define TYR_IO_AUTO 0

/**
 * Direct I/O and `io_uring`.
 */
#define TYR_IO_DIRECT_RING 1

/**
 * Direct I/O without `io_uring`.
 */
#define TYR_IO_DIRECT 2

/**
 * Through the page cache.
 */
#define TYR_IO_BUFFERED 3

/**
 * A commit is acknowledged when it is in memory.
 */
#define TYR_MEMORY 0

/**
 * A commit is acknowledged when it is on disk.
 */
#define TYR_DISK 1

/**
 * No quota.
 */
#define TYR_NO_QUOTA UINT64_MAX

/**
 * The end of a range that goes on to the end of the blob.
 */
#define TYR_END UINT64_MAX

/**
 * What was written is sought.
 */
#define TYR_DATA 0

/**
 * What was never written, or of which nothing is left, is sought.
 */
#define TYR_HOLE 1

/**
 * What a list says of a keyspace in a cluster, which does not count.
 */
#define TYR_UNKNOWN UINT64_MAX

/**
 * An unsigned number of 8 bits.
 */
#define TYR_U8 0

/**
 * An unsigned number of 16 bits.
 */
#define TYR_U16 1

/**
 * An unsigned number of 32 bits.
 */
#define TYR_U32 2

/**
 * An unsigned number of 64 bits.
 */
#define TYR_U64 3

/**
 * A signed number of 8 bits.
 */
#define TYR_I8 4

/**
 * A signed number of 16 bits.
 */
#define TYR_I16 5

/**
 * A signed number of 32 bits.
 */
#define TYR_I32 6

/**
 * A signed number of 64 bits.
 */
#define TYR_I64 7

/**
 * A floating-point number of 32 bits.
 */
#define TYR_F32 8

/**
 * A floating-point number of 64 bits.
 */
#define TYR_F64 9

/**
 * old + operand. Integers wrap.
 */
#define TYR_ADD 0

/**
 * old * operand. Integers wrap.
 */
#define TYR_MULTIPLY 1

/**
 * The smaller of the two.
 */
#define TYR_MIN 2

/**
 * The larger of the two.
 */
#define TYR_MAX 3

/**
 * Bitwise and; integers only.
 */
#define TYR_AND 4

/**
 * Bitwise or; integers only.
 */
#define TYR_OR 5

/**
 * Bitwise exclusive or; integers only.
 */
#define TYR_XOR 6

/**
 * The operand.
 */
#define TYR_SWAP 7

/**
 * The operand if the old number's bits equal those that are expected, else the old number.
 */
#define TYR_COMPARE_AND_SWAP 8

/**
 * The blob exists.
 */
#define TYR_CHECK_EXISTS 0

/**
 * The blob does not exist.
 */
#define TYR_CHECK_MISSING 1

/**
 * The blob exists and has the version `number`, which a stat told.
 */
#define TYR_CHECK_VERSION 2

/**
 * The blob exists and has `number` bytes.
 */
#define TYR_CHECK_SIZE 3

/**
 * The blob exists and has `bytes` at the offset `number`.
 */
#define TYR_CHECK_BYTES 4

/**
 * The blob exists and its attribute `name` has the value `bytes`.
 */
#define TYR_CHECK_ATTRIBUTE 5

/**
 * The blob exists and its attribute `name` is not set.
 */
#define TYR_CHECK_NO_ATTRIBUTE 6

/**
 * Bytes that were read.
 */
typedef struct tyr_content tyr_content;

/**
 * An isolated namespace of blobs. Keeps its store open. Threads may share it.
 */
typedef struct tyr_keyspace tyr_keyspace;

/**
 * A list: of blobs, keyspaces, attributes, or damage.
 */
typedef struct tyr_list tyr_list;

/**
 * An operation under way.
 */
typedef struct tyr_operation tyr_operation;

/**
 * Finds out how a transaction ended whose commit was not answered in time.
 */
typedef struct tyr_pending tyr_pending;

/**
 * Where operations are told of that have ended.
 */
typedef struct tyr_queue tyr_queue;

/**
 * What a committed transaction resulted in.
 */
typedef struct tyr_receipt tyr_receipt;

/**
 * All blobs of some keyspaces as they were at one point. Threads may share it.
 */
typedef struct tyr_snapshot tyr_snapshot;

/**
 * An open store: one in a directory, or a cluster. Threads may share it.
 */
typedef struct tyr_store tyr_store;

/**
 * A transaction over any number of blobs of a store. Operations on it follow one another in the order in which they were begun.
 */
typedef struct tyr_transaction tyr_transaction;

/**
 * Bytes of the caller: a key, a value, or a part of what is to be written. `data` may be null if there are none.
 */
typedef struct tyr_bytes {
    /**
     * The first of them.
     */
    const void *data;
    /**
     * How many.
     */
    size_t size;
} tyr_bytes;

/**
 * The settings of a keyspace. `tyr_settings_default` has the defaults.
 */
typedef struct tyr_settings {
    /**
     * When a commit is acknowledged: `TYR_MEMORY` or `TYR_DISK`.
     */
    int durability;
    /**
     * Not 0: superseded versions are kept for readers that pinned them.
     */
    int multi_version;
    /**
     * Bytes of a blob that are placed together, a power of two. Cannot be altered.
     */
    uint64_t chunk_size;
    /**
     * The most bytes that the blobs' sizes may add up to, or `TYR_NO_QUOTA`.
     */
    uint64_t quota;
} tyr_settings;

/**
 * What is called when an operation has ended, on a thread of the library. It may call everything in this header, and wait: while it does
 * not return, other callbacks wait, but operations go on. `tyr_error_message` tells what was wrong.
 */
typedef void (*tyr_callback)(void *context, int status);

/**
 * How an operation is told of that the caller does not wait for: at the queue, or, if that is null, by the callback. Read before the
 * call returns; buffers and results must stay where they are until the operation has ended.
 */
typedef struct tyr_async {
    /**
     * The queue, or null.
     */
    struct tyr_queue *queue;
    /**
     * The callback, or null.
     */
    tyr_callback callback;
    /**
     * What event or callback are given.
     */
    void *context;
    /**
     * Set by the call, before the operation can end: for `tyr_cancel`.
     */
    struct tyr_operation *operation;
} tyr_async;

/**
 * Memory of the caller that is read into. `data` may be null if it has no bytes.
 */
typedef struct tyr_buffer {
    /**
     * Where it begins.
     */
    void *data;
    /**
     * How many bytes it has.
     */
    size_t size;
} tyr_buffer;

/**
 * The state of a blob, without its bytes and attributes.
 */
typedef struct tyr_stat {
    /**
     * Bytes of content.
     */
    uint64_t size;
    /**
     * Which of the blobs that ever had this key it is.
     */
    uint64_t blob;
    /**
     * The number of the transaction that changed it last.
     */
    uint64_t version;
} tyr_stat;

/**
 * The value of a number, as its type says.
 */
typedef union tyr_value {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
} tyr_value;

/**
 * A number that a transform works on.
 */
typedef struct tyr_number {
    /**
     * Its type: `TYR_U8` and so on.
     */
    int type;
    /**
     * Its value.
     */
    union tyr_value value;
} tyr_number;

/**
 * What a transform does with the old number and its operand, where the blob lives.
 */
typedef struct tyr_transform {
    /**
     * The op: `TYR_ADD` and so on.
     */
    int op;
    /**
     * The operand.
     */
    struct tyr_number operand;
    /**
     * What `TYR_COMPARE_AND_SWAP` expects, a number of the operand's type; nobody reads it for another op.
     */
    struct tyr_number expected;
} tyr_transform;

/**
 * One of a list. Its bytes are valid as long as the list.
 */
typedef struct tyr_item {
    /**
     * The key of a blob, the name of a keyspace, snapshot, or attribute; or one damage, as a sentence.
     */
    struct tyr_bytes key;
    /**
     * The value of an attribute.
     */
    struct tyr_bytes value;
    /**
     * Not 0 unless a blob that was asked for does not exist, or a snapshot is not complete: it is being taken, or who took it has failed.
     */
    int exists;
    /**
     * The state of a blob; a list of a scan has no `blob`.
     */
    struct tyr_stat stat;
    /**
     * The settings of a keyspace.
     */
    struct tyr_settings settings;
    /**
     * How many blobs a keyspace has, or `TYR_UNKNOWN`.
     */
    uint64_t blobs;
    /**
     * The sum of their sizes, or `TYR_UNKNOWN`.
     */
    uint64_t bytes;
    /**
     * When a snapshot was taken, in seconds since 1970, by the clock of who took it.
     */
    uint64_t taken;
} tyr_item;

/**
 * An operation that has ended.
 */
typedef struct tyr_event {
    /**
     * What the operation was begun with.
     */
    void *context;
    /**
     * The operation, which is over.
     */
    struct tyr_operation *operation;
    /**
     * How it ended.
     */
    int status;
    /**
     * What was wrong, or an empty text. Valid until this thread waits at a queue again.
     */
    const char *message;
} tyr_event;

/**
 * How reads of a cluster were answered since it was opened: one for each part of a chunk that was asked for.
 */
typedef struct tyr_reads {
    /**
     * From files of nodes on this host.
     */
    uint64_t from_files;
    /**
     * Bytes of these.
     */
    uint64_t bytes_from_files;
    /**
     * By nodes over the network.
     */
    uint64_t from_network;
    /**
     * Bytes of these.
     */
    uint64_t bytes_from_network;
    /**
     * Those that were to be read from files and then were over the network.
     */
    uint64_t fell_back;
    /**
     * Of these, those for which a file was damaged.
     */
    uint64_t damaged;
} tyr_reads;

/**
 * What a store in a directory holds and has done.
 */
typedef struct tyr_stats {
    /**
     * The number of this opening.
     */
    uint32_t epoch;
    /**
     * How I/O is done, as a text.
     */
    char io[64];
    /**
     * Capacity of a segment, in bytes.
     */
    uint64_t segment_size;
    /**
     * Segments of the log.
     */
    uint64_t log_segments;
    /**
     * Segments of bulk payload.
     */
    uint64_t bulk_segments;
    /**
     * Bytes in segments that are live, roughly.
     */
    uint64_t live;
    /**
     * Bytes of segments in use that have been filled.
     */
    uint64_t filled;
    /**
     * Bytes of files that are kept for recycling.
     */
    uint64_t idle;
    /**
     * Bytes written to the log.
     */
    uint64_t log_written;
    /**
     * Bytes written to bulk segments.
     */
    uint64_t bulk_written;
    /**
     * Batches written.
     */
    uint64_t batches;
    /**
     * Tables of the index on disk.
     */
    uint64_t index_tables;
    /**
     * Their entries.
     */
    uint64_t index_entries;
    /**
     * Those of them that say that something was removed.
     */
    uint64_t index_tombstones;
    /**
     * Bytes of their files.
     */
    uint64_t index_bytes;
    /**
     * Lookups in the index that were answered from memory.
     */
    uint64_t index_cache_hits;
    /**
     * Lookups that were not.
     */
    uint64_t index_cache_misses;
    /**
     * Bytes of the index in memory.
     */
    uint64_t index_memory_used;
    /**
     * Bytes of entries and leaves in memory.
     */
    uint64_t objects;
    /**
     * Of these, changed since the last checkpoint.
     */
    uint64_t dirty;
    /**
     * Bytes of payload in memory.
     */
    uint64_t cached;
    /**
     * Lookups of payload blocks that found them in memory.
     */
    uint64_t cache_hits;
    /**
     * Lookups that did not.
     */
    uint64_t cache_misses;
    /**
     * Pins held.
     */
    uint64_t pins;
    /**
     * Seconds since the oldest pin was taken; below zero if there is none.
     */
    double oldest_pin;
    /**
     * Pieces of garbage waiting to be collected.
     */
    uint64_t garbage;
    /**
     * Leaves waiting to be defragmented.
     */
    uint64_t fragmented;
} tyr_stats;

/**
 * What a check of a directory found.
 */
typedef struct tyr_check_report {
    /**
     * Tables read.
     */
    uint64_t tables;
    /**
     * Frames of the log read.
     */
    uint64_t frames;
    /**
     * Entries of keys read.
     */
    uint64_t entries;
    /**
     * Extents read.
     */
    uint64_t extents;
    /**
     * Payload bytes verified.
     */
    uint64_t bytes;
    /**
     * By how many bytes the counts of what is live in segments are wrong.
     */
    uint64_t miscounted;
    /**
     * Pieces of damage.
     */
    uint64_t damage;
} tyr_check_report;

/**
 * What compacting did.
 */
typedef struct tyr_compact_report {
    /**
     * Segments that were emptied.
     */
    uint64_t segments;
    /**
     * Bytes of segment files before.
     */
    uint64_t bytes_before;
    /**
     * Bytes of segment files afterwards.
     */
    uint64_t bytes_after;
} tyr_compact_report;

/**
 * What a run does in each of its tries: `TYR_OK` to have it committed, anything else to end the run with that status. A status that
 * a call in it returned is passed on as it is; numbers above zero are free for the program.
 */
typedef int (*tyr_body)(void *context, struct tyr_transaction *transaction);

/**
 * Options for opening a store. Zeros are the defaults, so `tyr_options options = {0};` is a good beginning.
 */
typedef struct tyr_options {
    /**
     * How long a call to a cluster waits for an answer, in milliseconds. 30 seconds by default.
     */
    uint64_t deadline_ms;
    /**
     * How long opening a cluster waits for any of its nodes, in milliseconds. 5 seconds by default.
     */
    uint64_t connect_timeout_ms;
    /**
     * Whether a store is created: `TYR_CREATE_*`.
     */
    int create;
    /**
     * How a directory is read and written: `TYR_IO_*`.
     */
    int io;
    /**
     * Bytes of memory for content that was read or written lately. 256 MiB by default.
     */
    uint64_t data_cache;
    /**
     * Bytes of memory for the index. 256 MiB by default.
     */
    uint64_t index_cache;
    /**
     * Capacity of a segment file, a power of two; fixed when the store is created. 64 MiB by default.
     */
    uint64_t segment_size;
    /**
     * The zone that this client is in, or null.
     */
    const char *zone;
    /**
     * For `tyr+tls://`: the file of the authority's certificates, in PEM, or null.
     */
    const char *tls_authority;
    /**
     * The file of the own certificate, or null for a client that stays anonymous.
     */
    const char *tls_certificate;
    /**
     * The file of its key, or null.
     */
    const char *tls_key;
    /**
     * Not 0: nodes on this host send what could be read from their files.
     */
    int without_files;
    /**
     * Not 0: the index of a directory is built anew.
     */
    int rebuild_index;
    /**
     * The token that says who this client of a cluster is, or null: then the one that the environment variable `TYR_TOKEN` has, or the file
     * that `TYR_TOKEN_FILE` names.
     */
    const char *token;
    /**
     * The file with that token, which only its owner, or its group, may read; or null. Not both.
     */
    const char *token_file;
} tyr_options;

/**
 * A condition on the committed state of a blob at the moment of the commit.
 */
typedef struct tyr_check {
    /**
     * Which: `TYR_CHECK_*`.
     */
    int what;
    /**
     * A version, a size, or the offset of bytes.
     */
    uint64_t number;
    /**
     * The bytes at the offset, or the value of the attribute.
     */
    struct tyr_bytes bytes;
    /**
     * The name of the attribute.
     */
    const char *name;
} tyr_check;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Frees a handle.
 *
 * @param keyspace The keyspace.
 */
int tyr_keyspace_free(struct tyr_keyspace *keyspace);

/**
 * Another handle of a keyspace, whose calls wait so long for a cluster.
 *
 * @param keyspace The keyspace.
 * @param deadline_ms How long, in milliseconds.
 * @param within Where the handle goes.
 */
int tyr_keyspace_within(const struct tyr_keyspace *keyspace,
                        uint64_t deadline_ms,
                        struct tyr_keyspace **within);

/**
 * The name of a keyspace; no bytes if it is none. Valid until the handle is freed.
 *
 * @param keyspace The keyspace.
 */
struct tyr_bytes tyr_keyspace_name(const struct tyr_keyspace *keyspace);

/**
 * The settings of a keyspace as they are now, or in a cluster as they were last heard of.
 *
 * @param keyspace The keyspace.
 * @param settings Where they go.
 */
int tyr_keyspace_settings(const struct tyr_keyspace *keyspace, struct tyr_settings *settings);

/**
 * Creates an empty blob. Fails with `TYR_EXISTS` if it exists.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param how Null to wait.
 */
int tyr_keyspace_create(const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        struct tyr_async *how);

/**
 * Deletes a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param how Null to wait.
 */
int tyr_keyspace_delete(const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        struct tyr_async *how);

/**
 * Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
 * if the blob does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param start The first byte.
 * @param end The byte after the last one, or `TYR_END`.
 * @param content Where the handle of the bytes goes.
 * @param how Null to wait.
 */
int tyr_keyspace_read(const struct tyr_keyspace *keyspace,
                      struct tyr_bytes key,
                      uint64_t start,
                      uint64_t end,
                      struct tyr_content **content,
                      struct tyr_async *how);

/**
 * Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset The first byte.
 * @param buffers The buffers, which do not overlap.
 * @param count How many.
 * @param read Where it goes how many bytes there were, or null.
 * @param how Null to wait.
 */
int tyr_keyspace_read_into(const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           uint64_t offset,
                           const struct tyr_buffer *buffers,
                           size_t count,
                           uint64_t *read,
                           struct tyr_async *how);

/**
 * The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param stat Where the state goes, or null.
 * @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
 * @param how Null to wait.
 */
int tyr_keyspace_stat(const struct tyr_keyspace *keyspace,
                      struct tyr_bytes key,
                      struct tyr_stat *stat,
                      struct tyr_list **attributes,
                      struct tyr_async *how);

/**
 * Whether a blob exists.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param exists Where it goes: 1 or 0.
 * @param how Null to wait.
 */
int tyr_keyspace_exists(const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        int *exists,
                        struct tyr_async *how);

/**
 * The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
 * content: null.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param name The name of the attribute.
 * @param content Where the handle of the value goes.
 * @param how Null to wait.
 */
int tyr_keyspace_attribute(const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           const char *name,
                           struct tyr_content **content,
                           struct tyr_async *how);

/**
 * Writes bytes at an offset, all of them at once; creates the blob if it does not exist, and extends it as needed.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset Where they go.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param how Null to wait.
 */
int tyr_keyspace_write(const struct tyr_keyspace *keyspace,
                       struct tyr_bytes key,
                       uint64_t offset,
                       const struct tyr_bytes *parts,
                       size_t count,
                       struct tyr_async *how);

/**
 * Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param how Null to wait.
 */
int tyr_keyspace_put(const struct tyr_keyspace *keyspace,
                     struct tyr_bytes key,
                     const struct tyr_bytes *parts,
                     size_t count,
                     struct tyr_async *how);

/**
 * Appends bytes, all of them at once, and tells where they went; creates the blob if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param offset Where their offset goes, or null.
 * @param how Null to wait.
 */
int tyr_keyspace_append(const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        const struct tyr_bytes *parts,
                        size_t count,
                        uint64_t *offset,
                        struct tyr_async *how);

/**
 * Makes the blob this long, cutting it or extending it with zeros. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param size How long.
 * @param how Null to wait.
 */
int tyr_keyspace_truncate(const struct tyr_keyspace *keyspace,
                          struct tyr_bytes key,
                          uint64_t size,
                          struct tyr_async *how);

/**
 * Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with `TYR_NOT_FOUND` if it does not
 * exist, and in a directory with `TYR_INVALID` if it is more than 64 GiB of what there is.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param start The first byte.
 * @param end The byte after the last one.
 * @param how Null to wait.
 */
int tyr_keyspace_punch(const struct tyr_keyspace *keyspace,
                       struct tyr_bytes key,
                       uint64_t start,
                       uint64_t end,
                       struct tyr_async *how);

/**
 * Where at or after an offset the next data or hole of a blob begins; its end is a hole. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param what `TYR_DATA` or `TYR_HOLE`.
 * @param from The offset.
 * @param found Where it goes; `TYR_END` if there is no more data, or if the offset is at the end of the blob or after it.
 * @param how Null to wait.
 */
int tyr_keyspace_seek(const struct tyr_keyspace *keyspace,
                      struct tyr_bytes key,
                      int what,
                      uint64_t from,
                      uint64_t *found,
                      struct tyr_async *how);

/**
 * The states of many blobs, each as of some moment during the call: together they are no snapshot. In a cluster this is one request
 * if it can be.
 *
 * @param keyspace The keyspace.
 * @param keys The keys.
 * @param count How many.
 * @param list Where the list goes: for each key an item with `exists` and `stat`.
 * @param how Null to wait.
 */
int tyr_keyspace_stats(const struct tyr_keyspace *keyspace,
                       const struct tyr_bytes *keys,
                       size_t count,
                       struct tyr_list **list,
                       struct tyr_async *how);

/**
 * Sets an attribute, or unsets it. Fails with `TYR_NOT_FOUND` if the blob does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param name The name of the attribute.
 * @param value Its value, or null to unset it.
 * @param how Null to wait.
 */
int tyr_keyspace_set_attribute(const struct tyr_keyspace *keyspace,
                               struct tyr_bytes key,
                               const char *name,
                               const struct tyr_bytes *value,
                               struct tyr_async *how);

/**
 * Transforms the number at an offset where it is, and tells its old value. Never a conflict. Creates the blob if it does not exist,
 * and extends it with zeros as needed.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset Where the number is.
 * @param transform The transform.
 * @param old Where the old value goes, or null.
 * @param how Null to wait.
 */
int tyr_keyspace_transform(const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           uint64_t offset,
                           const struct tyr_transform *transform,
                           struct tyr_number *old,
                           struct tyr_async *how);

/**
 * State and content of a blob, of one version. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param keyspace The keyspace.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param content Where the handle of the bytes goes.
 * @param stat Where the state goes, or null.
 * @param attributes Where the list of its attributes goes, or null.
 * @param how Null to wait.
 */
int tyr_keyspace_get(const struct tyr_keyspace *keyspace,
                     struct tyr_bytes key,
                     struct tyr_content **content,
                     struct tyr_stat *stat,
                     struct tyr_list **attributes,
                     struct tyr_async *how);

/**
 * Blobs whose keys have a prefix, in the order of their keys, beginning after a key. Fewer than `limit` mean that there are no more. Not
 * a snapshot: every blob that exists throughout is listed exactly once, others may be.
 *
 * @param keyspace The keyspace.
 * @param prefix What the keys begin with; nothing for all.
 * @param after The key to begin after; none to begin at the first.
 * @param limit How many at most.
 * @param list Where the list goes: items with `key` and `stat`.
 * @param how Null to wait.
 */
int tyr_keyspace_scan(const struct tyr_keyspace *keyspace,
                      struct tyr_bytes prefix,
                      struct tyr_bytes after,
                      size_t limit,
                      struct tyr_list **list,
                      struct tyr_async *how);

/**
 * How many there are in a list; 0 if it is none.
 *
 * @param list The list.
 */
size_t tyr_list_size(const struct tyr_list *list);

/**
 * One of a list. Fails with `TYR_NOT_FOUND` if it is not that long.
 *
 * @param list The list.
 * @param index Which, from 0.
 * @param item Where it goes; its bytes are valid until the list is freed.
 */
int tyr_list_at(const struct tyr_list *list, size_t index, struct tyr_item *item);

/**
 * Frees a list.
 *
 * @param list The list.
 */
int tyr_list_free(struct tyr_list *list);

/**
 * The bytes that were read; none if it is not the handle of any. Valid until it is freed.
 *
 * @param content What was read.
 */
struct tyr_bytes tyr_content_bytes(const struct tyr_content *content);

/**
 * Frees bytes that were read.
 *
 * @param content What was read.
 */
int tyr_content_free(struct tyr_content *content);

/**
 * The version of the library, as a text.
 */
const char *tyr_version(void);

/**
 * Cancels an operation. It ends with `TYR_CANCELLED`, and is told of like any other; its buffers and results are not touched any
 * more when this returns. What it was to change happened as a whole or not at all. Fails with `TYR_NOT_FOUND` if it is over.
 *
 * @param operation What `tyr_async` was told.
 */
int tyr_cancel(struct tyr_operation *operation);

/**
 * Puts the default settings there.
 *
 * @param settings Where they go.
 */
int tyr_settings_default(struct tyr_settings *settings);

/**
 * Makes a queue, at which operations end that were begun with it.
 *
 * @param queue Where its handle goes.
 */
int tyr_queue_create(struct tyr_queue **queue);

/**
 * Frees a queue. Who waits at it is told `TYR_INVALID`. Fails with `TYR_INVALID` as long as operations that end there are under way:
 * wait for them, or cancel them, first.
 *
 * @param queue The queue.
 */
int tyr_queue_free(struct tyr_queue *queue);

/**
 * Waits until operations have ended, and tells which. Threads may wait at one queue together.
 *
 * @param queue The queue.
 * @param events Where they go.
 * @param max How many there is room for.
 * @param timeout_ms How long to wait for the first one, in milliseconds; below zero for ever.
 * @param count How many they are: none if none ended in time.
 */
int tyr_queue_wait(struct tyr_queue *queue,
                   struct tyr_event *events,
                   size_t max,
                   int64_t timeout_ms,
                   size_t *count);

/**
 * How reads of a cluster were answered so far.
 *
 * @param store The store.
 * @param reads Where that goes.
 */
int tyr_store_reads(const struct tyr_store *store, struct tyr_reads *reads);

/**
 * What a store in a directory holds and has done, in numbers.
 *
 * @param store The store.
 * @param stats Where that goes.
 */
int tyr_store_stats(const struct tyr_store *store, struct tyr_stats *stats);

/**
 * Reads and verifies everything in a directory. Damage is in the report and the list; only a failure to look is an error.
 *
 * @param store The store.
 * @param report Where the report goes, or null.
 * @param damage Where the list of damage goes, or null: items whose `key` is a sentence.
 * @param how Null to wait.
 */
int tyr_store_check(const struct tyr_store *store,
                    struct tyr_check_report *report,
                    struct tyr_list **damage,
                    struct tyr_async *how);

/**
 * Reclaims all space of a directory that is worth it, now.
 *
 * @param store The store.
 * @param report Where the report goes, or null.
 * @param how Null to wait.
 */
int tyr_store_compact(const struct tyr_store *store,
                      struct tyr_compact_report *report,
                      struct tyr_async *how);

/**
 * Runs a body in a transaction and commits it, on the calling thread. After a conflict it is run again with another transaction, after a
 * pause; after a few conflicts, writers of what it touches wait until it had its turn, so that it is not starved. So the body may run
 * several times and should do nothing besides that cannot be repeated. It is run until it commits or fails: a check of what it has not
 * read itself, and that does not come true, has it run for ever.
 *
 * A status of the body that is not `TYR_OK` rolls back and is returned, unless it came from blobs whose states do not fit together: then
 * the body is run again. Whether it did is asked of the cluster; if nobody answers, the run fails with `TYR_UNAVAILABLE` instead. `TYR_CONFLICT` has the
 * body run again if an operation of its transaction has failed with that, and is a status like others if none has. The text of the error is that of the last
 * call in the body that failed. The body does not commit its transaction, whose handle is dead after the body returns; its operations have to end
 * before that.
 *
 * A body that frees its transaction has rolled it back. If it returns `TYR_OK`, the run ends as with a status, but with `TYR_OK`: nothing
 * of it happened, and the receipt is null.
 *
 * @param store The store.
 * @param body What is done in the transaction.
 * @param context What the body is given.
 * @param receipt Where the handle of the receipt goes, or null.
 */
int tyr_store_run(const struct tyr_store *store,
                  tyr_body body,
                  void *context,
                  struct tyr_receipt **receipt);

/**
 * Frees a snapshot; what only it shows may be dropped then.
 *
 * @param snapshot The snapshot.
 */
int tyr_snapshot_free(struct tyr_snapshot *snapshot);

/**
 * The point: the number of the newest transaction that the snapshot shows; 0 in a cluster, which has no such number.
 *
 * @param snapshot The snapshot.
 * @param number Where it goes.
 */
int tyr_snapshot_number(const struct tyr_snapshot *snapshot,
                        uint64_t *number);

/**
 * Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
 * if the blob does not exist.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param start The first byte.
 * @param end The byte after the last one, or `TYR_END`.
 * @param content Where the handle of the bytes goes.
 * @param how Null to wait.
 */
int tyr_snapshot_read(const struct tyr_snapshot *snapshot,
                      const struct tyr_keyspace *keyspace,
                      struct tyr_bytes key,
                      uint64_t start,
                      uint64_t end,
                      struct tyr_content **content,
                      struct tyr_async *how);

/**
 * Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset The first byte.
 * @param buffers The buffers, which do not overlap.
 * @param count How many.
 * @param read Where it goes how many bytes there were, or null.
 * @param how Null to wait.
 */
int tyr_snapshot_read_into(const struct tyr_snapshot *snapshot,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           uint64_t offset,
                           const struct tyr_buffer *buffers,
                           size_t count,
                           uint64_t *read,
                           struct tyr_async *how);

/**
 * The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param stat Where the state goes, or null.
 * @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
 * @param how Null to wait.
 */
int tyr_snapshot_stat(const struct tyr_snapshot *snapshot,
                      const struct tyr_keyspace *keyspace,
                      struct tyr_bytes key,
                      struct tyr_stat *stat,
                      struct tyr_list **attributes,
                      struct tyr_async *how);

/**
 * Whether a blob exists.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param exists Where it goes: 1 or 0.
 * @param how Null to wait.
 */
int tyr_snapshot_exists(const struct tyr_snapshot *snapshot,
                        const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        int *exists,
                        struct tyr_async *how);

/**
 * The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
 * content: null.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param name The name of the attribute.
 * @param content Where the handle of the value goes.
 * @param how Null to wait.
 */
int tyr_snapshot_attribute(const struct tyr_snapshot *snapshot,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           const char *name,
                           struct tyr_content **content,
                           struct tyr_async *how);

/**
 * State and content of a blob, of one version. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param content Where the handle of the bytes goes.
 * @param stat Where the state goes, or null.
 * @param attributes Where the list of its attributes goes, or null.
 * @param how Null to wait.
 */
int tyr_snapshot_get(const struct tyr_snapshot *snapshot,
                     const struct tyr_keyspace *keyspace,
                     struct tyr_bytes key,
                     struct tyr_content **content,
                     struct tyr_stat *stat,
                     struct tyr_list **attributes,
                     struct tyr_async *how);

/**
 * Blobs whose keys have a prefix, in the order of their keys, beginning after a key: exactly those that existed. Fewer than `limit` mean
 * that there are no more.
 *
 * @param snapshot The snapshot.
 * @param keyspace The keyspace.
 * @param prefix What the keys begin with; nothing for all.
 * @param after The key to begin after; none to begin at the first.
 * @param limit How many at most.
 * @param list Where the list goes: items with `key` and `stat`.
 * @param how Null to wait.
 */
int tyr_snapshot_scan(const struct tyr_snapshot *snapshot,
                      const struct tyr_keyspace *keyspace,
                      struct tyr_bytes prefix,
                      struct tyr_bytes after,
                      size_t limit,
                      struct tyr_list **list,
                      struct tyr_async *how);

/**
 * What was wrong with the last call of this thread that failed, as a sentence; in a callback, with the operation that it is called for.
 * Valid until the next call of this thread fails.
 */
const char *tyr_error_message(void);

/**
 * The name of a status: `"ok"`, `"conflict"`, `"not-found"`, and so on. Never null.
 *
 * @param status What a call returned.
 */
const char *tyr_status_name(int status);

/**
 * Opens a store: a directory, which is created if it is missing, or the URL of a cluster, `tyr://host:port,host:port`.
 *
 * @param name The directory or URL.
 * @param options Options, or null for the defaults.
 * @param store Where its handle goes.
 * @param how Null to wait.
 */
int tyr_store_open(const char *name,
                   const struct tyr_options *options,
                   struct tyr_store **store,
                   struct tyr_async *how);

/**
 * Frees a handle. The store is stopped when the last handle of it, and of what was opened, begun, and taken of it, is freed.
 * `tyr_store_close` is the better way, because it waits for what is under way and can report an error.
 *
 * @param store The store.
 */
int tyr_store_free(struct tyr_store *store);

/**
 * Stops a store cleanly, and frees the handle. Every later operation, on any handle of it, fails with `TYR_UNAVAILABLE`. A directory
 * can be opened again when the other handles were freed too.
 *
 * @param store The store.
 * @param how Null to wait.
 */
int tyr_store_close(struct tyr_store *store,
                    struct tyr_async *how);

/**
 * Whether a store is a cluster: 1 or 0; below zero if it is no store.
 *
 * @param store The store.
 */
int tyr_store_is_cluster(const struct tyr_store *store);

/**
 * Another handle of a store. Calls by it, and those of what it opens and begins, wait so long for a cluster.
 *
 * @param store The store.
 * @param deadline_ms How long, in milliseconds.
 * @param within Where the handle goes.
 */
int tyr_store_within(const struct tyr_store *store,
                     uint64_t deadline_ms,
                     struct tyr_store **within);

/**
 * Creates a keyspace. Fails with `TYR_EXISTS` if the name is taken.
 *
 * @param store The store.
 * @param name Its name: 1 to 255 letters, digits, `-`, `_`, `.`, beginning with a letter or digit.
 * @param settings Its settings, or null for the defaults.
 * @param keyspace Where its handle goes, or null.
 * @param how Null to wait.
 */
int tyr_store_create_keyspace(const struct tyr_store *store,
                              const char *name,
                              const struct tyr_settings *settings,
                              struct tyr_keyspace **keyspace,
                              struct tyr_async *how);

/**
 * A handle of an existing keyspace. Waits for a cluster only if the name was not heard of.
 *
 * @param store The store.
 * @param name Its name.
 * @param keyspace Where its handle goes.
 */
int tyr_store_keyspace(const struct tyr_store *store,
                       const char *name,
                       struct tyr_keyspace **keyspace);

/**
 * All keyspaces, in the order of their names: items with `key`, `settings`, `blobs`, and `bytes`.
 *
 * @param store The store.
 * @param list Where the list goes.
 */
int tyr_store_keyspaces(const struct tyr_store *store, struct tyr_list **list);

/**
 * Gives a keyspace other settings. Its chunk size cannot be altered.
 *
 * @param store The store.
 * @param name The keyspace's name.
 * @param settings The settings, or null for the defaults.
 * @param how Null to wait.
 */
int tyr_store_alter_keyspace(const struct tyr_store *store,
                             const char *name,
                             const struct tyr_settings *settings,
                             struct tyr_async *how);

/**
 * Drops a keyspace with everything in it. Handles of it fail with `TYR_NOT_FOUND` from then on.
 *
 * @param store The store.
 * @param name The keyspace's name.
 * @param how Null to wait.
 */
int tyr_store_drop_keyspace(const struct tyr_store *store, const char *name, struct tyr_async *how);

/**
 * Begins a transaction. Local: costs nothing until something is read. Its handle is to be freed, whatever becomes of it.
 *
 * @param store The store.
 * @param transaction Where its handle goes.
 */
int tyr_store_begin(const struct tyr_store *store,
                    struct tyr_transaction **transaction);

/**
 * Pins all blobs of keyspaces at one point: what the snapshot shows never changes and never conflicts.
 *
 * @param store The store.
 * @param keyspaces The keyspaces.
 * @param count How many.
 * @param snapshot Where its handle goes.
 * @param how Null to wait.
 */
int tyr_store_snapshot(const struct tyr_store *store,
                       const struct tyr_keyspace *const *keyspaces,
                       size_t count,
                       struct tyr_snapshot **snapshot,
                       struct tyr_async *how);

/**
 * Takes a snapshot of a keyspace that lasts until it is dropped by its name, also when the store is closed. Fails with `TYR_EXISTS` if the
 * keyspace has one of that name.
 *
 * @param store The store.
 * @param keyspace The keyspace.
 * @param name The snapshot's name: letters, digits, '-', '_', '.', beginning with a letter or digit.
 * @param how Null to wait.
 */
int tyr_store_create_snapshot(const struct tyr_store *store,
                              const struct tyr_keyspace *keyspace,
                              const char *name,
                              struct tyr_async *how);

/**
 * Opens a snapshot by its name, to be read until its handle is freed. Fails with `TYR_NOT_FOUND` if there is none of that name.
 *
 * @param store The store.
 * @param keyspace The keyspace.
 * @param name The snapshot's name.
 * @param snapshot Where its handle goes.
 * @param how Null to wait.
 */
int tyr_store_open_snapshot(const struct tyr_store *store,
                            const struct tyr_keyspace *keyspace,
                            const char *name,
                            struct tyr_snapshot **snapshot,
                            struct tyr_async *how);

/**
 * The snapshots of a keyspace that have names, in the order in which they were taken: items with `key` and `taken`.
 *
 * @param store The store.
 * @param keyspace The keyspace.
 * @param list Where the list goes.
 * @param how Null to wait.
 */
int tyr_store_snapshots(const struct tyr_store *store,
                        const struct tyr_keyspace *keyspace,
                        struct tyr_list **list,
                        struct tyr_async *how);

/**
 * Drops a snapshot by its name. Fails with `TYR_NOT_FOUND` if there is none of that name.
 *
 * @param store The store.
 * @param keyspace The keyspace.
 * @param name The snapshot's name.
 * @param how Null to wait.
 */
int tyr_store_drop_snapshot(const struct tyr_store *store,
                            const struct tyr_keyspace *keyspace,
                            const char *name,
                            struct tyr_async *how);

/**
 * Returns when every commit so far is on disk, those of keyspaces with `TYR_MEMORY` included. Fails with `TYR_INVALID` in a cluster that has
 * such keyspaces: it cannot flush them.
 *
 * @param store The store.
 * @param how Null to wait.
 */
int tyr_store_flush(const struct tyr_store *store,
                    struct tyr_async *how);

/**
 * Frees a transaction. One that was not committed is rolled back, and nothing of it happened.
 *
 * @param transaction The transaction.
 */
int tyr_transaction_free(struct tyr_transaction *transaction);

/**
 * Creates an empty blob. Fails with `TYR_EXISTS` if it exists.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param how Null to wait.
 */
int tyr_transaction_create(const struct tyr_transaction *transaction,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           struct tyr_async *how);

/**
 * Deletes a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param how Null to wait.
 */
int tyr_transaction_delete(const struct tyr_transaction *transaction,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           struct tyr_async *how);

/**
 * Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
 * if the blob does not exist. Fails with `TYR_INVALID` if the range may
 * contain bytes that this transaction appends, whose offset is known only at the commit.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param start The first byte.
 * @param end The byte after the last one, or `TYR_END`.
 * @param content Where the handle of the bytes goes.
 * @param how Null to wait.
 */
int tyr_transaction_read(const struct tyr_transaction *transaction,
                         const struct tyr_keyspace *keyspace,
                         struct tyr_bytes key,
                         uint64_t start,
                         uint64_t end,
                         struct tyr_content **content,
                         struct tyr_async *how);

/**
 * Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset The first byte.
 * @param buffers The buffers, which do not overlap.
 * @param count How many.
 * @param read Where it goes how many bytes there were, or null.
 * @param how Null to wait.
 */
int tyr_transaction_read_into(const struct tyr_transaction *transaction,
                              const struct tyr_keyspace *keyspace,
                              struct tyr_bytes key,
                              uint64_t offset,
                              const struct tyr_buffer *buffers,
                              size_t count,
                              uint64_t *read,
                              struct tyr_async *how);

/**
 * The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
 * Size and attributes count as read.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param stat Where the state goes, or null.
 * @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
 * @param how Null to wait.
 */
int tyr_transaction_stat(const struct tyr_transaction *transaction,
                         const struct tyr_keyspace *keyspace,
                         struct tyr_bytes key,
                         struct tyr_stat *stat,
                         struct tyr_list **attributes,
                         struct tyr_async *how);

/**
 * Whether a blob exists.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param exists Where it goes: 1 or 0.
 * @param how Null to wait.
 */
int tyr_transaction_exists(const struct tyr_transaction *transaction,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           int *exists,
                           struct tyr_async *how);

/**
 * The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
 * content: null.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param name The name of the attribute.
 * @param content Where the handle of the value goes.
 * @param how Null to wait.
 */
int tyr_transaction_attribute(const struct tyr_transaction *transaction,
                              const struct tyr_keyspace *keyspace,
                              struct tyr_bytes key,
                              const char *name,
                              struct tyr_content **content,
                              struct tyr_async *how);

/**
 * Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset Where they go.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param how Null to wait.
 */
int tyr_transaction_write(const struct tyr_transaction *transaction,
                          const struct tyr_keyspace *keyspace,
                          struct tyr_bytes key,
                          uint64_t offset,
                          const struct tyr_bytes *parts,
                          size_t count,
                          struct tyr_async *how);

/**
 * Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param how Null to wait.
 */
int tyr_transaction_put(const struct tyr_transaction *transaction,
                        const struct tyr_keyspace *keyspace,
                        struct tyr_bytes key,
                        const struct tyr_bytes *parts,
                        size_t count,
                        struct tyr_async *how);

/**
 * Appends bytes, at an offset that the receipt tells; creates the blob if it does not exist.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param parts What is written, one part after the other.
 * @param count How many parts.
 * @param slot Where the number goes that the receipt is asked with, or null.
 * @param how Null to wait.
 */
int tyr_transaction_append(const struct tyr_transaction *transaction,
                           const struct tyr_keyspace *keyspace,
                           struct tyr_bytes key,
                           const struct tyr_bytes *parts,
                           size_t count,
                           uint32_t *slot,
                           struct tyr_async *how);

/**
 * Makes the blob this long, cutting it or extending it with zeros. Fails with `TYR_NOT_FOUND` if it does not exist.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param size How long.
 * @param how Null to wait.
 */
int tyr_transaction_truncate(const struct tyr_transaction *transaction,
                             const struct tyr_keyspace *keyspace,
                             struct tyr_bytes key,
                             uint64_t size,
                             struct tyr_async *how);

/**
 * Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with `TYR_NOT_FOUND` if it does not
 * exist, and in a directory, at the commit, with `TYR_INVALID` if it is more than 64 GiB of what there is.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param start The first byte.
 * @param end The byte after the last one.
 * @param how Null to wait.
 */
int tyr_transaction_punch(const struct tyr_transaction *transaction,
                          const struct tyr_keyspace *keyspace,
                          struct tyr_bytes key,
                          uint64_t start,
                          uint64_t end,
                          struct tyr_async *how);

/**
 * Sets an attribute, or unsets it. Fails with `TYR_NOT_FOUND` if the blob does not exist, and with `TYR_INVALID`, now or at the commit, if its
 * attributes would be too large.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param name The name of the attribute.
 * @param value Its value, or null to unset it.
 * @param how Null to wait.
 */
int tyr_transaction_set_attribute(const struct tyr_transaction *transaction,
                                  const struct tyr_keyspace *keyspace,
                                  struct tyr_bytes key,
                                  const char *name,
                                  const struct tyr_bytes *value,
                                  struct tyr_async *how);

/**
 * Transforms the number at an offset when the transaction commits; the receipt tells the old value. Creates the blob if it does not exist,
 * and extends it with zeros as needed.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param offset Where the number is.
 * @param transform The transform.
 * @param slot Where the number goes that the receipt is asked with, or null.
 * @param how Null to wait.
 */
int tyr_transaction_transform(const struct tyr_transaction *transaction,
                              const struct tyr_keyspace *keyspace,
                              struct tyr_bytes key,
                              uint64_t offset,
                              const struct tyr_transform *transform,
                              uint32_t *slot,
                              struct tyr_async *how);

/**
 * Makes the commit a conflict unless the condition holds then. It is about the committed state of the blob; changes of this transaction do
 * not count.
 *
 * @param transaction The transaction.
 * @param keyspace The keyspace of the blob.
 * @param key The blob's key: 1 to 4096 bytes.
 * @param check The condition.
 * @param how Null to wait.
 */
int tyr_transaction_check(const struct tyr_transaction *transaction,
                          const struct tyr_keyspace *keyspace,
                          struct tyr_bytes key,
                          const struct tyr_check *check,
                          struct tyr_async *how);

/**
 * Commits. Everything that was done happens at one point in time, or nothing. Fails with `TYR_CONFLICT` if something that was read has
 * changed meanwhile, or a check does not hold: then begin another transaction. `tyr_store_run` does so by itself.
 *
 * Any other error says that nothing happened, except `TYR_UNAVAILABLE`, and `TYR_DENIED` if the client lost its rights while it waited for a
 * cluster: their texts say what is known. `tyr_pending_outcome` finds out the rest, for who is let in. The transaction has ended then; its
 * handle is still to be freed.
 *
 * @param transaction The transaction.
 * @param receipt Where the handle of the receipt goes, or null.
 * @param how Null to wait.
 */
int tyr_transaction_commit(const struct tyr_transaction *transaction,
                           struct tyr_receipt **receipt,
                           struct tyr_async *how);

/**
 * What finds out how a transaction ended, in case that its commit is not answered in time. To be asked for before the commit.
 *
 * @param transaction The transaction.
 * @param pending Where its handle goes.
 */
int tyr_transaction_pending(const struct tyr_transaction *transaction,
                            struct tyr_pending **pending);

/**
 * How the transaction ended, as its commit would have told; waits for that. May be asked again. In a directory only opening the store
 * again tells, and this fails with `TYR_UNAVAILABLE`.
 *
 * @param pending What finds it out.
 * @param receipt Where the handle of the receipt goes, or null.
 * @param how Null to wait.
 */
int tyr_pending_outcome(const struct tyr_pending *pending,
                        struct tyr_receipt **receipt,
                        struct tyr_async *how);

/**
 * Frees what finds out how a transaction ended. Nobody else keeps that.
 *
 * @param pending What finds it out.
 */
int tyr_pending_free(struct tyr_pending *pending);

/**
 * The number of the transaction: that of the versions it wrote; 0 in a cluster, where it has none of its own.
 *
 * @param receipt The receipt.
 * @param number Where it goes.
 */
int tyr_receipt_number(const struct tyr_receipt *receipt,
                       uint64_t *number);

/**
 * The offset at which an append put its bytes. Fails with `TYR_NOT_FOUND` if the slot is not that of an append of the transaction.
 *
 * @param receipt The receipt.
 * @param slot What the append told.
 * @param offset Where the offset goes.
 */
int tyr_receipt_offset(const struct tyr_receipt *receipt,
                       uint32_t slot,
                       uint64_t *offset);

/**
 * The value that a transform replaced. Fails with `TYR_NOT_FOUND` if the slot is not that of a transform of the transaction.
 *
 * @param receipt The receipt.
 * @param slot What the transform told.
 * @param old Where the value goes.
 */
int tyr_receipt_old(const struct tyr_receipt *receipt,
                    uint32_t slot,
                    struct tyr_number *old);

/**
 * Frees a receipt.
 *
 * @param receipt The receipt.
 */
int tyr_receipt_free(struct tyr_receipt *receipt);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TYR_H */

#ifndef TYR_TEXT_H
#define TYR_TEXT_H
/** The bytes of a text that ends with a zero: tyr_text("key"). */
static inline struct tyr_bytes tyr_text(const char *text) {
    struct tyr_bytes bytes;
    bytes.data = text;
    bytes.size = text ? strlen(text) : 0;
    return bytes;
}

/** Bytes at a place: tyr_some(buffer, sizeof buffer). */
static inline struct tyr_bytes tyr_some(const void *data, size_t size) {
    struct tyr_bytes bytes;
    bytes.data = data;
    bytes.size = size;
    return bytes;
}

#endif /* TYR_TEXT_H */

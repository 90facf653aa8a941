//! What a store tells of itself.

use std::ffi::{c_char, c_int};

use crate::{
    border,
    list::List,
    memory::Out,
    operation::perform,
    registry,
    store::Store,
    types::{tyr_async, tyr_check_report, tyr_compact_report, tyr_list, tyr_reads, tyr_stats, tyr_store},
};

/// How reads of a cluster were answered so far.
///
/// @param store The store.
/// @param reads Where that goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_reads(store: *const tyr_store, reads: *mut tyr_reads) -> c_int {
    border::call(|| {
        let out = Out::required(reads)?;
        let counted = registry::find::<Store>(store)?.of(true).reads();
        out.put(tyr_reads {
            from_files: counted.from_files,
            bytes_from_files: counted.bytes_from_files,
            from_network: counted.from_network,
            bytes_from_network: counted.bytes_from_network,
            fell_back: counted.fell_back,
            damaged: counted.damaged,
        });
        Ok(())
    })
}

/// What a store in a directory holds and has done, in numbers.
///
/// @param store The store.
/// @param stats Where that goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_stats(store: *const tyr_store, stats: *mut tyr_stats) -> c_int {
    border::call(|| {
        let out = Out::required(stats)?;
        let told = registry::find::<Store>(store)?.of(true).stats()?;
        let mut io: [c_char; 64] = [0; 64];
        // The last byte stays zero.
        for (place, byte) in io.iter_mut().take(63).zip(told.io.bytes()) {
            *place = c_char::from_ne_bytes([byte]);
        }
        out.put(tyr_stats {
            epoch: told.epoch,
            io,
            segment_size: told.segment_size,
            log_segments: told.log_segments as u64,
            bulk_segments: told.bulk_segments as u64,
            live: told.live,
            filled: told.filled,
            idle: told.idle,
            log_written: told.log_written,
            bulk_written: told.bulk_written,
            batches: told.batches,
            index_tables: told.index.tables as u64,
            index_entries: told.index.entries,
            index_tombstones: told.index.tombstones,
            index_bytes: told.index.bytes,
            index_cache_hits: told.index.cache_hits,
            index_cache_misses: told.index.cache_misses,
            index_memory_used: told.index.memory_used,
            objects: told.objects,
            dirty: told.dirty,
            cached: told.cached,
            cache_hits: told.cache_hits,
            cache_misses: told.cache_misses,
            pins: told.pins as u64,
            oldest_pin: told.oldest_pin.unwrap_or(-1.0),
            garbage: told.garbage as u64,
            fragmented: told.fragmented as u64,
        });
        Ok(())
    })
}

/// Reads and verifies everything in a directory. Damage is in the report and the list; only a failure to look is an error.
///
/// @param store The store.
/// @param report Where the report goes, or null.
/// @param damage Where the list of damage goes, or null: items whose `key` is a sentence.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_check(
    store: *const tyr_store,
    report: *mut tyr_check_report,
    damage: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, damage, waits) = (Out::optional(report), Out::optional(damage), how.is_null());
        let store = registry::find::<Store>(store)?;
        perform(how, async move {
            let told = store.of(waits).check().await?;
            out.put(tyr_check_report {
                tables: told.tables,
                frames: told.frames,
                entries: told.entries,
                extents: told.extents,
                bytes: told.bytes,
                miscounted: told.miscounted,
                damage: told.damage.len() as u64,
            });
            if damage.is_wanted() {
                damage.put(registry::insert(List::damage(told.damage)));
            }
            Ok(())
        })
    })
}

/// Reclaims all space of a directory that is worth it, now.
///
/// @param store The store.
/// @param report Where the report goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_compact(
    store: *const tyr_store,
    report: *mut tyr_compact_report,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::optional(report), how.is_null());
        let store = registry::find::<Store>(store)?;
        perform(how, async move {
            let told = store.of(waits).compact().await?;
            out.put(tyr_compact_report {
                segments: told.segments,
                bytes_before: told.bytes_before,
                bytes_after: told.bytes_after,
            });
            Ok(())
        })
    })
}

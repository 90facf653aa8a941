//! Snapshots.

use std::{
    borrow::Cow,
    ffi::{c_char, c_int},
    sync::Arc,
};

use tyr_client::Snapshot as ClientSnapshot;

use crate::{
    border,
    keyspace::{Keyspace, range},
    list::{Content, List, told_of},
    memory::{Out, Room, copied},
    operation::perform,
    options::attribute,
    registry,
    status::Failure,
    store::Pair,
    transaction::read_parts,
    types::{tyr_async, tyr_buffer, tyr_bytes, tyr_content, tyr_keyspace, tyr_list, tyr_snapshot, tyr_stat},
};

/// A snapshot.
pub(crate) type Snapshot = Pair<ClientSnapshot>;

/// The blob that a call is about.
type Target = (Arc<Snapshot>, Arc<Keyspace>, Cow<'static, [u8]>, bool);

fn target(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> Result<Target, Failure> {
    let waits = how.is_null();
    Ok((registry::find(snapshot)?, registry::find(keyspace)?, copied(key, waits)?, waits))
}

/// Frees a snapshot; what only it shows may be dropped then.
///
/// @param snapshot The snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_free(snapshot: *mut tyr_snapshot) -> c_int {
    border::call(|| registry::remove::<Snapshot>(snapshot).map(drop))
}

/// The point: the number of the newest transaction that the snapshot shows; 0 in a cluster, which has no such number.
///
/// @param snapshot The snapshot.
/// @param number Where it goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_number(snapshot: *const tyr_snapshot, number: *mut u64) -> c_int {
    border::call(|| {
        let out = Out::required(number)?;
        out.put(registry::find::<Snapshot>(snapshot)?.of(true).number().to_u64());
        Ok(())
    })
}

/// Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
/// if the blob does not exist.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param start The first byte.
/// @param end The byte after the last one, or `TYR_END`.
/// @param content Where the handle of the bytes goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_read(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    start: u64,
    end: u64,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(content)?;
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            let bytes = snapshot.of(waits).read(keyspace.of(waits), key, range(start, end)).await?;
            out.put(registry::insert(Content::new(bytes)));
            Ok(())
        })
    })
}

/// Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset The first byte.
/// @param buffers The buffers, which do not overlap.
/// @param count How many.
/// @param read Where it goes how many bytes there were, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_read_into(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    buffers: *const tyr_buffer,
    count: usize,
    read: *mut u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, room) = (Out::optional(read), Room::of(buffers, count)?);
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            let own = keyspace.of(waits);
            let count = match room {
                Room::One(buffer) => snapshot.of(waits).read_into(own, key, offset, buffer).await?,
                Room::Many(buffers) => {
                    read_parts!(buffers, offset, |offset, buffer| snapshot
                        .of(waits)
                        .read_into(own, &key, offset, buffer))
                }
            };
            out.put(count as u64);
            Ok(())
        })
    })
}

/// The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param stat Where the state goes, or null.
/// @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_stat(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    stat: *mut tyr_stat,
    attributes: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, listed) = (Out::optional(stat), Out::optional(attributes));
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            let stat = snapshot.of(waits).stat(keyspace.of(waits), key).await?;
            out.put(told_of(&stat));
            if listed.is_wanted() {
                listed.put(registry::insert(List::attributes(&stat.attributes)));
            }
            Ok(())
        })
    })
}

/// Whether a blob exists.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param exists Where it goes: 1 or 0.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_exists(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    exists: *mut c_int,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(exists)?;
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            out.put(c_int::from(snapshot.of(waits).exists(keyspace.of(waits), key).await?));
            Ok(())
        })
    })
}

/// The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
/// content: null.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param name The name of the attribute.
/// @param content Where the handle of the value goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_attribute(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    name: *const c_char,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, name) = (Out::required(content)?, attribute(name)?);
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            let value = snapshot.of(waits).attribute(keyspace.of(waits), key, &name).await?;
            out.put(value.map_or(std::ptr::null_mut(), |value| registry::insert(Content::new(value))));
            Ok(())
        })
    })
}

/// State and content of a blob, of one version. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param content Where the handle of the bytes goes.
/// @param stat Where the state goes, or null.
/// @param attributes Where the list of its attributes goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_get(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    content: *mut *mut tyr_content,
    stat: *mut tyr_stat,
    attributes: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, stat, listed) = (Out::required(content)?, Out::optional(stat), Out::optional(attributes));
        let (snapshot, keyspace, key, waits) = target(snapshot, keyspace, key, how)?;
        perform(how, async move {
            let blob = snapshot.of(waits).get(keyspace.of(waits), key).await?;
            stat.put(told_of(&blob.stat));
            if listed.is_wanted() {
                listed.put(registry::insert(List::attributes(&blob.stat.attributes)));
            }
            out.put(registry::insert(Content::new(blob.bytes)));
            Ok(())
        })
    })
}

/// Blobs whose keys have a prefix, in the order of their keys, beginning after a key: exactly those that existed. Fewer than `limit` mean
/// that there are no more.
///
/// @param snapshot The snapshot.
/// @param keyspace The keyspace.
/// @param prefix What the keys begin with; nothing for all.
/// @param after The key to begin after; none to begin at the first.
/// @param limit How many at most.
/// @param list Where the list goes: items with `key` and `stat`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_snapshot_scan(
    snapshot: *const tyr_snapshot,
    keyspace: *const tyr_keyspace,
    prefix: tyr_bytes,
    after: tyr_bytes,
    limit: usize,
    list: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(list)?, how.is_null());
        let (snapshot, keyspace) =
            (registry::find::<Snapshot>(snapshot)?, registry::find::<Keyspace>(keyspace)?);
        let (prefix, after) = (copied(prefix, waits)?, copied(after, waits)?);
        perform(how, async move {
            let after = (!after.is_empty()).then_some(&after[..]);
            let entries = snapshot.of(waits).scan(keyspace.of(waits), prefix, after, limit).await?;
            out.put(registry::insert(List::entries(entries)));
            Ok(())
        })
    })
}

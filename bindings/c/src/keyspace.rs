//! Keyspaces, and the operations on their blobs outside of transactions.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
    time::Duration,
};

use tyr_client::{Keyspace as ClientKeyspace, Outcome};

use crate::{
    border,
    list::{Content, List, told_of},
    memory::{Key, Out, Parts, Room, array, borrowed, copied, shown},
    operation::{perform, wait},
    options::{attribute, shown_number, shown_settings, sought, transform},
    registry::{self, Used},
    status::Failure,
    store::{Pair, Store},
    transaction::read_parts,
    tries::until_done,
    types::{
        TYR_END, tyr_async, tyr_buffer, tyr_bytes, tyr_content, tyr_keyspace, tyr_list, tyr_number,
        tyr_settings, tyr_stat, tyr_transform,
    },
};

/// A keyspace, and the store that it is of.
pub(crate) struct Keyspace {
    keyspace: Pair<ClientKeyspace>,
    store: Arc<Store>,
}

impl Keyspace {
    /// One of a store.
    pub fn new(keyspace: ClientKeyspace, store: Arc<Store>) -> Self {
        Keyspace { keyspace: Pair::from(keyspace), store }
    }

    /// The one for a call.
    pub fn of(&self, waits: bool) -> &ClientKeyspace {
        self.keyspace.of(waits)
    }
}

/// The blob that a call is about.
type Target = (Used<Keyspace>, Key, bool);

#[inline(always)]
fn target(keyspace: *const tyr_keyspace, key: tyr_bytes, how: *mut tyr_async) -> Result<Target, Failure> {
    let waits = how.is_null();
    Ok((registry::find(keyspace)?, copied(key, waits)?, waits))
}

/// A range as C passes it.
pub(crate) fn range(start: u64, end: u64) -> (std::ops::Bound<u64>, std::ops::Bound<u64>) {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    (Included(start), if end == TYR_END { Unbounded } else { Excluded(end) })
}

/// Runs a body in a transaction until it commits; what it only writes has no conflicts but with a keyspace that is changed meanwhile, or in a
/// cluster when a node fails or has too much to do.
macro_rules! at_once {
    ($keyspace:expr, $waits:expr, |$transaction:ident| $body:expr) => {
        until_done($keyspace.store.deadline(), async |left| {
            let mut $transaction = $keyspace.store.of($waits).within(left).begin();
            let value = $body;
            match $transaction.commit().await? {
                Outcome::Committed(receipt) => Ok((value, receipt)),
                Outcome::Conflict(conflict) => Err(Failure::conflict(&conflict)),
            }
        })
        .await?
    };
}

/// Writes one part after the other.
macro_rules! write_parts {
    ($transaction:expr, $keyspace:expr, $key:expr, $offset:expr, $parts:expr) => {{
        let mut offset: u64 = $offset;
        for part in $parts {
            $transaction.write($keyspace, $key, offset, part).await?;
            offset = offset.saturating_add(part.len() as u64);
        }
    }};
}

/// Makes the parts the content.
macro_rules! put_parts {
    ($transaction:expr, $keyspace:expr, $key:expr, $parts:expr) => {{
        let mut offset = 0u64;
        for part in $parts {
            match offset {
                0 => $transaction.put($keyspace, $key, part).await?,
                offset => $transaction.write($keyspace, $key, offset, part).await?,
            }
            offset = offset.saturating_add(part.len() as u64);
        }
    }};
}

/// Appends one part after the other; the slot is that of the first.
macro_rules! append_parts {
    ($transaction:expr, $keyspace:expr, $key:expr, $parts:expr) => {{
        let (first, rest) = $parts.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
        let slot = $transaction.append($keyspace, $key, first).await?;
        for part in rest {
            $transaction.append($keyspace, $key, part).await?;
        }
        slot
    }};
}

/// Frees a handle.
///
/// @param keyspace The keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_free(keyspace: *mut tyr_keyspace) -> c_int {
    border::call(|| registry::remove::<Keyspace>(keyspace).map(drop))
}

/// Another handle of a keyspace, whose calls wait so long for a cluster.
///
/// @param keyspace The keyspace.
/// @param deadline_ms How long, in milliseconds.
/// @param within Where the handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_within(
    keyspace: *const tyr_keyspace,
    deadline_ms: u64,
    within: *mut *mut tyr_keyspace,
) -> c_int {
    border::call(|| {
        let out = Out::required(within)?;
        let deadline = Duration::from_millis(deadline_ms);
        let keyspace = registry::find::<Keyspace>(keyspace)?;
        let store = Arc::new(keyspace.store.within(deadline));
        out.put(registry::insert(Arc::new(Keyspace::new(keyspace.of(true).within(deadline), store))));
        Ok(())
    })
}

/// The name of a keyspace; no bytes if it is none. Valid until the handle is freed.
///
/// @param keyspace The keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_name(keyspace: *const tyr_keyspace) -> tyr_bytes {
    let mut name = shown(&[]);
    let _said = border::call(|| {
        name = shown(registry::find::<Keyspace>(keyspace)?.of(true).name().as_bytes());
        Ok(())
    });
    name
}

/// The settings of a keyspace as they are now, or in a cluster as they were last heard of.
///
/// @param keyspace The keyspace.
/// @param settings Where they go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_settings(
    keyspace: *const tyr_keyspace,
    settings: *mut tyr_settings,
) -> c_int {
    border::call(|| {
        let out = Out::required(settings)?;
        out.put(shown_settings(&registry::find::<Keyspace>(keyspace)?.of(true).settings()));
        Ok(())
    })
}

/// Creates an empty blob. Fails with `TYR_EXISTS` if it exists.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_create(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move { Ok(keyspace.of(waits).create(key).await?) })
    })
}

/// Deletes a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_delete(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move { Ok(keyspace.of(waits).delete(key).await?) })
    })
}

/// Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
/// if the blob does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param start The first byte.
/// @param end The byte after the last one, or `TYR_END`.
/// @param content Where the handle of the bytes goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_read(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    start: u64,
    end: u64,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(content)?;
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let bytes = keyspace.of(waits).read(key, range(start, end)).await?;
            out.put(registry::insert(Content::new(bytes)));
            Ok(())
        })
    })
}

/// Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset The first byte.
/// @param buffers The buffers, which do not overlap.
/// @param count How many.
/// @param read Where it goes how many bytes there were, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_read_into(
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
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        let room = match room {
            // As nearly always, and then without an operation that would be made only to be waited for.
            Room::One(buffer) if waits => {
                let count = wait(keyspace.of(true).read_into(key, offset, buffer))?;
                out.put(count as u64);
                return Ok(());
            }
            room => room,
        };
        perform(how, async move {
            let own = keyspace.of(waits);
            let count = match room {
                Room::One(buffer) => own.read_into(key, offset, buffer).await?,
                // What the first one has seen may be lost to the others when a node fails.
                Room::Many(mut buffers) if own.settings().multi_version => {
                    until_done(keyspace.store.deadline(), async |left| {
                        let mut transaction = keyspace.store.of(waits).within(left).begin();
                        Ok(read_parts!(&mut buffers, offset, |offset, buffer| transaction
                            .read_into(own, &key, offset, buffer)))
                    })
                    .await?
                }
                // Without versions only one read is of one version.
                Room::Many(buffers) => {
                    let size: usize = buffers.iter().map(|buffer| buffer.len()).sum();
                    let end = offset.checked_add(size as u64).ok_or_else(too_far)?;
                    let bytes = own.read(key, offset..end).await?;
                    let mut rest = &bytes[..];
                    for buffer in buffers {
                        let (part, left) = rest.split_at(buffer.len().min(rest.len()));
                        buffer[..part.len()].copy_from_slice(part);
                        rest = left;
                    }
                    bytes.len()
                }
            };
            out.put(count as u64);
            Ok(())
        })
    })
}

/// The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param stat Where the state goes, or null.
/// @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_stat(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    stat: *mut tyr_stat,
    attributes: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, listed) = (Out::optional(stat), Out::optional(attributes));
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let stat = keyspace.of(waits).stat(key).await?;
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
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param exists Where it goes: 1 or 0.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_exists(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    exists: *mut c_int,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(exists)?;
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            out.put(c_int::from(keyspace.of(waits).exists(key).await?));
            Ok(())
        })
    })
}

/// The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
/// content: null.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param name The name of the attribute.
/// @param content Where the handle of the value goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_attribute(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    name: *const c_char,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, name) = (Out::required(content)?, attribute(name)?);
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let value = keyspace.of(waits).attribute(key, &name).await?;
            out.put(value.map_or(std::ptr::null_mut(), |value| registry::insert(Content::new(value))));
            Ok(())
        })
    })
}

/// Writes bytes at an offset, all of them at once; creates the blob if it does not exist, and extends it as needed.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset Where they go.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_write(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    parts: *const tyr_bytes,
    count: usize,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let parts = Parts::of(parts, count)?;
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let own = keyspace.of(waits);
            match parts {
                Parts::One(bytes) => own.write(key, offset, bytes).await?,
                Parts::Many(parts) => {
                    at_once!(keyspace, waits, |transaction| write_parts!(
                        transaction,
                        own,
                        &key,
                        offset,
                        &parts
                    ));
                }
            }
            Ok(())
        })
    })
}

/// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_put(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    parts: *const tyr_bytes,
    count: usize,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let parts = Parts::of(parts, count)?;
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let own = keyspace.of(waits);
            match parts {
                Parts::One(bytes) => own.put(key, bytes).await?,
                Parts::Many(parts) => {
                    at_once!(keyspace, waits, |transaction| put_parts!(transaction, own, &key, &parts));
                }
            }
            Ok(())
        })
    })
}

/// Appends bytes, all of them at once, and tells where they went; creates the blob if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param offset Where their offset goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_append(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    parts: *const tyr_bytes,
    count: usize,
    offset: *mut u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, parts) = (Out::optional(offset), Parts::of(parts, count)?);
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let own = keyspace.of(waits);
            let offset = match parts {
                Parts::One(bytes) => own.append(key, bytes).await?,
                Parts::Many(parts) => {
                    let (slot, receipt) = at_once!(keyspace, waits, |transaction| append_parts!(
                        transaction,
                        own,
                        &key,
                        &parts
                    ));
                    receipt.offset(slot).ok_or_else(no_offset)?
                }
            };
            out.put(offset);
            Ok(())
        })
    })
}

/// Makes the blob this long, cutting it or extending it with zeros. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param size How long.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_truncate(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    size: u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move { Ok(keyspace.of(waits).truncate(key, size).await?) })
    })
}

/// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with `TYR_NOT_FOUND` if it does not
/// exist, and in a directory with `TYR_INVALID` if it is more than 64 GiB of what there is.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param start The first byte.
/// @param end The byte after the last one.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_punch(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    start: u64,
    end: u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move { Ok(keyspace.of(waits).punch(key, start..end).await?) })
    })
}

/// Where at or after an offset the next data or hole of a blob begins; its end is a hole. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param what `TYR_DATA` or `TYR_HOLE`.
/// @param from The offset.
/// @param found Where it goes; `TYR_END` if there is no more data, or if the offset is at the end of the blob or after it.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_seek(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    what: c_int,
    from: u64,
    found: *mut u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, what) = (Out::required(found)?, sought(what)?);
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            out.put(keyspace.of(waits).seek(key, what, from).await?.unwrap_or(TYR_END));
            Ok(())
        })
    })
}

/// The states of many blobs, each as of some moment during the call: together they are no snapshot. In a cluster this is one request
/// if it can be.
///
/// @param keyspace The keyspace.
/// @param keys The keys.
/// @param count How many.
/// @param list Where the list goes: for each key an item with `exists` and `stat`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_stats(
    keyspace: *const tyr_keyspace,
    keys: *const tyr_bytes,
    count: usize,
    list: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(list)?, how.is_null());
        let keyspace = registry::find::<Keyspace>(keyspace)?;
        let keys = array(keys, count)?.into_iter().map(|key| copied(key, waits));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        perform(how, async move {
            let stats = keyspace.of(waits).stats(&keys).await?;
            out.put(registry::insert(List::stats(&keys, &stats)));
            Ok(())
        })
    })
}

/// Sets an attribute, or unsets it. Fails with `TYR_NOT_FOUND` if the blob does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param name The name of the attribute.
/// @param value Its value, or null to unset it.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_set_attribute(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    name: *const c_char,
    value: *const tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (name, value) = (attribute(name)?, optional_bytes(value)?);
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move { Ok(keyspace.of(waits).set_attribute(key, &name, value.as_deref()).await?) })
    })
}

/// Transforms the number at an offset where it is, and tells its old value. Never a conflict. Creates the blob if it does not exist,
/// and extends it with zeros as needed.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset Where the number is.
/// @param transform The transform.
/// @param old Where the old value goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_transform(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    transform: *const tyr_transform,
    old: *mut tyr_number,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, transform) = (Out::optional(old), self::transform(transform)?);
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            out.put(shown_number(keyspace.of(waits).transform(key, offset, transform).await?));
            Ok(())
        })
    })
}

/// State and content of a blob, of one version. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param keyspace The keyspace.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param content Where the handle of the bytes goes.
/// @param stat Where the state goes, or null.
/// @param attributes Where the list of its attributes goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_get(
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    content: *mut *mut tyr_content,
    stat: *mut tyr_stat,
    attributes: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, stat, listed) = (Out::required(content)?, Out::optional(stat), Out::optional(attributes));
        let (keyspace, key, waits) = target(keyspace, key, how)?;
        perform(how, async move {
            let blob = keyspace.of(waits).get(key).await?;
            stat.put(told_of(&blob.stat));
            if listed.is_wanted() {
                listed.put(registry::insert(List::attributes(&blob.stat.attributes)));
            }
            out.put(registry::insert(Content::new(blob.bytes)));
            Ok(())
        })
    })
}

/// Blobs whose keys have a prefix, in the order of their keys, beginning after a key. Fewer than `limit` mean that there are no more. Not
/// a snapshot: every blob that exists throughout is listed exactly once, others may be.
///
/// @param keyspace The keyspace.
/// @param prefix What the keys begin with; nothing for all.
/// @param after The key to begin after; none to begin at the first.
/// @param limit How many at most.
/// @param list Where the list goes: items with `key` and `stat`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_keyspace_scan(
    keyspace: *const tyr_keyspace,
    prefix: tyr_bytes,
    after: tyr_bytes,
    limit: usize,
    list: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(list)?, how.is_null());
        let keyspace = registry::find::<Keyspace>(keyspace)?;
        let (prefix, after) = (copied(prefix, waits)?, copied(after, waits)?);
        perform(how, async move {
            let after = Some(after.as_ref()).filter(|after| !after.is_empty());
            let entries = keyspace.of(waits).scan(prefix, after, limit).await?;
            out.put(registry::insert(List::entries(entries)));
            Ok(())
        })
    })
}

/// A value that may be missing.
pub(crate) fn optional_bytes(value: *const tyr_bytes) -> Result<Option<Vec<u8>>, Failure> {
    // SAFETY: the caller says that it is null or one.
    unsafe { value.as_ref() }.map(|value| borrowed(*value).map(<[u8]>::to_vec)).transpose()
}

#[cold]
fn too_far() -> Failure {
    Failure::invalid("the range ends past 2^63-1; use a smaller one")
}

#[cold]
fn no_offset() -> Failure {
    Failure {
        status: crate::status::TYR_INTERNAL,
        message: "an append has no offset; please report it".into(),
    }
}

//! Results that have no fixed size: lists, and bytes that were read.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
};

use tyr_client::{Attributes, Entry, KeyspaceSummary, SnapshotSummary, Stat};

use crate::{
    border,
    memory::{Out, shown},
    options::shown_settings,
    registry,
    status::{Failure, TYR_NOT_FOUND},
    types::{TYR_UNKNOWN, tyr_bytes, tyr_content, tyr_item, tyr_list, tyr_settings, tyr_stat},
};

/// A list.
pub(crate) struct List(Vec<Row>);

struct Row {
    key: Vec<u8>,
    value: Vec<u8>,
    stat: Option<tyr_stat>,
    keyspace: Option<(tyr_settings, u64, u64)>,
    taken: u64,
}

/// Bytes that were read.
pub(crate) struct Content(Vec<u8>);

impl Row {
    fn named(key: impl Into<Vec<u8>>) -> Row {
        Row { key: key.into(), value: Vec::new(), stat: Some(tyr_stat::default()), keyspace: None, taken: 0 }
    }
}

impl List {
    /// Blobs that were found.
    pub fn entries(entries: Vec<Entry>) -> Arc<List> {
        let row = |entry: Entry| Row {
            stat: Some(tyr_stat { size: entry.size, blob: 0, version: entry.version.to_u64() }),
            ..Row::named(entry.key.as_bytes())
        };
        Arc::new(List(entries.into_iter().map(row).collect()))
    }

    /// The states of blobs that were asked for.
    pub fn stats<K: AsRef<[u8]>>(keys: &[K], stats: &[Option<Stat>]) -> Arc<List> {
        let row = |(key, stat): (&K, &Option<Stat>)| Row {
            stat: stat.as_ref().map(told_of),
            ..Row::named(key.as_ref())
        };
        Arc::new(List(keys.iter().zip(stats).map(row).collect()))
    }

    /// The attributes of a blob.
    pub fn attributes(attributes: &Attributes) -> Arc<List> {
        let row = |(name, value): (&str, &[u8])| Row { value: value.to_vec(), ..Row::named(name) };
        Arc::new(List(attributes.iter().map(row).collect()))
    }

    /// The keyspaces of a store.
    pub fn keyspaces(known: Vec<KeyspaceSummary>) -> Arc<List> {
        let row = |known: KeyspaceSummary| Row {
            keyspace: Some((
                shown_settings(&known.settings),
                known.blobs.unwrap_or(TYR_UNKNOWN),
                known.bytes.unwrap_or(TYR_UNKNOWN),
            )),
            ..Row::named(known.name)
        };
        Arc::new(List(known.into_iter().map(row).collect()))
    }

    /// The snapshots of a keyspace that have names.
    pub fn snapshots(known: Vec<SnapshotSummary>) -> Arc<List> {
        let row = |known: SnapshotSummary| Row {
            taken: known.taken,
            stat: known.is_complete.then(tyr_stat::default),
            ..Row::named(known.name)
        };
        Arc::new(List(known.into_iter().map(row).collect()))
    }

    /// What is damaged.
    pub fn damage(damage: Vec<String>) -> Arc<List> {
        Arc::new(List(damage.into_iter().map(Row::named).collect()))
    }
}

impl Content {
    /// Of bytes.
    pub fn new(bytes: Vec<u8>) -> Arc<Content> {
        Arc::new(Content(bytes))
    }
}

/// A stat as C sees it.
pub(crate) fn told_of(stat: &Stat) -> tyr_stat {
    tyr_stat { size: stat.size, blob: stat.blob.to_u64(), version: stat.version.to_u64() }
}

/// How many there are in a list; 0 if it is none.
///
/// @param list The list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_list_size(list: *const tyr_list) -> usize {
    let mut size = 0;
    let _said = border::call(|| {
        size = registry::find::<List>(list)?.0.len();
        Ok(())
    });
    size
}

/// One of a list. Fails with `TYR_NOT_FOUND` if it is not that long.
///
/// @param list The list.
/// @param index Which, from 0.
/// @param item Where it goes; its bytes are valid until the list is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_list_at(list: *const tyr_list, index: usize, item: *mut tyr_item) -> c_int {
    border::call(|| {
        let out = Out::required(item)?;
        let list = registry::find::<List>(list)?;
        let row = list.0.get(index).ok_or_else(|| Failure {
            status: TYR_NOT_FOUND,
            message: format!("the list has {} items", list.0.len()),
        })?;
        let unknown = (tyr_settings { durability: 0, multi_version: 0, chunk_size: 0, quota: 0 }, 0, 0);
        let (settings, blobs, bytes) = row.keyspace.unwrap_or(unknown);
        out.put(tyr_item {
            key: shown(&row.key),
            value: shown(&row.value),
            exists: c_int::from(row.stat.is_some()),
            stat: row.stat.unwrap_or_default(),
            settings,
            blobs,
            bytes,
            taken: row.taken,
        });
        Ok(())
    })
}

/// Frees a list.
///
/// @param list The list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_list_free(list: *mut tyr_list) -> c_int {
    border::call(|| registry::remove::<List>(list).map(drop))
}

/// The bytes that were read; none if it is not the handle of any. Valid until it is freed.
///
/// @param content What was read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_content_bytes(content: *const tyr_content) -> tyr_bytes {
    let mut bytes = shown(&[]);
    let _said = border::call(|| {
        bytes = shown(&registry::find::<Content>(content)?.0);
        Ok(())
    });
    bytes
}

/// Frees bytes that were read.
///
/// @param content What was read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_content_free(content: *mut tyr_content) -> c_int {
    border::call(|| registry::remove::<Content>(content).map(drop))
}

/// The version of the library, as a text.
#[unsafe(no_mangle)]
pub extern "C" fn tyr_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

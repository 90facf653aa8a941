//! Whether a store is what a model says.

use std::collections::BTreeSet;

use tyr_store::{Miss, Store, Wait};
use tyr_types::{Error, Key, KeyspaceId, Number, Result};

use super::{
    chance::pattern,
    model::{Blob, Edit, PAGE, State, key},
    session::{Session, settle},
};

/// Keys that the tests use, so that those which do not exist are asked for as well.
pub fn probe_keys() -> Vec<Key> {
    ["a", "b", "c", "d", "e", "f", "far", "log", "never"].map(key).into()
}

/// In which of the states the store is; or how it differs from each.
///
/// A hole is only looked at where another of the states has bytes.
pub fn find_state(store: &Store, states: &[State]) -> Result<usize, Vec<String>> {
    let mut differences = Vec::new();
    for (index, state) in states.iter().enumerate() {
        match difference(store, state).or_else(|| hole_difference(store, state, states)) {
            None => return Ok(index),
            Some(difference) => differences.push(difference),
        }
    }
    Err(differences)
}

/// How the store differs from the state where the others have bytes.
fn hole_difference(store: &Store, state: &State, others: &[State]) -> Option<String> {
    let mut spaces = state.spaces.iter();
    spaces.find_map(|(id, space)| {
        space.blobs.iter().find_map(|(key, blob)| {
            let others = others.iter().filter_map(|other| other.blob(*id, key));
            let pages: BTreeSet<u64> = others.flat_map(|other| other.pages.keys().copied()).collect();
            let page = usize::try_from(PAGE).expect("fits");
            let ranges = pages.iter().map(|index| (index * PAGE, page)).collect();
            let found = range_difference(store, blob, *id, key, Number::MAX, ranges);
            found.unwrap_or_else(|error| panic!("'{key}': {error:?}"))
        })
    })
}

/// How the store differs from the state, in words; `None` if it does not.
pub fn difference(store: &Store, state: &State) -> Option<String> {
    let mut found = totals_difference(store, state);
    for id in state.spaces.keys() {
        found = found.or_else(|| difference_at(store, state, *id, Number::MAX));
    }
    found
}

/// As [`difference`], of keyspaces, their settings and totals.
pub fn totals_difference(store: &Store, state: &State) -> Option<String> {
    let records = store.keyspaces();
    let ids: Vec<KeyspaceId> = records.iter().map(|record| record.id).collect();
    if ids != state.spaces.keys().copied().collect::<Vec<_>>() {
        return Some(format!("keyspaces are {ids:?}, expected {:?}", state.spaces.keys()));
    }
    records.into_iter().find_map(|record| {
        let space = state.space(record.id);
        if (&record.name, &record.settings) != (&space.name, &space.settings) {
            return Some(format!("keyspace is {record:?}, expected {:?} {:?}", space.name, space.settings));
        }
        let totals = state.totals(record.id);
        ((record.blobs, record.bytes) != totals).then(|| format!("totals of {record:?}, expected {totals:?}"))
    })
}

/// As [`difference`], of the blobs of one keyspace at a number.
pub fn difference_at(store: &Store, state: &State, id: KeyspaceId, at: Number) -> Option<String> {
    let failed = |error: Error| panic!("keyspace {} at {at}: {error:?}", id.0);
    let mut found = scan_difference(store, state, id, at).unwrap_or_else(failed);
    for key in keys_of(state, id) {
        found = found.or_else(|| blob_difference(store, state, id, &key, at).unwrap_or_else(failed));
    }
    found
}

/// The keys that exist, and some that do not.
pub fn keys_of(state: &State, id: KeyspaceId) -> Vec<Key> {
    let mut keys: Vec<Key> = state.space(id).blobs.keys().cloned().collect();
    keys.extend(probe_keys().into_iter().filter(|key| state.blob(id, key).is_none()));
    keys
}

/// As [`difference`], of what a scan finds, a few keys at a time.
pub fn scan_difference(store: &Store, state: &State, id: KeyspaceId, at: Number) -> Result<Option<String>> {
    let mut scanned: Vec<(Key, u64)> = Vec::new();
    loop {
        let after = scanned.last().map(|(key, _)| key.as_bytes().to_vec());
        let page = store.scan(id, b"", after.as_deref(), 3, at)?;
        if page.is_empty() {
            break;
        }
        scanned.extend(page.into_iter().map(|(key, head)| (key, head.size)));
    }
    let blobs = &state.space(id).blobs;
    let expected: Vec<(Key, u64)> = blobs.iter().map(|(key, blob)| (key.clone(), blob.size)).collect();
    let differ = || format!("a scan of {id:?} at {at} finds {scanned:?}, expected {expected:?}");
    Ok((scanned != expected).then(differ))
}

/// As [`difference`], of one key.
pub fn blob_difference(
    store: &Store,
    state: &State,
    id: KeyspaceId,
    key: &Key,
    at: Number,
) -> Result<Option<String>> {
    let head = store.head(id, key, at, Wait::Allowed).map_err(failure)?;
    let (head, blob) = match (head, state.blob(id, key)) {
        (None, None) => return Ok(None),
        (Some(head), Some(blob)) => (head, blob),
        (head, _) => return Ok(Some(format!("'{key}' at {at} is {head:?}"))),
    };
    if (head.size, &*head.attributes) != (blob.size, &blob.attributes) {
        return Ok(Some(format!("head of '{key}' at {at} is {head:?}, expected {} bytes", blob.size)));
    }
    range_difference(store, blob, id, key, at, ranges(blob))
}

/// As [`difference`], of parts of one blob that exists.
fn range_difference(
    store: &Store,
    blob: &Blob,
    id: KeyspaceId,
    key: &Key,
    at: Number,
    ranges: Vec<(u64, usize)>,
) -> Result<Option<String>> {
    for (offset, len) in ranges {
        let mut buffer = vec![0xee; len + 1];
        let read = store.read(id, key, at, offset, &mut buffer, Wait::Allowed).map_err(failure)?;
        let Some((_, read)) = read else { return Ok(Some(format!("'{key}' cannot be read at {at}"))) };
        let inside = usize::try_from(blob.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(len + 1);
        if read != inside {
            return Ok(Some(format!("'{key}' has {read} bytes from {offset} at {at}, expected {inside}")));
        }
        let expected = blob.read(offset, read);
        if let Some(wrong) = (0..read).find(|&i| buffer[i] != expected[i]) {
            return Ok(Some(format!("byte {} of '{key}' at {at} is wrong", offset + wrong as u64)));
        }
    }
    Ok(None)
}

pub fn failure(miss: Miss) -> Error {
    match miss {
        Miss::Failed(error) => error,
        Miss::WouldBlock => panic!("it was allowed to wait"),
    }
}

/// All of a small blob; of a large one what lies around its pages, and both ends.
fn ranges(blob: &Blob) -> Vec<(u64, usize)> {
    if blob.size <= WHOLE_MAX {
        return vec![(0, usize::try_from(blob.size).expect("fits"))];
    }
    let mut ranges = vec![(0, 100), (blob.size - 1, 1), (blob.size / 2 + 1, 200_000)];
    for page in blob.pages.keys() {
        if !blob.pages.contains_key(&page.wrapping_sub(1)) {
            let run = (*page..).take_while(|page| blob.pages.contains_key(page)).count() as u64;
            let from = (page * PAGE).saturating_sub(10);
            ranges.push((from, usize::try_from(run * PAGE + 20).expect("fits")));
        }
    }
    ranges
}

/// Fails unless a check finds nothing wrong, not even in the counts of live bytes.
pub fn expect_sound(store: &Store) {
    let report = store.check().expect("checks");
    assert_eq!((report.damage, report.miscounted), (Vec::new(), 0));
}

/// Fails unless the store, which is in the newest state of the session, can be written, maintained, and opened again. The
/// session is open afterwards.
pub fn expect_usable(session: &mut Session) -> Result<()> {
    expect_sound(session.store());
    let spaces: Vec<KeyspaceId> = session.state().spaces.keys().copied().collect();
    for (seed, space) in (1000..).zip(spaces) {
        for (name, len) in [("after-small", 700), ("after-log", 5000), ("after-bulk", 30_000)] {
            let edit = Edit::any(session.state(), space, &key(name)).append(pattern(seed + len as u64, len));
            session.commit(&[edit])?;
        }
    }
    settle(session.store())?;
    expect_same(session, "after it was written and maintained");
    session.flush()?;
    session.kill()?;
    expect_same(session, "after it was opened once more");
    expect_sound(session.store());
    Ok(())
}

/// Fails if the store is not in the newest state of the session.
pub fn expect_same(session: &Session, when: &str) {
    if let Some(difference) = difference(session.store(), session.state()) {
        panic!("{when}: {difference}");
    }
}

const WHOLE_MAX: u64 = 1 << 20;

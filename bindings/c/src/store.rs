//! Stores.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
    time::Duration,
};

use tyr_client::{Keyspace as ClientKeyspace, Snapshot as ClientSnapshot, Store as ClientStore, blocking};

use crate::{
    border,
    keyspace::Keyspace,
    list::List,
    memory::{Out, array, text},
    operation::perform,
    options::{options, settings},
    registry::{self, Used},
    snapshot::Snapshot,
    status::Failure,
    transaction::Transaction,
    types::{
        tyr_async, tyr_keyspace, tyr_list, tyr_options, tyr_settings, tyr_snapshot, tyr_store,
        tyr_transaction,
    },
};

/// An open store, and its keyspaces and snapshots: one way for who waits, and one for who does not.
pub(crate) struct Pair<T> {
    ready: T,
    later: T,
}

/// An open store.
pub(crate) struct Store {
    store: Pair<ClientStore>,
    deadline: Duration,
}

impl Store {
    /// One whose calls wait so long for a cluster.
    pub fn new(store: ClientStore, deadline: Duration) -> Self {
        Store { store: Pair::from(store), deadline }
    }

    /// The one for a call.
    pub fn of(&self, waits: bool) -> &ClientStore {
        self.store.of(waits)
    }

    /// The same, whose calls wait so long instead.
    pub fn within(&self, deadline: Duration) -> Store {
        Store::new(self.of(true).within(deadline), deadline)
    }

    /// How long its calls wait.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl<T> Pair<T> {
    /// The one for a call.
    pub fn of(&self, waits: bool) -> &T {
        if waits { &self.ready } else { &self.later }
    }
}

impl From<ClientStore> for Pair<ClientStore> {
    fn from(store: ClientStore) -> Self {
        let ready = blocking::Store::from(store);
        Pair { later: ready.clone().into(), ready: ready.into_ready() }
    }
}

impl From<ClientKeyspace> for Pair<ClientKeyspace> {
    fn from(keyspace: ClientKeyspace) -> Self {
        let ready = blocking::Keyspace::from(keyspace);
        Pair { later: ready.clone().into(), ready: ready.into_ready() }
    }
}

impl From<ClientSnapshot> for Pair<ClientSnapshot> {
    fn from(snapshot: ClientSnapshot) -> Self {
        let ready = blocking::Snapshot::from(snapshot);
        Pair { later: ready.clone().into(), ready: ready.into_ready() }
    }
}

/// What calls about a snapshot with a name are given.
struct NamedOf {
    store: Used<Store>,
    keyspace: Used<Keyspace>,
    name: String,
}

impl NamedOf {
    fn new(
        store: *const tyr_store,
        keyspace: *const tyr_keyspace,
        name: *const c_char,
    ) -> Result<Self, Failure> {
        let name = text(name, "the name of the snapshot")?.to_owned();
        Ok(NamedOf { store: registry::find(store)?, keyspace: registry::find(keyspace)?, name })
    }
}

/// Opens a store: a directory, which is created if it is missing, or the URL of a cluster, `tyr://host:port,host:port`.
///
/// @param name The directory or URL.
/// @param options Options, or null for the defaults.
/// @param store Where its handle goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_open(
    name: *const c_char,
    options: *const tyr_options,
    store: *mut *mut tyr_store,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(store)?, how.is_null());
        let name = text(name, "the name of the store")?;
        let (options, deadline) = self::options(options)?;
        perform(how, async move {
            let opened = match waits {
                true => blocking::OpenOptions::from(options).open(&name)?.into_ready(),
                false => options.open(&name).await?,
            };
            out.put(registry::insert(Arc::new(Store::new(opened, deadline))));
            Ok(())
        })
    })
}

/// Frees a handle. The store is stopped when the last handle of it, and of what was opened, begun, and taken of it, is freed.
/// `tyr_store_close` is the better way, because it waits for what is under way and can report an error.
///
/// @param store The store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_free(store: *mut tyr_store) -> c_int {
    border::call(|| registry::remove::<Store>(store).map(drop))
}

/// Stops a store cleanly, and frees the handle. Every later operation, on any handle of it, fails with `TYR_UNAVAILABLE`. A directory
/// can be opened again when the other handles were freed too.
///
/// @param store The store.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_close(store: *mut tyr_store, how: *mut tyr_async) -> c_int {
    border::call(|| {
        let waits = how.is_null();
        let found = registry::find::<Store>(store)?;
        let closing = found.of(waits).clone();
        drop(found);
        perform(how, async move {
            // Not before it has begun, so that a call that is wrong leaves the handle.
            drop(registry::remove::<Store>(store)?);
            Ok(closing.close().await?)
        })
    })
}

/// Whether a store is a cluster: 1 or 0; below zero if it is no store.
///
/// @param store The store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_is_cluster(store: *const tyr_store) -> c_int {
    let mut is_cluster = false;
    let status = border::call(|| {
        is_cluster = registry::find::<Store>(store)?.of(true).is_cluster();
        Ok(())
    });
    if status < 0 { status } else { c_int::from(is_cluster) }
}

/// Another handle of a store. Calls by it, and those of what it opens and begins, wait so long for a cluster.
///
/// @param store The store.
/// @param deadline_ms How long, in milliseconds.
/// @param within Where the handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_within(
    store: *const tyr_store,
    deadline_ms: u64,
    within: *mut *mut tyr_store,
) -> c_int {
    border::call(|| {
        let out = Out::required(within)?;
        let store = registry::find::<Store>(store)?.within(Duration::from_millis(deadline_ms));
        out.put(registry::insert(Arc::new(store)));
        Ok(())
    })
}

/// Creates a keyspace. Fails with `TYR_EXISTS` if the name is taken.
///
/// @param store The store.
/// @param name Its name: 1 to 255 letters, digits, `-`, `_`, `.`, beginning with a letter or digit.
/// @param settings Its settings, or null for the defaults.
/// @param keyspace Where its handle goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_create_keyspace(
    store: *const tyr_store,
    name: *const c_char,
    settings: *const tyr_settings,
    keyspace: *mut *mut tyr_keyspace,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::optional(keyspace), how.is_null());
        let store = registry::find::<Store>(store)?;
        let (name, settings) = (text(name, "the name of the keyspace")?, self::settings(settings)?);
        perform(how, async move {
            let made = store.of(waits).create_keyspace(&name, settings).await?;
            if out.is_wanted() {
                out.put(registry::insert(Arc::new(Keyspace::new(made, store.arc()))));
            }
            Ok(())
        })
    })
}

/// A handle of an existing keyspace. Waits for a cluster only if the name was not heard of.
///
/// @param store The store.
/// @param name Its name.
/// @param keyspace Where its handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_keyspace(
    store: *const tyr_store,
    name: *const c_char,
    keyspace: *mut *mut tyr_keyspace,
) -> c_int {
    border::call(|| {
        let out = Out::required(keyspace)?;
        let store = registry::find::<Store>(store)?;
        let found = store.of(true).keyspace(&text(name, "the name of the keyspace")?)?;
        out.put(registry::insert(Arc::new(Keyspace::new(found, store.arc()))));
        Ok(())
    })
}

/// All keyspaces, in the order of their names: items with `key`, `settings`, `blobs`, and `bytes`.
///
/// @param store The store.
/// @param list Where the list goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_keyspaces(store: *const tyr_store, list: *mut *mut tyr_list) -> c_int {
    border::call(|| {
        let out = Out::required(list)?;
        let store = registry::find::<Store>(store)?;
        out.put(registry::insert(List::keyspaces(store.of(true).keyspaces())));
        Ok(())
    })
}

/// Gives a keyspace other settings. Its chunk size cannot be altered.
///
/// @param store The store.
/// @param name The keyspace's name.
/// @param settings The settings, or null for the defaults.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_alter_keyspace(
    store: *const tyr_store,
    name: *const c_char,
    settings: *const tyr_settings,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let waits = how.is_null();
        let store = registry::find::<Store>(store)?;
        let (name, settings) = (text(name, "the name of the keyspace")?, self::settings(settings)?);
        perform(how, async move { Ok(store.of(waits).alter_keyspace(&name, settings).await?) })
    })
}

/// Drops a keyspace with everything in it. Handles of it fail with `TYR_NOT_FOUND` from then on.
///
/// @param store The store.
/// @param name The keyspace's name.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_drop_keyspace(
    store: *const tyr_store,
    name: *const c_char,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let waits = how.is_null();
        let store = registry::find::<Store>(store)?;
        let name = text(name, "the name of the keyspace")?;
        perform(how, async move { Ok(store.of(waits).drop_keyspace(&name).await?) })
    })
}

/// Begins a transaction. Local: costs nothing until something is read. Its handle is to be freed, whatever becomes of it.
///
/// @param store The store.
/// @param transaction Where its handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_begin(
    store: *const tyr_store,
    transaction: *mut *mut tyr_transaction,
) -> c_int {
    border::call(|| {
        let out = Out::required(transaction)?;
        let begun = registry::find::<Store>(store)?.of(true).begin();
        out.put(registry::insert(Arc::new(Transaction::new(begun))));
        Ok(())
    })
}

/// Pins all blobs of keyspaces at one point: what the snapshot shows never changes and never conflicts.
///
/// @param store The store.
/// @param keyspaces The keyspaces.
/// @param count How many.
/// @param snapshot Where its handle goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_snapshot(
    store: *const tyr_store,
    keyspaces: *const *const tyr_keyspace,
    count: usize,
    snapshot: *mut *mut tyr_snapshot,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(snapshot)?, how.is_null());
        let store = registry::find::<Store>(store)?;
        let keyspaces = array(keyspaces, count)?.into_iter().map(registry::find::<Keyspace>);
        let keyspaces = keyspaces.collect::<Result<Vec<_>, Failure>>()?;
        perform(how, async move {
            let of: Vec<&ClientKeyspace> = keyspaces.iter().map(|keyspace| keyspace.of(waits)).collect();
            let taken = store.of(waits).snapshot(&of).await?;
            out.put(registry::insert(Arc::new(Snapshot::from(taken))));
            Ok(())
        })
    })
}

/// Takes a snapshot of a keyspace that lasts until it is dropped by its name, also when the store is closed. Fails with `TYR_EXISTS` if the
/// keyspace has one of that name.
///
/// @param store The store.
/// @param keyspace The keyspace.
/// @param name The snapshot's name: letters, digits, '-', '_', '.', beginning with a letter or digit.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_create_snapshot(
    store: *const tyr_store,
    keyspace: *const tyr_keyspace,
    name: *const c_char,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (of, waits) = (NamedOf::new(store, keyspace, name)?, how.is_null());
        perform(
            how,
            async move { Ok(of.store.of(waits).create_snapshot(of.keyspace.of(waits), &of.name).await?) },
        )
    })
}

/// Opens a snapshot by its name, to be read until its handle is freed. Fails with `TYR_NOT_FOUND` if there is none of that name.
///
/// @param store The store.
/// @param keyspace The keyspace.
/// @param name The snapshot's name.
/// @param snapshot Where its handle goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_open_snapshot(
    store: *const tyr_store,
    keyspace: *const tyr_keyspace,
    name: *const c_char,
    snapshot: *mut *mut tyr_snapshot,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, of, waits) =
            (Out::required(snapshot)?, NamedOf::new(store, keyspace, name)?, how.is_null());
        perform(how, async move {
            let opened = of.store.of(waits).open_snapshot(of.keyspace.of(waits), &of.name).await?;
            out.put(registry::insert(Arc::new(Snapshot::from(opened))));
            Ok(())
        })
    })
}

/// The snapshots of a keyspace that have names, in the order in which they were taken: items with `key` and `taken`.
///
/// @param store The store.
/// @param keyspace The keyspace.
/// @param list Where the list goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_snapshots(
    store: *const tyr_store,
    keyspace: *const tyr_keyspace,
    list: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::required(list)?, how.is_null());
        let (store, keyspace) = (registry::find::<Store>(store)?, registry::find::<Keyspace>(keyspace)?);
        perform(how, async move {
            let known = store.of(waits).snapshots(keyspace.of(waits)).await?;
            out.put(registry::insert(List::snapshots(known)));
            Ok(())
        })
    })
}

/// Drops a snapshot by its name. Fails with `TYR_NOT_FOUND` if there is none of that name.
///
/// @param store The store.
/// @param keyspace The keyspace.
/// @param name The snapshot's name.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_drop_snapshot(
    store: *const tyr_store,
    keyspace: *const tyr_keyspace,
    name: *const c_char,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (of, waits) = (NamedOf::new(store, keyspace, name)?, how.is_null());
        perform(
            how,
            async move { Ok(of.store.of(waits).drop_snapshot(of.keyspace.of(waits), &of.name).await?) },
        )
    })
}

/// Returns when every commit so far is on disk, those of keyspaces with `TYR_MEMORY` included. Fails with `TYR_INVALID` in a cluster that has
/// such keyspaces: it cannot flush them.
///
/// @param store The store.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_flush(store: *const tyr_store, how: *mut tyr_async) -> c_int {
    border::call(|| {
        let waits = how.is_null();
        let store = registry::find::<Store>(store)?;
        perform(how, async move { Ok(store.of(waits).flush().await?) })
    })
}

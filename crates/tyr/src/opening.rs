//! Opens the store that the settings name, and stops it cleanly after the work.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tyr_client::{Create, Error, ErrorKind, blocking::Store, is_cluster};

use tyr_server::{Credential, is_node};

use crate::{
    failure::{Failure, Result},
    settings::Settings,
};

/// The tables of the index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// As they are on the disk.
    AsTheyAre,
    /// Made anew from the log.
    Rebuilt,
}

/// What becomes of what was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    /// It is read again.
    None,
    /// It is kept as long as it is what the cluster has.
    Kept,
}

/// Does the work on the store, which is closed afterwards whether the work succeeded or not. Not on that of a node, which alone knows what is in it.
pub fn with_store<T>(
    settings: &Settings,
    create: Create,
    work: impl FnOnce(&Store) -> Result<T>,
) -> Result<T> {
    with_tables(settings, create, Tables::AsTheyAre, |store| {
        refuse_nodes(settings, store)?;
        work(store)
    })
}

/// As [`with_store`], with a choice of what to do about the index, on whatever store.
pub fn with_tables<T>(
    settings: &Settings,
    create: Create,
    tables: Tables,
    work: impl FnOnce(&Store) -> Result<T>,
) -> Result<T> {
    do_and_close(open(settings, create, tables, Copies::None)?, work)
}

/// As [`with_store`], for work that reads the same again and again. A directory that is in use is waited for: who unmounts it and mounts it again
/// at once does not know that the process of the first mount still closes its store.
pub fn with_copies<T>(
    settings: &Settings,
    create: Create,
    work: impl FnOnce(&Store) -> Result<T>,
) -> Result<T> {
    let until = Instant::now() + IN_USE_MAX;
    let is_in_use = |failure: &Failure| {
        let is_directory = settings.store.as_deref().is_some_and(|store| !is_cluster(store));
        is_directory && matches!(failure, Failure::Store(error) if error.kind() == ErrorKind::Unavailable)
    };
    let store = loop {
        match open(settings, create, Tables::AsTheyAre, Copies::Kept) {
            Err(failure) if is_in_use(&failure) && Instant::now() < until => thread::sleep(GLANCE),
            opened => break opened?,
        }
    };
    do_and_close(store, |store| {
        refuse_nodes(settings, store)?;
        work(store)
    })
}

/// Fails if a store is a node's: what is changed there without its cluster is damage that only its other copies mend.
fn refuse_nodes(settings: &Settings, store: &Store) -> Result<()> {
    let path = named(settings)?;
    let is_shard = || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("shard-"));
    let has_partitions = || store.keyspaces().iter().any(|keyspace| keyspace.name.as_str() == PARTITIONS);
    if !is_cluster(path) && is_shard() && has_partitions() {
        return Err(Failure::from(Error::invalid(format!(
            "'{}' is the store of a node, which alone knows what is in it; name the cluster with --store tyr://ADDRESS, or look at it with 'tyr check' and 'tyr stats'",
            path.display()
        ))));
    }
    Ok(())
}

fn do_and_close<T>(store: Store, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    let done = work(&store);
    let closed = store.close();
    let value = done?;
    closed?;
    Ok(value)
}

/// Opens the store that the settings name.
fn open(settings: &Settings, create: Create, tables: Tables, copies: Copies) -> Result<Store> {
    let path = named(settings)?;
    if is_cluster(path) && tables == Tables::Rebuilt {
        return Err(Failure::from(Error::invalid(
            "a cluster has no index of its own to make anew; its nodes keep theirs",
        )));
    }
    let options = Store::options()
        .create(create)
        .connect_timeout(settings.timeout)
        .data_cache(settings.data_cache)
        .index_cache(settings.index_cache)
        .segment_size(settings.segment_size)
        .io(settings.io);
    let options = match tables {
        Tables::AsTheyAre => options,
        Tables::Rebuilt => options.rebuild_index(),
    };
    let options = match copies {
        Copies::None => options,
        Copies::Kept => options.copies(),
    };
    let options = match settings.tls()? {
        Some(tls) => options.tls(tls),
        None => options,
    };
    let options = match is_cluster(path).then(|| settings.access.credential()).transpose()? {
        Some(Credential::Token(token)) => options.token(token),
        Some(Credential::Secret(secret)) => options.secret(secret),
        Some(Credential::None) | None => options,
    };
    let options = match &settings.zone {
        Some(zone) => options.zone(zone),
        None => options,
    };
    let options = match &settings.trace.otlp {
        Some(collector) => options.traces(collector, settings.trace.every),
        None => options,
    };
    let is_missing = matches!(create, Create::Never) && !is_cluster(path) && !path.exists();
    options.open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound if is_missing => Failure::from(Error::not_found(format!(
            "there is no store at '{}'; correct --store, or create one with 'tyr keyspace create NAME'",
            path.display()
        ))),
        ErrorKind::NotFound if is_node(path) => Failure::from(Error::not_found(of_node(path))),
        ErrorKind::Unavailable if is_cluster(path) => Failure::from(Error::unavailable(format!(
            "{error}, or see with 'tyr doctor' what is wrong, or give it more than {} s with --timeout SECONDS",
            settings.timeout.as_secs()
        ))),
        _ => error.into(),
    })
}

/// That a directory is a node's, and where the stores are.
fn of_node(path: &Path) -> String {
    let (node, first) = (path.display(), path.join("shard-0"));
    let stores = match first.is_dir() {
        true => format!("one of which is '{}'", first.display()),
        false => "of its targets".to_owned(),
    };
    format!(
        "'{node}' is a node's directory; its stores are in its shard-N directories, {stores}, and can be checked while the node does not run"
    )
}

/// What names the store: its directory, or the URL of a cluster.
fn named(settings: &Settings) -> Result<&Path> {
    let Some(path) = settings.store.as_deref() else {
        return Err(Failure::Usage(
            "no store is named: pass --store PATH, or set TYR_STORE, or write path = \"PATH\" under [store] in \
             tyr.toml"
                .to_owned(),
        ));
    };
    tyr_client::check_name(path).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(path)
}

/// The keyspace in which a node has its partitions.
const PARTITIONS: &str = "node";
/// A directory that is in use is waited for so long,
const IN_USE_MAX: Duration = Duration::from_secs(5);
/// and looked at so often.
const GLANCE: Duration = Duration::from_millis(50);

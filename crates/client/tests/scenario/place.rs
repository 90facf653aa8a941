//! Where scenarios run: a new directory for each, or a cluster for all of them.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use tempfile::TempDir;
use tyr_client::{OpenOptions, Result, Store};

use crate::real::Servers;

/// Where scenarios run.
pub enum Place {
    /// In a directory that holds the store, and those that scenarios name.
    Directory(TempDir),
    /// On servers.
    Cluster(Mutex<Servers>),
}

impl Place {
    /// The store of the scenario, or another one that it names.
    pub fn open(&self, name: Option<&str>, options: OpenOptions) -> Result<Store> {
        let place = match (self, name) {
            (_, Some(name)) if name.starts_with('/') || name.starts_with("tyr") => PathBuf::from(name),
            (Place::Directory(directory), name) => directory.path().join(name.unwrap_or("store")),
            (Place::Cluster(servers), _) => PathBuf::from(servers.lock().unwrap().url()),
        };
        pollster::block_on(options.segment_size(1 << 20).open(place))
    }

    /// Ends a server without a warning.
    pub fn kill(&self, node: usize) {
        self.servers().kill(node);
    }

    /// Starts a server that was killed.
    pub fn start(&self, node: usize) {
        self.servers().begin(node);
    }

    /// Replaces a text in the files of the closed store by another one of the same length.
    pub fn replace(&self, find: &str, with: &str) {
        let Place::Directory(directory) = self else { panic!("a cluster has no directory") };
        assert_eq!(find.len(), with.len());
        assert!(replace(&directory.path().join("store"), find.as_bytes(), with.as_bytes()) > 0);
    }

    /// Leaves nothing of a scenario behind.
    pub fn clear(&self) {
        let Place::Cluster(servers) = self else { return };
        let mut servers = servers.lock().unwrap();
        for node in 0..3 {
            if servers.is_killed(node) {
                servers.begin(node);
            }
        }
        servers.settle();
        let store = tyr_client::blocking::Store::open(servers.url()).unwrap();
        for known in store.keyspaces() {
            store.drop_keyspace(&known.name).unwrap();
        }
        store.close().unwrap();
    }

    fn servers(&self) -> std::sync::MutexGuard<'_, Servers> {
        match self {
            Place::Directory(_) => panic!("a directory has no servers"),
            Place::Cluster(servers) => servers.lock().unwrap(),
        }
    }
}

fn replace(directory: &Path, find: &[u8], with: &[u8]) -> usize {
    let mut replaced = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            replaced += replace(&path, find, with);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let found: Vec<usize> = bytes
            .windows(find.len())
            .enumerate()
            .filter_map(|(place, window)| (window == find).then_some(place))
            .collect();
        for place in &found {
            bytes[*place..*place + with.len()].copy_from_slice(with);
        }
        if !found.is_empty() {
            std::fs::write(&path, bytes).unwrap();
        }
        replaced += found.len();
    }
    replaced
}

//! Random operations, compared with a simple model, in both ways of waiting and on both kinds of I/O.

mod drive;
mod interleaved;
mod model;
mod sequential;

use std::path::Path;

use pollster::block_on;
use proptest::prelude::*;
use tyr_os::IoMode;
use tyr_types::{Durability, KeyspaceSettings};

use crate::wait::Mode;
use crate::{Keyspace, Store};

/// How a case runs.
#[derive(Clone, Copy, Debug)]
struct Setting {
    mode: Mode,
    io: IoMode,
    segment_size: u64,
}

fn settings() -> impl Strategy<Value = Setting> {
    let modes = prop_oneof![Just(Mode::Async), Just(Mode::Blocking)];
    let ios = prop_oneof![3 => Just(IoMode::Buffered), 1 => Just(IoMode::Auto)];
    let sizes = prop_oneof![Just(256 << 10), Just(4 << 20)];
    (modes, ios, sizes).prop_map(|(mode, io, segment_size)| Setting { mode, io, segment_size })
}

/// A store with three keyspaces: durable on disk, durable in memory, and without versions.
struct Opened {
    store: Store,
    keyspaces: Vec<Keyspace>,
}

const KEYSPACES: usize = 3;
/// The one without versions.
const UNPINNED: usize = 2;

impl Opened {
    fn open(path: &Path, setting: Setting) -> Opened {
        let options = Store::options().io(setting.io).data_cache(1 << 20).segment_size(setting.segment_size);
        let store = match setting.mode {
            Mode::Async => block_on(options.open(path)),
            Mode::Blocking => options.open_blocking(path, Mode::Blocking),
        };
        let store = store.unwrap();
        let chunk_size = 64 << 10;
        let base = KeyspaceSettings { chunk_size, ..KeyspaceSettings::default() };
        let all: [(&str, KeyspaceSettings); KEYSPACES] = [
            ("disk", base.clone()),
            ("memory", KeyspaceSettings { durability: Durability::Memory, ..base.clone() }),
            ("latest", KeyspaceSettings { multi_version: false, ..base }),
        ];
        let keyspace = |(name, settings)| match store.keyspace(name) {
            Ok(keyspace) => keyspace,
            Err(_) => block_on(store.create_keyspace(name, settings)).unwrap(),
        };
        let keyspaces = all.into_iter().map(keyspace).collect();
        Opened { store, keyspaces }
    }

    fn close(self) {
        drop(self.keyspaces);
        block_on(self.store.close()).unwrap();
    }
}

//! File systems without room.

use pollster::block_on;
use tyr_client::{KeyspaceSettings, Store};
use tyr_fs::{Caller, Errno, Filesystem, View};

#[test]
fn each_name_of_a_file_is_removed_though_there_is_no_room() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let view = View::new(files, Caller::superuser());
    block_on(view.put("/first", b"content")).unwrap();
    for name in ["/second", "/third"] {
        block_on(view.hard_link("/first", name)).unwrap();
    }
    let settings = KeyspaceSettings { quota: Some(1), ..store.keyspace("files").unwrap().settings() };
    block_on(store.alter_keyspace("files", settings)).unwrap();
    assert_eq!(block_on(view.put("/new", b"")).unwrap_err().errno(), Errno::ENOSPC);
    for name in ["/first", "/third", "/second"] {
        block_on(view.remove_file(name)).unwrap();
    }
    assert!(block_on(view.read_directory("/")).unwrap().is_empty());
}

//! How much of a file is told to be data.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Allocate, Caller, File, Filesystem, Follow, How, View};

fn data_is_counted(store: &Store) {
    let filesystem = block_on(Filesystem::open_or_create(store, "files")).unwrap();
    let files = View::new(filesystem, Caller::superuser());
    let file = block_on(files.open("/sparse", How::NEW)).unwrap();
    let told = |size: u64, data_size: u64, file: &File| {
        let by_name = block_on(files.metadata("/sparse", Follow::Yes)).unwrap();
        assert_eq!((by_name.size, by_name.data_size), (size, data_size));
        assert_eq!(by_name, block_on(file.metadata()).unwrap());
    };
    block_on(file.write(0, &[1; 10_000])).unwrap();
    block_on(file.append(&[2; 10_000])).unwrap();
    told(20_000, 20_000, &file);
    assert!(!block_on(file.metadata()).unwrap().may_have_holes, "it was written from end to end");
    block_on(file.write(30 << 20, &[3; 100])).unwrap();
    told((30 << 20) + 100, 20_100, &file);
    block_on(file.allocate(Allocate::Punch, 5000, 5000)).unwrap();
    told((30 << 20) + 100, 15_100, &file);
    block_on(file.write(6000, &[4; 1000])).unwrap();
    told((30 << 20) + 100, 16_100, &file);
    let copy = block_on(files.open("/copy", How::NEW)).unwrap();
    assert_eq!(block_on(file.copy(0, (&copy, 3 << 20), 5000)).unwrap(), 5000);
    assert_eq!(block_on(copy.metadata()).unwrap().data_size, 5000);
    block_on(file.truncate(1 << 40)).unwrap();
    told(1 << 40, 16_100, &file);
    block_on(file.truncate(5500)).unwrap();
    told(5500, 5000, &file);
    block_on(file.truncate(0)).unwrap();
    block_on(file.write(0, &[5; 7])).unwrap();
    told(7, 7, &file);
    assert!(!block_on(file.metadata()).unwrap().may_have_holes, "it was emptied");
}

/// What one client has made longer and another one has cut is counted as it is, whatever each of them knows of it.
fn cuts_by_others_are_counted(store: &Store) {
    let clients = [0; 2].map(|_| {
        let filesystem = block_on(Filesystem::open_or_create(store, "files")).unwrap();
        View::new(filesystem.tended_by_caller(), Caller::superuser())
    });
    let file = block_on(clients[0].open("/cut", How::NEW)).unwrap();
    let other = block_on(clients[1].open("/cut", How::WRITE)).unwrap();
    let told = |size: u64, data_size: u64, may_have_holes: bool| {
        for view in &clients {
            let told = block_on(view.metadata("/cut", Follow::Yes)).unwrap();
            let (size_told, data_size_told) = (told.size, told.data_size);
            assert_eq!((size_told, data_size_told, told.may_have_holes), (size, data_size, may_have_holes));
        }
    };
    block_on(file.write(0, &[1; 10_000])).unwrap();
    block_on(other.truncate(0)).unwrap();
    block_on(file.write(10_000, &[2; 10])).unwrap();
    told(10_010, 10, true);

    block_on(file.truncate(0)).unwrap();
    block_on(other.write(0, &[3; 5000])).unwrap();
    block_on(file.append(&[3; 5000])).unwrap();
    told(10_000, 10_000, false);
    block_on(other.truncate(100)).unwrap();
    block_on(file.truncate(9000)).unwrap();
    told(9000, 100, true);

    block_on(other.truncate(0)).unwrap();
    let source = block_on(clients[0].open("/source", How::NEW)).unwrap();
    block_on(source.write(0, &[4; 1000])).unwrap();
    assert_eq!(block_on(source.copy(0, (&file, 9000), 1000)).unwrap(), 1000);
    told(10_000, 1000, true);

    // Who writes what he has cut himself leaves none.
    block_on(file.truncate(0)).unwrap();
    block_on(file.write(0, &[5; 7000])).unwrap();
    block_on(file.truncate(5000)).unwrap();
    block_on(file.write(5000, &[5; 10])).unwrap();
    told(5010, 5010, false);
    // Nor does who writes where it ends after another one has cut it.
    block_on(other.append(&[5; 10])).unwrap();
    block_on(other.truncate(5000)).unwrap();
    block_on(file.write(5000, &[6; 10])).unwrap();
    told(5010, 5010, false);
}

#[test]
fn holes_are_not_counted() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    data_is_counted(&store);
    cuts_by_others_are_counted(&store);
}

#[test]
fn nor_are_they_on_a_cluster() {
    let servers = crate::real::Servers::start(3, |directory| tyr_server::Settings::new(directory));
    let store = block_on(Store::open(servers.url())).unwrap();
    data_is_counted(&store);
    cuts_by_others_are_counted(&store);
}

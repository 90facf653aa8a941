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

#[test]
fn holes_are_not_counted() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    data_is_counted(&store);
}

#[test]
fn nor_are_they_on_a_cluster() {
    let servers = crate::real::Servers::start(3, |directory| tyr_server::Settings::new(directory));
    data_is_counted(&block_on(Store::open(servers.url())).unwrap());
}

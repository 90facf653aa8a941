//! What it costs to find a file on a cluster that was renamed, before and after it has moved to its name.

use std::time::Duration;

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Filesystem, Follow, How, Metadata, Seek, View};

use crate::real::Servers;

/// As many files are found each time.
const FILES: u64 = 32;

fn name(number: u64) -> String {
    format!("/in/name-{number}")
}

/// How many answers of servers finding all files takes.
fn answers(servers: &Servers, find: impl Fn(&str)) -> u64 {
    let all = || (0..3).map(|place| servers.reads(place)).sum::<u64>();
    let before = all();
    (0..FILES).for_each(|number| find(&name(number)));
    all() - before
}

#[test]
fn a_file_that_has_moved_is_found_by_one_request_again() {
    let servers = Servers::start(3, |directory| tyr_server::Settings::new(directory));
    let store = block_on(Store::open(servers.url())).unwrap();
    let clients = [0, 1].map(|_| {
        let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap().tended_by_caller();
        View::new(files, Caller::superuser())
    });
    let [one, other] = &clients;
    block_on(one.create_directory("/in", 0o755)).unwrap();
    for number in 0..FILES {
        let beside = format!("/in/beside-{number}");
        block_on(one.put(&beside, name(number).as_bytes())).unwrap();
        block_on(one.rename(&beside, name(number))).unwrap();
    }
    let file = block_on(one.open("/in/beside", How::NEW)).unwrap();
    for (offset, bytes) in [(0, b"begin".as_slice()), (1_000_000, b"middle"), (1_500_000, b"end")] {
        block_on(file.write(offset, bytes)).unwrap();
    }
    block_on(file.truncate(2_000_000)).unwrap();
    drop(file);
    block_on(one.rename("/in/beside", "/in/holes")).unwrap();
    let (before, content) = block_on(one.fetch("/in/holes")).unwrap();
    // Both are guests by now.
    drop(block_on(other.open(name(0), How::READ)).unwrap());
    drop(block_on(one.open(name(0), How::READ)).unwrap());
    let directory = block_on(one.metadata("/in", Follow::No)).unwrap().inode;
    let fetch = |path: &str| assert_eq!(block_on(one.fetch(path)).unwrap().1, path.as_bytes());
    let look = |path: &str| {
        let name = path.strip_prefix("/in/").unwrap();
        drop(block_on(one.filesystem().lookup(&directory, name.as_bytes())).unwrap());
    };
    let open = |path: &str| drop(block_on(one.open(path, How::READ)).unwrap());
    let costs = [answers(&servers, look), answers(&servers, open), answers(&servers, fetch)];
    for _ in 0..40 {
        for client in &clients {
            block_on(client.filesystem().tend(Duration::MAX)).unwrap();
        }
    }
    let costs_now = [answers(&servers, look), answers(&servers, open), answers(&servers, fetch)];
    // Some heads are known without asking, before and afterwards.
    let sum = |costs: [u64; 3]| costs.iter().sum::<u64>();
    let all = format!("{costs:?} and {costs_now:?} to look up names, to open paths, to fetch them");
    assert!(sum(costs) >= sum(costs_now) + 4 * FILES, "{all}");
    let (moved, bytes) = block_on(other.fetch("/in/holes")).unwrap();
    assert_eq!(moved.inode.site.key(), b"/in/holes");
    assert!(bytes == content && moved == Metadata { inode: moved.inode.clone(), ..before.clone() });
    let file = block_on(other.open("/in/holes", How::READ)).unwrap();
    for (what, from, found) in
        [(Seek::Hole, 0, 5), (Seek::Data, 5, 1_000_000), (Seek::Hole, 1_500_000, 1_500_003)]
    {
        assert_eq!(block_on(file.seek(what, from)).unwrap(), found);
    }
    for number in 0..FILES {
        let lies = block_on(one.metadata(name(number), Follow::No)).unwrap().inode.site;
        assert_eq!(lies.key(), name(number).as_bytes());
        assert_eq!(block_on(other.fetch(name(number))).unwrap().1, name(number).as_bytes());
    }
}

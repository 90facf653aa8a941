//! Guests of a cluster of which a node is away.

use std::time::Duration;

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Filesystem, Lock, LockKind, Owner};
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

use crate::real::Servers;

/// Clients of a file system, each a guest, and the guests' blobs in their order.
struct Place {
    clients: Vec<Filesystem>,
    blobs: Vec<String>,
}

impl Place {
    fn new(stores: &[Store], name: &str) -> Place {
        let mut place = Place { clients: Vec::new(), blobs: Vec::new() };
        for store in stores {
            let files = block_on(Filesystem::open_or_create(store, name)).unwrap().tended_by_caller();
            let owner = Owner { of_ranges: true, number: 1, process: 1 };
            let lock = Lock { kind: LockKind::Shared, start: 0, end: 1 };
            block_on(files.lock_in_the_way(&files.root(), owner, lock)).unwrap();
            let guests = block_on(files.guests()).unwrap().into_iter();
            let mut blobs = guests.map(|guest| format!("!guest/{guest:x}"));
            place.blobs.push(blobs.find(|blob| !place.blobs.contains(blob)).unwrap());
            place.clients.push(files);
        }
        place
    }

    fn is_served(&self, key: &str) -> bool {
        block_on(self.clients[0].keyspace().within(Duration::from_secs(1)).exists(key)).is_ok()
    }

    /// A client that is served with all that it needs, if the blob of any other is not.
    fn served(&self) -> Option<&Filesystem> {
        if !["!guests", "!orphans"].iter().all(|key| self.is_served(key)) {
            return None;
        }
        let are_served: Vec<bool> = self.blobs.iter().map(|blob| self.is_served(blob)).collect();
        let served = are_served.iter().position(|is_served| *is_served)?;
        are_served.contains(&false).then(|| &self.clients[served])
    }
}

#[test]
fn who_cannot_be_heard_keeps_nobody_from_speaking_and_is_not_taken_for_silent() {
    let mut servers = Servers::start_scattered(3, |directory| {
        let usual = Settings::new(directory);
        let class = ClassSettings { partitions: 16, ..usual.class };
        Settings { class, ..usual }
    });
    let stores: Vec<Store> = (0..4).map(|_| block_on(Store::open(servers.url())).unwrap()).collect();
    // Where blobs lie is not told, so there are several to choose from.
    let places: Vec<Place> = (0..6).map(|place| Place::new(&stores, &format!("files{place}"))).collect();
    let lost = (0..3).rev().find_map(|server| {
        servers.kill(server);
        let lost = places.iter().find_map(|place| Some((place, place.served()?)));
        if lost.is_none() {
            servers.begin(server);
            servers.settle();
        }
        lost
    });
    let (place, files) = lost.expect("one has lost some guest only");
    block_on(files.tend(Duration::MAX)).unwrap();
    // Who was not heard of for so long that its silence does not count is heard again.
    let unheard = place.blobs.iter().filter(|blob| !place.is_served(blob)).count();
    for _ in 0..20 {
        block_on(files.tend(Duration::ZERO)).unwrap();
        if block_on(files.guests()).unwrap().len() == 1 + unheard {
            break;
        }
    }
    assert_eq!(
        block_on(files.guests()).unwrap().len(),
        1 + unheard,
        "only who was heard is known to be silent"
    );
}

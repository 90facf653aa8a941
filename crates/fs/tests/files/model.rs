//! Random operations by several clients at once, crashes and reopening included, compared with a file system in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::chance::{Random, seeds};
use crate::reference::{ROOT, Reference};
use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Allocate, Caller, Errno, File, Filesystem, Follow, How, Kind, Over, Result, Seek, View};
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

/// Whether what the clients see is what the reference says, after every operation.
struct Run {
    random: Random,
    /// What is opened: a directory, or a cluster.
    place: String,
    store: Option<Store>,
    clients: Vec<View>,
    reference: Reference,
    open: Vec<Open>,
    /// The real inode of each of the reference's.
    numbers: BTreeMap<usize, u64>,
}

struct Open {
    client: usize,
    inode: usize,
    file: File,
}

fn open_store(place: &str) -> Store {
    block_on(Store::options().segment_size(1 << 20).open(place)).unwrap()
}

/// One that shares a directory's store with the others, or has a connection of its own to a cluster and keeps what is lent to it.
fn client(place: &str, store: &Store) -> View {
    let store = match store.is_cluster() {
        true => block_on(Store::options().copies().open(place)).unwrap(),
        false => store.clone(),
    };
    let filesystem = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    View::new(filesystem.tended_by_caller(), Caller::superuser())
}

impl Run {
    fn new(seed: u64, place: &str) -> Self {
        let (place, store) = (place.to_owned(), open_store(place));
        let clients = (0..CLIENTS).map(|_| client(&place, &store)).collect();
        let store = Some(store);
        let (reference, numbers) = (Reference::new(), BTreeMap::from([(ROOT, 1)]));
        Run { random: Random::new(seed), place, store, clients, reference, open: Vec::new(), numbers }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn path(&mut self) -> String {
        let mut path = String::new();
        for _ in 0..=self.random.below(3) {
            path.push('/');
            path.push_str(match self.random.below(12) {
                0..3 => "a",
                3..6 => "b",
                6..9 => "c",
                9 => "..",
                10 => LONG,
                _ => "\u{fc}\n",
            });
        }
        path
    }

    fn step(&mut self) {
        let who = self.random.below(self.clients.len());
        let (client, path, other) = (self.clients[who].clone(), self.path(), self.path());
        match self.random.below(20) {
            0..3 => {
                let real = block_on(client.create_directory(&path, 0o755));
                let made = self.reference.make(&path, Kind::Directory, "");
                self.agree(&format!("mkdir {path}"), real.map(|real| real.inode.number), made);
            }
            3..6 => {
                let real = block_on(client.open(&path, How::CREATE));
                let made = self.reference.open(&path);
                let number = real.as_ref().map(|file| file.inode().number).map_err(Clone::clone);
                self.agree(&format!("open {path}"), number, made);
                if let (Ok(file), Ok(inode)) = (real, made) {
                    self.open.push(Open { client: who, inode, file });
                }
            }
            6 => {
                let real = block_on(client.symlink(&other, &path));
                let made = self.reference.make(&path, Kind::Symlink, &other);
                self.agree(&format!("symlink {other} {path}"), real.map(|real| real.inode.number), made);
            }
            7 => {
                let real = block_on(client.hard_link(&path, &other)).map(drop);
                self.same(&format!("link {path} {other}"), real, |it| it.link(&path, &other));
            }
            8..10 => {
                let real = block_on(client.remove_file(&path));
                self.same(&format!("unlink {path}"), real, |it| it.unlink(&path));
            }
            10 => {
                let real = block_on(client.remove_directory(&path));
                self.same(&format!("rmdir {path}"), real, |it| it.remove_directory(&path));
            }
            11..14 => {
                let over = [Over::Replace, Over::Replace, Over::Refuse, Over::Exchange][self.random.below(4)];
                let real = block_on(client.rename_over(&path, &other, over));
                self.same(&format!("rename {path} {other} {over:?}"), real, |it| {
                    it.rename(&path, &other, over)
                });
            }
            14..18 => self.use_file(),
            18 => {
                let content = vec![b'p'; self.random.below(200)];
                let real = block_on(client.put(&path, &content));
                self.same(&format!("put {path}"), real, |it| {
                    let inode = it.open(&path)?;
                    *it.content(inode) = content.clone();
                    Ok(())
                });
                self.learn(&path);
            }
            _ => match self.random.below(8) {
                0 => self.crash(who),
                1 => {
                    drop(client);
                    self.reopen();
                }
                2..5 => block_on(client.filesystem().tend(Duration::MAX)).unwrap(),
                _ => self.compare(who),
            },
        }
    }

    /// Reads, writes, or closes something that is open.
    fn use_file(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.below(self.open.len());
        let (offset, length) = (self.random.below(3000), self.random.below(2000));
        let byte = u8::try_from(self.random.below(256)).unwrap();
        let what = self.random.below(7);
        let Open { inode, file, .. } = &self.open[place];
        let content = self.reference.content(*inode);
        match what {
            0 => {
                block_on(file.write(offset as u64, &vec![byte; length])).unwrap();
                if length > 0 {
                    content.resize(content.len().max(offset + length), 0);
                    content[offset..offset + length].fill(byte);
                }
            }
            1 => {
                assert_eq!(block_on(file.append(&vec![byte; length])).unwrap(), content.len() as u64);
                content.resize(content.len() + length, byte);
            }
            2 => {
                block_on(file.truncate(offset as u64)).unwrap();
                content.resize(offset, 0);
            }
            3 => {
                let start = offset.min(content.len());
                let expected = &content[start..(start + length).min(content.len())];
                assert_eq!(block_on(file.read(start as u64, length)).unwrap(), expected);
                let metadata = block_on(file.metadata()).unwrap();
                let data = content.iter().filter(|byte| **byte != 0).count() as u64;
                assert!((data..=content.len() as u64).contains(&metadata.data_size), "{metadata:?}");
                assert_eq!(metadata.links, self.reference.get(*inode).links);
            }
            4 if length > 0 => {
                block_on(file.allocate(Allocate::Punch, offset as u64, length as u64)).unwrap();
                let end = (offset + length).min(content.len());
                content[offset.min(end)..end].fill(0);
            }
            5 => {
                // What is skipped as a hole is zeros, and data is not skipped before it ends.
                let data = block_on(file.seek(Seek::Data, offset as u64));
                let skipped = data.map_or(content.len(), |data| usize::try_from(data).unwrap());
                assert!(content[offset.min(skipped)..skipped].iter().all(|byte| *byte == 0));
                let hole = block_on(file.seek(Seek::Hole, offset as u64));
                assert_eq!(hole.is_ok(), offset < content.len());
                assert!(hole.is_ok_and(|hole| hole <= content.len() as u64) || offset >= content.len());
            }
            _ => drop(self.open.swap_remove(place)),
        }
    }

    fn agree(&mut self, what: &str, real: Result<u64>, made: std::result::Result<usize, Errno>) {
        match (real, made) {
            (Ok(real), Ok(made)) => {
                let known = *self.numbers.entry(made).or_insert(real);
                assert_eq!(real, known, "{what}");
            }
            (real, made) => {
                assert_eq!(real.map_err(|error| error.errno()).err(), made.err(), "{what}");
            }
        }
    }

    fn same(
        &mut self,
        what: &str,
        real: Result<()>,
        expected: impl FnOnce(&mut Reference) -> std::result::Result<(), Errno>,
    ) {
        assert_eq!(real.map_err(|error| error.errno()), expected(&mut self.reference), "{what}");
    }

    /// Notes which inode a file that was put is.
    fn learn(&mut self, path: &str) {
        if let Ok(inode) = self.reference.find(path, true) {
            let real = block_on(self.clients[0].metadata(path, Follow::Yes)).unwrap().inode.number;
            let known = *self.numbers.entry(inode).or_insert(real);
            assert_eq!(real, known, "{path}");
        }
    }

    /// A client is gone from one moment to the next, and the others notice.
    fn crash(&mut self, who: usize) {
        self.open.retain(|open| open.client != who);
        self.clients[who] = client(&self.place, self.store());
        let place = (who + 1) % self.clients.len();
        let witness = &self.clients[place];
        let before = block_on(witness.filesystem().guests()).unwrap();
        let me = self.open.iter().map(|open| open.client).collect::<BTreeSet<_>>().len();
        // Those that have something open are there, and say so in between.
        for patience in [Duration::MAX, Duration::ZERO] {
            for (_, client) in self.clients.iter().enumerate().filter(|(other, _)| *other != place) {
                block_on(client.filesystem().tend(Duration::MAX)).unwrap();
            }
            block_on(witness.filesystem().tend(patience)).unwrap();
        }
        let after = block_on(witness.filesystem().guests()).unwrap();
        assert!(after.len() >= me && after.len() <= before.len(), "{before:?} {after:?} {me}");
    }

    /// All clients are gone, and the store is closed and opened.
    fn reopen(&mut self) {
        self.open.clear();
        self.clients.clear();
        block_on(self.store.take().unwrap().close()).unwrap();
        self.store = Some(open_store(&self.place));
        self.clients = (0..CLIENTS).map(|_| client(&self.place, self.store())).collect();
        block_on(self.clients[0].filesystem().evict_others()).unwrap();
        assert!(block_on(self.clients[1].filesystem().guests()).unwrap().is_empty());
    }

    /// All that a client sees.
    fn compare(&self, who: usize) {
        let client = &self.clients[who];
        let mut rest = vec![(ROOT, String::new())];
        while let Some((directory, path)) = rest.pop() {
            let real = block_on(client.read_directory(format!("{path}/"))).unwrap();
            let real: BTreeMap<_, _> =
                real.into_iter().map(|entry| (entry.name, (entry.number, entry.kind))).collect();
            let expected = &self.reference.get(directory).entries;
            assert_eq!(real.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{path}");
            // All at once first: then what is asked one by one may be known from that.
            let inode = block_on(client.metadata(format!("{path}/"), Follow::Yes)).unwrap().inode;
            let names: Vec<&[u8]> = expected.keys().map(Vec::as_slice).chain([b"none".as_slice()]).collect();
            let all = block_on(client.filesystem().lookup_all(&inode, &names)).unwrap();
            let all = all.iter().map(|found| found.as_ref().map(|found| (found.inode.number, found.links)));
            let known = |inode: &usize| Some((self.numbers[inode], self.reference.get(*inode).links));
            assert!(all.eq(expected.values().map(known).chain([None])), "{path}");
            for (name, inode) in expected {
                let path = format!("{path}/{}", String::from_utf8(name.clone()).unwrap());
                let it = self.reference.get(*inode);
                let metadata = block_on(client.metadata(&path, Follow::No)).unwrap();
                let number = self.numbers[inode];
                assert_eq!(real[name], (number, it.kind), "{path}");
                let told = (metadata.inode.number, metadata.inode.kind, metadata.links);
                assert_eq!(told, (number, it.kind, it.links), "{path}");
                match it.kind {
                    Kind::Directory => rest.push((*inode, path)),
                    Kind::Symlink => assert_eq!(block_on(client.read_link(&path)).unwrap(), it.target),
                    _ => assert_eq!(block_on(client.fetch(&path)).unwrap().1, it.content, "{path}"),
                }
            }
        }
    }

    /// When nothing is open any more, the keyspace holds an inode for each that can be reached, and nothing else.
    fn finish(mut self) {
        self.reopen();
        for client in 0..CLIENTS {
            self.compare(client);
        }
        let filesystem = self.clients[0].filesystem();
        let blobs = block_on(filesystem.keyspace().scan([], None, usize::MAX)).unwrap();
        let mut held = BTreeSet::new();
        for blob in blobs.iter().filter(|blob| !blob.key.as_bytes().starts_with(b"!")) {
            let stat = block_on(filesystem.keyspace().stat(blob.key.as_bytes())).unwrap();
            if let Some(number) = stat.attributes.value("i") {
                held.insert(u64::from_le_bytes(*number[1..].first_chunk::<8>().unwrap()));
            }
        }
        let (mut reached, mut rest) = (BTreeSet::new(), vec![ROOT]);
        while let Some(inode) = rest.pop() {
            reached.insert(self.numbers[&inode]);
            rest.extend(self.reference.get(inode).entries.values());
        }
        assert_eq!(held, reached);
        self.clients.clear();
        block_on(self.store.take().unwrap().close()).unwrap();
    }
}

#[test]
fn random_operations_of_several_clients_do_what_the_reference_does() {
    for seed in seeds(3) {
        println!("TYR_TEST_SEED={seed}");
        let directory = tempfile::tempdir().unwrap();
        let mut run = Run::new(seed, directory.path().to_str().unwrap());
        for _ in 0..400 {
            run.step();
        }
        run.finish();
    }
}

#[test]
fn they_do_so_on_a_cluster() {
    let servers = crate::real::Servers::start(3, |directory| {
        let usual = Settings::new(directory);
        Settings { class: ClassSettings { partitions: 16, ..usual.class }, ..usual }
    });
    for seed in seeds(1) {
        println!("TYR_TEST_SEED={seed}");
        let mut run = Run::new(seed + 1000, &servers.url());
        for _ in 0..200 {
            run.step();
        }
        run.finish();
        let store = open_store(&servers.url());
        block_on(store.drop_keyspace("files")).unwrap();
    }
}

const CLIENTS: usize = 3;
/// The longest name: a directory of this below others of it gets a fresh site.
const LONG: &str = match std::str::from_utf8(&[b'l'; 255]) {
    Ok(name) => name,
    Err(_) => panic!("it is ASCII"),
};

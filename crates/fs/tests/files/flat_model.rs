//! Random operations by several clients on flat files, compared with a map of keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::chance::{Random, seeds};
use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Allocate, Caller, Errno, File, Filesystem, Flat, Follow, How, Kind, Over, Result, Seek, View};
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

/// What flat files should be: files by their paths, and directories that were made.
#[derive(Default)]
struct Reference {
    files: BTreeMap<String, Vec<u8>>,
    marks: BTreeSet<String>,
}

impl Reference {
    /// What lies below a directory: the rest of each path, and whether that is a file's.
    fn below(&self, directory: &str) -> Vec<(String, bool)> {
        let all = self.files.keys().map(|path| (path, true));
        let all = all.chain(self.marks.iter().map(|path| (path, false)));
        let rest = |(path, is_file): (&String, bool)| {
            let rest = match directory {
                "" => Some(path.as_str()),
                directory => path.strip_prefix(directory)?.strip_prefix('/'),
            };
            rest.map(|rest| (rest.to_owned(), is_file))
        };
        all.filter_map(rest).collect()
    }

    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.marks.contains(path) || !self.below(path).is_empty()
    }

    /// A file hides a directory of the same name.
    fn list(&self, directory: &str) -> BTreeMap<String, Kind> {
        let mut entries = BTreeMap::new();
        for (rest, is_file) in self.below(directory) {
            let (name, kind) = match rest.split_once('/') {
                Some((name, _)) => (name, Kind::Directory),
                None if is_file => (rest.as_str(), Kind::File),
                None => (rest.as_str(), Kind::Directory),
            };
            let known = entries.entry(name.to_owned()).or_insert(kind);
            if kind == Kind::File {
                *known = kind;
            }
        }
        entries
    }

    /// Nobody looks whether there is a directory of the name, which the file hides then.
    fn open(&mut self, path: &str) {
        self.files.entry(path.to_owned()).or_default();
    }

    fn put(&mut self, path: &str, content: Vec<u8>) -> std::result::Result<(), Errno> {
        if !self.files.contains_key(path) && self.is_directory(path) {
            return Err(Errno::EISDIR);
        }
        self.files.insert(path.to_owned(), content);
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> std::result::Result<(), Errno> {
        match self.files.remove(path) {
            Some(_) => Ok(()),
            None if self.is_directory(path) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn make_directory(&mut self, path: &str) -> std::result::Result<(), Errno> {
        if self.files.contains_key(path) || self.is_directory(path) {
            return Err(Errno::EEXIST);
        }
        self.marks.insert(path.to_owned());
        Ok(())
    }

    fn remove_directory(&mut self, path: &str) -> std::result::Result<(), Errno> {
        match self.below(path).is_empty() {
            _ if self.files.contains_key(path) => Err(Errno::ENOTDIR),
            false => Err(Errno::ENOTEMPTY),
            true => {
                // It went with the last file in it.
                self.marks.remove(path);
                Ok(())
            }
        }
    }

    fn rename(&mut self, old: &str, new: &str, over: Over) -> std::result::Result<(), Errno> {
        let Some(content) = self.files.get(old).cloned() else {
            return Err(if self.is_directory(old) { Errno::EXDEV } else { Errno::ENOENT });
        };
        if over == Over::Exchange {
            return Err(Errno::EXDEV);
        }
        if self.files.contains_key(new) && over == Over::Refuse {
            return Err(Errno::EEXIST);
        }
        // As when it is opened, nobody looks for a directory.
        self.files.remove(old);
        self.files.insert(new.to_owned(), content);
        Ok(())
    }
}

/// Whether what the clients see is what the reference says, after every operation.
struct Run {
    random: Random,
    clients: Vec<View>,
    reference: Reference,
    open: Vec<(String, File)>,
}

impl Run {
    /// Each client shares the store of a directory with the others, or has one of its own of a cluster, and keeps what is lent to it.
    fn new(seed: u64, stores: &[Store]) -> Self {
        let flat = if seed.is_multiple_of(2) { Flat::Slashes } else { Flat::Underscores };
        let name = format!("flat-{seed}");
        let client = |store: &Store| {
            let filesystem = block_on(Filesystem::open_or_create_flat(store, &name, flat)).unwrap();
            View::new(filesystem, Caller::superuser())
        };
        let clients = stores.iter().cycle().take(CLIENTS).map(client).collect();
        Run { random: Random::new(seed), clients, reference: Reference::default(), open: Vec::new() }
    }

    fn path(&mut self) -> String {
        let names = (0..=self.random.below(3)).map(|_| ["a", "b", "c"][self.random.below(3)]);
        names.collect::<Vec<_>>().join("/")
    }

    fn step(&mut self) {
        let client = self.clients[self.random.below(CLIENTS)].clone();
        let (path, other) = (self.path(), self.path());
        match self.random.below(16) {
            0..4 => {
                let real = block_on(client.open(&path, How::CREATE));
                self.same(&format!("open {path}"), real.as_ref().map(drop).map_err(Clone::clone), |it| {
                    it.open(&path);
                    Ok(())
                });
                self.open.extend(real.ok().map(|file| (path, file)));
            }
            4 => {
                let content = vec![b'p'; self.random.below(200)];
                let real = block_on(client.put(&path, &content));
                self.same(&format!("put {path}"), real, |it| it.put(&path, content));
            }
            5..7 => {
                let real = block_on(client.remove_file(&path));
                self.same(&format!("unlink {path}"), real, |it| it.unlink(&path));
            }
            7 => {
                let real = block_on(client.create_directory(&path, 0o755)).map(drop);
                self.same(&format!("mkdir {path}"), real, |it| it.make_directory(&path));
            }
            8 => {
                let real = block_on(client.remove_directory(&path));
                self.same(&format!("rmdir {path}"), real, |it| it.remove_directory(&path));
            }
            9..11 if path != other => {
                let over = [Over::Replace, Over::Replace, Over::Refuse, Over::Exchange][self.random.below(4)];
                let real = block_on(client.rename_over(&path, &other, over));
                self.same(&format!("rename {path} {other} {over:?}"), real, |it| {
                    it.rename(&path, &other, over)
                });
            }
            9..15 => self.use_file(),
            _ => self.compare(&client),
        }
    }

    /// Reads, writes, or closes something that is open. Who has a file open that was removed is told so.
    fn use_file(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.below(self.open.len());
        let (offset, length) = (self.random.below(3000), self.random.below(2000));
        let bytes = vec![u8::try_from(self.random.below(256)).unwrap(); length];
        let what = self.random.below(6);
        let (path, file) = &self.open[place];
        let Some(content) = self.reference.files.get_mut(path) else {
            let told = match what {
                0 => block_on(file.write(offset as u64, b"x")).map(drop),
                1 => block_on(file.append(b"x")).map(drop),
                2 => block_on(file.truncate(offset as u64)).map(drop),
                3 => block_on(file.seek(Seek::Data, offset as u64)).map(drop),
                _ => block_on(file.read(offset as u64, 1)).map(drop),
            };
            assert_eq!(told.unwrap_err().errno(), Errno::ESTALE, "{path}");
            self.open.swap_remove(place);
            return;
        };
        match what {
            0 => {
                block_on(file.write(offset as u64, &bytes)).unwrap();
                if length > 0 {
                    content.resize(content.len().max(offset + length), 0);
                    content[offset..offset + length].copy_from_slice(&bytes);
                }
            }
            1 => {
                assert_eq!(block_on(file.append(&bytes)).unwrap(), content.len() as u64);
                content.extend(bytes);
            }
            2 => {
                block_on(file.truncate(offset as u64)).unwrap();
                content.resize(offset, 0);
            }
            4 if length > 0 => {
                block_on(file.allocate(Allocate::Punch, offset as u64, length as u64)).unwrap();
                let end = (offset + length).min(content.len());
                content[offset.min(end)..end].fill(0);
            }
            3 => {
                let start = offset.min(content.len());
                let expected = &content[start..(start + length).min(content.len())];
                assert_eq!(block_on(file.read(start as u64, length)).unwrap(), expected);
            }
            _ => drop(self.open.swap_remove(place)),
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

    /// All that a client sees.
    fn compare(&self, client: &View) {
        let mut rest = vec![String::new()];
        while let Some(directory) = rest.pop() {
            let real = block_on(client.read_directory(format!("/{directory}"))).unwrap();
            let real: BTreeMap<_, _> =
                real.into_iter().map(|it| (String::from_utf8(it.name).unwrap(), it.kind)).collect();
            let expected = self.reference.list(&directory);
            assert_eq!(real, expected, "{directory}");
            for (name, kind) in expected {
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                let metadata = block_on(client.metadata(&path, Follow::No)).unwrap();
                assert_eq!(metadata.inode.kind, kind, "{path}");
                match kind {
                    Kind::Directory => rest.push(path),
                    _ => assert_eq!(block_on(client.fetch(&path)).unwrap().1, self.reference.files[&path]),
                }
            }
        }
    }

    /// When all is done the keyspace holds a blob for each file, and one for each directory that was made and is there.
    fn finish(self) {
        for client in &self.clients {
            self.compare(client);
        }
        let keyspace = self.clients[0].filesystem().keyspace();
        let blobs = block_on(keyspace.scan([], None, usize::MAX)).unwrap();
        assert_eq!(blobs.len(), self.reference.files.len() + self.reference.marks.len());
    }
}

fn run(seed: u64, steps: usize, stores: &[Store]) {
    let mut run = Run::new(seed, stores);
    for _ in 0..steps {
        run.step();
    }
    run.finish();
}

#[test]
fn random_operations_of_several_clients_do_what_the_reference_does() {
    let directory = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(directory.path())).unwrap();
    for seed in seeds(6) {
        println!("TYR_TEST_SEED={seed}");
        run(seed, 400, std::slice::from_ref(&store));
    }
}

#[test]
fn they_do_so_on_a_cluster() {
    let servers = crate::real::Servers::start(3, |directory| {
        let usual = Settings::new(directory);
        Settings { class: ClassSettings { partitions: 16, ..usual.class }, ..usual }
    });
    let open = || block_on(Store::options().copies().open(servers.url())).unwrap();
    let stores: Vec<Store> = (0..CLIENTS).map(|_| open()).collect();
    for seed in seeds(2) {
        println!("TYR_TEST_SEED={seed}");
        run(seed, 200, &stores);
    }
}

const CLIENTS: usize = 3;

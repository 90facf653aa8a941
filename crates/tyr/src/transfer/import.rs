//! From a directory into a keyspace.
//!
//! A file is skipped if its blob has the same size, mode, time, and checksum; the file is read for that, the blob is not.
//! A file that changes while it is read is not imported, so no blob has content that its file never had. One that is too large for a transaction of a cluster is
//! written by several, and its blob says until the last of them that it is not whole.

use std::{fs::File, io::Read, os::unix::fs::OpenOptionsExt, path::Path, thread};

use rustix::fs::OFlags;
use tyr_client::{
    Error, ErrorKind, Key,
    blocking::{Keyspace, Store},
};

use super::{
    Import, LARGE_FILE,
    checksum::Checksum,
    hole,
    node::{Kind, Node},
    path::tree_prefix,
    progress::Progress,
    tally::{End, Summary, Tally},
    walk::{Batcher, Found, Step, Walk},
};
use crate::{
    blob::commit,
    failure::{Failure, Result},
    interrupt::Interrupt,
    output::{Output, Shown},
    payload::{PIECE_SIZE, for_each_piece},
    settings::Settings,
    workers::work_on,
};

/// Imports a tree.
pub fn run(
    store: &Store,
    arguments: &Import,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<Summary> {
    let walk = || {
        let started = Walk::new(&arguments.directory, settings.store.as_deref());
        let what = || format!("cannot import the directory '{}'", arguments.directory.display());
        started.map_err(|error| Failure::local(what(), &error))
    };
    let steps = walk()?;
    let job = Job {
        store,
        keyspace: keyspace(store, arguments)?,
        segment_size: store.stats().map_or(settings.segment_size, |stats| stats.segment_size),
        prefix: tree_prefix(&arguments.target.prefix),
        verify: arguments.verify,
        interrupt,
        tally: Tally::new(),
        progress: Progress::new(out, "import"),
    };
    let worked = thread::scope(|scope| {
        if job.progress.is_visible() {
            scope.spawn(|| walk().map(|steps| job.expect(steps)));
        }
        work_on(settings.threads, job.batches(steps), |batch| job.import(&batch))
    });
    job.progress.finish();
    match worked {
        Ok(()) => Ok(job.tally.summary("import", End::Complete)),
        Err(Failure::Interrupted(_)) => Ok(job.tally.summary("import", End::Interrupted)),
        Err(failure) => Err(failure),
    }
}

fn keyspace(store: &Store, arguments: &Import) -> Result<Keyspace> {
    let name = &arguments.target.keyspace;
    match store.keyspace(name) {
        Err(error) if arguments.create && error.kind() == ErrorKind::NotFound => {
            match store.create_keyspace(name, tyr_client::KeyspaceSettings::default()) {
                // Somebody else has made it meanwhile.
                Err(error) if error.kind() == ErrorKind::Exists => Ok(store.keyspace(name)?),
                made => Ok(made?),
            }
        }
        other => Ok(other?),
    }
}

struct Job<'a> {
    store: &'a Store,
    keyspace: Keyspace,
    segment_size: u64,
    prefix: Vec<u8>,
    verify: bool,
    interrupt: &'a Interrupt,
    tally: Tally,
    progress: Progress,
}

/// Something that was read from the file system and is ready to be written.
struct Ready {
    key: Key,
    node: Node,
    checksum: Checksum,
    content: Vec<u8>,
}

/// What is in the place of something that is to be imported.
#[derive(Default)]
struct There {
    /// The checksum in the attributes of the blob, if it is whole and has the same size, and its attributes say the same node.
    checksum: Option<Checksum>,
    /// Its attributes say that it is not whole.
    is_unfinished: bool,
}

impl Job<'_> {
    /// Tells the progress bar how much there is.
    fn expect(&self, steps: Walk) {
        for step in steps.take_while(|_| !self.interrupt.is_asked()) {
            if let Step::Found(found) = step {
                self.progress.expect(found.size);
            }
        }
    }

    /// Cuts the walk into batches.
    fn batches(&self, steps: Walk) -> impl Iterator<Item = Result<Vec<Found>>> {
        let mut batcher = Some(Batcher::new(self.segment_size, self.store.is_cluster()));
        let mut steps = steps.filter_map(|step| match step {
            Step::Found(found) => Some(found),
            Step::LeftOut => {
                self.tally.left_out();
                None
            }
            Step::Failed(path, error) => {
                self.give_up(&path, &Failure::local("cannot read", &error));
                None
            }
        });
        std::iter::from_fn(move || {
            for found in steps.by_ref() {
                if let Some(batch) = batcher.as_mut()?.add(found) {
                    return Some(Ok(batch));
                }
            }
            let rest = batcher.take()?.take();
            (!rest.is_empty()).then_some(Ok(rest))
        })
    }

    fn import(&self, batch: &[Found]) -> Result<()> {
        match batch {
            [found] if found.size >= LARGE_FILE => match self.import_large(found) {
                Err(failure @ Failure::Local(_)) => {
                    self.give_up(&found.path, &failure);
                    Ok(())
                }
                other => other,
            },
            _ => self.import_small(batch),
        }
    }

    /// Imports files that fit into memory, and everything that is no file, as one transaction.
    fn import_small(&self, batch: &[Found]) -> Result<()> {
        let mut transaction = self.store.begin();
        let mut written = Vec::new();
        for found in batch {
            self.check_interrupt()?;
            let ready = match self.read(found) {
                Ok(ready) => ready,
                Err(failure @ Failure::Local(_)) => {
                    self.give_up(&found.path, &failure);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            self.progress.advance(ready.content.len() as u64);
            let there = self.there(&ready.key, ready.node, ready.content.len() as u64)?;
            if there.checksum == Some(ready.checksum) && self.skips(&ready.key, ready.checksum)? {
                continue;
            }
            transaction.put(&self.keyspace, &ready.key, &ready.content)?;
            if there.is_unfinished {
                Node::write_finished(&mut transaction, &self.keyspace, &ready.key)?;
            }
            ready.node.write(&mut transaction, &self.keyspace, &ready.key, ready.checksum)?;
            written.push((ready.key, ready.node.kind, ready.checksum, ready.content.len() as u64));
        }
        if written.is_empty() {
            return Ok(());
        }
        commit(transaction)?;
        for (key, kind, checksum, size) in written {
            self.tally.wrote(kind, size);
            self.verify(&key, checksum)?;
        }
        Ok(())
    }

    /// Imports a file piece by piece as one transaction.
    fn import_large(&self, found: &Found) -> Result<()> {
        let key = self.key(found)?;
        let mut source = Source::open(&found.path)?;
        let there = self.there(&key, source.node, source.size)?;
        if let Some(recorded) = there.checksum {
            let checksum = source.read(|_, _| self.check_interrupt())?;
            if checksum == recorded && self.skips(&key, checksum)? {
                self.progress.advance(source.size);
                return Ok(());
            }
            source = Source::open(&found.path)?;
        }
        let mut transaction = self.store.begin();
        let is_in_parts = self.store.is_cluster() && source.size > WHOLE_MAX;
        let (mut data, mut parts) = (0, 0);
        let mut ends_in_hole = false;
        let read = source.read(|position, piece| {
            self.check_interrupt()?;
            ends_in_hole = position > 0 && hole::is(piece);
            data += if ends_in_hole { 0 } else { piece.len() as u64 };
            if data > PART && is_in_parts {
                if parts == 0 {
                    Node::write_unfinished(&mut transaction, &self.keyspace, &key)?;
                }
                commit(std::mem::replace(&mut transaction, self.store.begin()))?;
                (data, parts) = (piece.len() as u64, parts + 1);
                match transaction.stat(&self.keyspace, &key) {
                    Ok(stat) if Node::is_unfinished(&stat.attributes) => {}
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                    _ => return Err(replaced()),
                }
            }
            match position {
                0 => transaction.put(&self.keyspace, &key, piece)?,
                _ if ends_in_hole => {}
                _ => transaction.write(&self.keyspace, &key, position, piece)?,
            }
            self.progress.advance(piece.len() as u64);
            Ok(())
        });
        let checksum = match read {
            Err(Failure::Local(reason)) if parts > 0 => {
                return Err(Failure::Local(format!("a part of it is there, and {reason}")));
            }
            other => other?,
        };
        if ends_in_hole {
            transaction.truncate(&self.keyspace, &key, source.size)?;
        }
        source.node.write(&mut transaction, &self.keyspace, &key, checksum)?;
        if parts > 0 || there.is_unfinished {
            Node::write_finished(&mut transaction, &self.keyspace, &key)?;
        }
        commit(transaction)?;
        self.tally.wrote(Kind::File, source.size);
        self.verify(&key, checksum)
    }

    fn read(&self, found: &Found) -> Result<Ready> {
        let key = self.key(found)?;
        let mut content = Vec::new();
        let mut node = found.node;
        match found.node.kind {
            Kind::Directory => {}
            Kind::Symlink => {
                let target = std::fs::read_link(&found.path);
                let target =
                    target.map_err(|error| Failure::local("cannot read the symbolic link", &error))?;
                content = target.into_os_string().into_encoded_bytes();
            }
            Kind::File => {
                let mut source = Source::open(&found.path)?;
                node = source.node;
                source.read(|_, piece| {
                    content.extend_from_slice(piece);
                    if content.len() as u64 > LARGE_FILE { Err(changed()) } else { Ok(()) }
                })?;
            }
        }
        Ok(Ready { key, node, checksum: Checksum::of(&content), content })
    }

    fn key(&self, found: &Found) -> Result<Key> {
        // One path that is too long does not end the import.
        Key::new([self.prefix.as_slice(), &found.key].concat())
            .map_err(|error| Failure::Local(format!("its path makes no key: {error}")))
    }

    fn there(&self, key: &Key, node: Node, size: u64) -> Result<There> {
        let stat = match self.keyspace.stat(key) {
            Ok(stat) => stat,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(There::default()),
            Err(error) => return Err(error.into()),
        };
        // Attributes that say nothing sensible are overwritten, as is anything else that differs.
        let same = stat.size == size && Node::from_attributes(&stat.attributes).ok().flatten() == Some(node);
        let is_unfinished = Node::is_unfinished(&stat.attributes);
        let checksum = Node::checksum(&stat.attributes).filter(|_| same && !is_unfinished);
        Ok(There { checksum, is_unfinished })
    }

    /// Whether the blob has the content, so that it need not be written. Its attributes alone do not tell: somebody may have written to it since, and what is damaged is
    /// written again.
    fn skips(&self, key: &Key, checksum: Checksum) -> Result<bool> {
        let is_there = match self.checksum_of(key) {
            Err(Failure::Store(error)) if error.kind() == ErrorKind::Corrupt => false,
            found => found? == checksum,
        };
        if is_there {
            self.tally.skipped();
            if self.verify {
                self.tally.verified();
            }
        }
        Ok(is_there)
    }

    /// Reads the blob back, if that was asked for.
    fn verify(&self, key: &Key, expected: Checksum) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        let checksum = self.checksum_of(key)?;
        if checksum != expected {
            return Err(mismatch(self.keyspace.name(), key, expected, checksum).into());
        }
        self.tally.verified();
        Ok(())
    }

    fn checksum_of(&self, key: &Key) -> Result<Checksum> {
        let mut transaction = self.store.begin();
        let mut buffer = vec![0; PIECE_SIZE];
        let (mut checksum, mut position) = (Checksum::default(), 0);
        loop {
            self.check_interrupt()?;
            let length = transaction.read_into(&self.keyspace, key, position, &mut buffer)?;
            checksum = checksum.then(&buffer[..length]);
            position += length as u64;
            if length < buffer.len() {
                return Ok(checksum);
            }
        }
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.is_asked() {
            Err(Failure::Interrupted("import was interrupted".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Leaves one file out and goes on.
    fn give_up(&self, path: &Path, failure: &Failure) {
        self.tally.failed();
        self.progress.warn(format!("'{}' is not imported: {failure}", path.display()));
    }
}

/// What is said when what was written does not read back.
fn mismatch(keyspace: &str, key: &Key, expected: Checksum, found: Checksum) -> Error {
    Error::corrupt(format!(
        "{keyspace}/{} reads back with checksum {found}, but what was written has {expected}: somebody else wrote to it, or \
         it is damaged; run 'tyr check', then import it again",
        Shown(key.as_bytes())
    ))
}

/// A file that is being read.
struct Source {
    file: File,
    node: Node,
    size: u64,
}

impl Source {
    /// Opens a regular file. Neither a symbolic link nor a pipe that took its place is opened or waited for.
    fn open(path: &Path) -> Result<Self> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| Failure::local("cannot open it", &error))?;
        let (node, size) = facts(&file)?;
        Ok(Source { file, node, size })
    }

    /// Hands the content over piece by piece, each with its position. Fails if the file is changed meanwhile.
    fn read(&mut self, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<Checksum> {
        let (mut checksum, mut position) = (Checksum::default(), 0);
        // A file that grows faster than it is read would be read for ever.
        let content = self.file.by_ref().take(self.size + 1);
        for_each_piece("it", content, |piece| {
            checksum = checksum.then(piece);
            take(position, piece)?;
            position += piece.len() as u64;
            Ok(())
        })?;
        let now = facts(&self.file)?;
        if position != self.size || now != (self.node, self.size) {
            return Err(changed());
        }
        Ok(checksum)
    }
}

fn facts(file: &File) -> Result<(Node, u64)> {
    let metadata = file.metadata().map_err(|error| Failure::local("cannot look at it", &error))?;
    let node = Node::from_metadata(&metadata).filter(|node| node.kind == Kind::File);
    Ok((node.ok_or_else(changed)?, metadata.len()))
}

/// The largest file that comes into a cluster as one transaction, so that nobody reads half of it. That takes as much memory, and has a limit there.
pub const WHOLE_MAX: u64 = 1 << 30;

/// As much data of a larger one is in each of its transactions.
const PART: u64 = 64 << 20;

fn replaced() -> Failure {
    Failure::Local("somebody else wrote to its blob meanwhile; run the import again".to_owned())
}

fn changed() -> Failure {
    Failure::Local("it changed while it was read; run the import again".to_owned())
}

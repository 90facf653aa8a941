//! What a client does to files: several of its threads at once, on names that other clients use, too.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tyr_client::ErrorKind;
use tyr_fs::{Errno, Error, File, Filesystem, Inode, Kind, Metadata, Named, New, Over, site::Site};

use super::{
    copies::Copies,
    tale::{Act, Name, Tale, Told},
};
use crate::random::Random;

/// What all clients of a run share.
#[derive(Debug)]
pub struct Shared {
    /// When the run began.
    pub began: Instant,
    /// What was done to names.
    pub tale: RefCell<Tale>,
    /// What was appended to files.
    pub appended: RefCell<Vec<Appended>>,
    /// What was copied.
    pub copies: Copies,
    /// How many files were moved to their names.
    pub moved: Cell<u64>,
    /// What was found that must not be.
    pub wrong: RefCell<Option<String>>,
    /// Whether nothing more is to be begun.
    pub is_ending: Cell<bool>,
}

/// A record that was appended to a file, or may be.
#[derive(Debug)]
pub struct Appended {
    /// The number of the file's inode.
    pub inode: u64,
    /// Whether that was told.
    pub is_told: bool,
}

impl Shared {
    /// The time, in simulated microseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).expect("a run is short")
    }
}

/// The names that there are in each directory.
pub const NAMES: [Name; 3] = ["a", "b", "c"];
/// How many bytes a record has: its number.
pub const RECORD: usize = 8;
/// More than is ever appended to a file.
const READ_MAX: usize = 1 << 20;

/// What the threads of a client share.
#[derive(Debug)]
pub struct Program {
    shared: Rc<Shared>,
    filesystem: Filesystem,
    /// What it has heard of.
    known: RefCell<BTreeMap<u64, Inode>>,
    open: RefCell<Vec<File>>,
}

impl Program {
    /// Of a file system that it has opened.
    pub fn new(shared: Rc<Shared>, filesystem: Filesystem) -> Self {
        let root = filesystem.root();
        let known = RefCell::new(BTreeMap::from([(root.number, root)]));
        Program { shared, filesystem, known, open: RefCell::default() }
    }

    /// What a thread does: so many things, one after the other.
    pub async fn work(self: Rc<Self>, mut random: Random, deeds: u32) {
        for _ in 0..deeds {
            if self.shared.is_ending.get() {
                break;
            }
            match random.below(18) {
                0..12 => {
                    let act = self.choose(&mut random);
                    self.act(act).await;
                }
                12..15 => self.use_file(&mut random).await,
                15..17 => self.shared.copies.work(&self.filesystem, &mut random).await,
                _ => self.tend().await,
            }
            sleep(Duration::from_millis(random.below(80))).await;
        }
        self.open.borrow_mut().clear();
    }

    /// Does what a guest does each second, and sooner. Nobody is removed for his silence.
    async fn tend(&self) {
        // What does not work now may work next time.
        let _ = self.filesystem.tend(Duration::MAX).await;
    }

    /// Tends as long as this client lives: often, as runs are short. Opens then, at times, what is about to move: just when this client has said that it has
    /// nothing open.
    pub async fn attend(self: Rc<Self>, mut random: Random) {
        loop {
            sleep(Duration::from_millis(5 + random.below(20))).await;
            self.tend().await;
            let Some(inode) = random.choose(&self.files()).cloned() else { continue };
            let found = self.filesystem.metadata(&inode).await;
            if found.is_ok_and(|found| found.leaving.is_some())
                && random.below(3) > 0
                && let Ok((file, _)) = self.filesystem.open_file(&inode).await
            {
                sleep(Duration::from_millis(random.below(60))).await;
                self.use_open(&file, &mut random).await;
            }
        }
    }

    /// The files that it has heard of.
    fn files(&self) -> Vec<Inode> {
        self.known.borrow().values().filter(|inode| inode.kind == Kind::File).cloned().collect()
    }

    fn choose(&self, random: &mut Random) -> Act {
        let known = self.known.borrow();
        let of = |is_directory: bool| {
            let kind = move |inode: &&Inode| (inode.kind == Kind::Directory) == is_directory;
            known.values().filter(kind).map(|inode| inode.number).collect::<Vec<_>>()
        };
        let directories = of(true);
        let mut place = || {
            let directory = *random.choose(&directories).expect("the root is known");
            (directory, *random.choose(&NAMES).expect("there are some"))
        };
        let ((directory, name), to) = (place(), place());
        match random.below(16) {
            0..4 => Act::Make { directory, name, is_directory: random.below(3) == 0 },
            4 => match random.choose(&of(false)) {
                Some(inode) => Act::Link { inode: *inode, directory, name },
                None => Act::List { directory },
            },
            5 => Act::Unlink { directory, name },
            6 => Act::RemoveDirectory { directory, name },
            7..12 => {
                let over = [Over::Replace, Over::Replace, Over::Refuse, Over::Exchange][random.index(4)];
                Act::Rename { from: (directory, name), to, over }
            }
            12..14 => Act::Look { directory, name },
            14 => Act::List { directory },
            _ => {
                let inodes = of(random.below(2) == 0);
                Act::Count { inode: *random.choose(&inodes).unwrap_or(&directory) }
            }
        }
    }

    /// An inode that it has heard of.
    pub fn inode(&self, number: u64) -> Inode {
        self.known.borrow()[&number].clone()
    }

    fn learn(&self, metadata: &Metadata) -> Told {
        self.know(&metadata.inode);
        Told::Inode(metadata.inode.number, metadata.inode.kind == Kind::Directory)
    }

    fn know(&self, inode: &Inode) {
        self.known.borrow_mut().insert(inode.number, inode.clone());
    }

    /// Does something with an inode, and again where it lies if it has moved. What is refused then is refused because it is no more.
    async fn at<T>(&self, number: u64, work: impl AsyncFn(&Inode) -> Result<T, Error>) -> Result<T, Error> {
        loop {
            match work(&self.inode(number)).await {
                Err(error) if error.errno() == Errno::ESTALE => {}
                result => return result,
            }
            // One that moves to where was looked before is not seen, and seldom moves again at once.
            let mut found = lying(&self.filesystem).await?.remove(&number);
            if found.is_none() {
                found = lying(&self.filesystem).await?.remove(&number);
            }
            match found {
                Some(inode) => self.know(&inode),
                None => return work(&self.inode(number)).await,
            }
        }
    }

    /// Does something, and takes note of what is told of it.
    pub async fn act(&self, act: Act) -> Option<Told> {
        let place = self.shared.tale.borrow_mut().begin(self.shared.now(), act.clone());
        let told = match self.try_act(&act).await {
            Ok(told) => told,
            // Who looks for the file by a name finds none.
            Err(error) if matches!(act, Act::Link { .. }) && error.errno() == Errno::ESTALE => {
                Told::Refused(Errno::ENOENT)
            }
            Err(error) if is_refusal(&error) => Told::Refused(error.errno()),
            Err(_) => return None,
        };
        self.shared.tale.borrow_mut().tell(self.shared.now(), place, told.clone());
        Some(told)
    }

    async fn try_act(&self, act: &Act) -> Result<Told, Error> {
        let files = &self.filesystem;
        match *act {
            Act::Make { directory, name, is_directory } => {
                let kind = if is_directory { Kind::Directory } else { Kind::File };
                let made = files.make(&self.inode(directory), name.as_bytes(), &New::of(kind, 0o755)).await?;
                Ok(self.learn(&made))
            }
            Act::Link { inode, directory, name } => {
                let directory = self.inode(directory);
                self.at(inode, async |inode| files.link(inode, &directory, name.as_bytes()).await).await?;
                Ok(Told::Done)
            }
            Act::Unlink { directory, name } => {
                files.unlink(&self.inode(directory), name.as_bytes()).await?;
                Ok(Told::Done)
            }
            Act::RemoveDirectory { directory, name } => {
                files.remove_directory(&self.inode(directory), name.as_bytes()).await?;
                Ok(Told::Done)
            }
            Act::Rename { from, to, over } => {
                let (old, new) = (self.inode(from.0), self.inode(to.0));
                let from = Named { directory: &old, name: from.1.as_bytes() };
                let to = Named { directory: &new, name: to.1.as_bytes() };
                files.rename(from, to, over).await?;
                Ok(Told::Done)
            }
            Act::Look { directory, name } => {
                let found = files.lookup(&self.inode(directory), name.as_bytes()).await?;
                Ok(self.learn(&found))
            }
            Act::List { directory } => {
                let entries = files.list(&self.inode(directory)).await?;
                let named = entries.into_iter().map(|entry| {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    (name, (entry.number, entry.kind == Kind::Directory))
                });
                Ok(Told::Names(named.collect()))
            }
            Act::Count { inode } => match self.at(inode, async |inode| files.metadata(inode).await).await {
                // Without a name, and open.
                Ok(metadata) if metadata.links == 0 => Ok(Told::Refused(Errno::ESTALE)),
                Ok(metadata) => Ok(Told::Links(metadata.links)),
                Err(error) => Err(error),
            },
        }
    }

    /// Opens a file, appends to one that is open, or closes it.
    async fn use_file(&self, random: &mut Random) {
        let open = self.open.borrow_mut().pop();
        let Some(file) = open else {
            if let Some(inode) = random.choose(&self.files())
                && let Ok((file, _)) = self.filesystem.open_file(inode).await
            {
                self.open.borrow_mut().push(file);
            }
            return;
        };
        self.use_open(&file, random).await;
        if random.below(2) > 0 {
            self.open.borrow_mut().push(file);
        }
    }

    /// Reads what is open, or appends to it.
    async fn use_open(&self, file: &File, random: &mut Random) {
        let used = match random.below(3) {
            0 => self.read(file).await,
            _ => self.append(file).await,
        };
        if let Err(error) = used
            && error.errno() == Errno::ESTALE
        {
            // Nobody is removed for his silence.
            let what = format!("files: {:?} is no more for who has it open", file.inode());
            self.shared.wrong.borrow_mut().get_or_insert(what);
        }
    }

    async fn append(&self, file: &File) -> Result<(), Error> {
        let number = {
            let mut appended = self.shared.appended.borrow_mut();
            appended.push(Appended { inode: file.inode().number, is_told: false });
            appended.len() - 1
        };
        file.append(&(number as u64).to_le_bytes()).await?;
        self.shared.appended.borrow_mut()[number].is_told = true;
        Ok(())
    }

    /// Reads a file that is open: there is nothing in it but what was appended to it.
    async fn read(&self, file: &File) -> Result<(), Error> {
        let content = file.read(0, READ_MAX).await?;
        let (records, rest) = content.as_chunks::<RECORD>();
        let appended = self.shared.appended.borrow();
        let is_of_it = |record: &[u8; RECORD]| {
            let number = usize::try_from(u64::from_le_bytes(*record)).unwrap_or(usize::MAX);
            appended.get(number).is_some_and(|record| record.inode == file.inode().number)
        };
        if !rest.is_empty() || !records.iter().all(is_of_it) {
            let what = format!("files: who has {:?} open reads {records:?} and {rest:?}", file.inode());
            self.shared.wrong.borrow_mut().get_or_insert(what);
        }
        Ok(())
    }
}

/// All inodes of which anything is there, by number, each as it was at some moment.
pub async fn lying(filesystem: &Filesystem) -> Result<BTreeMap<u64, Inode>, Error> {
    let keyspace = filesystem.keyspace();
    let mut inodes = BTreeMap::new();
    for blob in keyspace.scan([], None, usize::MAX).await? {
        let key = blob.key.as_bytes();
        if key.starts_with(b"!") {
            continue;
        }
        let stat = match keyspace.stat(key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            stat => stat?,
        };
        if let Some((code, number)) = stat.attributes.value("i").and_then(<[u8]>::split_first)
            && let Some(number) = number.first_chunk::<8>()
            && let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind as u8 == *code)
        {
            let number = u64::from_le_bytes(*number);
            inodes.insert(number, Inode { number, kind, site: Site::from_key(key) });
        }
    }
    Ok(inodes)
}

/// Whether the file system says no; else it is not known whether anything has happened.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.errno(),
        Errno::ENOENT
            | Errno::EEXIST
            | Errno::ENOTDIR
            | Errno::EISDIR
            | Errno::ENOTEMPTY
            | Errno::EINVAL
            | Errno::ESTALE
    )
}

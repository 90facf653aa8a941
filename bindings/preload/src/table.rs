//! The descriptors that are ours, and what stands behind them.
//!
//! The number of each is a real one: an empty file of the kernel's keeps it from being given twice, keeps its offset and its flags through
//! `dup`, `fork`, and `exec`, and is always ready for who polls it ([`crate::inheritance`]).

use std::{
    collections::{HashMap, HashSet},
    ffi::c_int,
    mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use tyr_fs::{File, Follow, Inode, Metadata};

use crate::{
    border::{Errno, Result},
    paths::Mounted,
    session::{Session, lock, session},
    streams,
    waiting::block_on,
};

/// What one opening has made, whatever numbers it has.
pub struct Description {
    pub inode: Inode,
    /// The path by which it was opened, beginning with a slash; of what is no open file without symbolic links and dots.
    pub path: Vec<u8>,
    /// `O_RDONLY`, `O_WRONLY`, `O_RDWR`, or `O_PATH`.
    pub access: c_int,
    /// Which one it is in this process.
    pub number: u64,
    /// Whether another process has opened it, or what this one was before it became another program.
    pub is_inherited: bool,
    /// The open file, and the generation of the session that has it open.
    file: Mutex<Option<(u64, Arc<File>)>>,
    /// Held by who uses the offset, of the threads of this process.
    pub moving: Mutex<()>,
}

impl Description {
    pub fn new(inode: Inode, path: Vec<u8>, access: c_int) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(OPEN_FILES);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (file, moving) = (Mutex::new(None), Mutex::new(()));
        Description { inode, path, access, number, is_inherited: false, file, moving }
    }

    pub fn inherited(inode: Inode, path: Vec<u8>, access: c_int) -> Self {
        Description { is_inherited: true, ..Description::new(inode, path, access) }
    }

    pub fn of_file(file: File, path: Vec<u8>, access: c_int, session: &Session) -> Self {
        let new = Description::new(file.inode().clone(), path, access);
        *lock(&new.file) = Some((session.generation, Arc::new(file)));
        new
    }

    /// The open file. It is opened again if that was another process.
    pub fn file(&self) -> Result<Arc<File>> {
        let session = session()?;
        let mut file = lock(&self.file);
        if let Some((_, file)) = file.as_ref().filter(|(generation, _)| *generation == session.generation) {
            return Ok(file.clone());
        }
        let filesystem = session.view.filesystem();
        let (opened, _) = self.at(&session, |inode| match self.access {
            libc::O_RDONLY => block_on(filesystem.open_file_to_read(inode)),
            _ => block_on(filesystem.open_file(inode)),
        })?;
        let opened = Arc::new(opened);
        // The one before is of a session that is gone.
        mem::forget(file.replace((session.generation, opened.clone())));
        Ok(opened)
    }

    pub fn readable(&self) -> Result<Arc<File>> {
        match self.access {
            libc::O_RDONLY | libc::O_RDWR => self.file_or_directory(),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// What is written to. By whom but the superuser, it loses the bits by which it would run with its owner's rights.
    pub fn writable(&self) -> Result<Arc<File>> {
        let file = match self.access {
            libc::O_WRONLY | libc::O_RDWR => self.file_or_directory()?,
            _ => return Err(Errno(libc::EBADF)),
        };
        // SAFETY: it has no conditions.
        if unsafe { libc::geteuid() } != 0 {
            block_on(file.drop_privileges())?;
        }
        Ok(file)
    }

    fn file_or_directory(&self) -> Result<Arc<File>> {
        match self.inode.kind {
            tyr_fs::Kind::Directory => Err(Errno(libc::EISDIR)),
            _ => self.file(),
        }
    }

    pub fn is_file(&self) -> bool {
        self.inode.kind == tyr_fs::Kind::File && self.access != libc::O_PATH
    }

    pub fn metadata(&self) -> Result<Metadata> {
        Ok(match self.is_file() {
            true => block_on(self.file()?.metadata())?,
            false => {
                let session = session()?;
                self.at(&session, |inode| block_on(session.view.filesystem().metadata(inode)))?
            }
        })
    }

    /// Does something with the inode; where it lies now, if it has moved to the name by which it was opened while no process had it open.
    fn at<T>(&self, session: &Session, work: impl Fn(&Inode) -> tyr_fs::Result<T>) -> tyr_fs::Result<T> {
        match work(&self.inode) {
            Err(error) if error.errno() == tyr_fs::Errno::ESTALE => {
                match block_on(session.view.metadata(crate::places::inner(&self.path), Follow::Yes)) {
                    Ok(found) if found.inode.number == self.inode.number => work(&found.inode),
                    _ => Err(error),
                }
            }
            result => result,
        }
    }
}

/// What a process has.
#[derive(Default)]
pub struct World {
    descriptors: Option<HashMap<c_int, Arc<Description>>>,
    /// Inodes on which the process has taken locks that go when it closes any descriptor of them.
    locked: Option<HashSet<u64>>,
    pub working: Option<crate::working::Working>,
}

static WORLD: Mutex<World> = Mutex::new(World { descriptors: None, locked: None, working: None });
/// Whether each descriptor is ours, to be seen without waiting for anybody.
static TAKEN: [AtomicU8; TAKEN_MAX] = [const { AtomicU8::new(0) }; TAKEN_MAX];

pub fn world() -> MutexGuard<'static, World> {
    lock(&WORLD)
}

impl World {
    /// In a child of a fork: what was open is to be opened again, and nobody holds a lock of it.
    pub fn start_anew(&mut self) {
        let before = self.descriptors.take().unwrap_or_default();
        let mut anew: HashMap<u64, Arc<Description>> = HashMap::new();
        let mut descriptors = HashMap::new();
        for (descriptor, old) in &before {
            let new = anew.entry(old.number).or_insert_with(|| {
                Arc::new(Description::inherited(old.inode.clone(), old.path.clone(), old.access))
            });
            descriptors.insert(*descriptor, new.clone());
        }
        self.descriptors = Some(descriptors);
        self.locked = None;
        mem::forget(before);
    }
}

fn place(descriptor: c_int) -> Option<&'static AtomicU8> {
    TAKEN.get(usize::try_from(descriptor).ok()?)
}

/// What stands behind a descriptor, if it is ours.
pub fn taken(descriptor: c_int) -> Option<Arc<Description>> {
    if place(descriptor)?.load(Ordering::Acquire) == 0 {
        return None;
    }
    world().descriptors.as_ref()?.get(&descriptor).cloned()
}

/// Whether a descriptor can be ours.
pub fn check_fits(descriptor: c_int) -> Result<()> {
    place(descriptor).map(drop).ok_or(Errno(libc::EMFILE))
}

/// A descriptor is ours from now on.
pub fn insert(descriptor: c_int, description: Arc<Description>) {
    let Some(place) = place(descriptor) else { return };
    let before = world().descriptors.get_or_insert_default().insert(descriptor, description);
    place.store(1, Ordering::Release);
    drop(before);
    streams::follow(descriptor);
}

/// A descriptor is not ours any more. Its number is the kernel's still.
pub fn remove(descriptor: c_int) -> Option<Arc<Description>> {
    let place = place(descriptor)?;
    if place.swap(0, Ordering::AcqRel) == 0 {
        return None;
    }
    let removed = world().descriptors.as_mut()?.remove(&descriptor);
    streams::follow(descriptor);
    removed
}

/// All of ours in a range.
pub fn between(first: u32, last: u32) -> Vec<c_int> {
    let world = world();
    let all = world.descriptors.iter().flat_map(|map| map.keys().copied());
    all.filter(|descriptor| u32::try_from(*descriptor).is_ok_and(|it| (first..=last).contains(&it))).collect()
}

/// Whether no descriptor has this description any more.
pub fn is_last(description: &Arc<Description>) -> bool {
    let world = world();
    !world.descriptors.iter().flat_map(HashMap::values).any(|other| Arc::ptr_eq(other, description))
}

/// Whether any descriptor is of this inode.
pub fn is_open(inode: u64) -> bool {
    world().descriptors.iter().flat_map(HashMap::values).any(|other| other.inode.number == inode)
}

/// The process has locks of an inode from now on.
pub fn has_locked(inode: u64) {
    world().locked.get_or_insert_default().insert(inode);
}

/// Whether the process had locks of an inode, which it loses now.
pub fn loses_locks(inode: u64) -> bool {
    world().locked.as_mut().is_some_and(|locked| locked.remove(&inode))
}

/// The path in the file system of one below the prefix.
pub fn inner(mounted: &Mounted, path: &[u8]) -> Vec<u8> {
    [mounted.directory.as_slice(), path].concat()
}

/// Descriptors with higher numbers are never ours.
const TAKEN_MAX: usize = 1 << 16;
/// Owners of locks with lower numbers are processes.
const OPEN_FILES: u64 = 16;

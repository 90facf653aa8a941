//! The file system as this process has it: opened when it is first needed, by each process for itself.
//!
//! A child of a fork has its parent's memory, but not the threads that serve it: it leaves all of that alone, and opens the file system anew when it
//! needs it. A child of a `vfork` shares its parent's memory until it starts a program: what it does with descriptors is its own, so
//! nothing is noted then.

use std::{
    collections::HashMap,
    env,
    ffi::c_int,
    io::Write as _,
    mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::null_mut,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering},
    },
};

use tyr_client::{Create, ErrorKind, Store, is_cluster};
use tyr_fs::{Caller, Filesystem, Flat, Follow, Owed, View};

use crate::{
    border::{Errno, Inside, Result},
    inheritance,
    paths::{Mistake, Mounted},
    report,
    streams::{Made, all_made},
    table::{self, World},
    waiting::block_on,
};

/// The file system, open.
pub struct Session {
    pub view: View,
    /// Locks that could not be given up when their files were closed.
    pub owed: Arc<Owed>,
    /// How often it was opened before, in this process and those that it is a fork of.
    pub generation: u64,
}

impl Session {
    /// What makes files and directories, with the umask of this process.
    pub fn maker(&self) -> View {
        self.view.clone().masked(UMASK.load(Ordering::Relaxed))
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static MOUNTED: OnceLock<(Vec<u8>, Mounted)> = OnceLock::new();
/// What is wrong with what `TYR_MOUNT` says of what lies below its prefix.
static MISTAKE: OnceLock<String> = OnceLock::new();
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// The process whose memory this is.
static OWNER: AtomicI32 = AtomicI32::new(0);
static UMASK: AtomicU32 = AtomicU32::new(0o022);
/// Whether it was said that the file system cannot be opened.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Whether there is anything to do for this library.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// What `TYR_MOUNT` says, and how it says it.
pub fn mounted() -> &'static (Vec<u8>, Mounted) {
    MOUNTED.get().expect("the library is on only when this is known")
}

/// Whether this is a process that shares its parent's memory.
pub fn is_guest_of_parent() -> bool {
    // SAFETY: it has no conditions.
    let own = unsafe { libc::getpid() };
    own != OWNER.load(Ordering::Relaxed)
}

pub fn set_umask(mask: u32) {
    UMASK.store(mask & 0o777, Ordering::Relaxed);
}

/// Fails with `EROFS` if nothing may be changed.
pub fn check_changes() -> Result<()> {
    match mounted().1.options.is_read_only {
        true => Err(Errno(libc::EROFS)),
        false => Ok(()),
    }
}

/// The file system, opened if it is not.
pub fn session() -> Result<Arc<Session>> {
    let mut session = lock(&SESSION);
    if let Some(known) = &mut *session {
        // A process that has become another user's has that user's rights, and no others, to what it opens from then on.
        // SAFETY: they have no conditions.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        if (uid, gid) != (known.view.caller().uid, known.view.caller().gid) {
            let (owed, generation) = (known.owed.clone(), known.generation);
            *known = Arc::new(Session { view: known.view.clone().by(caller()), owed, generation });
        }
        return Ok(known.clone());
    }
    match open(&mounted().1) {
        Ok(view) => {
            let generation = GENERATION.load(Ordering::Relaxed);
            let opened = Arc::new(Session { view, owed: Arc::default(), generation });
            *session = Some(opened.clone());
            Ok(opened)
        }
        Err((errno, message)) => {
            if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
                complain(&message);
            }
            Err(errno)
        }
    }
}

/// Opens it. What fails says why: a number has no room for that.
fn open(mounted: &Mounted) -> std::result::Result<View, (Errno, String)> {
    if let Some(mistake) = MISTAKE.get() {
        return Err((Errno(libc::EIO), format!("TYR_MOUNT: {mistake}")));
    }
    let store = match mounted.store.clone().or_else(|| env::var_os("TYR_STORE").map(PathBuf::from)) {
        Some(store) => store,
        None => {
            return Err((Errno(libc::EIO), "neither TYR_MOUNT nor TYR_STORE names a store".to_owned()));
        }
    };
    let options = mounted.options;
    let create = if options.creates { Create::IfMissing } else { Create::Never };
    let is_shared = is_cluster(&store);
    // The files of a node of this host would have numbers among those of the program.
    let opened = block_on(Store::options().create(create).without_files().copies().open(&store));
    let opened = opened.map_err(|error| {
        let errno = if is_shared { libc::EIO } else { libc::EBUSY };
        (Errno(errno), format!("cannot open '{}': {error}", store.display()))
    })?;
    let existing = || {
        opened.keyspace(&mounted.keyspace).map_err(|error| match error.kind() {
            ErrorKind::NotFound => tyr_fs::Errno::ENOENT
                .because("there is no such keyspace; the option 'create' of TYR_MOUNT has it made"),
            _ => error.into(),
        })
    };
    let filesystem = block_on(async {
        let flat = match (options.is_flat, options.has_underscores) {
            (false, _) => None,
            (true, false) => Some(Flat::Slashes),
            (true, true) => Some(Flat::Underscores),
        };
        match (flat, options.creates) {
            (None, true) => Filesystem::open_or_create(&opened, &mounted.keyspace).await,
            (None, false) => Filesystem::open(&opened, &existing()?).await,
            (Some(flat), true) => Filesystem::open_or_create_flat(&opened, &mounted.keyspace, flat).await,
            (Some(flat), false) => Filesystem::open_flat(&opened, &existing()?, flat).await,
        }
    });
    // Whatever the reason, to the program it is not one of the file that it asks for.
    let failed = |error: tyr_fs::Error| {
        let message = format!("cannot open the file system in keyspace '{}': {error}", mounted.keyspace);
        (Errno(libc::EIO), message)
    };
    let filesystem = filesystem.map_err(failed)?;
    if !is_shared && !options.is_read_only {
        // Nobody else has the directory open, so guests that are left are those of programs that were killed.
        block_on(filesystem.evict_others()).map_err(failed)?;
    }
    let path_of = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
    let root = path_of(if mounted.directory.is_empty() { b"/".as_slice() } else { &mounted.directory });
    let view = View::new(filesystem, caller()).mounted_at(path_of(&mounted.prefix), root);
    block_on(view.metadata(root, Follow::Yes)).map_err(failed)?;
    Ok(view)
}

/// Who this process is.
fn caller() -> Caller {
    // SAFETY: they have no conditions; the list of groups is as long as it was said to be.
    let (uid, gid, groups) = unsafe {
        let count = libc::getgroups(0, null_mut());
        let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
        let count = libc::getgroups(c_int::try_from(groups.len()).unwrap_or(0), groups.as_mut_ptr());
        groups.truncate(usize::try_from(count).unwrap_or(0));
        (libc::geteuid(), libc::getegid(), groups)
    };
    Caller { uid, gid, groups }
}

fn complain(message: &str) {
    // Who cannot be told is not told.
    let _ = std::io::stderr().write_all(format!("tyr-preload: {message}\n").as_bytes());
}

/// Gives up what others keep for this process. What is used afterwards is opened anew.
pub fn leave() {
    let session = lock(&SESSION).take();
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let Some(session) = session else { return };
    session.owed.end();
    let filesystem = session.view.filesystem();
    // What cannot be said is found out by the others when this process is silent.
    let _ = block_on(filesystem.leave());
    if !filesystem.store().is_cluster() {
        let _ = block_on(filesystem.store().flush());
    }
    // Threads of the program may use it still; it goes with the process.
    mem::forget(session);
}

/// Locks, whatever became of who had it before: what is behind these locks is whole at every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    let _inside = Inside::enter();
    let Some(text) = env::var_os("TYR_MOUNT").filter(|text| !text.is_empty()) else { return };
    let started = std::panic::catch_unwind(|| {
        let mounted = match Mounted::parse(text.as_bytes()) {
            Ok(mounted) => mounted,
            // What is meant for there must not come to a disk of this machine.
            Err(Mistake { prefix: Some(prefix), message }) => {
                let _ = MISTAKE.set(message);
                Mounted::nothing(prefix)
            }
            Err(Mistake { message, .. }) => return complain(&format!("TYR_MOUNT: {message}")),
        };
        // The library starts once.
        let _ = MOUNTED.set((text.as_bytes().to_vec(), mounted));
        report::start();
        // SAFETY: no other thread runs yet that could create a file in between, and the handlers keep to what is allowed after a fork.
        unsafe {
            OWNER.store(libc::getpid(), Ordering::Relaxed);
            let mask = libc::umask(0o022);
            libc::umask(mask);
            set_umask(mask);
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        }
        inheritance::take();
        ON.store(true, Ordering::Relaxed);
    });
    // Then the program runs without this library.
    drop(started);
}

extern "C" fn end() {
    if is_on() && !is_guest_of_parent() {
        // SAFETY: it has no conditions; what streams still hold is written while the file system is open.
        unsafe { libc::fflush(null_mut()) };
        let _inside = Inside::enter();
        // A panic here has nobody to be told.
        let _ = std::panic::catch_unwind(finish);
    }
}

/// What is done when a process ends.
pub fn finish() {
    leave();
    report::tell();
}

/// The locks that are held while the process forks.
struct Held {
    world: MutexGuard<'static, World>,
    session: MutexGuard<'static, Option<Arc<Session>>>,
    /// Only held.
    _streams: MutexGuard<'static, Option<HashMap<usize, Arc<Made>>>>,
}

static HELD: AtomicPtr<Held> = AtomicPtr::new(null_mut());

extern "C" fn before_fork() {
    let session = lock(&SESSION);
    let held = Held { world: table::world(), session, _streams: all_made() };
    HELD.store(Box::into_raw(Box::new(held)), Ordering::Relaxed);
}

fn held() -> Option<Held> {
    let held = HELD.swap(null_mut(), Ordering::Relaxed);
    // SAFETY: it is a box of `before_fork`, taken once.
    (!held.is_null()).then(|| *unsafe { Box::from_raw(held) })
}

extern "C" fn in_parent() {
    drop(held());
}

extern "C" fn in_child() {
    let Some(mut held) = held() else { return };
    // SAFETY: it has no conditions.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    mem::forget(held.session.take());
    held.world.start_anew();
    report::start_anew();
}

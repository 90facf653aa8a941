//! An open file system, and how its transactions are run.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tyr_client::{
    Check, ErrorKind, Keyspace, KeyspaceSettings, Operand, Recall, Recalls, Store, Transaction, Transform,
};

use crate::{
    acl::OBEYS_ACLS,
    errno::{Errno, Result, Stop, changed, damaged},
    flat::Flat,
    guest::Guest,
    holes::Counted,
    inode::{CHANGED, Inode, Kind, MODIFIED, Metadata, NUMBER, Timestamp, encode_number, encode_time},
    listing::{self, Records},
    orphans,
    removals::Removals,
    site::Site,
    strays::Strays,
    uses::Uses,
};

/// A file system in a keyspace. Cheap to clone.
///
/// The methods here know inodes and names in directories, and ask nobody's permission: they are what a mount is made of. Those that know
/// paths and permissions are of [`View`](crate::View).
#[derive(Clone, Debug)]
pub struct Filesystem {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub store: Store,
    pub keyspace: Keyspace,
    pub guest: Guest,
    pub uses: Uses,
    /// What may move to its name.
    pub strays: Strays,
    pub counted: Counted,
    /// How paths become keys, where there are no directories.
    pub flat: Option<Flat>,
    /// Whether access control lists are obeyed.
    pub obeys_acls: AtomicBool,
    /// How often a file was given the bits here by which it runs with its owner's or its group's rights.
    pub privileges_given: AtomicU64,
    /// Of which directories names were taken here since it was last looked how long their listings are.
    pub removals: Removals,
    numbers: Mutex<Range<u64>>,
}

/// Runs a transaction until it commits: the body is `async`, may be run several times, and is told whether it is not the first. What it
/// refuses with is returned if what it has read still holds then.
macro_rules! transact {
    ($filesystem:expr, |$transaction:ident, $again:ident| $body:expr) => {{
        let mut retry = $filesystem.inner.store.retry();
        let mut $again = false;
        loop {
            let mut begun = retry.begin().await?;
            let $transaction = &mut begun;
            let result: Result<_, $crate::errno::Stop> = $body.await;
            match result {
                Ok(value) => {
                    if let Some(committed) = retry.finish(begun, Ok(value)).await? {
                        break committed;
                    }
                }
                Err($crate::errno::Stop::Store(error)) => {
                    retry.finish::<()>(begun, Err(error)).await?;
                }
                Err($crate::errno::Stop::Refused(error)) => {
                    let ended = retry.finish::<()>(begun, Err($crate::filesystem::refused())).await;
                    match ended {
                        // Whether what it has read still holds is not known.
                        Err(ended) if ended.kind() == tyr_client::ErrorKind::Unavailable => {
                            return Err(ended.into());
                        }
                        Err(_) => return Err(error),
                        Ok(_) => {}
                    }
                }
            }
            $again = true;
        }
    }};
}
pub(crate) use transact;

/// What ends a try whose answer is no.
pub(crate) fn refused() -> tyr_client::Error {
    tyr_client::Error::invalid("the file system refuses this")
}

impl Filesystem {
    /// Opens the file system in a keyspace.
    ///
    /// Fails with [`Errno::EINVAL`] if there is none in it.
    pub async fn open(store: &Store, keyspace: &Keyspace) -> Result<Filesystem> {
        let filesystem = Filesystem::new(store, keyspace);
        match keyspace.get(FORMAT).await {
            Ok(format) if format.bytes == VERSION => {
                let obeys_acls = format.stat.attributes.value(OBEYS_ACLS).is_some();
                filesystem.inner.obeys_acls.store(obeys_acls, Ordering::Relaxed);
                Ok(filesystem)
            }
            Ok(_) => Err(Errno::EINVAL
                .because(format!("keyspace '{}' holds a file system of another version", keyspace.name()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_empty = keyspace.scan([], None, 1).await?.is_empty();
                Err(Errno::EINVAL.because(match is_empty {
                    true => format!(
                        "keyspace '{}' holds no file system; make one first, with 'tyr mount --create' or 'tyr fs create'",
                        keyspace.name()
                    ),
                    false => format!(
                        "keyspace '{}' holds no file system, but something else; if that is flat files, ask for them with --flat",
                        keyspace.name()
                    ),
                }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an empty file system in a keyspace that is empty, and opens it. The root belongs to the superuser, and everybody may look.
    ///
    /// Fails with [`Errno::EEXIST`] if there is one in it, and with [`Errno::ENOTEMPTY`] if there is anything else.
    pub async fn create(store: &Store, keyspace: &Keyspace) -> Result<Filesystem> {
        let filesystem = Filesystem::new(store, keyspace);
        if keyspace.exists(FORMAT).await? {
            return Err(Errno::EEXIST.because("there is a file system in the keyspace already"));
        }
        if !keyspace.scan([], None, 1).await?.is_empty() {
            return Err(Errno::ENOTEMPTY.because("the keyspace is not empty; take another one"));
        }
        transact!(filesystem, |transaction, _again| filesystem.try_format(transaction));
        Ok(filesystem)
    }

    /// Opens the file system in the keyspace of this name; makes the keyspace and an empty file system if there is none.
    pub async fn open_or_create(store: &Store, keyspace: &str) -> Result<Filesystem> {
        let keyspace = match store.keyspace(keyspace) {
            Ok(keyspace) => keyspace,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match store.create_keyspace(keyspace, KeyspaceSettings::default()).await {
                    Ok(keyspace) => keyspace,
                    Err(error) if error.kind() == ErrorKind::Exists => store.keyspace(keyspace)?,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        };
        match Filesystem::create(store, &keyspace).await {
            Err(error) if matches!(error.errno(), Errno::EEXIST) => Filesystem::open(store, &keyspace).await,
            result => result,
        }
    }

    /// What was changed is durable when this ends, as far as the keyspace keeps anything on disks.
    pub async fn sync(&self) -> Result<()> {
        let keeps_in_memory = self.keyspace().settings().durability == tyr_client::Durability::Memory;
        if keeps_in_memory && !self.store().is_cluster() {
            self.store().flush().await?;
        }
        Ok(())
    }

    fn new(store: &Store, keyspace: &Keyspace) -> Filesystem {
        Filesystem::of(store, keyspace, None)
    }

    pub(crate) fn of(store: &Store, keyspace: &Keyspace, flat: Option<Flat>) -> Filesystem {
        let (store, keyspace) = (store.clone(), keyspace.clone());
        let (guest, uses, strays) = (Guest::default(), Uses::default(), Strays::default());
        let counted = Counted::default();
        let inner = Inner {
            store,
            keyspace,
            guest,
            uses,
            strays,
            counted,
            flat,
            obeys_acls: AtomicBool::new(false),
            privileges_given: AtomicU64::new(0),
            removals: Removals::default(),
            numbers: Mutex::new(0..0),
        };
        Filesystem { inner: Arc::new(inner) }
    }

    async fn try_format(&self, transaction: &mut Transaction) -> Result<(), Stop> {
        let keyspace = self.keyspace();
        match transaction.create(keyspace, FORMAT).await {
            Err(error) if error.kind() == ErrorKind::Exists => {
                return Err(Errno::EEXIST.because("there is a file system in the keyspace already").into());
            }
            result => result?,
        }
        transaction.write(keyspace, FORMAT, 0, VERSION).await?;
        transaction.create(keyspace, NUMBERS).await?;
        transaction.write(keyspace, NUMBERS, 0, FIRST_NUMBER.to_le_bytes()).await?;
        transaction.create(keyspace, crate::guest::GUESTS).await?;
        transaction.create(keyspace, orphans::ORPHANS).await?;
        let now = Timestamp::now();
        let root = Metadata {
            inode: root(),
            mode: 0o755,
            uid: 0,
            gid: 0,
            device: 0,
            links: 1,
            size: 0,
            data_size: 0,
            may_have_holes: false,
            cut: None,
            accessed: now,
            modified: now,
            changed: now,
            target: None,
            acl: None,
            leaving: None,
        };
        let mut cells = crate::cells::Cells::default();
        cells.add_inode(&root, None, listing::empty());
        cells.name(&root.inode.site, &root.inode, Some(&root.inode));
        cells.write(transaction, keyspace).await
    }

    /// The keyspace in which it is.
    pub fn keyspace(&self) -> &Keyspace {
        &self.inner.keyspace
    }

    /// The store in which it is.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The root directory.
    pub fn root(&self) -> Inode {
        if self.flat().is_some() {
            return Inode { site: Site::from_key(b""), ..root() };
        }
        root()
    }

    /// A number that no inode had before. The store is asked for many at once.
    pub(crate) async fn number(&self) -> Result<u64> {
        if let Some(number) = self.inner.numbers.lock().next() {
            return Ok(number);
        }
        let more = Transform::add(Operand::U64(NUMBERS_AT_ONCE));
        let Operand::U64(first) = self.keyspace().transform(NUMBERS, 0, more).await? else {
            return Err(damaged("the number of the next inode"));
        };
        let mut numbers = self.inner.numbers.lock();
        *numbers = first + 1..first.saturating_add(NUMBERS_AT_ONCE);
        Ok(first)
    }

    /// What is known of an inode now. Fails with [`Errno::ESTALE`] if it is no more.
    pub async fn metadata(&self, inode: &Inode) -> Result<Metadata> {
        if self.flat().is_some() {
            return self.flat_metadata(inode).await;
        }
        let stat = match self.keyspace().stat(&inode.site).await {
            Ok(stat) => stat,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
            Err(error) => return Err(error.into()),
        };
        let metadata = Metadata::decode(&inode.site, &stat.attributes, stat.size)?;
        let metadata = metadata.filter(|metadata| metadata.inode == *inode).ok_or_else(gone)?;
        Ok(self.counted(metadata).await)
    }

    /// The metadata and the whole content of a file at one moment. Fails with [`Errno::ESTALE`] if it is no more.
    pub(crate) async fn content(&self, inode: &Inode) -> Result<(Metadata, Vec<u8>)> {
        let blob = match self.keyspace().get(&inode.site).await {
            Ok(blob) => blob,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
            Err(error) => return Err(error.into()),
        };
        let metadata = Metadata::decode(&inode.site, &blob.stat.attributes, blob.stat.size)?;
        let metadata = metadata.filter(|metadata| metadata.inode == *inode).ok_or_else(gone)?;
        Ok((self.counted(metadata).await, blob.bytes))
    }

    /// For how long what is told from now on of the inode that lies at a site stays so, unless [`Filesystem::recalls`] tell that it is about to change.
    pub fn assured(&self, site: &Site) -> Duration {
        self.keyspace().assured(site)
    }

    /// What is taken back of what was told of inodes, if the store tells.
    pub fn recalls(&self) -> Option<Recalls> {
        self.store().recalls()
    }

    /// Where an inode lies that is told of, if it is one of this file system.
    pub fn site_of(&self, recall: &Recall) -> Option<Site> {
        recall.key_in(self.keyspace()).map(Site::from_key)
    }

    /// Has the commit refused unless the inode exists; when that has happened, refuses by itself.
    pub(crate) async fn require(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        again: bool,
    ) -> Result<(), Stop> {
        if self.flat().is_some() {
            return self.flat_require(transaction, inode, again).await;
        }
        let number = encode_number(inode);
        if !again {
            let check = Check::Attribute { name: NUMBER.to_owned(), value: Some(number) };
            transaction.check(self.keyspace(), &inode.site, check)?;
            return Ok(());
        }
        match self.attribute(transaction, inode, NUMBER).await? {
            Some(value) if value == number => Ok(()),
            _ => Err(gone().into()),
        }
    }

    /// An attribute of the blob in which an inode lies. Refuses if the blob is no more.
    pub(crate) async fn attribute(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        name: &str,
    ) -> Result<Option<Vec<u8>>, Stop> {
        match transaction.attribute(self.keyspace(), &inode.site, name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(gone().into()),
            result => Ok(result?),
        }
    }

    /// Notes in a directory what happened to its names. Nobody conflicts by that with others who do.
    pub(crate) async fn note(
        &self,
        transaction: &mut Transaction,
        directory: &Inode,
        records: Records,
        again: bool,
    ) -> Result<(), Stop> {
        if directory.kind != Kind::Directory {
            return Err(Errno::ENOTDIR.because("what is to have entries is no directory").into());
        }
        match self.require(transaction, directory, again).await {
            Err(Stop::Refused(error)) if error.errno() == Errno::ESTALE => {
                return Err(Errno::ENOENT.because("the directory was removed").into());
            }
            result => result?,
        }
        let (keyspace, site) = (self.keyspace(), &directory.site);
        transaction.append(keyspace, site, &records.bytes).await?;
        if records.more != 0 {
            let more = Transform::add(Operand::I64(records.more));
            transaction.transform(keyspace, site, 0, more).await?;
        }
        self.touch(transaction, directory, Timestamp::now()).await
    }

    /// Has the content of an inode count as changed now. What changes it comes before, so that the blob is known to exist.
    pub(crate) async fn touch(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let now = encode_time(now);
        // Without a time of its own, a flat file has changed when its content has.
        let changed = self.flat().is_none().then_some(now.as_slice());
        for (name, time) in [(MODIFIED, Some(now.as_slice())), (CHANGED, changed)] {
            transaction.set_attribute(self.keyspace(), &inode.site, name, time).await?;
        }
        Ok(())
    }

    /// An inode that a name was found to mean, from the cell of its site. What does not fit together is read again.
    pub(crate) fn meant<'a>(cell: &'a crate::cells::Cell, inode: &Inode) -> Result<&'a Metadata, Stop> {
        cell.held().filter(|metadata| metadata.inode == *inode).ok_or_else(changed)
    }
}

#[cold]
pub(crate) fn gone() -> crate::Error {
    Errno::ESTALE.because("the file is no more")
}

fn root() -> Inode {
    Inode { number: ROOT_NUMBER, kind: Kind::Directory, site: Site::root() }
}

/// The number of the root's inode, which every kernel takes for granted.
pub const ROOT_NUMBER: u64 = 1;
/// Numbers below are kept for what a mount shows that is not in the store.
const FIRST_NUMBER: u64 = 16;
/// How many numbers a client takes at once: few enough that 2^48 clients find some.
const NUMBERS_AT_ONCE: u64 = 1 << 16;
/// The blob that says what this keyspace holds.
pub(crate) const FORMAT: &str = "!format";
/// What it says.
const VERSION: &[u8] = b"tyr-fs 1\n";
/// The blob with the number that no inode has yet.
const NUMBERS: &str = "!numbers";

//! Strays: what lies elsewhere than at its name's own site, because it was renamed, and how it moves there.
//!
//! Renaming writes a staple ([`crate::rename`]). Whoever comes by one, because he has written it or looks up the name, remembers what it refers to, and if he is a
//! guest he moves it: the inode comes to lie at the name's own site, with all that belongs to it, and nobody sees that but by the site. What moves has one name, is no
//! directory, as what is in one lies below its site, and is not large. It is not open anywhere: who has a file open finds it by its site alone.
//!
//! The mover first sets a *mark* on the inode, a number that no other mark has, and where there are other guests it appends a record of that, a *departure*, to those of
//! orphans ([`crate::orphans`]). Who opens a file notes first that it is open, reads its metadata then, and takes a mark away that it finds there. Who reads the records
//! says up to where, and which of the inodes in them it has open. So a guest that has read of the mark and has said that it does not have
//! the inode open finds the mark, should it open it later. When all have said so, one transaction moves it, if the mark is still there, if no guest has come that was
//! not asked, and if all guests look for marks: those of earlier versions do not. A guest that
//! is alone moves it at once; it sets a mark all the same, for who opens the file while it is not known whether it has moved.
//!
//! A stray that cannot move now is tried again later, after twice as many beats each time. Strays are kept in memory: of one that is forgotten the next one who looks
//! it up remembers. A departure counts as long as its mover says that it waits; a mark that was left is taken away by who opens the file.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tyr_client::{ErrorKind, Seek, Transaction};

use crate::{
    canary::{Canary, planted},
    cells::{Cells, Piece},
    errno::{Errno, Result, Stop, changed},
    filesystem::{Filesystem, transact},
    guest::{Said, Talk},
    inode::{Inode, Kind, LEAVING, Metadata},
    orphans::{self, Orphans},
    rename::Named,
    site::Site,
    uses::Door,
    words::beats_until_all,
};

/// The strays that this client knows of, by their inodes' numbers.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    known: Mutex<BTreeMap<u64, Stray>>,
    /// Whoever moves some.
    turn: tokio::sync::Mutex<()>,
    /// How many were moved.
    moved: AtomicU64,
}

/// What lies elsewhere than at its name's own site.
#[derive(Clone, Debug)]
struct Stray {
    directory: Inode,
    name: Vec<u8>,
    inode: Inode,
    size: u64,
    state: State,
    /// How often it could not be moved.
    tries: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It is left alone for so many beats.
    Rests(u32),
    /// It has this mark, and guests have been waited for as many beats.
    Leaves { mark: u64, beats: u32 },
}

impl Strays {
    /// A name in a directory was found to mean what lies elsewhere.
    pub fn note(&self, named: Named<'_>, metadata: &Metadata) {
        let mut known = self.known.lock();
        let inode = &metadata.inode;
        if !may_move(metadata) {
            return;
        }
        let is_it = |stray: &Stray| {
            stray.inode == *inode && stray.directory == *named.directory && stray.name == named.name
        };
        // What could not be moved for long makes room.
        if known.len() >= STRAYS_MAX && !known.contains_key(&inode.number) {
            let oldest = known.values().filter(|stray| stray.tries > 1).max_by_key(|stray| stray.tries);
            match oldest.map(|stray| stray.inode.number) {
                Some(oldest) => drop(known.remove(&oldest)),
                None => return,
            }
        }
        if known.get(&inode.number).is_none_or(|stray| !is_it(stray)) {
            let (directory, name) = (named.directory.clone(), named.name.to_vec());
            let (inode, size, state) = (inode.clone(), metadata.data_size, State::Rests(0));
            known.insert(inode.number, Stray { directory, name, inode, size, state, tries: 0 });
        }
    }

    /// Whether a mark of this client's may still lead to something.
    pub fn awaits(&self, departure: Departure) -> bool {
        let known = self.known.lock();
        let is_it =
            |stray: &Stray| matches!(stray.state, State::Leaves { mark, .. } if mark == departure.mark);
        known.get(&departure.inode).is_some_and(is_it)
    }

    /// A beat has passed. Those of which something may be done now.
    fn beat(&self) -> Vec<Stray> {
        let mut due = Vec::new();
        for stray in self.known.lock().values_mut() {
            match &mut stray.state {
                State::Rests(beats @ 1..) => *beats -= 1,
                State::Rests(_) => due.push(stray.clone()),
                State::Leaves { beats, .. } => {
                    *beats += 1;
                    due.push(stray.clone());
                }
            }
        }
        due
    }

    /// What is to become of a stray, unless it has been renamed since.
    fn set(&self, stray: &Stray, next: Next) {
        let mut known = self.known.lock();
        let Some(now) = known.get_mut(&stray.inode.number) else { return };
        if now.inode != stray.inode || now.directory != stray.directory || now.name != stray.name {
            return;
        }
        match next {
            Next::Done => drop(known.remove(&stray.inode.number)),
            Next::Leaves(mark) => now.state = State::Leaves { mark, beats: 0 },
            Next::Waits => {}
            Next::Rests => {
                now.tries = now.tries.saturating_add(1);
                now.state = State::Rests(1 << now.tries.min(REST_MAX));
            }
        }
    }
}

/// What becomes of a stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is none any more, or none that moves.
    Done,
    /// It has this mark.
    Leaves(u64),
    /// Guests have to say more.
    Waits,
    /// It is tried again later.
    Rests,
}

/// A record of a mark, among those of orphans.
///
/// It looks as that of an inode with the number of the mark, whose site says the rest: clients of earlier versions look for what has no name there, and find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub mark: u64,
    /// The inode that has it.
    pub inode: u64,
    /// The guest that has set it.
    pub mover: u64,
}

impl Departure {
    fn encode(self) -> Inode {
        let site = format!("{DEPARTURES}{:x}/{:x}", self.inode, self.mover);
        Inode { number: self.mark, kind: Kind::File, site: Site::from_key(site.as_bytes()) }
    }

    /// What a record says, if it is one of a mark.
    pub fn decode(record: &Inode) -> Option<Self> {
        let rest = std::str::from_utf8(record.site.key()).ok()?.strip_prefix(DEPARTURES)?;
        let (inode, mover) = rest.split_once('/')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Departure { mark: record.number, inode: number(inode)?, mover: number(mover)? })
    }
}

impl Filesystem {
    /// How many files and other things this client has moved to their names.
    pub fn moved(&self) -> u64 {
        self.inner.strays.moved.load(Ordering::Relaxed)
    }

    /// Goes on with moving what lies elsewhere than at its name's own site, if this client is a guest, with what was recorded and said. That may be some time ago:
    /// who has let go of what has a mark finds the mark, and who came since was not asked.
    pub(crate) async fn move_strays(&self, Talk { me, orphans: records, said }: &Talk) -> Result<()> {
        let strays = &self.inner.strays;
        let Some(me) = *me else { return Ok(()) };
        // Whoever has the turn does it for all.
        let Ok(_turn) = strays.turn.try_lock() else { return Ok(()) };
        let (mut tries, mut bytes, mut failure) = (0, 0, Ok(()));
        for stray in strays.beat() {
            if tries == MOVED_AT_ONCE || bytes > BYTES_AT_ONCE {
                break;
            }
            let next = match self.go_on(me, &stray, records, said).await {
                Ok(next) => next,
                // It is named by nobody, or the directory is no more.
                Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => Next::Done,
                Err(error) => {
                    let is_away = error.errno() == Errno::EIO;
                    failure = Err(error);
                    if is_away {
                        strays.set(&stray, Next::Rests);
                        break;
                    }
                    Next::Rests
                }
            };
            if next != Next::Waits {
                tries += 1;
                bytes += stray.size;
            }
            strays.set(&stray, next);
        }
        failure
    }

    async fn go_on(&self, me: u64, stray: &Stray, records: &Orphans, said: &[Said]) -> Result<Next> {
        let asked: Vec<u64> = said.iter().map(|said| said.guest).collect();
        let mark = match stray.state {
            // Nobody else has to say anything.
            State::Rests(_) if asked == [me] => match self.mark(stray, None).await? {
                Next::Leaves(mark) => mark,
                next => return Ok(next),
            },
            State::Rests(_) => return self.mark(stray, Some(me)).await,
            State::Leaves { mark, beats } => {
                let record = records.records.iter().find(|(_, record)| record.number == mark);
                // Whether it is open here is seen when it moves.
                let others = || said.iter().filter(|said| said.guest != me);
                let is_let_go = |end| orphans::is_let_go(records, others(), end, mark);
                match record {
                    Some((end, _)) if is_let_go(*end) || planted(Canary::GuestsNotAsked) => {}
                    // What was said may be older than the record.
                    _ if beats < WAITED_MAX.saturating_add(beats_until_all(others().count())) => {
                        return Ok(Next::Waits);
                    }
                    _ => return self.unmark(stray, mark).await,
                }
                mark
            }
        };
        match self.bring_home(stray, mark, &asked).await? {
            Next::Rests => self.unmark(stray, mark).await,
            next => Ok(next),
        }
    }

    /// Sets a mark, and tells the other guests, if there are any, who has set it.
    async fn mark(&self, stray: &Stray, mover: Option<u64>) -> Result<Next> {
        if self.inner.uses.contains(stray.inode.number) {
            return Ok(Next::Rests);
        }
        let mark = self.number().await?;
        // Before the record is there, so that it is waited for from the beginning.
        self.inner.strays.set(stray, Next::Leaves(mark));
        let marked = transact!(self, |transaction, _again| self.try_mark(transaction, stray, mark, mover));
        Ok(marked.value)
    }

    async fn unmark(&self, stray: &Stray, mark: u64) -> Result<Next> {
        transact!(self, |transaction, _again| self.try_unmark(transaction, &stray.inode, Some(mark)));
        Ok(Next::Rests)
    }

    async fn try_mark(
        &self,
        transaction: &mut Transaction,
        stray: &Stray,
        mark: u64,
        mover: Option<u64>,
    ) -> Result<Next, Stop> {
        if self.heedful_guests_in(transaction).await?.is_none() {
            return Ok(Next::Rests);
        }
        let mut cells = Cells::default();
        match self.find(transaction, &mut cells, stray).await? {
            // Another guest is about to move it, if it is one still.
            Found::Stray(_, metadata) if metadata.leaving.is_some() && stray.tries < YIELDS => {
                return Ok(Next::Rests);
            }
            Found::Stray(..) => {}
            Found::InTheWay => return Ok(Next::Rests),
            Found::Nothing => return Ok(Next::Done),
        }
        let value = mark.to_le_bytes();
        transaction.set_attribute(self.keyspace(), &stray.inode.site, LEAVING, Some(&value)).await?;
        if let Some(mover) = mover {
            let departure = Departure { mark, inode: stray.inode.number, mover };
            orphans::note(transaction, self.keyspace(), &departure.encode()).await?;
        }
        Ok(Next::Leaves(mark))
    }

    /// Moves a stray that has this mark to its name's own site, if there are no guests but these.
    async fn bring_home(&self, stray: &Stray, mark: u64, asked: &[u64]) -> Result<Next> {
        let door = Door::default();
        let moving = async || {
            let moved = transact!(self, |transaction, _again| {
                self.try_bring_home(transaction, &door, stray, mark, asked)
            });
            Ok(moved.value)
        };
        let moved = moving().await;
        let (next, is_moved) = door.end(moved)?;
        if is_moved {
            self.inner.strays.moved.fetch_add(1, Ordering::Relaxed);
        }
        Ok(next)
    }

    async fn try_bring_home(
        &self,
        transaction: &mut Transaction,
        door: &Door,
        stray: &Stray,
        mark: u64,
        asked: &[u64],
    ) -> Result<(Next, bool), Stop> {
        door.begin();
        let guests = self.heedful_guests_in(transaction).await?;
        if !guests.is_some_and(|guests| guests.iter().all(|guest| asked.contains(guest))) {
            return Ok((Next::Rests, false));
        }
        let mut cells = Cells::default();
        let (own, metadata) = match self.find(transaction, &mut cells, stray).await? {
            Found::Stray(own, metadata) => (own, metadata),
            Found::InTheWay => return Ok((Next::Rests, false)),
            Found::Nothing => return Ok((Next::Done, false)),
        };
        let is_marked = metadata.leaving == Some(mark) || planted(Canary::MarkIgnored);
        // Somebody here may be about to open it.
        let Some(shut) = self.inner.uses.shut(stray.inode.number) else { return Ok((Next::Rests, false)) };
        door.hold(shut);
        let is_open = self.inner.uses.contains(stray.inode.number);
        let pieces = if is_marked && !is_open { self.pieces(&metadata).await? } else { None };
        let Some(pieces) = pieces else {
            door.begin();
            return Ok((Next::Rests, false));
        };
        let moved = Inode { site: own.clone(), ..stray.inode.clone() };
        cells.move_inode(&stray.inode.site, &own, pieces);
        cells.name(&own, &stray.directory, Some(&moved));
        cells.write(transaction, self.keyspace()).await?;
        Ok((Next::Done, true))
    }

    /// A stray, if it is one still that moves.
    async fn find(
        &self,
        transaction: &mut Transaction,
        cells: &mut Cells,
        stray: &Stray,
    ) -> Result<Found, Stop> {
        let found = cells.load_name(transaction, self.keyspace(), &stray.directory, &stray.name).await?;
        let own = match found {
            (own, Some(inode)) if inode == stray.inode && own != inode.site => own,
            _ => return Ok(Found::Nothing),
        };
        let cell = cells.load(transaction, self.keyspace(), &stray.inode.site).await?;
        let metadata = Box::new(Self::meant(cell, &stray.inode)?.clone());
        if !may_move(&metadata) {
            return Ok(Found::Nothing);
        }
        let is_free = cells.load(transaction, self.keyspace(), &own).await?.held().is_none();
        Ok(if is_free { Found::Stray(own, metadata) } else { Found::InTheWay })
    }

    /// Where in a file data lies, and where holes do, as far as that is known; whether the holes are empty is certain only for who reads them. `None` if it is too many
    /// pieces.
    async fn pieces(&self, metadata: &Metadata) -> Result<Option<Vec<Piece>>, Stop> {
        // Of a symbolic link it is nothing.
        let size = if metadata.target.is_some() { 0 } else { metadata.size };
        let mut pieces = Vec::new();
        if size > 0 && !metadata.may_have_holes {
            return Ok(Some(vec![Piece::Data(0..size)]));
        }
        let site = &metadata.inode.site;
        let mut at = 0;
        while at < size {
            if pieces.len() >= PIECES_MAX {
                return Ok(None);
            }
            let seek = async |what, from| match self.keyspace().seek(site, what, from).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Err(changed()),
                found => Ok(found?.map_or(size, |found| found.min(size))),
            };
            let data = seek(Seek::Data, at).await?;
            if data > at {
                pieces.push(Piece::Hole(at..data));
            }
            at = if data < size { seek(Seek::Hole, data).await? } else { size };
            // It may be cut meanwhile.
            if data >= at && data < size {
                return Err(changed());
            }
            if data < at && data < size {
                pieces.push(Piece::Data(data..at));
            }
        }
        Ok(Some(pieces))
    }

    /// Has an inode that is about to move stay where it lies, for who has noted here that it is open.
    ///
    /// If it is in doubt whether a commit is under way that takes the inode away, it gets a mark that is nobody's, and that no other has: what has read how the inode
    /// was is refused then.
    pub(crate) async fn stay(&self, inode: &Inode) -> Result<()> {
        if self.inner.uses.is_doubted(inode.number) {
            let mark = self.number().await?;
            transact!(self, |transaction, _again| self.try_stay(transaction, inode, mark));
            self.inner.uses.trust(inode.number);
            return Ok(());
        }
        transact!(self, |transaction, _again| self.try_unmark(transaction, inode, None));
        Ok(())
    }

    async fn try_stay(&self, transaction: &mut Transaction, inode: &Inode, mark: u64) -> Result<(), Stop> {
        self.require(transaction, inode, true).await?;
        let mark = mark.to_le_bytes();
        transaction.set_attribute(self.keyspace(), &inode.site, LEAVING, Some(&mark)).await?;
        Ok(())
    }

    /// Takes a mark from an inode, this one if one is given. Without one it refuses if the inode is no more.
    async fn try_unmark(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        mark: Option<u64>,
    ) -> Result<(), Stop> {
        match self.require(transaction, inode, true).await {
            Err(Stop::Refused(_)) if mark.is_some() => return Ok(()),
            result => result?,
        }
        let now = self.attribute(transaction, inode, LEAVING).await?;
        if now.is_some() && mark.is_none_or(|mark| now.as_deref() == Some(&mark.to_le_bytes())) {
            transaction.set_attribute(self.keyspace(), &inode.site, LEAVING, None).await?;
        }
        Ok(())
    }
}

/// What a stray is now.
enum Found {
    /// One, with its name's own site, at which nothing lies.
    Stray(Site, Box<Metadata>),
    /// One, and something lies at its name's own site.
    InTheWay,
    /// None that moves.
    Nothing,
}

/// Whether anything of this kind moves.
fn may_move(metadata: &Metadata) -> bool {
    metadata.inode.kind != Kind::Directory && metadata.links == 1 && metadata.size <= MOVED_MAX
}

/// The largest file that moves, in bytes. What is larger is seldom renamed often, and what a lookup costs is little beside reading it.
const MOVED_MAX: u64 = 4 << 20;
/// A file of more pieces of data and holes does not move.
const PIECES_MAX: usize = 64;
/// What a client does for strays at each beat, which must not be late: so many transactions,
const MOVED_AT_ONCE: usize = 16;
/// which move about so many bytes.
const BYTES_AT_ONCE: u64 = 16 << 20;
/// A client knows as many strays at the most.
const STRAYS_MAX: usize = 4096;
/// So many beats guests are waited for that have the file open, or say nothing, after all were heard.
const WAITED_MAX: u32 = 8;
/// So often a mark of somebody else is left alone.
const YIELDS: u32 = 2;
/// It is left alone for two to the power of so many beats at the most, an hour.
const REST_MAX: u32 = 12;
/// What the sites begin with by which records of marks are known.
const DEPARTURES: &str = "!leaving/";

#[cfg(test)]
mod tests;

//! Guests: the clients that have files open, as they see one another.
//!
//! A client becomes a guest before it opens its first file or takes its first lock. It keeps a blob, in which it says every second that it
//! is still there and which orphans it holds open ([`crate::orphans`]). Another guest that has seen no change there for
//! [`PATIENCE`] of its own clock's time removes it: its open files and its locks are void from then on, and it learns so before it believes
//! anything that it has read from them, and before it changes them. No two clocks are compared.
//!
//! To say that it is there, and to find out whether it still is one, a guest needs no blob but its own: what others have said it hears at another time,
//! and of one whose blob cannot be read now it has heard nothing.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tyr_client::{Check, ErrorKind, Transaction};

use crate::{
    errno::{Errno, Error, Result, Stop},
    filesystem::{Filesystem, Inner, gone, transact},
    inode::Inode,
    orphans::Orphans,
    strays::Departure,
    words::Words,
};

/// What this client is as a guest.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    state: Mutex<State>,
    joining: tokio::sync::Mutex<()>,
    /// Held by who says for what an owner waits.
    pub saying: tokio::sync::Mutex<()>,
    bell: Arc<Bell>,
    /// Whether who uses this tends, not a thread.
    is_tended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    me: Option<Me>,
    /// When it was last found that this client may not write, and so cannot be one.
    denied: Option<Instant>,
    beats: u64,
    /// What this guest says of orphans and departures. That stays true, so it is said again until there is something newer.
    seen: Seen,
    /// As much of that as takes no more room than what it said last.
    short: Seen,
    /// How many bytes that had.
    said_size: usize,
    /// What others have said.
    words: Words,
    /// What was recorded last, until the thread that listens takes it.
    records: Option<Talk>,
    /// What was said last, until the thread that acts on it takes it.
    talk: Option<Talk>,
    /// Which of the threads were begun.
    has_begun: [bool; 3],
    /// Where the records end of which this client knows that what they are of is deleted, and in which round.
    deleted: (u64, BTreeSet<u64>),
}

#[derive(Clone, Copy, Debug)]
struct Me {
    number: u64,
    /// When the last beat began that was heard, by the [clock](now) that goes on while the machine sleeps: the others do not wait for it.
    heard: Duration,
}

/// Ends the thread.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

/// What a guest says of orphans and departures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How often it has said something; two words with the same are one.
    pub beat: u64,
    /// The round of the records that it has read.
    pub round: u64,
    /// Up to where.
    pub until: u64,
    /// Those that it holds open, by their inodes' numbers.
    pub held: BTreeSet<u64>,
}

/// What was recorded at a moment, and what the guests said then.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    /// The number of this client, if it is a guest.
    pub me: Option<u64>,
    pub orphans: Orphans,
    pub said: Vec<Said>,
}

/// What was found where a guest says something.
enum Word {
    Said(Vec<u8>),
    /// It is none any more.
    Gone,
    /// Nothing is known: it cannot be read now.
    Unheard,
}

/// What a guest has said.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// Its number.
    pub guest: u64,
    pub seen: Seen,
}

impl Seen {
    /// With zeros to a multiple of some words: what is not longer than before is written also when there is no room.
    fn encode(&self) -> Vec<u8> {
        let words = [self.beat, self.round, self.until].into_iter().chain(self.held.iter().copied());
        let mut words: Vec<u64> = words.collect();
        words.resize(words.len().next_multiple_of(SAID_WORDS), 0);
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// How many orphans and departures can be said to be held in so many bytes.
    fn held_max(size: usize) -> usize {
        (size / 8).saturating_sub(3)
    }

    fn decode(bytes: &[u8]) -> Seen {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(*word.first_chunk::<8>().expect("chunks have eight bytes")));
        let mut next = || words.next().unwrap_or(0);
        let (beat, round, until) = (next(), next(), next());
        Seen { beat, round, until, held: words.filter(|inode| *inode != 0).collect() }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        *self.bell.rung.lock() = true;
        self.bell.condition.notify_all();
    }
}

impl Filesystem {
    /// Starts no thread: the caller calls [`Filesystem::tend`] every second from when it opens the first file.
    pub fn tended_by_caller(self) -> Filesystem {
        self.inner.guest.is_tended.store(true, Ordering::Relaxed);
        self
    }

    /// Becomes a guest if this client is none, and returns its number as one.
    pub(crate) async fn join(&self) -> Result<u64> {
        if self.flat().is_some() {
            return Ok(0);
        }
        let guest = &self.inner.guest;
        if let Some(me) = guest.state.lock().me {
            return Ok(me.number);
        }
        let _joining = guest.joining.lock().await;
        if let Some(me) = guest.state.lock().me {
            return Ok(me.number);
        }
        let (began, asked) = (now(), Instant::now());
        let entering = async {
            let number = self.number().await?;
            transact!(self, |transaction, _again| self.try_join(transaction, number));
            Ok(number)
        };
        let entered: Result<u64> = entering.await;
        let is_denied = entered.as_ref().is_err_and(|error| keeps_out(error.errno()));
        guest.state.lock().denied = is_denied.then_some(asked);
        let number = entered.map_err(no_room)?;
        if !guest.is_tended.load(Ordering::Relaxed) {
            self.begin(0, "tyr-fs-guest", async |filesystem| drop(filesystem.say().await))?;
            self.begin(1, "tyr-fs-listener", async |filesystem| drop(filesystem.hear().await))?;
            self.begin(2, "tyr-fs-mover", async |filesystem| drop(filesystem.act().await))?;
        }
        let mut state = guest.state.lock();
        state.me = Some(Me { number, heard: began });
        (state.seen, state.short) = (Seen::default(), Seen::default());
        state.said_size = SAID_LEAST;
        Ok(number)
    }

    /// Whether it is known that this client cannot be a guest because it may not write, or there is no room. It is not asked each time that it opens a file; it may be
    /// one later.
    pub(crate) fn was_denied_lately(&self) -> bool {
        self.inner.guest.state.lock().denied.is_some_and(|denied| denied.elapsed() < PATIENCE)
    }

    /// Begins a thread, unless it was begun, that does something every second until this file system is dropped. What does not work now is tried again soon; who uses
    /// what is void is told.
    fn begin(&self, place: usize, name: &str, work: impl AsyncFn(Filesystem) + Send + 'static) -> Result<()> {
        let mut state = self.inner.guest.state.lock();
        if state.has_begun[place] {
            return Ok(());
        }
        let (inner, bell) = (Arc::downgrade(&self.inner), self.inner.guest.bell.clone());
        let thread = thread::Builder::new().name(name.to_owned());
        let begun = thread.spawn(move || each_beat(&inner, &bell, work));
        begun.map_err(|error| Errno::EAGAIN.because(format!("no thread: {error}")))?;
        state.has_begun[place] = true;
        Ok(())
    }

    async fn try_join(&self, transaction: &mut Transaction, number: u64) -> Result<(), Stop> {
        transaction.set_attribute(self.keyspace(), GUESTS, &name(number), Some(HEEDS_MARKS)).await?;
        transaction.create(self.keyspace(), key(number)).await?;
        transaction
            .set_attribute(self.keyspace(), key(number), SEEN, Some(&Seen::default().encode()))
            .await?;
        Ok(())
    }

    /// Stops being a guest. What is open is void; what only was kept open goes when somebody looks next.
    pub async fn leave(&self) -> Result<()> {
        let me = self.inner.guest.state.lock().me.take();
        match me {
            None => Ok(()),
            Some(me) => self.evict(me.number, None).await,
        }
    }

    /// All guests that there are.
    pub async fn guests(&self) -> Result<Vec<u64>> {
        if self.flat().is_some() {
            return Ok(Vec::new());
        }
        let stat = self.keyspace().stat(GUESTS).await?;
        Ok(numbers(stat.attributes.iter().map(|(name, _)| name)))
    }

    /// All guests that there are when the transaction commits.
    pub(crate) async fn guests_in(&self, transaction: &mut Transaction) -> Result<Vec<u64>, Stop> {
        let stat = transaction.stat(self.keyspace(), GUESTS).await?;
        Ok(numbers(stat.attributes.iter().map(|(name, _)| name)))
    }

    /// All guests that there are when the transaction commits, if each of them takes the marks of files away that it opens.
    pub(crate) async fn heedful_guests_in(
        &self,
        transaction: &mut Transaction,
    ) -> Result<Option<Vec<u64>>, Stop> {
        let stat = transaction.stat(self.keyspace(), GUESTS).await?;
        let guests = numbers(stat.attributes.iter().map(|(name, _)| name));
        let heeds_marks = |guest: &u64| stat.attributes.value(&name(*guest)) == Some(HEEDS_MARKS);
        Ok(guests.iter().all(heeds_marks).then_some(guests))
    }

    /// Whether anybody may have an inode open whose gate is shut here.
    pub(crate) async fn may_be_open(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
    ) -> Result<bool, Stop> {
        let me = self.inner.guest.state.lock().me.map(|me| me.number);
        let guests = self.guests_in(transaction).await?;
        Ok(guests.iter().any(|guest| Some(*guest) != me) || self.inner.uses.contains(inode.number))
    }

    /// Does once what a guest's thread does every second: says that it is there, removes guests that have said nothing for so long,
    /// deletes orphans that nobody has open, and moves to their names what was renamed and nobody has open.
    pub async fn tend(&self, patience: Duration) -> Result<()> {
        if self.flat().is_some() {
            return Ok(());
        }
        let talk = self.speak(patience).await?;
        self.act_on(&talk).await
    }

    async fn act_on(&self, talk: &Talk) -> Result<()> {
        self.collect(talk).await?;
        self.move_strays(talk).await
    }

    /// What one thread does every second: whoever says nothing for too long is removed, so it waits for nobody else.
    async fn say(&self) -> Result<()> {
        let records = self.look_and_beat().await?;
        self.inner.guest.state.lock().records = Some(records);
        Ok(())
    }

    /// What another thread does every second: whose words it waits for in vain does not keep this guest from saying something.
    async fn hear(&self) -> Result<()> {
        let (records, me) = {
            let mut state = self.inner.guest.state.lock();
            (state.records.take(), state.me.map(|me| me.number))
        };
        let said = self.listen(records.as_ref().map_or(me, |records| records.me), PATIENCE).await?;
        if let Some(mut talk) = records {
            talk.said.extend(said);
            self.inner.guest.state.lock().talk = Some(talk);
        }
        Ok(())
    }

    /// What a third thread does, by what was said last, and takes its time.
    async fn act(&self) -> Result<()> {
        let talk = self.inner.guest.state.lock().talk.take();
        match talk {
            Some(talk) => self.act_on(&talk).await,
            None => Ok(()),
        }
    }

    /// Says that this guest is there, hears [some others](Words::turn), and removes those that have said nothing for so long.
    pub(crate) async fn speak(&self, patience: Duration) -> Result<Talk> {
        let mut talk = self.look_and_beat().await?;
        talk.said.extend(self.listen(talk.me, patience).await?);
        Ok(talk)
    }

    /// Reads what is recorded, and says that this guest is there; with what it said before, if that cannot be read now.
    async fn look_and_beat(&self) -> Result<Talk> {
        let looked = self.look().await;
        let me = self.inner.guest.state.lock().me;
        if let Some(me) = me {
            self.beat(me.number).await?;
        }
        looked
    }

    /// Reads what is recorded, and notes what this guest has to say of it.
    async fn look(&self) -> Result<Talk> {
        let orphans = self.orphans(&self.keyspace().within(LOOKED_MAX)).await?;
        let me = self.inner.guest.state.lock().me.map(|me| me.number);
        let mut said = Vec::new();
        if let Some(me) = me {
            let said_size = self.inner.guest.state.lock().said_size;
            let seen = self.seen(me, &orphans, HELD_MAX);
            let short = match Seen::held_max(said_size) {
                most if seen.held.len() > most => self.seen(me, &orphans, most),
                _ => seen.clone(),
            };
            let mut state = self.inner.guest.state.lock();
            if state.me.is_some_and(|now| now.number == me) {
                (state.seen, state.short) = (seen.clone(), short);
            }
            said.push(Said { guest: me, seen });
        }
        Ok(Talk { me, orphans, said })
    }

    /// Hears some others than `me`, removes those that have said nothing for so long, and returns what each of them all has said last.
    async fn listen(&self, me: Option<u64>, patience: Duration) -> Result<Vec<Said>> {
        let mut others = self.guests().await?;
        others.sort_unstable();
        let turn = self.inner.guest.state.lock().words.turn(me, &others);
        others.retain(|guest| Some(*guest) != me);
        let mut silent = Vec::new();
        for (guest, word) in self.words_of(&turn).await {
            match word {
                Word::Said(value) => {
                    let words = &mut self.inner.guest.state.lock().words;
                    if words.hear(guest, Seen::decode(&value), Instant::now(), patience) {
                        silent.push((guest, value));
                    }
                }
                Word::Gone => others.retain(|other| *other != guest),
                Word::Unheard => {}
            }
        }
        for (guest, value) in silent {
            self.evict(guest, Some(&value)).await?;
            others.retain(|other| *other != guest);
        }
        Ok(self.inner.guest.state.lock().words.said(others))
    }

    /// Reads what guests say now, each by itself, all at once.
    async fn words_of(&self, guests: &[u64]) -> Vec<(u64, Word)> {
        let keyspace = self.keyspace().within(HEARD_MAX);
        let word = async |guest: u64| match keyspace.stat(key(guest)).await {
            Ok(stat) => Word::Said(stat.attributes.value(SEEN).unwrap_or_default().to_vec()),
            // It may have left in between.
            Err(error) if error.kind() == ErrorKind::NotFound => Word::Gone,
            Err(_) => Word::Unheard,
        };
        let words = all(guests.iter().map(|guest| word(*guest))).await;
        guests.iter().copied().zip(words).collect()
    }

    /// What this guest has to say of what is recorded, if it can say of so many that it holds them.
    fn seen(&self, me: u64, orphans: &Orphans, most: usize) -> Seen {
        let (until, held) = self.held(me, orphans, most);
        Seen { beat: 0, round: orphans.round, until, held }
    }

    /// Of what is recorded, that which is open here, and departures that this guest waits for; up to where there is room to say so, of so many. It says nothing of what
    /// is recorded after that, which waits.
    fn held(&self, me: u64, orphans: &Orphans, most: usize) -> (u64, BTreeSet<u64>) {
        let is_held = |record: &Inode| match Departure::decode(record) {
            Some(departure) if departure.mover == me => self.inner.strays.awaits(departure),
            Some(departure) => self.inner.uses.contains(departure.inode),
            None => self.inner.uses.contains(record.number),
        };
        let (mut until, mut held) = (0, BTreeSet::new());
        for (end, record) in &orphans.records {
            if is_held(record) {
                if held.len() == most {
                    return (until, held);
                }
                held.insert(record.number);
            }
            until = *end;
        }
        (orphans.end, held)
    }

    /// Whether it is known here that what a record is of is deleted.
    pub(crate) fn is_deleted(&self, round: u64, end: u64) -> bool {
        let state = self.inner.guest.state.lock();
        state.deleted.0 == round && state.deleted.1.contains(&end)
    }

    /// What a record is of is deleted.
    pub(crate) fn note_deleted(&self, round: u64, end: u64) {
        let deleted = &mut self.inner.guest.state.lock().deleted;
        if deleted.0 != round {
            *deleted = (round, BTreeSet::new());
        }
        deleted.1.insert(end);
    }

    /// Removes all guests but this client: for who knows that there can be no others, as where a directory's store is open once only.
    pub async fn evict_others(&self) -> Result<()> {
        if self.flat().is_some() {
            return Ok(());
        }
        let me = self.inner.guest.state.lock().me.map(|me| me.number);
        for guest in self.guests().await?.into_iter().filter(|guest| Some(*guest) != me) {
            self.evict(guest, None).await?;
        }
        self.tend(PATIENCE).await
    }

    /// Says that this guest is there, and what it has to say; where there is no room for that, as much as takes no more than what it said last: whoever says nothing is taken for
    /// dead. Fails with [`Errno::ESTALE`] if it is none any more.
    async fn beat(&self, number: u64) -> Result<()> {
        let (whole, short) = {
            let mut state = self.inner.guest.state.lock();
            state.beats += 1;
            let value = |seen: &Seen| Seen { beat: state.beats, ..seen.clone() }.encode();
            (value(&state.seen), value(&state.short))
        };
        let began = now();
        let (mut told, mut said_size) = (self.tell(number, &whole).await, whole.len());
        // The store is full, or what waits for locks has filled the blob.
        let has_no_room =
            |error: &tyr_client::Error| matches!(error.kind(), ErrorKind::Full | ErrorKind::Invalid);
        if short.len() < whole.len() && told.as_ref().is_err_and(has_no_room) {
            (told, said_size) = (self.tell(number, &short).await, short.len());
        }
        let mut state = self.inner.guest.state.lock();
        match told {
            Ok(()) => {
                let state = &mut *state;
                if let Some(me) = state.me.as_mut().filter(|me| me.number == number) {
                    me.heard = me.heard.max(began);
                    state.said_size = said_size;
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                state.me.take_if(|me| me.number == number);
                Err(gone())
            }
            Err(error) => {
                if has_no_room(&error) {
                    // Another beat, at the same time, may have said less.
                    state.said_size = SAID_LEAST;
                }
                Err(error.into())
            }
        }
    }

    async fn tell(&self, number: u64, value: &[u8]) -> tyr_client::Result<()> {
        self.keyspace().set_attribute(key(number), SEEN, Some(value)).await
    }

    /// Fails with [`Errno::ESTALE`] if this client is not the guest any more that it was.
    ///
    /// What was read before this is called was read while it was that guest.
    pub(crate) async fn confirm(&self, number: u64) -> Result<()> {
        if self.is_surely_guest(number)? {
            return Ok(());
        }
        self.beat(number).await?;
        let me = self.inner.guest.state.lock().me;
        me.filter(|me| me.number == number).map(drop).ok_or_else(gone)
    }

    /// Has the commit refused unless this client is the guest then that it was; when that has happened, refuses by itself. As long as it is certain
    /// without asking that nobody has removed it, nothing is asked: what is not committed by half of [`PATIENCE`] later is committed all the same.
    pub(crate) async fn require_guest(
        &self,
        transaction: &mut Transaction,
        number: u64,
        again: bool,
    ) -> Result<(), Stop> {
        if self.is_surely_guest(number)? {
            return Ok(());
        }
        if !again {
            transaction.check(self.keyspace(), key(number), Check::Exists)?;
            return Ok(());
        }
        if transaction.exists(self.keyspace(), key(number)).await? {
            return Ok(());
        }
        // No guest ever comes back.
        self.inner.guest.state.lock().me.take_if(|me| me.number == number);
        Err(gone().into())
    }

    /// Whether this client is the guest still that it was, as far as that is certain without asking. Fails if it is certain that it is not.
    pub(crate) fn is_surely_guest(&self, number: u64) -> Result<bool> {
        if self.flat().is_some() {
            return Ok(true);
        }
        let me = self.inner.guest.state.lock().me;
        let me = me.filter(|me| me.number == number).ok_or_else(gone)?;
        // Nobody removes it before `PATIENCE` after that; half of it leaves room for clocks that do not run alike.
        Ok(now().saturating_sub(me.heard) < PATIENCE / 2)
    }

    /// Removes a guest; if `said` is given, only if it has said nothing else since.
    async fn evict(&self, guest: u64, said: Option<&[u8]>) -> Result<()> {
        transact!(self, |transaction, _again| self.try_evict(transaction, guest, said));
        self.inner.guest.state.lock().words.forget(guest);
        Ok(())
    }

    async fn try_evict(
        &self,
        transaction: &mut Transaction,
        guest: u64,
        said: Option<&[u8]>,
    ) -> Result<(), Stop> {
        let value = match transaction.attribute(self.keyspace(), key(guest), SEEN).await {
            Ok(value) => value,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if said.is_none_or(|said| value.as_deref() == Some(said)) {
            transaction.delete(self.keyspace(), key(guest)).await?;
            transaction.set_attribute(self.keyspace(), GUESTS, &name(guest), None).await?;
        }
        Ok(())
    }
}

/// The time since the machine was started, with that in which it slept.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// What a thread of a guest does until its file system is dropped.
fn each_beat(inner: &Weak<Inner>, bell: &Bell, work: impl AsyncFn(Filesystem)) {
    loop {
        let mut rung = bell.rung.lock();
        if !*rung {
            bell.condition.wait_for(&mut rung, BEAT);
        }
        if *rung {
            return;
        }
        drop(rung);
        let Some(inner) = inner.upgrade() else { return };
        pollster::block_on(work(Filesystem { inner }));
    }
}

/// Runs futures at once, in the order of their results.
async fn all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().filter(|(_, result)| result.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *result = Some(value);
            }
        }
        match futures.iter().all(|(_, result)| result.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, result)| result).collect()
}

/// Whether who cannot become a guest for this reason may read all the same.
pub fn keeps_out(errno: Errno) -> bool {
    matches!(errno, Errno::EACCES | Errno::ENOSPC)
}

/// What is invalid about one more guest is that it does not fit the blob that names them.
fn no_room(error: Error) -> Error {
    match error.errno() {
        Errno::EINVAL => Errno::ENFILE.because(
            "so many clients have files or locks of the file system that one more cannot be noted; have some of them close theirs",
        ),
        _ => error,
    }
}

fn numbers<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u64> {
    names.filter_map(|name| u64::from_str_radix(name, 16).ok()).collect()
}

fn name(guest: u64) -> String {
    format!("{guest:x}")
}

/// The blob of a guest.
pub(crate) fn key(guest: u64) -> String {
    format!("!guest/{guest:x}")
}

/// How often a guest says that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// Records that cannot be read for so long are looked at with the next beat.
const LOOKED_MAX: Duration = Duration::from_secs(2);
/// A guest whose word cannot be read for so long is not heard this time. Those of the others are to be read often enough to know that they say nothing
/// ([`crate::silence`]).
const HEARD_MAX: Duration = Duration::from_secs(1);
/// After so long without a word a guest is removed.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// The blob whose attributes name the guests.
pub(crate) const GUESTS: &str = "!guests";
/// The value of a guest's attribute there if it takes away marks ([`crate::strays`]): those of earlier versions have an empty one.
const HEEDS_MARKS: &[u8] = b"m";
/// A guest says of so many orphans and departures that it holds them: eight bytes each, where all attributes of a blob have 64 KiB.
const HELD_MAX: usize = 4096;
/// What a guest says has so many words of eight bytes, or a multiple of that.
const SAID_WORDS: usize = 64;
/// The fewest bytes that a guest says.
const SAID_LEAST: usize = 8 * SAID_WORDS;
/// What a guest says, as an attribute of its blob.
const SEEN: &str = "seen";

#[cfg(test)]
mod tests;

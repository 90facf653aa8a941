//! Who waits for locks through this mount.
//!
//! Those who wait for locks of one inode stand in a queue, and one of them at a time asks the store, for all: a lock is a change of one small blob, and of many who
//! try that at once all but one try in vain. Of two who could have it the one that came first has it. Nobody waits for who only stands before him: so what an
//! owner waits for is what the store says, by which it is found who would wait for ever.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tyr_fs::{Errno, Lock, Owner, Result};

/// Those who wait, by inodes.
#[derive(Debug, Default)]
pub struct Waiting {
    inodes: Mutex<HashMap<u64, Queue>>,
}

/// Those who wait for locks of one inode.
#[derive(Debug)]
struct Queue {
    /// In the order in which they came.
    waiters: BTreeMap<u64, Waiter>,
    /// The place of the next one.
    next: u64,
    /// Who is asking the store.
    asks: Option<u64>,
    /// Whether somebody came, or locks of it were given up here, since that began.
    has_changed: bool,
    /// When to ask again if nothing changes, and how long after that.
    due: Instant,
    pause: Duration,
}

#[derive(Debug)]
struct Waiter {
    owner: Owner,
    lock: Lock,
    state: State,
    /// Whether it was found that somebody is in its way.
    was_refused: bool,
    /// Whether the store was told what it waits for.
    is_said: bool,
    /// Whether its thread has nothing to do but wait.
    is_idle: bool,
    condvar: Arc<Condvar>,
}

#[derive(Debug)]
enum State {
    Waits,
    /// The store is being asked.
    Asked,
    Ended(Result<()>),
}

/// One that waits, until it is dropped.
#[derive(Debug)]
pub struct Place<'a> {
    all: &'a Waiting,
    inode: u64,
    number: u64,
}

/// What the thread of one that waits has to do next.
#[derive(Debug)]
pub enum Step {
    /// To ask the store for these, and [tell](Place::tell) all what comes of it.
    Ask(Asked),
    /// To tell the store for what this one waits, and [say so](Place::said).
    Say,
    /// Nothing: the wait is over.
    End(Result<()>),
}

/// Whom the store is asked for.
#[derive(Debug)]
pub struct Asked {
    numbers: Vec<u64>,
    /// What they want, who came first before the others.
    pub wanted: Vec<(Owner, Lock)>,
}

impl Waiting {
    /// Somebody waits for a lock from now on, after all who did before.
    pub fn begin(&self, inode: u64, owner: Owner, lock: Lock) -> Place<'_> {
        let mut inodes = self.inodes.lock();
        let queue = inodes.entry(inode).or_insert_with(Queue::new);
        let number = queue.next;
        queue.next += 1;
        let waiter = Waiter {
            owner,
            lock,
            state: State::Waits,
            was_refused: false,
            is_said: false,
            is_idle: false,
            condvar: Arc::default(),
        };
        queue.waiters.insert(number, waiter);
        queue.has_changed = true;
        Place { all: self, inode, number }
    }

    /// Locks of an inode were given up here.
    pub fn wake(&self, inode: u64) {
        if let Some(queue) = self.inodes.lock().get_mut(&inode) {
            queue.has_changed = true;
            queue.wake_one();
        }
    }
}

impl Queue {
    fn new() -> Self {
        Queue {
            waiters: BTreeMap::new(),
            next: 0,
            asks: None,
            has_changed: false,
            due: Instant::now(),
            pause: PAUSE_MIN,
        }
    }

    /// Has somebody look whether there is something to ask.
    fn wake_one(&self) {
        self.waiters.values().find(|waiter| waiter.is_idle).into_iter().for_each(|waiter| {
            waiter.condvar.notify_all();
        });
    }

    fn is_first_idle(&self, number: u64) -> bool {
        self.waiters.iter().find(|(_, waiter)| waiter.is_idle).is_none_or(|(first, _)| *first >= number)
    }

    /// What is to be done by one that waits, if anything is. Nobody leaves whom the store is being asked for: he may have the lock by now.
    fn step(&mut self, number: u64, is_over: bool) -> Option<Step> {
        let waiter = self.waiters.get_mut(&number)?;
        match &waiter.state {
            State::Ended(result) => {
                let result = result.clone();
                self.waiters.remove(&number);
                return Some(Step::End(result));
            }
            State::Waits if is_over && waiter.was_refused => {
                self.waiters.remove(&number);
                return Some(Step::End(Err(Errno::EINTR.because("the wait for a lock was interrupted"))));
            }
            _ if waiter.was_refused && !waiter.is_said => return Some(Step::Say),
            State::Asked => return None,
            State::Waits => {}
        }
        if self.asks.is_some() || !self.has_changed && Instant::now() < self.due {
            return None;
        }
        (self.asks, self.has_changed) = (Some(number), false);
        let mut asked = Asked { numbers: Vec::new(), wanted: Vec::new() };
        for (number, waiter) in &mut self.waiters {
            if matches!(waiter.state, State::Waits) {
                waiter.state = State::Asked;
                asked.numbers.push(*number);
                asked.wanted.push((waiter.owner, waiter.lock));
            }
        }
        Some(Step::Ask(asked))
    }

    fn tell(&mut self, number: u64, result: Result<()>) {
        let Some(waiter) = self.waiters.get_mut(&number) else { return };
        waiter.state = match result {
            Err(error) if error.errno() == Errno::EAGAIN => {
                waiter.was_refused = true;
                State::Waits
            }
            result => State::Ended(result),
        };
        if matches!(waiter.state, State::Ended(_)) || !waiter.is_said {
            waiter.condvar.notify_all();
        }
    }
}

impl Place<'_> {
    /// Waits until there is something to do; whether nobody waits for the lock any more is asked now and then.
    pub fn next(&self, is_over: impl Fn() -> bool) -> Step {
        loop {
            // Not under the lock: it may read a file.
            let is_over = is_over();
            let mut inodes = self.all.inodes.lock();
            let ended = || Step::End(Err(Errno::EINTR.because("the wait for a lock is over")));
            let Some(queue) = inodes.get_mut(&self.inode) else { return ended() };
            let step = queue.step(self.number, is_over);
            let Some(waiter) = queue.waiters.get_mut(&self.number) else {
                return step.unwrap_or_else(ended);
            };
            waiter.is_idle = step.is_none();
            let condvar = waiter.condvar.clone();
            if let Some(step) = step {
                return step;
            }
            let mut pause = PAUSE_MAX;
            if queue.asks.is_none() && queue.is_first_idle(self.number) {
                pause = pause.min(queue.due.saturating_duration_since(Instant::now()));
            }
            condvar.wait_for(&mut inodes, pause);
            let waiter = inodes.get_mut(&self.inode).and_then(|queue| queue.waiters.get_mut(&self.number));
            waiter.into_iter().for_each(|waiter| waiter.is_idle = false);
        }
    }

    /// What came of it when the store was asked.
    pub fn tell(&self, asked: Asked, results: Result<Vec<Result<()>>>) {
        let mut inodes = self.all.inodes.lock();
        let Some(queue) = inodes.get_mut(&self.inode) else { return };
        let results = results.unwrap_or_else(|error| vec![Err(error); asked.numbers.len()]);
        let somebody_has_it = results.iter().any(Result::is_ok);
        for (number, result) in asked.numbers.into_iter().zip(results) {
            queue.tell(number, result);
        }
        queue.pause = match somebody_has_it || queue.has_changed {
            true => PAUSE_MIN,
            false => (queue.pause * 2).min(PAUSE_MAX),
        };
        (queue.asks, queue.due) = (None, Instant::now() + queue.pause);
        queue.wake_one();
    }

    /// The store was told for what this one waits; if that could not be done now, it is to be said when it is refused again.
    pub fn said(&self, is_said: bool) {
        let mut inodes = self.all.inodes.lock();
        let waiter = inodes.get_mut(&self.inode).and_then(|queue| queue.waiters.get_mut(&self.number));
        if let Some(waiter) = waiter {
            (waiter.is_said, waiter.was_refused) = (is_said, is_said);
        }
    }

    /// Gives up waiting with this error, unless the store is found to have given it the lock.
    pub fn leave(&self, error: tyr_fs::Error) -> Result<()> {
        let mut inodes = self.all.inodes.lock();
        loop {
            let queue = inodes.get_mut(&self.inode);
            let Some(queue) = queue else { return Err(error) };
            let Some(waiter) = queue.waiters.get(&self.number) else { return Err(error) };
            match &waiter.state {
                State::Asked => {}
                State::Ended(Ok(())) => return Ok(()),
                State::Waits | State::Ended(Err(_)) => {
                    queue.waiters.remove(&self.number);
                    return Err(error);
                }
            }
            let condvar = waiter.condvar.clone();
            condvar.wait_for(&mut inodes, PAUSE_MAX);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inodes = self.all.inodes.lock();
        let Some(queue) = inodes.get_mut(&self.inode) else { return };
        queue.waiters.remove(&self.number);
        if queue.asks == Some(self.number) {
            // It has asked, and will not tell.
            queue.asks = None;
            let asked = queue.waiters.values_mut().filter(|waiter| matches!(waiter.state, State::Asked));
            asked.for_each(|waiter| waiter.state = State::Waits);
        }
        match queue.waiters.is_empty() {
            true => drop(inodes.remove(&self.inode)),
            false => queue.wake_one(),
        }
    }
}

/// The shortest and the longest pause before the store is asked again when nothing has changed here.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
impl Waiting {
    /// How many wait for locks of an inode.
    pub fn count(&self, inode: u64) -> usize {
        self.inodes.lock().get(&inode).map_or(0, |queue| queue.waiters.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_fs::LockKind;

    use super::*;

    fn begin(waiting: &Waiting, number: u64) -> Place<'_> {
        let owner = Owner { of_ranges: true, number, process: 1 };
        waiting.begin(7, owner, Lock { kind: LockKind::Exclusive, start: 0, end: number })
    }

    fn asks(place: &Place<'_>) -> Asked {
        match place.next(|| false) {
            Step::Ask(asked) => asked,
            step => unreachable!("{step:?}"),
        }
    }

    fn owners(asked: &Asked) -> Vec<u64> {
        asked.wanted.iter().map(|(owner, _)| owner.number).collect()
    }

    fn ends(place: &Place<'_>, is_over: bool) -> Result<()> {
        match place.next(|| is_over) {
            Step::End(result) => result,
            step => unreachable!("{step:?}"),
        }
    }

    /// It is refused, and says for what it waits.
    fn says(place: &Place<'_>) {
        assert!(matches!(place.next(|| false), Step::Say));
        place.said(true);
    }

    fn refused() -> Result<()> {
        Err(Errno::EAGAIN.because("somebody is in the way"))
    }

    #[test]
    fn one_asks_for_all_who_came_before_in_their_order() {
        let waiting = Waiting::default();
        let [first, second, third] = [1, 2, 3].map(|number| begin(&waiting, number));
        let asked = asks(&second);
        assert_eq!(owners(&asked), [1, 2, 3]);
        let fourth = begin(&waiting, 4);
        second.tell(asked, Ok(vec![refused(), refused(), Ok(())]));
        ends(&third, true).unwrap();
        says(&first);
        says(&second);
        // Who came meanwhile is asked for at once, with those who are left.
        let asked = asks(&fourth);
        assert_eq!(owners(&asked), [1, 2, 4]);
        fourth.tell(asked, Err(Errno::EIO.because("nothing is served")));
        for place in [&first, &second, &fourth] {
            assert_eq!(ends(place, false).unwrap_err().errno(), Errno::EIO);
        }
        drop((first, second, third, fourth));
        assert!(waiting.inodes.lock().is_empty());
    }

    #[test]
    fn nobody_leaves_with_a_lock_that_he_does_not_know_of() {
        let waiting = Waiting::default();
        let [first, second] = [1, 2].map(|number| begin(&waiting, number));
        let asked = asks(&first);
        first.tell(asked, Ok(vec![refused(), refused()]));
        says(&first);
        says(&second);
        waiting.wake(7);
        let asked = asks(&first);
        assert_eq!(waiting.inodes.lock()[&7].waiters.len(), 2);
        assert!(waiting.inodes.lock().get_mut(&7).unwrap().step(1, true).is_none(), "it may have it by now");
        first.tell(asked, Ok(vec![refused(), Ok(())]));
        assert_eq!(second.leave(Errno::EDEADLK.because("it would wait for ever")), Ok(()));
        assert_eq!(ends(&first, true).unwrap_err().errno(), Errno::EINTR);
        assert_eq!(waiting.count(7), 1);
    }

    #[test]
    fn who_has_asked_and_goes_leaves_it_to_the_others() {
        let waiting = Waiting::default();
        let [first, second] = [1, 2].map(|number| begin(&waiting, number));
        let _ = asks(&first);
        drop(first);
        waiting.wake(7);
        assert_eq!(owners(&asks(&second)), [2]);
    }
}

//! Tasks of several nodes on one thread, in an order that only the seed decides, on clocks that pass only when all wait.
//!
//! - Tasks run one at a time, in the order in which they were woken. A task that is spawned belongs to the node of its spawner.
//! - Time passes only when no task can run, and then **one** sleeper wakes at a time. So a task that waits for a sleep and for
//!   something else at once never finds both ready: code that would choose between them at random has no choice.
//! - A node is killed between two steps of its tasks: they are dropped where they wait. That is a crash at any `await`.
//! - A node that is paused sleeps on: none of its sleepers wakes before the pause is over. Whoever pauses it keeps everything else
//!   that would wake its tasks from it, so that on waking, too, they find one thing at a time.
//! - Each node has a clock of its own, which began anywhere and gains or loses against the true time.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use parking_lot::Mutex;

use crate::random::Random;

/// What a node runs.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of all nodes of a simulation. Handles are equal.
#[derive(Clone)]
pub struct SimTasks(Arc<Mutex<State>>);

/// A clock against the true time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    /// What it showed when the simulation began, in microseconds.
    pub start: u64,
    /// How much it gains, in parts per million; negative: loses. More than minus one million.
    pub gain: i32,
}

struct State {
    /// True time, in microseconds.
    now: u64,
    random: Random,
    next_id: u64,
    tasks: BTreeMap<u64, Slot>,
    ready: VecDeque<u64>,
    sleepers: BTreeMap<(u64, u64), Arc<Mutex<Alarm>>>,
    clocks: BTreeMap<u32, Drift>,
    paused: BTreeMap<u32, u64>,
    digest: u64,
}

struct Slot {
    node: u32,
    /// None while it runs.
    task: Option<Task>,
    is_ready: bool,
}

struct Alarm {
    node: u32,
    /// When it fires, by true time; later than asked for if the node is paused then.
    at: u64,
    has_fired: bool,
    waker: Option<Waker>,
}

thread_local! {
    /// The simulation and the node that run on this thread right now.
    static CURRENT: RefCell<Option<(SimTasks, u32)>> = const { RefCell::new(None) };
}

impl SimTasks {
    /// No tasks yet. Equal seeds give equal runs.
    pub fn new(seed: u64) -> Self {
        SimTasks(Arc::new(Mutex::new(State {
            now: 0,
            random: Random::new(seed),
            next_id: 0,
            tasks: BTreeMap::new(),
            ready: VecDeque::new(),
            sleepers: BTreeMap::new(),
            clocks: BTreeMap::new(),
            paused: BTreeMap::new(),
            digest: 0,
        })))
    }

    /// Gives a node its clock. Without one it shows the true time.
    pub fn set_clock(&self, node: u32, drift: Drift) {
        self.0.lock().clocks.insert(node, drift);
    }

    /// Starts a task on a node.
    pub fn start(&self, node: u32, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.0.lock();
        let id = state.id();
        state.tasks.insert(id, Slot { node, task: Some(Box::pin(task)), is_ready: true });
        state.ready.push_back(id);
    }

    /// Drops all tasks of a node where they wait. Not to be called by one of them.
    pub fn kill(&self, node: u32) {
        let mut state = self.0.lock();
        let ids: Vec<u64> =
            state.tasks.iter().filter(|(_, slot)| slot.node == node).map(|(id, _)| *id).collect();
        let dropped: Vec<Slot> = ids.iter().filter_map(|id| state.tasks.remove(id)).collect();
        state.ready.retain(|id| !ids.contains(id));
        drop(state);
        // Outside of the lock: dropping wakes others, and cancels sleeps.
        let before = CURRENT.replace(Some((self.clone(), node)));
        drop(dropped);
        CURRENT.replace(before);
    }

    /// Lets a node sleep until a moment of true time, in microseconds, or longer if it was to sleep longer.
    pub fn pause(&self, node: u32, until: u64) {
        let mut state = self.0.lock();
        let paused = state.paused.entry(node).or_insert(until);
        *paused = until.max(*paused);
    }

    /// When something is to be done next, by true time in microseconds; none if all wait for what comes from outside.
    pub fn next(&self) -> Option<u64> {
        let state = self.0.lock();
        let is_ready = !state.ready.is_empty();
        if is_ready { Some(state.now) } else { state.sleepers.first_key_value().map(|((at, _), _)| *at) }
    }

    /// Runs everything up to a moment of true time, in microseconds.
    pub fn run_until(&self, end: u64) {
        loop {
            while self.step() {}
            let mut state = self.0.lock();
            let Some((&(at, id), _)) = state.sleepers.first_key_value().filter(|((at, _), _)| *at <= end)
            else {
                state.now = state.now.max(end);
                return;
            };
            let alarm = state.sleepers.remove(&(at, id)).expect("it was just found");
            let mut set = alarm.lock();
            if let Some(until) = state.paused.get(&set.node).copied().filter(|until| *until > at) {
                set.at = until;
                drop(set);
                state.sleepers.insert((until, id), alarm);
                continue;
            }
            drop(set);
            state.now = state.now.max(at);
            drop(state);
            let waker = {
                let mut alarm = alarm.lock();
                alarm.has_fired = true;
                alarm.waker.take()
            };
            waker.inspect(Waker::wake_by_ref);
        }
    }

    /// The true time, in microseconds.
    pub fn true_time(&self) -> u64 {
        self.0.lock().now
    }

    /// What a node's clock shows, in microseconds.
    pub fn time_of(&self, node: u32) -> u64 {
        let state = self.0.lock();
        state.shown(node, state.now)
    }

    /// A random number, from the seed.
    pub fn random(&self) -> u64 {
        self.0.lock().random.number()
    }

    /// Mixes something that happened into the digest.
    pub fn note(&self, what: &[u8]) {
        self.0.lock().note(what);
    }

    /// A digest of all steps of all tasks, their times, and everything noted. Two runs are equal if theirs are.
    pub fn digest(&self) -> u64 {
        self.0.lock().digest
    }

    /// Runs the task that was woken first. False if none was.
    fn step(&self) -> bool {
        let mut state = self.0.lock();
        let Some(id) = state.ready.pop_front() else { return false };
        let now = state.now;
        state.note(&[id.to_le_bytes(), now.to_le_bytes()].concat());
        let Some(slot) = state.tasks.get_mut(&id) else { return true };
        slot.is_ready = false;
        let node = slot.node;
        let Some(mut task) = slot.task.take() else { return true };
        drop(state);
        let waker = Waker::from(Arc::new(TaskWaker { tasks: Arc::downgrade(&self.0), id }));
        let before = CURRENT.replace(Some((self.clone(), node)));
        let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
        let finished = match poll {
            Poll::Ready(()) => self.0.lock().tasks.remove(&id),
            Poll::Pending => {
                let mut state = self.0.lock();
                if let Some(slot) = state.tasks.get_mut(&id) {
                    slot.task = Some(task);
                }
                None
            }
        };
        drop(finished);
        CURRENT.replace(before);
        true
    }
}

impl State {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn shown(&self, node: u32, truth: u64) -> u64 {
        let drift = self.clocks.get(&node).copied().unwrap_or_default();
        let gained = i128::from(truth) * i128::from(drift.gain) / 1_000_000;
        let shown = i128::from(drift.start) + i128::from(truth) + gained;
        u64::try_from(shown).unwrap_or(0)
    }

    /// The first true time at which the node's clock shows at least this.
    fn truth(&self, node: u32, shown: u64) -> u64 {
        let drift = self.clocks.get(&node).copied().unwrap_or_default();
        let elapsed = i128::from(shown.saturating_sub(drift.start)) * 1_000_000;
        let truth = u64::try_from(elapsed / i128::from(1_000_000 + drift.gain)).unwrap_or(u64::MAX);
        (truth..).find(|truth| self.shown(node, *truth) >= shown).unwrap_or(u64::MAX)
    }

    fn note(&mut self, what: &[u8]) {
        // FNV-1a, with the length so that parts do not run into each other.
        for byte in what.iter().copied().chain(what.len().to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

struct TaskWaker {
    tasks: std::sync::Weak<Mutex<State>>,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        let mut state = tasks.lock();
        let slot = state.tasks.get_mut(&self.id).filter(|slot| !slot.is_ready);
        if let Some(slot) = slot {
            slot.is_ready = true;
            state.ready.push_back(self.id);
        }
    }
}

/// What a task sees of the node that it runs on. Everything here panics outside of one.
pub mod here {
    use super::{Alarm, Arc, CURRENT, Duration, Future, Mutex, SimTasks, Sleep};

    fn current() -> (SimTasks, u32) {
        CURRENT.with_borrow(|current| current.clone()).expect("called by a task of a simulation")
    }

    /// The node.
    pub fn node() -> u32 {
        current().1
    }

    /// What its clock shows, in microseconds.
    pub fn now() -> u64 {
        let (tasks, node) = current();
        tasks.time_of(node)
    }

    /// Starts another task on it.
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        let (tasks, node) = current();
        tasks.start(node, task);
    }

    /// A random number, from the seed.
    pub fn random() -> u64 {
        current().0.random()
    }

    /// Waits until the node's clock shows this, in microseconds. Even if it does already, others that can run do so first.
    pub fn sleep_until(shown: u64) -> Sleep {
        let (tasks, node) = current();
        let mut state = tasks.0.lock();
        let (at, id) = (state.truth(node, shown).max(state.now), state.id());
        let alarm = Arc::new(Mutex::new(Alarm { node, at, has_fired: false, waker: None }));
        state.sleepers.insert((at, id), alarm.clone());
        drop(state);
        Sleep { tasks: Arc::downgrade(&tasks.0), id, alarm }
    }

    /// Waits for a time on the node's clock.
    pub fn sleep(time: Duration) -> Sleep {
        sleep_until(now().saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// A wait for a moment of a node's clock.
pub struct Sleep {
    tasks: std::sync::Weak<Mutex<State>>,
    id: u64,
    alarm: Arc<Mutex<Alarm>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.alarm.lock();
        if alarm.has_fired {
            return Poll::Ready(());
        }
        alarm.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.upgrade() {
            let mut state = tasks.lock();
            let at = self.alarm.lock().at;
            state.sleepers.remove(&(at, self.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Arc<Mutex<Vec<(u32, u64)>>> {
        Arc::default()
    }

    #[test]
    fn sleepers_wake_in_order_of_true_time_on_their_own_clocks() {
        let tasks = SimTasks::new(1);
        tasks.set_clock(1, Drift { start: 500, gain: 100_000 });
        let seen = log();
        for node in [1, 2] {
            let seen = seen.clone();
            tasks.start(node, async move {
                here::sleep(Duration::from_micros(1_100)).await;
                seen.lock().push((here::node(), here::now()));
            });
        }
        tasks.run_until(999);
        assert_eq!(*seen.lock(), []);
        tasks.run_until(5_000);
        assert_eq!(*seen.lock(), [(1, 1_600), (2, 1_100)]);
        assert_eq!(tasks.true_time(), 5_000);
    }

    #[test]
    fn a_killed_node_does_nothing_more_and_others_go_on() {
        let tasks = SimTasks::new(1);
        let seen = log();
        for node in [1, 2] {
            let seen = seen.clone();
            tasks.start(node, async move {
                here::spawn(async move {
                    here::sleep(Duration::from_micros(10)).await;
                    seen.lock().push((here::node(), here::now()));
                });
            });
        }
        tasks.run_until(5);
        tasks.kill(1);
        tasks.run_until(100);
        assert_eq!(*seen.lock(), [(2, 10)]);
    }

    #[test]
    fn a_paused_node_sleeps_on_and_others_do_not() {
        let tasks = SimTasks::new(1);
        let seen = log();
        for node in [1, 2] {
            let seen = seen.clone();
            tasks.start(node, async move {
                for _ in 0..2 {
                    here::sleep(Duration::from_micros(10)).await;
                    seen.lock().push((here::node(), here::now()));
                }
            });
        }
        tasks.pause(1, 15);
        assert_eq!(tasks.next(), Some(0));
        tasks.run_until(100);
        assert_eq!(*seen.lock(), [(2, 10), (1, 15), (2, 20), (1, 25)]);
        assert_eq!(tasks.next(), None);
    }

    #[test]
    fn equal_seeds_give_equal_digests_and_others_do_not() {
        let run = |seed| {
            let tasks = SimTasks::new(seed);
            for node in 0..3 {
                tasks.start(node, async {
                    for _ in 0..10 {
                        here::sleep(Duration::from_micros(here::random() % 100)).await;
                    }
                });
            }
            tasks.run_until(10_000);
            tasks.digest()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}

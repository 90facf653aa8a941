//! A shard on its thread: takes its mail, gives it to the protocol, writes what that wants written, and sends what it wants sent.
//!
//! Nothing is shared with other shards but their mailboxes. What waits in a mailbox is bounded by the windows of the connections that it
//! came by, for a message keeps its receipt until it has been handled; what a node says to itself has a bound of its own, and is dropped
//! beyond that like anything that is lost.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{spawn_blocking, yield_now},
    time::{MissedTickBehavior, interval, timeout},
};
use tyr_env::Space;
use tyr_net::{
    Exporter, Link, Receipt,
    channels::{DATA, TRACED},
};
use tyr_node::{Journal, Notice, Shard};
use tyr_proto::{
    ClassId, Keyspaces, NodeId, Output, Partition, PartitionId, RingVersion, SessionId, Time, TraceContext,
    cluster::{Command, Fact, ShardReport},
    encoding::{append_with_insets, detached},
    message::{Answer, Envelope, Message},
};
use tyr_types::{Durability, Error, Result};
use tyr_wire::connection::{Frame, Unsent};

use crate::{
    alarm::Alarm, event::Event, figures::Figures, reception::Reception, room::Room, sessions::Sessions,
    spans::Spans, surroundings::now, target::Target, work::Worker,
};

/// What comes to a shard.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A message of the protocol; with the receipt of the frame that brought it.
    Message(Envelope, Option<Receipt>),
    /// The same, of a transaction that is traced.
    Traced(Box<(TraceContext, Envelope, Option<Receipt>)>),
    /// A client has dialed this node.
    Session(SessionId, Link),
    /// A connection of a client has ended.
    SessionOver(SessionId, Link),
    /// The link to another member.
    Link(NodeId, Link),
    /// What the membership has to say, and the keyspaces if they have changed.
    Notices(Option<Arc<Keyspaces>>, Arc<[Notice]>),
    /// Something has become durable.
    Stored,
    /// Dropped when it is taken: whoever holds the other end knows then that all mail before it was taken.
    Taken(mpsc::Sender<Infallible>),
    /// Ending: after what was taken is durable, or at once.
    Stop(Ending),
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All that it has taken is durable, and what it opened is closed.
    Stopped,
    /// At once, as if the process had been killed.
    Killed,
}

/// Where a shard's mail is put. Handles are equal.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: UnboundedSender<Mail>,
    /// Messages of this node to itself that wait.
    own: Arc<AtomicUsize>,
    /// When the shard was last seen to go on, in microseconds; zero before it has begun.
    seen: Arc<AtomicU64>,
    figures: Figures,
}

impl Mailbox {
    /// A mailbox, and its other end.
    pub fn new() -> (Mailbox, UnboundedReceiver<Mail>) {
        let (sender, receiver) = unbounded_channel();
        (Mailbox { sender, own: Arc::default(), seen: Arc::default(), figures: Figures::default() }, receiver)
    }

    /// Puts something in. It is lost if the shard has ended.
    pub fn put(&self, mail: Mail) {
        self.figures.came();
        let _lost = self.sender.send(mail);
    }

    /// Closed when every shard has taken all that was put in until now, or has ended.
    pub fn when_taken(mailboxes: &[Mailbox]) -> mpsc::Receiver<Infallible> {
        let (told, taken) = mpsc::channel(1);
        mailboxes.iter().for_each(|mailbox| mailbox.put(Mail::Taken(told.clone())));
        taken
    }

    /// How the shard is doing.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Whether the shard has begun and then has not gone on for so long that it may be stuck, in its disk for instance.
    pub fn is_stuck(&self, now: Time) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen > 0 && now.since(Time(seen)) > STUCK_AFTER
    }

    /// The shard goes on.
    fn beat(&self, now: Time) {
        self.seen.store(now.0.max(1), Ordering::Relaxed);
    }

    /// Puts in a message of this node to itself, with the context if it is traced. Its payload is as if it had come from elsewhere: the
    /// partition that gets it keeps it itself.
    fn put_own(&self, envelope: &Envelope, context: Option<TraceContext>) {
        let Some(envelope) = detached(envelope) else { return };
        if self.own.fetch_add(1, Ordering::Relaxed) < OWN_MAX {
            self.put(match context {
                None => Mail::Message(envelope, None),
                Some(context) => Mail::Traced(Box::new((context, envelope, None))),
            });
        } else {
            self.own.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Rings when something has become durable.
struct Bell(Mailbox);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.put(Mail::Stored);
    }
}

/// A shard that is about to run.
pub(crate) struct Runner {
    pub shard: Shard,
    pub journal: Journal,
    pub target: Target,
    /// The target's share of what the node holds.
    pub weight: u32,
    /// What its device is to keep.
    pub room: Room,
    pub inbox: UnboundedReceiver<Mail>,
    /// With the mailboxes of all shards of this node, in order.
    pub reception: Arc<Reception>,
    /// Links that are known already.
    pub links: BTreeMap<NodeId, Link>,
    /// What takes longer is told, in microseconds.
    pub slow_after: u64,
    /// Where spans of traced transactions go, if they go anywhere.
    pub exporter: Option<Exporter>,
    /// Dropped when the shard has nothing more to say.
    pub says: mpsc::Sender<Infallible>,
}

struct Running {
    shard: Shard,
    journal: Journal,
    mailboxes: Vec<Mailbox>,
    place: usize,
    reception: Arc<Reception>,
    links: BTreeMap<NodeId, Link>,
    sessions: Sessions,
    classes: BTreeMap<ClassId, Durability>,
    keyspaces: Arc<Keyspaces>,
    version: RingVersion,
    waker: Waker,
    worker: Worker,
    spans: Spans,
    weight: u32,
    room: Room,
    slowness_told_at: Option<Time>,
    /// Whether the device was full when that was told last.
    was_full: bool,
    /// Since when something is on its way to the disk.
    writes_since: Option<Time>,
    has_failed: bool,
}

/// A shard whose store is lost.
pub(crate) struct Lost {
    pub inbox: UnboundedReceiver<Mail>,
    pub mailbox: Mailbox,
    pub report: ShardReport,
    pub reason: Error,
    /// Hears if its thread panics.
    pub alarm: Alarm,
}

/// What a thread does for its shard.
pub(crate) enum Task {
    Run(Box<Runner>),
    Lost(Box<Lost>),
}

impl Task {
    /// Does it until it is told to stop: then the store is closed, unless it is to end at once.
    pub async fn run(self, place: usize) -> Result<()> {
        match self {
            Task::Run(runner) => runner.run(place).await,
            Task::Lost(lost) => lost.run(place).await,
        }
    }
}

impl Runner {
    async fn run(self, place: usize) -> Result<()> {
        // Dropped last, so that it hears of a panic wherever that is.
        let _alarm = Alarm::new(format!("tyr-shard-{place}"), &self.reception.events);
        let Runner {
            shard,
            journal,
            target,
            weight,
            room,
            mut inbox,
            reception,
            links,
            slow_after,
            exporter,
            says,
        } = self;
        let mailboxes = reception.mailboxes.clone();
        let waker = Waker::from(Arc::new(Bell(mailboxes[place].clone())));
        let worker = Worker::new(place, mailboxes.len(), slow_after);
        let spans = Spans::new(exporter, shard.router().me().node, place);
        let mut running = Running {
            shard,
            journal,
            mailboxes,
            place,
            reception,
            links,
            sessions: Sessions::default(),
            classes: BTreeMap::new(),
            keyspaces: Arc::default(),
            version: RingVersion(0),
            waker,
            worker,
            spans,
            weight,
            room,
            slowness_told_at: None,
            was_full: false,
            writes_since: None,
            has_failed: false,
        };
        let end = running.serve(&mut inbox, &target).await;
        if end == Ending::Stopped {
            running.finish(&mut inbox).await;
        }
        let failure = running.mailboxes[place].figures.failure();
        drop((running, says));
        match (end, failure) {
            // Connections say their last meanwhile.
            (Ending::Stopped, None) => spawn_blocking(move || target.close())
                .await
                .map_err(|_| Error::internal("a store panicked when it was closed; please report it"))?,
            (Ending::Stopped, Some(error)) => Err(error),
            (Ending::Killed, _) => Ok(()),
        }
    }
}

impl Lost {
    /// Does nothing until it is told to stop. Returns the reason then.
    async fn run(self, place: usize) -> Result<()> {
        let Lost { mut inbox, mailbox, report, reason, alarm: _alarm } = self;
        let reason = reason.context(format_args!("shard {place}"));
        tracing::error!(
            shard = place,
            error = %reason,
            "a shard has lost its store; the node goes on without it, and others rebuild what it held"
        );
        mailbox.figures.report(report);
        mailbox.figures.fail(reason.clone());
        loop {
            let mail = inbox.recv().await;
            mailbox.figures.taken();
            match mail {
                Some(Mail::Stop(Ending::Stopped)) => return Err(reason),
                Some(Mail::Stop(Ending::Killed)) | None => return Ok(()),
                Some(Mail::Message(_, None)) => drop(mailbox.own.fetch_sub(1, Ordering::Relaxed)),
                Some(Mail::Traced(traced)) if traced.2.is_none() => {
                    mailbox.own.fetch_sub(1, Ordering::Relaxed);
                }
                Some(_) => {}
            }
        }
    }
}

impl Running {
    /// Serves until it is told to end.
    async fn serve(&mut self, inbox: &mut UnboundedReceiver<Mail>, target: &Target) -> Ending {
        let mut ticks = interval(Duration::from_micros(TICK_EVERY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut shown_at, mut uses_at, mut is_nearly_short) = (now(), now(), false);
        loop {
            let is_due = tokio::select! {
                biased;
                _ = ticks.tick() => true,
                mail = inbox.recv() => match mail {
                    Some(mail) => {
                        if let Some(end) = self.take_all(mail, inbox) {
                            return end;
                        }
                        false
                    }
                    None => return Ending::Killed,
                },
            };
            let time = now();
            self.mailboxes[self.place].beat(time);
            if self.has_failed {
                continue;
            }
            if is_due {
                if time >= shown_at || is_nearly_short {
                    let space = target.disk.space().ok();
                    is_nearly_short = space.is_some_and(|space| self.room.is_nearly_short(space));
                    let is_short =
                        space.is_some_and(|space| self.room.is_short(space)) || self.journal.is_full();
                    self.shard.handle_room(is_short);
                    if time >= shown_at {
                        shown_at = time.after(SHOW_EVERY);
                        if let Some(space) = space {
                            self.journal.store().keep_free(self.room.least(space.total));
                        }
                        self.show(target, space, is_short);
                        self.tell_fullness(target, is_short);
                        self.tidy(time, is_short);
                    }
                }
                self.shard.handle_tick(time);
                self.mailboxes[self.place].figures.work(self.worker.work());
                if time >= uses_at {
                    uses_at = time.after(USES_EVERY);
                    self.mailboxes[self.place].figures.uses(self.shard.router().uses());
                }
            }
            self.flush();
            if !inbox.is_empty() {
                // What was said goes out before more is taken.
                yield_now().await;
            }
        }
    }

    /// Forgets what nobody asks for any more, and has checkpoints taken that no entry will bring.
    fn tidy(&mut self, time: Time, is_short: bool) {
        self.worker.tidy(time);
        self.spans.tidy(time);
        // Where there is little room, what a checkpoint gives back is not put off until nobody writes.
        let ready = self.shard.router().partitions().filter(|one| is_short || one.is_idle());
        ready.for_each(|partition| self.journal.rest(partition));
    }

    /// Shows how it is doing, and what room there is on its device, if that is known.
    fn show(&self, target: &Target, space: Option<Space>, is_full: bool) {
        let stats = self.journal.store().stats();
        let partitions = self.shard.router().partitions();
        let time = now();
        self.mailboxes[self.place].figures.report(ShardReport {
            directory: target.directory.display().to_string(),
            weight: self.weight,
            space_total: space.map_or(0, |space| space.total),
            space_free: space.map_or(0, |space| space.free),
            used: stats.filled,
            live: stats.live,
            queue: 0,
            is_full,
            has_failed: false,
            partitions: partitions.map(|partition| partition.report(time)).collect(),
        });
        let pins = self.shard.router().partitions().filter_map(|partition| partition.oldest_pin(time));
        let oldest = pins.max_by_key(|pin| pin.age);
        self.mailboxes[self.place].figures.detail(self.worker.detail(), oldest);
    }

    /// Takes mail, and what has come since, up to a bound. Returns how it is to end, if it is.
    fn take_all(&mut self, first: Mail, inbox: &mut UnboundedReceiver<Mail>) -> Option<Ending> {
        let more = std::iter::from_fn(|| inbox.try_recv().ok()).take(BATCH);
        for mail in std::iter::once(first).chain(more) {
            self.mailboxes[self.place].figures.taken();
            if let Mail::Stop(end) = mail {
                return Some(end);
            }
            self.take(mail);
        }
        None
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Message(envelope, receipt) => self.hear(envelope, receipt.as_ref(), None),
            Mail::Traced(traced) => {
                let (context, envelope, receipt) = *traced;
                self.hear(envelope, receipt.as_ref(), Some(context));
            }
            Mail::Session(session, link) => self.sessions.opened(session, link),
            Mail::SessionOver(session, link) => self.sessions.closed(session, &link),
            Mail::Link(node, link) => drop(self.links.insert(node, link)),
            Mail::Notices(keyspaces, notices) => {
                if let Some(keyspaces) = keyspaces {
                    self.worker.keep(&keyspaces);
                    self.keyspaces = keyspaces.clone();
                    self.shard.handle_keyspaces(keyspaces);
                }
                if !self.has_failed {
                    notices.iter().for_each(|notice| self.notice(notice));
                }
            }
            Mail::Taken(told) => drop(told),
            Mail::Stored | Mail::Stop(_) => {}
        }
    }

    fn hear(&mut self, envelope: Envelope, receipt: Option<&Receipt>, context: Option<TraceContext>) {
        if receipt.is_none() {
            self.mailboxes[self.place].own.fetch_sub(1, Ordering::Relaxed);
        }
        if self.has_failed {
            return;
        }
        if self.is_early(&envelope.message) {
            // It is said again; until then the membership has asked what is new.
            return self.reception.events.tell(Event::Behind);
        }
        let time = now();
        self.worker.came(time, &envelope);
        if let Some(context) = context {
            self.spans.came(time, context, &envelope);
        }
        self.shard.handle_message(time, envelope);
    }

    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Fact(Fact::Class(class, settings)) => {
                self.classes.insert(*class, settings.durability);
            }
            Notice::Version(version) => self.version = *version,
            _ => {}
        }
        let Notice::Fact(Fact::Partition(id, ..)) = notice else {
            return self.shard.handle_notice(now(), notice);
        };
        let epoch = |shard: &Shard| shard.router().partition(*id).map(|known| known.configuration().epoch);
        let before = epoch(&self.shard);
        self.shard.handle_notice(now(), notice);
        let known = self.shard.router().partition(*id).filter(|_| epoch(&self.shard) != before);
        // Nobody else says so.
        if known.is_some_and(Partition::has_begun_anew) {
            tracing::warn!(
                partition = %id,
                "the partition begins anew here: nobody who is there has what it held, which is lost if anything was there"
            );
        }
    }

    /// Whether a transaction names a keyspace that is newer than what this node has heard of.
    fn is_early(&self, message: &Message) -> bool {
        let plan = match message {
            Message::Start(plan) | Message::Pass { plan, .. } => plan,
            _ => return false,
        };
        let is_unknown = |keyspace| !self.keyspaces.contains_key(&keyspace);
        plan.id.birth > self.version && plan.heads.iter().any(|head| is_unknown(head.blob.keyspace))
    }

    /// Does what the protocol wants, until it wants nothing more.
    fn flush(&mut self) {
        loop {
            self.empty();
            if self.has_failed {
                return;
            }
            for id in self.journal.due() {
                if let Some(partition) = self.shard.router().partition(id) {
                    self.journal.checkpoint(partition);
                }
            }
            if self.journal.has_pending() {
                self.writes_since.get_or_insert_with(now);
            }
            let stored = match self.journal.submit() {
                Ok(()) => self.journal.poll_stored(&mut Context::from_waker(&self.waker)),
                Err(error) => Poll::Ready(Err(error)),
            };
            match stored {
                Poll::Pending => return,
                Poll::Ready(Ok(stored)) => {
                    let time = now();
                    let since = self.writes_since.take();
                    self.worker.stored(time, since, stored.len());
                    if !self.spans.is_empty() {
                        self.spans.stored(time, since, stored.iter().map(|stored| stored.partition));
                    }
                    self.shard.handle_stored(time, &stored);
                }
                Poll::Ready(Err(error)) => return self.fail(error),
            }
        }
    }

    fn empty(&mut self) {
        while let Some(output) = self.shard.poll_output() {
            let durability = self.durability_of(&output);
            if let Some(output) = self.journal.take(output, durability) {
                self.carry_out(output);
            }
        }
    }

    /// As long as a class is not known it is taken to be all that there is.
    fn durability_of(&self, output: &Output) -> Durability {
        let partition = match output {
            Output::Store { partition, .. }
            | Output::Cut(partition, _)
            | Output::Install { partition, .. } => partition,
            _ => return Durability::Disk,
        };
        self.classes.get(&partition.class).copied().unwrap_or(Durability::Disk)
    }

    /// Sends what there is somebody for. What cannot be sent is lost, and said again.
    fn send(
        &self,
        link: Option<&Link>,
        frame: Option<Frame>,
        send: impl FnOnce(&Link, Frame) -> std::result::Result<(), Unsent>,
    ) {
        let size = match (link, frame) {
            (Some(link), Some(frame)) => match send(link, frame) {
                Err(Unsent::TooLarge(frame)) => Some(frame.size()),
                _ => return,
            },
            (Some(_), None) => None,
            (None, _) => return,
        };
        // How much it takes is for the receiver to say, also for one who wants to fill this log.
        if self.reception.counts.may_warn(now()) {
            tracing::warn!(bytes = size, "a message is larger than its receiver takes");
        }
    }

    fn carry_out(&mut self, output: Output) {
        let me = self.shard.router().me();
        let command = match output {
            Output::Send(to, envelope) => {
                self.worker.goes(now, to, &envelope);
                let context = match self.spans.is_empty() {
                    true => None,
                    false => self.spans.goes(now(), &envelope.message),
                };
                if to == me.node {
                    let place = place_of(envelope.partition, self.mailboxes.len());
                    return self.mailboxes[place].put_own(&envelope, context);
                }
                let frame = match context {
                    None => Frame::message_with_insets(DATA, |out| append_with_insets(out, &envelope)),
                    Some(context) => Frame::message_with_insets(TRACED, |out| {
                        context.write(out);
                        append_with_insets(out, &envelope)
                    }),
                };
                let link = self.links.get(&to);
                return self.send(link, frame, |link, frame| self.reception.relay.send(to, link, frame));
            }
            Output::Answer(session, answer) => {
                self.answered(&answer);
                let frame = Frame::message_with_insets(DATA, |out| append_with_insets(out, &answer));
                return self.send(self.sessions.link(session), frame, Link::send);
            }
            Output::LearnerComplete(partition, epoch, learner) => {
                Command::LearnerComplete { partition, epoch, by: me, learner }
            }
            Output::ReplicaSlow(partition, epoch, replica) => {
                if replica == me {
                    self.tell_slowness();
                }
                Command::RemoveReplica { partition, epoch, by: me, replica }
            }
            Output::Released(partition, epoch, replica) => {
                Command::Release { partition, epoch, replica, handed_to: None }
            }
            Output::AskVersion(version) => Command::Advance(version),
            Output::Store { .. } | Output::Cut(..) | Output::Install { .. } => return,
        };
        self.reception.events.tell(Event::Report(command));
    }

    fn answered(&mut self, answer: &Answer) {
        let time = now();
        self.worker.answered(time, answer);
        if let Answer::Outcome { id, outcome: Some((outcome, _)) } = answer {
            self.spans.answered(time, *id, outcome.name());
        }
        if !self.spans.is_empty()
            && let Some((request, how)) = answer.read()
        {
            self.spans.served(time, request, how);
        }
    }

    /// The device is slower than those of other nodes. Says so now and then.
    fn tell_slowness(&mut self) {
        let time = now();
        if self.slowness_told_at.is_none_or(|at| time.since(at) >= SLOWNESS_TOLD_EVERY) {
            self.slowness_told_at = Some(time);
            tracing::warn!(
                shard = self.place,
                "the device of this shard is much slower than those of other nodes; they take over what it leads"
            );
        }
    }

    /// Says that the device has become full, and that it has room again.
    fn tell_fullness(&mut self, target: &Target, is_full: bool) {
        if self.was_full == is_full {
            return;
        }
        self.was_full = is_full;
        let (shard, directory) = (self.place, target.directory.display());
        if is_full {
            tracing::warn!(
                shard,
                %directory,
                "the device of this shard is full: what takes up space is refused until something is deleted"
            );
        } else {
            tracing::info!(shard, %directory, "the device of this shard has room again");
        }
    }

    /// The store keeps nothing any more: from here on nothing is served, promised, or sent. The membership tells the cluster.
    fn fail(&mut self, error: Error) {
        self.has_failed = true;
        let error = error.context(format_args!("shard {}", self.place));
        tracing::error!(%error, "a shard cannot go on");
        self.mailboxes[self.place].figures.fail(error);
    }

    /// Makes durable what has been taken. What comes meanwhile is as good as lost.
    async fn finish(&mut self, inbox: &mut UnboundedReceiver<Mail>) {
        let end = now().after(FINISH_MAX);
        self.flush();
        while self.journal.has_pending() && !self.has_failed && now() < end {
            // The bell, or what need not be heard any more.
            let _unheard = timeout(Duration::from_micros(TICK_EVERY), inbox.recv()).await;
            self.flush();
        }
    }
}

/// The place of a partition's shard among so many.
pub(crate) fn place_of(partition: PartitionId, shards: usize) -> usize {
    usize::try_from(partition.index).expect("32 bits fit memory") % shards
}

/// Time passes for the protocol this often, in microseconds.
const TICK_EVERY: u64 = 10_000;
/// How it is doing is shown this often, in microseconds. The device's space is looked at as often, and in each tick when little is left.
const SHOW_EVERY: u64 = 1_000_000;
/// What it holds of keyspaces with quotas is shown this often, in microseconds.
const USES_EVERY: u64 = 100_000;
/// A shard that has not gone on for as long is taken to be stuck, in microseconds: the node asks for no lease meanwhile.
const STUCK_AFTER: u64 = 5_000_000;
/// It is told this often that the device is slow, in microseconds.
const SLOWNESS_TOLD_EVERY: u64 = 10_000_000;
/// As much mail is taken before what it led to is written and sent.
const BATCH: usize = 1024;
/// The most messages of a node to itself that wait in a mailbox.
const OWN_MAX: usize = 1 << 16;
/// A shard that is to stop waits at most this long for its disk, in microseconds.
const FINISH_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;

    #[test]
    fn it_is_known_when_every_shard_has_taken_what_was_put_in() {
        let (one, mut first) = Mailbox::new();
        let (other, mut second) = Mailbox::new();
        one.put(Mail::Stored);
        let mut taken = Mailbox::when_taken(&[one, other]);
        assert!(matches!(second.try_recv(), Ok(Mail::Taken(_))));
        assert!(matches!(first.try_recv(), Ok(Mail::Stored)));
        assert_eq!(taken.try_recv(), Err(TryRecvError::Empty), "one has not come to it");
        drop(first);
        assert_eq!(taken.try_recv(), Err(TryRecvError::Disconnected), "one that has ended takes nothing");
    }

    #[test]
    fn a_shard_that_does_not_go_on_is_stuck_until_it_does() {
        let (mailbox, _inbox) = Mailbox::new();
        assert!(!mailbox.is_stuck(Time(STUCK_AFTER * 2)), "one that has not begun is not");
        mailbox.beat(Time(10));
        assert!(!mailbox.is_stuck(Time(10 + STUCK_AFTER)));
        assert!(mailbox.is_stuck(Time(11 + STUCK_AFTER)));
        mailbox.beat(Time(11 + STUCK_AFTER));
        assert!(!mailbox.is_stuck(Time(11 + STUCK_AFTER)));
    }
}

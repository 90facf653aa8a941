//! What the protocol's client tells, to whom it concerns, and what it wants sent.

use tyr_proto::{
    BlobName, ClientOutput, Event, NodeId, Outcome, Refusal, Time,
    message::{Envelope, Message, RequestId},
};

use tyr_types::Error;

use super::{
    Driver,
    call::{Found, Got, Handle},
};
use crate::words;

/// For whom something is looked at or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A transaction.
    Seat(Handle),
    /// A snapshot.
    Snapshot(Handle),
}

impl Driver {
    /// Passes on what the protocol's client has to tell.
    pub(super) fn handle_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.handle_event(event);
        }
    }

    fn handle_event(&mut self, mut event: Event) {
        self.trace_end(&event);
        let now = self.now();
        if is_absence(&event) {
            self.manager.want_news(now);
        }
        let catalog = &self.catalog;
        let exists = |blob: &BlobName| catalog.exists(blob.keyspace);
        match &event {
            Event::Ended(id, outcome, results) if self.applies.end(now, *id, *outcome, results, exists) => {
                return;
            }
            Event::Unknown(id) => {
                let unknown = words::unknown(&self.links.troubles());
                if self.applies.lose(&mut self.client, now, *id, unknown, false) {
                    return;
                }
            }
            Event::Late(id) => {
                let late = words::not_begun(&self.links.troubles());
                if self.applies.lose(&mut self.client, now, *id, late, true) {
                    return;
                }
            }
            Event::Forgotten(id)
                if self.applies.lose(&mut self.client, now, *id, words::forgotten(), true) =>
            {
                return;
            }
            Event::Taken(request, point) => return self.snapshots.taken(*request, Ok(*point)),
            Event::Expired(request) if self.snapshots.are_taking_named(*request) => {
                return self.snapshots.taken(*request, Err(super::snapshots::expired()));
            }
            Event::Expired(request) if self.snapshots.are_taking(*request) => {
                return self.snapshots.not_taken(*request);
            }
            Event::Kept(request, ..) | Event::Expired(request) | Event::Denied(request)
                if self.snapshots.are_opening(*request) =>
            {
                return self.snapshots.opened(&mut self.client, now, *request, &mut event);
            }
            Event::Kept(..) => return,
            Event::Bytes(request, ..) | Event::Expired(request) if self.newest.contains_key(request) => {
                if let Some(asked) = self.newest.remove(request) {
                    asked.answer(Ok(match event {
                        Event::Bytes(_, version, bytes, true) => Some((version, bytes)),
                        _ => None,
                    }));
                }
                return;
            }
            Event::Sought(request, found) => {
                if let Some(asked) = self.seeks.remove(request) {
                    asked.answer(Ok(*found));
                }
                return;
            }
            Event::Expired(request) if self.seeks.contains_key(request) => {
                if let Some(asked) = self.seeks.remove(request) {
                    asked.answer(Err(words::refused(Refusal::Conflict)));
                }
                return;
            }
            Event::Got(request, ..) => {
                if let Some(asked) = self.gets.remove(request)
                    && let Event::Got(_, number, looked, bytes, others) = event
                {
                    let found = looked.map(|looked| Found { number, looked });
                    asked.answer(Ok(Got { found, bytes, others }));
                }
                return;
            }
            Event::Denied(request) if self.deny(*request) => return,
            Event::Looked(request, ..)
            | Event::Bytes(request, ..)
            | Event::Expired(request)
            | Event::Denied(request) => {
                let request = *request;
                return self.handle_read(request, &mut event);
            }
            Event::Frozen(request, _) if self.snapshots.are_taking(*request) => return self.freeze(event),
            Event::Frozen(..) => {
                self.runs.values_mut().any(|running| running.run.handle(&mut event));
                return;
            }
            Event::Names(request, ..) => {
                if let Some(names) = self.names.remove(request)
                    && let Event::Names(_, found, more) = event
                {
                    names.answer(Ok((found, more)));
                }
                return;
            }
            Event::Stats(request, _) => {
                if let Some(heads) = self.heads.remove(request)
                    && let Event::Stats(_, stats) = event
                {
                    heads.answer(Ok(stats));
                }
                return;
            }
            Event::Recalled(..) => {
                let Event::Recalled(node, partition, blob, asked) = event else { return };
                return self.recall(node, partition, blob, asked);
            }
            Event::Ended(..) | Event::Forgotten(_) => {}
        }
        let client = &mut self.client;
        let mut seats = self.seats.iter_mut();
        let told =
            seats.find_map(|(of, seat)| seat.transaction.handle(client, now, &mut event).then_some(*of));
        if let Some(of) = told {
            self.settle_seat(of);
        } else if let Event::Unknown(id) = event {
            self.client.resolve(now, id);
        }
    }

    fn trace_end(&mut self, event: &Event) {
        let Some(traces) = &mut self.traces else { return };
        match event {
            Event::Ended(id, outcome, _) => traces.ends(*id, Some(*outcome)),
            Event::Unknown(id) | Event::Late(id) | Event::Forgotten(id) => traces.ends(*id, None),
            _ => {}
        }
    }

    /// There is no right to what was asked for. False if that is for a transaction or a snapshot that was taken.
    fn deny(&mut self, request: RequestId) -> bool {
        let denied = words::denied;
        let newest = self.newest.remove(&request).map(|asked| asked.answer(Err(denied())));
        let sought = self.seeks.remove(&request).map(|asked| asked.answer(Err(denied())));
        let got = self.gets.remove(&request).map(|asked| asked.answer(Err(denied())));
        let names = self.names.remove(&request).map(|asked| asked.answer(Err(denied())));
        let heads = self.heads.remove(&request).map(|asked| asked.answer(Err(denied())));
        let answered = newest.or(sought).or(got).or(names).or(heads).is_some();
        let mut denied = Event::Denied(request);
        answered
            || self.snapshots.deny(request)
            || self.runs.values_mut().any(|running| running.run.handle(&mut denied))
    }

    /// Nobody lets this client in any more: nothing of what it asked will be answered.
    pub(super) fn deny_all(&mut self, reason: &str) {
        let denied = || Error::denied(reason.to_owned());
        self.fail_all(denied, || words::unknown_and_denied(reason));
    }

    /// Answers everybody that nobody will answer: with the first error if nothing was to be changed, else that it is not known whether it was.
    pub(super) fn fail_all(&mut self, error: impl Fn() -> Error + Copy, unknown: impl Fn() -> Error + Copy) {
        self.manager.fail(error, unknown);
        self.applies.deny(unknown);
        self.seats.values_mut().for_each(|seat| seat.deny(error, unknown));
        self.snapshots.deny_all(&mut self.client, error);
        std::mem::take(&mut self.newest).into_values().for_each(|asked| asked.answer(Err(error())));
        std::mem::take(&mut self.seeks).into_values().for_each(|asked| asked.answer(Err(error())));
        std::mem::take(&mut self.gets).into_values().for_each(|asked| asked.answer(Err(error())));
        std::mem::take(&mut self.names).into_values().for_each(|asked| asked.answer(Err(error())));
        std::mem::take(&mut self.heads).into_values().for_each(|asked| asked.answer(Err(error())));
    }

    fn handle_read(&mut self, request: RequestId, event: &mut Event) {
        let now = self.now();
        match self.owners.remove(&request) {
            Some(Owner::Seat(of)) => {
                let Some(seat) = self.seats.get_mut(&of) else { return };
                seat.transaction.handle(&mut self.client, now, event);
                self.settle_seat(of);
            }
            Some(Owner::Snapshot(of)) => {
                self.snapshots.handle(&mut self.client, now, of, event);
                self.settle_snapshot(of);
            }
            None => self.handle_unowned(event),
        }
    }

    /// Something that was asked for when nobody knew yet whom to ask.
    fn handle_unowned(&mut self, event: &mut Event) {
        let now = self.now();
        let client = &mut self.client;
        let mut seats = self.seats.iter_mut();
        let told = seats.find_map(|(of, seat)| seat.transaction.handle(client, now, event).then_some(*of));
        if let Some(of) = told {
            self.settle_seat(of);
        } else if let Some(of) = self.snapshots.offer(&mut self.client, now, event) {
            self.settle_snapshot(of);
        }
    }

    /// Sends what the protocol's client wants sent. What it asks nodes then is asked for the owner.
    pub(super) fn flush(&mut self, owner: Option<Owner>) {
        let now = self.now();
        while let Some(output) = self.client.poll_output() {
            match output {
                ClientOutput::Send(node, envelope) => self.send(now, owner, node, envelope),
                ClientOutput::FetchRing(_) => self.manager.want_ring(),
            }
        }
    }

    fn send(&mut self, now: Time, owner: Option<Owner>, node: NodeId, envelope: Envelope) {
        let envelope = self.files.in_form(node, envelope);
        if let (
            Some(owner),
            Message::Look { request, .. } | Message::Read { request, .. } | Message::Locate { request, .. },
        ) = (owner, &envelope.message)
        {
            self.owners.entry(*request).or_insert(owner);
        }
        if let Some((request, _)) = envelope.message.read() {
            self.nearness.asks(now, node, request);
            self.show_rank(now, node);
        }
        let context = self.traces.as_mut().and_then(|traces| match &envelope.message {
            Message::Start(plan) => traces.sends(plan, crate::cluster::random),
            message => traces.asks(message, envelope.partition, crate::cluster::random),
        });
        self.links.tell(node, &envelope, context);
    }
}

/// Whether something is not there that a keyspace would have that nobody has dropped.
fn is_absence(event: &Event) -> bool {
    match event {
        Event::Ended(_, outcome, _) => *outcome == Outcome::Refused(Refusal::NotFound),
        Event::Looked(_, _, looked) => looked.is_none(),
        Event::Got(_, _, looked, ..) => looked.is_none(),
        Event::Stats(_, stats) => stats.iter().flatten().any(|stat| stat.blob.is_none()),
        Event::Names(_, names, _) => names.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::{sync::Arc, time::Duration};

    use tokio::{
        sync::{mpsc::unbounded_channel, oneshot},
        time::Instant,
    };
    use tyr_proto::{
        ChunkName, ClassId, Configuration, Epoch, Incarnation, PartitionId, Replica, RingVersion, SessionId,
        cluster::Zone, message::HeadStat,
    };
    use tyr_types::{Number, Seek};

    use super::*;
    use crate::clock::Clock;
    use crate::driver::{Beginning, call::Call, fixture::unheard, links::Means};

    const NODE: NodeId = NodeId(1);

    /// A driver without connections that has heard of one node, which took 100 microseconds to answer; and a blob there.
    fn driver() -> (Driver, BlobName) {
        let (_, calls) = unbounded_channel();
        let mut driver = Driver::new(Beginning {
            seeds: Vec::new(),
            means: Means::Sockets(Default::default()),
            zone: None,
            reads_files: false,
            tracing: None,
            clock: Clock::real(),
            copies: None,
            counts: Arc::default(),
            session: 1,
            catalog: Arc::default(),
            calls,
        });
        let (client, blob) = unheard();
        driver.client = client;
        let configuration = Configuration {
            epoch: Epoch(1),
            since: RingVersion(1),
            floor: RingVersion(1),
            replicas: vec![Replica { node: NODE, incarnation: Incarnation(1) }],
            learners: Vec::new(),
        };
        driver.client.handle_configuration(PartitionId { class: ClassId(0), index: 0 }, configuration);
        driver.nearness.set_member(NODE, Zone::new("a").unwrap());
        driver.nearness.set_open(NODE, true);
        let earlier = RequestId { session: SessionId(1), number: u64::MAX };
        driver.nearness.asks(Time(1), NODE, earlier);
        driver.nearness.hears(Time(101), NODE, earlier);
        (driver, blob)
    }

    #[tokio::test]
    async fn while_replicas_are_about_to_come_it_asks_soon_who_holds_what_and_else_seldom() {
        let (mut driver, _) = driver();
        let mut asks_after = |seconds, epoch, learners: &[NodeId]| {
            let learner = |node: &NodeId| Replica { node: *node, incarnation: Incarnation(1) };
            let configuration = Configuration {
                epoch: Epoch(epoch),
                since: RingVersion(1),
                floor: RingVersion(1),
                replicas: vec![learner(&NODE)],
                learners: learners.iter().map(learner).collect(),
            };
            driver.client.handle_configuration(PartitionId { class: ClassId(0), index: 0 }, configuration);
            driver.manager.takes_back_want();
            driver.looked_at = Instant::now() - Duration::from_secs(seconds);
            driver.next_check = Instant::now();
            driver.tick();
            driver.manager.takes_back_want()
        };
        assert!(!asks_after(2, 2, &[]) && asks_after(31, 3, &[]));
        assert!(!asks_after(0, 4, &[NodeId(2)]) && asks_after(2, 5, &[NodeId(2)]));
        assert!(!asks_after(2, 6, &[]), "they have come");
    }

    fn rank(driver: &Driver) -> u64 {
        driver.nearness.rank(Time(101), NODE).unwrap()
    }

    /// How much farther away the node is once this was asked.
    fn farther_by(call: impl FnOnce(BlobName, Instant) -> Call) -> u64 {
        let (mut driver, blob) = driver();
        let before = rank(&driver);
        driver.take(call(blob, Instant::now() + Duration::from_secs(60)));
        driver.flush(None);
        rank(&driver) - before
    }

    #[tokio::test]
    async fn whatever_a_node_is_asked_to_read_is_waited_for() {
        let of = Handle(1);
        let farther = farther_by(|blob, until| Call::Stat { of, blob, until, reply: oneshot::channel().0 });
        assert_eq!(farther, 100, "a blob of a transaction");
        let farther =
            farther_by(|blob, until| Call::Heads { blobs: vec![blob], until, reply: oneshot::channel().0 });
        assert_eq!(farther, 100, "heads");
        let farther = farther_by(|after, until| {
            let partition = PartitionId { class: ClassId(0), index: 0 };
            Call::Names { partition, after, inclusive: true, limit: 1, until, reply: oneshot::channel().0 }
        });
        assert_eq!(farther, 100, "names");
        let farther = farther_by(|blob, until| {
            let (chunk, what) = (ChunkName { blob, index: 0 }, Seek::Data);
            Call::Seek { chunk, range: 0..1, what, until, reply: oneshot::channel().0 }
        });
        assert_eq!(farther, 100, "holes");
    }

    #[tokio::test]
    async fn time_that_is_due_passes_though_there_is_always_something_else_to_do() {
        let (mut driver, _) = driver();
        let due = Instant::now();
        (driver.next_tick, driver.next_check) = (due, due);
        driver.settle();
        assert_eq!(driver.next_tick, due, "it is not put off");
        driver.go_on();
        assert!(driver.next_check > due && driver.next_tick > due);
    }

    #[test]
    fn what_is_not_there_is_told_from_what_is_not_known() {
        let request = RequestId { session: SessionId(1), number: 1 };
        let stat = |blob| Some(HeadStat { number: Number::ZERO, blob });
        assert!(is_absence(&Event::Stats(request, vec![stat(None)])));
        assert!(!is_absence(&Event::Stats(request, vec![None])));
        assert!(is_absence(&Event::Looked(request, Number::ZERO, None)));
        assert!(is_absence(&Event::Got(request, Number::ZERO, None, None, Vec::new())));
        assert!(is_absence(&Event::Names(request, Vec::new(), false)));
        assert!(!is_absence(&Event::Expired(request)));
    }
}

//! The node as a member of its cluster: one task that keeps its lease, asks and answers for the cluster manager, and gossips.
//!
//! What it learns it gives to the shards, in the order in which it learned it. It is never on the way of data.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{interval, timeout},
};
use tyr_manager::{Gossip, GossipEffect, Peer};
use tyr_net::{
    Address, Dialer, Link,
    channels::{GOSSIP, MANAGER},
};
use tyr_node::{Member, Notice};
use tyr_proto::{
    ClassId, Contact, Incarnation, Keyspace, Keyspaces, NodeId, RingVersion, Time, Uses,
    access::{Rights, Scope},
    cluster::{
        self, ClassSettings, Cluster, ClusterId, Command, Difference, Fact, KeyspaceState, MemberState,
        Report, Request, Response,
    },
    encoding::to_bytes,
};
use tyr_types::{Durability, Error, KeyspaceId};
use tyr_wire::connection::{Frame, Party};

use crate::{
    alarm::Alarm,
    card::Keeper,
    console::Console,
    event::{Event, Question, Told},
    guard::{Needs, needs_of},
    handover::Handover,
    ledger::{Ledger, bounds_for},
    peers::Peers,
    reception::{Names, Quotas, Reception},
    shard::{Ending, Mail, Mailbox},
    state::State,
    surroundings::{now, random},
    tokens::Sealer,
    voting::Voting,
};

/// What the task works with.
pub(crate) struct Membership {
    pub member: Member,
    pub gossip: Gossip,
    pub voting: Voting,
    pub sealer: Sealer,
    pub peers: Arc<Peers>,
    pub reception: Arc<Reception>,
    pub console: Arc<Console>,
    pub state: Arc<State>,
    pub cluster: ClusterId,
    pub keeper: Keeper,
    pub directory: PathBuf,
    /// How long an answer of the cluster manager is waited for, in microseconds.
    pub patience: u64,
    pub contact: Contact,
    pub known: Facts,
    /// Who answered last.
    pub leader: Option<NodeId>,
    /// What was reported lately, and when.
    pub reported: BTreeMap<Vec<u8>, Time>,
    /// Questions that are being answered, of members, and of others.
    pub serving_members: Arc<Semaphore>,
    pub serving_others: Arc<Semaphore>,
    /// Connections to the nodes of the settings, until this one is ready and has met them: one that is ready before it has may lead, and be
    /// the only one who can be found by those who are not there yet.
    pub greeters: Vec<(Address, Dialer)>,
    /// Of these, where a node was met.
    pub met: Vec<Address>,
    /// Since when it is known to have been removed from the cluster.
    pub left_since: Option<Time>,
    /// What all nodes hold of keyspaces with quotas, if this one leads.
    pub ledger: Arc<Mutex<Ledger>>,
    /// What that was when this node heard of it last, and what it had told of itself.
    pub uses: (Uses, Uses),
    /// When this node told of itself last.
    pub uses_told_at: Option<Time>,
    /// When it was looked last whether a shard has failed.
    pub failures_told_at: Option<Time>,
}

/// What the cluster manager has told.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    classes: BTreeMap<ClassId, ClassSettings>,
    keyspaces: BTreeMap<KeyspaceId, cluster::Keyspace>,
    version: RingVersion,
}

impl Facts {
    /// Takes something that is so. Whether that changes the keyspaces.
    fn take(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::Class(id, settings) => drop(self.classes.insert(*id, *settings)),
            Fact::Keyspace(id, keyspace) => {
                self.keyspaces.insert(*id, keyspace.clone());
                return true;
            }
            Fact::Member(..) | Fact::Partition(..) | Fact::Account(..) | Fact::Seal(..) => {}
        }
        false
    }

    fn existing(&self) -> impl Iterator<Item = (&KeyspaceId, &cluster::Keyspace)> {
        self.keyspaces.iter().filter(|(_, keyspace)| keyspace.state == KeyspaceState::Exists)
    }

    /// The quotas of those that have one.
    fn quotas(&self) -> Quotas {
        self.existing().filter_map(|(id, keyspace)| Some((*id, keyspace.settings.quota?))).collect()
    }

    /// The classes of which nothing is written.
    fn in_memory(&self) -> BTreeSet<ClassId> {
        let classes = self.classes.iter().filter(|(_, settings)| settings.durability == Durability::Memory);
        classes.map(|(id, _)| *id).collect()
    }

    /// The names of the keyspaces that exist.
    fn names(&self) -> Names {
        self.existing().map(|(id, keyspace)| (*id, keyspace.name.clone())).collect()
    }

    /// All keyspaces, as the protocol sees them.
    fn keyspaces(&self) -> Keyspaces {
        let placed = self.keyspaces.iter().filter_map(|(id, keyspace)| {
            let class = self.classes.get(&keyspace.class)?;
            Some((*id, Keyspace::of(keyspace, class).ok()?))
        });
        placed.collect()
    }
}

impl Membership {
    /// Whom a node asks that knows these others.
    pub fn contact(me: NodeId, peers: &Peers, asked: Option<NodeId>, patience: u64) -> Contact {
        let mut nodes = peers.nodes();
        nodes.push(me);
        nodes.sort_unstable();
        let first = nodes.iter().position(|node| Some(*node) == asked).unwrap_or(0);
        Contact::new(nodes, first, patience)
    }

    /// Serves as long as anybody can be heard. Says when it has given up the lease, if it is to.
    pub async fn run(mut self, mut told: Told, gave_up: oneshot::Sender<()>) {
        let _alarm = Alarm::new("the membership", &self.reception.events);
        let mut gave_up = Some(gave_up);
        let mut ticks = interval(TICK_EVERY);
        loop {
            tokio::select! {
                // Whatever else there is waits: nothing may renew the lease of a node that has failed.
                biased;
                Ok(()) = told.stopped.changed(), if gave_up.is_some() => {
                    let end = *told.stopped.borrow_and_update();
                    if let Some(gave_up) = gave_up.take() {
                        self.give_up(end, gave_up);
                    }
                }
                _ = ticks.tick() => self.tick(),
                event = told.events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                Some(question) = told.members.recv() => self.serve(question),
                Some(question) = told.others.recv() => self.serve(question),
            }
        }
    }

    /// Gives up the lease, and hands over what it was for unless the node is to end at once.
    fn give_up(&mut self, end: Option<Ending>, gave_up: oneshot::Sender<()>) {
        let had_lease = self.member.has_lease(now());
        self.member.stop();
        self.spread();
        let handover = Handover {
            replica: self.member.replica(),
            voting: self.voting.clone(),
            peers: self.peers.clone(),
            reception: self.reception.clone(),
            leader: self.leader,
            in_memory: self.known.in_memory(),
            ceased: Mailbox::when_taken(&self.reception.mailboxes),
        };
        tokio::spawn(async move {
            if had_lease && end == Some(Ending::Stopped) {
                handover.run().await;
            }
            // Nobody may wait for it.
            let _unheard = gave_up.send(());
        });
    }

    fn me(&self) -> NodeId {
        self.member.replica().node
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Answered(from, response) => self.answered(from, response),
            Event::Gossip(packet) => {
                self.gossip.handle_packet(&packet, now());
                self.hear_gossip();
            }
            Event::Report(command) => self.report(command),
            Event::Uses(total, told) => {
                self.uses = (total, told);
                self.spread_bounds();
            }
            Event::Behind => self.member.hurry(),
            Event::Met(address, cluster, node) => self.met(&address, cluster, node),
        }
    }

    fn tick(&mut self) {
        let time = now();
        self.reception.registry.tick();
        self.tell_failures(time);
        self.tell_uses(time);
        let is_stuck = self.reception.mailboxes.iter().any(|mailbox| mailbox.is_stuck(time));
        if !is_stuck && let Some(request) = self.member.handle_tick(time) {
            self.ask(request);
        }
        self.gossip.handle_timeout(time);
        if self.gossip.trusted().next().is_none() {
            let others = self.peers.nodes();
            let draw = usize::try_from(random() >> 32).expect("32 bits fit memory");
            if let Some(node) = draw.checked_rem(others.len()).map(|place| others[place]) {
                self.gossip.join(Peer { node, incarnation: Incarnation(0), revival: 0 }, time);
            }
        }
        self.hear_gossip();
        self.reception.asking.tick();
        self.reported.retain(|_, at| time.since(*at) < REPORT_EVERY);
        self.show();
        if self.state.status().is_ready {
            self.greeters.retain(|(address, _)| !self.met.contains(address));
        }
    }

    /// Tells the cluster which shards have failed, so that others take over what they held. Without any that is left the node cannot go on.
    fn tell_failures(&mut self, time: Time) {
        if self.failures_told_at.is_some_and(|at| time.since(at) < FAILURES_EVERY) {
            return;
        }
        self.failures_told_at = Some(time);
        let failures: Vec<Option<Error>> =
            self.reception.mailboxes.iter().map(|mailbox| mailbox.figures().failure()).collect();
        let shards = u32::try_from(failures.len()).expect("a node has few shards");
        if failures.iter().all(Option::is_some) {
            let error = failures.into_iter().flatten().next().expect("a node has a shard");
            return self.reception.events.fail(error);
        }
        let replica = self.member.replica();
        for shard in
            (0..shards).zip(&failures).filter(|(_, failure)| failure.is_some()).map(|(shard, _)| shard)
        {
            self.report(Command::Lose { replica, shard, shards });
        }
    }

    /// Tells the one who leads what this node holds of keyspaces with quotas, and hears what all nodes do.
    fn tell_uses(&mut self, time: Time) {
        if self.uses_told_at.is_some_and(|at| time.since(at) < USES_EVERY) {
            return;
        }
        self.uses_told_at = Some(time);
        if self.known.quotas().is_empty() {
            return;
        }
        let own = self.own_uses().fold(Uses::new(), sum_of);
        let events = self.reception.events.clone();
        if self.voting.voter.leading_term().is_some() {
            self.ledger.lock().tell(time, self.me(), own.clone());
            if let Some(total) = total_of(&self.ledger, &self.voting) {
                events.tell(Event::Uses(total, own));
            }
            return;
        }
        let Some(leader) = self.leader.filter(|leader| *leader != self.me()) else { return };
        let Some(link) = self.peers.link(leader) else { return };
        let way = self.reception.relay.way(leader, &link);
        let answer = self.reception.asking.ask_member(leader, &way, &Request::Uses(own.clone()));
        tokio::spawn(async move {
            if let Ok((_, Response::Uses(total))) = answer.await {
                events.tell(Event::Uses(total, own));
            }
        });
    }

    /// What each shard holds.
    fn own_uses(&self) -> impl Iterator<Item = Uses> {
        self.reception.mailboxes.iter().map(|mailbox| mailbox.figures().held())
    }

    /// Tells each shard which keyspaces have quotas, and what lies elsewhere.
    fn spread_bounds(&self) {
        let quotas = self.known.quotas();
        let own: Vec<Uses> = self.own_uses().collect();
        for (place, mailbox) in self.reception.mailboxes.iter().enumerate() {
            let others = own.iter().enumerate().filter(|(other, _)| *other != place);
            let others = others.fold(Uses::new(), |sum, (_, uses)| sum_of(sum, uses.clone()));
            let bounds = bounds_for(&quotas, &self.uses.0, &self.uses.1, &others);
            mailbox.put(Mail::Notices(None, Arc::new([Notice::Bounds(bounds)])));
        }
    }

    /// Asks the cluster manager something for this node.
    fn ask(&mut self, request: Request) {
        let me = self.me();
        let Some(node) = self.contact.ask(now()) else { return };
        let events = self.reception.events.clone();
        if node == me {
            let voter = self.voting.voter.clone();
            tokio::spawn(async move {
                if let Some(response) = voter.serve(request).await {
                    events.tell(Event::Answered(me, response));
                }
            });
            return;
        }
        let Some(link) = self.peers.link(node) else { return self.contact.turn() };
        let way = self.reception.relay.way(node, &link);
        let answer = self.reception.asking.ask_member(node, &way, &request);
        tokio::spawn(async move {
            if let Ok((_, response)) = answer.await {
                events.tell(Event::Answered(node, response));
            }
        });
    }

    /// The cluster manager has answered this node.
    fn answered(&mut self, from: NodeId, response: Response) {
        self.contact.heard(&response);
        match &response {
            Response::Elsewhere(_)
            | Response::Report(_)
            | Response::Hatch(_)
            | Response::Ticket(..)
            | Response::Token(_)
            | Response::Seal(_)
            | Response::Denied(..)
            | Response::Uses(_)
            | Response::View(_) => {}
            Response::Ring(difference) => {
                self.look_for_another(difference);
                self.look_for_itself(difference);
            }
            Response::Evicted(replica) => {
                tracing::warn!(%from, ?replica, "this incarnation was evicted");
                // For ever, perhaps.
                self.ask(Request::Ring(RingVersion(0)));
            }
            Response::Granted(_, difference) => {
                self.leader = Some(from);
                if difference.reached.is_none() {
                    // There is more.
                    self.member.hurry();
                }
            }
            Response::Registered(number) => {
                self.leader = Some(from);
                tracing::info!(%from, node = %number, "registered");
            }
            Response::Replied(_) => self.leader = Some(from),
        }
        let is_registration = matches!(response, Response::Registered(_));
        self.member.handle_response(now(), response);
        self.spread();
        if is_registration {
            // Until it says what it has lost it counts as having all that it held: what was said of that before was of nobody yet.
            self.reported.clear();
            self.failures_told_at = None;
            self.tell_failures(now());
        }
    }

    /// Ends if another process is this node: of an earlier process the cluster knows an earlier incarnation, and of this one its address.
    fn look_for_another(&mut self, difference: &Difference) {
        let (me, first) = (self.me(), self.member.first());
        let mine = self.member.address();
        let is_another = |member: &cluster::Member| {
            member.incarnation.start() > first.start()
                || member.incarnation >= first && member.address != *mine
        };
        let another = difference.facts.iter().find_map(|fact| match fact {
            Fact::Member(node, member) if *node == me && is_another(member) => Some(member),
            _ => None,
        });
        if let Some(another) = another {
            self.reception.events.fail(Error::exists(format!(
                "another process has started as node {} at {}: one of the two directories is a copy of the other, and lacks what was written \
                 since. Which of them is not known here: stop both, and let only the one go on that was written last",
                me.0, another.address
            )));
        }
    }

    /// A node that was removed from its cluster never belongs to it again. As long as it may vote, others may need it to go on without it; who
    /// votes no more may never hear of that, so it waits no longer than that takes.
    fn look_for_itself(&mut self, difference: &Difference) {
        let me = self.me();
        let has_left = |fact: &Fact| match fact {
            Fact::Member(node, member) => *node == me && member.state == MemberState::Left,
            _ => false,
        };
        if !difference.facts.iter().any(has_left) {
            return;
        }
        let time = now();
        let since = *self.left_since.get_or_insert(time);
        let voter = &self.voting.voter;
        let is_late = time.since(since) >= LEAVE_AFTER;
        if voter.leading_term().is_none() && (is_late || !voter.voters().contains(&me)) {
            self.reception.events.fail(Error::denied(format!(
                "node {} was removed from its cluster for good; to join again as another node, use empty directories",
                me.0
            )));
        }
    }

    /// How the node is doing.
    fn describe(&self) -> Report {
        let (status, time) = (self.state.status(), now());
        Report {
            replica: self.member.replica(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: u64::try_from(self.state.uptime().as_micros()).unwrap_or(u64::MAX),
            lease_left: self.member.lease_ends().filter(|end| *end > time).map(|end| end.since(time)),
            is_ready: status.is_ready,
            leads: status.leads,
            ring_version: status.ring_version,
            shards: self.reception.mailboxes.iter().map(|mailbox| mailbox.figures().shown().report).collect(),
        }
    }

    /// Tells the shards what the member has to say, and takes what it needs itself.
    fn spread(&mut self) {
        let notices: Arc<[Notice]> = self.member.take_notices().into();
        if notices.is_empty() {
            return;
        }
        self.reception.registry.take(notices.iter().filter_map(|notice| match notice {
            Notice::Fact(fact) => Some(fact),
            _ => None,
        }));
        let (mut has_keyspaces, mut has_members) = (false, false);
        for notice in &*notices {
            match notice {
                Notice::Fact(fact) => {
                    has_keyspaces |= self.known.take(fact);
                    if let Fact::Member(node, member) = fact {
                        has_members |= self.learn(*node, member);
                    }
                }
                Notice::Version(version) => {
                    self.known.version = *version;
                    self.reception.registry.reach(*version);
                }
                Notice::Incarnation(me) => {
                    tracing::info!(node = %me.node, incarnation = me.incarnation.0, "goes on")
                }
                Notice::Lease(_) | Notice::Bounds(_) => {}
            }
        }
        if has_keyspaces {
            *self.reception.names.write() = Arc::new(self.known.names());
            *self.reception.quotas.write() = Arc::new(self.known.quotas());
        }
        let keyspaces = has_keyspaces.then(|| Arc::new(self.known.keyspaces()));
        for mailbox in &self.reception.mailboxes {
            mailbox.put(Mail::Notices(keyspaces.clone(), notices.clone()));
        }
        if has_keyspaces {
            // What lies elsewhere is as it was said last; of a new quota nothing was.
            self.spread_bounds();
        }
        if has_members {
            self.contact = Membership::contact(self.me(), &self.peers, self.leader, self.patience);
            self.keep_card();
        }
        self.show();
    }

    /// Takes what a member is. Whether that changes who can be asked.
    fn learn(&mut self, node: NodeId, member: &cluster::Member) -> bool {
        if member.state == MemberState::Left {
            self.peers.forget(node);
            return true;
        }
        let address: Address = match member.address.as_str().parse() {
            Ok(address) => address,
            Err(never) => match never {},
        };
        let link = self.peers.learn(node, &address);
        self.link(node, &address, link)
    }

    /// Tells the shards of a new link, if it is one.
    fn link(&mut self, node: NodeId, address: &Address, link: Option<Link>) -> bool {
        let Some(link) = link else { return false };
        tracing::info!(%node, %address, "a member is known");
        for mailbox in &self.reception.mailboxes {
            mailbox.put(Mail::Link(node, link.clone()));
        }
        true
    }

    /// Writes down where the others are. What is not written is learned anew.
    fn keep_card(&self) {
        let (keeper, peers) = (self.keeper.clone(), self.peers.clone());
        tokio::task::spawn_blocking(move || {
            // Looked up by whoever writes, so that who writes last writes the newest.
            if let Err(error) = keeper.change(|card| card.peers = peers.addresses()) {
                tracing::warn!(%error, "cannot keep where the other members are");
            }
        });
    }

    fn met(&mut self, address: &Address, cluster: Option<ClusterId>, node: Option<NodeId>) {
        let ours = self.cluster;
        if let Some(theirs) = cluster.filter(|theirs| *theirs != ours) {
            let error = Error::invalid(format!(
                "the directory '{}' belongs to cluster {:032x}, but {address} to cluster {:032x}; check the addresses to join by, or \
                 use an empty directory",
                self.directory.display(),
                ours.0,
                theirs.0
            ));
            // It has others to serve with, who do not lose it because a stranger has come to an address.
            match self.peers.nodes().is_empty() {
                true => self.reception.events.fail(error),
                false => tracing::error!(%error, "a node that is named to join by is of another cluster"),
            }
            self.pass_by(address);
            return;
        }
        let Some(node) = node else { return };
        self.pass_by(address);
        let link = self.peers.meet(node, address);
        if self.link(node, address, link) {
            self.contact = Membership::contact(self.me(), &self.peers, self.leader, self.patience);
            self.keep_card();
        }
    }

    /// Somebody has answered at an address to join by: nobody is waited for there any more.
    fn pass_by(&mut self, address: &Address) {
        if self.greeters.iter().any(|(greeted, _)| greeted == address) && !self.met.contains(address) {
            self.met.push(address.clone());
        }
    }

    /// Reports something to the cluster manager, unless that was just done.
    fn report(&mut self, command: Command) {
        let bytes = to_bytes(&command);
        if self.reported.len() < REPORTED_MAX && !self.reported.contains_key(&bytes) {
            self.reported.insert(bytes, now());
            self.ask(Request::Command(command));
        }
    }

    /// Answers a question of somebody else, or carries it to the one who leads.
    fn serve(&self, mut question: Question) {
        // What nodes hold is for them to tell.
        if !question.is_of_member()
            && let Request::Uses(uses) = &mut question.request
        {
            uses.clear();
        }
        if question.request == Request::Report {
            return question.back.reply(Response::Report(self.describe()));
        }
        if let Some(denied) = self.denies(&question) {
            self.reception.counts.denied();
            return question.back.reply(denied);
        }
        if let Request::View(scope) = question.request {
            return self.console.clone().serve(scope, question);
        }
        let is_of_member = question.is_of_member();
        let serving = if is_of_member { &self.serving_members } else { &self.serving_others };
        // What is too much is asked again.
        let Ok(permit) = serving.clone().try_acquire_owned() else { return };
        let (voting, reception, peers) = (self.voting.clone(), self.reception.clone(), self.peers.clone());
        let (voter, sealer) = (voting.voter.clone(), self.sealer.clone());
        // A voter hears nothing more when it ceases to be one; what this node has learned by its lease is newer then.
        let (me, leader, known) = (self.me(), self.granter(), self.known.version);
        let ledger = self.ledger.clone();
        // A node that has something to tell names every keyspace with a quota; what it carries for others names none.
        if let (Request::Uses(uses), Party::Node { node, .. }) = (&question.request, question.party)
            && !uses.is_empty()
        {
            ledger.lock().tell(now(), NodeId(node), uses.clone());
        }
        tokio::spawn(async move {
            let _permit = permit;
            // Until it is answered, whoever asked can ask only so much more.
            let Question { request, back, receipt: _receipt, .. } = question;
            let is_stale = matches!(request, Request::Ring(_)) && voter.look(Cluster::version) < known;
            let served = match is_stale {
                true => Some(Response::Elsewhere(None)),
                false => match &request {
                    Request::Token(order) => sealer.make_token(order).await,
                    Request::Seal => sealer.make_seal().await,
                    Request::Uses(_) if voter.leading_term().is_some() => {
                        total_of(&ledger, &voting).map(Response::Uses)
                    }
                    Request::Uses(_) => Some(Response::Elsewhere(voter.other_leader())),
                    _ => voter.serve(request.clone()).await,
                },
            };
            let Some(response) = served else { return };
            if changes_access(&request, &response) {
                // All nodes are to act on it now, and not only when they renew their leases.
                reception.events.tell(Event::Behind);
                for node in peers.nodes() {
                    Frame::message(MANAGER, |_| {}).into_iter().for_each(|frame| peers.send(node, frame));
                }
                // Who asked for it sees the effect here at once, unless this node hears nothing itself.
                let version = voter.look(Cluster::version);
                let _late = timeout(HEARD_AFTER, reception.registry.reached(version)).await;
            }
            let Response::Elsewhere(other) = response else { return back.reply(response) };
            let other = other.or(leader).filter(|other| *other != me);
            let way = other.and_then(|other| Some((other, reception.relay.way(other, &peers.link(other)?))));
            match way.filter(|_| !is_of_member) {
                Some((to, way)) => reception.asking.carry(to, &way, &request, back),
                None => back.reply(Response::Elsewhere(other)),
            }
        });
    }

    /// Who granted the lease that this node has. One whose lease has run out may have had it from somebody who is dead.
    fn granter(&self) -> Option<NodeId> {
        self.leader.filter(|_| self.member.has_lease(now()))
    }

    /// What a client that had to be let in is told in place of what it asks for, if it has no right to that.
    fn denies(&self, question: &Question) -> Option<Response> {
        let caller = question.caller.as_ref()?;
        let denied = match needs_of(&question.request) {
            Needs::Nothing => return None,
            Needs::Node => Response::Denied(Scope::Cluster, Rights::ALL),
            Needs::Rights(scope, rights) => match caller.entitlement(&self.reception.registry) {
                Some(has) if has.allows(scope, rights) => return None,
                _ => Response::Denied(scope, rights),
            },
        };
        // The audit has it; whoever asks again and again does not fill the log.
        tracing::debug!(%caller, "a client asks for what it has no right to");
        Some(denied)
    }

    fn hear_gossip(&mut self) {
        while let Some(effect) = self.gossip.poll_effect() {
            match effect {
                GossipEffect::Send(to, packet) => {
                    let frame = Frame::message(GOSSIP, |out| out.extend_from_slice(&packet));
                    if let (Some(link), Some(frame)) = (self.peers.link(to), frame) {
                        let _lost = link.send(frame);
                    }
                }
                GossipEffect::Suspect(node) => {
                    tracing::info!(%node, "a member is suspected");
                    self.voting.voter.suspect(node);
                }
                GossipEffect::Trust(node) => {
                    tracing::info!(%node, "a member is heard of");
                    self.voting.voter.trust(node);
                }
            }
        }
    }

    /// Shows how it stands.
    fn show(&self) {
        let has_lease = self.member.has_lease(now());
        self.state.show(|status| {
            status.has_lease = has_lease;
            status.ring_version = self.known.version;
            status.is_ready =
                has_lease && self.known.version > RingVersion(0) && !self.known.classes.is_empty();
            status.leads = self.voting.voter.is_confirmed();
            status.voters = self.voting.voter.voters().len();
        });
    }
}

fn sum_of(mut sum: Uses, uses: Uses) -> Uses {
    for (keyspace, held) in uses {
        sum.entry(keyspace).or_default().add(held);
    }
    sum
}

/// What all nodes hold, if all have told lately who may hold anything.
fn total_of(ledger: &Mutex<Ledger>, voting: &Voting) -> Option<Uses> {
    let present: Vec<NodeId> =
        voting.voter.look(|cluster| cluster.present().map(|replica| replica.node).collect());
    ledger.lock().total(now(), present)
}

/// Whether accounts, seals, or rights have changed by what was answered.
fn changes_access(request: &Request, response: &Response) -> bool {
    match (request, response) {
        (Request::Seal | Request::Token(_), Response::Seal(_) | Response::Token(_)) => true,
        (Request::Command(command), Response::Replied(Ok(_))) => matches!(
            command,
            Command::RemoveAccount(_)
                | Command::CreateAccount { .. }
                | Command::Enroll { .. }
                | Command::Dismiss { .. }
                | Command::Grant { .. }
                | Command::RevokeTokens { .. }
                | Command::RemoveSeal(_)
        ),
        _ => false,
    }
}

/// A node hears of a change that it has made itself within this time, if it hears anything.
const HEARD_AFTER: Duration = Duration::from_secs(1);
/// The task looks around this often.
const TICK_EVERY: Duration = Duration::from_millis(20);
/// A node that was removed goes on for this long if it may vote, in microseconds.
const LEAVE_AFTER: u64 = 5_000_000;
/// A node tells this often what it holds of keyspaces with quotas, in microseconds.
const USES_EVERY: u64 = 250_000;
/// It is looked and told this often which shards have failed, in microseconds.
const FAILURES_EVERY: u64 = 200_000;
/// The same is reported this often at most, in microseconds.
const REPORT_EVERY: u64 = 100_000;
/// The most reports in that time; more are said again.
const REPORTED_MAX: usize = 4096;
/// The most questions that are being answered at once, of members, and of others.
pub(crate) const SERVING_MAX: usize = 1024;

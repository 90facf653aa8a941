//! What each thing that a client can say takes.

use tyr_proto::{
    Extent, HeadPlan, Operation, SessionId, TransactionId,
    access::{Entitlement, Rights, Scope},
    cluster::{Command, Difference, Fact, Request, Response},
    message::{Message, RequestId},
};
use tyr_types::KeyspaceId;

/// What was denied, so that the client can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A transaction.
    Transaction(TransactionId),
    /// Payload of one.
    Stage(TransactionId),
    /// Something that was to be read.
    Request(RequestId),
    /// What only a node, or another client, may say: nobody is told.
    Foreign,
}

/// Whether a message of a client to a partition may pass.
pub(crate) fn judge(message: &Message, own: SessionId, rights: &Entitlement) -> Result<(), Denied> {
    let of_session = |session: SessionId| if session == own { Ok(()) } else { Err(Denied::Foreign) };
    let reads = |request: RequestId, keyspaces: &mut dyn Iterator<Item = KeyspaceId>| {
        of_session(request.session)?;
        for keyspace in keyspaces {
            if !rights.rights(keyspace).has(Rights::READ) {
                return Err(Denied::Request(request));
            }
        }
        Ok(())
    };
    match message {
        Message::Start(plan) => {
            of_session(plan.id.session)?;
            plan.reserve.map_or(Ok(()), |reserve| of_session(reserve.session))?;
            let may = plan.heads.iter().all(|head| rights.rights(head.blob.keyspace).has(needed(head)));
            if may { Ok(()) } else { Err(Denied::Transaction(plan.id)) }
        }
        Message::AskOutcome { id, settle: false } | Message::KeepStages { id } => of_session(id.session),
        // Both are remembered. Who has no rights any more cannot be told either that what it has sent did not happen.
        Message::AskOutcome { id: TransactionId { session, .. }, settle: true }
        | Message::Answered { session, .. } => {
            of_session(*session)?;
            let may = rights.allows_anywhere(Rights::READ) || rights.allows_anywhere(Rights::WRITE);
            if may { Ok(()) } else { Err(Denied::Foreign) }
        }
        Message::GiveBack { session, .. } => of_session(*session),
        Message::Stage(stage) => {
            of_session(stage.id.session)?;
            // What it is for is known when the transaction begins. Until then it takes up room.
            if rights.allows_anywhere(Rights::WRITE) { Ok(()) } else { Err(Denied::Stage(stage.id)) }
        }
        Message::StageCopy(copy) => {
            of_session(copy.id.session)?;
            let reads = rights.rights(copy.chunk.blob.keyspace).has(Rights::READ);
            if reads && rights.allows_anywhere(Rights::WRITE) { Ok(()) } else { Err(Denied::Stage(copy.id)) }
        }
        Message::Look { request, blob }
        | Message::Get { request, blob, .. }
        | Message::Borrow { request, blob, .. } => reads(*request, &mut std::iter::once(blob.keyspace)),
        Message::GetWith { request, blob, others, .. } => {
            reads(*request, &mut std::iter::once(blob).chain(others).map(|blob| blob.keyspace))
        }
        Message::Stat { request, blobs } => reads(*request, &mut blobs.iter().map(|blob| blob.keyspace)),
        Message::Read { request, chunk, .. }
        | Message::Locate { request, chunk, .. }
        | Message::Seek { request, chunk, .. } => reads(*request, &mut std::iter::once(chunk.blob.keyspace)),
        Message::Kept { request, keep, .. } => reads(*request, &mut std::iter::once(keep.keyspace)),
        Message::Scan { request, after, .. } => reads(*request, &mut std::iter::once(after.keyspace)),
        // What it tells goes to who has asked for the freeze.
        Message::Pin { request, .. } | Message::TellFrozen { request, .. } => of_session(request.session),
        Message::Freeze { freeze, stands } if stands.is_empty() => {
            of_session(freeze.request.session)?;
            // One that stays keeps others from writing.
            let needed = if freeze.stays { Rights::READ | Rights::WRITE } else { Rights::READ };
            let has = |keyspace: KeyspaceId| rights.rights(keyspace).has(needed);
            let may = match &freeze.extent {
                Extent::Blobs(blobs) => blobs.iter().all(|(_, blob)| has(blob.keyspace)),
                Extent::Prefixes(prefixes) => prefixes.iter().all(|(keyspace, _)| has(*keyspace)),
                // It is for who has begun the snapshot, and tells nothing of what is in it.
                Extent::Keyspace(keyspace, _) => rights.rights(*keyspace).has(Rights::ADMINISTER),
            };
            if may { Ok(()) } else { Err(Denied::Request(freeze.request)) }
        }
        Message::Freeze { .. }
        | Message::Frozen { .. }
        | Message::Pass { .. }
        | Message::Release { .. }
        | Message::Write { .. }
        | Message::Vote { .. }
        | Message::AskVote { .. }
        | Message::Outcome { .. }
        | Message::OutcomeStored { .. }
        | Message::Olds { .. }
        | Message::Ask { .. }
        | Message::AskNumber { .. }
        | Message::NumberLost { .. }
        | Message::AskPrevious { .. }
        | Message::PreviousOver { .. }
        | Message::AskRoom { .. }
        | Message::Room { .. }
        | Message::AskStands { .. }
        | Message::Stands { .. }
        | Message::AskPurge { .. }
        | Message::Purge { .. }
        | Message::Forget { .. }
        | Message::Forgotten { .. }
        | Message::Pull { .. }
        | Message::Pulled(_)
        | Message::Settle { .. }
        | Message::Settled { .. }
        | Message::SendCopy { .. }
        | Message::CopyLost { .. }
        | Message::Fetch { .. }
        | Message::Fetched { .. }
        | Message::Append { .. }
        | Message::Stored { .. }
        | Message::Reconcile { .. }
        | Message::Reconciled { .. }
        | Message::Copy { .. }
        | Message::Copied { .. }
        | Message::AskPins { .. }
        | Message::Pins { .. }
        | Message::Collected { .. }
        | Message::Collect { .. }
        | Message::Subscribe { .. }
        | Message::Cached { .. }
        | Message::Uncache { .. }
        | Message::Uncached { .. } => Err(Denied::Foreign),
    }
}

/// What a transaction's part at one blob takes: whether it is refused tells of what it has seen, and a transform tells what was there.
fn needed(head: &HeadPlan) -> Rights {
    let tells = |operation: &Operation| matches!(operation, Operation::Transform { .. });
    let writes = if head.operations.is_empty() { Rights::NONE } else { Rights::WRITE };
    let reads = head.operations.is_empty() || head.depends_on_blob() || head.operations.iter().any(tells);
    if reads { writes | Rights::READ } else { writes }
}

/// What a question to the cluster manager takes of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing more than to have been let in.
    Nothing,
    /// These rights.
    Rights(Scope, Rights),
    /// To be a node.
    Node,
}

/// What a question takes.
pub(crate) fn needs_of(request: &Request) -> Needs {
    let cluster = Needs::Rights(Scope::Cluster, Rights::ADMINISTER);
    match request {
        Request::Ring(_) | Request::Newest(_) | Request::Report | Request::Hatch | Request::Uses(_) => {
            Needs::Nothing
        }
        Request::Register(..) | Request::Lease(..) => Needs::Node,
        // A view names keyspaces and blobs, whoever may read them.
        Request::View(_) | Request::Token(_) | Request::Seal => cluster,
        Request::Command(command) => match command {
            Command::AlterKeyspace { id, .. }
            | Command::DropKeyspace(id)
            | Command::BeginSnapshot { keyspace: id, .. }
            | Command::CompleteSnapshot { keyspace: id, .. }
            | Command::DropSnapshot { keyspace: id, .. } => {
                Needs::Rights(Scope::Keyspace(*id), Rights::ADMINISTER)
            }
            Command::Grant { scope: scope @ Scope::Keyspace(_), .. } => {
                Needs::Rights(*scope, Rights::ADMINISTER)
            }
            Command::Drain(_)
            | Command::Leave(_)
            | Command::Restore(_)
            | Command::Replace { .. }
            | Command::Abandon(_)
            | Command::GiveUp(_)
            | Command::CreateClass(..)
            | Command::CreateKeyspace { .. }
            // A quota is for who runs the cluster: who administers a keyspace gives it no more room.
            | Command::SetQuota { .. }
            | Command::CreateAccount { .. }
            | Command::RemoveAccount(_)
            | Command::Enroll { .. }
            | Command::Dismiss { .. }
            | Command::Grant { .. }
            | Command::RevokeTokens { .. }
            | Command::RemoveSeal(_) => cluster,
            Command::Found(_)
            | Command::Register { .. }
            | Command::Evict(_)
            | Command::RemoveReplica { .. }
            | Command::LearnerComplete { .. }
            | Command::Release { .. }
            | Command::Retarget { .. }
            | Command::Advance(_)
            | Command::Lose { .. }
            | Command::AddSeal(..) => Needs::Node,
        },
    }
}

/// What a client sees of a response: accounts are for administrators.
pub(crate) fn see(response: Response, rights: &Entitlement) -> Response {
    match response {
        Response::Ring(Difference { mut facts, next, reached }) => {
            if !super::sees_accounts(rights) {
                facts.retain(|fact| !matches!(fact, Fact::Account(..) | Fact::Seal(..)));
            }
            Response::Ring(Difference { facts, next, reached })
        }
        Response::Uses(mut uses) => {
            uses.retain(|keyspace, _| rights.rights(*keyspace) != Rights::NONE);
            Response::Uses(uses)
        }
        response => response,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use tyr_proto::{
        BlobName, ClassId, Condition, Epoch, KeepName, NodeId, PartitionId, Plan, RingVersion, Seen,
        SnapshotId, Stand,
        access::{Account, AccountKind, AccountState},
        encoding::{Decode, from_bytes},
    };
    use tyr_types::{Key, Op, Operand, Transform};

    use super::*;

    const OWN: SessionId = SessionId(7);
    const OTHER: SessionId = SessionId(8);

    fn rights(granted: Rights) -> Entitlement {
        let account = Account {
            name: "ada".parse().unwrap(),
            kind: AccountKind::User,
            seed: 0,
            groups: Default::default(),
            grants: [(Scope::Keyspace(KeyspaceId(1)), granted)].into(),
            generation: 0,
            state: AccountState::Exists,
        };
        Entitlement::of([&account].into_iter())
    }

    fn blob(keyspace: u32) -> BlobName {
        BlobName { keyspace: KeyspaceId(keyspace), key: Key::new("a").unwrap() }
    }

    fn start(session: SessionId, heads: &[(u32, Option<Seen>, Vec<Operation>)]) -> Message {
        start_if(session, &[], heads)
    }

    fn start_if(
        session: SessionId,
        conditions: &[Condition],
        heads: &[(u32, Option<Seen>, Vec<Operation>)],
    ) -> Message {
        let partition = PartitionId { class: ClassId(0), index: 0 };
        let heads = heads.iter().map(|(keyspace, seen, operations)| HeadPlan {
            partition,
            blob: blob(*keyspace),
            seen: seen.clone(),
            conditions: conditions.to_vec(),
            operations: operations.clone(),
        });
        let id = TransactionId { session, sequence: 1, birth: RingVersion(1) };
        Message::Start(Arc::new(Plan { id, answered: 1, reserve: None, heads: heads.collect() }))
    }

    fn may(granted: Rights, message: &Message) -> bool {
        judge(message, OWN, &rights(granted)).is_ok()
    }

    #[test]
    fn a_transaction_takes_the_rights_of_all_that_it_does() {
        let add = Transform::new(Op::Add, Operand::U64(1)).unwrap();
        let (read, write, both) = (Rights::READ, Rights::WRITE, Rights::READ | Rights::WRITE);
        let writes = || vec![Operation::Append { bytes: vec![1].into() }];
        let transforms = || vec![Operation::Transform { offset: 0, transform: add }];
        for (seen, operations, needed) in [
            (None, writes(), write),
            (None, vec![Operation::Delete], write),
            (None, transforms(), both),
            (Some(Seen::default()), writes(), both),
            (Some(Seen::default()), Vec::new(), read),
            (None, Vec::new(), read),
        ] {
            let message = start(OWN, &[(1, seen, operations)]);
            for granted in [Rights::NONE, read, write, both, Rights::ADMINISTER] {
                assert_eq!(may(granted, &message), granted.has(needed), "{granted} for {message:?}");
            }
        }
        let writes_if = start_if(OWN, &[Condition::Exists], &[(1, None, writes())]);
        assert!(
            may(both, &writes_if) && !may(write, &writes_if),
            "whether it is refused tells what is there"
        );
        assert!(!may(Rights::ALL, &start(OWN, &[(1, None, writes()), (2, None, writes())])));
        assert!(!may(Rights::ALL, &start(OTHER, &[(1, None, writes())])), "in somebody else's name");
    }

    #[test]
    fn who_may_only_administer_reads_and_writes_nothing() {
        let request = RequestId { session: OWN, number: 1 };
        assert!(!may(Rights::ADMINISTER, &Message::Look { request, blob: blob(1) }));
        assert!(may(Rights::READ, &Message::Look { request, blob: blob(1) }));
        assert!(!may(Rights::ALL, &Message::Look { request, blob: blob(2) }));
        assert!(!may(Rights::ALL, &Message::Stat { request, blobs: vec![blob(1), blob(2)] }));
        let borrow = |number| Message::Borrow { request, blob: blob(number), size_max: 1 };
        assert!(may(Rights::READ, &borrow(1)) && !may(Rights::ALL, &borrow(2)));
        let give_back = |session| Message::GiveBack { session, blob: blob(2), asked: 1 };
        assert!(may(Rights::NONE, &give_back(OWN)) && !may(Rights::ALL, &give_back(OTHER)));
        let get = |others| Message::GetWith { request, blob: blob(1), size_max: 1, others };
        assert!(may(Rights::ALL, &get(vec![blob(1)])) && !may(Rights::ALL, &get(vec![blob(2)])));
    }

    #[test]
    fn who_may_do_nothing_has_nobody_remember_anything() {
        let ask = |settle, session| {
            let id = TransactionId { session, sequence: 1, birth: RingVersion(1) };
            Message::AskOutcome { id, settle }
        };
        for granted in [Rights::NONE, Rights::ADMINISTER] {
            assert!(may(granted, &ask(false, OWN)));
            assert_eq!(judge(&ask(true, OWN), OWN, &rights(granted)), Err(Denied::Foreign), "{granted}");
        }
        assert!(may(Rights::READ, &ask(true, OWN)) && may(Rights::WRITE, &ask(true, OWN)));
        assert!(!may(Rights::ALL, &ask(true, OTHER)) && !may(Rights::ALL, &ask(false, OTHER)));
    }

    #[test]
    fn who_copies_reads_what_is_copied_and_may_write_somewhere() {
        let (partition, chunk) = (PartitionId { class: ClassId(0), index: 0 }, |keyspace| {
            tyr_proto::ChunkName { blob: blob(keyspace), index: 0 }
        });
        let copy = |session, keyspace| {
            Message::StageCopy(Arc::new(tyr_proto::StageCopy {
                id: TransactionId { session, sequence: 1, birth: RingVersion(1) },
                decider: partition,
                payload: (0, 0),
                from: 0,
                chunk: chunk(keyspace),
                range: 0..1,
                at: Default::default(),
            }))
        };
        assert!(may(Rights::READ | Rights::WRITE, &copy(OWN, 1)));
        for granted in [Rights::READ, Rights::WRITE, Rights::ADMINISTER] {
            assert!(!may(granted, &copy(OWN, 1)), "{granted}");
        }
        assert!(!may(Rights::ALL, &copy(OWN, 2)), "of a keyspace that it may not read");
        assert!(!may(Rights::ALL, &copy(OTHER, 1)), "in somebody else's name");
        let Message::StageCopy(copied) = copy(OWN, 1) else { unreachable!() };
        assert!(!may(Rights::ALL, &Message::SendCopy { copy: copied, partition }));
    }

    #[test]
    fn a_freeze_that_others_have_passed_on_is_no_clients() {
        let request = RequestId { session: OWN, number: 1 };
        let extent = Extent::Prefixes(vec![(KeyspaceId(1), b""[..].into())]);
        let freeze = |stays, stands| Message::Freeze {
            freeze: Arc::new(tyr_proto::Freeze { request, stays, extent: extent.clone() }),
            stands,
        };
        let stand = Stand { epoch: Epoch(1), count: 1 };
        assert!(may(Rights::READ, &freeze(false, vec![])));
        assert!(!may(Rights::READ, &freeze(true, vec![])), "it keeps others from writing");
        assert!(may(Rights::READ | Rights::WRITE, &freeze(true, vec![])));
        assert!(!may(Rights::ALL, &freeze(false, vec![stand])));
    }

    #[test]
    fn who_may_read_a_keyspace_reads_its_snapshots_and_who_administers_it_takes_and_drops_them() {
        let (keyspace, snapshot) = (KeyspaceId(1), SnapshotId(2));
        let (request, point) = (RequestId { session: OWN, number: 1 }, Stand { epoch: Epoch(1), count: 1 });
        let keep = KeepName { keyspace, snapshot, point };
        let kept = Message::Kept { request, keep, after: None };
        assert!(may(Rights::READ, &kept) && !may(Rights::WRITE | Rights::ADMINISTER, &kept));
        let extent = Extent::Keyspace(keyspace, snapshot);
        let freeze = Arc::new(tyr_proto::Freeze { request, stays: false, extent });
        let take = Message::Freeze { freeze, stands: vec![] };
        assert!(may(Rights::ADMINISTER, &take) && !may(Rights::READ | Rights::WRITE, &take));
        let name = tyr_types::KeyspaceName::new("monday").unwrap();
        let commands = [
            Command::BeginSnapshot { keyspace, name, taken: 7, seed: 1 },
            Command::CompleteSnapshot { keyspace, snapshot, point },
            Command::DropSnapshot { keyspace, snapshot },
        ];
        for command in commands {
            let needs = needs_of(&Request::Command(command));
            assert_eq!(needs, Needs::Rights(Scope::Keyspace(keyspace), Rights::ADMINISTER));
        }
    }

    /// Which numbers messages of clients begin with, in the layout of messages.
    const OF_CLIENTS: std::ops::Range<u8> = 0..32;

    #[test]
    fn nothing_that_nodes_say_is_taken_from_a_client() {
        // The samples of the protocol have a message of every kind.
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/tests/fixtures/layouts-2.txt");
        let text = std::fs::read_to_string(fixture).unwrap();
        let mut judged = 0;
        for line in text.lines().filter(|line| line.starts_with("Message::")) {
            let (name, hex) = line.rsplit_once(' ').unwrap();
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap())
                .collect();
            let envelope: tyr_proto::message::Envelope = decoded(&bytes);
            // Behind the class and the index of the partition.
            if !OF_CLIENTS.contains(&bytes[2]) {
                let judgement = judge(&envelope.message, SessionId(77), &Entitlement::full());
                assert_eq!(judgement, Err(Denied::Foreign), "{name}");
                judged += 1;
            }
        }
        assert!(judged > 20, "{judged} kinds");
    }

    fn decoded<T: Decode>(bytes: &[u8]) -> T {
        from_bytes(bytes).unwrap()
    }

    #[test]
    fn what_a_node_reports_no_client_can() {
        let replica = tyr_proto::Replica { node: NodeId(1), incarnation: tyr_proto::Incarnation(1) };
        for command in [
            Command::Evict(replica),
            Command::Advance(RingVersion(2)),
            Command::Lose { replica, shard: 0, shards: 1 },
            Command::Found(Vec::new()),
        ] {
            assert_eq!(needs_of(&Request::Command(command)), Needs::Node);
        }
    }
}

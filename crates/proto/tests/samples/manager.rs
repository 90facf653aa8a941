//! Values of what the cluster manager is told, asked, and knows.

use super::*;

pub fn commands() -> Vec<Command> {
    let (partition, epoch, replica) = (partition(0), Epoch(1), replica(2));
    let (class, settings) = (ClassId(1), KeyspaceSettings { quota: Some(1 << 30), ..Default::default() });
    let name = KeyspaceName::new("events").unwrap();
    vec![
        Command::Found(vec![Identity(1 << 127), Identity(2)]),
        register(2),
        Command::Evict(replica),
        Command::GiveUp(NodeId(2)),
        Command::RemoveReplica { partition, epoch, by: replica, replica },
        Command::LearnerComplete { partition, epoch, by: replica, learner: replica },
        Command::Release { partition, epoch, replica, handed_to: Some(replica) },
        Command::Retarget { class, targets: vec![vec![NodeId(1), NodeId(2)], vec![NodeId(2)]] },
        Command::Drain(NodeId(3)),
        Command::Leave(NodeId(3)),
        Command::CreateClass(class, class_settings()),
        Command::CreateKeyspace { name, class, seed: 0x1234_5678_9abc, settings: settings.clone() },
        Command::AlterKeyspace { id: KeyspaceId(1), settings },
        Command::Advance(RingVersion(300)),
        Command::DropKeyspace(KeyspaceId(1)),
        Command::SetQuota { id: KeyspaceId(1), quota: Some(1 << 40) },
        Command::BeginSnapshot {
            keyspace: KeyspaceId(1),
            name: named(7, None).name,
            taken: 1_800_000_000,
            seed: 7,
        },
        Command::CompleteSnapshot { keyspace: KeyspaceId(1), snapshot: SnapshotId(2), point: keep().point },
        Command::DropSnapshot { keyspace: KeyspaceId(1), snapshot: SnapshotId(2) },
        Command::Restore(NodeId(3)),
        Command::Replace { old: NodeId(3), new: NodeId(300) },
        Command::Abandon(NodeId(3)),
        Command::Lose { replica, shard: 1, shards: 4 },
    ]
    .into_iter()
    .chain(access_commands())
    .collect()
}

/// In the order in which a cluster without accounts takes them.
fn access_commands() -> Vec<Command> {
    let account =
        |name, kind, seed| Command::CreateAccount { name: AccountName::new(name).unwrap(), kind, seed };
    let (user, group) = (AccountId(1), AccountId(2));
    let seal = Seal { public: [7; 32], salt: [9; 32] };
    vec![
        account("ada", AccountKind::User, 0x1234_5678_9abc),
        account("readers", AccountKind::Group, 3),
        account("gone", AccountKind::User, 4),
        Command::Enroll { user, group },
        Command::Dismiss { user: AccountId(3), group },
        Command::RemoveAccount(AccountId(3)),
        Command::Grant { account: group, scope: Scope::Keyspaces, more: Rights::READ, less: Rights::WRITE },
        Command::Grant {
            account: user,
            scope: Scope::Keyspace(KeyspaceId(1)),
            more: Rights::ALL,
            less: Rights::NONE,
        },
        Command::Grant { account: user, scope: Scope::Cluster, more: Rights::ADMINISTER, less: Rights::NONE },
        Command::RevokeTokens { user, before: 1 },
        Command::AddSeal(SealId(1), seal.clone()),
        Command::AddSeal(SealId(2), seal),
        Command::RemoveSeal(SealId(1)),
    ]
}

pub fn claims() -> Claims {
    Claims {
        cluster: ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        seal: SealId(2),
        user: AccountId(300),
        generation: 1,
        number: 0x1234_5678_9abc,
        issued: 1_800_000_000,
        expires: 1_800_086_400,
        limits: vec![(Scope::Cluster, Rights::ADMINISTER), (Scope::Keyspace(KeyspaceId(5)), Rights::READ)],
        holder: [8; 32],
    }
}

fn register(number: u32) -> Command {
    Command::Register {
        identity: Identity(u128::from(number)),
        incarnation: Incarnation(4),
        memory_since: Incarnation(3),
        zone: Zone::new("rack 1").unwrap(),
        weight: 100,
        address: Address::new("host-1:7300").unwrap(),
    }
}

fn class_settings() -> ClassSettings {
    ClassSettings {
        partitions: 2,
        durability: Durability::Memory,
        zones: ZoneRule::Require,
        ..ClassSettings::new(2)
    }
}

pub fn replies() -> Vec<cluster::Reply> {
    use cluster::{Answer, Refusal};
    let refusals = [
        Refusal::NotFounded,
        Refusal::Stale,
        Refusal::NotFound,
        Refusal::Taken,
        Refusal::NotEntitled,
        Refusal::TooFew,
        Refusal::Busy,
        Refusal::Invalid,
        Refusal::LastCopy,
        Refusal::NoSecret,
    ];
    let answers = [
        Answer::Done(RingVersion(9)),
        Answer::Registered(NodeId(1), RingVersion(1)),
        Answer::KeyspaceCreated(KeyspaceId(1), RingVersion(300)),
        Answer::AccountCreated(AccountId(2), RingVersion(300)),
        Answer::SnapshotBegun(SnapshotId(2), RingVersion(300)),
    ];
    answers.into_iter().map(Ok).chain(refusals.into_iter().map(Err)).collect()
}

pub fn requests() -> Vec<cluster::Request> {
    use cluster::Request;
    let lease = LeaseRequest { holder: replica(1), sent: Time(1_000_000) };
    vec![
        Request::Command(Command::Drain(NodeId(3))),
        Request::Register(replica(2), register(2)),
        Request::Lease(lease, Position::whole(RingVersion(7))),
        Request::Ring(RingVersion(300)),
        Request::Newest(RingVersion(300)),
        Request::Report,
        Request::Hatch,
        Request::Token(cluster::TokenOrder {
            user: AccountId(300),
            lifetime: 86_400,
            limits: vec![(Scope::Keyspaces, Rights::READ)],
            holder: [8; 32],
        }),
        Request::Seal,
        Request::View(cluster::ViewOf::Cluster),
        Request::Uses([(KeyspaceId(5), Use { blobs: 3, bytes: 1 << 33 })].into()),
    ]
}

pub fn responses(cluster: &Cluster) -> Vec<cluster::Response> {
    use cluster::Response;
    let lease = LeaseRequest { holder: replica(1), sent: Time(1_000_000) };
    vec![
        Response::Registered(NodeId(2)),
        Response::Granted(lease, cluster.changes_since(Position::default(), 2)),
        Response::Evicted(replica(2)),
        Response::Ring(cluster.changes_since(Position::default(), 1)),
        Response::Elsewhere(Some(NodeId(3))),
        Response::Replied(Ok(cluster::Answer::Done(RingVersion(9)))),
        Response::Replied(Err(cluster::Refusal::TooFew)),
        Response::Report(report()),
        Response::Hatch(Some(Address::new("unix:/data/hatch").unwrap())),
        Response::Ticket(Address::new("unix:/data/hatch").unwrap(), 1 << 127),
        Response::Token(vec![1, 2, 3]),
        Response::Seal(SealId(2)),
        Response::Denied(Scope::Keyspace(KeyspaceId(5)), Rights::WRITE),
        Response::View(Some("{\"version\":1}".to_owned())),
        Response::Uses([(KeyspaceId(5), Use { blobs: 3, bytes: 1 << 33 })].into()),
    ]
}

fn report() -> cluster::Report {
    use cluster::{PartitionReport, PartitionRole, Report, ShardReport};
    let held = |index, role| PartitionReport {
        partition: partition(index),
        epoch: Epoch(3),
        role,
        last: 391,
        stored: 390,
        lag: 2,
        copying: 1,
        waiting: 4,
        held: 5,
        driven: 6,
        readers: 7,
        pins: 8,
        pin_age: 2_000_000,
        backlog: 9,
    };
    let roles = [
        PartitionRole::None,
        PartitionRole::Primary,
        PartitionRole::NewPrimary,
        PartitionRole::Backup,
        PartitionRole::NewBackup,
    ];
    let shard = ShardReport {
        directory: "/data/shard-0".into(),
        weight: 100,
        space_total: 1 << 40,
        space_free: 1 << 39,
        used: 1 << 30,
        live: 1 << 29,
        queue: 3,
        is_full: true,
        has_failed: false,
        partitions: (0..).zip(roles).map(|(index, role)| held(index, role)).collect(),
    };
    Report {
        replica: replica(2),
        version: "0.1.0".into(),
        uptime: 1_000_000,
        lease_left: Some(2_000_000),
        is_ready: true,
        leads: false,
        ring_version: RingVersion(300),
        shards: vec![shard, ShardReport::default()],
    }
}

pub fn subjects() -> Vec<cluster::Subject> {
    use cluster::Subject;
    vec![
        Subject::Class(ClassId(1)),
        Subject::Member(NodeId(300)),
        Subject::Keyspace(KeyspaceId(5)),
        Subject::Partition(partition(7)),
        Subject::Version,
        Subject::Account(AccountId(300)),
        Subject::Seal(SealId(2)),
    ]
}

/// A cluster in which something waits, something was dropped, and somebody was evicted.
pub fn cluster() -> Cluster {
    let mut cluster = Cluster::new(ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
    cluster.apply(Command::Found(vec![Identity(1)])).unwrap();
    for number in 1..=4 {
        cluster.apply(register(number)).unwrap();
    }
    let class = ClassId(1);
    cluster.apply(Command::CreateClass(class, class_settings())).unwrap();
    let targets = vec![vec![NodeId(1), NodeId(2)], vec![NodeId(2), NodeId(3)]];
    cluster.apply(Command::Retarget { class, targets }).unwrap();
    for name in ["events", "gone"] {
        let settings = KeyspaceSettings { durability: Durability::Memory, ..Default::default() };
        let name = KeyspaceName::new(name).unwrap();
        cluster.apply(Command::CreateKeyspace { name, class, seed: 5, settings }).unwrap();
    }
    cluster.apply(Command::DropKeyspace(KeyspaceId(2))).unwrap();
    let targets = vec![vec![NodeId(2), NodeId(1)], vec![NodeId(2), NodeId(3)]];
    cluster.apply(Command::Retarget { class, targets }).unwrap();
    let evicted = Replica { node: NodeId(4), incarnation: Incarnation(4) };
    cluster.apply(Command::Evict(evicted)).unwrap();
    cluster.apply(Command::Replace { old: NodeId(3), new: NodeId(1) }).unwrap();
    let lost = Replica { node: NodeId(2), incarnation: Incarnation(4) };
    cluster.apply(Command::Lose { replica: lost, shard: 1, shards: 2 }).unwrap();
    cluster
}

/// The same with users, a group, and seals.
pub fn guarded() -> Cluster {
    let mut cluster = cluster();
    for command in access_commands() {
        cluster.apply(command).unwrap();
    }
    cluster
}

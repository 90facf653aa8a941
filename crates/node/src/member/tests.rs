//! How a node registers, is granted its lease, and goes on after an eviction.

use tyr_proto::{
    ClassId, Incarnation, LeaseTerms, NodeId, Replica, RingVersion, Time,
    cluster::{
        self, Address, ClassSettings, Cluster, ClusterId, Command, Difference, Fact, Identity, MemberState,
        Position, Presence, Request, Response, Zone,
    },
};

use super::{Member, Notice, Settings};

fn member() -> Member {
    let settings = Settings {
        identity: Identity(7),
        zone: Zone::new("z").expect("a short name"),
        weight: 1,
        address: Address::new("host:1").expect("a short address"),
        terms: LeaseTerms { length: 1_000, drift_max: 0 },
        renew_after: 100,
    };
    Member::new(settings, NodeId(1), 3)
}

fn nothing_new() -> Difference {
    let version = RingVersion(1);
    Difference { facts: Vec::new(), next: Position::whole(version), reached: Some(version) }
}

/// Registers and asks for a lease at a time.
fn ask_for_lease(member: &mut Member, now: u64) -> Response {
    member.handle_tick(Time(now)).expect("registers");
    member.handle_response(Time(now), Response::Registered(member.replica().node));
    match member.handle_tick(Time(now)) {
        Some(Request::Lease(request, _)) => Response::Granted(request, nothing_new()),
        other => panic!("asks for no lease: {other:?}"),
    }
}

fn incarnation(request: Option<Request>) -> (u64, u64) {
    match request {
        Some(Request::Register(_, Command::Register { incarnation, memory_since, .. })) => {
            (incarnation.0, memory_since.0)
        }
        other => panic!("does not register: {other:?}"),
    }
}

#[test]
fn a_lease_counts_from_when_it_was_asked_for() {
    let mut member = member();
    let granted = ask_for_lease(&mut member, 10);
    assert!(!member.has_lease(Time(10)));
    member.handle_response(Time(500), granted);
    assert!(member.has_lease(Time(1_009)) && !member.has_lease(Time(1_010)));
    let notices = member.take_notices();
    let [Notice::Lease(until), Notice::Version(_)] = notices[..] else { panic!("{notices:?}") };
    assert_eq!(until, Some(Time(1_010)));
}

#[test]
fn who_was_told_the_last_piece_of_a_version_says_that_it_has_all_of_it() {
    let mut cluster = Cluster::new(ClusterId(7));
    let mut member = member();
    let Some(Request::Register(_, register)) = member.handle_tick(Time(0)) else {
        panic!("it registers first")
    };
    member.handle_response(Time(0), Response::Registered(NodeId(1)));
    let class = ClassSettings { partitions: 8, ..ClassSettings::new(1) };
    let retarget = Command::Retarget { class: ClassId(0), targets: vec![vec![NodeId(1)]; 8] };
    for command in [Command::Found(Vec::new()), register, Command::CreateClass(ClassId(0), class), retarget] {
        cluster.apply(command).expect("nothing stands in its way");
    }
    let mut told = Vec::new();
    for now in (1..=20).map(|turn| 10 + 100 * turn) {
        let Some(Request::Lease(request, position)) = member.handle_tick(Time(now)) else {
            panic!("it is registered")
        };
        told.push(position.reached());
        let piece = cluster.changes_since(position, 2);
        member.handle_response(Time(now), Response::Granted(request, piece));
    }
    let told_twice = |pair: &[RingVersion]| pair[0] == pair[1] && pair[0] < cluster.version();
    assert!(told.windows(2).any(told_twice), "the last version comes in pieces: {told:?}");
    assert_eq!(told.last(), Some(&cluster.version()));
}

#[test]
fn what_is_not_answered_is_asked_again_and_not_too_often() {
    let mut member = member();
    assert!(member.handle_tick(Time(0)).is_some() && member.handle_tick(Time(99)).is_none());
    assert!(matches!(member.handle_tick(Time(100)), Some(Request::Register(..))));
}

#[test]
fn an_evicted_process_gives_everything_up_and_registers_a_higher_incarnation_with_its_memory() {
    let mut member = member();
    let granted = ask_for_lease(&mut member, 0);
    member.handle_response(Time(1), granted.clone());
    let before = member.replica();
    member.take_notices();
    member.handle_response(Time(2), Response::Evicted(before));
    assert!(!member.has_lease(Time(2)));
    let notices = member.take_notices();
    assert!(matches!(notices[..], [Notice::Lease(None), Notice::Incarnation(_)]), "{notices:?}");
    let (now, since) = incarnation(member.handle_tick(Time(3)));
    assert!(now > before.incarnation.0 && since == before.incarnation.0);
    // A grant for what it was is none for what it is.
    member.handle_response(Time(4), granted);
    assert!(!member.has_lease(Time(4)));
    member.handle_response(Time(5), Response::Evicted(before));
    assert_eq!(member.replica().incarnation.0, now, "it is not evicted twice");
}

#[test]
fn a_later_start_has_a_higher_incarnation_than_any_eviction_of_an_earlier_one() {
    let mut early = member();
    for _ in 0..1_000 {
        early.handle_response(Time(0), Response::Evicted(early.replica()));
    }
    let late = Member::new(early.settings.clone(), NodeId(1), 4);
    assert!(early.replica().incarnation < late.replica().incarnation);
}

#[test]
fn a_node_learns_its_number_when_it_registers() {
    let mut member = Member::new(member().settings, NodeId(0), 1);
    member.handle_tick(Time(0));
    member.handle_response(Time(1), Response::Registered(NodeId(9)));
    let learned = Replica { node: NodeId(9), ..member.replica() };
    let notices = member.take_notices();
    assert!(matches!(notices[..], [Notice::Incarnation(me)] if me == learned), "{notices:?}");
}

#[test]
fn what_an_earlier_process_asked_for_is_not_taken_for_an_answer() {
    let mut earlier = member();
    let granted = ask_for_lease(&mut earlier, 0);
    let mut later = Member::new(earlier.settings.clone(), NodeId(1), 4);
    let whole = ask_for_lease(&mut later, 5);
    later.handle_response(Time(6), granted);
    assert!(
        later.take_notices().is_empty(),
        "it tells what changed since a ring that this process never knew"
    );
    later.handle_response(Time(7), whole);
    assert!(matches!(later.take_notices()[..], [Notice::Lease(Some(_)), Notice::Version(_)]));
}

#[test]
fn an_answer_that_comes_late_undoes_nothing() {
    let address = |text| Address::new(text).expect("a short address");
    let told = |address: Address, version| {
        let zone = Zone::new("z").expect("a short name");
        let member = cluster::Member {
            identity: Identity(8),
            incarnation: Incarnation(1),
            memory_since: Incarnation(1),
            zone,
            weight: 1,
            address,
            state: MemberState::Active,
            presence: Presence::Present,
        };
        Difference {
            facts: [Fact::Member(NodeId(2), member)].into(),
            next: Position::whole(RingVersion(version)),
            reached: Some(RingVersion(version)),
        }
    };
    let mut member = member();
    let Response::Granted(early, _) = ask_for_lease(&mut member, 0) else { panic!("asked for a lease") };
    member.hurry();
    let Some(Request::Lease(late, _)) = member.handle_tick(Time(50)) else { panic!("asks again") };
    member.handle_response(Time(60), Response::Granted(late, told(address("new:1"), 12)));
    let facts = |member: &mut Member| {
        let notices = member.take_notices().into_iter();
        notices.filter(|notice| !matches!(notice, Notice::Lease(_))).collect::<Vec<Notice>>()
    };
    assert_eq!(facts(&mut member).len(), 2);
    // Of one who led before, or by a detour.
    member.handle_response(Time(70), Response::Granted(early, told(address("old:1"), 10)));
    assert!(facts(&mut member).is_empty(), "the older address would stay");
    member.hurry();
    let Some(Request::Lease(_, position)) = member.handle_tick(Time(80)) else { panic!("asks again") };
    assert_eq!(position, Position::whole(RingVersion(12)));
}

#[test]
fn a_member_that_has_stopped_serves_and_asks_nothing() {
    let mut member = member();
    let granted = ask_for_lease(&mut member, 0);
    member.handle_response(Time(1), granted.clone());
    member.stop();
    member.handle_response(Time(2), granted);
    assert!(!member.has_lease(Time(2)) && member.handle_tick(Time(500)).is_none());
}

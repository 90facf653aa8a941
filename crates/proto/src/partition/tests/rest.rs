//! Logs that nobody adds to.

use super::{
    served::{DONE, Served, append},
    *,
};
use crate::cluster::ClassSettings;

/// Has something logged at once.
fn write(router: &mut Router, now: u64, sequence: u64) {
    let message = Message::AskOutcome { id: id(sequence), settle: true };
    router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
    run(router);
}

fn tick(router: &mut Router, now: u64) {
    router.handle_tick(Time(now), true);
    run(router);
}

fn log_of(router: &Router) -> (u64, u64) {
    let log = router.partition(partition(0)).unwrap().log();
    (log.start(), log.last())
}

/// A primary alone, as it has ever been, of a class of three replicas.
fn primary_alone() -> Router {
    let mut router = primary();
    router.handle_class(ClassId(0), ClassSettings::new(3));
    router.set_limits(Limits { idle_after: 1_000_000, ..Limits::default() });
    router
}

#[test]
fn the_log_of_a_partition_at_rest_is_let_go_of_and_goes_on() {
    let mut router = primary_alone();
    (1..=5).for_each(|sequence| write(&mut router, 10, sequence));
    tick(&mut router, 1_000_009);
    let (start, last) = log_of(&router);
    assert!(start < last, "it was written to a moment ago");
    tick(&mut router, 1_160_009);
    assert_eq!(log_of(&router), (last, last));
    assert!(router.partition(partition(0)).unwrap().is_idle());
    write(&mut router, 1_160_010, 6);
    assert_eq!(log_of(&router), (last, last + 1));
    assert!(!router.partition(partition(0)).unwrap().is_idle());
}

#[test]
fn as_long_as_a_replica_is_missing_the_log_waits_for_it_longer() {
    let mut router = primary_alone();
    for (epoch, set) in [(3, &[ME, OTHER][..]), (4, &[ME])] {
        router.handle_configuration(Time(0), true, partition(0), configuration(epoch, set, &[]));
        run(&mut router);
    }
    (1..=5).for_each(|sequence| write(&mut router, 10, sequence));
    tick(&mut router, 5_000_000);
    let (start, last) = log_of(&router);
    assert!(start < last && !router.partition(partition(0)).unwrap().is_idle());
    tick(&mut router, 20_000_010);
    assert_eq!(log_of(&router), (last, last));
}

#[test]
fn who_can_continue_nothing_of_its_log_is_sent_a_copy_though_the_primary_has_its_whole_log() {
    let mut router = primary();
    router.handle_configuration(Time(0), true, partition(0), configuration(3, &[ME], &[OTHER]));
    run(&mut router);
    assert_eq!(log_of(&router).0, 0);
    let mut answer = |index| {
        let message = Message::Reconciled { epoch: Epoch(3), index, node: NodeId(2) };
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(&mut router)
    };
    assert!(matches!(answer(Number::MAX.index())[..], [Message::Copy { from: 0, .. }]));
    assert!(matches!(answer(0)[..], [Message::Append { previous: 0, .. }]), "it has no log yet");
}

#[test]
fn a_replica_whose_log_begins_after_what_it_shares_with_the_primarys_says_so() {
    let mut router = Router::new(ME, Arc::new(BTreeMap::from([(KeyspaceId(1), keyspace(1))])));
    let log = crate::log::Log::after(7, Vec::from([(Epoch(1), 7)]));
    router.restore(super::super::Partition::restored(partition(0), ME, log, State::new(partition(0))));
    router.handle_configuration(Time(0), true, partition(0), configuration(3, &[OTHER], &[ME]));
    run(&mut router);
    let epochs = Vec::from([(Epoch(1), 5), (Epoch(3), 6)]);
    let message = Message::Reconcile { epoch: Epoch(3), epochs, start: 0 };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    let said = run(&mut router);
    assert!(
        matches!(said[..], [Message::Reconciled { index, .. }] if index == Number::MAX.index()),
        "{said:?}"
    );
}

#[test]
fn where_there_is_little_room_the_log_is_let_go_of_though_it_grows() {
    let mut router = primary();
    router.handle_room(true);
    (1..=5).for_each(|sequence| write(&mut router, 1_000_000, sequence));
    tick(&mut router, 1_000_010);
    let (start, last) = log_of(&router);
    assert_eq!((start, last), (last, last));
    write(&mut router, 1_000_020, 6);
    tick(&mut router, 1_170_000);
    assert_eq!(log_of(&router), (last, last + 1), "not every time: all heads are looked at");
    tick(&mut router, 2_200_000);
    assert_eq!(log_of(&router), (last + 1, last + 1));
    router.handle_room(false);
    write(&mut router, 2_200_010, 7);
    tick(&mut router, 3_400_000);
    assert_eq!(log_of(&router), (last + 1, last + 2));
}

#[test]
fn a_log_keeps_fewer_entries_that_are_large_unless_there_are_too_many_heads_to_look_at() {
    const SIZE: usize = 64 << 10;
    let kept = |others: usize| {
        let mut served = Served::new();
        let keys: Vec<_> = (0..others).map(|other| alloc::format!("{other:06}")).collect();
        for keys in keys.chunks(250) {
            let create = [Operation::Create];
            let heads: Vec<(&str, &[Operation])> =
                keys.iter().map(|key| (key.as_str(), &create[..])).collect();
            assert_eq!(served.ends(&heads), DONE);
        }
        let mut most = 0;
        for _ in 0..1000 {
            assert_eq!(served.does("large", append(SIZE)), DONE);
            let log = served.router.partition(partition(0)).unwrap().log();
            most = most.max(log.last() - log.start());
        }
        most
    };
    let few = kept(0);
    // As many outcomes as payloads.
    assert!((32..=70).contains(&few), "{few}");
    let many = kept(50_000);
    assert!((195..=260).contains(&many), "{many}");
}

#[test]
fn a_primary_hears_whether_there_is_room_at_its_backups_though_nobody_writes() {
    let mut router = primary();
    let set = configuration(3, &[OTHER, ME], &[]);
    router.handle_configuration(Time(0), true, partition(0), set);
    let rooms = |router: &mut Router, now| {
        router.handle_tick(Time(now), true);
        let told = run(router).into_iter().filter_map(|message| match message {
            Message::Stored { is_short, .. } => Some(is_short),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    router.handle_room(true);
    assert!(rooms(&mut router, 1).is_empty(), "it is not known yet what of its log is the primary's");
    let (start, last) = log_of(&router);
    let message = Message::Reconcile { epoch: Epoch(3), epochs: Vec::from([(Epoch(2), last)]), start };
    router.handle_message(Time(1), true, Envelope { partition: partition(0), message });
    run(&mut router);
    router.handle_room(false);
    assert_eq!(rooms(&mut router, 2), [false]);
    assert!(rooms(&mut router, 3).is_empty());
    router.handle_room(true);
    assert_eq!(rooms(&mut router, 4), [true]);
    assert!(rooms(&mut router, 1_000_000).is_empty(), "once");
}

#[test]
fn a_learner_whose_disk_never_takes_what_it_is_sent_is_given_up() {
    let mut router = primary();
    router.handle_configuration(Time(0), true, partition(0), configuration(3, &[ME], &[OTHER]));
    run(&mut router);
    let slow = |router: &mut Router, now| {
        // It begins anew each time, and answers.
        let message = Message::Reconciled { epoch: Epoch(3), index: Number::MAX.index(), node: NodeId(2) };
        router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
        router.handle_tick(Time(now), true);
        let mut slow = Vec::new();
        while let Some(output) = router.poll_output() {
            if let Output::ReplicaSlow(_, _, replica) = output {
                slow.push(replica);
            }
        }
        slow
    };
    for second in 1..=60 {
        assert_eq!(slow(&mut router, second * 1_000_000), [], "a copy may be large, and this one is small");
    }
    assert_eq!(slow(&mut router, 60_010_000), [OTHER]);
}

#[test]
fn a_backup_that_had_no_room_is_asked_though_nothing_is_logged() {
    let mut router = primary();
    router.handle_configuration(Time(0), true, partition(0), configuration(3, &[ME, OTHER], &[]));
    run(&mut router);
    let epoch = Epoch(3);
    let index = log_of(&router).1;
    let tell = |router: &mut Router, now, message| {
        router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
        run(router);
    };
    tell(&mut router, 1, Message::Reconciled { epoch, index, node: NodeId(2) });
    let asks = |router: &mut Router, now| {
        router.handle_tick(Time(now), true);
        run(router).iter().filter(|message| matches!(message, Message::Append { .. })).count()
    };
    assert_eq!(asks(&mut router, 2_000_000), 0, "it has room");
    tell(&mut router, 2_000_001, Message::Stored { epoch, index, node: NodeId(2), is_short: true });
    assert_eq!([3_500_000, 3_600_000].map(|now| asks(&mut router, now)), [1, 0]);
    tell(&mut router, 3_600_001, Message::Stored { epoch, index, node: NodeId(2), is_short: false });
    assert_eq!(asks(&mut router, 6_000_000), 0);
}

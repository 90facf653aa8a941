//! Transactions over many blobs at several stops.

use super::*;
use crate::{encoding::to_bytes, entry::Prepare};

/// A transaction that writes so many blobs at each of two partitions, of which the first is here.
fn start(blobs: u16) -> Message {
    let keyspace = keyspace(2);
    let head = |index: u32, blob: BlobName| {
        let operations = Vec::from([Operation::Write { offset: 0, bytes: [1; 4][..].into() }]);
        HeadPlan::blind(partition(index), blob, operations)
    };
    let heads = (0..2).flat_map(|index| {
        let names = (0_u32..).map(|number| alloc::format!("{number:08}"));
        let all = names.map(|name| BlobName { keyspace: KeyspaceId(1), key: Key::new(name).unwrap() });
        let here = all.filter(|blob| keyspace.partition_of(blob, 0) == partition(index));
        let heads: Vec<_> = here.take(usize::from(blobs)).map(|blob| head(index, blob)).collect();
        heads
    });
    Message::Start(Arc::new(Plan { id: id(1), answered: 0, reserve: None, heads: heads.collect() }))
}

/// How often it is passed on with what the node has to say.
fn passed_on(router: &mut Router) -> usize {
    run(router).iter().filter(|message| matches!(message, Message::Pass { .. })).count()
}

#[test]
fn the_more_there_is_to_say_at_the_more_stops_the_later_it_is_said_again() {
    for (blobs, expected) in [(1, [1, 1, 1]), (1000, [1, 0, 1])] {
        let mut router = primary_of(&keyspace(2));
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message: start(blobs) });
        let mut times = Vec::from([passed_on(&mut router)]);
        for now in [30_000, 300_000] {
            router.handle_tick(Time(now), true);
            times.push(passed_on(&mut router));
        }
        assert_eq!(times, expected, "{blobs} blobs");
    }
}

#[test]
fn a_transaction_of_a_head_that_is_not_there_holds_none_that_is() {
    for nowhere in [partition(7), partition(1)] {
        let mut router = primary_of(&keyspace(2));
        let Message::Start(plan) = start(1) else { unreachable!() };
        let mut plan = Plan::clone(&plan);
        // The second blob is one of partition 1, and this one is not.
        let elsewhere = plan.heads[0].blob.clone();
        plan.heads[1].partition = nowhere;
        if nowhere == partition(1) {
            plan.heads[1].blob = elsewhere.clone();
        }
        let message = Message::Start(Arc::new(plan));
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        assert_eq!(passed_on(&mut router), 0, "{nowhere}");
        assert!(router.partition(partition(0)).unwrap().state().head(&elsewhere).is_none(), "{nowhere}");
    }
}

#[test]
fn a_stop_votes_when_its_promise_is_durable_and_not_again_unless_it_is_asked() {
    let mut router = primary_of(&keyspace(2));
    let mut votes = |message| {
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        let sent = run(&mut router);
        sent.iter().filter(|message| matches!(message, Message::Vote { .. })).count()
    };
    assert_eq!(votes(start(1)), 1);
    assert_eq!(votes(Message::Release { id: id(1) }), 0);
    assert_eq!(votes(Message::AskVote { id: id(1), decider: partition(1) }), 1);
}

#[test]
fn a_vote_counts_that_comes_before_its_transaction() {
    let Message::Start(plan) = start(1) else { unreachable!() };
    let stop = Stop {
        partition: partition(0),
        heads: 0..1,
        number: Number::new(1, 7),
        effects: Vec::from([Arc::new(HeadEffect {
            existence: ExistenceEffect::Begins,
            ..Default::default()
        })]),
    };
    let vote = Message::Vote { id: id(1), part: Part::Heads(partition(0)) };
    let pass = Message::Pass { plan, stops: Vec::from([stop]) };
    let committed = |messages: &[&Message]| {
        let mut router = primary_of(&keyspace(2));
        router.handle_configuration(Time(0), true, partition(1), configuration(2, &[ME], &[]));
        run(&mut router);
        for message in messages {
            let message = Message::clone(message);
            router.handle_message(Time(0), true, Envelope { partition: partition(1), message });
            run(&mut router);
        }
        let record = router.partition(partition(1)).unwrap().state().record(id(1));
        record.and_then(|record| record.outcome) == Some(Outcome::Committed)
    };
    assert!(!committed(&[&pass]), "the other stop may lose its promise");
    assert!(committed(&[&pass, &vote]) && committed(&[&vote, &pass]));
}

#[test]
fn payload_is_not_passed_on_that_only_chunks_of_this_stop_get() {
    for (most, is_passed_on) in [(4, true), (3, false)] {
        let mut router = primary_of(&keyspace(2));
        router.set_limits(Limits { passed_on_max: most, ..Limits::default() });
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message: start(1) });
        let passed_on = run(&mut router).into_iter().find_map(|message| match message {
            Message::Pass { plan, stops } => Some((plan, stops)),
            _ => None,
        });
        let (plan, stops) = passed_on.unwrap();
        let sizes = plan.heads.iter().map(HeadPlan::payload_size).collect::<Vec<_>>();
        assert_eq!(sizes, if is_passed_on { [4, 4] } else { [0, 4] });
        let writes = &stops[0].effects[0].writes;
        assert_eq!((writes.len(), writes[0].operations.is_empty()), (1, !is_passed_on));
        let record = router.partition(partition(0)).unwrap().state().record(id(1)).unwrap();
        let (_, prepare) = record.prepare.as_ref().unwrap();
        assert_eq!(prepare.stop().effects[0].writes[0].operations.len(), 1);
        let sizes = prepare.plan.heads.iter().map(HeadPlan::payload_size).collect::<Vec<_>>();
        assert_eq!(sizes, if is_passed_on { [4, 4] } else { [4, 0] });
    }
}

#[test]
fn payload_that_only_later_stops_log_is_passed_on_again_until_they_have_it_and_by_none_who_follows() {
    let mut router = primary_of(&keyspace(2));
    router.set_limits(Limits { passed_on_max: 3, ..Limits::default() });
    let passed_on = |router: &mut Router| {
        let plan = run(router).into_iter().find_map(|message| match message {
            Message::Pass { plan, .. } => Some(plan),
            _ => None,
        });
        plan.map(|plan| plan.heads[1].operations.clone())
    };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message: start(1) });
    let whole = [Operation::Write { offset: 0, bytes: [1; 4][..].into() }];
    assert_eq!(passed_on(&mut router).unwrap(), whole);
    router.handle_tick(Time(30_000), true);
    assert_eq!(passed_on(&mut router).unwrap(), whole, "it may have been lost");
    router.handle_configuration(Time(30_000), true, partition(0), configuration(3, &[ME], &[]));
    run(&mut router);
    router.handle_tick(Time(100_000), true);
    assert_eq!(passed_on(&mut router).unwrap(), [Operation::Lost { length: 4 }]);
}

#[test]
fn a_stop_refuses_what_comes_without_its_payload_and_takes_what_it_has() {
    for is_known in [false, true] {
        let Message::Start(plan) = start(1) else { unreachable!() };
        let mut router = primary_of(&keyspace(2));
        router.handle_configuration(Time(0), true, partition(1), configuration(2, &[ME], &[]));
        run(&mut router);
        let number = Number::new(1, 7);
        let stop =
            Stop { partition: partition(0), heads: 0..1, number, effects: Vec::from([Arc::default()]) };
        let mut pass = |plan: Arc<Plan>| {
            let message = Message::Pass { plan, stops: Vec::from([stop.clone()]) };
            router.handle_message(Time(0), true, Envelope { partition: partition(1), message });
            run(&mut router);
        };
        if is_known {
            pass(plan.clone());
        }
        pass(plan.without_payload_from(1, 0));
        let record = router.partition(partition(1)).unwrap().state().record(id(1)).unwrap();
        let refusal = record.refused.as_ref().map(|(_, refused)| refused.refusal);
        assert_eq!(
            (record.prepare.is_some(), refusal),
            match is_known {
                true => (true, None),
                false => (false, Some(Refusal::Unstaged)),
            }
        );
    }
}

#[test]
fn payload_that_chunks_elsewhere_get_is_passed_on_and_reckoned() {
    let keyspace = keyspace(2);
    let mut router = primary_of(&keyspace);
    let Message::Start(plan) = start(1) else { unreachable!() };
    let mut plan = Plan::clone(&plan);
    let blobs = (0_u32..).map(|number| BlobName {
        keyspace: KeyspaceId(1),
        key: Key::new(alloc::format!("{number:08}")).unwrap(),
    });
    let is_spread =
        |blob: &BlobName| [0, 1].map(|chunk| keyspace.partition_of(blob, chunk)) == [0, 1].map(partition);
    let spread = blobs.into_iter().find(is_spread).unwrap();
    let write = |chunk: u64| {
        let bytes = alloc::vec![7; 3000].into();
        Operation::Write { offset: chunk * CHUNK_SIZE_MIN, bytes }
    };
    plan.heads[0].blob = spread;
    plan.heads[0].operations = Vec::from([write(0), write(1)]);
    let message = Message::Start(Arc::new(plan));
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    let passed_on = run(&mut router).into_iter().find_map(|message| match message {
        Message::Pass { plan, stops } => Some(Prepare { plan, stops }),
        _ => None,
    });
    let prepare = passed_on.unwrap();
    assert_eq!(prepare.plan.heads[0].payload_size(), 6000);
    let entry = Entry::Prepare(Arc::new(prepare));
    assert!(to_bytes(&entry).len() <= entry.size());
}

#[test]
fn what_is_lost_of_a_plan_counts_as_what_it_had() {
    let Message::Start(plan) = start(1) else { unreachable!() };
    let with_lost = |length| {
        let mut plan = Plan::clone(&plan);
        plan.heads[1].operations = Vec::from([Operation::Lost { length }, Operation::Lost { length: 1 }]);
        plan.is_too_large()
    };
    assert!(!with_lost(8 << 10));
    assert!(with_lost(8 << 20) && with_lost(u64::MAX));
}

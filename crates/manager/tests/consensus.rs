//! Voters and lease holders under faults, in a simulation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use kit::{MS, SECOND, World};
use tyr_proto::{
    NodeId, RingVersion,
    cluster::{Command, Presence, Request, Response},
};

fn formed(seed: u64) -> World {
    let mut world = World::new(seed, 3, 5);
    world.run(5 * SECOND);
    let leader = world.leader_seen_by(1).expect("three voters elect");
    assert_eq!(world.look(leader, |cluster| cluster.present().count()), 5);
    assert!((1..=5).all(|node| world.may_serve(node)), "everybody has a lease");
    world
}

fn others(leader: u32) -> Vec<u32> {
    (1..=3).filter(|voter| *voter != leader).collect()
}

#[test]
fn founders_have_their_numbers_and_everybody_gets_a_lease() {
    let world = formed(1);
    for node in 1..=3 {
        let identity = world.look(1, |cluster| cluster.member(NodeId(node)).unwrap().identity.0);
        assert_eq!(identity, u128::from(node));
    }
}

#[test]
fn a_leader_that_crashes_is_followed_and_nobody_else_loses_its_lease() {
    let mut world = formed(2);
    let leader = world.leader_seen_by(1).unwrap();
    world.kill(leader);
    let witness = others(leader)[0];
    for _ in 0..1_200 {
        world.run(10 * MS);
        for node in (1..=5).filter(|node| *node != leader) {
            assert_eq!(world.incarnation(node), 1, "node {node} was evicted");
        }
    }
    assert_ne!(world.leader_seen_by(witness), Some(leader));
    let presence = world.look(witness, |cluster| cluster.member(NodeId(leader)).unwrap().presence);
    assert_eq!(presence, Presence::Evicted);
    world.start(leader);
    world.run(5 * SECOND);
    assert!(world.may_serve(leader), "it is back as another incarnation");
    assert_eq!(world.look(leader, |cluster| cluster.present().count()), 5);
}

#[test]
fn a_minority_neither_logs_nor_evicts_nor_grants() {
    let mut world = formed(3);
    let leader = world.leader_seen_by(1).unwrap();
    let before = world.look(leader, tyr_proto::cluster::Cluster::version);
    // The leader keeps one node on its side; the two suspect all the others.
    world.part(&[leader, 5]);
    let side: Vec<u32> = (1..=4).filter(|node| *node != leader).collect();
    world.run(3 * SECOND);
    assert!(!world.may_serve(5) && !world.may_serve(leader), "nobody confirms their leases");
    world.run(7 * SECOND);
    assert_eq!(world.look(leader, tyr_proto::cluster::Cluster::version), before, "the minority is as it was");
    let witness = others(leader)[0];
    let present = |node| {
        move |cluster: &tyr_proto::cluster::Cluster| {
            cluster.member(NodeId(node)).unwrap().presence == Presence::Present
        }
    };
    for node in side {
        assert!(world.may_serve(node) && world.incarnation(node) == 1, "node {node} was disturbed");
        assert!(world.look(witness, present(node)));
    }
    assert!(!world.look(witness, present(5)) && !world.look(witness, present(leader)));
    world.heal();
    world.run(8 * SECOND);
    assert!((1..=5).all(|node| world.may_serve(node)), "everybody is back");
    assert_eq!((world.incarnation(5), world.incarnation(leader)), (2, 2));
}

#[test]
fn who_was_outvoted_answers_what_was_so_but_not_what_is_so() {
    let mut world = formed(3);
    let leader = world.leader_seen_by(1).unwrap();
    world.part(&[leader, 5]);
    world.run(10 * SECOND);
    let version = RingVersion(1);
    assert!(matches!(world.ask(leader, Request::Ring(version)), Some(Response::Ring(_))));
    assert!(matches!(world.ask(leader, Request::Newest(version)), Some(Response::Elsewhere(_))));
    let witness = others(leader)[0];
    let new = world.leader_seen_by(witness).unwrap();
    let newest = world.look(new, tyr_proto::cluster::Cluster::version);
    let Some(Response::Ring(difference)) = world.ask(new, Request::Newest(version)) else {
        panic!("a majority confirms the new leader")
    };
    assert_eq!(difference.reached, Some(newest));
    let follower = others(leader).into_iter().find(|voter| *voter != new).unwrap();
    let elsewhere = world.ask(follower, Request::Newest(version));
    assert_eq!(elsewhere, Some(Response::Elsewhere(Some(NodeId(new)))));
}

#[test]
fn without_a_majority_nobody_is_evicted_however_long_it_takes() {
    let mut world = formed(4);
    world.kill(1);
    world.kill(2);
    world.run(30 * SECOND);
    assert_eq!(world.look(3, |cluster| cluster.present().count()), 5);
    assert!((1..=5).all(|node| !world.may_serve(node)));
    world.start(1);
    world.run(8 * SECOND);
    assert!([1, 3, 4, 5].iter().all(|node| world.may_serve(*node)));
}

#[test]
fn a_new_leader_evicts_nobody_before_the_leases_of_the_old_one_are_over() {
    for seed in 10..20 {
        let mut world = formed(seed);
        let leader = world.leader_seen_by(1).unwrap();
        // Of the voters, node 4 reaches only the old leader, so its lease is of that one, up to the moment in which that is killed.
        // Gossip reaches it through others: nobody suspects it, and it is evicted after the grace.
        others(leader).iter().for_each(|voter| world.cut(4, *voter));
        world.run(SECOND);
        assert!(world.may_serve(4));
        world.kill(leader);
        world.run(30 * SECOND);
        let witness = others(leader)[0];
        let presence = world.look(witness, |cluster| cluster.member(NodeId(4)).unwrap().presence);
        assert_eq!(presence, Presence::Evicted, "seed {seed}");
        assert!(world.fenced > 0, "the run checked that it stopped serving before");
    }
}

/// Faults at random for a while, then none.
fn chaos(seed: u64) -> World {
    let mut world = formed(seed);
    for _ in 0..12 {
        let (what, node) = (world.tasks.random() % 7, 1 + u32::try_from(world.tasks.random() % 5).unwrap());
        let other = 1 + u32::try_from(world.tasks.random() % 5).unwrap();
        match what {
            0 | 1 => world.restart(node),
            2 => world.part(&[node]),
            3 => world.part(&[node, other]),
            4 => world.cut(node, other),
            5 => world.lose(100),
            _ => world.heal(),
        }
        let time = world.tasks.random() % (3 * SECOND);
        world.run(time);
    }
    world.heal();
    world.run(20 * SECOND);
    world
}

/// How many seeds a test tries: eight, or what `TYR_SIM_ITERATIONS` says.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("TYR_SIM_ITERATIONS").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(8)
}

#[test]
fn after_any_faults_everybody_is_back_and_agrees() {
    for seed in seeds() {
        let world = chaos(seed);
        assert!((1..=5).all(|node| world.may_serve(node)), "seed {seed}: somebody has no lease");
        let versions: Vec<_> = (1..=3).map(|voter| world.look(voter, |cluster| cluster.version())).collect();
        assert!(versions.iter().all(|version| *version == versions[0]), "seed {seed}: {versions:?}");
    }
}

#[test]
fn the_same_seed_twice_sends_the_same_messages() {
    for seed in seeds().take(4) {
        let first = chaos(seed).tasks.digest();
        assert_eq!(first, chaos(seed).tasks.digest(), "seed {seed}");
        assert_ne!(first, chaos(seed + 1_000_000).tasks.digest());
    }
}

#[test]
fn a_voter_that_comes_back_deposes_nobody_and_nobody_waits_for_it() {
    for seed in 30..34 {
        let mut world = formed(seed);
        let leader = world.leader_seen_by(1).unwrap();
        let away = others(leader)[0];
        let rest: Vec<u32> = (1..=5).filter(|node| *node != away).collect();
        for round in 0..3 {
            match round {
                0 => world.part(&[away]),
                1 => world.tasks.pause(away, world.tasks.true_time() + 8 * SECOND),
                _ => world.kill(away),
            }
            world.run(8 * SECOND);
            world.heal();
            if round == 2 {
                world.start(away);
            }
            for _ in 0..400 {
                world.run(10 * MS);
                assert_eq!(world.leader_seen_by(leader), Some(leader), "seed {seed}, round {round}");
                assert!(rest.iter().all(|node| world.may_serve(*node)), "seed {seed}, round {round}");
            }
            world.run(4 * SECOND);
            assert!(world.may_serve(away), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn a_leader_that_dies_is_followed_before_the_leases_of_others_run_out() {
    for seed in 40..48 {
        let mut world = formed(seed);
        let leader = world.leader_seen_by(1).unwrap();
        world.kill(leader);
        // Leases last two seconds, and are asked for every 400 milliseconds.
        world.run(1_500 * MS);
        for voter in others(leader) {
            let next = world.leader_seen_by(voter);
            assert!(next.is_some() && next != Some(leader), "seed {seed}: {voter} follows {next:?}");
        }
    }
}

#[test]
fn a_leader_that_hears_nobody_steps_aside_though_everybody_hears_it() {
    for seed in 50..54 {
        let mut world = formed(seed);
        let leader = world.leader_seen_by(1).unwrap();
        (1..=5).filter(|node| *node != leader).for_each(|node| world.cut(node, leader));
        world.run(4 * SECOND);
        let followed: Vec<Option<u32>> =
            others(leader).into_iter().map(|voter| world.leader_seen_by(voter)).collect();
        assert!(followed[0].is_some() && followed[0] != Some(leader), "seed {seed}: {followed:?}");
        assert_eq!(followed[0], followed[1], "seed {seed}");
    }
}

#[test]
fn a_leader_that_was_alone_leads_again_if_it_has_what_the_only_other_one_lacks() {
    for seed in 60..68 {
        let mut world = formed(seed);
        let leader = world.leader_seen_by(1).unwrap();
        let [dead, other] = others(leader)[..] else { panic!("three voters") };
        world.kill(dead);
        (1..=5).filter(|node| *node != other).for_each(|node| {
            world.cut(node, other);
            world.cut(other, node);
        });
        // It logs what nobody else has.
        world.ask(leader, Request::Command(Command::GiveUp(NodeId(dead))));
        world.run(seed % 4 * SECOND);
        world.heal();
        world.run(6 * SECOND);
        assert!([leader, other, 4, 5].iter().all(|node| world.may_serve(*node)), "seed {seed}");
    }
}

#[test]
fn a_leader_without_a_majority_takes_itself_for_one_now_and_then_but_is_never_confirmed() {
    let mut world = formed(5);
    let leader = world.leader_seen_by(1).unwrap();
    assert_eq!(world.leads(leader), (true, true));
    others(leader).into_iter().for_each(|voter| world.kill(voter));
    world.run(3 * SECOND);
    let mut unconfirmed = 0;
    for _ in 0..3_000 {
        world.run(10 * MS);
        let (leads, is_confirmed) = world.leads(leader);
        assert!(!is_confirmed);
        unconfirmed += u32::from(leads);
    }
    assert!(unconfirmed > 0, "it never took itself for one");
    world.start(others(leader)[0]);
    world.run(8 * SECOND);
    let confirmed = [leader, others(leader)[0]].into_iter().filter(|voter| world.leads(*voter).1);
    assert_eq!(confirmed.count(), 1);
}

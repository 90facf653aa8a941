//! Both sides of a lease together, on clocks that drift and start anywhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{vec, vec::Vec};
use core::iter::once;

use proptest::prelude::*;

use super::*;
use crate::{Incarnation, Lease};

const TERMS: LeaseTerms = LeaseTerms { length: 1_000, drift_max: 10_000 };
const HOLDER: Replica = Replica { node: NodeId(1), incarnation: Incarnation(1) };

fn leading(since: u64) -> Leases {
    let mut leases = Leases::new(TERMS, 500);
    leases.lead(Time(since));
    leases
}

fn request(sent: u64) -> LeaseRequest {
    LeaseRequest { holder: HOLDER, sent: Time(sent) }
}

#[test]
fn a_holder_counts_from_its_request_and_the_leader_from_its_grant() {
    let mut lease = Lease::new(HOLDER, TERMS);
    let mut leases = leading(0);
    assert!(!lease.may_serve(Time(0)));
    assert_eq!(leases.grant(lease.request(Time(5_000)), Time(100)), Grant::Granted(request(5_000)));
    lease.granted(request(5_000), Time(5_300));
    assert!(lease.may_serve(Time(5_999)) && !lease.may_serve(Time(6_000)));
    assert!(!leases.is_over(HOLDER, Time(1_109)) && leases.is_over(HOLDER, Time(1_110)));
}

#[test]
fn a_grant_for_another_incarnation_or_from_the_future_is_ignored() {
    let mut lease = Lease::new(HOLDER, TERMS);
    let before = Replica { incarnation: Incarnation(0), ..HOLDER };
    lease.granted(LeaseRequest { holder: before, sent: Time(10) }, Time(20));
    lease.granted(request(1_000_000), Time(20));
    assert!(!lease.may_serve(Time(20)));
}

#[test]
fn an_older_grant_does_not_shorten_a_lease_and_one_given_up_is_not_renewed() {
    let mut lease = Lease::new(HOLDER, TERMS);
    lease.granted(request(500), Time(600));
    lease.granted(request(100), Time(700));
    assert_eq!(lease.ends(), Some(Time(1_500)));
    lease.give_up();
    lease.granted(request(800), Time(900));
    assert!(!lease.may_serve(Time(900)));
}

#[test]
fn a_new_leader_evicts_nobody_for_a_full_lease() {
    let mut leases = leading(10_000);
    leases.suspect(NodeId(1));
    assert_eq!(leases.overdue(once(HOLDER), Time(11_009)), vec![]);
    assert_eq!(leases.overdue(once(HOLDER), Time(11_010)), vec![HOLDER]);
}

#[test]
fn suspicion_alone_evicts_nobody_and_silence_alone_only_after_the_grace() {
    let mut leases = leading(0);
    leases.grant(request(0), Time(2_000));
    leases.suspect(NodeId(1));
    assert_eq!(leases.overdue(once(HOLDER), Time(3_009)), vec![], "it still holds a lease");
    leases.trust(NodeId(1));
    assert_eq!(leases.overdue(once(HOLDER), Time(3_509)), vec![], "nobody suspects it");
    assert_eq!(leases.overdue(once(HOLDER), Time(3_510)), vec![HOLDER]);
}

#[test]
fn who_is_to_be_evicted_is_granted_nothing_more() {
    let mut leases = leading(0);
    leases.suspect(NodeId(1));
    assert_eq!(leases.overdue(once(HOLDER), Time(1_010)), vec![HOLDER]);
    assert_eq!(leases.grant(request(0), Time(1_011)), Grant::Evicted);
    assert_eq!(leases.overdue(once(HOLDER), Time(1_012)), vec![HOLDER], "its eviction may have been lost");
    let next = Replica { incarnation: Incarnation(2), ..HOLDER };
    assert_eq!(leases.overdue(once(next), Time(1_013)), vec![next], "it asked for no lease either");
}

fn replica(node: u32) -> Replica {
    Replica { node: NodeId(node), incarnation: Incarnation(1) }
}

/// A leader that heard of these nodes at these times for the last time.
fn heard(nodes: &[(u32, u64)]) -> Leases {
    let mut leases = leading(0);
    for (node, at) in nodes {
        leases.grant(LeaseRequest { holder: replica(*node), sent: Time(0) }, Time(*at));
    }
    leases
}

#[test]
fn who_was_heard_of_last_is_evicted_last() {
    let mut leases = heard(&[(1, 300), (2, 100), (3, 200)]);
    (1..=3).for_each(|node| leases.suspect(NodeId(node)));
    assert_eq!(leases.overdue([1, 2, 3].map(replica).into_iter(), Time(5_000)), [2, 3, 1].map(replica));
}

#[test]
fn nobody_is_evicted_before_one_that_has_been_silent_for_longer() {
    let all = || [1, 2, 3].map(replica).into_iter();
    let mut leases = heard(&[(1, 100), (2, 300), (3, 300)]);
    leases.suspect(NodeId(2));
    assert_eq!(leases.overdue(all(), Time(1_609)), vec![], "node 1 may be dead, and nobody suspects it yet");
    assert_eq!(leases.overdue(all(), Time(1_610)), [1, 2].map(replica), "its grace is over");
    let mut leases = heard(&[(1, 100), (2, 300), (3, 300)]);
    leases.suspect(NodeId(2));
    leases.grant(LeaseRequest { holder: replica(1), sent: Time(0) }, Time(1_400));
    assert_eq!(leases.overdue(all(), Time(1_400)), [2].map(replica), "node 1 was heard of again");
}

#[test]
fn who_does_not_lead_neither_grants_nor_evicts() {
    let mut leases = leading(0);
    leases.grant(request(0), Time(1));
    leases.step_down();
    leases.suspect(NodeId(1));
    assert_eq!(leases.grant(request(0), Time(2)), Grant::NotLeading);
    assert_eq!(leases.overdue(once(HOLDER), Time(1_000_000)), vec![]);
    assert!(!leases.is_over(HOLDER, Time(1_000_000)));
}

/// What happens next, after so many true microseconds.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request,
    /// The request number so many from the oldest reaches the leader, and a majority confirms that it leads.
    Arrive(usize),
    /// A grant reaches the holder.
    Return(usize),
    /// Another leader is elected; what is on its way to the old one is not granted.
    Elect,
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let what = prop_oneof![
        4 => Just(Event::Request),
        4 => (0..3_usize).prop_map(Event::Arrive),
        4 => (0..3_usize).prop_map(Event::Return),
        1 => Just(Event::Elect),
    ];
    (0..400_u64, what)
}

/// A clock that gains so many parts per million on true time, and began anywhere.
#[derive(Clone, Copy)]
struct Drifting {
    start: u64,
    gain: u64,
}

impl Drifting {
    fn at(self, truth: u64) -> Time {
        // The true time is kept in millionths of microseconds' fractions only here: rounding down is the clock's own.
        Time(self.start + truth + truth * self.gain / 1_000_000)
    }
}

fn clock() -> impl Strategy<Value = Drifting> {
    // Any two of these gain at most the bound on each other.
    (0..5_000_000_u64, prop_oneof![Just(0_u64), Just(u64::from(TERMS.drift_max)), 0..=10_000_u64])
        .prop_map(|(start, gain)| Drifting { start, gain })
}

impl core::fmt::Debug for Drifting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "from {} gaining {} ppm", self.start, self.gain)
    }
}

proptest! {
    #[test]
    fn nobody_serves_when_its_lease_is_over_for_the_leader(
        (holder, leaders) in (clock(), prop::collection::vec(clock(), 1..4)),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut lease = Lease::new(HOLDER, TERMS);
        let mut term = 0;
        let mut truth = 1;
        let mut leases = leading(leaders[0].at(truth).0);
        let (mut sent, mut granted) = (Vec::new(), Vec::new());
        for (elapsed, event) in events {
            let until = truth + elapsed;
            while truth < until {
                truth += 1;
                let is_over = leases.is_over(HOLDER, leaders[term].at(truth));
                prop_assert!(!is_over || !lease.may_serve(holder.at(truth)), "both at {}", truth);
            }
            match event {
                Event::Request => sent.push(lease.request(holder.at(truth))),
                Event::Arrive(which) if which < sent.len() => {
                    let answer = leases.grant(sent.remove(which), leaders[term].at(truth));
                    let Grant::Granted(request) = answer else { panic!("a leader grants") };
                    granted.push(request);
                }
                Event::Return(which) if which < granted.len() => {
                    // An eviction would have ended it; what comes back later is of no use to a holder that may not serve.
                    lease.granted(granted.remove(which), holder.at(truth));
                }
                Event::Elect if term + 1 < leaders.len() => {
                    term += 1;
                    leases.lead(leaders[term].at(truth));
                }
                _ => {}
            }
        }
    }
}

//! The anomalies that the checkers are for, each in its smallest form, by the name that the report gives it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use kit::{
    X, Y, add, append, append_at, at, create, delete, exists, history, list, numbered, part, read, refused,
    unknown, write,
};
use tyr_sim::{
    Action, Blob, History,
    check::{self, Verdict},
};

fn rule(verdict: Verdict) -> &'static str {
    verdict.expect_err("it is found").rule
}

fn serializability(history: &History) -> &'static str {
    let exact = check::exact::check(history);
    assert!(exact.is_err(), "there is an order");
    rule(check::serializability::check(history))
}

fn accepted(history: &History) {
    check::general(history).unwrap();
    check::exact::check(history).unwrap();
}

#[test]
fn a_write_skew_is_found() {
    let skew = history([
        at(0, 100, [list(X, []), append(Y, 1)]),
        at(0, 100, [list(Y, []), append(X, 2)]),
        at(200, 300, [list(X, [2]), list(Y, [1])]),
    ]);
    assert_eq!(serializability(&skew), "write skew (G2)");
    let registers =
        history([at(0, 100, [read(X, None), write(Y, 1)]), at(0, 100, [read(Y, None), write(X, 2)])]);
    assert_eq!(serializability(&registers), "write skew (G2)");
}

#[test]
fn a_lost_update_is_found() {
    let lists = history([
        at(0, 100, [list(X, []), append(X, 1)]),
        at(0, 100, [list(X, []), append(X, 2)]),
        at(200, 300, [list(X, [1, 2])]),
    ]);
    assert_eq!(serializability(&lists), "lost update (G-single)");
    let registers =
        history([at(0, 100, [read(X, None), write(X, 1)]), at(0, 100, [read(X, None), write(X, 2)])]);
    assert_eq!(serializability(&registers), "lost update (G-single)");
    let counters = history([at(0, 100, [add(X, 1, 0)]), at(0, 100, [add(X, 1, 0)])]);
    assert_eq!(serializability(&counters), "lost update");
    assert_eq!(rule(check::counters::check(&counters)), "lost update");
}

#[test]
fn a_long_fork_is_found() {
    let fork = history([
        at(0, 100, [write(X, 1)]),
        at(0, 100, [write(Y, 2)]),
        at(0, 100, [read(X, 1), read(Y, None)]),
        at(0, 100, [read(X, None), read(Y, 2)]),
    ]);
    assert_eq!(serializability(&fork), "write skew (G2)");
}

#[test]
fn a_read_skew_is_found() {
    let skew = history([at(0, 100, [write(X, 1), write(Y, 2)]), at(0, 100, [read(X, 1), read(Y, None)])]);
    assert_eq!(serializability(&skew), "read skew (G-single)");
}

#[test]
fn a_cycle_of_writes_is_found() {
    let cycle = history([
        at(0, 100, [append(X, 1), append(Y, 1)]),
        at(0, 100, [append(X, 2), append(Y, 2)]),
        at(0, 100, [list(X, [1, 2])]),
        at(0, 100, [list(Y, [2, 1])]),
    ]);
    assert_eq!(serializability(&cycle), "cycle of writes (G0)");
}

#[test]
fn information_in_a_circle_is_found() {
    let circle = history([at(0, 100, [write(X, 1), read(Y, 2)]), at(0, 100, [write(Y, 2), read(X, 1)])]);
    assert_eq!(serializability(&circle), "cycle of information (G1c)");
}

#[test]
fn a_stale_read_is_found() {
    let stale = |began| {
        history([at(0, 100, [write(X, 1)]), at(110, 200, [write(X, 2)]), at(began, 300, [read(X, 1)])])
    };
    assert_eq!(serializability(&stale(201)), "stale read");
    accepted(&stale(200));
}

/// The chain may put the second before the first, but then nobody may see the second and miss the first.
#[test]
fn a_read_between_two_that_overtake_each_other_is_found() {
    let (two, wide) = (
        X.register(1),
        at(0, 500, [write(X, 1), Action::Write { register: X.register(1), value: 1, number: None }]),
    );
    let overtaken = history([
        wide,
        at(100, 200, [read(X, 1), write(X, 2)]),
        at(300, 400, [Action::Read { register: two, value: None, number: None }]),
    ]);
    assert_eq!(serializability(&overtaken), "stale read (G-single against real time)");
}

#[test]
fn a_read_of_two_versions_in_one_read_is_found() {
    let part = |part, value| Action::Read { register: X.register(part), value: Some(value), number: None };
    let whole = |value| [0, 1].map(|part| Action::Write { register: X.register(part), value, number: None });
    let torn = history([at(0, 10, whole(1)), at(20, 30, whole(2)), at(5, 25, [part(0, 1), part(1, 2)])]);
    assert_eq!(serializability(&torn), "read skew (G-single)");
    assert_eq!(rule(check::chunks::check(&torn, &[X])), "torn read");
    let sound = history([at(0, 10, whole(1)), at(20, 30, whole(2)), at(5, 25, [part(0, 2), part(1, 2)])]);
    check::chunks::check(&sound, &[X]).unwrap();
    accepted(&sound);
}

#[test]
fn effects_of_a_refused_transaction_are_found() {
    let lists = history([refused(at(0, 10, [append(X, 1)])), at(20, 30, [list(X, [1])])]);
    assert_eq!(serializability(&lists), "aborted read");
    assert_eq!(rule(check::appends::check(&lists)), "aborted read");
    let registers = history([refused(at(0, 10, [write(X, 1)])), at(20, 30, [read(X, 1)])]);
    assert_eq!(serializability(&registers), "aborted read");
    let with_number = history([refused(at(0, 10, [write(X, 1)])), at(20, 30, [numbered(read(X, 1), 1)])]);
    assert_eq!(serializability(&with_number), "aborted read");
}

#[test]
fn what_nobody_wrote_is_found() {
    assert_eq!(serializability(&history([at(0, 10, [list(X, [7])])])), "read from nowhere");
    assert_eq!(serializability(&history([at(0, 10, [read(X, 7)])])), "read from nowhere");
    assert_eq!(serializability(&history([at(0, 10, [numbered(read(X, 7), 3)])])), "read from nowhere");
}

#[test]
fn half_of_a_transaction_is_found() {
    let lists = history([at(0, 100, [append(X, 1), append(X, 2)]), at(0, 100, [list(X, [1])])]);
    assert_eq!(serializability(&lists), "intermediate read");
    let registers = history([at(0, 100, [write(X, 1), write(X, 2)]), at(0, 100, [read(X, 1)])]);
    assert_eq!(serializability(&registers), "intermediate read");
    let interleaved = history([
        at(0, 100, [append(X, 1), append(X, 2)]),
        at(0, 100, [append(X, 3)]),
        at(0, 100, [list(X, [1, 3, 2])]),
    ]);
    assert_eq!(serializability(&interleaved), "torn append");
}

/// What is unknown may happen late or never, but whole.
#[test]
fn half_of_an_unknown_transaction_is_found() {
    let both = || unknown(at(0, 10, [append(X, 1), append(Y, 2)]));
    accepted(&history([both(), at(20, 30, [list(X, []), list(Y, [])])]));
    accepted(&history([
        both(),
        at(20, 30, [list(X, []), list(Y, [])]),
        at(40, 50, [list(X, [1]), list(Y, [2])]),
    ]));
    let half = history([both(), at(20, 30, [list(X, [1]), list(Y, [])])]);
    assert_eq!(serializability(&half), "read skew (G-single)");
    let gone = history([both(), at(20, 30, [list(X, [1])]), at(40, 50, [list(X, [])])]);
    assert_eq!(serializability(&gone), "stale read (G-single against real time)");
    assert_eq!(rule(check::survival::check(&half, 1)), "half done");
}

#[test]
fn lists_in_two_orders_and_with_doubles_are_found() {
    let appends = || at(0, 10, [append(X, 1)]);
    let orders = history([
        appends(),
        at(0, 10, [append(X, 2)]),
        at(0, 90, [list(X, [1, 2])]),
        at(0, 90, [list(X, [2])]),
    ]);
    assert_eq!(serializability(&orders), "incompatible order");
    assert_eq!(rule(check::appends::check(&orders)), "incompatible order");
    let double = history([appends(), at(20, 30, [list(X, [1, 1])])]);
    assert_eq!(serializability(&double), "duplicate");
    assert_eq!(rule(check::appends::check(&double)), "duplicate");
}

#[test]
fn a_lost_append_is_found() {
    let lost = history([at(0, 10, [append(X, 1)]), at(20, 30, [list(X, [])])]);
    assert_eq!(serializability(&lost), "stale read (G-single against real time)");
    assert_eq!(rule(check::appends::check(&lost)), "lost append");
    let replaced = history([
        at(0, 10, [append_at(X, 1, 0)]),
        at(0, 10, [append_at(X, 2, 1)]),
        unknown(at(0, 10, [append(X, 3)])),
        at(20, 30, [list(X, [1, 3])]),
    ]);
    assert_eq!(rule(check::appends::check(&replaced)), "lost append");
    assert_eq!(serializability(&replaced), "lost append");
}

#[test]
fn appends_at_wrong_offsets_are_found() {
    let overlap = history([at(0, 10, [append_at(X, 1, 0)]), at(0, 10, [append_at(X, 2, 0)])]);
    assert_eq!(rule(check::appends::check(&overlap)), "overlap");
    assert_eq!(serializability(&overlap), "overlap");
    let hole = || at(0, 10, [append_at(X, 2, 1)]);
    assert_eq!(rule(check::appends::check(&history([hole()]))), "hole");
    accepted(&history([hole(), unknown(at(0, 10, [append(X, 1)]))]));
    let wrong = history([at(0, 10, [append_at(X, 1, 1)]), at(20, 30, [list(X, [1])])]);
    assert_eq!(rule(check::appends::check(&wrong)), "wrong offset");
    let order = history([at(0, 10, [append_at(X, 1, 1)]), at(20, 30, [append_at(X, 2, 0)])]);
    assert_eq!(rule(check::appends::check(&order)), "append order");
    assert_eq!(serializability(&order), "writes against real time (G0)");
}

#[test]
fn a_read_at_the_wrong_number_is_found() {
    let versions = |value, number| {
        history([
            at(0, 10, [numbered(write(X, 1), 3)]),
            at(20, 30, [numbered(write(X, 2), 5)]),
            at(0, 90, [numbered(read(X, value), number)]),
        ])
    };
    accepted(&versions(1, 4));
    accepted(&versions(2, 9));
    assert_eq!(serializability(&versions(1, 5)), "wrong version");
    assert_eq!(serializability(&versions(2, 4)), "wrong version");
    let twice = history([at(0, 10, [numbered(write(X, 1), 3)]), at(0, 10, [numbered(write(X, 2), 3)])]);
    assert_eq!(serializability(&twice), "number used twice");
    let backwards = history([at(0, 10, [numbered(write(X, 1), 3)]), at(20, 30, [numbered(write(X, 2), 2)])]);
    assert_eq!(serializability(&backwards), "writes against real time (G0)");
}

#[test]
fn a_transaction_that_misses_its_own_writes_is_found() {
    assert_eq!(serializability(&history([at(0, 10, [write(X, 1), read(X, None)])])), "own reads");
    assert_eq!(serializability(&history([at(0, 10, [append(X, 1), list(X, [])])])), "own reads");
    let again = history([at(0, 10, [write(X, 1)]), at(0, 10, [read(X, None), read(X, 1)])]);
    assert_eq!(serializability(&again), "own reads");
}

#[test]
fn a_counter_that_loses_repeats_or_reorders_is_found() {
    let counters = |verdict: &History| rule(check::counters::check(verdict));
    assert_eq!(
        counters(&history([at(0, 10, [add(X, 2, None)]), at(20, 30, [read(X, 0)])])),
        "counter bounds"
    );
    assert_eq!(
        counters(&history([at(0, 10, [add(X, 2, None)]), at(20, 30, [read(X, 4)])])),
        "counter bounds"
    );
    assert_eq!(counters(&history([at(0, 10, [add(X, 1, 1)]), at(20, 30, [add(X, 1, 0)])])), "counter order");
    assert_eq!(counters(&history([at(0, 10, [add(X, 2, 0)]), at(0, 10, [add(X, 2, 1)])])), "lost update");
    let late = [unknown(at(0, 10, [add(X, 2, None)])), at(20, 30, [read(X, 0)]), at(40, 50, [read(X, 2)])];
    accepted(&history(late));
}

#[test]
fn a_bank_whose_sum_changes_is_found() {
    let accounts = [part(X), part(Y)];
    let bank = |x: u64, y: Option<u64>| history([at(0, 10, [read(X, x), read(Y, y)])]);
    check::bank::check(&bank(60, Some(40)), &accounts, 100).unwrap();
    assert_eq!(rule(check::bank::check(&bank(60, Some(41)), &accounts, 100)), "bank");
    assert_eq!(rule(check::bank::check(&bank(100, None), &accounts, 100)), "bank");
    // A transfer reads two of three accounts, or what it wrote itself.
    check::bank::check(&bank(60, Some(41)), &[part(X), part(Y), part(Blob(3))], 100).unwrap();
    check::bank::check(&history([at(0, 10, [read(X, 60), write(X, 50), read(Y, 50)])]), &accounts, 100)
        .unwrap();
}

#[test]
fn a_blob_that_is_there_after_its_deletion_is_found() {
    let life = || [at(0, 10, [create(X)]), at(20, 30, [delete(X)])];
    let then = |last| {
        let [first, second] = life();
        history([first, second, last])
    };
    let existence = |history: &History| rule(check::existence::check(history));
    check::general(&then(at(40, 50, [exists(X, false)]))).unwrap();
    check::general(&then(at(25, 50, [exists(X, true)]))).unwrap();
    assert_eq!(existence(&then(at(40, 50, [exists(X, true)]))), "deleted blob seen");
    assert_eq!(existence(&then(at(40, 50, [delete(X)]))), "deleted blob seen");
    assert_eq!(existence(&then(at(12, 18, [exists(X, false)]))), "created blob missing");
    assert_eq!(
        existence(&history([at(0, 10, [create(X)]), at(20, 30, [create(X)])])),
        "created blob missing"
    );
    assert_eq!(existence(&history([at(0, 10, [exists(X, true)]), at(20, 30, [create(X)])])), "ghost blob");
    let again = [unknown(at(0, 10, [create(X)])), at(20, 30, [exists(X, true)])];
    check::general(&history(again)).unwrap();
}

#[test]
fn bytes_of_a_former_blob_are_found() {
    let former = |began| {
        history([
            at(0, 10, [create(X), write(X, 7)]),
            at(20, 30, [delete(X)]),
            at(40, 50, [create(X)]),
            at(began, 70, [read(X, 7)]),
        ])
    };
    assert_eq!(rule(check::existence::check(&former(60))), "bytes of a former blob");
    check::general(&former(25)).unwrap();
    let with_numbers = history([
        at(0, 10, [numbered(create(X), 1), numbered(write(X, 7), 1)]),
        at(20, 30, [numbered(delete(X), 2)]),
        at(40, 50, [numbered(create(X), 3)]),
        at(60, 70, [numbered(read(X, 7), 3)]),
    ]);
    assert_eq!(serializability(&with_numbers), "wrong version");
}

#[test]
fn scans_that_miss_repeat_or_invent_are_found() {
    let scan = |found: &[u32]| {
        let found = found.iter().map(|blob| Blob(*blob)).collect();
        history([
            at(0, 10, [create(Blob(1)), create(Blob(2)), create(Blob(3))]),
            at(20, 60, [delete(Blob(2))]),
            at(30, 50, [Action::Scan { from: Blob(1), to: Blob(4), found }]),
        ])
    };
    check::scans::check(&scan(&[1, 2, 3])).unwrap();
    check::scans::check(&scan(&[1, 3])).unwrap();
    assert_eq!(rule(check::scans::check(&scan(&[1, 2]))), "created blob missing");
    assert_eq!(rule(check::scans::check(&scan(&[1, 3, 3]))), "scan order");
    assert_eq!(rule(check::scans::check(&scan(&[3, 1]))), "scan order");
    assert_eq!(rule(check::scans::check(&scan(&[1, 3, 7]))), "scan range");
    let late =
        history([at(30, 50, [Action::Scan { from: X, to: Y, found: vec![X] }]), at(60, 70, [create(X)])]);
    assert_eq!(rule(check::scans::check(&late)), "ghost blob");
    let never = history([at(30, 50, [Action::Scan { from: X, to: Y, found: vec![X] }])]);
    assert_eq!(rule(check::scans::check(&never)), "ghost blob");
}

#[test]
fn what_does_not_survive_is_found() {
    let end = |first, last| rule(check::survival::check(&history([first, last]), 1));
    let last = 1000;
    let kept = history([at(0, 10, [append(X, 1), write(Y, 2)]), at(last, last, [list(X, [1]), read(Y, 2)])]);
    check::survival::check(&kept, 1).unwrap();
    assert_eq!(end(at(0, 10, [append(X, 1)]), at(last, last, [list(X, [])])), "acknowledged and lost");
    assert_eq!(end(at(0, 10, [write(X, 1)]), at(last, last, [read(X, None)])), "acknowledged and lost");
    assert_eq!(end(refused(at(0, 10, [append(X, 1)])), at(last, last, [list(X, [1])])), "refused and done");
    assert_eq!(end(refused(at(0, 10, [write(X, 1)])), at(last, last, [read(X, 1)])), "refused and done");
    assert_eq!(end(at(0, 10, [add(X, 5, None)]), at(last, last, [read(X, 4)])), "counter bounds");
    let older = [at(0, 10, [write(X, 1)]), at(20, 30, [write(X, 2)]), at(last, last, [read(X, 1)])];
    assert_eq!(rule(check::survival::check(&history(older), 2)), "acknowledged and lost");
    let late = [unknown(at(0, 10, [write(X, 1)])), at(20, 30, [write(X, 2)]), at(last, last, [read(X, 1)])];
    check::survival::check(&history(late), 2).unwrap();
}

#[test]
fn a_report_names_the_transactions_and_says_why() {
    let skew = history([at(0, 100, [read(X, None), write(Y, 1)]), at(0, 100, [read(Y, None), write(X, 2)])]);
    let violation = check::serializability::check(&skew).unwrap_err();
    assert_eq!(violation.operations, [0, 1]);
    assert_eq!(
        violation.to_string(),
        "write skew (G2): no order of these explains what they saw: \
         T0 saw b1/0 as it was before T1 (2); T1 saw b2/0 as it was before T0 (1)\n  \
         T0 hand of c0, 0..100 us, committed: read b1/0 = none; write b2/0 = 1\n  \
         T1 hand of c1, 0..100 us, committed: read b2/0 = none; write b1/0 = 2"
    );
}

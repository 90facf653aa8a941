use alloc::format;

use tyr_types::{Key, KeyspaceId};

use super::*;

fn blob(number: u32) -> BlobName {
    BlobName { keyspace: KeyspaceId(1), key: Key::new(format!("{number}")).expect("a short key") }
}

#[test]
fn what_is_asked_for_most_is_popular_among_many_that_come_once() {
    let mut popular = Popular::default();
    for turn in 0..1000 {
        popular.note(Time(turn), &blob(1000 + u32::try_from(turn).expect("small")), 8);
        popular.note(Time(turn), &blob(7), 8);
    }
    assert!(popular.contains(&blob(7)));
    assert!(popular.now.counts.len() == 8 && popular.now.order.len() == 8, "memory is bounded");
}

#[test]
fn what_is_asked_for_seldom_is_not_popular_while_there_is_room() {
    let mut popular = Popular::default();
    assert!(!popular.note(Time(0), &blob(1), 8));
    assert!(!popular.note(Time(1), &blob(1), 8));
    assert!(popular.note(Time(2), &blob(1), 8));
    assert!(!popular.contains(&blob(2)));
}

#[test]
fn popularity_ends_after_two_windows_without_a_request() {
    let mut popular = Popular::default();
    for turn in 0..4 {
        popular.note(Time(turn), &blob(1), 8);
    }
    popular.turn(Time(WINDOW));
    assert!(popular.contains(&blob(1)), "the window before counts");
    popular.turn(Time(2 * WINDOW));
    assert!(!popular.contains(&blob(1)));
}

#[test]
fn nothing_is_counted_where_nothing_may_be() {
    let mut popular = Popular::default();
    assert!((0..9).all(|turn| !popular.note(Time(turn), &blob(1), 0)));
}

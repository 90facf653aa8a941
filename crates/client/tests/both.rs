//! What programs see of a store is the same, whether it is a directory or a cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;
mod programs;

use kit::Kit;
use programs::{Program, run};

/// Has the program run on both, and compares what it was told.
fn on_both(program: Program) {
    let directory = tempfile::tempdir().unwrap();
    let kit = Kit::start(3);
    assert_eq!(run(directory.path().to_str().unwrap(), program), run(kit.url(), program));
}

macro_rules! tests {
    ($($program:ident),* $(,)?) => {
        $(
            #[test]
            fn $program() {
                on_both(programs::$program);
            }
        )*

        #[test]
        fn every_program_is_tested() {
            assert_eq!(programs::ALL.map(|(name, _)| name), [$(stringify!($program)),*]);
        }
    };
}

tests! {
    lone_operations_do_the_same,
    attributes_are_the_same,
    transactions_see_their_own_changes_and_happen_as_a_whole,
    appends_of_a_transaction_are_not_read_before_their_place_is_known,
    what_was_read_and_has_changed_is_a_conflict_and_the_rest_is_not,
    checks_hold_or_the_commit_is_a_conflict,
    runs_are_repeated_until_they_commit,
    large_payload_is_whole,
    holes_are_punched_and_found,
    bytes_are_copied_from_blob_to_blob,
    lists_are_in_order_and_complete,
    a_snapshot_stays_as_it_is,
    a_snapshot_with_a_name_stays_until_it_is_dropped,
    keyspaces_are_created_listed_altered_and_dropped,
    keyspaces_without_versions_are_read_and_written,
    a_closed_store_says_so,
}

//! What is logged later.

use super::*;

fn answered(router: &mut Router, now: u64, session: u64, answered: u64) {
    let message = Message::Answered {
        session: SessionId(session),
        answered: Answered::below(answered),
        born: RingVersion(1),
    };
    router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
}

/// What is logged until nothing more is wanted, in words; and whether the client of session 1 hears that its mark is noted.
fn logged(router: &mut Router) -> (Vec<alloc::string::String>, bool) {
    let (mut entries, mut is_told) = (Vec::new(), false);
    while let Some(output) = router.poll_output() {
        match output {
            Output::Store { partition, index, epoch, entry } => {
                entries.push(match &*entry {
                    Entry::Mark { session, answered, .. } => {
                        alloc::format!("mark {} {}", session.0, answered.mark())
                    }
                    Entry::Refuse(refused) => alloc::format!("refuse {}", refused.id.sequence),
                    other => alloc::format!("{other:?}"),
                });
                router.handle_stored(Time(0), true, partition, index, epoch);
            }
            Output::Answer(session, Answer::MarkNoted { .. }) => is_told |= session == SessionId(1),
            _ => {}
        }
    }
    (entries, is_told)
}

#[test]
fn what_nobody_waits_for_is_logged_together_at_the_next_of_the_common_times() {
    let mut router = primary();
    answered(&mut router, DEFER_MAX - 20, 1, 5);
    answered(&mut router, DEFER_MAX - 10, 2, 6);
    answered(&mut router, DEFER_MAX - 10, 1, 7);
    router.handle_tick(Time(DEFER_MAX - 1), true);
    assert_eq!(logged(&mut router), (Vec::new(), false));
    router.handle_tick(Time(DEFER_MAX), true);
    let (entries, is_told) = logged(&mut router);
    assert_eq!(entries, ["mark 1 7", "mark 2 6"]);
    assert!(is_told, "it is durable now");
    router.handle_tick(Time(3 * DEFER_MAX), true);
    assert_eq!(logged(&mut router).0.len(), 0, "nothing is left");
}

#[test]
fn what_was_deferred_is_logged_before_the_next_entry() {
    let mut router = primary();
    answered(&mut router, 10, 1, 5);
    let message = Message::AskOutcome { id: id(9), settle: true };
    router.handle_message(Time(11), true, Envelope { partition: partition(0), message });
    assert_eq!(logged(&mut router).0, ["mark 1 5", "refuse 9"]);
}

#[test]
fn who_leads_no_more_logs_nothing_of_what_was_deferred() {
    let mut router = primary();
    answered(&mut router, 10, 1, 5);
    router.handle_configuration(Time(11), true, partition(0), configuration(3, &[OTHER], &[ME]));
    router.handle_tick(Time(2 * DEFER_MAX), true);
    assert_eq!(logged(&mut router).0.len(), 0);
}

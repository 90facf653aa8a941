//! Which payload a partition takes before its transaction begins.

use super::*;

/// The room of a partition, in bytes.
const ROOM: u64 = 160;

fn with_room() -> Router {
    let mut router = primary();
    router.set_limits(Limits { staged_max: ROOM, ..Limits::default() });
    router
}

/// A part of a payload of a transaction of a session.
struct Part {
    of: (u64, u64),
    from: u64,
    length: usize,
}

/// What a client is told of a payload of so many bytes, if anything.
fn stage(
    router: &mut Router,
    of: (u64, u64),
    decider: PartitionId,
    length: usize,
) -> Option<Result<(), Refusal>> {
    stage_part(router, Part { of, from: 0, length }, decider)
}

fn stage_part(router: &mut Router, part: Part, decider: PartitionId) -> Option<Result<(), Refusal>> {
    stage_part_at(router, Time(1), part, decider)
}

fn stage_part_at(
    router: &mut Router,
    now: Time,
    part: Part,
    decider: PartitionId,
) -> Option<Result<(), Refusal>> {
    let Part { of: (session, sequence), from, length } = part;
    let id = TransactionId { session: SessionId(session), ..id(sequence) };
    let bytes = alloc::vec![7; length].into();
    let stage = Stage { id, decider, payload: (0, 0), from, bytes, part: 0..length };
    let message = Message::Stage(Arc::new(stage));
    router.handle_message(now, true, Envelope { partition: partition(0), message });
    let mut told = None;
    while let Some(output) = router.poll_output() {
        match output {
            Output::Store { partition, index, epoch, .. } => {
                router.handle_stored(now, true, partition, index, epoch);
            }
            Output::Answer(to, Answer::Staged { id: of, .. }) if of == id => told = Some((to, Ok(()))),
            Output::Answer(to, Answer::Unstaged { id: of, refusal }) if of == id => {
                told = Some((to, Err(refusal)));
            }
            _ => {}
        }
    }
    told.map(|(to, told)| {
        assert_eq!(to, id.session);
        told
    })
}

#[test]
fn payload_is_not_taken_whose_decider_does_not_exist_and_cannot_say_that_it_may_go() {
    let mut router = with_room();
    let nowhere = PartitionId { class: ClassId(7), index: 0 };
    for decider in [nowhere, partition(1)] {
        assert_eq!(stage(&mut router, (1, 1), decider, 1), None);
    }
    assert_eq!(router.partition(partition(0)).unwrap().state().stages().count(), 0);
    assert_eq!(stage(&mut router, (1, 1), partition(0), 1), Some(Ok(())));
}

#[test]
fn a_session_that_has_taken_up_the_room_leaves_some_to_those_that_need_little() {
    let mut router = with_room();
    let mut stage = |of, length| stage(&mut router, of, partition(0), length).unwrap();
    for sequence in 1..=4 {
        assert_eq!(stage((1, sequence), 40), Ok(()));
    }
    assert_eq!(stage((1, 5), 1), Err(Refusal::Busy), "it has all");
    assert_eq!(stage((2, 1), 11), Err(Refusal::Busy), "more than a sixteenth");
    for session in 2..=5 {
        assert_eq!(stage((session, 2), 10), Ok(()));
    }
    assert_eq!(stage((6, 1), 1), Err(Refusal::Busy), "that has an end, too");
}

#[test]
fn what_never_fits_is_not_tried_again() {
    let mut router = with_room();
    let most = usize::try_from(ROOM).unwrap();
    assert_eq!(stage(&mut router, (1, 1), partition(0), most + 1), Some(Err(Refusal::TooLarge)));
    assert_eq!(stage(&mut router, (1, 2), partition(0), most), Some(Ok(())));
}

#[test]
fn who_has_waited_for_longest_has_room_for_all_whatever_others_have_taken() {
    let mut router = with_room();
    let stage = |router: &mut Router, sequence, from, length| {
        stage_part(router, Part { of: (9, sequence), from, length }, partition(0)).unwrap()
    };
    assert_eq!(stage(&mut router, 1, 0, 40), Ok(()));
    assert_eq!(stage(&mut router, 2, 0, 80), Ok(()));
    assert_eq!(stage(&mut router, 2, 80, 41), Err(Refusal::Busy), "another was there before");
    for from in [40, 80, 120] {
        assert_eq!(stage(&mut router, 1, from, 40), Ok(()));
    }
    assert_eq!(stage(&mut router, 1, 160, 1), Err(Refusal::TooLarge));
    assert_eq!(stage(&mut router, 3, 0, 1), Err(Refusal::Busy));
    let message =
        Message::Answered { session: SessionId(9), answered: Answered::below(2), born: RingVersion(1) };
    router.handle_message(Time(2), true, Envelope { partition: partition(0), message });
    router.handle_tick(Time(DEFER_MAX), true);
    run(&mut router);
    for from in [80, 120] {
        assert_eq!(stage(&mut router, 2, from, 40), Ok(()), "it is the next one");
    }
}

#[test]
fn who_wants_no_more_keeps_nobody_waiting() {
    let mut router = with_room();
    let stage = |router: &mut Router, sequence, from, length| {
        stage_part(router, Part { of: (9, sequence), from, length }, partition(0)).unwrap()
    };
    assert_eq!(stage(&mut router, 1, 0, 80), Ok(()));
    assert_eq!(stage(&mut router, 2, 0, 80), Ok(()));
    assert_eq!(stage(&mut router, 2, 80, 40), Err(Refusal::Busy), "another has waited for longer");
    // Its client says that it still wants what is there, but asks for nothing more.
    let keep = Message::KeepStages { id: TransactionId { session: SessionId(9), ..id(1) } };
    router.handle_message(Time(4_000_000), true, Envelope { partition: partition(0), message: keep });
    router.handle_tick(Time(5_000_002), true);
    run(&mut router);
    assert_eq!(
        stage_part_at(&mut router, Time(5_000_002), Part { of: (9, 2), from: 80, length: 40 }, partition(0)),
        Some(Ok(()))
    );
}

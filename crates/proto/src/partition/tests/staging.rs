//! Which payload a partition takes before its transaction begins.

use super::*;

/// The room of a partition, in bytes.
const ROOM: u64 = 160;

fn with_room() -> Router {
    let mut router = primary();
    router.set_limits(Limits { staged_max: ROOM, ..Limits::default() });
    router
}

/// What a client is told of a part of so many bytes, if anything.
fn stage(
    router: &mut Router,
    (session, sequence): (u64, u64),
    decider: PartitionId,
    length: usize,
) -> Option<Result<(), Refusal>> {
    let id = TransactionId { session: SessionId(session), ..id(sequence) };
    let bytes = alloc::vec![7; length].into();
    let stage = Stage { id, decider, payload: (0, 0), from: 0, bytes, part: 0..length };
    let message = Message::Stage(Arc::new(stage));
    router.handle_message(Time(1), true, Envelope { partition: partition(0), message });
    let mut told = None;
    while let Some(output) = router.poll_output() {
        match output {
            Output::Store { partition, index, epoch, .. } => {
                router.handle_stored(Time(1), true, partition, index, epoch);
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

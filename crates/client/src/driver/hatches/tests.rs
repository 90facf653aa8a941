#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use tyr_proto::{SPOT_BLOCK, SessionId};
use tyr_wire::checksum::crc32c;

use super::*;

const NODE: NodeId = NodeId(1);
const NAME: FileName = FileName { journal: 1, number: 2 };

fn request() -> RequestId {
    RequestId { session: SessionId(1), number: 1 }
}

/// A gate that is open, and what is wanted there.
fn gate() -> (Gate, UnboundedReceiver<FileName>) {
    let (wants, wanted) = unbounded_channel();
    let (asked, files) = Default::default();
    (Gate { number: 1, is_open: true, wants, asked, files }, wanted)
}

fn hatches(gate: Gate) -> Hatches {
    let (mut hatches, _) = Hatches::new();
    hatches.nodes.insert(NODE, gate);
    hatches
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn content() -> Vec<u8> {
    (0..20_000u32).map(|index| (index % 251) as u8).collect()
}

/// A part of what is stored from a position on.
fn spot(content: &[u8], position: usize, stored: usize, part: std::ops::Range<u32>) -> Spot {
    let checksums = content[position..position + stored].chunks(SPOT_BLOCK as usize).map(crc32c).collect();
    Spot {
        file: NAME,
        position: position as u64,
        stored: u32::try_from(stored).unwrap(),
        from: part.start,
        length: part.end - part.start,
        checksums,
    }
}

fn located(stretches: Vec<Stretch>, file: File) -> Located {
    let files = BTreeMap::from([(NAME, Arc::new(ShownFile::new(file)))]);
    Located { request: request(), version: Number::ZERO, whole: true, stretches, files }
}

#[test]
fn what_is_read_is_what_the_stretches_stand_for() {
    let content = content();
    let stretches = vec![
        Stretch::Spot(spot(&content, 100, 5000, 0..5000)),
        Stretch::Zeros(7),
        Stretch::Spot(spot(&content, 9000, 5000, 4000..4999)),
        Stretch::Bytes(vec![9; 3]),
    ];
    let found = located(stretches, file(&content)).read(Patience::Any);
    let expected = [&content[100..5100], &[0; 7], &content[13_000..13_999], &[9; 3]].concat();
    assert!(matches!(found, Found::Bytes(bytes) if bytes == expected));
}

#[test]
fn spots_are_one_run_as_long_as_they_lie_behind_one_another_and_are_not_too_much() {
    let content = content();
    let at = |position, stored| Stretch::Spot(spot(&content, position, stored, 0..1));
    let other = Spot { file: FileName { journal: 2, ..NAME }, ..spot(&content, 3000, 1000, 0..1) };
    let length = |rest: &[Stretch]| run_of(&spot(&content, 1000, 1000, 0..1), rest).len();
    assert_eq!(length(&[at(2000, 1000), at(3000, 7), at(3007, 1)]), 4);
    assert_eq!(length(&[at(2000, 1000), at(3001, 7)]), 2);
    assert_eq!(length(&[at(2000, 1000), Stretch::Zeros(1), at(3000, 1000)]), 2);
    assert_eq!(length(&[at(2000, 1000), Stretch::Spot(other)]), 2);
    let large = |position| Stretch::Spot(Spot { position, stored: 1 << 20, ..spot(&content, 0, 1, 0..1) });
    assert_eq!(length(&[large(2000), large(2000 + (1 << 20))]), 2);
}

#[test]
fn a_damaged_block_is_found_wherever_it_is_in_what_the_checksums_cover() {
    let content = content();
    for place in [0, 4095, 4096, 4999] {
        let mut damaged = content.clone();
        damaged[100 + place] ^= 1;
        let stretches = vec![Stretch::Spot(spot(&content, 100, 5000, 0..5000))];
        assert!(matches!(located(stretches, file(&damaged)).read(Patience::Any), Found::Damaged));
        let stretches = vec![Stretch::Spot(spot(&content, 100, 5000, 10..4000))];
        assert!(matches!(located(stretches, file(&damaged)).read(Patience::Any), Found::Damaged));
    }
}

#[test]
fn a_file_that_ends_too_early_is_not_readable() {
    let content = content();
    let stretches = vec![Stretch::Spot(spot(&content, 15_000, 5000, 0..5000))];
    let found = located(stretches, file(&content[..19_999])).read(Patience::Any);
    assert!(matches!(found, Found::Unreadable));
}

#[test]
fn a_file_that_is_not_here_is_asked_for_once() {
    let content = content();
    let (gate, mut wanted) = gate();
    let mut hatches = hatches(gate);
    let stretches = || vec![Stretch::Spot(spot(&content, 0, 5000, 0..5000))];
    let of = (request(), Number::ZERO, true);
    assert!(hatches.locate(Time(0), NODE, of, stretches()).is_none());
    assert!(hatches.locate(Time(0), NODE, of, stretches()).is_none());
    assert_eq!(wanted.try_recv(), Ok(NAME));
    wanted.try_recv().unwrap_err();
    let what = What::File(NAME, Some(file(&content)));
    assert!(hatches.note(Time(0), &mut Heard { node: NODE, number: 1, what }));
    assert!(hatches.locate(Time(0), NODE, of, stretches()).is_some());
    hatches.tidy(Time(UNUSED_MAX));
    assert!(hatches.locate(Time(UNUSED_MAX), NODE, of, stretches()).is_none(), "it was let go");
    assert_eq!(wanted.try_recv(), Ok(NAME));
}

#[test]
fn so_many_files_are_held_at_most_and_the_one_that_was_read_last_goes_last() {
    let (mut gate, _wanted) = gate();
    let name = |number| FileName { journal: 1, number };
    for number in 0..=FILES_MAX as u64 {
        gate.hold(Time(number.max(1)), name(number), file(b""));
        gate.files.get_mut(&name(0)).unwrap().used_at = Time(1000);
    }
    assert_eq!(gate.files.len(), FILES_MAX);
    assert!(gate.files.contains_key(&name(0)) && !gate.files.contains_key(&name(1)));
}

#[test]
fn more_than_can_be_asked_for_is_not_read() {
    let mut hatches = hatches(gate().0);
    let of = (request(), Number::ZERO, true);
    let large = || Stretch::Zeros(READ_SIZE_MAX);
    assert!(hatches.locate(Time(0), NODE, of, vec![large()]).is_some());
    assert!(hatches.locate(Time(0), NODE, of, vec![large(), Stretch::Zeros(1)]).is_none());
}

#[tokio::test]
async fn much_is_read_apart_as_long_as_a_thread_is_free() {
    let (mut hatches, mut heard) = Hatches::new();
    hatches.nodes.insert(NODE, gate().0);
    hatches.apart_max = 1;
    let zeros = |length| located(vec![Stretch::Zeros(length)], file(b""));
    assert!(hatches.may_read_apart(&zeros(APART_MIN)) && !hatches.may_read_apart(&zeros(APART_MIN - 1)));
    let busy = hatches.apart.clone();
    assert!(!hatches.may_read_apart(&zeros(APART_MIN)));
    drop(busy);
    hatches.read_apart(NODE, zeros(APART_MIN));
    let what = heard.recv().await.unwrap().what;
    let found = |bytes: &[u8]| bytes.len() as u64 == APART_MIN && bytes.iter().all(|byte| *byte == 0);
    assert!(matches!(what, What::Read(_, Found::Bytes(bytes)) if found(&bytes)));
    hatches.apart_max = 0;
    assert!(!hatches.may_read_apart(&zeros(APART_MIN)), "there is no other processor");
}

#[test]
fn when_a_hatch_has_closed_its_files_are_gone() {
    let (mut gate, _wanted) = gate();
    gate.hold(Time(0), NAME, file(b"x"));
    let mut hatches = hatches(gate);
    assert!(hatches.is_open(NODE));
    let closed = |number| Heard { node: NODE, number, what: What::Closed };
    assert!(!hatches.note(Time(0), &mut closed(7)), "that was another one");
    assert!(hatches.is_open(NODE));
    assert!(hatches.note(Time(0), &mut closed(1)));
    assert!(!hatches.is_open(NODE) && hatches.nodes.is_empty());
}

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::encoding::{from_bytes, to_bytes};

fn write(offset: u64, bytes: &[u8]) -> ChunkOperation {
    ChunkOperation::Write { offset, bytes: bytes.into(), part: 0..bytes.len() }
}

fn add(offset: u64, number: u16) -> ChunkOperation {
    let transform = Transform::add(Operand::U16(number));
    ChunkOperation::Transform { offset, transform, answers: (0, 0) }
}

#[test]
fn later_writes_lie_over_earlier_ones_and_cuts_leave_nothing_behind() {
    let mut content = Content::default();
    content.apply(&write(2, b"abcdef")).unwrap();
    content.apply(&write(4, b"XY")).unwrap();
    assert_eq!(content.read(&(2..8)), Ok((b"abXYef".to_vec(), true)));
    assert_eq!(content.read(&(0..4)), Ok((b"\0\0ab".to_vec(), false)));
    content.apply(&ChunkOperation::Cut { range: 5..u64::MAX }).unwrap();
    assert_eq!(content.read(&(2..8)), Ok((b"abX\0\0\0".to_vec(), false)));
    content.apply(&ChunkOperation::Cut { range: 0..u64::MAX }).unwrap();
    assert!(content.is_empty());
}

#[test]
fn what_is_cut_out_is_a_hole_until_it_is_written() {
    let mut content = Content::default();
    content.apply(&write(10, b"abcdef")).unwrap();
    content.apply(&ChunkOperation::Cut { range: 12..14 }).unwrap();
    assert_eq!(content.read(&(10..16)), Ok((b"ab\0\0ef".to_vec(), false)));
    let both = |range| (content.seek(&range, Seek::Data), content.seek(&range, Seek::Hole));
    assert_eq!(both(0..20), (Some(10), Some(0)));
    assert_eq!(both(11..20), (Some(11), Some(12)));
    assert_eq!(both(12..20), (Some(14), Some(12)));
    assert_eq!(both(14..16), (Some(14), None));
    assert_eq!(both(16..20), (None, Some(16)));
    content.apply(&write(12, &[0; 2])).unwrap();
    assert_eq!(
        (content.seek(&(10..20), Seek::Data), content.seek(&(10..20), Seek::Hole)),
        (Some(10), Some(16))
    );
    content.apply(&ChunkOperation::Cut { range: 3..3 }).unwrap();
    content.apply(&ChunkOperation::Cut { range: 0..100 }).unwrap();
    assert!(content.is_empty());
}

#[test]
fn a_transform_answers_what_was_there() {
    let mut content = Content::default();
    assert_eq!(content.apply(&add(1, 3)).unwrap().as_deref(), Some(&[0, 0][..]));
    assert_eq!(content.apply(&add(1, 3)).unwrap().as_deref(), Some(&[3, 0][..]));
    assert_eq!(content.read(&(0..4)).unwrap().0, [0, 6, 0, 0]);
}

#[test]
fn many_small_appends_leave_few_extents() {
    let mut content = Content::default();
    for place in 0..10_000 {
        content.apply(&write(place * 100, &[7; 100])).unwrap();
    }
    let least = 1_000_000 / JOINED_MAX;
    assert!(content.count() < 3 * least, "{} extents", content.count());
    assert_eq!(content.read(&(0..1_000_000)), Ok((vec![7; 1_000_000], true)));
}

#[test]
fn small_overwrites_all_over_a_chunk_leave_a_bounded_number_of_extents() {
    let mut content = Content::default();
    content.apply(&write(0, &vec![1; 1 << 20])).unwrap();
    // A step without a common factor goes all over it.
    for step in 0..50_000 {
        let place = step * 614_657 % ((1 << 20) - 8);
        content.apply(&write(place, &[2; 8])).unwrap();
    }
    let most = usize::try_from((1 << 20) / MELTED_MAX).unwrap() * 2 * LEAF_MAX;
    assert!(content.count() <= most, "{} extents", content.count());
}

#[test]
fn a_version_shares_what_a_write_does_not_touch() {
    let mut before = Content::default();
    for place in 0..1000 {
        before.apply(&write(place << 20, &[1; 10])).unwrap();
    }
    let mut after = before.clone();
    after.apply(&write(500 << 20, &[2; 10])).unwrap();
    let shared =
        before.leaves.iter().filter(|leaf| after.leaves.iter().any(|other| Arc::ptr_eq(leaf, other)));
    assert!(shared.count() + 1 >= before.leaves.len());
    assert_eq!(before.read(&(500 << 20..(500 << 20) + 2)).unwrap().0, [1, 1]);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u8, usize),
    Add(u64, u16),
    Cut(u64),
    Punch(u64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![0..200_u64, 0..5000_u64];
    let length = prop_oneof![4 => 0..20_usize, 1 => 0..3000_usize];
    prop_oneof![
        20 => (place.clone(), any::<u8>(), length.clone()).prop_map(|(at, byte, length)| Step::Write(at, byte, length)),
        4 => (place.clone(), any::<u16>()).prop_map(|(at, number)| Step::Add(at, number)),
        1 => place.clone().prop_map(Step::Cut),
        4 => (place, length).prop_map(|(at, length)| Step::Punch(at, length)),
    ]
}

proptest! {
    /// The model is a byte for each place, if there is one.
    #[test]
    fn every_version_is_what_was_written(steps in prop::collection::vec(step(), 1..300)) {
        let (mut model, mut content) = (vec![None; 8200], Content::default());
        let mut former: Option<(Vec<Option<u8>>, Content)> = None;
        for (position, step) in steps.iter().enumerate() {
            match *step {
                Step::Write(at, byte, length) => {
                    content.apply(&write(at, &vec![byte; length])).unwrap();
                    let at = usize::try_from(at).unwrap();
                    model[at..at + length].fill(Some(byte));
                }
                Step::Add(at, number) => {
                    let old = content.apply(&add(at, number)).unwrap().unwrap();
                    let at = usize::try_from(at).unwrap();
                    let place = &mut model[at..at + 2];
                    let known = [place[0].unwrap_or(0), place[1].unwrap_or(0)];
                    prop_assert_eq!(&old[..], &known[..]);
                    let new = u16::from_le_bytes(known).wrapping_add(number).to_le_bytes();
                    place.copy_from_slice(&new.map(Some));
                }
                Step::Cut(at) => {
                    content.apply(&ChunkOperation::Cut { range: at..u64::MAX }).unwrap();
                    model[usize::try_from(at).unwrap()..].fill(None);
                }
                Step::Punch(at, length) => {
                    content.apply(&ChunkOperation::Cut { range: at..at + length as u64 }).unwrap();
                    model[usize::try_from(at).unwrap()..][..length].fill(None);
                }
            }
            if position == steps.len() / 2 {
                former = Some((model.clone(), content.clone()));
            }
        }
        for (model, content) in former.into_iter().chain([(model, content)]) {
            let (bytes, is_whole) = content.read(&(0..8200)).unwrap();
            let expected: Vec<u8> = model.iter().map(|byte| byte.unwrap_or(0)).collect();
            prop_assert_eq!((bytes, is_whole), (expected, model.iter().all(Option::is_some)));
            for from in (0..8200).step_by(97) {
                let next = |is_wanted: fn(&Option<u8>) -> bool| {
                    let found = model[from..].iter().position(is_wanted);
                    found.map(|distance| (from + distance) as u64)
                };
                let sought = |what| content.seek(&(from as u64..8200), what);
                prop_assert_eq!(sought(Seek::Data), next(Option::is_some));
                prop_assert_eq!(sought(Seek::Hole), next(Option::is_none));
            }
            prop_assert!(content.leaves.iter().all(|leaf| !leaf.is_empty() && leaf.len() <= LEAF_MAX));
            let again: Content = from_bytes(&to_bytes(&content)).unwrap();
            prop_assert!(again == content);
        }
    }
}

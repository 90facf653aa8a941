#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{sync::Arc, vec, vec::Vec};
use core::ops::Range;

use tyr_wire::shared::SharedBytes;

use super::{
    Decoder, Encoder, Hold, Malformed, append_to, append_with_insets, detached, from_bytes,
    from_bytes_holding, from_bytes_keeping, from_bytes_of_stranger, to_bytes, to_bytes_keeping,
};
use crate::{
    Payload,
    payload::{Home, Lost, Place},
};

fn payload(length: u8) -> Payload {
    (0..length).collect::<Vec<u8>>().into()
}

fn bytes_of(payload: &Payload) -> SharedBytes {
    payload.in_memory().unwrap()
}

/// Payload that is kept elsewhere, and cannot be read any more.
#[derive(Debug)]
struct Gone;

impl Home for Gone {
    fn place(&self) -> Place {
        unreachable!("nobody asks")
    }

    fn read(&self, _: usize, _: &mut [u8]) -> Result<(), Lost> {
        Err(Lost)
    }
}

#[test]
fn payload_that_comes_again_is_written_once() {
    let (shared, other) = (payload(100), payload(100));
    assert_eq!(to_bytes(&vec![shared.clone(), shared.clone()]).len(), 1 + 2 + 100 + 1);
    assert_eq!(to_bytes(&vec![shared.clone(), other]).len(), 1 + 2 * (2 + 100), "equal is not the same");
    let read: Vec<Payload> = from_bytes(&to_bytes(&vec![shared.clone(), shared])).unwrap();
    assert_eq!(read[0].address(), read[1].address());
}

type Part = (Payload, Range<usize>);

fn parts(parts: &[Range<usize>]) -> (Vec<u8>, Vec<Part>) {
    let (shared, mut out) = (payload(100), Encoder::default());
    parts.iter().for_each(|part| out.payload_part(&shared, part));
    let bytes = out.finish();
    let mut input = Decoder::new(&bytes);
    let read: Vec<_> = parts.iter().map(|_| input.payload_part().unwrap()).collect();
    for ((piece, within), part) in read.iter().zip(parts) {
        assert_eq!(bytes_of(piece)[within.clone()], bytes_of(&shared)[part.clone()]);
    }
    input.finish().unwrap();
    (bytes, read)
}

#[test]
fn only_the_part_that_is_used_is_written() {
    let (bytes, read) = parts(&[20..60, 30..50, 20..60, 10..30, 0..0, 99..100]);
    let sizes = 1 + 40 + 3 + 3 + (1 + 20) + 1 + 2;
    assert_eq!(bytes.len(), sizes);
    assert_eq!((read[0].0.len(), &read[1].1, &read[3].1), (40, &(10..30), &(0..20)));
    assert_eq!(read[0].0.address(), read[1].0.address());
}

#[test]
fn large_payload_that_is_put_in_between_leaves_the_bytes_as_they_are() {
    let large = |byte| Payload::from(vec![byte; 20 << 10]);
    let (one, other) = (large(1), large(2));
    let value = vec![one.clone(), payload(100), other, one.clone(), Payload::from(vec![3; 16 << 10])];
    let (mut copied, mut rest) = (b"front".to_vec(), b"front".to_vec());
    append_to(&mut copied, &value);
    let insets = append_with_insets(&mut rest, &value);
    assert!(rest.len() < 200 && insets[0].bytes.is(&bytes_of(&one)), "they are not copied");
    assert_eq!(insets.len(), 3, "what comes again is referred to");
    for inset in insets.iter().rev() {
        rest.splice(inset.at..inset.at, inset.bytes[inset.part.clone()].iter().copied());
    }
    assert!(rest == copied);
    let lost = Payload::at_home(40, Arc::new(Gone));
    let mut bytes = vec![1, 2];
    assert!(append_with_insets(&mut bytes, &vec![one, lost]).is_empty());
    assert_eq!(bytes, [1, 2], "a value whose payload is lost has none");
}

#[test]
fn large_payload_can_be_left_out_and_comes_back_as_the_same() {
    let (large, small) = (payload(100), payload(20));
    let value = vec![small.clone(), large.clone(), small.clone(), large.clone()];
    let (bytes, kept) = to_bytes_keeping(&value, 50);
    assert_eq!((bytes.len(), kept.len()), (1 + (1 + 20) + 1 + 1 + 1, 1));
    let elsewhere = Payload::at_home(100, Arc::new(Gone));
    let read: Vec<Payload> = from_bytes_keeping(&bytes, vec![elsewhere.clone()]).unwrap();
    assert!(read[1].address() == elsewhere.address() && read[3].address() == elsewhere.address());
    assert!(read[0] == small && read[0].address() == read[2].address());
    assert!(from_bytes::<Vec<Payload>>(&bytes).is_err(), "without it they are nothing");
    let too_much = vec![elsewhere.clone(), elsewhere];
    assert!(from_bytes_keeping::<Vec<Payload>>(&bytes, too_much).is_err());
}

#[test]
fn payload_is_held_where_the_reader_wants_it() {
    let hold: Hold =
        |bytes| (bytes.len() > 50).then(|| bytes.iter().rev().copied().collect::<Vec<u8>>().into());
    let value = vec![payload(100), payload(20)];
    let held: Vec<Payload> = from_bytes_holding(&to_bytes(&value), hold).unwrap();
    assert_eq!((bytes_of(&held[0])[0], held[0].len()), (99, 100));
    assert_eq!(held[1], value[1], "what is not wanted anywhere is held as always");
    assert!(from_bytes_holding::<Vec<Payload>>(&to_bytes(&value)[1..], hold).is_err());
}

#[test]
fn a_strangers_bytes_become_no_values_that_take_a_hundred_times_as_much() {
    let hold: Hold = |_| None;
    // A byte each, and lists without elements take as much as any.
    let many: Vec<Vec<u8>> = vec![Vec::new(); 2 << 20];
    let bytes = to_bytes(&many);
    assert!(from_bytes::<Vec<Vec<u8>>>(&bytes).is_ok());
    assert!(from_bytes_of_stranger::<Vec<Vec<u8>>>(&bytes, hold).is_err());
    let fewer = to_bytes(&many[..1 << 20].to_vec());
    assert!(from_bytes_of_stranger::<Vec<Vec<u8>>>(&fewer, hold).is_ok());
    // In parts it is as much.
    let parts: Vec<Vec<Vec<u8>>> = vec![vec![Vec::new(); 2 << 16]; 1 << 4];
    assert!(from_bytes_of_stranger::<Vec<Vec<Vec<u8>>>>(&to_bytes(&parts), hold).is_err());
    let payload = vec![payload(200); 1 << 10];
    assert!(from_bytes_of_stranger::<Vec<Payload>>(&to_bytes(&payload), hold).is_ok());
}

#[test]
fn parts_of_payload_that_is_left_out_are_parts_of_all_of_it() {
    let (shared, mut out) = (payload(100), Encoder::keeping(Vec::new(), 50));
    [20..60, 50..90, 99..100].iter().for_each(|part| out.payload_part(&shared, part));
    let (bytes, kept) = out.finish_keeping();
    assert_eq!(bytes.len(), 3 + 3 + 2, "the last one is too small to refer to");
    let mut input = Decoder::keeping(&bytes, kept);
    for part in [20..60, 50..90] {
        let (payload, found) = input.payload_part().unwrap();
        assert!(payload.address() == shared.address() && found == part);
    }
    assert_eq!(bytes_of(&input.payload_part().unwrap().0)[..], [99]);
    input.finish().unwrap();
}

#[test]
fn a_value_whose_payload_is_lost_has_no_bytes() {
    let lost = Payload::at_home(40, Arc::new(Gone));
    let mut bytes = vec![1, 2];
    append_to(&mut bytes, &vec![payload(3), lost.clone()]);
    assert_eq!(bytes, [1, 2]);
    assert!(from_bytes::<Vec<Payload>>(&to_bytes(&vec![lost.clone()])).is_err());
    assert!(detached(&lost).is_none());
}

#[test]
fn what_is_detached_is_equal_and_has_payload_of_its_own() {
    let (large, small) = (payload(100), payload(5));
    let value = vec![large.clone(), small, large.clone()];
    let detached: Vec<Payload> = detached(&value).unwrap();
    assert!(detached == value && detached[0].address() == detached[2].address());
    assert!(detached[0].address() != large.address());
    assert!(bytes_of(&detached[0]).is(&bytes_of(&large)), "the bytes are not copied");
}

#[test]
fn references_to_what_is_not_there_are_refused() {
    let whole = |bytes: &[u8]| Decoder::new(bytes).payload().map(drop);
    assert_eq!(whole(&[1]), Err(Malformed("a reference to payload goes nowhere")));
    assert!(whole(&[200]).is_err());
    let twice = |reference: &[u8]| {
        let bytes = [&[32][..], &[7; 16], reference].concat();
        let mut input = Decoder::new(&bytes);
        input.payload_part().unwrap();
        input.payload_part().map(|(_, part)| part)
    };
    assert_eq!(twice(&[1, 0, 16]), Ok(0..16));
    for reference in [&[1, 0, 17][..], &[1, 1, 16], &[1, 0, 15], &[3, 0, 16], &[1, 0]] {
        assert!(twice(reference).is_err(), "{reference:?}");
    }
}

#[test]
fn what_is_not_in_order_is_refused() {
    use alloc::collections::{BTreeMap, BTreeSet};
    assert_eq!(from_bytes(&[2, 3, 4]), Ok(BTreeSet::from([3u64, 4])));
    assert!(from_bytes::<BTreeSet<u64>>(&[2, 3, 3]).is_err());
    assert_eq!(from_bytes(&[2, 3, 1, 4, 0]), Ok(BTreeMap::from([(3u64, true), (4, false)])));
    assert!(from_bytes::<BTreeMap<u64, bool>>(&[2, 4, 1, 3, 0]).is_err());
}

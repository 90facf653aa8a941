#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{sync::Arc, vec, vec::Vec};
use core::ops::Range;

use super::{Decoder, Encoder, Malformed, from_bytes, to_bytes};

fn payload(length: u8) -> Arc<[u8]> {
    (0..length).collect()
}

#[test]
fn payload_that_comes_again_is_written_once() {
    let (shared, other) = (payload(100), payload(100));
    assert_eq!(to_bytes(&vec![shared.clone(), shared.clone()]).len(), 1 + 2 + 100 + 1);
    assert_eq!(to_bytes(&vec![shared.clone(), other]).len(), 1 + 2 * (2 + 100), "equal is not the same");
    let read: Vec<Arc<[u8]>> = from_bytes(&to_bytes(&vec![shared.clone(), shared])).unwrap();
    assert!(Arc::ptr_eq(&read[0], &read[1]));
}

type Part = (Arc<[u8]>, Range<usize>);

fn parts(parts: &[Range<usize>]) -> (Vec<u8>, Vec<Part>) {
    let (shared, mut out) = (payload(100), Encoder::default());
    parts.iter().for_each(|part| out.payload_part(&shared, part));
    let bytes = out.finish();
    let mut input = Decoder::new(&bytes);
    let read: Vec<_> = parts.iter().map(|_| input.payload_part().unwrap()).collect();
    for ((piece, within), part) in read.iter().zip(parts) {
        assert_eq!(piece[within.clone()], shared[part.clone()]);
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
    assert!(Arc::ptr_eq(&read[0].0, &read[1].0));
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

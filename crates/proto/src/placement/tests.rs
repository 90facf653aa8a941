#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The key of the vectors in the SipHash paper: bytes 0 to 15.
fn paper_seed() -> KeyspaceSeed {
    KeyspaceSeed(core::array::from_fn(|i| i.try_into().unwrap()))
}

fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digits = text.as_bytes();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn layout(chunk_size: u64) -> Layout {
    Layout::of(&KeyspaceSettings { chunk_size, ..KeyspaceSettings::default() }).unwrap()
}

fn placement(partitions: u32) -> Placement {
    Placement {
        class: ClassId(3),
        partitions: PartitionCount::new(partitions).unwrap(),
        seed: paper_seed(),
        layout: layout(1 << 20),
    }
}

/// The vector of the paper's appendix A is the message 00 01 .. 0e; the other is in the authors' reference code.
#[test]
fn the_hash_is_siphash_2_4() {
    let chunk = u64::from_le_bytes([7, 8, 9, 10, 11, 12, 13, 14]);
    assert_eq!(placement_hash(&paper_seed(), &[0, 1, 2, 3, 4, 5, 6], chunk), 0xa129_ca61_49be_45e5);
    let chunk = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(placement_hash(&paper_seed(), &[], chunk), 0x93f5_f579_9a93_2462);
}

#[test]
fn the_checked_in_vectors_hold() {
    let text = include_str!("../../../../docs/protocol/placement-vectors.txt");
    let mut count = 0;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<_> = line.split(' ').collect();
        let [seed, name, chunk, hash, few, middle, many] = fields[..] else { panic!("seven fields: {line}") };
        let seed = KeyspaceSeed(unhex(seed).try_into().unwrap());
        let (name, chunk) = (unhex(name), chunk.parse().unwrap());
        assert_eq!(placement_hash(&seed, &name, chunk), u64::from_str_radix(hash, 16).unwrap(), "{line}");
        for (partitions, index) in [(1, "0"), (16, few), (4096, middle), (65_536, many)] {
            let found = Placement { seed, ..placement(partitions) }.partition_of(&name, chunk);
            assert_eq!(found, PartitionId { class: ClassId(3), index: index.parse().unwrap() }, "{line}");
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} vectors were found");
}

#[test]
fn numbers_of_partitions_are_powers_of_two_within_bounds() {
    for count in [1, 2, 4096, 65_536] {
        assert_eq!(PartitionCount::new(count).unwrap().get(), count);
    }
    for count in [0, 3, 4095, 65_535, 131_072, u32::MAX] {
        assert!(PartitionCount::new(count).is_err(), "{count}");
    }
}

#[test]
fn a_chunk_size_out_of_bounds_has_no_layout() {
    assert!(Layout::of(&KeyspaceSettings { chunk_size: 0, ..KeyspaceSettings::default() }).is_err());
}

/// With 64 partitions and 64000 chunks, a partition's number of chunks has mean 1000 and standard deviation 31.
#[test]
fn the_chunks_of_one_blob_spread_evenly() {
    let placement = placement(64);
    let mut chunks = [0; 64];
    for chunk in 0..64_000 {
        chunks[placement.partition_of(b"a", chunk).index as usize] += 1;
    }
    assert!(chunks.iter().all(|count| (800..1200).contains(count)), "{chunks:?}");
}

proptest! {
    #[test]
    fn the_range_of_a_chunk_is_the_offsets_that_it_holds(offset in 0..OFFSET_MAX, size in 16_u32..=30) {
        let layout = layout(1 << size);
        let chunk = layout.chunk_at(offset);
        let range = layout.range_of(chunk);
        prop_assert!(range.contains(&offset));
        prop_assert_eq!(range.end, layout.range_of(chunk + 1).start);
        prop_assert_eq!(layout.chunk_at(range.end - 1), chunk);
    }

    #[test]
    fn no_chunk_number_makes_it_panic(chunk: u64, name in proptest::collection::vec(any::<u8>(), 0..40)) {
        let placement = placement(4096);
        prop_assert!(placement.layout.range_of(chunk).end <= OFFSET_MAX);
        prop_assert!(placement.partition_of(&name, chunk).index < 4096);
    }
}

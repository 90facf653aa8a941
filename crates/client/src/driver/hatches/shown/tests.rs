#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use tyr_proto::FileName;

use super::*;

/// More than two parts, and not a whole number of blocks.
fn content() -> Vec<u8> {
    (0..2_500_001u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn file(bytes: &[u8]) -> ShownFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    // What is not written back yet would be, at a direct read.
    file.sync_all().unwrap();
    ShownFile::new(file)
}

/// All but some bytes at both ends of what is stored there.
fn spot(content: &[u8], position: usize, stored: usize) -> Spot {
    let checksums = content[position..position + stored].chunks(SPOT_BLOCK as usize).map(crc32c).collect();
    let file = FileName { journal: 1, number: 2 };
    let stored = u32::try_from(stored).unwrap();
    Spot { file, position: position as u64, stored, from: 3, length: stored - 5, checksums }
}

#[test]
fn the_first_read_and_later_ones_have_the_same_bytes() {
    let content = content();
    for (position, stored) in
        [(0, DIRECT_MIN), (4096, 1 << 20), (5, DIRECT_MIN + 1), (1_000_001, 1_050_000), (2_300_000, 200_001)]
    {
        let (file, spot) = (file(&content), spot(&content, position, stored));
        let expected = &content[position + 3..position + stored - 2];
        for time in 0..3 {
            let mut bytes = b"before".to_vec();
            file.read(&[&spot], &mut bytes, Patience::Any).unwrap();
            assert_eq!(&bytes[..6], b"before");
            assert!(&bytes[6..] == expected, "{position} {stored} {time}");
        }
    }
}

#[test]
fn spots_that_follow_one_another_are_read_as_one() {
    let content = content();
    let spots = [spot(&content, 70_001, 65_536), spot(&content, 135_537, 65_536), spot(&content, 201_073, 9)];
    let expected =
        [&content[70_004..135_535], &content[135_540..201_071], &content[201_076..201_080]].concat();
    let file = file(&content);
    for _ in 0..2 {
        let mut bytes = Vec::new();
        file.read(&spots.each_ref(), &mut bytes, Patience::Any).unwrap();
        assert!(bytes == expected);
    }
    assert!(!file.is_new(70_001), "together they are large");
}

#[test]
fn what_is_large_and_new_takes_patience_and_goes_past_the_cache_once() {
    let content = content();
    let (file, spot) = (file(&content), spot(&content, 8192, 1 << 20));
    let read = |patience| file.read(&[&spot], &mut Vec::new(), patience);
    assert!(file.is_new(spot.position));
    assert!(matches!(read(Patience::None), Err(Found::Slow)));
    read(Patience::Any).unwrap();
    assert!(!file.is_new(spot.position));
    read(Patience::Any).unwrap();
}

#[test]
fn what_is_small_is_read_through_the_cache() {
    let content = content();
    let (file, spot) = (file(&content), spot(&content, 8192, DIRECT_MIN - 1));
    file.read(&[&spot], &mut Vec::new(), Patience::Any).unwrap();
    assert!(file.is_new(spot.position), "nothing was read past it");
}

#[test]
fn damage_and_missing_bytes_are_found_past_the_cache_too() {
    let content = content();
    let whole = spot(&content, 1_400_000, 1_100_001);
    for place in [1_400_000, 2_000_000, 2_500_000] {
        let mut damaged = content.clone();
        damaged[place] ^= 1;
        let found = file(&damaged).read(&[&whole], &mut Vec::new(), Patience::Any);
        assert!(matches!(found, Err(Found::Damaged)), "{place}");
    }
    let found = file(&content[..2_500_000]).read(&[&whole], &mut Vec::new(), Patience::Any);
    assert!(matches!(found, Err(Found::Unreadable)));
}

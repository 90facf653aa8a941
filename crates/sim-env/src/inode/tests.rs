use std::collections::BTreeSet;

use super::*;

fn filled(byte: u8) -> Arc<Block> {
    Arc::new([byte; BLOCK_SIZE])
}

fn bytes(content: &Content) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content.length()).expect("fits")];
    content.read(0, &mut bytes);
    bytes
}

fn crashed(inode: &Inode, mode: CrashMode, random: &mut Random) -> Vec<u8> {
    let found = inode.crash(mode, random);
    assert!(found.unsynced.is_empty());
    assert_eq!(bytes(&found.current), bytes(&found.durable));
    bytes(&found.current)
}

#[test]
fn all_is_lost_or_all_is_kept() {
    let mut inode = Inode::default();
    inode.write_durably(0, filled(1));
    inode.write(0, filled(2));
    inode.write(2, filled(3));
    let random = &mut Random::new(1);
    assert_eq!(crashed(&inode, CrashMode::LoseAll, random), [1; BLOCK_SIZE]);
    assert_eq!(crashed(&inode, CrashMode::KeepAll, random), bytes(inode.content()));
    inode.sync();
    assert_eq!(crashed(&inode, CrashMode::LoseAll, random), bytes(inode.content()));
}

#[test]
fn a_durable_write_makes_nothing_else_durable() {
    let mut inode = Inode::default();
    inode.write(0, filled(1));
    inode.write(2, filled(2));
    inode.write_durably(1, filled(3));
    let found = crashed(&inode, CrashMode::LoseAll, &mut Random::new(1));
    let mut expected = vec![0; BLOCK_SIZE];
    expected.resize(2 * BLOCK_SIZE, 3);
    assert!(found == expected, "the hole before it reads as zeros, the length ends with it");
}

#[test]
fn a_durable_write_outlives_older_unsynced_ones_of_its_block() {
    let mut inode = Inode::default();
    inode.write(0, filled(1));
    inode.write_durably(0, filled(2));
    let random = &mut Random::new(1);
    for _ in 0..50 {
        assert_eq!(crashed(&inode, CrashMode::Random, random), [2; BLOCK_SIZE]);
    }
}

#[test]
fn each_block_is_kept_lost_older_or_torn_between_sectors() {
    let mut inode = Inode::default();
    for index in 0..3 {
        inode.write_durably(index, filled(0));
        inode.write(index, filled(1));
        inode.write(index, filled(2));
    }
    let random = &mut Random::new(1);
    let (mut whole, mut torn) = (BTreeSet::new(), 0);
    for _ in 0..5000 {
        let found = crashed(&inode, CrashMode::Random, random);
        for sector in found.chunks(SECTOR_SIZE) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written as a whole");
        }
        let kinds =
            found.chunks(BLOCK_SIZE).map(|block| block.iter().all(|b| *b == block[0]).then_some(block[0]));
        let kinds: Vec<_> = kinds.collect();
        torn += kinds.iter().filter(|kind| kind.is_none()).count();
        whole.extend(kinds.into_iter().collect::<Option<Vec<_>>>());
    }
    assert_eq!(whole.len(), 27, "every combination of versions of the three blocks: {whole:?}");
    assert!(torn > 50, "{torn} torn blocks");
}

#[test]
fn an_unsynced_length_may_be_anything_from_the_durable_one_on() {
    let mut inode = Inode::default();
    inode.write_durably(0, filled(1));
    inode.grow(4 * BLOCK_SIZE as u64);
    inode.write(3, filled(2));
    let random = &mut Random::new(1);
    let lengths: BTreeSet<usize> =
        (0..200).map(|_| crashed(&inode, CrashMode::Random, random).len() / BLOCK_SIZE).collect();
    assert_eq!(lengths, BTreeSet::from([1, 2, 3, 4]));
    inode.sync();
    assert_eq!(crashed(&inode, CrashMode::LoseAll, random).len(), 4 * BLOCK_SIZE);
}

#[test]
fn after_a_failed_sync_only_a_new_write_can_become_durable() {
    let mut inode = Inode::default();
    inode.write(0, filled(1));
    inode.write(1, filled(1));
    inode.abandon();
    inode.write(1, filled(2));
    inode.sync();
    let random = &mut Random::new(1);
    let found = crashed(&inode, CrashMode::LoseAll, random);
    assert_eq!((found[0], found[BLOCK_SIZE]), (0, 2));
    assert_eq!(bytes(inode.content())[0], 1, "until then a reader sees it");
    inode.write_durably(0, filled(3));
    assert_eq!(crashed(&inode, CrashMode::LoseAll, random)[0], 3);
}

#[test]
fn damage_shows_before_and_after_a_crash() {
    let mut inode = Inode::default();
    inode.write_durably(0, filled(0));
    inode.write(1, filled(0));
    inode.flip_bit(5, 0);
    inode.flip_bit(BLOCK_SIZE as u64, 7);
    for found in [bytes(inode.content()), crashed(&inode, CrashMode::KeepAll, &mut Random::new(1))] {
        assert_eq!((found[5], found[BLOCK_SIZE]), (1, 0x80));
    }
    assert_eq!(crashed(&inode, CrashMode::LoseAll, &mut Random::new(1))[5], 1);
    inode.set_length(5);
    inode.set_length(8192);
    for mode in CrashMode::ALL {
        assert_eq!(crashed(&inode, mode, &mut Random::new(1)), [0; 8192]);
    }
}

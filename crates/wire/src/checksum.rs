//! CRC-32C (Castagnoli), the one checksum of Týr: of frames, of payload by block, of files that are imported, of messages.
//!
//! By a library that uses the widest carry-less multiplication the processor has: for blocks of 4 KiB several times as fast as the
//! dedicated instruction.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of these bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of the bytes that have `checksum`, followed by these.
pub fn crc32c_append(checksum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!checksum));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a checksum of 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_castagnolis() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn parts_have_the_checksum_of_the_whole() {
        let bytes: alloc::vec::Vec<u8> = (0..10_000u32).map(|index| (index * 7 % 251) as u8).collect();
        for cut in [0, 1, 15, 64, 255, 4096, 9_999, 10_000] {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(crc32c_append(crc32c(front), back), crc32c(&bytes), "cut at {cut}");
        }
    }
}

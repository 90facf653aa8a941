//! CRC-32C of content that passes by in pieces.

use std::fmt;

/// The checksum of a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(u32);

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Checksum(tyr_wire::checksum::crc32c(bytes))
    }

    /// The checksum of what came before and these bytes.
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> Self {
        Checksum(tyr_wire::checksum::crc32c_append(self.0, bytes))
    }

    /// Reads back what is displayed: eight hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|_| valid).map(Checksum)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc_32c_and_pieces_do_not_matter() {
        assert_eq!(Checksum::of(b"123456789").to_string(), "e3069283");
        assert_eq!(Checksum::default().then(b"1234").then(b"").then(b"56789"), Checksum::of(b"123456789"));
        assert_eq!(Checksum::default(), Checksum::of(b""));
    }

    #[test]
    fn what_is_displayed_reads_the_same() {
        let checksum = Checksum::of(b"x");
        assert_eq!(Checksum::parse(&checksum.to_string()), Some(checksum));
        assert_eq!((Checksum::parse("+1234567"), Checksum::parse("123")), (None, None));
    }
}

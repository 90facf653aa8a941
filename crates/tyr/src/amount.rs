//! Amounts of bytes as people write them: `64MiB`, ranges of them: `1MiB..2MiB`, and numbers of other things.

use std::ops::RangeInclusive;

use tyr_types::OFFSET_MAX;

/// Parses a number within bounds, which whoever writes another one is told.
pub fn number(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            format!("'{}' is no number from {} to {}", text.escape_debug(), bounds.start(), bounds.end())
        })
    }
}

/// Parses a number of bytes: digits and an optional unit, binary (`K`, `KiB`, ...) or decimal (`KB`, ...).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || {
        format!(
            "'{}' is no size; write digits and a unit, such as 4096, 64KiB, 10GiB, 1MB",
            text.escape_debug()
        )
    };
    if digits == 0 {
        return Err(wrong());
    }
    let scale = unit_bytes(unit.trim_start()).ok_or_else(wrong)?;
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    bytes.filter(|bytes| *bytes <= OFFSET_MAX).ok_or_else(|| format!("'{text}' is more than 2^63-1 bytes"))
}

/// Writes a number of bytes so that [`parse_bytes`] reads the same: with the largest binary unit that divides it.
pub fn write_bytes(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// A part of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The first byte that is not part of it; the end of the blob if `None`.
    pub end: Option<u64>,
}

impl ByteRange {
    /// The whole blob.
    pub const ALL: ByteRange = ByteRange { start: 0, end: None };

    /// Parses `START..END`, `START..`, `..END`, or `START+LENGTH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bound = |text: &str| match text {
            "" => Ok(None),
            _ => parse_bytes(text).map(Some),
        };
        let (start, end) = if let Some((start, end)) = text.split_once("..") {
            (bound(start)?.unwrap_or(0), bound(end)?)
        } else if let Some((start, length)) = text.split_once('+') {
            let start = parse_bytes(start)?;
            (start, Some(start.saturating_add(parse_bytes(length)?)))
        } else {
            return Err(format!(
                "'{}' is no range; write START..END, START.., ..END, or START+LENGTH, such as 0..4KiB",
                text.escape_debug()
            ));
        };
        if end.is_some_and(|end| end < start) {
            return Err(format!("the range '{text}' ends before it starts"));
        }
        Ok(ByteRange { start, end })
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let power = |letter: &str| ["k", "m", "g", "t", "p"].iter().position(|l| *l == letter);
    let exponent = |letter: &str| power(letter).and_then(|p| u32::try_from(p + 1).ok());
    match unit.as_str() {
        "" | "b" => Some(1),
        _ => match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
            (Some(letter), _) => exponent(letter).map(|e| 1 << (10 * e)),
            (None, Some(letter)) => exponent(letter).map(|e| 1000_u64.pow(e)),
            (None, None) => exponent(&unit).map(|e| 1 << (10 * e)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65536),
            ("1m", 1 << 20),
            ("10 GiB", 10 << 30),
            ("2kB", 2000),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "12 bananas", "-1", "1.5GiB", "9223372036854775808", "9000PiB", "1ib"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_out_of_bounds_is_told_the_bounds() {
        let parse = number(1..=3600);
        assert_eq!((parse("1"), parse("3600")), (Ok(1), Ok(3600)));
        for text in ["0", "3601", "-1", "", "many"] {
            assert_eq!(parse(text), Err(format!("'{text}' is no number from 1 to 3600")));
        }
    }

    #[test]
    fn written_sizes_read_the_same() {
        for bytes in [0, 1, 1023, 1024, 3 << 20, (1 << 30) + 1, 10 << 30] {
            assert_eq!(parse_bytes(&write_bytes(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn ranges_are_half_open() {
        let range = |start, end| Ok(ByteRange { start, end });
        assert_eq!(ByteRange::parse("1KiB..2KiB"), range(1024, Some(2048)));
        assert_eq!(ByteRange::parse("5.."), range(5, None));
        assert_eq!(ByteRange::parse("..5"), range(0, Some(5)));
        assert_eq!(ByteRange::parse(".."), Ok(ByteRange::ALL));
        assert_eq!(ByteRange::parse("10+5"), range(10, Some(15)));
        for text in ["", "5", "5..4", "a..b", "1-2"] {
            assert!(ByteRange::parse(text).is_err(), "{text}");
        }
    }
}

//! How bytes, sizes, and keys look in text and in JSON.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

/// Bytes as text that is safe on a terminal: what is not UTF-8 becomes `\xff`, control characters become `\n`,
/// `\u{1b}`, ..., and a backslash is doubled, so that different bytes never look alike.
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            for character in part.valid().chars() {
                if character.is_control() || character == '\\' {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    f.write_char(character)?;
                }
            }
            for byte in part.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A number of bytes for people: exact below 1 KiB, then with three digits and a binary unit.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 1023.5 && unit + 1 < UNITS.len() {
            amount /= 1024.0;
            unit += 1;
        }
        let digits = if amount < 9.995 {
            2
        } else if amount < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{amount:.digits$} {}", UNITS[unit])
    }
}

/// Adds bytes to a JSON object: as the text `name` if they are UTF-8, else as hexadecimal digits in `name_hex`.
pub fn bytes_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

/// Starts a JSON object with the fields that name a blob: `keyspace`, and `key` or `key_hex`.
pub fn key_fields(keyspace: &str, key: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("keyspace".to_owned(), keyspace.into());
    bytes_field(&mut object, "key", key);
    object
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_bytes_never_look_alike() {
        let shown = |bytes: &[u8]| Shown(bytes).to_string();
        assert_eq!(shown("café/x".as_bytes()), "café/x");
        assert_eq!(shown(b"a\nb\x1b"), "a\\nb\\u{1b}");
        assert_eq!(shown(b"\xff"), "\\xff");
        assert_eq!(shown(b"\\xff"), "\\\\xff");
    }

    #[test]
    fn sizes_have_three_digits_and_a_binary_unit() {
        let sizes = [0, 1023, 1024, 10 << 10, 1 << 20, 1_048_575, 3 << 30, u64::MAX];
        let shown: Vec<String> = sizes.iter().map(|size| Bytes(*size).to_string()).collect();
        let expected =
            ["0 B", "1023 B", "1.00 KiB", "10.0 KiB", "1.00 MiB", "1.00 MiB", "3.00 GiB", "16.0 EiB"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn bytes_that_are_not_text_go_to_json_as_hexadecimal_digits() {
        assert_eq!(Value::from(key_fields("k", b"a")).to_string(), r#"{"key":"a","keyspace":"k"}"#);
        let odd = Value::from(key_fields("k", b"a\xff"));
        assert_eq!((odd.get("key"), odd["key_hex"].as_str()), (None, Some("61ff")));
    }
}

//! From the bytes of a line to words.
//!
//! Words are separated by spaces and tabs. A part in double quotes may contain anything, with escapes; a part in single
//! quotes is taken as it is. `#` at the beginning of a word starts a comment.

/// A word, its quotes and escapes undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where it begins: characters from 1.
    pub column: usize,
    /// What it says.
    pub bytes: Vec<u8>,
    /// How many of its bytes stand before its first quote.
    pub plain: usize,
}

/// What is wrong with a line, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Characters from 1.
    pub column: usize,
    /// What was found, and what was expected.
    pub message: String,
}

/// Cuts a line into words.
pub fn words(line: &[u8]) -> Result<Vec<Word>, Wrong> {
    let mut lexer = Lexer { line, position: 0 };
    let mut words = Vec::new();
    while let Some(word) = lexer.word()? {
        words.push(word);
    }
    Ok(words)
}

/// The column of a position in a line: characters before it, plus one.
pub fn column(line: &[u8], position: usize) -> usize {
    String::from_utf8_lossy(&line[..position]).chars().count() + 1
}

struct Lexer<'a> {
    line: &'a [u8],
    position: usize,
}

impl Lexer<'_> {
    fn word(&mut self) -> Result<Option<Word>, Wrong> {
        while self.peek().is_some_and(is_space) {
            self.position += 1;
        }
        if matches!(self.peek(), None | Some(b'#')) {
            return Ok(None);
        }
        let mut word =
            Word { column: column(self.line, self.position), bytes: Vec::new(), plain: usize::MAX };
        while let Some(byte) = self.peek().filter(|byte| !is_space(*byte)) {
            self.position += 1;
            if byte == b'"' || byte == b'\'' {
                word.plain = word.plain.min(word.bytes.len());
                self.quoted(byte, &mut word.bytes)?;
            } else {
                word.bytes.push(byte);
            }
        }
        word.plain = word.plain.min(word.bytes.len());
        Ok(Some(word))
    }

    /// Reads up to the quote that ends what `quote`, just before the position, began.
    fn quoted(&mut self, quote: u8, bytes: &mut Vec<u8>) -> Result<(), Wrong> {
        let start = self.position - 1;
        loop {
            let Some(byte) = self.peek() else {
                let message = format!("this {} is not closed before the end of the line", char::from(quote));
                return Err(self.wrong(start, message));
            };
            self.position += 1;
            match byte {
                _ if byte == quote => return Ok(()),
                b'\\' if quote == b'"' => self.escape(bytes)?,
                _ => bytes.push(byte),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Wrong> {
        let start = self.position - 1;
        let byte = self.peek();
        self.position += 1;
        match byte {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'0') => bytes.push(0),
            Some(b'\\' | b'"' | b'\'') => bytes.extend(byte),
            Some(b'x') => bytes.push(self.hex_byte(start)?),
            Some(b'u') => self.unicode(start, bytes)?,
            _ => {
                let message =
                    "unknown escape; expected \\n, \\r, \\t, \\0, \\\\, \\\", \\', \\xHH, or \\u{HEX}";
                return Err(self.wrong(start, message.to_owned()));
            }
        }
        Ok(())
    }

    fn hex_byte(&mut self, start: usize) -> Result<u8, Wrong> {
        let digits =
            self.line.get(self.position..self.position + 2).and_then(|d| std::str::from_utf8(d).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        self.position += 2;
        byte.ok_or_else(|| self.wrong(start, "expected two hexadecimal digits after \\x".to_owned()))
    }

    fn unicode(&mut self, start: usize, bytes: &mut Vec<u8>) -> Result<(), Wrong> {
        let rest = &self.line[self.position..];
        let end = rest.iter().position(|byte| *byte == b'}');
        let digits = end.and_then(|end| rest.get(1..end)).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| rest[0] == b'{' && digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let scalar = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        let Some(scalar) = scalar else {
            return Err(self.wrong(start, "expected the number of a character, such as \\u{e9}".to_owned()));
        };
        bytes.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
        self.position += end.map_or(0, |end| end + 1);
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.position).copied()
    }

    fn wrong(&self, position: usize, message: String) -> Wrong {
        Wrong { column: column(self.line, position), message }
    }
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(line: &str) -> Vec<Vec<u8>> {
        words(line.as_bytes()).expect("well formed").into_iter().map(|word| word.bytes).collect()
    }

    fn wrong(line: &str) -> (usize, String) {
        let wrong = words(line.as_bytes()).expect_err("not well formed");
        (wrong.column, wrong.message)
    }

    #[test]
    fn words_are_separated_by_spaces_and_comments_end_the_line() {
        assert_eq!(texts("  a\tb#c  # d"), [b"a".to_vec(), b"b#c".to_vec()]);
        assert_eq!(texts(""), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn quotes_keep_spaces_and_double_quotes_know_escapes() {
        assert_eq!(
            texts(r#"k/"a b" "\x00\xff\u{e9}\n\"""#),
            [b"k/a b".to_vec(), b"\x00\xff\xc3\xa9\n\"".to_vec()]
        );
        assert_eq!(texts(r"'a\n' ''"), [br"a\n".to_vec(), vec![]]);
    }

    #[test]
    fn how_much_stands_before_the_first_quote_is_known() {
        let plain = |line: &str| words(line.as_bytes()).expect("well formed")[0].plain;
        assert_eq!((plain("file:x"), plain("file:'a b'"), plain("'file:x'")), (6, 5, 0));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_column_in_characters() {
        assert_eq!(wrong("é \"abc"), (3, "this \" is not closed before the end of the line".to_owned()));
        assert_eq!(wrong(r#"a "\q""#).0, 4);
        assert_eq!(wrong(r#""\xf""#), (2, "expected two hexadecimal digits after \\x".to_owned()));
        assert_eq!(wrong(r#""\x+f""#).0, 2);
        assert_eq!(wrong(r#""\u{110000}""#).0, 2);
        assert_eq!(wrong(r#""\u"#).0, 2);
        assert_eq!(wrong(r#""\"#).0, 2);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = words(&line);
        }

        #[test]
        fn quoted_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let quoted = bytes.iter().fold(String::from("\""), |text, byte| format!("{text}\\x{byte:02x}")) + "\"";
            prop_assert_eq!(&words(quoted.as_bytes()).expect("well formed")[0].bytes, &bytes);
        }
    }
}

//! Makes the lines of a trace short enough to be followed: names as people write them instead of nested structures.

/// A `#` stands for a whole number. In this order: later patterns contain what earlier ones make.
const SHORT: [(&str, &str); 17] = [
    ("PartitionId { class: ClassId(#), index: # }", "p#.#"),
    ("NodeId(#)", "n#"),
    ("SessionId(#)", "c#"),
    ("RingVersion(#)", "v#"),
    ("Epoch(#)", "e#"),
    ("Incarnation(#)", "#"),
    ("Replica { node: n#, incarnation: # }", "n#/#"),
    ("TransactionId { session: c#, sequence: #, birth: v# }", "t#.#(v#)"),
    ("RequestId { session: c#, number: # }", "r#.#"),
    ("BlobName { keyspace: KeyspaceId(1), key: Key(b#) }", "b#"),
    ("ChunkName { blob: b#, index: # }", "b#:#"),
    ("Envelope { partition: p#.#, message: ", "p#.# "),
    ("Configuration { epoch: e#, since: v#, floor: v#, replicas: ", "{e#, since v#, floor v#, "),
    ("ClassId(#)", "class #"),
    ("Blob(#)", "b#"),
    ("Register { blob: b#, part: # }", "b#/#"),
    ("Number(#)", NUMBER),
];
const NUMBER: &str = "epoch:index";
/// A number is an epoch above this many bits, and an index below.
const INDEX_BITS: u32 = 40;

/// Writes names short.
pub fn shorten(text: &str) -> String {
    SHORT.iter().fold(text.to_owned(), |text, (pattern, short)| replace(&text, pattern, short))
}

fn replace(text: &str, pattern: &str, short: &str) -> String {
    let literals: Vec<&str> = pattern.split('#').collect();
    let (mut result, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(literals[0]) {
        let (before, found) = rest.split_at(at);
        result.push_str(before);
        match matched(found, &literals) {
            Some((numbers, after)) => {
                result.push_str(&filled(short, &numbers));
                rest = after;
            }
            None => {
                result.push_str(literals[0]);
                rest = &found[literals[0].len()..];
            }
        }
    }
    result + rest
}

/// The numbers between the literals that a text begins with, and what comes after the last one.
fn matched<'a>(text: &'a str, literals: &[&str]) -> Option<(Vec<&'a str>, &'a str)> {
    let mut rest = text.strip_prefix(literals[0])?;
    let mut numbers = Vec::new();
    for literal in &literals[1..] {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return None;
        }
        numbers.push(number);
        rest = after.strip_prefix(literal)?;
    }
    Some((numbers, rest))
}

fn filled(short: &str, numbers: &[&str]) -> String {
    if short == NUMBER {
        let number: u64 = numbers[0].parse().unwrap_or(0);
        return format!("{}:{}", number >> INDEX_BITS, number & ((1 << INDEX_BITS) - 1));
    }
    let mut numbers = numbers.iter();
    let filled: Vec<String> = short
        .split('#')
        .map(|literal| literal.to_owned() + numbers.next().copied().map(plain).unwrap_or_default())
        .collect();
    filled.concat()
}

/// Without leading zeros.
fn plain(number: &str) -> &str {
    let short = number.trim_start_matches('0');
    if short.is_empty() { "0" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_short() {
        let look = "Look { request: RequestId { session: SessionId(3), number: 120 }, blob: BlobName { keyspace: \
                    KeyspaceId(1), key: Key(b0001) } }, Number(35184372088980), PartitionId { class: ClassId(0), index: 3 }";
        assert_eq!(shorten(look), "Look { request: r3.120, blob: b1 }, 32:148, p0.3");
    }

    #[test]
    fn what_is_no_name_stays() {
        assert_eq!(shorten("NodeId(x) SessionId("), "NodeId(x) SessionId(");
        assert_eq!(shorten("Replica { node: NodeId(1), incarnation: Incarnation(2) }"), "n1/2");
    }
}

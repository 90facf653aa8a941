use proptest::prelude::*;
use tyr_client::{Operand, Transform};
use tyr_types::Key;

use super::*;

fn actions(text: &str) -> Vec<Action> {
    parse(text.as_bytes()).expect("well formed").into_iter().map(|operation| operation.action).collect()
}

fn error(text: &str) -> (usize, usize, String) {
    let error = parse(text.as_bytes()).expect_err("not well formed");
    (error.line, error.column, error.message)
}

fn literal(bytes: &[u8]) -> Payload {
    Payload::Literal(bytes.to_vec())
}

#[test]
fn every_operation_is_understood() {
    let script = r#"
        # a comment
        create k/a
        delete k/a
        put k/a "x y"
        write k/a 4KiB hex:00ff
        append k/a file:"some file"
        truncate k/a 10
        punch k/a 4KiB 8KiB
        transform k/a add i64 8 -5
        transform k/a cas u8 0 1 0x2
        attr set k/a name 'value'
        attr unset k/a name   # and a comment behind
        check exists k/a
        check missing k/a
        check size k/a 7
        check version k/a 2.9
        check bytes k/a 0 text:hex:00
        check attr k/a name v
        check no-attr k/a name
    "#;
    let one = Transform::compare_and_swap(Operand::U8(1), Operand::U8(2)).expect("same type");
    let version = (0..8).fold(Number::first_of_epoch(2), |number, _| number.next());
    let expected = [
        Action::Create,
        Action::Delete,
        Action::Put(literal(b"x y")),
        Action::Write(4096, literal(&[0, 255])),
        Action::Append(Payload::File("some file".into())),
        Action::Truncate(10),
        Action::Punch(4096, 8192),
        Action::Transform(8, Transform::add(Operand::I64(-5))),
        Action::Transform(0, one),
        Action::SetAttribute("name".into(), literal(b"value")),
        Action::UnsetAttribute("name".into()),
        Action::Check(Check::Exists),
        Action::Check(Check::Missing),
        Action::Check(Check::Size(7)),
        Action::Check(Check::Version(version)),
        Action::CheckBytes(0, literal(b"hex:00")),
        Action::CheckAttribute("name".into(), literal(b"v")),
        Action::Check(Check::Attribute { name: "name".into(), value: None }),
    ];
    assert_eq!(actions(script), expected);
}

#[test]
fn operations_know_their_line_and_blob() {
    let operations = parse(b"\r\n\ncreate k/\"a b\"\r\n").expect("well formed");
    let key = Key::new("a b").expect("valid key");
    assert_eq!(operations, [Operation { line: 3, keyspace: "k".into(), key, action: Action::Create }]);
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let (line, column, message) = error("create k/a\n  frob k/a");
    assert_eq!((line, column), (2, 3));
    assert!(message.contains("'frob'") && message.contains("truncate"), "{message}");

    let (line, column, message) = error("write k/a");
    assert_eq!((line, column), (1, 10));
    assert!(message.contains("the line ends here; expected an offset"), "{message}");

    let (_, column, message) = error("create k/a k/b");
    assert_eq!(column, 12);
    assert!(message.contains("expected the end of the line"), "{message}");
}

#[test]
fn every_wrong_word_is_refused_at_its_column() {
    let cases = [
        ("create nokey", 8, "KEY"),
        ("write k/a x y", 11, "is no size"),
        ("put k/a hex:0", 9, "hexadecimal"),
        ("transform k/a plus u8 0 1", 15, "compare-and-swap"),
        ("transform k/a add u9 0 1", 19, "u64"),
        ("transform k/a add u8 0 256", 24, "is no u8"),
        ("transform k/a cas u8 0 1", 25, "the new value"),
        ("transform k/a xor f32 0 1", 15, "integer"),
        ("attr get k/a name", 6, "set or unset"),
        ("attr set k/a \"\\xff\" v", 14, "UTF-8"),
        ("check likes k/a", 7, "no-attr"),
        ("check version k/a 12", 19, "3.17"),
    ];
    for (script, column, expected) in cases {
        let (_, found, message) = error(script);
        assert_eq!(found, column, "{script}: {message}");
        assert!(message.contains(expected), "{script}: {message}");
    }
}

proptest! {
    #[test]
    fn no_script_makes_it_panic(text in "((put|write|check|attr|transform|set|bytes|k/a|add|u8|[0-9]{1,3}|\\PC{0,4}) ?){0,8}\n?") {
        let _ = parse(text.as_bytes());
    }
}

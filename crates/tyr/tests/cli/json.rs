//! The examples in `docs/json.md` against what the command prints.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::support::Scratch;

/// The names and types in a document, without the values. Lists have the shape of their first element.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(values) => format!("[{}]", values.first().map(shape).unwrap_or_default()),
        Value::Object(fields) => {
            let fields: BTreeMap<&String, String> =
                fields.iter().map(|(name, value)| (name, shape(value))).collect();
            format!("{fields:?}")
        }
    }
}

/// The example below each heading.
fn examples() -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let text = fs::read_to_string(path).expect("is there");
    let sections = text.split("\n## ").skip(1);
    let example = |section: &str| {
        let heading = section.lines().next().expect("has a heading").to_owned();
        let json = section
            .split("```json\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
            .expect("has an example");
        (heading, serde_json::from_str(json).expect("is JSON"))
    };
    sections.map(example).collect()
}

#[test]
fn what_is_printed_has_the_documented_shape() {
    let scratch = Scratch::new();
    let documented = examples();
    scratch.write("tree/a", "content");
    scratch.write("script", "append k/a x\ntransform k/n add u64 0 5\n");
    let commands = [
        "keyspace create k",
        "blob put k/a tree/a",
        "blob get k/a copy",
        "blob attr set k/a color red",
        "blob attr get k/a color",
        "blob attr list k/a",
        "blob stat k/a",
        "blob append k/a tree/a",
        "blob truncate k/a 3",
        "blob transform k/n add u64 0 5",
        "tx run script",
        "blob ls k",
        "keyspace list",
        "keyspace show k",
        "import tree k/tree",
        "export k/tree out",
        "snapshot create k@monday",
        "snapshot ls",
        "snapshot show k@monday",
        "snapshot export k archive",
        "snapshot verify archive --against k",
        "snapshot import archive copy",
        "snapshot restore k@monday --yes",
        "check",
        "stats",
        "compact",
        "version",
        "blob attr unset k/a color",
        "blob rm k/a",
    ];
    let mut checked = Vec::new();
    for command in commands {
        let printed = scratch.run(command.split(' ').chain(["--json"])).ok().json();
        let heading =
            documented.keys().filter(|heading| format!("tyr {command} ").starts_with(&format!("{heading} ")));
        let heading = heading
            .max_by_key(|heading| heading.len())
            .unwrap_or_else(|| panic!("{command} is not documented"));
        let mut expected = shape(&documented[heading]);
        if command == "version" && printed["commit"].is_null() {
            expected = expected.replace(r#""commit": "text""#, r#""commit": "null""#);
        }
        assert_eq!(shape(&printed), expected, "{command}");
        checked.push(heading.clone());
    }
    // That of the demonstration is compared where it is run.
    let unchecked: Vec<_> = documented.keys().filter(|heading| !checked.contains(heading)).collect();
    assert_eq!(unchecked, ["tyr demo"]);
}

/// For the test of the demonstration.
pub fn assert_documented(heading: &str, printed: &Value) {
    assert_eq!(shape(printed), shape(&examples()[heading]), "{heading}");
}

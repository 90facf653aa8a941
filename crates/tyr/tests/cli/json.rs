//! The examples in `docs/json.md` against what the command prints.

use serde_json::Value;

use crate::{
    shape::{Part, examples, shape},
    support::Scratch,
};

#[test]
fn what_is_printed_has_the_documented_shape() {
    let scratch = Scratch::new();
    let documented = examples(Part::AnyStore);
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
        "blob punch k/a 1+2",
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
        "fs create f",
        "fs put f/a tree/a",
        "fs ls f",
        "fs stat f/a",
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
    assert_eq!(unchecked, ["tyr demo", "tyr mount"]);
}

/// For the test of the demonstration.
pub fn assert_documented(heading: &str, printed: &Value) {
    assert_eq!(shape(printed), shape(&examples(Part::AnyStore)[heading]), "{heading}");
}

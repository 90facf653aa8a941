//! The examples in `docs/json.md`, and what is compared of them.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

/// The names and types in a document, without the values. Lists have the shape of their first element.
pub fn shape(value: &Value) -> String {
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

/// A part of the document.
#[allow(dead_code, reason = "each test program looks at one of them")]
pub enum Part {
    /// What is printed of any store.
    AnyStore,
    /// What is printed of clusters alone.
    Clusters,
}

/// The example below each heading.
pub fn examples(part: Part) -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let text = fs::read_to_string(path).expect("is there");
    let (any, clusters) = text.split_once("\n# On clusters\n").expect("has both parts");
    let text = match part {
        Part::AnyStore => any,
        Part::Clusters => clusters,
    };
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

//! What a step was told, and whether that is what it should be.

use std::collections::BTreeMap;

use serde_json::Value;
use tyr_client::{Attributes, NumberType, Operand, Stat};

/// What a step resulted in.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Nothing,
    Flag(bool),
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
    Operand(Operand),
    /// Fields, of which those that are asked for have to be equal.
    Fields(BTreeMap<&'static str, Told>),
    /// Names with values, all of which have to be equal.
    Map(BTreeMap<String, Told>),
    List(Vec<Told>),
    /// What appends and transforms of a transaction resulted in, by the name of the slot.
    Committed(BTreeMap<String, Told>),
}

/// What steps kept, by name.
pub type Kept = BTreeMap<String, Told>;

impl Told {
    /// Whether it is what a scenario says.
    pub fn is(&self, wanted: &Value, kept: &Kept) -> bool {
        if let Some(name) = wanted.get("kept") {
            return kept.get(text(name)) == Some(self);
        }
        match self {
            Told::Nothing => wanted.is_null(),
            Told::Flag(flag) => wanted.as_bool() == Some(*flag),
            Told::Number(number) => wanted.as_u64() == Some(*number),
            Told::Text(text) => wanted.as_str() == Some(text),
            Told::Bytes(found) => *found == bytes(wanted),
            Told::Operand(found) => *found == operand(wanted),
            Told::Fields(fields) => {
                let wanted = wanted.as_object().unwrap();
                wanted.iter().all(|(name, wanted)| fields[name.as_str()].is(wanted, kept))
            }
            Told::Map(found) => {
                let wanted = wanted.as_object().unwrap();
                wanted.len() == found.len()
                    && found.iter().all(|(name, found)| wanted.get(name).is_some_and(|it| found.is(it, kept)))
            }
            Told::Committed(slots) => match wanted.get("committed") {
                Some(wanted) => {
                    wanted.as_object().unwrap().iter().all(|(slot, wanted)| slots[slot].is(wanted, kept))
                }
                None => wanted == "committed",
            },
            Told::List(found) => {
                let wanted = wanted.as_array().unwrap();
                wanted.len() == found.len() && found.iter().zip(wanted).all(|(found, it)| found.is(it, kept))
            }
        }
    }

    /// Bytes, or that there are none.
    pub fn maybe(bytes: Option<Vec<u8>>) -> Told {
        bytes.map_or(Told::Nothing, Told::Bytes)
    }

    /// The state of a blob.
    pub fn stat(stat: &Stat) -> Told {
        Told::Fields(BTreeMap::from([
            ("size", Told::Number(stat.size)),
            ("version", Told::Number(stat.version.to_u64())),
            ("attributes", attributes(&stat.attributes)),
        ]))
    }

    /// What a step keeps of it.
    pub fn kept(&self) -> Told {
        match self {
            Told::Fields(fields) => fields["version"].clone(),
            told => told.clone(),
        }
    }
}

fn attributes(attributes: &Attributes) -> Told {
    Told::Map(attributes.iter().map(|(name, value)| (name.to_owned(), Told::Bytes(value.to_vec()))).collect())
}

/// A string of a scenario.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Bytes of a scenario.
pub fn bytes(value: &Value) -> Vec<u8> {
    if let Some(text) = value.as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = value.get("hex") {
        let digits = text(hex).as_bytes().chunks(2);
        return digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    }
    let times = usize::try_from(value["times"].as_u64().unwrap()).unwrap();
    text(&value["repeat"]).repeat(times).into_bytes()
}

/// A number of a transform, `{"u64": 5}`.
pub fn operand(value: &Value) -> Operand {
    let (name, number) = value.as_object().unwrap().iter().next().unwrap();
    let number_type = *NumberType::ALL.iter().find(|known| known.name() == name).unwrap();
    let bytes = match number_type {
        NumberType::F32 => {
            #[expect(clippy::cast_possible_truncation, reason = "numbers of scenarios are exact")]
            let narrow = number.as_f64().unwrap() as f32;
            narrow.to_le_bytes().to_vec()
        }
        NumberType::F64 => number.as_f64().unwrap().to_le_bytes().to_vec(),
        _ => match number.as_i64() {
            Some(signed) => signed.to_le_bytes().to_vec(),
            None => number.as_u64().unwrap().to_le_bytes().to_vec(),
        },
    };
    Operand::from_le_bytes(number_type, &bytes[..number_type.size()]).unwrap()
}

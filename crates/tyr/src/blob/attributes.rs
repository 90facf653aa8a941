//! `tyr blob attr`: the small named values that a blob carries.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::Subcommand;
use serde::Serialize;
use serde_json::{Map, Value};
use tyr_client::{Error, blocking::Store};

use crate::{
    address::BlobAddress,
    blob::{Done, keyspace_of},
    failure::{Failure, Result},
    output::{Output, Report, Shown, Table, bytes_field, key_fields},
    payload::Payload,
};

/// What to do with attributes.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the value of an attribute.
    Get {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The attribute's name.
        name: String,
    },
    /// Set an attribute.
    Set {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The attribute's name.
        name: String,
        /// The value: text, or hex:00ff, file:PATH, text:hex:...
        #[arg(allow_hyphen_values = true)]
        value: OsString,
    },
    /// Remove an attribute.
    Unset {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The attribute's name.
        name: String,
    },
    /// List all attributes of a blob.
    List {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
    },
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self, store: &Store, out: &mut Output) -> Result<()> {
        match self {
            Verb::Get { blob, name } => {
                let value = keyspace_of(store, &blob)?.attribute(&blob.key, &name)?;
                let value = value.ok_or_else(|| missing(&blob, &name))?;
                out.report(&One { blob: &blob, name: &name, value })
            }
            Verb::Set { blob, name, value } => {
                let payload = Payload::parse(value.as_bytes(), usize::MAX).map_err(Failure::Usage)?;
                let value = payload.whole_value()?;
                keyspace_of(store, &blob)?.set_attribute(&blob.key, &name, Some(&value))?;
                let line = format!("set attribute '{name}' of {blob}");
                out.done(&Done::new("set", &blob, line).with("name", name))
            }
            Verb::Unset { blob, name } => {
                let keyspace = keyspace_of(store, &blob)?;
                keyspace.attribute(&blob.key, &name)?.ok_or_else(|| missing(&blob, &name))?;
                keyspace.set_attribute(&blob.key, &name, None)?;
                let line = format!("unset attribute '{name}' of {blob}");
                out.done(&Done::new("unset", &blob, line).with("name", name))
            }
            Verb::List { blob } => {
                let stat = keyspace_of(store, &blob)?.stat(&blob.key)?;
                let own = |(name, value): (&str, &[u8])| (name.to_owned(), value.to_vec());
                out.report(&All { blob: &blob, attributes: stat.attributes.iter().map(own).collect() })
            }
        }
    }
}

/// The name and value of an attribute as JSON.
pub fn object(name: &str, value: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    bytes_field(&mut object, "value", value);
    object
}

/// The value for people: as text where it is text, and not all of a long one.
pub fn shown(value: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    match value.get(..SHOWN_MAX) {
        Some(start) => format!("{}... ({} bytes)", Shown(start), value.len()),
        None => Shown(value).to_string(),
    }
}

fn missing(blob: &BlobAddress, name: &str) -> Error {
    Error::not_found(format!("blob {blob} has no attribute '{}'", name.escape_debug()))
}

struct One<'a> {
    blob: &'a BlobAddress,
    name: &'a str,
    value: Vec<u8>,
}

impl Serialize for One<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = key_fields(&self.blob.keyspace, self.blob.key.as_bytes());
        fields.extend(object(self.name, &self.value));
        fields.serialize(serializer)
    }
}

impl Report for One<'_> {
    /// The bytes of the value as they are, and a newline.
    fn print(&self, out: &mut Output) -> Result<()> {
        out.bytes(&self.value)?;
        out.bytes(b"\n")
    }
}

struct All<'a> {
    blob: &'a BlobAddress,
    attributes: Vec<(String, Vec<u8>)>,
}

impl Serialize for All<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = key_fields(&self.blob.keyspace, self.blob.key.as_bytes());
        let attributes: Vec<Value> =
            self.attributes.iter().map(|(name, value)| object(name, value).into()).collect();
        fields.insert("attributes".to_owned(), attributes.into());
        fields.serialize(serializer)
    }
}

impl Report for All<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([]);
        for (name, value) in &self.attributes {
            table.row([Shown(name.as_bytes()).to_string(), shown(value)]);
        }
        table.print(out)
    }
}

//! `tyr blob`: single blobs and lists of them.
//!
//! Payload streams: whatever its size, a few MiB are in memory. What one call writes is one transaction.

mod attributes;
mod list;
mod read;
mod remove;
mod write;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Map, Value};
use tyr_client::{
    Create, Number, NumberType, Op, Outcome, Receipt,
    blocking::{Store, Transaction},
};

use crate::{
    address::{BlobAddress, PrefixAddress},
    amount::{ByteRange, number, parse_bytes},
    arithmetic::{parse_number_type, parse_op},
    failure::Result,
    opening::with_store,
    output::{Output, Report, key_fields},
    settings::Settings,
};

/// What to do with blobs.
#[derive(Subcommand)]
pub enum Verb {
    /// Write a file, or standard input, to a blob, as one transaction.
    ///
    /// The blob is created if it is missing; its content is replaced, its attributes stay.
    Put(Put),
    /// Read a blob, or a part of it, to a file or to standard output.
    Get(Get),
    /// Read blobs to standard output, one after another.
    Cat {
        /// The blobs: KEYSPACE/KEY.
        #[arg(required = true, value_name = "BLOB", value_parser = BlobAddress::parser())]
        blobs: Vec<BlobAddress>,
    },
    /// Print size, version, and attributes of a blob.
    Stat {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
    },
    /// List the blobs of a keyspace, or those whose keys begin with a prefix, in order of their keys.
    Ls(List),
    /// Remove blobs: all that are named, or none, in one transaction.
    Rm(Remove),
    /// Append a file, or standard input, to a blob, as one transaction, and print the offset where it went.
    Append {
        /// The blob: KEYSPACE/KEY. It is created if it is missing.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The file; standard input if '-' or not given.
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
    /// Set the size of a blob: cut what is past it, or extend with zeros.
    Truncate {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The size, such as 0 or 64KiB.
        #[arg(value_parser = parse_bytes)]
        size: u64,
    },
    /// Leave a hole in a blob: a range reads as zeros and takes no room, the size stays.
    Punch {
        /// The blob: KEYSPACE/KEY.
        #[arg(value_parser = BlobAddress::parser())]
        blob: BlobAddress,
        /// The range: START..END, START.., ..END, or START+LENGTH.
        #[arg(value_parser = ByteRange::parse)]
        range: ByteRange,
    },
    /// Change a number inside a blob and print its old value; never refused for a conflict.
    ///
    /// For example: tyr blob transform counters/hits add u64 0 5
    Transform(Transform),
    /// Get, set, unset, and list attributes of a blob.
    #[command(subcommand)]
    Attr(attributes::Verb),
}

/// Arguments of `put`.
#[derive(Args)]
pub struct Put {
    /// The blob: KEYSPACE/KEY.
    #[arg(value_parser = BlobAddress::parser())]
    blob: BlobAddress,
    /// The file; standard input if '-' or not given.
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Write at this offset and leave the rest of the content as it is.
    #[arg(long, value_name = "OFFSET", value_parser = parse_bytes)]
    at: Option<u64>,
    /// Fail if the blob exists.
    #[arg(long)]
    new: bool,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct Get {
    /// The blob: KEYSPACE/KEY.
    #[arg(value_parser = BlobAddress::parser())]
    blob: BlobAddress,
    /// The file, which appears whole or not at all, where a symbolic link leads if it is one; standard output if '-' or not given.
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The part to read: START..END, START.., ..END, or START+LENGTH.
    #[arg(long, allow_hyphen_values = true, value_parser = ByteRange::parse)]
    range: Option<ByteRange>,
}

/// Arguments of `ls`.
#[derive(Args)]
pub struct List {
    /// The keyspace, or KEYSPACE/PREFIX.
    #[arg(value_name = "KEYSPACE[/PREFIX]", value_parser = PrefixAddress::parser())]
    prefix: PrefixAddress,
    /// List as many blobs at most.
    #[arg(long, value_name = "NUMBER", value_parser = number(0..=u64::MAX))]
    limit: Option<u64>,
    /// Begin after this key.
    #[arg(long, value_name = "KEY")]
    after: Option<std::ffi::OsString>,
    /// Print size and version too.
    #[arg(short, long)]
    long: bool,
    /// Print sizes as 1.50 MiB; with --long.
    #[arg(short = 'H', long, requires = "long")]
    human: bool,
}

/// Arguments of `rm`.
#[derive(Args)]
pub struct Remove {
    /// The blobs: KEYSPACE/KEY, or with --recursive KEYSPACE/PREFIX.
    #[arg(required = true, value_name = "BLOB")]
    blobs: Vec<std::ffi::OsString>,
    /// Remove every blob whose key begins with the prefix; end it with '/' to stay within a directory. Runs in many
    /// transactions.
    #[arg(short, long)]
    recursive: bool,
    /// Do not complain about blobs that are missing.
    #[arg(short, long)]
    force: bool,
}

/// Arguments of `transform`.
#[derive(Args)]
pub struct Transform {
    /// The blob: KEYSPACE/KEY. It is created if it is missing, and extended with zeros if it is too short.
    #[arg(value_parser = BlobAddress::parser())]
    blob: BlobAddress,
    /// add, multiply, min, max, and, or, xor, swap, or compare-and-swap (short: mul, cas).
    #[arg(value_parser = parse_op)]
    op: Op,
    /// u8, u16, u32, u64, i8, i16, i32, i64, f32, or f64; little-endian.
    #[arg(value_name = "TYPE", value_parser = parse_number_type)]
    number_type: NumberType,
    /// Where the number begins.
    #[arg(value_parser = parse_bytes)]
    offset: u64,
    /// The operand; for compare-and-swap the expected and the new value.
    #[arg(required = true, num_args = 1..=2, value_name = "OPERAND")]
    operands: Vec<String>,
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        with_store(settings, Create::Never, |store| match self {
            Verb::Put(arguments) => write::put(store, &arguments, out),
            Verb::Get(arguments) => read::get(store, &arguments, out),
            Verb::Cat { blobs } => {
                blobs.iter().try_for_each(|blob| read::to_stdout(store, blob, ByteRange::ALL, out))
            }
            Verb::Stat { blob } => read::stat(store, &blob, out),
            Verb::Ls(arguments) => list::list(store, &arguments, out),
            Verb::Rm(arguments) => remove::remove(store, &arguments, out),
            Verb::Append { blob, file } => write::append(store, &blob, file.as_deref(), out),
            Verb::Truncate { blob, size } => write::truncate(store, &blob, size, out),
            Verb::Punch { blob, range } => write::punch(store, &blob, range, out),
            Verb::Transform(arguments) => write::transform(store, &arguments, out),
            Verb::Attr(verb) => verb.run(store, out),
        })
    }
}

/// Commits; a conflict is a failure of that kind.
pub fn commit(transaction: Transaction) -> Result<Receipt> {
    match transaction.commit()? {
        Outcome::Committed(receipt) => Ok(receipt),
        Outcome::Conflict(conflict) => Err(tyr_client::Error::conflict(conflict.to_string()).into()),
    }
}

/// The number of the transaction, as JSON; null if the store gives none to a transaction as a whole.
pub fn version_of(receipt: &Receipt) -> Value {
    let number = Some(receipt.number()).filter(|number| *number != Number::ZERO);
    number.map_or(Value::Null, |number| number.to_string().into())
}

/// Says what was done to a blob: a JSON object that begins with action, keyspace, and key; and a line of text.
struct Done {
    object: Map<String, Value>,
    line: String,
}

impl Done {
    fn new(action: &str, blob: &BlobAddress, line: String) -> Self {
        let mut object = key_fields(&blob.keyspace, blob.key.as_bytes());
        object.insert("action".to_owned(), action.into());
        Done { object, line }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.object.insert(name.to_owned(), value.into());
        self
    }
}

impl serde::Serialize for Done {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl Report for Done {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(&self.line)
    }
}

/// The keyspace of the blob.
fn keyspace_of(store: &Store, blob: &BlobAddress) -> Result<tyr_client::blocking::Keyspace> {
    Ok(store.keyspace(&blob.keyspace)?)
}

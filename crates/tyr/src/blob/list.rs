//! `tyr blob ls`: keys in order, page by page, so that a list of any length passes through bounded memory.

use std::os::unix::ffi::OsStrExt;

use tyr_client::{Entry, blocking::Store};

use crate::{
    blob::List,
    failure::Result,
    output::{Bytes, Form, Output, Shown, key_fields},
};

const PAGE: usize = 1000;

pub fn list(store: &Store, arguments: &List, out: &mut Output) -> Result<()> {
    let keyspace = store.keyspace(&arguments.prefix.keyspace)?;
    let mut after = arguments.after.as_ref().map(|key| key.as_bytes().to_vec());
    let mut printer = Printer { arguments, out, count: 0 };
    printer.begin()?;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let more = loop {
        // One more than is printed tells whether there is more.
        let page = usize::try_from(left).map_or(PAGE, |left| left.min(PAGE));
        let entries = keyspace.scan(&arguments.prefix.prefix, after.as_deref(), page + 1)?;
        for entry in entries.iter().take(page) {
            printer.entry(entry)?;
        }
        left -= entries.len().min(page) as u64;
        let more = entries.len() > page;
        if !more || left == 0 {
            break more;
        }
        after = entries.get(page - 1).map(|entry| entry.key.as_bytes().to_vec());
    };
    printer.end(more)
}

/// Prints entries as they come. The JSON document is `{"keyspace":..,"blobs":[..],"more":..}`.
struct Printer<'a> {
    arguments: &'a List,
    out: &'a mut Output,
    count: u64,
}

impl Printer<'_> {
    fn begin(&mut self) -> Result<()> {
        match self.out.form() {
            Form::Human => Ok(()),
            Form::Json => {
                let name = serde_json::Value::from(self.arguments.prefix.keyspace.as_str());
                self.out.bytes(format!("{{\"keyspace\":{name},\"blobs\":[").as_bytes())
            }
        }
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        self.count += 1;
        if self.out.form() == Form::Json {
            let comma: &[u8] = if self.count == 1 { b"\n" } else { b",\n" };
            self.out.bytes(comma)?;
            let mut object = key_fields(&self.arguments.prefix.keyspace, entry.key.as_bytes());
            object.remove("keyspace");
            object.insert("size".to_owned(), entry.size.into());
            object.insert("version".to_owned(), entry.version.to_string().into());
            return self.out.bytes(serde_json::Value::from(object).to_string().as_bytes());
        }
        let key = Shown(entry.key.as_bytes());
        match (self.arguments.long, self.arguments.human) {
            (false, _) => self.out.line(key),
            (true, false) => {
                self.out.line(format!("{:>14}  {:>14}  {key}", entry.size, entry.version.to_string()))
            }
            (true, true) => {
                let (size, version) = (Bytes(entry.size).to_string(), entry.version.to_string());
                self.out.line(format!("{size:>9}  {version:>14}  {key}"))
            }
        }
    }

    fn end(&mut self, more: bool) -> Result<()> {
        match self.out.form() {
            Form::Human => Ok(()),
            Form::Json => self.out.line(format!("],\"more\":{more}}}")),
        }
    }
}

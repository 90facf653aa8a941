//! `tyr keyspace`: create, list, show, alter, and drop keyspaces.

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tyr_client::{Create, Durability, KeyspaceSettings, KeyspaceSummary, blocking::Store};

use crate::{
    address::keyspace_name,
    amount::{parse_bytes, write_bytes},
    failure::{Failure, Result},
    opening::with_store,
    output::{Align, Bytes, Form, Output, Report, Table, ask},
    settings::Settings,
};

/// What to do with keyspaces.
#[derive(Subcommand)]
pub enum Verb {
    /// Create a keyspace, and the store if there is none yet.
    Create {
        /// Its name: letters, digits, '-', '_', '.', beginning with a letter or digit.
        #[arg(value_parser = keyspace_name)]
        name: String,
        #[command(flatten)]
        flags: SettingFlags,
    },
    /// List all keyspaces. A cluster counts blobs and bytes of those with a quota.
    List,
    /// Show one keyspace.
    Show {
        /// Its name.
        #[arg(value_parser = keyspace_name)]
        name: String,
    },
    /// Change settings of a keyspace; those that are not given stay. The chunk size cannot be changed.
    Alter {
        /// Its name.
        #[arg(value_parser = keyspace_name)]
        name: String,
        #[command(flatten)]
        flags: SettingFlags,
    },
    /// Drop a keyspace with all its blobs. Asks first.
    Drop {
        /// Its name.
        #[arg(value_parser = keyspace_name)]
        name: String,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
}

/// The settings of a keyspace as flags.
#[derive(Args)]
pub struct SettingFlags {
    /// When a commit is acknowledged: in memory, or on disk (the default).
    #[arg(long, value_name = "WORD")]
    durability: Option<DurabilityWord>,
    /// Bytes of a blob that are placed together: a power of two from 64KiB to 1GiB; 64MiB if not given.
    #[arg(long, value_name = "SIZE", value_parser = chunk_size)]
    chunk_size: Option<u64>,
    /// Whether superseded versions are kept for readers that pinned them; on if not given.
    #[arg(long, value_name = "SWITCH")]
    multi_version: Option<Switch>,
    /// The most bytes that the blobs' sizes may add up to, or 'none' (the default).
    #[arg(long, value_name = "SIZE", value_parser = Quota::parse)]
    quota: Option<Quota>,
}

fn chunk_size(text: &str) -> Result<u64, String> {
    let settings = KeyspaceSettings { chunk_size: parse_bytes(text)?, ..KeyspaceSettings::default() };
    settings.check().map(|()| settings.chunk_size).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityWord {
    Memory,
    Disk,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy)]
struct Quota(Option<u64>);

impl Quota {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Quota(None)) } else { parse_bytes(text).map(|bytes| Quota(Some(bytes))) }
    }
}

impl SettingFlags {
    fn apply(&self, settings: &mut KeyspaceSettings) {
        match self.durability {
            Some(DurabilityWord::Memory) => settings.durability = Durability::Memory,
            Some(DurabilityWord::Disk) => settings.durability = Durability::Disk,
            None => {}
        }
        if let Some(chunk_size) = self.chunk_size {
            settings.chunk_size = chunk_size;
        }
        if let Some(switch) = self.multi_version {
            settings.multi_version = matches!(switch, Switch::On);
        }
        if let Some(Quota(quota)) = self.quota {
            settings.quota = quota;
        }
    }

    fn is_empty(&self) -> bool {
        self.durability.is_none()
            && self.chunk_size.is_none()
            && self.multi_version.is_none()
            && self.quota.is_none()
    }
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        let create = if matches!(self, Verb::Create { .. }) { Create::IfMissing } else { Create::Never };
        with_store(settings, create, |store| match self {
            Verb::Create { name, flags } => create_keyspace(store, &name, &flags, out),
            Verb::List => {
                out.report(&List { keyspaces: store.keyspaces().iter().map(Shown::from).collect() })
            }
            Verb::Show { name } => out.report(&find(store, &name)?),
            Verb::Alter { name, flags } => alter_keyspace(store, &name, &flags, out),
            Verb::Drop { name, yes } => drop_keyspace(store, &name, yes, out),
        })
    }
}

fn create_keyspace(store: &Store, name: &str, flags: &SettingFlags, out: &mut Output) -> Result<()> {
    let mut settings = KeyspaceSettings::default();
    flags.apply(&mut settings);
    store.create_keyspace(name, settings)?;
    out.done(&Done { action: "created", keyspace: name })
}

fn alter_keyspace(store: &Store, name: &str, flags: &SettingFlags, out: &mut Output) -> Result<()> {
    if flags.is_empty() {
        // A cluster keeps everything on disks.
        let durability = if store.is_cluster() { "" } else { "--durability, " };
        return Err(Failure::Usage(format!(
            "nothing to alter in keyspace '{name}': pass {durability}--multi-version, or --quota"
        )));
    }
    let mut settings = store.keyspace(name)?.settings();
    flags.apply(&mut settings);
    store.alter_keyspace(name, settings)?;
    out.done(&Done { action: "altered", keyspace: name })
}

fn drop_keyspace(store: &Store, name: &str, yes: bool, out: &mut Output) -> Result<()> {
    let shown = find(store, name)?;
    if !yes && !confirmed(&shown, out)? {
        return Err(Failure::Usage(format!(
            "keyspace '{name}' was not dropped: answer 'yes', or pass --yes to drop it without being asked"
        )));
    }
    store.drop_keyspace(name)?;
    out.done(&Done { action: "dropped", keyspace: name })
}

/// Asks whoever runs the command. Programs, which read JSON, are not asked.
fn confirmed(shown: &Shown, out: &Output) -> Result<bool> {
    if out.form() == Form::Json {
        return Ok(false);
    }
    let (name, blobs, bytes) = (&shown.name, shown.blobs(), shown.size());
    let answer = ask(&format!("Drop keyspace '{name}' with {blobs} blobs ({bytes})? [yes/no] "))?;
    Ok(matches!(answer.as_deref(), Some("yes" | "y")))
}

fn find(store: &Store, name: &str) -> Result<Shown> {
    // Whoever names a keyspace that is not there gets the store's own words on it.
    let keyspace = store.keyspace(name)?;
    let summary = store.keyspaces().into_iter().find(|summary| summary.name == keyspace.name());
    let summary =
        summary.ok_or_else(|| tyr_client::Error::not_found(format!("keyspace '{name}' was dropped")));
    Ok(Shown::from(&summary?))
}

/// A keyspace as it is printed.
#[derive(Serialize)]
pub struct Shown {
    pub name: String,
    id: u32,
    durability: &'static str,
    chunk_size: u64,
    multi_version: bool,
    quota: Option<u64>,
    pub blobs: Option<u64>,
    pub bytes: Option<u64>,
}

impl From<&KeyspaceSummary> for Shown {
    fn from(summary: &KeyspaceSummary) -> Self {
        let settings = &summary.settings;
        Shown {
            name: summary.name.to_string(),
            id: summary.id.0,
            durability: match settings.durability {
                Durability::Memory => "memory",
                Durability::Disk => "disk",
            },
            chunk_size: settings.chunk_size,
            multi_version: settings.multi_version,
            quota: settings.quota,
            blobs: summary.blobs,
            bytes: summary.bytes,
        }
    }
}

impl Shown {
    fn multi_version(&self) -> &'static str {
        if self.multi_version { "on" } else { "off" }
    }

    fn quota(&self) -> String {
        self.quota.map_or("none".to_owned(), write_bytes)
    }

    /// How many blobs there are, if the store knows.
    pub fn blobs(&self) -> String {
        self.blobs.map_or(UNKNOWN.to_owned(), |blobs| blobs.to_string())
    }

    /// How large they are together, if the store knows.
    pub fn size(&self) -> String {
        self.bytes.map_or(UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string())
    }
}

impl Report for Shown {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([]);
        let facts = [
            ("name", self.name.clone()),
            ("id", self.id.to_string()),
            ("durability", self.durability.to_owned()),
            ("chunk size", write_bytes(self.chunk_size)),
            ("multi-version", self.multi_version().to_owned()),
            ("quota", self.quota()),
            ("blobs", self.blobs()),
            ("bytes", self.bytes.map_or(UNKNOWN.to_owned(), |bytes| format!("{bytes} ({})", Bytes(bytes)))),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact]);
        }
        table.print(out)
    }
}

/// What is printed for a number that the store does not know: a cluster counts where there is a quota.
const UNKNOWN: &str = "not counted";

#[derive(Serialize)]
struct List {
    keyspaces: Vec<Shown>,
}

impl Report for List {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([
            ("NAME", Align::Left),
            ("BLOBS", Align::Right),
            ("SIZE", Align::Right),
            ("DURABILITY", Align::Left),
            ("CHUNK", Align::Right),
            ("MULTI-VERSION", Align::Left),
            ("QUOTA", Align::Right),
        ]);
        for shown in &self.keyspaces {
            table.row([
                shown.name.clone(),
                shown.blobs(),
                shown.size(),
                shown.durability.to_owned(),
                write_bytes(shown.chunk_size),
                shown.multi_version().to_owned(),
                shown.quota(),
            ]);
        }
        table.print(out)
    }
}

/// Says what was done to a keyspace.
#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    keyspace: &'a str,
}

impl Report for Done<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("{} keyspace '{}'", self.action, self.keyspace))
    }
}

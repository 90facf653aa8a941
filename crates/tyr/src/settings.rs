//! The settings: one table from which flags, environment variables, keys of the configuration file, and
//! `docs/configuration.md` are all made, and the values that a run works with.
//!
//! A setting is taken from the first of: its flag, its environment variable, the configuration file, its default. What
//! none of them knows is an error, never ignored.

mod closest;
mod file;
mod resolve;
mod server;

use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::{Arg, ArgAction, Command, builder::OsStringValueParser};
use tyr_client::{IoMode, Secret, Tls, TlsFiles, Token};
use tyr_server::Credential;

pub use resolve::{Environment, resolve};
pub use server::{LogFormat, SERVER_SETTINGS, ServerSettings};

use crate::{
    failure::{Failure, Result},
    output::{Chatter, ColorChoice, Form},
};

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The directory of the store, or the URL of a cluster; none if nobody said.
    pub store: Option<PathBuf>,
    /// The zone that this client of a cluster is in, if it is in one.
    pub zone: Option<String>,
    /// How long a cluster is waited for that does not answer, when it is opened, or asked as an operator asks it.
    pub timeout: Duration,
    /// Bytes of payload to keep in memory.
    pub data_cache: u64,
    /// Bytes of the index to keep in memory.
    pub index_cache: u64,
    /// Bytes of a segment file.
    pub segment_size: u64,
    /// How the store does I/O.
    pub io: IoMode,
    /// For whom results are printed.
    pub form: Form,
    /// Whether notes and progress are printed.
    pub chatter: Chatter,
    /// When to color.
    pub color: ColorChoice,
    /// Threads that import, export, or aggregate.
    pub threads: usize,
    /// The certificates of encrypted connections.
    pub tls: TlsSettings,
    /// By what this command proves who it is, or a node that it belongs to its cluster.
    pub access: AccessSettings,
    /// Where traces go.
    pub trace: TraceSettings,
    /// How `tyr server` runs a node.
    pub server: ServerSettings,
}

/// Where traces go, and what is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector; none if nothing is traced.
    pub otlp: Option<String>,
    /// One transaction of so many is.
    pub every: NonZeroU32,
}

/// Where the certificates of encrypted connections are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The authority's.
    pub authority: Option<PathBuf>,
    /// The own one.
    pub certificate: Option<PathBuf>,
    /// The key of that.
    pub key: Option<PathBuf>,
    /// Whether clients need none, of a server.
    pub anonymous_clients: bool,
}

/// By what somebody proves who he is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// A token.
    pub token: Option<String>,
    /// The file that has it.
    pub token_file: Option<PathBuf>,
    /// The secret of the cluster.
    pub secret: Option<String>,
    /// The file that has it.
    pub secret_file: Option<PathBuf>,
}

impl fmt::Debug for AccessSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |value: &Option<String>| value.as_ref().map(|_| "..");
        f.debug_struct("AccessSettings")
            .field("token", &hidden(&self.token))
            .field("token_file", &self.token_file)
            .field("secret", &hidden(&self.secret))
            .field("secret_file", &self.secret_file)
            .finish()
    }
}

/// A row of the table of settings.
pub struct Setting {
    /// `section.key`: where it is in the configuration file, and its name in messages.
    pub name: &'static str,
    /// Its flag, without dashes, and the id of its argument. A setting of a server may have the flag of another one, in whose place
    /// `tyr server` takes it.
    pub flag: &'static str,
    /// The one-letter form of the flag.
    pub short: Option<char>,
    /// What values it takes.
    pub values: Values,
    /// Its value if nobody says otherwise, as text.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A path, or a URL.
    Path,
    /// Text that nobody else may see: it is taken from the environment or the configuration file, and has no flag.
    Secret,
    /// A number of bytes.
    Bytes,
    /// A number.
    Count {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that means this.
    Text(&'static str),
    /// Several of this, separated by commas.
    List(&'static str),
    /// Several paths, separated by commas.
    Paths,
}

/// Every setting, in the order of the document.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(&SERVER_SETTINGS)
}

/// The settings that every verb takes, in the order of the help.
pub const SETTINGS: [Setting; 20] = [
    Setting {
        name: "store.path",
        flag: "store",
        short: Some('s'),
        values: Values::Path,
        default: "",
        help: "The directory of the store, or a cluster: tyr://host:port,host:port",
    },
    Setting {
        name: "store.zone",
        flag: "zone",
        short: None,
        values: Values::Text("a name"),
        default: "",
        help: "The zone that this client of a cluster is in: it reads from nodes there before others",
    },
    Setting {
        name: "store.timeout",
        flag: "timeout",
        short: None,
        values: Values::Count { min: 1, max: 3600 },
        default: "10",
        help: "Give up after so many seconds in which a cluster does not answer who opens it, or asks it about its nodes, users, and rights",
    },
    Setting {
        name: "store.data_cache",
        flag: "data-cache",
        short: None,
        values: Values::Bytes,
        default: "256MiB",
        help: "Memory for payload that was read or written lately",
    },
    Setting {
        name: "store.index_cache",
        flag: "index-cache",
        short: None,
        values: Values::Bytes,
        default: "256MiB",
        help: "Memory for the index",
    },
    Setting {
        name: "store.segment_size",
        flag: "segment-size",
        short: None,
        values: Values::Bytes,
        default: "64MiB",
        help: "Size of new segment files",
    },
    Setting {
        name: "store.io",
        flag: "io",
        short: None,
        values: Values::Choice(&["auto", "direct-ring", "direct", "buffered"]),
        default: "auto",
        help: "How the store does I/O; anything but auto is for tests and measurements",
    },
    Setting {
        name: "output.json",
        flag: "json",
        short: None,
        values: Values::Switch,
        default: "false",
        help: "Print results and failures as JSON",
    },
    Setting {
        name: "output.quiet",
        flag: "quiet",
        short: Some('q'),
        values: Values::Switch,
        default: "false",
        help: "Print neither notes nor progress, only results and failures",
    },
    Setting {
        name: "output.color",
        flag: "color",
        short: None,
        values: Values::Choice(&["auto", "always", "never"]),
        default: "auto",
        help: "When to color text; auto: on a terminal, unless NO_COLOR is set",
    },
    Setting {
        name: "transfer.threads",
        flag: "threads",
        short: Some('j'),
        values: Values::Count { min: 1, max: 256 },
        default: "4",
        help: "Threads that import, export, or aggregate",
    },
    Setting {
        name: "tls.authority",
        flag: "tls-authority",
        short: None,
        values: Values::Path,
        default: "",
        help: "Certificates (PEM) of the authority that a cluster's certificates are of; for tyr+tls:// and for nodes",
    },
    Setting {
        name: "tls.certificate",
        flag: "tls-certificate",
        short: None,
        values: Values::Path,
        default: "",
        help: "The certificate (PEM) of this node or client",
    },
    Setting {
        name: "tls.key",
        flag: "tls-key",
        short: None,
        values: Values::Path,
        default: "",
        help: "The key (PEM) of that certificate",
    },
    Setting {
        name: "trace.otlp",
        flag: "otlp",
        short: None,
        values: Values::Text("a URL, `http://host:4318`"),
        default: "",
        help: "A collector to which spans of traced transactions are sent as OTLP over HTTP, by this node or client; nowhere by default",
    },
    Setting {
        name: "trace.every",
        flag: "trace-every",
        short: None,
        values: Values::Count { min: 1, max: 1_000_000_000 },
        default: "100",
        help: "A client that has a collector traces one transaction, and one read, of so many",
    },
    Setting {
        name: "access.token",
        flag: "",
        short: None,
        values: Values::Secret,
        default: "",
        help: "The token that says who this client of a cluster is",
    },
    Setting {
        name: "access.token_file",
        flag: "token-file",
        short: None,
        values: Values::Path,
        default: "",
        help: "The file with that token, which only its owner, or its group, may read",
    },
    Setting {
        name: "access.secret",
        flag: "",
        short: None,
        values: Values::Secret,
        default: "",
        help: "The secret that the nodes of a cluster share; of a client in place of a token, as whose holder it may do everything",
    },
    Setting {
        name: "access.secret_file",
        flag: "secret-file",
        short: None,
        values: Values::Path,
        default: "",
        help: "The file with that secret, which only its owner, or its group, may read",
    },
];

impl Settings {
    /// The certificates, read from their files; none if none are named.
    pub fn tls(&self) -> Result<Option<Tls>> {
        let TlsSettings { authority, certificate, key, anonymous_clients } = self.tls.clone();
        let Some(authority) = authority else {
            return match (certificate, key) {
                (None, None) => Ok(None),
                _ => Err(Failure::Usage(
                    "a certificate is named, but no authority: set tls.authority, or --tls-authority"
                        .to_owned(),
                )),
            };
        };
        let files = TlsFiles { authority, certificate, key, anonymous_clients };
        let tls = Tls::load(&files)
            .map_err(|error| Failure::local("cannot use the certificates of [tls]", &error))?;
        Ok(Some(tls))
    }
}

impl AccessSettings {
    /// The secret of the cluster, if it is named.
    pub fn secret(&self) -> Result<Option<Secret>> {
        let failed = |error| Failure::local("cannot use the secret of the cluster", &error);
        Ok(match (&self.secret, &self.secret_file) {
            (Some(text), _) => Some(Secret::new(text.as_bytes()).map_err(failed)?),
            (None, Some(path)) => Some(Secret::load(path).map_err(failed)?),
            (None, None) => None,
        })
    }

    /// The token, if one is named.
    pub fn token(&self) -> Result<Option<Token>> {
        let failed = |error| Failure::local("cannot use the token", &error);
        Ok(match (&self.token, &self.token_file) {
            (Some(text), _) => Some(Token::parse(text).map_err(failed)?),
            (None, Some(path)) => Some(Token::load(path).map_err(failed)?),
            (None, None) => None,
        })
    }

    /// By what a client proves who it is: its token, or without one the secret.
    pub fn credential(&self) -> Result<Credential> {
        Ok(match self.token()? {
            Some(token) => Credential::Token(token),
            None => self.secret()?.map_or(Credential::None, Credential::Secret),
        })
    }
}

impl Setting {
    /// The table of the configuration file that it is in.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// Whether it has a flag. What is secret has none: whoever lists processes would see it.
    pub fn has_flag(&self) -> bool {
        !self.flag.is_empty()
    }

    /// Its key there.
    pub fn key(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, key)| key)
    }

    /// The environment variable: `TYR_<SECTION>_<KEY>`.
    pub fn variable(&self) -> String {
        format!("TYR_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// A shorter variable that means the same and is looked at first.
    pub fn short_variable(&self) -> Option<&'static str> {
        match self.name {
            "store.path" => Some("TYR_STORE"),
            "store.zone" => Some("TYR_ZONE"),
            "access.token" => Some("TYR_TOKEN"),
            "access.token_file" => Some("TYR_TOKEN_FILE"),
            "access.secret" => Some("TYR_SECRET"),
            "access.secret_file" => Some("TYR_SECRET_FILE"),
            _ => None,
        }
    }
}

impl Values {
    /// What values are taken, for documents.
    pub fn describe(self) -> String {
        match self {
            Values::Path => "a path".to_owned(),
            Values::Secret => "text that is kept secret".to_owned(),
            Values::Bytes => "a size, such as 64MiB".to_owned(),
            Values::Count { min, max } => format!("a number from {min} to {max}"),
            Values::Switch => "true or false".to_owned(),
            Values::Choice(words) => format!("one of {}", words.join(", ")),
            Values::Text(what) => what.to_owned(),
            Values::List(what) => format!("{what}, separated by commas or as an array"),
            Values::Paths => "paths, separated by commas or as an array".to_owned(),
        }
    }

    fn value_name(self) -> &'static str {
        match self {
            Values::Path => "PATH",
            Values::Secret => "TEXT",
            Values::Bytes => "SIZE",
            Values::Count { .. } => "NUMBER",
            Values::Switch => "BOOL",
            Values::Choice(_) => "WORD",
            Values::Text(_) => "TEXT",
            Values::List(_) => "LIST",
            Values::Paths => "PATHS",
        }
    }
}

/// Adds the flags of all settings, and `--config`, to the command and all its verbs; those of a server to the verbs that take them.
pub fn with_flags(command: Command) -> Command {
    let config = Arg::new(CONFIG_ARGUMENT)
        .long("config")
        .value_name("PATH")
        .value_parser(OsStringValueParser::new())
        .help("The configuration file; also TYR_CONFIG");
    let flags = SETTINGS.iter().filter(|setting| setting.has_flag()).map(flag).chain([config]);
    let command = command.args(flags.map(|flag| flag.global(true).help_heading("Settings")));
    let with_server = |command: Command| command.args(SERVER_SETTINGS.iter().map(flag));
    let known = |command: &Command, verb: &str| command.find_subcommand(verb).is_some();
    let verbs: Vec<&str> = OF_SERVER.into_iter().filter(|verb| known(&command, verb)).collect();
    verbs.into_iter().fold(command, |command, verb| command.mut_subcommand(verb, with_server))
}

/// The verbs that take the flags of a server.
pub const OF_SERVER: [&str; 2] = ["server", "doctor"];

/// The id of the argument `--config`.
pub const CONFIG_ARGUMENT: &str = "config";

fn flag(setting: &'static Setting) -> Arg {
    let mut arg = Arg::new(setting.flag)
        .long(setting.flag)
        .action(ArgAction::Set)
        .value_name(setting.values.value_name())
        .value_parser(OsStringValueParser::new())
        .help(setting.help);
    if let Some(short) = setting.short {
        arg = arg.short(short);
    }
    match setting.values {
        Values::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        Values::Path => arg.value_hint(clap::ValueHint::DirPath),
        _ => arg,
    }
}

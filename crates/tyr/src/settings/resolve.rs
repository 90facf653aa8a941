//! From flags, environment, and file to values.

use std::{
    ffi::{OsStr, OsString},
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ArgMatches;
use tyr_client::{Durability, IoMode, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use tyr_server::{MetricsFor, TargetSettings, Zone};

use crate::{
    amount::{parse_bytes, write_bytes},
    failure::{Failure, Result},
    output::{Chatter, ColorChoice, Form},
    settings::{
        AccessSettings, CONFIG_ARGUMENT, LogFormat, OF_SERVER, SERVER_SETTINGS, ServerSettings, Setting,
        Settings, TlsSettings, TraceSettings, Values, all, closest::closest, file::ConfigFile,
    },
};

/// Environment variables.
pub trait Environment {
    /// The value of the variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The names of all variables.
    fn names(&self) -> Vec<OsString>;
}

/// A value before it is understood, and where it comes from.
struct Raw {
    text: OsString,
    origin: Origin,
}

enum Origin {
    Flag,
    Variable(String),
    File(PathBuf),
    Default,
}

/// Finds the value of every setting.
pub fn resolve(flags: &ArgMatches, environment: &impl Environment) -> Result<Settings> {
    refuse_unknown_variables(environment)?;
    let named = flags.get_one::<OsString>(CONFIG_ARGUMENT).cloned();
    let named = named.or_else(|| environment.variable("TYR_CONFIG").filter(|path| !path.is_empty()));
    let file = ConfigFile::find(named.as_deref().map(Path::new), environment)?;
    let find = |name: &str| Found::new(name, flags, environment, file.as_ref());
    Ok(Settings {
        store: find("store.path")?.path(),
        zone: find("store.zone")?.zone()?,
        timeout: Duration::from_secs(
            u64::try_from(find("store.timeout")?.count()?).expect("the table of settings has bounds"),
        ),
        data_cache: find("store.data_cache")?.bytes()?,
        index_cache: find("store.index_cache")?.bytes()?,
        segment_size: find("store.segment_size")?.segment_size()?,
        io: match find("store.io")?.choice()? {
            "direct-ring" => IoMode::DirectRing,
            "direct" => IoMode::Direct,
            "buffered" => IoMode::Buffered,
            _ => IoMode::Auto,
        },
        form: if find("output.json")?.switch()? { Form::Json } else { Form::Human },
        chatter: if find("output.quiet")?.switch()? { Chatter::Quiet } else { Chatter::Normal },
        color: match find("output.color")?.choice()? {
            "always" => ColorChoice::Always,
            "never" => ColorChoice::Never,
            _ => ColorChoice::Auto,
        },
        threads: find("transfer.threads")?.count()?,
        tls: tls(find)?,
        access: AccessSettings {
            token: find("access.token")?.words()?,
            token_file: find("access.token_file")?.path(),
            secret: find("access.secret")?.words()?,
            secret_file: find("access.secret_file")?.path(),
        },
        trace: TraceSettings {
            otlp: find("trace.otlp")?.words()?,
            every: u32::try_from(find("trace.every")?.count()?)
                .ok()
                .and_then(NonZeroU32::new)
                .expect("the table of settings has bounds"),
        },
        server: server(find)?,
    })
}

fn tls(find: impl Fn(&str) -> Result<Found>) -> Result<TlsSettings> {
    Ok(TlsSettings {
        authority: find("tls.authority")?.path(),
        certificate: find("tls.certificate")?.path(),
        key: find("tls.key")?.path(),
        anonymous_clients: find("tls.anonymous_clients")?.switch()?,
    })
}

fn server(find: impl Fn(&str) -> Result<Found>) -> Result<ServerSettings> {
    let number = |name| -> Result<u32> {
        Ok(u32::try_from(find(name)?.count()?).expect("the table of settings has bounds"))
    };
    Ok(ServerSettings {
        directory: find("server.directory")?.path(),
        listen: find("server.listen")?.words()?.unwrap_or_default(),
        advertise: find("server.advertise")?.words()?,
        join: find("server.join")?.list()?,
        targets: find("server.targets")?.paths()?.iter().map(|path| target(path)).collect(),
        zone: find("server.zone")?.zone()?.unwrap_or_default(),
        weight: number("server.weight")?,
        shards: number("server.shards")?,
        replicas: u8::try_from(number("server.replicas")?).expect("the table of settings has bounds"),
        partitions: number("server.partitions")?,
        durability: match find("server.durability")?.choice()? {
            "memory" => Durability::Memory,
            _ => Durability::Disk,
        },
        insecure: find("server.insecure")?.switch()?,
        http: find("server.http")?.words()?,
        metrics: match find("server.metrics")?.choice()? {
            "token" => MetricsFor::WhoHasAToken,
            _ => MetricsFor::Everybody,
        },
        cached_heads: number("server.cached_heads")?,
        slow_ms: number("server.slow_ms")?,
        log_format: match find("server.log_format")?.choice()? {
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        },
        log: find("server.log")?.choice()?.parse().expect("every choice is a level"),
    })
}

/// A target: a path, with `=WEIGHT` or without.
fn target(path: &Path) -> TargetSettings {
    let text = path.to_str().and_then(|text| text.rsplit_once('='));
    match text.and_then(|(path, weight)| Some((path, weight.parse().ok()?))) {
        Some((path, weight)) => TargetSettings { path: path.into(), weight },
        None => TargetSettings::new(path),
    }
}

/// A setting with the value that was found for it.
struct Found {
    setting: &'static Setting,
    raw: Raw,
}

impl Found {
    fn new(
        name: &str,
        flags: &ArgMatches,
        environment: &impl Environment,
        file: Option<&ConfigFile>,
    ) -> Result<Self> {
        let setting = all().find(|setting| setting.name == name).expect("it is in the table");
        let from_flag = || {
            if !setting.has_flag() {
                return None;
            }
            // Flags of a server are known to its verbs only, and are their own even if others have a setting with that flag.
            let of_server = flags.subcommand().filter(|(verb, _)| OF_SERVER.contains(verb));
            let is_of_server = SERVER_SETTINGS.iter().any(|own| own.name == name);
            let is_shared = all().any(|other| other.flag == setting.flag && other.name != name);
            if is_shared && is_of_server != of_server.is_some() {
                return None;
            }
            let verbs = [Some(flags), of_server.map(|(_, flags)| flags)];
            let given =
                |flags: &ArgMatches| flags.try_get_one::<OsString>(setting.flag).ok().flatten().cloned();
            let text = verbs.into_iter().flatten().find_map(given)?;
            Some(Raw { text, origin: Origin::Flag })
        };
        let from_variable = || {
            let names = setting.short_variable().map(str::to_owned).into_iter().chain([setting.variable()]);
            names.into_iter().find_map(|name| {
                let text = environment.variable(&name).filter(|text| !text.is_empty())?;
                Some(Raw { text, origin: Origin::Variable(name) })
            })
        };
        let from_file = || -> Result<Option<Raw>> {
            let Some(file) = file else { return Ok(None) };
            let text = file.text(setting)?;
            Ok(text.map(|text| Raw { text: text.into(), origin: Origin::File(file.path().to_owned()) }))
        };
        let raw = match from_flag().or_else(from_variable) {
            Some(raw) => raw,
            None => {
                from_file()?.unwrap_or_else(|| Raw { text: setting.default.into(), origin: Origin::Default })
            }
        };
        Ok(Found { setting, raw })
    }

    /// The path; one in a configuration file is relative to the file.
    fn path(&self) -> Option<PathBuf> {
        let path = PathBuf::from(&self.raw.text);
        if path.as_os_str().is_empty() {
            return None;
        }
        let is_url = tyr_client::is_cluster(&path);
        match &self.raw.origin {
            Origin::File(file) if !is_url => Some(file.parent().unwrap_or(Path::new("")).join(path)),
            _ => Some(path),
        }
    }

    /// Several paths, each as [`Found::path`] has it.
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let base = match &self.raw.origin {
            Origin::File(file) => file.parent().unwrap_or(Path::new("")),
            _ => Path::new(""),
        };
        Ok(self.list()?.into_iter().map(|path| base.join(path)).collect())
    }

    /// The text, unless it is empty.
    fn words(&self) -> Result<Option<String>> {
        let text = self.text().map_err(|reason| self.refused(&reason))?;
        Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
    }

    fn list(&self) -> Result<Vec<String>> {
        let text = self.words()?.unwrap_or_default();
        Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }

    fn bytes(&self) -> Result<u64> {
        self.text().and_then(parse_bytes).map_err(|reason| self.refused(&reason))
    }

    fn segment_size(&self) -> Result<u64> {
        let size = self.bytes()?;
        if size.is_power_of_two() && (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&size) {
            return Ok(size);
        }
        let (min, max) = (write_bytes(SEGMENT_SIZE_MIN), write_bytes(SEGMENT_SIZE_MAX));
        Err(self.refused(&format!("{size} bytes are no power of two from {min} to {max}")))
    }

    fn zone(&self) -> Result<Option<String>> {
        let name = self.words()?;
        let checked = name.as_deref().map(Zone::new).transpose();
        checked.map_err(|error| self.refused(error.message()))?;
        Ok(name)
    }

    fn switch(&self) -> Result<bool> {
        match self.text() {
            Ok("true" | "1" | "yes" | "on") => Ok(true),
            Ok("false" | "0" | "no" | "off") => Ok(false),
            _ => Err(self.refused_value()),
        }
    }

    fn choice(&self) -> Result<&'static str> {
        let Values::Choice(words) = self.setting.values else { return Err(self.refused_value()) };
        let word = self.text().ok().and_then(|text| words.iter().find(|word| **word == text));
        word.copied().ok_or_else(|| self.refused_value())
    }

    fn count(&self) -> Result<usize> {
        let Values::Count { min, max } = self.setting.values else { return Err(self.refused_value()) };
        let number = self.text().ok().and_then(|text| text.parse::<u64>().ok());
        let number = number.filter(|number| (min..=max).contains(number));
        number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| self.refused_value())
    }

    fn text(&self) -> Result<&str, String> {
        self.raw.text.to_str().ok_or_else(|| "it is not UTF-8".to_owned())
    }

    fn refused_value(&self) -> Failure {
        let text = self.raw.text.to_string_lossy();
        self.refused(&format!("'{}' is not {}", text.escape_debug(), self.setting.values.describe()))
    }

    /// The failure that says which value, from where, is wrong, and why.
    fn refused(&self, reason: &str) -> Failure {
        let place = match &self.raw.origin {
            Origin::Flag => format!("--{}", self.setting.flag),
            Origin::Variable(name) => format!("the environment variable {name}"),
            Origin::File(path) => format!("'{}' in '{}'", self.setting.name, path.display()),
            Origin::Default => format!("the default of '{}'", self.setting.name),
        };
        Failure::Usage(format!("{place}: {reason}"))
    }
}

/// A misspelt variable of one of our sections would otherwise be ignored without a word.
fn refuse_unknown_variables(environment: &impl Environment) -> Result<()> {
    let known: Vec<String> = all().map(Setting::variable).collect();
    let of_a_section = |name: &str| all().any(|s| name.starts_with(&prefix(s)));
    let names = environment.names();
    let unknown = names.iter().filter_map(|name| OsStr::to_str(name));
    let unknown = unknown.filter(|name| of_a_section(name) && !known.iter().any(|known| known == name)).min();
    let Some(name) = unknown else { return Ok(()) };
    let hint = closest(name, known.iter().map(|known| (known.as_str(), known.as_str()))).unwrap_or_default();
    Err(Failure::Usage(format!("unknown environment variable {name}; did you mean {hint}?")))
}

fn prefix(setting: &Setting) -> String {
    format!("TYR_{}_", setting.section().to_uppercase())
}

#[cfg(test)]
mod tests;

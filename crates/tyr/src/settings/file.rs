//! The configuration file: which one, and what it says.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use crate::{
    failure::{Failure, Result},
    settings::{Environment, Setting, Values, all, closest::closest},
};

/// A configuration file that was read: every key in it is known.
pub struct ConfigFile {
    path: PathBuf,
    sections: Table,
    openness: Openness,
}

/// Who may open a file, as far as secrets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Openness {
    /// Its owner, and its group.
    Closed,
    /// Every user of the machine.
    Open,
}

/// The largest configuration file that is read, in bytes.
const FILE_SIZE_MAX: u64 = 1 << 20;

impl ConfigFile {
    /// Reads the file that was named, or else the first at a default location that there is and that may be read, if any.
    pub fn find(named: Option<&Path>, environment: &impl Environment) -> Result<Option<Self>> {
        if let Some(path) = named {
            return match read(path) {
                Ok((text, openness)) => Self::parse(path, &text, openness).map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(Failure::Usage(format!("there is no configuration file '{}'", path.display())))
                }
                Err(error) => Err(unread(path, &error)),
            };
        }
        for path in default_locations(environment) {
            match read(&path) {
                Ok((text, openness)) => return Self::parse(&path, &text, openness).map(Some),
                // What a node's user has closed to others, as /etc/tyr, is not for them.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
                Err(error) => return Err(unread(&path, &error)),
            }
        }
        Ok(None)
    }

    /// Parses the text of a file and refuses keys that no setting has.
    fn parse(path: &Path, text: &str, openness: Openness) -> Result<Self> {
        let parsed = text.parse::<Table>();
        let sections = parsed.map_err(|error| {
            Failure::Usage(format!(
                "configuration file '{}': {}",
                path.display(),
                error.to_string().trim_end()
            ))
        })?;
        for (section, value) in &sections {
            let Value::Table(keys) = value else {
                return Err(unknown(section, path));
            };
            if keys.is_empty() && !all().any(|setting| setting.section() == section) {
                return Err(unknown(section, path));
            }
            let is_known = |key: &str| all().any(|s| s.section() == section && s.key() == key);
            if let Some(key) = keys.keys().find(|key| !is_known(key)) {
                return Err(unknown(&format!("{section}.{key}"), path));
            }
        }
        Ok(ConfigFile { path: path.to_owned(), sections, openness })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says about the setting, as text. A secret in a file that everybody may open is refused: it is none any more.
    pub fn text(&self, setting: &Setting) -> Result<Option<String>> {
        let value = self.sections.get(setting.section()).and_then(|section| section.get(setting.key()));
        let is_secret =
            matches!(setting.values, Values::Secret) && value.is_some_and(|value| value.as_str() != Some(""));
        if is_secret && self.openness == Openness::Open {
            return Err(self.open_secret(setting));
        }
        match value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Integer(number)) => Ok(Some(number.to_string())),
            Some(Value::Boolean(switch)) => Ok(Some(switch.to_string())),
            Some(Value::Array(items)) if matches!(setting.values, Values::List(_) | Values::Paths) => {
                let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                let refused = || {
                    Failure::Usage(format!(
                        "'{}' in '{}' has other items than texts",
                        setting.name,
                        self.path.display()
                    ))
                };
                texts.map(|texts| Some(texts.join(","))).ok_or_else(refused)
            }
            Some(other) => Err(Failure::Usage(format!(
                "'{}' in '{}' is of type {}; it takes {}",
                setting.name,
                self.path.display(),
                other.type_str(),
                setting.values.describe()
            ))),
        }
    }

    fn open_secret(&self, setting: &Setting) -> Failure {
        Failure::Usage(format!(
            "'{}' in '{path}': the file is open to every user of this machine, so what it keeps is no secret; chmod 600 '{path}', and if \
             others can have read it, make another one",
            setting.name,
            path = self.path.display()
        ))
    }
}

/// Where a configuration file is looked for if none is named; the first that may be read is taken.
fn default_locations(environment: &impl Environment) -> Vec<PathBuf> {
    let home = || environment.variable("HOME").map(|home| Path::new(&home).join(".config"));
    let user = environment.variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let user = user.or_else(home).map(|directory| directory.join("tyr/tyr.toml"));
    [PathBuf::from("tyr.toml")].into_iter().chain(user).chain([PathBuf::from("/etc/tyr/tyr.toml")]).collect()
}

fn read(path: &Path) -> io::Result<(String, Openness)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > FILE_SIZE_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let openness = if metadata.mode() & 0o007 == 0 { Openness::Closed } else { Openness::Open };
    Ok((text, openness))
}

fn unread(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot read the configuration file '{}': {error}", path.display()))
}

fn unknown(name: &str, path: &Path) -> Failure {
    // Somebody may have forgotten the section, or misspelt it.
    let spellings = all().flat_map(|s| [s.name, s.key(), s.section()].map(|spelling| (spelling, s.name)));
    let hint = closest(name, spellings).unwrap_or_default();
    let path = path.display();
    Failure::Usage(format!("unknown key '{name}' in configuration file '{path}'; did you mean '{hint}'?"))
}

//! Which paths are ours, and what `TYR_MOUNT` says.

use std::path::PathBuf;

/// What is to be seen where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The directory below which everything is ours, without a slash at its end.
    pub prefix: Vec<u8>,
    /// The cluster, if the source names one.
    pub store: Option<PathBuf>,
    pub keyspace: String,
    /// The directory of the file system that is seen, beginning with a slash, or empty for all of it.
    pub directory: Vec<u8>,
    pub options: Options,
}

/// What is said after the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The keyspace and a file system are made if there is none.
    pub creates: bool,
    pub is_read_only: bool,
    pub is_flat: bool,
    /// In a flat keyspace `_` stands for the slash.
    pub has_underscores: bool,
}

/// What is wrong with what `TYR_MOUNT` says.
#[derive(Debug)]
pub struct Mistake {
    /// The prefix, if that is said.
    pub prefix: Option<Vec<u8>>,
    pub message: String,
}

impl Mounted {
    /// Understands `PREFIX=SOURCE[,OPTION...]`.
    pub fn parse(text: &[u8]) -> Result<Mounted, Mistake> {
        let mistake = |prefix, message: &str| Mistake { prefix, message: message.to_owned() };
        let Some(split) = text.iter().position(|byte| *byte == b'=') else {
            return Err(mistake(None, "it says PREFIX=SOURCE"));
        };
        let (prefix, source) = (clean(&text[..split]), &text[split + 1..]);
        let Some(prefix) = prefix.filter(|prefix| prefix.len() > 1) else {
            return Err(mistake(None, "the prefix is an absolute path, and not the root"));
        };
        Mounted::of_source(&prefix, source).map_err(|message| Mistake { prefix: Some(prefix), message })
    }

    /// What has a prefix, and nothing below it.
    pub fn nothing(prefix: Vec<u8>) -> Mounted {
        let (keyspace, directory, options) = (String::new(), Vec::new(), Options::default());
        Mounted { prefix, store: None, keyspace, directory, options }
    }

    fn of_source(prefix: &[u8], source: &[u8]) -> Result<Mounted, String> {
        let (store, rest) = split_source(source);
        let mut parts = rest.split(|byte| *byte == b',');
        let path = parts.next().unwrap_or_default();
        let mut options = Options::default();
        for option in parts {
            match option {
                b"create" => options.creates = true,
                b"ro" => options.is_read_only = true,
                b"flat" => options.is_flat = true,
                b"underscores" => (options.is_flat, options.has_underscores) = (true, true),
                other => return Err(format!("'{}' is no option", String::from_utf8_lossy(other))),
            }
        }
        let (keyspace, directory) = match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], clean(&path[slash..]).unwrap_or_default()),
            None => (path, Vec::new()),
        };
        let keyspace = String::from_utf8(keyspace.to_vec()).map_err(|_| "a keyspace's name is UTF-8")?;
        if keyspace.is_empty() {
            return Err("the source names a keyspace".to_owned());
        }
        let directory = if directory == b"/" { Vec::new() } else { directory };
        let store = store.map(|store| PathBuf::from(String::from_utf8_lossy(store).into_owned()));
        Ok(Mounted { prefix: prefix.to_vec(), store, keyspace, directory, options })
    }
}

impl Mounted {
    /// Whether a path from a directory of the kernel's may lead below the prefix: then it names where that begins.
    pub fn may_be_entered(&self, path: &[u8]) -> bool {
        let last = self.prefix.rsplit(|byte| *byte == b'/').next();
        path.split(|byte| *byte == b'/').any(|part| Some(part) == last)
    }
}

/// The cluster that a source names, if it does, and the rest.
fn split_source(source: &[u8]) -> (Option<&[u8]>, &[u8]) {
    for scheme in [b"tyr+tls://".as_slice(), b"tyr://"] {
        let Some(rest) = source.strip_prefix(scheme) else { continue };
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let keyspace = rest.get(end + 1..).unwrap_or_default();
        return ((end > 0).then(|| &source[..scheme.len() + end]), keyspace);
    }
    (None, source)
}

/// An absolute path without `.`, `..`, and slashes that say nothing; `None` if it is not absolute.
pub fn clean(path: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with(b"/") {
        return None;
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    Some([b"/".as_slice(), &kept.join(b"/".as_slice())].concat())
}

/// The descriptor that an absolute path of the kernel's names for a process, and what of the path is left, with the slash before it.
pub fn descriptor_named(path: &[u8], process: u32) -> Option<(i32, Vec<u8>)> {
    let path = clean(path)?;
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    let is_own =
        |part: &[u8]| matches!(part, b"self" | b"thread-self") || part == process.to_string().as_bytes();
    let (number, rest): (&[u8], _) = match parts.as_slice() {
        [b"dev", b"stdin", rest @ ..] => (b"0", rest),
        [b"dev", b"stdout", rest @ ..] => (b"1", rest),
        [b"dev", b"stderr", rest @ ..] => (b"2", rest),
        [b"dev", b"fd", number, rest @ ..] => (*number, rest),
        [b"proc", own, b"fd", number, rest @ ..] if is_own(own) => (*number, rest),
        [b"proc", own, b"task", _, b"fd", number, rest @ ..] if is_own(own) => (*number, rest),
        _ => return None,
    };
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, rest.iter().flat_map(|part| [b"/", *part].concat()).collect()))
}

/// Whether a path, or the end of one, may be such a name.
pub fn may_name_descriptor(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_number = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    is_number || path.windows(2).any(|two| two == b"fd") || path.windows(3).any(|three| three == b"std")
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below the prefix: the rest of the path, which begins with a slash.
    Ours(Vec<u8>),
    /// Elsewhere, as the kernel finds it.
    Theirs,
    /// Elsewhere, but through the prefix, where the kernel finds nothing: the absolute path.
    Out(Vec<u8>),
}

/// Where an absolute path leads. Dots are understood by the names alone on the way to the prefix; below it they are kept for the file
/// system, which knows symbolic links, but for those that lead out again.
pub fn place(prefix: &[u8], path: &[u8]) -> Place {
    let prefix: Vec<&[u8]> = prefix.split(|byte| *byte == b'/').skip(1).collect();
    let mut outer: Vec<&[u8]> = Vec::new();
    let mut inner: Vec<&[u8]> = Vec::new();
    let (mut depth, mut was_inside) = (0_usize, false);
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if outer == prefix {
            was_inside = true;
            match part {
                b"." => inner.push(part),
                b".." if depth == 0 => {
                    inner.clear();
                    outer.pop();
                }
                b".." => {
                    depth -= 1;
                    inner.push(part);
                }
                _ => {
                    depth += 1;
                    inner.push(part);
                }
            }
        } else {
            match part {
                b"." => {}
                b".." => drop(outer.pop()),
                part => outer.push(part),
            }
        }
    }
    if outer != prefix && !was_inside {
        return Place::Theirs;
    }
    let is_ours = outer == prefix;
    let parts = if is_ours { inner } else { outer };
    let mut whole = [b"/".as_slice(), &parts.join(b"/".as_slice())].concat();
    if !parts.is_empty() && path.ends_with(b"/") {
        whole.push(b'/');
    }
    if is_ours { Place::Ours(whole) } else { Place::Out(whole) }
}

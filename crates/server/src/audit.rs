//! What clients have done to the cluster through this node, in a file: who, when, from where, what, and with which result.
//!
//! Each act is a line, a JSON object; so is each attempt to do what there is no right to, or what cannot be done, unless somebody
//! [goes on trying](attempts). Lines are written by a thread of their own, so that
//! nobody waits for a disk; if more come than it can write, some are lost, and a line says how many. When the file has grown to
//! [`SIZE_MAX`] it is put aside as `audit.1`, what was that as `audit.2`, and so on up to [`KEPT`].
//!
//! No line has a secret in it: tokens are named by their numbers.

mod attempts;

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tyr_proto::{
    Extent, NodeId, SnapshotId,
    access::{AccountId, AccountKind, Rights, Scope},
    cluster::{Answer, Command, Request, Response},
    message::Message,
};
use tyr_types::KeyspaceId;

use attempts::Attempts;

use crate::{
    guard::{Caller, Registry, Who},
    surroundings::now,
};

/// Where acts are noted.
#[derive(Debug)]
pub(crate) struct Audit {
    lines: Option<SyncSender<String>>,
    lost: AtomicU64,
    attempts: Attempts,
    node: OnceLock<NodeId>,
}

/// Something that a client asked to be done, with the names of what it was done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Act {
    /// In a word.
    action: &'static str,
    /// To what: fields of its line, with what they say.
    about: Vec<(&'static str, String)>,
}

impl Act {
    fn new(action: &'static str) -> Self {
        Act { action, about: Vec::new() }
    }

    fn with(mut self, field: &'static str, says: impl ToString) -> Self {
        self.about.push((field, says.to_string()));
        self
    }

    fn on(action: &'static str, subject: impl ToString) -> Self {
        Act::new(action).with("subject", subject)
    }

    /// What a question asks to be done, if anything.
    pub fn of(request: &Request, registry: &Registry) -> Option<Act> {
        let account = |id: AccountId| match registry.account_name(id) {
            Some(name) => name,
            None => format!("account {}", id.0),
        };
        let node = |node: &NodeId| format!("node {}", node.0);
        let keyspace = |id: &KeyspaceId| keyspace_name(registry, *id);
        let snapshot = |id: &KeyspaceId, snapshot: &SnapshotId| match registry.snapshot_name(*id, *snapshot) {
            Some(name) => format!("{}@{name}", keyspace(id)),
            None => format!("{}@snapshot {}", keyspace(id), snapshot.0),
        };
        Some(match request {
            Request::Token(order) => Act::on("create token", account(order.user)),
            Request::Seal => Act::new("rotate seal"),
            Request::Command(command) => match command {
                Command::CreateKeyspace { name, .. } => Act::on("create keyspace", name),
                Command::AlterKeyspace { id, .. } => Act::on("alter keyspace", keyspace(id)),
                Command::SetQuota { id, .. } => Act::on("set quota", keyspace(id)),
                Command::DropKeyspace(id) => Act::on("drop keyspace", keyspace(id)),
                Command::BeginSnapshot { keyspace: id, name, .. } => {
                    Act::on("create snapshot", format!("{}@{name}", keyspace(id)))
                }
                Command::CompleteSnapshot { keyspace: id, snapshot: taken, .. } => {
                    Act::on("complete snapshot", snapshot(id, taken))
                }
                Command::DropSnapshot { keyspace: id, snapshot: dropped } => {
                    Act::on("drop snapshot", snapshot(id, dropped))
                }
                Command::CreateAccount { name, kind: AccountKind::User, .. } => Act::on("create user", name),
                Command::CreateAccount { name, kind: AccountKind::Group, .. } => {
                    Act::on("create group", name)
                }
                Command::RemoveAccount(id) => Act::on("remove account", account(*id)),
                Command::Enroll { user, group } => {
                    Act::on("add to group", account(*user)).with("group", account(*group))
                }
                Command::Dismiss { user, group } => {
                    Act::on("remove from group", account(*user)).with("group", account(*group))
                }
                Command::Grant { account: to, scope, more, less } => {
                    let what = if more.is_empty() && !less.is_empty() { "revoke" } else { "grant" };
                    let act = Act::on(what, account(*to)).with("scope", scope_name(registry, *scope));
                    act.with("granted", more).with("revoked", less)
                }
                Command::RevokeTokens { user, .. } => Act::on("revoke tokens", account(*user)),
                Command::RemoveSeal(id) => Act::on("remove seal", id.0),
                Command::Drain(id) => Act::on("drain", node(id)),
                Command::Leave(id) => Act::on("remove node", node(id)),
                Command::Restore(id) => Act::on("restore", node(id)),
                Command::Replace { old, new } => Act::on("replace", node(old)).with("by", node(new)),
                Command::Abandon(id) => Act::on("abandon", node(id)),
                Command::GiveUp(id) => Act::on("give up", node(id)),
                Command::CreateClass(..) => Act::new("create class"),
                Command::Found(_)
                | Command::Register { .. }
                | Command::Evict(_)
                | Command::RemoveReplica { .. }
                | Command::LearnerComplete { .. }
                | Command::Release { .. }
                | Command::Retarget { .. }
                | Command::Advance(_)
                | Command::Lose { .. }
                | Command::AddSeal(..) => Act::new("act as a node"),
            },
            Request::Register(..) | Request::Lease(..) => Act::new("act as a node"),
            Request::Ring(_)
            | Request::Newest(_)
            | Request::Report
            | Request::Hatch
            | Request::Uses(_)
            | Request::View(_) => {
                return None;
            }
        })
    }

    /// What a message that was denied asked to be done, if that is no matter of single blobs, with the denial.
    pub fn denied(message: &Message, registry: &Registry) -> Option<(Act, Response)> {
        let Message::Freeze { freeze, .. } = message else { return None };
        let Extent::Keyspace(keyspace, _) = freeze.extent else { return None };
        let act = Act::on("take snapshot", keyspace_name(registry, keyspace));
        Some((act, Response::Denied(Scope::Keyspace(keyspace), Rights::ADMINISTER)))
    }
}

fn keyspace_name(registry: &Registry, id: KeyspaceId) -> String {
    registry.keyspace_name(id).unwrap_or_else(|| format!("keyspace {}", id.0))
}

fn scope_name(registry: &Registry, scope: Scope) -> String {
    match scope {
        Scope::Cluster => "cluster".to_owned(),
        Scope::Keyspaces => "all keyspaces".to_owned(),
        Scope::Keyspace(id) => match registry.keyspace_name(id) {
            Some(name) => format!("keyspace {name}"),
            None => format!("keyspace {}", id.0),
        },
    }
}

impl Audit {
    /// Notes into a directory from now on. One that cannot be written is told of in the log, once.
    pub fn new(directory: PathBuf) -> Self {
        let (lines, written) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("tyr-audit".into());
        let spawned = thread.spawn(move || write_all(&directory, &written));
        let lines = spawned.map(|_| lines);
        if let Err(error) = &lines {
            tracing::error!(%error, "nothing is audited: a thread cannot be started");
        }
        Audit {
            lines: lines.ok(),
            lost: AtomicU64::new(0),
            attempts: Attempts::default(),
            node: OnceLock::new(),
        }
    }

    /// This is the node.
    pub fn belongs_to(&self, node: NodeId) {
        let _known = self.node.set(node);
    }

    /// Notes what was done, or not, for a client. What is to be asked of somebody else is not noted here.
    pub fn note(&self, caller: Option<&Caller>, act: &Act, response: &Response) {
        let Some(result) = result_of(response) else { return };
        let is_attempt = matches!(result.0, "denied" | "refused");
        let omitted = match is_attempt {
            true => self.attempts.note(caller.and_then(Caller::account), now()),
            false => Some(0),
        };
        let Some(omitted) = omitted else { return };
        let mut line = format!("{{\"time\":\"{}\"", time(SystemTime::now()));
        let node = self.node.get().map_or(0, |node| node.0);
        let (who, from) = match caller {
            None => ("anybody".to_owned(), "unknown"),
            Some(caller) => match &caller.who {
                Who::Operator => ("secret".to_owned(), &caller.from[..]),
                Who::User(name, claims) => {
                    field(&mut line, "token", &format!("{:016x}", claims.number));
                    (format!("user {name}"), &caller.from[..])
                }
            },
        };
        // Writing to a string does not fail.
        let _ = write!(line, ",\"node\":{node}");
        field(&mut line, "who", &who);
        field(&mut line, "from", from);
        field(&mut line, "action", act.action);
        act.about.iter().for_each(|(name, says)| field(&mut line, name, says));
        field(&mut line, "result", result.0);
        if let Some(reason) = result.1 {
            field(&mut line, "reason", &reason);
        }
        if omitted > 0 {
            let _ = write!(line, ",\"omitted\":{omitted}");
        }
        line.push_str("}\n");
        self.put(line);
    }

    fn put(&self, line: String) {
        let Some(lines) = &self.lines else { return };
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let line = match lost {
            0 => line,
            lost => format!("{line}{{\"time\":\"{}\",\"lost\":{lost}}}\n", time(SystemTime::now())),
        };
        if lines.try_send(line).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// How it ended, with the reason if nothing was done; none if somebody else is to be asked.
fn result_of(response: &Response) -> Option<(&'static str, Option<String>)> {
    match response {
        Response::Elsewhere(_) => None,
        Response::Replied(Ok(Answer::Done(_) | Answer::Registered(..) | Answer::KeyspaceCreated(..)))
        | Response::Replied(Ok(Answer::AccountCreated(..) | Answer::SnapshotBegun(..)))
        | Response::Token(_)
        | Response::Seal(_) => Some(("done", None)),
        Response::Replied(Err(refusal)) => Some(("refused", Some(refusal.to_string()))),
        Response::Denied(..) => Some(("denied", None)),
        _ => Some(("unknown", None)),
    }
}

/// Writes a field with text, which may have come from anywhere.
fn field(line: &mut String, name: &str, text: &str) {
    let _ = write!(line, ",\"{name}\":\"");
    for letter in text.chars() {
        match letter {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(line, "\\u{:04x}", u32::from(letter));
            }
            letter => line.push(letter),
        }
    }
    line.push('"');
}

/// A time as RFC 3339 has it (the days after H. Hinnant, "chrono-compatible low-level date algorithms", 2013).
fn time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Writes lines until nobody is left who could note anything.
fn write_all(directory: &Path, lines: &Receiver<String>) {
    let mut kept: Option<Kept> = None;
    while let Ok(first) = lines.recv() {
        let mut text = first;
        lines.try_iter().take(WAITING_MAX).for_each(|line| text.push_str(&line));
        let written = match &mut kept {
            Some(kept) => kept.write(&text),
            None => Kept::open(directory).and_then(|opened| kept.insert(opened).write(&text)),
        };
        if let Err(error) = written {
            tracing::error!(directory = %directory.display(), %error, "something that was done is not audited");
            kept = None;
        }
    }
}

/// The file.
struct Kept {
    directory: PathBuf,
    file: File,
    size: u64,
}

impl Kept {
    fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        let mut last = [b'\n'];
        file.read_exact_at(&mut last, size.saturating_sub(1)).or_else(|error| match size {
            0 => Ok(()),
            _ => Err(error),
        })?;
        // What was being written when the power failed, or the device was full, stays a line of its own.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        Ok(Kept { directory: directory.to_owned(), file, size })
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if self.size >= SIZE_MAX {
            self.rotate()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.size += text.len() as u64;
        self.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        let aside = |number: u32| self.directory.join(format!("{NAME}.{number}"));
        for number in (1..KEPT).rev() {
            match fs::rename(aside(number), aside(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(self.directory.join(NAME), aside(1))?;
        *self = Kept::open(&self.directory)?;
        Ok(())
    }
}

/// The files of a node's directory that have lines, the oldest first.
pub fn audit_files(directory: &Path) -> Vec<PathBuf> {
    let aside = (1..=KEPT).rev().map(|number| directory.join(format!("{NAME}.{number}")));
    aside.chain([directory.join(NAME)]).filter(|path| path.exists()).collect()
}

/// The name of the file.
const NAME: &str = "audit";
/// When it is that large, in bytes, another one begins.
const SIZE_MAX: u64 = 8 << 20;
/// As many are kept beside the newest.
const KEPT: u32 = 9;
/// As many lines wait for the disk.
const WAITING_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn whatever_is_in_a_name_a_line_is_one_object() {
        let mut line = String::new();
        field(&mut line, "who", "a\"b\\c\nd\u{7f}");
        assert_eq!(line, ",\"who\":\"a\\\"b\\\\c\\u000ad\\u007f\"");
    }

    #[test]
    fn a_line_that_was_cut_off_swallows_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        Kept::open(directory.path()).unwrap().write("whole\n").unwrap();
        fs::write(&path, fs::read_to_string(&path).unwrap() + "cut").unwrap();
        Kept::open(directory.path()).unwrap().write("next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\ncut\nnext\n");
    }

    #[test]
    fn a_file_that_is_large_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(directory.path()).unwrap();
        for number in 0..KEPT + 3 {
            kept.write(&format!("{number}\n")).unwrap();
            kept.size = SIZE_MAX;
        }
        let files = audit_files(directory.path());
        assert_eq!(files.len(), 1 + usize::try_from(KEPT).unwrap());
        let text: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let expected: String = (2..KEPT + 3).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, expected, "the oldest are gone");
    }
}

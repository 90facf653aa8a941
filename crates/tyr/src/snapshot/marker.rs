//! The blob by which a keyspace says that it is not whole: it is being made of an archive, or made what it was.

use tyr_client::{
    Error, ErrorKind, Stat,
    blocking::{Keyspace, Snapshot, Store},
};

use crate::failure::{Failure, Result};

/// Its key.
pub const KEY: &str = ".tyr-import";
/// The attribute of a large blob that is not whole yet.
pub const UNFINISHED: &str = "tyr.unfinished";
const STATE: &str = "state";
const ARCHIVE: &str = "archive";

/// What a keyspace says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// What is going on.
    pub state: State,
    /// The archive, or the snapshot, that it is made of. Of one that follows: the archive that it had, and the one that it is to have, unless parts of several were
    /// written.
    pub of: String,
}

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being made.
    Importing,
    /// It is whole, and is to follow its original: what changed there is to be imported later.
    Standby,
    /// What changed is being imported; then it stands by again.
    Following,
    /// It is being made what it was.
    Restoring,
}

impl State {
    const ALL: [State; 4] = [State::Importing, State::Standby, State::Following, State::Restoring];

    fn word(self) -> &'static str {
        match self {
            State::Importing => "importing",
            State::Standby => "standby",
            State::Following => "following",
            State::Restoring => "restoring",
        }
    }
}

impl Marker {
    /// What a keyspace says of itself, if it says anything.
    pub fn of(keyspace: &Keyspace) -> Result<Option<Marker>> {
        Marker::read(keyspace, keyspace.stat(KEY))
    }

    /// What it said of itself in a snapshot.
    fn then(snapshot: &Snapshot, keyspace: &Keyspace) -> Result<Option<Marker>> {
        Marker::read(keyspace, snapshot.stat(keyspace, KEY))
    }

    fn read(keyspace: &Keyspace, stat: tyr_client::Result<Stat>) -> Result<Option<Marker>> {
        match stat {
            Ok(stat) => {
                let text = |name: &str| {
                    let value = stat.attributes.value(name)?;
                    String::from_utf8(value.to_vec()).ok()
                };
                let word = text(STATE).unwrap_or_default();
                let state = State::ALL.into_iter().find(|state| state.word() == word);
                let state = state.ok_or_else(|| {
                    Failure::Store(Error::invalid(format!(
                        "keyspace '{}' has a blob '{KEY}' that no import has written; move it away",
                        keyspace.name()
                    )))
                })?;
                Ok(Some(Marker { state, of: text(ARCHIVE).unwrap_or_default() }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the keyspace say this.
    pub fn set(&self, store: &Store, keyspace: &Keyspace) -> Result<()> {
        store.run(|transaction| {
            if !transaction.exists(keyspace, KEY)? {
                transaction.create(keyspace, KEY)?;
            }
            transaction.set_attribute(keyspace, KEY, STATE, Some(self.state.word().as_bytes()))?;
            transaction.set_attribute(keyspace, KEY, ARCHIVE, Some(self.of.as_bytes()))
        })?;
        Ok(())
    }

    /// Has the keyspace say nothing of itself.
    pub fn remove(keyspace: &Keyspace) -> Result<()> {
        match keyspace.delete(KEY) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Fails if the keyspace was not whole in the snapshot, or followed another one.
    pub fn refuse_unfinished(snapshot: &Snapshot, keyspace: &Keyspace) -> Result<()> {
        match Marker::then(snapshot, keyspace)? {
            None => Ok(()),
            Some(_) => Err(Failure::Store(Error::invalid(format!(
                "keyspace '{}' is not whole, or follows another one: its blob '{KEY}' says so; end that first, and take a snapshot after that",
                keyspace.name()
            )))),
        }
    }

    /// Fails if the keyspace was not whole in the snapshot.
    pub fn refuse_partial(snapshot: &Snapshot, keyspace: &Keyspace) -> Result<()> {
        match Marker::then(snapshot, keyspace)? {
            None | Some(Marker { state: State::Standby, .. }) => Ok(()),
            Some(_) => Err(Failure::Store(Error::invalid(format!(
                "keyspace '{}' was not whole when that snapshot was taken: an import or another restoration was under way; restore another one",
                keyspace.name()
            )))),
        }
    }
}

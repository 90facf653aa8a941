//! The same done to a model and to a store, and what of it was acknowledged.

use std::sync::Arc;

use tyr_env::BLOCK_SIZE;
use tyr_sim_env::{SimClock, SimDisk};
use tyr_store::{
    BlobChange, Create, Maintained, Options, Payload, Refused, Stop, Store, Ticket, Wait, aligned_copy,
};
use tyr_types::{Durability, Error, ErrorKind, KeyspaceId, KeyspaceName, KeyspaceSettings, Number, Result};

use super::model::{Edit, Staged, State};

/// A store on a disk and every state that it has been in.
pub struct Session {
    pub disk: Arc<SimDisk>,
    pub options: Options,
    store: Option<Arc<Store>>,
    /// One after each logged step, in order; the last is the newest.
    pub states: Vec<State>,
    /// Index of the last state that must survive.
    pub acked: usize,
}

/// Small everything, so that rare paths are common.
pub fn tight() -> Options {
    Options {
        segment_size: 128 << 10,
        inline_max: 8 << 10,
        index_cache: 64 << 10,
        data_cache: 64 << 10,
        checkpoint_size: 96 << 10,
        slack_segments: 2,
    }
}

impl Session {
    /// A new store on an empty disk.
    pub fn new(disk: Arc<SimDisk>, options: Options) -> Self {
        let mut session = Session { disk, options, store: None, states: vec![State::default()], acked: 0 };
        session.open().expect("opens");
        session
    }

    /// Before the store has been opened, with a state that is on the disk.
    pub fn on(disk: Arc<SimDisk>, options: Options, state: State) -> Self {
        Session { disk, options, store: None, states: vec![state], acked: 0 }
    }

    pub fn open(&mut self) -> Result<()> {
        let store = Store::open(self.disk.clone(), SimClock::new(), Create::IfMissing, self.options.clone())?;
        self.store = Some(Arc::new(store));
        Ok(())
    }

    /// Opens without what the index says.
    pub fn open_rebuilding(&mut self) -> Result<()> {
        let store = Store::open_rebuilding(self.disk.clone(), SimClock::new(), self.options.clone())?;
        self.store = Some(Arc::new(store));
        Ok(())
    }

    pub fn store(&self) -> &Arc<Store> {
        self.store.as_ref().expect("is open")
    }

    pub fn is_open(&self) -> bool {
        self.store.is_some()
    }

    pub fn state(&self) -> &State {
        self.states.last().expect("never empty")
    }

    /// Lets the store go as a killed process does, and opens it again.
    pub fn kill(&mut self) -> Result<()> {
        self.store = None;
        self.open()
    }

    /// Lets the store go as a killed process does.
    pub fn abandon(&mut self) {
        self.store = None;
    }

    pub fn close(&mut self) -> Result<()> {
        self.store().close()?;
        self.all_acked();
        self.store = None;
        Ok(())
    }

    pub fn reopen(&mut self) -> Result<()> {
        self.close()?;
        self.open()
    }

    fn all_acked(&mut self) {
        self.acked = self.states.len() - 1;
    }

    /// Takes note of a step that was logged, or perhaps was when the power failed.
    fn note<T>(&mut self, result: Result<T>, next: State) -> Result<T> {
        // Without a store the step cannot have got anywhere; with too little space or a wrong call it is refused.
        let is_refused = |error: &Error| matches!(error.kind(), ErrorKind::Full | ErrorKind::Invalid);
        if result.as_ref().err().is_none_or(|error| !is_refused(error)) {
            self.states.push(next);
        }
        result
    }

    pub fn create_space(&mut self, name: &str, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        let mut next = self.state().clone();
        let id = next.create_space(name, settings.clone());
        let created = self.store().create_keyspace(KeyspaceName::new(name).expect("valid"), settings);
        let created = self.note(created, next)?;
        assert_eq!(created, id);
        self.all_acked();
        Ok(id)
    }

    pub fn alter_space(&mut self, id: KeyspaceId, settings: KeyspaceSettings) -> Result<()> {
        let mut next = self.state().clone();
        next.spaces.get_mut(&id).expect("exists").settings = settings.clone();
        let altered = self.store().alter_keyspace(id, settings);
        self.note(altered, next)?;
        self.all_acked();
        Ok(())
    }

    pub fn drop_space(&mut self, id: KeyspaceId) -> Result<()> {
        let mut next = self.state().clone();
        next.spaces.remove(&id);
        let dropped = self.store().drop_keyspace(id);
        self.note(dropped, next)?;
        self.all_acked();
        Ok(())
    }

    /// Commits, without waiting.
    pub fn send(&mut self, edits: &[Edit]) -> Result<Ticket> {
        let mut next = self.state().clone();
        edits.iter().for_each(|edit| next.apply(edit));
        let sent = commit(self.store(), edits);
        self.note(sent, next)
    }

    /// Commits and waits until it is durable, if a keyspace of it demands that.
    pub fn commit(&mut self, edits: &[Edit]) -> Result<Number> {
        let ticket = self.send(edits)?;
        let number = ticket.number();
        ticket.wait()?;
        let is_durable = |edit: &Edit| self.state().space(edit.space).settings.durability == Durability::Disk;
        if edits.iter().any(is_durable) {
            self.all_acked();
        }
        Ok(number)
    }

    pub fn flush(&mut self) -> Result<()> {
        self.store().flush()?;
        self.all_acked();
        Ok(())
    }

    pub fn checkpoint(&mut self) -> Result<()> {
        self.store().checkpoint()?;
        self.all_acked();
        Ok(())
    }
}

/// Maintains until nothing is left to do.
pub fn settle(store: &Store) -> Result<()> {
    for _ in 0..10_000 {
        if store.maintain()? == Maintained::Idle {
            return Ok(());
        }
    }
    panic!("maintenance does not come to an end: {:?}", store.stats());
}

/// Does the edits as one transaction.
pub fn commit(store: &Store, edits: &[Edit]) -> Result<Ticket> {
    let mut changes = Vec::new();
    for edit in edits {
        changes.push((edit.space, edit.key.clone(), change_of(store, edit)?));
    }
    let result = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        for (space, key, change) in &changes {
            writer.head(*space, key)?;
            writer.put(*space, key, change.clone());
        }
        Ok(())
    });
    match result {
        Ok(((), ticket)) => Ok(ticket),
        Err(Refused::Failed(error) | Refused::Refused(error)) => Err(error),
        Err(Refused::WouldBlock) => panic!("it was allowed to wait"),
    }
}

fn change_of(store: &Store, edit: &Edit) -> Result<BlobChange> {
    let mut writes = Vec::new();
    for (offset, bytes) in &edit.writes {
        let shared = aligned_copy(bytes).filter(|_| edit.staged == Staged::Yes);
        // Only whole blocks of what is shared are written from where they are.
        let piece = if shared.is_some() { PIECE / BLOCK_SIZE * BLOCK_SIZE } else { PIECE };
        for start in (0..bytes.len()).step_by(piece) {
            let part = start..bytes.len().min(start + piece);
            let payload = match (&shared, edit.staged) {
                (Some(shared), _) => store.stage_shared(edit.space, shared, part)?,
                (None, Staged::Yes) => store.stage(edit.space, &bytes[part])?,
                (None, Staged::No) => Payload::new(&bytes[part]),
            };
            writes.push((offset + start as u64, payload));
        }
    }
    Ok(BlobChange {
        existence: edit.existence,
        cut: edit.cut,
        holes: edit.holes.clone(),
        size: edit.size,
        attributes: edit.attributes.clone(),
        writes,
    })
}

/// A longer write is made of several payloads: the smallest segment must hold each.
const PIECE: usize = 60_000;

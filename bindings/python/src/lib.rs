//! The native part of the Python package `tyr`: the client of a store, with a blocking and an asyncio face.
//!
//! Every operation is written once, as a future that owns what it needs ([`keyspace`], [`transaction`], [`snapshot`], [`store`]), and
//! ends in a [`value::Value`]. A [`face::Face`] drives it: the blocking one polls it on the calling thread without the interpreter's
//! lock; the asyncio one makes it an awaitable ([`operation`]) that the event loop's [`reactor`] polls when it is woken.
//!
//! Invariants: no thread but the caller's ever needs the interpreter's lock, so that a store never waits for Python code; what belongs to
//! Python is let go of by threads of Python only; after a fork nothing of a store is touched ([`life`]).

mod arguments;
#[cfg(feature = "bench")]
mod bench;
mod content;
mod errors;
mod face;
mod keyspace;
mod life;
mod number;
mod open;
mod operation;
mod reactor;
mod snapshot;
mod store;
mod transaction;
mod tries;
mod value;

use pyo3::prelude::*;

/// The client of a Týr store.
#[pymodule]
mod _tyr {
    #[cfg(feature = "bench")]
    #[pymodule_export]
    use crate::bench::rounds;
    #[pymodule_export]
    use crate::{
        content::Content,
        keyspace::{AioKeyspace, Keyspace},
        life::{end, forked},
        number::{Check, Transform},
        open::{open, open_aio},
        operation::Operation,
        reactor::Reactor,
        snapshot::{AioSnapshot, Snapshot},
        store::{AioStore, Store},
        transaction::{AioPending, AioTransaction, Pending, Transaction},
        tries::{AioTries, Tries},
        value::{Blob, Entry, KeyspaceSettings, KeyspaceSummary, Receipt, Slot, SnapshotSummary, Stat},
    };
}

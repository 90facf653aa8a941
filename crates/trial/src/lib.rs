//! Trials of real clusters: `tyr server` processes in network namespaces, clients that record what they are told, faults drawn from a
//! seed, and checkers that judge the history (docs/failure-tests.md).
//!
//! Invariants:
//! - A trial takes everything that it made with it, however it ends: namespaces, mounts, and processes belong to a namespace of
//!   processes that dies with it ([`enclosure`]).
//! - Nothing is waited for by sleeping: what has to happen is asked for until it has happened, or the trial's patience ends. What sleeps
//!   is a fault that lasts as long, and a client that thinks.
//! - What cannot be done on a machine is said, and never passed over in silence.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod client;
pub mod course;
pub mod disk;
pub mod enclosure;
pub mod failure;
pub mod fault;
pub mod fleet;
pub mod judge;
pub mod layout;
pub mod log;
pub mod network;
pub mod node;
pub mod probe;
pub mod recorder;
pub mod report;
pub mod throttle;

//! What the tests that try to break the engine share: a model of a store ([`model`]), a session that does the same to a model and to
//! a store on a simulated disk ([`session`]), the comparison of both ([`compare`]), repeatable choices ([`chance`]), and stores in a file
//! ([`packed`]).

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of the kit")]

pub mod chance;
pub mod compare;
pub mod model;
pub mod packed;
pub mod random_work;
pub mod session;

pub use chance::{Chance, Replay, pattern, scaled};
pub use compare::{difference, expect_sound, expect_usable, find_state, probe_keys};
pub use model::{Edit, State, key};
pub use session::{Session, settle, tight};

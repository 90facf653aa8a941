//! File systems in a directory and on clusters: one program, for each one takes long to build.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acls;
mod chance;
mod flat;
mod flat_model;
mod full;
mod guests;
mod holes;
mod locks;
mod made;
mod model;
mod moved;
mod prefixes;
mod readers;
#[path = "../../../client/tests/real/mod.rs"]
mod real;
mod reference;
mod removed;
mod rights;
mod slashes;

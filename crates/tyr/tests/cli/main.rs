//! The built binary, as its users meet it.

mod blobs;
mod clusters;
mod configuration;
mod demonstration;
mod failures;
mod files;
mod interruption;
mod json;
mod keyspaces;
#[path = "../../../client/tests/kit/mod.rs"]
mod kit;
mod scripts;
mod shape;
mod snapshots;
mod support;
mod transfers;

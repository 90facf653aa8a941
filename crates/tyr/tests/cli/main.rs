//! The built binary, as its users meet it.

mod blobs;
mod configuration;
mod demonstration;
mod failures;
mod interruption;
mod json;
mod keyspaces;
mod scripts;
mod support;
mod transfers;

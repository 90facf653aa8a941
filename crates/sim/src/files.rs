//! File systems in the simulated cluster: several clients of the shipped `tyr-fs` and `tyr-client` work on the same names while nodes
//! and clients crash and messages are lost, and what they were told is judged.
//!
//! `run` is one run from one seed, `program` what a client does, `copies` what it does with blobs that nodes copy, `tale` what was done and told, `names` what names are in between, and `order` finds
//! an order in which all of it may have happened.

mod copies;
pub mod names;
pub mod order;
mod program;
pub mod run;
pub mod tale;

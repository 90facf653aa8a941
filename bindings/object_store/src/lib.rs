#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod content;
mod errors;
mod object;
mod objects;
mod steps;
mod upload;

pub use objects::TyrObjects;

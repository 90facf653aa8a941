//! A whole cluster and its clients in one process, from one seed: the shipped protocol on simulated disks, clocks, and links.

pub mod aim;
pub mod bounds;
pub mod caller;
pub mod canaries;
pub mod disk;
pub mod focus;
pub mod layout;
pub mod management;
pub mod manager;
pub mod pins;
pub mod profile;
pub mod promises;
pub mod run;
pub mod server;
pub mod sightings;
pub mod storage;
pub mod target;
pub mod trace;
pub mod voters;
pub mod wants;
pub mod world;

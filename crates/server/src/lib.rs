//! A node of a cluster: the sockets, threads, and clock around `tyr_node`, `tyr_manager`, and `tyr_proto`.
//!
//! [`Server::start`] runs one in this process; several may run side by side. Invariants:
//!
//! - What the protocol does is decided in the crates below, which the simulator runs as they are. Here things are only carried.
//! - Each shard has a thread, a store, and a journal of its own; shards share nothing but mailboxes.
//! - Whatever comes from outside waits in bounded places. What does not fit is held back by the credit of its connection, or dropped if
//!   the protocol says it again.

#![forbid(unsafe_code)]

mod alarm;
mod asking;
mod audit;
mod card;
mod console;
mod event;
mod figures;
mod guard;
mod handover;
mod hatch;
mod histogram;
mod hot;
mod http;
mod join;
mod label;
mod ledger;
mod membership;
mod metrics;
mod opening;
mod operator;
mod peers;
mod places;
mod process;
mod reception;
mod relay;
mod reserve;
mod room;
mod server;
mod sessions;
mod settings;
mod shard;
mod spans;
mod spread;
mod state;
mod surroundings;
mod target;
mod thread;
mod tokens;
mod trail;
mod usage;
mod voting;
mod work;

pub use audit::audit_files;
pub use card::is_node;
pub use opening::Whose;
pub use operator::Operator;
pub use server::Server;
pub use settings::{Guarding, MetricsFor, Settings, TargetSettings, Timing};
pub use state::Status;
pub use tokens::{TOKEN_LIFETIME_MAX, read_claims};
pub use tyr_net::{
    Address, Collector, Credential, Holder, Secret, Tls, TlsFiles, Token, Validity, validities,
};
pub use tyr_proto::{
    NodeId,
    access::{Account, AccountId, AccountKind, AccountName, AccountState, Claims, Rights, Scope},
    cluster::{
        Answer, ClassSettings, ClusterId, Command as ClusterCommand, Difference, Fact, KeyspaceState, Member,
        MemberState, PartitionReport, PartitionRole, Presence, Refusal, Report, SealId, ShardReport,
        TokenOrder, ViewOf, Zone,
    },
};

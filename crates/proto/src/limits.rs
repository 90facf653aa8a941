//! Bounds of what a node takes on. Past them it refuses before it has promised anything.

/// So many times longer an idle log is kept for a replica that is missing: until others get its partitions, if nothing else is set.
pub const ABSENCE: u64 = 20;

/// How much a partition takes on, and how long it waits for clients that may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most transactions that wait at one head. A chain that has promises behind it may wait among twice as many.
    pub waiting_max: usize,
    /// The most places at one head that are not applied; more transactions wait.
    pub places_max: usize,
    /// The most bytes of staged payload in one partition: of one transaction, and of all; sessions that have little have a quarter more.
    pub staged_max: u64,
    /// Payload of more bytes that a stop's own chunks get is not passed on to later stops, nor logged there.
    pub passed_on_max: usize,
    /// Staged payload whose client was not heard of for this many microseconds goes, unless its transaction needs it.
    pub stage_timeout: u64,
    /// The most bytes, about, of an entry of a log, without payload of 4 KiB and more: a transaction that would take more is refused, and so is what
    /// would let a blob have more chunks than one entry can cut off.
    pub entry_max: usize,
    /// The most bytes of a log, and twice as many now and then, that stay for replicas that were away. Payload of them stays on the disk as long.
    pub log_size: usize,
    /// The most bytes, about, of a partition's state, of log entries that follow one another, and of the blobs that a freeze sees, in one message.
    pub copy_max: usize,
    /// The marks of a session that was not heard of for this many microseconds are forgotten.
    pub session_timeout: u64,
    /// A replica lets go of the log of a partition to which nothing was logged for this many microseconds, or twenty times as many if another
    /// replica is missing: who has been away for longer is sent the state.
    pub idle_after: u64,
    /// The most heads of other partitions of which a shard holds copies; none if zero.
    pub cached_max: usize,
    /// A copy of a head lasts for at most this many microseconds, unless it is asked for again. A write of the head waits for little more
    /// than that for a holder that does not answer, and as long after a change of primary.
    pub cached_for: u64,
    /// After so many microseconds without copies a partition logs that there are none, so that a new primary does not wait for any. As long as
    /// there may be some it logs nothing to give out more.
    pub uncached_after: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            waiting_max: 4096,
            places_max: 16384,
            staged_max: 256 << 20,
            passed_on_max: 256,
            entry_max: 40 << 20,
            log_size: 1 << 20,
            copy_max: 1 << 20,
            stage_timeout: 60_000_000,
            session_timeout: 300_000_000,
            idle_after: 30_000_000,
            cached_max: 1024,
            cached_for: 500_000,
            uncached_after: 60_000_000,
        }
    }
}

//! What network, devices, and processors take: the only numbers of a quiet cluster that the protocol does not give.
//!
//! The constants of [`Model::MEASURED`] come from the tables of `docs/benchmarks.md`, as each of them says; `tyr-sim scale` prints what
//! they make of the measured cases beside the measure. Times are in nanoseconds, sizes in bytes.
//!
//! Not modelled: loss and jitter, the links of clients, the reclaiming of space, and what a thread saves or pays by being woken more or less
//! often.

/// What things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The network.
    pub network: Network,
    /// Each device.
    pub device: Device,
    /// What a thread spends.
    pub processor: Processor,
    /// When shards and clients do what time asks of them.
    pub ticks: Ticks,
    /// Who shares what.
    pub hosts: Hosts,
}

/// What a message between machines takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// From one machine to another, however short the message.
    pub hop: u64,
    /// The bytes that a node's link takes a second; those of a message go one after the other, and messages too.
    pub bytes_per_second: u64,
}

/// What a node's device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// To make what was written durable. What comes to a log meanwhile shares the next write.
    pub write: u64,
    /// To read one place; the thread waits for it.
    pub read: u64,
    /// The bytes that it writes or reads a second.
    pub bytes_per_second: u64,
    /// What is answered with fewer bytes than this comes from memory.
    pub read_min: u64,
}

/// What a shard's thread spends. What the other threads of a server do for it, and the kernel, is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// A message taken from a client, or given to one.
    pub client_message: u64,
    /// A message taken from another shard, or given to one.
    pub node_message: u64,
    /// A log entry, until it is durable on one replica.
    pub log_entry: u64,
    /// The payload of a log entry or of an answer, for 1024 bytes.
    pub payload: u64,
    /// A tick, for each partition that the shard holds. Assumed: it looks at a few fields. Costs of operations leave it out.
    pub tick: u64,
    /// Payload of a log entry that is as large as what is not answered from memory: it is kept as a blob of its own.
    pub payload_blob: u64,
    /// A commit at its client, on the client's thread.
    pub client_commit: u64,
    /// A read there.
    pub client_read: u64,
}

/// When shards and clients do what time asks of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// From one to the next.
    pub every: u64,
    /// Whether all of them tick at the same time. Else they are spread over the time between two.
    pub are_together: bool,
}

/// Who shares processors, devices, and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Every node is a machine with a device, a link, and a processor for each shard; so is every client.
    Apart,
    /// All nodes and clients are on one machine with one device.
    Together {
        /// Threads that can run at the same time.
        processors: u32,
    },
}

impl Model {
    /// Nothing takes time but hops, and writes a hundredth of that: latencies tell how many were waited for.
    pub const HOPS: Model = Model {
        network: Network { hop: 100_000, bytes_per_second: u64::MAX },
        device: Device { write: 1_000, read: 0, bytes_per_second: u64::MAX, read_min: u64::MAX },
        processor: Processor {
            client_message: 0,
            node_message: 0,
            log_entry: 0,
            payload: 0,
            tick: 0,
            payload_blob: 0,
            client_commit: 0,
            client_read: 0,
        },
        ticks: Ticks { every: 5_000_000, are_together: true },
        hosts: Hosts::Apart,
    };

    /// The machine on which `docs/benchmarks.md` was measured: three nodes of two shards and their client on two processors.
    pub const MEASURED: Model = Model {
        // Loopback. Of the 127 us of a lone get 110 are the servers', so hardly anything is left for two hops.
        network: Network { hop: 5_000, bytes_per_second: u64::MAX },
        // The embedded store's table. One writer of 64 KiB on the bare log needs 98 us (10 150 a second), one write of 8 bytes 60 us, of which
        // 21 are the processor's: 45 us and 1.25 GB/s. A cold read of 4 KiB needs 40 us, of 100 KiB 149 us.
        device: Device { write: 45_000, read: 35_000, bytes_per_second: 1_250_000_000, read_min: 4 << 10 },
        processor: Processor {
            // A get is two of them and 4 KiB: 46 and 54 us.
            client_message: 22_000,
            // What a write with three copies takes of the servers beyond its client's messages, entries, and payload.
            node_message: 11_000,
            // An append with one copy is two client's messages and some two entries: 97 us.
            log_entry: 26_000,
            // 1 MiB takes 1.6 to 1.9 us a KiB and replica more than 4 KiB do; a read of 1 MiB over the network 1.4 to 1.5.
            payload: 1_600,
            tick: 300,
            // What a write of 4 KiB with one copy takes beyond all that.
            payload_blob: 76_000,
            // What of two busy processors is left for each operation: 101 us of a write with one copy, 36 to 49 of a get.
            client_commit: 100_000,
            client_read: 40_000,
        },
        // `TICK_EVERY` of the server's shards.
        ticks: Ticks { every: 10_000_000, are_together: false },
        hosts: Hosts::Together { processors: 2 },
    };

    /// Machines of their own with the devices and processors that were measured, and a network that was not: Ethernet of 25 Gbit/s, with
    /// 25 us from a program on one machine to one on another.
    pub const APART: Model = Model {
        network: Network { hop: 25_000, bytes_per_second: 3_125_000_000 },
        hosts: Hosts::Apart,
        ..Model::MEASURED
    };
}

/// How long so many bytes take at a rate.
pub fn transfer(bytes: u64, bytes_per_second: u64) -> u64 {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

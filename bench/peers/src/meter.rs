//! What an interval cost: time, processor time of this process and of the servers. And how much memory servers have.
//!
//! The time of servers is that of `/proc/PID/stat`, in steps of 10 ms, for each process and all its descendants.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::system::Outcome;

/// A moment, with the counters as they were.
pub struct Meter {
    roots: Vec<u32>,
    at: Instant,
    client: Duration,
    server: Duration,
    machine: Duration,
}

/// The difference between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time on the wall.
    pub seconds: f64,
    /// Processor time of this process, which is the client.
    pub client_seconds: f64,
    /// Processor time of the servers.
    pub server_seconds: f64,
    /// Processor time that the rest of the machine took.
    pub other_seconds: f64,
}

impl Meter {
    /// Begins an interval; `roots` are the servers.
    pub fn start(roots: Vec<u32>) -> Outcome<Self> {
        let server = trees_time(&roots)?;
        Ok(Meter { roots, at: Instant::now(), client: own_time(), server, machine: machine_time()? })
    }

    /// The cost since the start.
    pub fn cost(&self) -> Outcome<Cost> {
        let seconds = self.at.elapsed().as_secs_f64();
        let client = own_time() - self.client;
        let server = trees_time(&self.roots)?.saturating_sub(self.server);
        let machine = machine_time()? - self.machine;
        Ok(Cost {
            seconds,
            client_seconds: client.as_secs_f64(),
            server_seconds: server.as_secs_f64(),
            other_seconds: machine.saturating_sub(client + server).as_secs_f64(),
        })
    }
}

/// Processor time of processes and of their descendants, those that ended and were waited for included.
fn trees_time(roots: &[u32]) -> Outcome<Duration> {
    let ticks: u64 = trees(roots)?.iter().map(|process| process.ticks).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Memory that processes and their descendants have resident, in bytes; what several share counts for each.
pub fn resident(roots: &[u32]) -> Outcome<u64> {
    let of = |process: &Process| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.id)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    // A process that has ended meanwhile has none.
    Ok(trees(roots)?.iter().filter_map(of).sum::<u64>() << 10)
}

fn trees(roots: &[u32]) -> Outcome<Vec<Process>> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end between listing and looking.
        let Ok(text) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some(process) = Process::parse(id, &text) {
            processes.insert(id, process);
        }
    }
    let belongs = |id: &u32| {
        let parents = std::iter::successors(Some(*id), |id| processes.get(id).map(|process| process.parent));
        parents.take(DEPTH_MAX).any(|id| roots.contains(&id))
    };
    let found: Vec<u32> = processes.keys().copied().filter(belongs).collect();
    Ok(found.iter().filter_map(|id| processes.remove(id)).collect())
}

struct Process {
    id: u32,
    parent: u32,
    /// Of 10 ms.
    ticks: u64,
}

impl Process {
    /// Fields of `/proc/PID/stat` after the name, which is in parentheses: state, parent, and at 11 to 14 the times in user space and
    /// in the kernel, of the process and of its children that were waited for.
    fn parse(id: u32, text: &str) -> Option<Process> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Some(Process { id, parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

/// Time that all processors of the machine were busy, in steps of 10 ms. Fields of `/proc/stat`: user, nice, system, idle, iowait,
/// irq, softirq, steal.
fn machine_time() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let busy = ticks.enumerate().filter(|(field, _)| ![3, 4].contains(field));
    let busy: u64 = busy.filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(busy * 10))
}

fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Servers are children, or children of children.
const DEPTH_MAX: usize = 8;

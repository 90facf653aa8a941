//! What is measured: a work with all that varies of it.

use serde::{Deserialize, Serialize};

use crate::{report::size_name, work::Work};

/// One line of comparison: all contenders do this in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// What is done.
    pub work: Work,
    /// Bytes of an operation, of a work in which all have as many.
    pub size: Option<usize>,
    /// Blobs that are appended to, or that a transaction changes.
    pub blobs: Option<u64>,
    /// Of 100 callers, those that read while the others write.
    pub readers: Option<usize>,
    /// Clients, each with connections of its own.
    pub clients: usize,
    /// Operations under way at a time, of all clients.
    pub in_flight: usize,
    /// Copies of everything.
    pub replicas: u32,
    /// When an operation is acknowledged.
    pub durability: Durability,
}

/// When an operation is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// When it is on disk.
    Disk,
    /// When it is in memory.
    Memory,
}

/// Which values of everything that varies are measured.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// Bytes of an operation.
    pub sizes: Vec<usize>,
    /// Operations under way at a time, of one client.
    pub in_flight: Vec<usize>,
    /// Clients with one operation each.
    pub clients: Vec<usize>,
    /// Blobs that are appended to.
    pub blobs: Vec<u64>,
    /// Blobs that a transaction changes.
    pub spans: Vec<u64>,
    /// Of 100 callers, those that read.
    pub readers: Vec<usize>,
}

impl Case {
    /// Operations of each client under way at a time.
    pub fn lanes(&self) -> usize {
        self.in_flight / self.clients
    }

    /// Bytes of an operation; 0 if that varies.
    pub fn bytes(&self) -> usize {
        self.size.unwrap_or(0)
    }

    /// How many callers read while others write.
    pub fn reader_count(&self) -> usize {
        self.readers.map_or(0, |readers| (self.in_flight * readers + 50) / 100)
    }

    /// As printed.
    pub fn title(&self) -> String {
        let mut text = self.work.name().to_owned();
        if let Some(size) = self.size {
            text.push_str(&format!(" {}", size_name(size)));
        }
        if let Some(blobs) = self.blobs {
            text.push_str(&format!(", {blobs} blob{}", if blobs == 1 { "" } else { "s" }));
        }
        if let Some(readers) = self.readers {
            text.push_str(&format!(", {readers} : {}", 100 - readers));
        }
        text.push_str(&format!(", {} in flight, r{}", self.in_flight, self.replicas));
        if self.durability == Durability::Memory {
            text.push_str(", memory");
        }
        text
    }
}

impl Ranges {
    /// The cases of a work.
    pub fn cases(&self, work: Work, replicas: u32, durability: Durability) -> Vec<Case> {
        let plain = Case {
            work,
            size: None,
            blobs: None,
            readers: None,
            clients: 1,
            in_flight: 1,
            replicas,
            durability,
        };
        let one_client = |case: Case| self.in_flight.iter().map(move |&in_flight| Case { in_flight, ..case });
        let many_clients = |case: Case| {
            self.clients.iter().map(move |&clients| Case { clients, in_flight: clients, ..case })
        };
        let sized = |size: usize| Case { size: Some(size), ..plain };
        let spanned = |case: Case| {
            let spans = self.spans.iter();
            spans.flat_map(move |&span| many_clients(Case { blobs: Some(span), ..case }))
        };
        match work {
            Work::Write | Work::Get | Work::Read => {
                self.sizes.iter().flat_map(|&size| one_client(sized(size))).collect()
            }
            Work::Patch => one_client(sized(PATCH_SIZE)).collect(),
            Work::Append => {
                let blobs = self.blobs.iter();
                blobs.flat_map(|&blobs| many_clients(Case { blobs: Some(blobs), ..plain })).collect()
            }
            Work::Counter => many_clients(plain).collect(),
            Work::HotTransfer | Work::ColdTransfer => spanned(plain).collect(),
            Work::Batch => spanned(sized(PATCH_SIZE)).collect(),
            Work::Mixed => {
                let case = Case { in_flight: MIXED_CALLERS, ..sized(MIXED_SIZE) };
                self.readers.iter().map(|&readers| Case { readers: Some(readers), ..case }).collect()
            }
            Work::Shared => STRIDES.iter().flat_map(|&size| many_clients(sized(size))).collect(),
            Work::Overwrites => {
                vec![Case { in_flight: OVERWRITERS, ..sized(MIXED_SIZE) }]
            }
        }
    }
}

/// Of small overwrites, and of blobs that are replaced together.
const PATCH_SIZE: usize = 4 << 10;
/// Of readers and writers of one blob, and of overwrites that go on for long.
const MIXED_SIZE: usize = 64 << 10;
/// So many that the twentieth part of them is one.
const MIXED_CALLERS: usize = 20;
/// What each of those that share a blob writes at a time.
const STRIDES: [usize; 2] = [64 << 10, 1 << 20];
const OVERWRITERS: usize = 16;

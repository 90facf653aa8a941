//! The files that a node hands to readers on its host: those in which its stores keep payload.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, Weak, atomic::Ordering},
};

use tyr_net::{Address, Files, Hatch, HatchFile, HatchOwner};
use tyr_proto::cluster;
use tyr_store::{SegmentId, Store};

use crate::reception::Reception;

/// The stores of a node. They are not kept open.
pub(crate) struct Shown {
    /// Each with the number of its journal and its directory.
    pub stores: Vec<(u64, Weak<Store>, PathBuf)>,
    pub reception: Arc<Reception>,
    /// Whether who comes has to have a ticket.
    pub is_guarded: bool,
}

impl Shown {
    /// Opens the node's hatch. A node without one is read from over the network.
    pub fn open(self, path: PathBuf, owner: HatchOwner) -> Option<Hatch> {
        let reception = self.reception.clone();
        let failed = |reason: String| {
            tracing::warn!(path = %path.display(), reason, "clients on this host read over the network: the hatch cannot be opened");
        };
        let absolute = std::path::absolute(&path).map_err(|error| failed(error.to_string())).ok()?;
        let told = cluster::Address::new(&Address::Unix(absolute.clone()).to_string());
        let told = told.map_err(|error| failed(error.to_string())).ok()?;
        let hatch = Hatch::open(&absolute, owner, Arc::new(self));
        let hatch = hatch.map_err(|error| failed(error.to_string())).ok()?;
        *reception.hatch.write() = Some(told);
        Some(hatch)
    }
}

impl Files for Shown {
    fn demands_ticket(&self) -> bool {
        self.is_guarded
    }

    fn open(&self, (journal, number): HatchFile, ticket: Option<u128>) -> Option<File> {
        // Of each file anew: rights are taken away while somebody is here.
        let may =
            !self.is_guarded || ticket.is_some_and(|ticket| self.reception.registry.may_have_files(ticket));
        if !may {
            self.reception.counts.denied();
            return None;
        }
        let (_, store, directory) = self.stores.iter().find(|(known, ..)| *known == journal)?;
        let shown = store.upgrade()?.show(SegmentId(number))?;
        let file = File::open(directory.join(shown.name())).ok()?;
        self.reception.counts.files_handed.fetch_add(1, Ordering::Relaxed);
        Some(file)
    }
}

//! How a node opens what it has: the store of each shard, wherever that is.
//!
//! Once a node belongs to a cluster no store is made, and each has to be the one that it was. A node with several targets does without those
//! that are not there, are another's, or are damaged: their shards have failed before they began, and others rebuild what they held.

use std::{io, os::unix::fs::FileExt, path::PathBuf};

use tyr_node::Start;
use tyr_proto::{
    NodeId,
    cluster::{ClusterId, Identity},
};
use tyr_store::Create;
use tyr_types::{Error, Result};

use crate::{
    Settings,
    card::{Card, write_whole},
    event::Events,
    label::{Label, Part, expect_no_cluster, is_given},
    surroundings::random_bits,
    target::{Target, open_failure},
};

/// The store of a shard.
pub(crate) struct Opening {
    pub directory: PathBuf,
    /// Its target's share of what the node holds.
    pub weight: u32,
    /// The open store, or why the shard does nothing.
    pub target: Result<Target>,
}

/// Which node a directory says that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whose {
    /// The cluster that the node belongs to.
    pub cluster: ClusterId,
    /// Its number there.
    pub node: NodeId,
    /// What it calls itself.
    pub identity: Identity,
    /// How often it was started from this directory; zero if that is not known.
    pub start: u32,
}

impl Settings {
    /// Whether a node would start so, as far as that can be said without opening what it has: fails with the first thing that it would refuse, or would have to do
    /// without. Changes nothing.
    pub fn examine(&self) -> Result<()> {
        self.check()?;
        let mut parts = self.parts()?.into_iter();
        let Some(card) = Card::load(&self.directory)? else {
            return parts.try_for_each(|(_, directory)| expect_no_cluster(&directory, &self.directory));
        };
        self.check_shards(&card)?;
        let Card { identity, cluster, .. } = card;
        parts.try_for_each(|(part, directory)| Label { identity, part }.expect(cluster, &directory))
    }

    /// Whose the node's directory is, as far as it says; none if it is no node's yet.
    pub fn whose(&self) -> Result<Option<Whose>> {
        let card = Card::load(&self.directory)?;
        Ok(card.map(|Card { cluster, node, identity, .. }| Whose {
            cluster,
            node,
            identity,
            start: self.last_start(),
        }))
    }

    /// Where each part of the node is.
    fn parts(&self) -> Result<Vec<(Part, PathBuf)>> {
        let shards = (0..).map(|number| Part::Shard(number, self.shards.get()));
        let stores = shards.zip(self.shard_places()?.into_iter().map(|place| place.path));
        Ok(stores.chain([(Part::Manager, self.directory.join(MANAGER))]).collect())
    }

    /// Has each part that is there say to which cluster the node belongs.
    pub(crate) fn belong(&self, card: &Card) -> Result<()> {
        let Card { identity, cluster, .. } = *card;
        let parts = self.parts()?.into_iter().filter(|(_, directory)| is_given(directory));
        for (part, directory) in parts {
            let label = Label { identity, part };
            // One that is another's says so when it is opened.
            let told = label.expect(cluster, &directory).and_then(|()| label.belong(cluster, &directory));
            if let Err(error) = told {
                tracing::warn!(%error, "a part of the node does not say to which cluster it belongs");
            }
        }
        Ok(())
    }

    fn check_shards(&self, card: &Card) -> Result<()> {
        if card.shards == self.shards.get() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the directory '{}' was made for {} shards, not {}; a node keeps their number",
            self.directory.display(),
            card.shards,
            self.shards
        )))
    }

    /// Opens every store, and counts the start.
    pub(crate) fn open_targets(&self, card: Option<&Card>, events: &Events) -> Result<(Vec<Opening>, Start)> {
        let shards = self.shards.get();
        card.map_or(Ok(()), |card| self.check_shards(card))?;
        let manager = (Part::Manager, self.directory.join(MANAGER));
        let expect = |(part, directory): &(Part, PathBuf)| match card {
            Some(&Card { identity, cluster, .. }) => {
                Label { identity, part: *part }.expect(cluster, directory)
            }
            None => expect_no_cluster(directory, &self.directory),
        };
        expect(&manager)?;
        let create = if card.is_some() { Create::Never } else { Create::IfMissing };
        let places = (0..).map(|number| Part::Shard(number, shards)).zip(self.shard_places()?);
        let openings = places.map(|(part, place)| {
            let directory = place.path;
            let label = (part, directory.clone());
            let target = expect(&label)
                .and_then(|()| Target::open(&directory, self.io, create, self.store.clone(), events));
            (part, Opening { directory, weight: place.weight, target })
        });
        let (parts, openings): (Vec<Part>, Vec<Opening>) = openings.unzip();
        self.bear_losses(card, &openings)?;
        let stores: Vec<_> =
            openings.iter().filter_map(|opening| Some(&*opening.target.as_ref().ok()?.store)).collect();
        let known = card.map(|card| Start { identity: card.identity, number: self.last_start() });
        let start = Start::count(&stores, known, Identity(random_bits()))?;
        // Which stores are there next time is not known.
        self.note_start(start.number)?;
        if card.is_none() {
            std::fs::create_dir_all(&manager.1).map_err(|error| open_failure(&error))?;
            let stores = parts.into_iter().zip(openings.iter().map(|opening| opening.directory.clone()));
            let identity = start.identity;
            stores
                .chain([manager])
                .try_for_each(|(part, directory)| Label { identity, part }.give(&directory))?;
        }
        Ok((openings, start))
    }

    /// Writes down the last start. Where there is no room for another file, a few digits are written over the old ones, so that a node whose
    /// device is full can be started, and emptied.
    fn note_start(&self, number: u32) -> Result<()> {
        let text = number.to_string();
        let write_over = || {
            let file = std::fs::OpenOptions::new().write(true).open(self.directory.join(STARTS))?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.set_len(text.len() as u64)?;
            file.sync_all()
        };
        let whole = write_whole(&self.directory, STARTS, &text);
        whole.or_else(|error| write_over().map_err(|_: io::Error| error))
    }

    /// The last start, as far as the node's directory says; zero if it does not.
    fn last_start(&self) -> u32 {
        std::fs::read_to_string(self.directory.join(STARTS))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// Fails unless the node can do without the shards that cannot be opened: it has another target.
    fn bear_losses(&self, card: Option<&Card>, openings: &[Opening]) -> Result<()> {
        let has_any = openings.iter().any(|opening| opening.target.is_ok());
        if card.is_some() && self.can_lose_targets() && has_any {
            return Ok(());
        }
        let lost = openings.iter().find_map(|opening| opening.target.as_ref().err());
        lost.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether the node does without a target: what fails is one device of several, and not the node.
    pub(crate) fn can_lose_targets(&self) -> bool {
        self.targets.len() > 1
    }
}

/// Where the node's directory says how often the node was started.
const STARTS: &str = "starts";
/// The directory of the cluster manager's journal.
pub(crate) const MANAGER: &str = "manager";

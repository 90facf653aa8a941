//! What a node keeps of itself in its directory: to which cluster it belongs, its number there, and where it last knew others.
//!
//! A file of lines, each a word and a value. It is written anew and renamed, so it is there whole or not at all.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use tyr_net::Address;
use tyr_proto::{NodeId, cluster::ClusterId};
use tyr_types::{Error, Result};

/// What a node knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// Its number there.
    pub node: NodeId,
    /// How many stores its partitions are spread over.
    pub shards: u32,
    /// Whether the cluster is known to have begun. If not, this node has yet to found it.
    pub is_founded: bool,
    /// Where other members were when they were last heard of.
    pub peers: BTreeMap<NodeId, Address>,
}

impl Card {
    /// Reads the card of a directory; `None` if the directory belongs to no node yet.
    pub fn load(directory: &Path) -> Result<Option<Card>> {
        let path = directory.join(NAME);
        match fs::read_to_string(&path) {
            Ok(text) => match parse(&text) {
                Some(card) => Ok(Some(card)),
                None => Err(Error::corrupt(format!(
                    "'{}' does not say which node this is; restore it, or let the node join anew with an empty directory",
                    path.display()
                ))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::unavailable(format!("cannot read '{}': {error}", path.display()))),
        }
    }

    /// Writes the card durably.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let write = || {
            let new = directory.join(NEW);
            let mut file = File::create(&new)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, directory.join(NAME))?;
            File::open(directory)?.sync_all()
        };
        let path = directory.join(NAME);
        write().map_err(|error| Error::unavailable(format!("cannot write '{}': {error}", path.display())))
    }

    fn text(&self) -> String {
        let Card { cluster, node, shards, is_founded, peers } = self;
        let mut text = format!(
            "{FIRST}\ncluster {:032x}\nnode {}\nshards {shards}\nfounded {is_founded}\n",
            cluster.0, node.0
        );
        for (peer, address) in peers {
            writeln!(text, "peer {} {address}", peer.0).expect("text can be written to");
        }
        text
    }
}

fn parse(text: &str) -> Option<Card> {
    let mut lines = text.lines();
    let first = lines.next().filter(|first| *first == FIRST);
    first?;
    let mut value = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
    let cluster = ClusterId(u128::from_str_radix(value("cluster")?, 16).ok()?);
    let node = NodeId(value("node")?.parse().ok()?);
    let shards = value("shards")?.parse().ok()?;
    let is_founded = value("founded")?.parse().ok()?;
    let peer = |line: &str| {
        let (number, address) = line.strip_prefix("peer ")?.split_once(' ')?;
        Some((NodeId(number.parse().ok()?), address.parse().expect("any text is an address")))
    };
    let peers = lines.map(peer).collect::<Option<_>>()?;
    Some(Card { cluster, node, shards, is_founded, peers })
}

const NAME: &str = "node";
const NEW: &str = "node.new";
const FIRST: &str = "tyr-node 1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn card() -> Card {
        let peers = [(NodeId(1), "host:1".parse().unwrap()), (NodeId(3), "unix:/a b".parse().unwrap())];
        Card {
            cluster: ClusterId(0xabc),
            node: NodeId(2),
            shards: 4,
            is_founded: true,
            peers: peers.into_iter().collect(),
        }
    }

    #[test]
    fn a_card_comes_back_and_an_empty_directory_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Card::load(directory.path()).unwrap(), None);
        card().save(directory.path()).unwrap();
        assert_eq!(Card::load(directory.path()).unwrap(), Some(card()));
    }

    #[test]
    fn a_card_that_is_cut_off_or_of_another_version_is_refused() {
        let whole = card().text();
        assert!(parse(&whole.replacen('1', "2", 1)).is_none());
        for lines in 0..5 {
            let cut: String = whole.lines().take(lines).map(|line| format!("{line}\n")).collect();
            assert!(parse(&cut).is_none(), "{cut}");
        }
    }
}

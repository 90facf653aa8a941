//! What a node keeps of itself in its directory: to which cluster it belongs, its number there, and where it last knew others.
//!
//! A file of lines, each a word and a value. It is written anew and renamed, so it is there whole or not at all.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tyr_net::Address;
use tyr_proto::{
    NodeId,
    cluster::{ClusterId, Identity},
};
use tyr_types::{Error, Result};

/// What a node knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// Its number there.
    pub node: NodeId,
    /// What it calls itself: its directories are labelled with that.
    pub identity: Identity,
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
                None if text.starts_with(ANY) && !text.starts_with(FIRST) => Err(Error::invalid(format!(
                    "'{}' is of another version of this program, '{}'; run that one",
                    path.display(),
                    text.lines().next().unwrap_or_default()
                ))),
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
        write_whole(directory, NAME, &self.text())
    }

    fn text(&self) -> String {
        let Card { cluster, node, identity, shards, is_founded, peers } = self;
        let mut text = format!(
            "{FIRST}\ncluster {:032x}\nnode {}\nidentity {:032x}\nshards {shards}\nfounded {is_founded}\n",
            cluster.0, node.0, identity.0
        );
        for (peer, address) in peers {
            writeln!(text, "peer {} {address}", peer.0).expect("text can be written to");
        }
        text
    }
}

/// A node's card and its file, which nobody else writes. Handles are equal.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Kept>);

struct Kept {
    directory: PathBuf,
    card: Mutex<Card>,
}

impl Keeper {
    /// Of a card that is in this directory.
    pub fn new(directory: PathBuf, card: Card) -> Self {
        Keeper(Arc::new(Kept { directory, card: Mutex::new(card) }))
    }

    /// What the card says.
    pub fn card(&self) -> Card {
        self.0.card.lock().clone()
    }

    /// Changes the card, and writes what it then says. Nothing is written meanwhile, so that the file never goes back. It may wait.
    pub fn change(&self, change: impl FnOnce(&mut Card)) -> Result<()> {
        let mut card = self.0.card.lock();
        change(&mut card);
        card.save(&self.0.directory)
    }
}

/// Whether a directory is a node's that has belonged to a cluster.
pub fn is_node(directory: &Path) -> bool {
    directory.join(NAME).is_file()
}

/// Writes a file durably: whole, or not at all.
pub(crate) fn write_whole(directory: &Path, name: &str, text: &str) -> Result<()> {
    let new = directory.join(format!("{name}.new"));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, directory.join(name))?;
        File::open(directory)?.sync_all()
    };
    let path = directory.join(name);
    write().map_err(|error| {
        // A part of it would only take up room.
        let _there = fs::remove_file(&new);
        Error::unavailable(format!("cannot write '{}': {error}", path.display()))
    })
}

fn parse(text: &str) -> Option<Card> {
    let mut lines = text.lines();
    let first = lines.next().filter(|first| *first == FIRST);
    first?;
    let mut value = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
    let cluster = ClusterId(u128::from_str_radix(value("cluster")?, 16).ok()?);
    let node = NodeId(value("node")?.parse().ok()?);
    let identity = Identity(u128::from_str_radix(value("identity")?, 16).ok()?);
    let shards = value("shards")?.parse().ok()?;
    let is_founded = value("founded")?.parse().ok()?;
    let peer = |line: &str| {
        let (number, address) = line.strip_prefix("peer ")?.split_once(' ')?;
        Some((NodeId(number.parse().ok()?), address.parse().expect("any text is an address")))
    };
    let peers = lines.map(peer).collect::<Option<_>>()?;
    Some(Card { cluster, node, identity, shards, is_founded, peers })
}

const NAME: &str = "node";
/// What the first line of every version begins with.
const ANY: &str = "tyr-node ";
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
            identity: Identity(0xdef),
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
    fn whoever_changes_a_card_takes_nothing_back_that_another_one_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let keeper = Keeper::new(
            directory.path().into(),
            Card { is_founded: false, peers: BTreeMap::new(), ..card() },
        );
        std::thread::scope(|scope| {
            scope.spawn(|| keeper.change(|card| card.is_founded = true).unwrap());
            for node in 1..9 {
                let keeper = keeper.clone();
                let met =
                    move |card: &mut Card| drop(card.peers.insert(NodeId(node), "host:1".parse().unwrap()));
                scope.spawn(move || keeper.change(met).unwrap());
            }
        });
        let card = Card::load(directory.path()).unwrap().unwrap();
        assert_eq!(card, keeper.card());
        assert!(card.is_founded);
        assert_eq!(card.peers.len(), 8);
    }

    #[test]
    fn a_directory_of_another_version_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let later = card().text().replacen('1', "2", 1);
        write_whole(directory.path(), NAME, &later).unwrap();
        let error = Card::load(directory.path()).unwrap_err();
        assert_eq!(error.kind(), tyr_types::ErrorKind::Invalid);
        assert!(error.to_string().contains("tyr-node 2"), "{error}");
        assert_eq!(fs::read_to_string(directory.path().join(NAME)).unwrap(), later);
    }

    #[test]
    fn a_card_that_is_cut_off_or_of_another_version_is_refused() {
        let whole = card().text();
        assert!(parse(&whole.replacen('1', "2", 1)).is_none());
        for lines in 0..6 {
            let cut: String = whole.lines().take(lines).map(|line| format!("{line}\n")).collect();
            assert!(parse(&cut).is_none(), "{cut}");
        }
    }
}

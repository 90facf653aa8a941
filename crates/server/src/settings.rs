//! How a server is started.

use std::{
    net::{IpAddr, TcpListener, ToSocketAddrs},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use tyr_manager::GossipTiming;
use tyr_net::{Address, Collector, Secret, Tls};
use tyr_os::IoMode;
use tyr_proto::{
    LeaseTerms, Limits, UpkeepTerms,
    cluster::{ClassSettings, Zone},
};
use tyr_types::{Error, Result};

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the node keeps what it is, and the cluster manager's journal. Made if it is missing.
    pub directory: PathBuf,
    /// Where it keeps data: directories on one or several devices. None: in `directory`.
    pub targets: Vec<TargetSettings>,
    /// Where it listens; port 0 lets the system choose one.
    pub listen: Address,
    /// Where others reach it, if that is another address than the one at which it listens.
    pub advertise: Option<Address>,
    /// Nodes of the cluster that it joins. None: a node that belongs to no cluster yet founds one.
    pub join: Vec<Address>,
    /// The nodes that may fail together with it.
    pub zone: Zone,
    /// Its share of the load, relative to other nodes.
    pub weight: u32,
    /// Its threads that do the work of partitions, each with a store of its own. Fixed when its directory is made.
    pub shards: NonZeroU32,
    /// The placement class that a founder makes.
    pub class: ClassSettings,
    /// Sizes of each shard's store.
    pub store: tyr_store::Options,
    /// How stores do I/O.
    pub io: IoMode,
    /// How much each partition takes on.
    pub limits: Limits,
    /// How long things take.
    pub timing: Timing,
    /// How connections are encrypted; not at all if `None`. All nodes of a cluster are alike in that.
    pub tls: Option<Tls>,
    /// Who is let in. All nodes of a cluster are alike in that.
    pub guarding: Guarding,
    /// A request that takes longer is told in the log.
    pub slow: Duration,
    /// Where spans of traced transactions are sent; nowhere if `None`.
    pub traces: Option<Collector>,
    /// Where health, metrics, and the console are served by HTTP, as `host:port`; nowhere if `None`.
    pub http: Option<String>,
    /// To whom metrics are served there.
    pub metrics: MetricsFor,
}

/// To whom metrics, which name keyspaces, are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsFor {
    /// To everybody who reaches them.
    #[default]
    Everybody,
    /// To who bears a token of the cluster, whatever its rights. Only a node with a secret asks for that.
    WhoHasAToken,
}

/// Who is let in.
#[derive(Clone, Debug, Default)]
pub enum Guarding {
    /// Whoever reaches the node may do everything. Refused unless it listens at the loopback interface or a Unix socket.
    #[default]
    Local,
    /// The same, wherever it listens.
    Insecure,
    /// Nodes prove that they know this secret, and clients show tokens, or know it, too.
    Secret(Secret),
}

/// A directory for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// Where it is.
    pub path: PathBuf,
    /// How much of the node's data it is to hold, relative to its other targets.
    pub weight: u32,
}

impl TargetSettings {
    /// One that holds as much as another.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TargetSettings { path: path.into(), weight: 1 }
    }
}

impl Settings {
    /// The usual ones, for a directory: a node that listens on a port of the loopback interface that the system chooses.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Settings {
            directory: directory.into(),
            targets: Vec::new(),
            listen: Address::Tcp("127.0.0.1:0".into()),
            advertise: None,
            join: Vec::new(),
            zone: Zone::new("default").expect("a short name"),
            weight: 100,
            shards: NonZeroU32::new(2).expect("not zero"),
            class: ClassSettings { partitions: 256, min_replicas: 1, ..ClassSettings::new(3) },
            store: tyr_store::Options {
                index_cache: 64 << 20,
                data_cache: 0,
                ..tyr_store::Options::default()
            },
            io: IoMode::Auto,
            limits: Limits::default(),
            timing: Timing::default(),
            tls: None,
            guarding: Guarding::Local,
            slow: Duration::from_secs(1),
            traces: None,
            http: None,
            metrics: MetricsFor::Everybody,
        }
    }

    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a setting is out of bounds.
    pub(crate) fn check(&self) -> Result<()> {
        self.class.check()?;
        self.store.check()?;
        if self.shards.get() > SHARDS_MAX {
            return Err(Error::invalid(format!(
                "{} shards are too many; use 1 to {SHARDS_MAX}",
                self.shards
            )));
        }
        self.check_targets()?;
        let holding = self.targets.iter().filter(|target| target.weight > 0).count();
        let shards = usize::try_from(self.shards.get()).unwrap_or(usize::MAX);
        if holding > shards || (holding == 0 && !self.targets.is_empty()) {
            return Err(Error::invalid(format!(
                "{shards} shards cannot be spread over {holding} targets; a target holds one shard at least, so use more shards"
            )));
        }
        check_address(&self.listen)?;
        if let Some(http) = &self.http {
            check_port(http, " for HTTP; write host:port, as in 127.0.0.1:7701")?;
        }
        if matches!(self.guarding, Guarding::Local) && !is_local(&self.listen) {
            return Err(Error::invalid(format!(
                "this node is to listen at {}, where others than the programs of this machine may reach it, and it has no secret: whoever \
                 reaches it could do anything. Make a secret with 'tyr secret' and give its file to all nodes with --secret-file, or \
                 say --insecure if the network lets nobody else through",
                self.listen
            )));
        }
        if let Some(http) = &self.http
            && matches!(self.guarding, Guarding::Local)
            && !is_local(&Address::Tcp(http.clone()))
        {
            return Err(Error::invalid(format!(
                "health, metrics, and the console are to be served at {http}, where others than the programs of this machine may reach \
                 them, and they name keyspaces and blobs. Serve them at 127.0.0.1, give the node a secret with --secret-file, so that the \
                 console asks for a token, or say --insecure if the network lets nobody else through"
            )));
        }
        if self.metrics == MetricsFor::WhoHasAToken && !matches!(self.guarding, Guarding::Secret(_)) {
            return Err(Error::invalid(
                "metrics are to be served to who has a token, and this node has no secret, without which it knows no tokens; give it one \
                 with --secret-file",
            ));
        }
        let told = self.advertise.as_ref().unwrap_or(&self.listen);
        if told.is_everywhere() {
            return Err(Error::invalid(format!(
                "nobody can reach this node at {told}, which is every address of this machine; set an address to advertise"
            )));
        }
        self.check_certificate()
    }

    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a new node would found a cluster of no use.
    pub(crate) fn check_founder(&self) -> Result<()> {
        if self.weight > 0 || !self.join.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(
            "this node would found a cluster in which nobody holds anything, as its weight is 0; give it a weight until others have \
             joined, or the address of a cluster to join",
        ))
    }

    /// Fails with [`tyr_types::ErrorKind::Invalid`] if other nodes or clients would not believe the certificate.
    fn check_certificate(&self) -> Result<()> {
        let Some(tls) = &self.tls else { return Ok(()) };
        tls.check_node(&self.reached()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Where others are told to reach the node. A name at which it listens is known to them by its number.
    pub fn reached(&self) -> Address {
        let (None, Address::Tcp(listen)) = (&self.advertise, &self.listen) else {
            return self.advertise.as_ref().unwrap_or(&self.listen).clone();
        };
        // As when it begins to listen, the first number is taken that is this machine's.
        let numbers = listen.to_socket_addrs().into_iter().flatten();
        let own = numbers.into_iter().find(|number| TcpListener::bind((number.ip(), 0)).is_ok());
        Address::Tcp(own.map_or_else(|| listen.clone(), |number| number.to_string()))
    }
}

/// Refuses what nobody can listen at, before anything is said of who could reach it.
fn check_address(address: &Address) -> Result<()> {
    let Address::Tcp(text) = address else { return Ok(()) };
    check_port(text, "; write host:port, as in 127.0.0.1:7700, or unix: and a path")
}

/// A host with a port. What to write instead is said behind what is wrong.
fn check_port(text: &str, instead: &str) -> Result<()> {
    match text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!("'{text}' is no address to listen at{instead}"))),
    }
}

/// Whether only programs of this machine reach it.
fn is_local(address: &Address) -> bool {
    let Some(host) = address.host() else { return true };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// How long things take. The same on all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Leases.
    pub lease: LeaseTerms,
    /// A node asks for its lease again after this long.
    pub renew_after: Duration,
    /// A node that gets no answer from the cluster manager for this long asks another voter.
    pub patience: Duration,
    /// The consensus, and what rests on it. Its leases are those above.
    pub manager: tyr_manager::Timing,
    /// Gossip.
    pub gossip: GossipTiming,
}

impl Default for Timing {
    /// For nodes that are milliseconds apart: a node that dies is replaced after about three seconds.
    fn default() -> Self {
        let lease = LeaseTerms::default();
        Timing {
            lease,
            renew_after: Duration::from_millis(400),
            patience: Duration::from_millis(500),
            manager: tyr_manager::Timing {
                lease,
                upkeep: upkeep(10_000_000),
                ..tyr_manager::Timing::default()
            },
            gossip: GossipTiming::default(),
        }
    }
}

impl Timing {
    /// For nodes on one machine, such as those of a test: a node that dies is replaced after about a second.
    pub fn near() -> Self {
        let lease = LeaseTerms { length: 700_000, ..LeaseTerms::default() };
        Timing {
            lease,
            renew_after: Duration::from_millis(100),
            patience: Duration::from_millis(200),
            manager: tyr_manager::Timing {
                heartbeat: 60,
                election: 300,
                watch: 50_000,
                lease,
                grace: 1_500_000,
                upkeep: upkeep(1_000_000),
                ..tyr_manager::Timing::default()
            },
            gossip: GossipTiming { probe: 150_000, answer: 70_000, refute: 400_000, news: 100_000 },
        }
    }
}

/// A replica that was removed because it did not keep up, or while its node was away, comes back by a plan, so they are made often.
fn upkeep(plan_every: u64) -> UpkeepTerms {
    UpkeepTerms { plan_every, ..UpkeepTerms::default() }
}

/// The most threads that work on partitions.
const SHARDS_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_types::ErrorKind;

    use super::*;

    #[test]
    fn a_node_that_listens_everywhere_has_to_say_where_it_is() {
        let at = |listen: &str, advertise: Option<&str>| {
            let address = |text: &str| text.parse::<Address>().unwrap();
            let (listen, advertise) = (address(listen), advertise.map(address));
            let guarding = Guarding::Insecure;
            Settings { listen, advertise, guarding, ..Settings::new("anywhere") }.check()
        };
        for everywhere in ["0.0.0.0:7000", "[::]:7000", ":7000"] {
            let error = at(everywhere, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("advertise"), "{error}");
            at("127.0.0.1:7000", Some(everywhere)).unwrap_err();
            at(everywhere, Some("host:7000")).unwrap();
        }
        at("127.0.0.1:0", None).unwrap();
        at("unix:/socket", None).unwrap();
    }

    #[test]
    fn a_name_to_listen_at_is_known_to_others_by_its_number_and_one_to_advertise_as_it_is() {
        let reached = |listen: &str, advertise: Option<&str>| {
            let address = |text: &str| text.parse::<Address>().unwrap();
            let (listen, advertise) = (address(listen), advertise.map(address));
            Settings { listen, advertise, ..Settings::new("anywhere") }.reached().to_string()
        };
        let number = reached("localhost:7700", None);
        assert!(number.parse::<std::net::SocketAddr>().unwrap().ip().is_loopback(), "{number}");
        for listen in ["127.0.0.1:0", "unix:/socket", "nobody.invalid:1"] {
            assert_eq!(reached(listen, None), listen);
        }
        assert_eq!(reached("localhost:7700", Some("localhost:7700")), "localhost:7700");
    }

    #[test]
    fn a_node_that_others_reach_has_a_secret_or_says_that_it_needs_none() {
        let at = |listen: &str, guarding: Guarding| {
            let listen = listen.parse::<Address>().unwrap();
            let advertise = Some("host:7000".parse::<Address>().unwrap());
            Settings { listen, advertise, guarding, ..Settings::new("anywhere") }.check()
        };
        for local in [
            "127.0.0.1:7000",
            "127.3.2.1:0",
            "[::1]:7000",
            "[::ffff:127.0.0.1]:7000",
            "localhost:1",
            "unix:/socket",
        ] {
            at(local, Guarding::Local).unwrap();
        }
        let with_http = |http: &str, guarding: Guarding| Settings {
            http: Some(http.to_owned()),
            guarding,
            ..Settings::new("anywhere")
        };
        let secret = || Guarding::Secret(Secret::new(&[b'x'; 32]).unwrap());
        with_http("127.0.0.1:1", Guarding::Local).check().unwrap();
        let error = with_http("0.0.0.0:1", Guarding::Local).check().unwrap_err();
        assert!(error.to_string().contains("--insecure"), "{error}");
        with_http("0.0.0.0:1", Guarding::Insecure).check().unwrap();
        with_http("0.0.0.0:1", secret()).check().unwrap();
        let with_metrics =
            |guarding| Settings { metrics: MetricsFor::WhoHasAToken, ..with_http("127.0.0.1:1", guarding) };
        with_metrics(secret()).check().unwrap();
        let error = with_metrics(Guarding::Local).check().unwrap_err();
        assert!(error.to_string().contains("--secret-file"), "{error}");
        for reached in
            ["0.0.0.0:7000", "10.0.0.1:7000", "[::]:7000", "host:7000", "localhost.example:1", ":7000"]
        {
            let error = at(reached, Guarding::Local).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("--insecure"), "{error}");
            at(reached, Guarding::Insecure).unwrap();
            at(reached, Guarding::Secret(Secret::new(&[b'x'; 32]).unwrap())).unwrap();
        }
    }
}

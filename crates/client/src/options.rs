//! How a store is opened.

use std::{env, io, num::NonZeroU32, path::Path, time::Duration};

use tyr_embed::{Create, Error, IoMode, Result};
use tyr_net::{Address, Credential, Secret, Settings, Tls, Token};
use tyr_proto::cluster::Zone;

use crate::{
    address::Place,
    clock::Clock,
    cluster::{Cluster, Reaching},
    driver::{Tracing, links::Means},
    store::{Inner, Store},
};

/// Options for opening a store; made by [`Store::options`]. Those that say how a directory is kept mean nothing for a cluster.
#[derive(Clone)]
#[must_use = "options do nothing until they are opened"]
pub struct OpenOptions {
    directory: tyr_embed::OpenOptions,
    is_new: bool,
    deadline: Duration,
    connect_max: Duration,
    tls: Option<Tls>,
    credential: Credential,
    zone: Option<String>,
    reads_files: bool,
    keeps_copies: bool,
    /// A collector of traces, and of how many transactions, and of how many reads, one is traced.
    traces: Option<(String, NonZeroU32)>,
}

impl OpenOptions {
    pub(crate) fn new() -> Self {
        OpenOptions {
            directory: tyr_embed::Store::options(),
            is_new: false,
            deadline: Duration::from_secs(30),
            connect_max: Duration::from_secs(5),
            tls: None,
            credential: Credential::None,
            zone: None,
            reads_files: true,
            keeps_copies: false,
            traces: None,
        }
    }

    /// How long a call to a cluster waits for an answer. 30 seconds by default. What takes longer fails with
    /// [`crate::ErrorKind::Unavailable`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long opening a cluster waits for any of its nodes. 5 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_max = timeout;
        self
    }

    /// The zone that this client is in: of replicas that are not on this host it reads from those in its zone first.
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Has nodes on this host send what could be read from their files.
    pub fn without_files(mut self) -> Self {
        self.reads_files = false;
        self
    }

    /// Keeps what it has read of blobs of a cluster for as long as it is certain that nobody has changed them: reads outside of transactions of what was
    /// read in the last half second, and of small blobs after their [`stat`](crate::Keyspace::stat), ask nobody, and see every write that ended before they began
    /// all the same. Who changes such a blob waits until its copies are given back; that takes as long as asking those who have them, or half a
    /// second if one does not answer. So it is for those who read much that others seldom change.
    pub fn copies(mut self) -> Self {
        self.keeps_copies = true;
        self
    }

    /// Traces one of so many transactions in a cluster, and sends what the client knows of it to a collector, as OTLP over HTTP:
    /// `http://host:4318`. Nodes that are set up to do that send the rest. Opening fails with [`crate::ErrorKind::Invalid`] if it is none.
    pub fn traces(mut self, collector: &str, every: NonZeroU32) -> Self {
        self.traces = Some((collector.to_owned(), every));
        self
    }

    /// The certificates for a cluster that is named `tyr+tls://host:port`.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The token that says who this client is, for a cluster that asks for one. Without this and [`OpenOptions::secret`] it is the one that the
    /// environment variable `TYR_TOKEN` has, or the file that `TYR_TOKEN_FILE` names, if there is either.
    pub fn token(mut self, token: Token) -> Self {
        self.credential = Credential::Token(token);
        self
    }

    /// The secret of the cluster, in place of a token: who knows it may do everything.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.credential = Credential::Secret(secret);
        self
    }

    /// See [`tyr_embed::OpenOptions::create`]. A cluster is there or not; it cannot be asked for as a new one.
    pub fn create(mut self, create: Create) -> Self {
        self.directory = self.directory.create(create);
        self.is_new = create == Create::New;
        self
    }

    /// See [`tyr_embed::OpenOptions::data_cache`].
    pub fn data_cache(mut self, bytes: u64) -> Self {
        self.directory = self.directory.data_cache(bytes);
        self
    }

    /// See [`tyr_embed::OpenOptions::index_cache`].
    pub fn index_cache(mut self, bytes: u64) -> Self {
        self.directory = self.directory.index_cache(bytes);
        self
    }

    /// See [`tyr_embed::OpenOptions::segment_size`].
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.directory = self.directory.segment_size(bytes);
        self
    }

    /// See [`tyr_embed::OpenOptions::io`].
    pub fn io(mut self, mode: IoMode) -> Self {
        self.directory = self.directory.io(mode);
        self
    }

    /// See [`tyr_embed::OpenOptions::rebuild_index`].
    pub fn rebuild_index(mut self) -> Self {
        self.directory = self.directory.rebuild_index();
        self
    }

    /// Opens the store in the directory, or connects to the cluster, that is named.
    ///
    /// Fails with [`crate::ErrorKind::Unavailable`] if the store is open elsewhere, or if no node of the cluster answers.
    pub async fn open(self, name: impl AsRef<Path>) -> Result<Store> {
        let inner = match Place::parse(name.as_ref())? {
            Place::Directory(path) => Inner::Directory(self.directory.open(path).await?),
            Place::Cluster(addresses) => self.connect(addresses, None).await?,
            Place::Secured(addresses) => {
                let tls = self.certificates()?;
                self.connect(addresses, Some(tls)).await?
            }
        };
        Ok(Store { inner })
    }

    /// As [`OpenOptions::open`], but futures of what is in a directory do everything when they are first polled.
    pub(crate) fn open_blocking(self, name: &Path) -> Result<Store> {
        let inner = match Place::parse(name)? {
            Place::Directory(path) => {
                let options = tyr_embed::blocking::OpenOptions::from(self.directory);
                Inner::Directory(options.open(path)?.into_ready())
            }
            Place::Cluster(addresses) => pollster::block_on(self.connect(addresses, None))?,
            Place::Secured(addresses) => {
                let tls = self.certificates()?;
                pollster::block_on(self.connect(addresses, Some(tls)))?
            }
        };
        Ok(Store { inner })
    }

    fn certificates(&self) -> Result<Tls> {
        self.tls.clone().ok_or_else(|| {
            Error::invalid(
                "a cluster with encrypted connections needs certificates: name an authority's at least",
            )
        })
    }

    async fn connect(self, addresses: Vec<Address>, tls: Option<Tls>) -> Result<Inner> {
        if self.is_new {
            return Err(Error::invalid(
                "a cluster is not created by opening it; start its nodes, then open it",
            ));
        }
        let zone = self.zone.as_deref().map(Zone::new).transpose()?;
        let Self { credential, reads_files, keeps_copies, traces, .. } = self;
        let credential = match credential {
            Credential::None => named_by_environment()?,
            given => given,
        };
        let tracing = traces.map(|(collector, every)| -> Result<Tracing> {
            let collector =
                collector.parse().map_err(|error: io::Error| Error::invalid(error.to_string()))?;
            Ok(Tracing { collector, every })
        });
        let tracing = tracing.transpose()?;
        let means = Means::Sockets(Settings { tls, credential, ..Settings::default() });
        let clock = Clock::real();
        let reaching = Reaching { addresses, means, zone, reads_files, tracing, clock, keeps_copies };
        Cluster::connect(reaching, self.connect_max, self.deadline).await.map(Inner::Cluster)
    }
}

/// The token that the environment names, if it does.
fn named_by_environment() -> Result<Credential> {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    let token = match (value(TOKEN), value(TOKEN_FILE)) {
        (Some(text), _) => text
            .to_str()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
            .and_then(Token::parse)
            .map_err(|error| Error::invalid(format!("the environment variable {TOKEN}: {error}")))?,
        (None, Some(path)) => Token::load(Path::new(&path))
            .map_err(|error| Error::invalid(format!("the environment variable {TOKEN_FILE}: {error}")))?,
        (None, None) => return Ok(Credential::None),
    };
    Ok(Credential::Token(token))
}

const TOKEN: &str = "TYR_TOKEN";
const TOKEN_FILE: &str = "TYR_TOKEN_FILE";

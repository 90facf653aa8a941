//! `tyr server`: runs a node of a cluster until a signal asks it to stop.

use std::{
    num::NonZeroU32,
    sync::mpsc::{RecvTimeoutError, channel},
    time::Duration,
};

use serde::Serialize;
use tyr_server::{Address, ClassSettings, Collector, Guarding, Server, Tls, Zone};

use crate::{
    failure::{Failure, Result},
    interrupt::{Interrupt, Renewal},
    log,
    output::{Output, Report},
    settings::{ServerSettings, Settings},
};

/// Runs the node.
pub fn run(settings: &Settings, out: &mut Output) -> Result<()> {
    log::begin(settings.server.log, settings.server.log_format)?;
    let interrupt = Interrupt::install()?;
    let renewal = Renewal::install()?;
    let node = node_settings(settings)?;
    let (tls, reached) = (node.tls.clone(), node.reached());
    let server = match start(node, &interrupt) {
        // It ends well then as at any other time.
        Err(Failure::Interrupted(message)) => {
            tracing::info!(target: "tyr_server", "{message}");
            return Ok(());
        }
        started => started?,
    };
    let mut told = Told { out, is_heard: true };
    told.tell(&Listening::of(&server));
    let mut was_ready = false;
    while !interrupt.is_asked() && !server.wait(GLANCE, |status| status.has_ended) {
        if server.status().is_ready && !was_ready {
            was_ready = true;
            told.tell(&Ready { event: "ready", node: server.node().0 });
        }
        if let Some(tls) = tls.as_ref().filter(|_| renewal.is_asked()) {
            renew(tls, &reached);
        }
    }
    Ok(server.stop()?)
}

/// What the node tells on standard output, for whoever reads it: it serves whether or not anybody does.
struct Told<'out> {
    out: &'out mut Output,
    is_heard: bool,
}

impl Told<'_> {
    fn tell(&mut self, report: &impl Report) {
        if !self.is_heard {
            return;
        }
        if let Err(failure) = self.out.report(report).and_then(|()| self.out.flush()) {
            self.is_heard = false;
            self.out.discard();
            tracing::info!(target: "tyr_server", %failure, "what the node tells on standard output is not heard; it goes on without");
        }
    }
}

/// Reads the certificates again. Connections that there are stay as they are.
fn renew(tls: &Tls, reached: &Address) {
    match tls.reload_node(reached) {
        Ok(()) => tracing::info!(target: "tyr_server", "the certificates are read again"),
        Err(error) => {
            tracing::error!(target: "tyr_server", %error, "the certificates cannot be read again; the old ones stay in use")
        }
    }
}

/// Starts a server; a signal ends the wait for a cluster that does not answer.
pub fn start(settings: tyr_server::Settings, interrupt: &Interrupt) -> Result<Server> {
    let (told, hears) = channel();
    std::thread::spawn(move || {
        let _unheard = told.send(Server::start(settings));
    });
    loop {
        match hears.recv_timeout(GLANCE) {
            Ok(started) => return Ok(started?),
            Err(RecvTimeoutError::Timeout) if !interrupt.is_asked() => {}
            Err(_) => {
                return Err(Failure::Interrupted(
                    "the server was stopped before it had joined a cluster".into(),
                ));
            }
        }
    }
}

/// What a node is started with.
pub fn node_settings(settings: &Settings) -> Result<tyr_server::Settings> {
    let ServerSettings {
        directory,
        join,
        targets,
        zone,
        weight,
        shards,
        replicas,
        partitions,
        durability,
        insecure,
        http,
        metrics,
        cached_heads,
        slow_ms,
        ..
    } = settings.server.clone();
    let Some(directory) = directory else {
        return Err(Failure::Usage(
            "no directory is named: pass --directory PATH, or set TYR_SERVER_DIRECTORY, or write directory = \"PATH\" under \
             [server] in tyr.toml"
                .to_owned(),
        ));
    };
    let mut node = tyr_server::Settings::new(directory);
    place(&mut node, &settings.server)?;
    node.join = join.iter().map(|text| others_address("join", text)).collect::<Result<_>>()?;
    node.targets = targets;
    node.zone = Zone::new(&zone)?;
    node.weight = weight;
    node.shards = NonZeroU32::new(shards).expect("the table of settings has bounds");
    node.class = ClassSettings { partitions, durability, min_replicas: 1, ..ClassSettings::new(replicas) };
    node.store.segment_size = settings.segment_size;
    share_caches(&mut node, settings);
    node.io = settings.io;
    node.tls = settings.tls()?;
    node.guarding = match settings.access.secret()? {
        Some(secret) => Guarding::Secret(secret),
        None if insecure => Guarding::Insecure,
        None => Guarding::Local,
    };
    node.limits.cached_max = usize::try_from(cached_heads).unwrap_or(usize::MAX);
    node.slow = Duration::from_millis(slow_ms.into());
    node.http = http;
    node.metrics = metrics;
    let collector = settings.trace.otlp.as_deref().map(str::parse::<Collector>).transpose();
    node.traces = collector.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(node)
}

/// Says to a node where it listens, and where others reach it.
fn place(node: &mut tyr_server::Settings, settings: &ServerSettings) -> Result<()> {
    node.listen = settings.listen.parse().expect("any text is an address");
    let advertise = settings.advertise.as_deref().map(|text| others_address("advertise", text));
    node.advertise = advertise.transpose()?;
    Ok(())
}

/// Where others are told to reach the node.
pub fn reached(settings: &ServerSettings) -> Result<Address> {
    let mut node = tyr_server::Settings::new("");
    place(&mut node, settings)?;
    Ok(node.reached())
}

/// Gives each shard's store its share of a node's caches.
pub fn share_caches(node: &mut tyr_server::Settings, settings: &Settings) {
    let shards = u64::from(node.shards.get());
    node.store.data_cache = settings.data_cache / shards;
    node.store.index_cache = settings.index_cache / shards;
}

/// An address at which others are to be found. Where one listens may say less; that the node looks at itself.
fn others_address(flag: &str, text: &str) -> Result<Address> {
    let address: Address = text.parse().expect("any text is an address");
    let lacks = || {
        Failure::Usage(format!(
            "--{flag} {text}: an address has a host and a port; write HOST:PORT, or unix:PATH"
        ))
    };
    address.is_whole().then_some(address).ok_or_else(lacks)
}

/// What a server says when it listens.
#[derive(Serialize)]
struct Listening {
    event: &'static str,
    node: u32,
    cluster: String,
    address: String,
    http: Option<String>,
}

impl Listening {
    fn of(server: &Server) -> Self {
        Listening {
            event: "listening",
            node: server.node().0,
            cluster: format!("{:032x}", server.cluster().0),
            address: server.address().to_string(),
            http: server.http_address().map(str::to_owned),
        }
    }
}

impl Report for Listening {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("node {} of cluster {} listens at {}", self.node, self.cluster, self.address))?;
        match &self.http {
            Some(http) => out.line(format!("health, metrics, and the console are at http://{http}")),
            None => Ok(()),
        }
    }
}

/// What it says when it serves.
#[derive(Serialize)]
struct Ready {
    event: &'static str,
    node: u32,
}

impl Report for Ready {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("node {} is ready", self.node))
    }
}

/// How often a signal is looked for.
const GLANCE: Duration = Duration::from_millis(100);

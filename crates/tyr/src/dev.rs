//! `tyr dev`: a cluster on this machine to try things on, gone when the command ends.

use std::{
    fs::{self, DirBuilder},
    hash::{BuildHasher, RandomState},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use tracing::level_filters::LevelFilter;
use tyr_server::{Address, ClassSettings, Server};

use crate::{
    failure::{Failure, Result},
    interrupt::Interrupt,
    log,
    output::{Output, Report},
    server,
    settings::{LogFormat, Settings},
};

/// The arguments of `tyr dev`.
#[derive(Args)]
pub struct Dev {
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    nodes: u32,
    /// Keep the nodes' directories here, so that the next run goes on with them, at the same addresses. Without it they are removed at the
    /// end.
    #[arg(long, value_name = "PATH")]
    keep: Option<PathBuf>,
    /// How much is logged to standard error: off, error, warn, info, debug, or trace.
    #[arg(long, value_name = "WORD", default_value = "warn")]
    log: LevelFilter,
}

/// Runs a cluster until a signal asks to stop.
pub fn run(arguments: &Dev, settings: &Settings, out: &mut Output) -> Result<()> {
    log::begin(arguments.log, LogFormat::Text)?;
    let interrupt = Interrupt::install()?;
    let place = Place::new(arguments.keep.as_deref())?;
    if let Some(kept) = (arguments.nodes + 1..=NODES_MAX).rfind(|number| place.address_file(*number).exists())
    {
        let path = place.path.display();
        return Err(Failure::Usage(format!(
            "'{path}' has a cluster of {kept} nodes, which need one another; start it with -n {kept}, or keep another one elsewhere"
        )));
    }
    let mut servers: Vec<Server> = Vec::new();
    for number in 1..=arguments.nodes {
        let mut node = tyr_server::Settings::new(place.path.join(format!("node-{number}")));
        if let Some(address) = place.address(number)? {
            node.listen = address;
        }
        node.join = servers.first().map(|first| first.address().clone()).into_iter().collect();
        node.class = ClassSettings { partitions: PARTITIONS, min_replicas: 1, ..ClassSettings::new(3) };
        node.store.segment_size = settings.segment_size.min(SEGMENT_SIZE_MAX);
        server::share_caches(&mut node, settings);
        let server = server::start(node, &interrupt)?;
        place.keep_address(number, server.address())?;
        servers.push(server);
    }
    // Those of an earlier run need one another.
    while !servers.iter().all(|server| server.wait(GLANCE, |status| status.is_ready)) {
        if interrupt.is_asked() {
            return Err(Failure::Interrupted("the cluster was stopped before it was ready".into()));
        }
    }
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    out.report(&Running {
        event: "ready",
        url: format!("tyr://{}", addresses.join(",")),
        directory: place.path.clone(),
    })?;
    out.flush()?;
    while !interrupt.is_asked() {
        if servers.iter().any(|server| server.wait(GLANCE / arguments.nodes, |status| status.has_ended)) {
            break;
        }
    }
    for server in servers {
        server.stop()?;
    }
    Ok(())
}

/// The most nodes.
const NODES_MAX: u32 = 16;

/// Where the nodes' directories are; removed at the end unless they are to be kept.
struct Place {
    path: PathBuf,
    is_kept: bool,
}

impl Place {
    fn new(kept: Option<&Path>) -> Result<Self> {
        let failed =
            |path: &Path, error| Failure::local(format_args!("cannot make '{}'", path.display()), &error);
        if let Some(kept) = kept {
            fs::create_dir_all(kept).map_err(|error| failed(kept, error))?;
            return Ok(Place { path: kept.to_owned(), is_kept: true });
        }
        // Where others have directories, too: nobody has prepared one of this name, and nobody else sees what is in it.
        loop {
            let name = format!("tyr-dev-{:016x}", RandomState::new().hash_one(std::process::id()));
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Place { path, is_kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
    }
}

impl Place {
    /// Where a node listened in an earlier run.
    fn address(&self, number: u32) -> Result<Option<Address>> {
        let path = self.address_file(number);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::local(format_args!("cannot read '{}'", path.display()), &error)),
        }
    }

    fn keep_address(&self, number: u32, address: &Address) -> Result<()> {
        let path = self.address_file(number);
        fs::write(&path, format!("{address}\n"))
            .map_err(|error| Failure::local(format_args!("cannot write '{}'", path.display()), &error))
    }

    fn address_file(&self, number: u32) -> PathBuf {
        self.path.join(format!("node-{number}.address"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left is in a temporary directory.
            let _left = fs::remove_dir_all(&self.path);
        }
    }
}

/// What is said when the cluster serves.
#[derive(Serialize)]
struct Running {
    event: &'static str,
    url: String,
    directory: PathBuf,
}

impl Report for Running {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("the cluster is ready: {}", self.url))?;
        out.line(format!("its directories are in {}", self.directory.display()))?;
        out.line("in another terminal, for instance:")?;
        out.line(format!("  export TYR_STORE={}", self.url))?;
        out.line("  tyr cluster status")?;
        out.line("Ctrl-C stops it")
    }
}

/// Few, so that a cluster of one machine has little to do when nothing happens.
const PARTITIONS: u32 = 32;
/// Small segments, so that nodes that hold little take little space.
const SEGMENT_SIZE_MAX: u64 = 8 << 20;
const GLANCE: Duration = Duration::from_millis(100);

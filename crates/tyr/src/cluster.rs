//! `tyr cluster`: what a cluster consists of, and changes of that.

mod change;
mod picture;
mod status;
mod wanted;

use clap::Subcommand;
use tyr_server::{Address, Difference, Operator, Tls};
use tyr_types::ErrorKind;

use crate::{
    failure::{Failure, Result},
    output::{Output, Report},
    settings::Settings,
};

use change::{Add, Drain, Remove, Replace};
use status::{Ring, Status};
pub use wanted::Wanted;

/// The verbs of `tyr cluster`.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the nodes, and how many partitions are complete.
    Status,
    /// Print who holds which partition.
    Ring,
    /// Wait until a node has joined and holds its share, or give one that was drained its share again.
    ///
    /// A node joins by itself when it is started with --join; this says how as long as it is not there.
    Add(Add),
    /// Have a node give up everything that it holds, so that it can be switched off.
    ///
    /// It is done when 'tyr cluster status' shows that the node holds no partition.
    Drain(Drain),
    /// Forget a node for good: one that was drained, or one that is dead, whose replicas are made anew elsewhere first.
    ///
    /// The node can never come back under its number. Refused if something would be lost by that.
    Remove(Remove),
    /// Have a node take the place of another one, which is then forgotten for good.
    ///
    /// The new one has to have joined. The old one may be dead.
    Replace(Replace),
}

impl Verb {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Verb::Status => show(settings, out, Status::of),
            Verb::Ring => show(settings, out, Ring::of),
            Verb::Add(add) => add.run(settings, out),
            Verb::Drain(drain) => drain.run(settings, out),
            Verb::Remove(remove) => remove.run(settings, out),
            Verb::Replace(replace) => replace.run(settings, out),
        }
    }
}

/// Prints what the cluster manager knows. If nobody leads, what a node heard last is better than nothing, but still a failure.
fn show<R: Report>(
    settings: &Settings,
    out: &mut Output,
    of: impl Fn(&Difference, Option<String>) -> R,
) -> Result<()> {
    let mut operator = operator(settings)?;
    match operator.facts() {
        Ok(told) => out.report(&of(&told, None)),
        Err(error) => {
            if error.kind() == ErrorKind::Unavailable
                && let Ok((address, told)) = operator.memory()
            {
                out.report(&of(&told, Some(address.to_string())))?;
            }
            Err(error.into())
        }
    }
}

/// What a report begins with that is remembered by a node.
fn print_memory(out: &mut Output, remembered_by: Option<&str>) -> Result<()> {
    let Some(address) = remembered_by else { return Ok(()) };
    out.line(format!("as the node at {address} heard it last, which may be out of date:"))
}

/// Whom to ask.
pub fn operator(settings: &Settings) -> Result<Operator> {
    let credential = settings.access.credential()?;
    Ok(Operator::new(&addresses(settings)?, tls(settings)?.as_ref(), &credential, settings.timeout)?)
}

/// The nodes that the settings name.
pub fn addresses(settings: &Settings) -> Result<Vec<Address>> {
    let usage = || {
        Failure::Usage(
            "no cluster is named: pass --store tyr://HOST:PORT,HOST:PORT, or set TYR_STORE to that"
                .to_owned(),
        )
    };
    let store = settings.store.as_deref().and_then(|path| path.to_str()).ok_or_else(usage)?;
    let hosts = store.strip_prefix("tyr://").or_else(|| store.strip_prefix(SECURED)).ok_or_else(usage)?;
    // A path of a socket has slashes; behind a host there would be a keyspace.
    let without_keyspace = |part| match str::starts_with(part, "unix:") {
        true => part.trim_end_matches('/'),
        false => part.split('/').next().unwrap_or_default(),
    };
    let hosts = hosts.split(',').map(without_keyspace).filter(|host| !host.is_empty());
    let addresses: Vec<Address> = hosts.map(|host| host.parse().expect("any text is an address")).collect();
    if let Some(wrong) = addresses.iter().find(|address| !address.is_whole()) {
        return Err(Failure::Usage(format!(
            "'{wrong}' is no address of a node: write HOST:PORT, with a port of at most 65535, or unix: and a path"
        )));
    }
    if addresses.is_empty() { Err(usage()) } else { Ok(addresses) }
}

/// The certificates for those nodes, if connections to them are encrypted.
pub fn tls(settings: &Settings) -> Result<Option<Tls>> {
    let name = settings.store.as_deref().and_then(|path| path.to_str());
    if !name.is_some_and(|name| name.starts_with(SECURED)) {
        return Ok(None);
    }
    let missing = || {
        Failure::Usage(
            "tyr+tls:// needs the certificate of an authority: pass --tls-authority PATH".to_owned(),
        )
    };
    settings.tls()?.map(Some).ok_or_else(missing)
}

const SECURED: &str = "tyr+tls://";

//! The verbs. Each group of them is a module with its arguments and its work; here they come together.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    access::{account, audit, grant, secret, token},
    blob, cluster, demo, dev, doctor,
    failure::Result,
    files, keyspace, maintenance, mount, node,
    output::Output,
    reference::Document,
    script, server,
    settings::{Settings, with_flags},
    snapshot, top, transfer, version,
};

/// A transactional blob store.
///
/// Blobs are named KEYSPACE/KEY, or tyr:///keyspace/key. The store is a directory, or a cluster as
/// tyr://host:port,host:port: --store, TYR_STORE, or a configuration file. Sizes take units (64KiB, 10GiB). Exit codes: 0 done, 1 a local file or a part of the work failed,
/// 2 wrong usage, 10 + kind if the store refused or failed; see docs/errors.md.
#[derive(Parser)]
#[command(name = "tyr", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs and groups of verbs.
#[derive(Subcommand)]
pub enum Verb {
    /// Create, list, show, alter, and drop keyspaces.
    #[command(subcommand)]
    Keyspace(keyspace::Verb),
    /// Read and write single blobs, and list them.
    #[command(subcommand)]
    Blob(blob::Verb),
    /// Mount a file system on a directory of this machine. See docs/filesystem.md.
    ///
    /// It is served until it is unmounted, by umount, Ctrl-C, or SIGTERM.
    Mount(mount::Mount),
    /// Use a file system without mounting it.
    Fs(files::Files),
    /// Import a directory tree.
    ///
    /// Files that are there already are skipped, so an interrupted import goes on where it stopped. A megabyte of zeros becomes a hole, which takes no room. Files appear whole or not at all, but for those of more than 1 GiB in a cluster: their blobs have the attribute 'tyr.unfinished' until they are whole, and are not exported.
    Import(transfer::Import),
    /// Export a directory tree.
    ///
    /// Files that were imported and are there already, as they are stored, are skipped; others appear whole or not at all, in the place of what has their name. Long runs of zeros become holes. Blobs that are damaged, and those whose keys are no paths within a directory, are told of and left out.
    Export(transfer::Export),
    /// Export keyspaces as they are at one point, import them, and restore them.
    #[command(subcommand)]
    Snapshot(snapshot::Verb),
    /// Execute scripts of operations atomically.
    #[command(subcommand)]
    Tx(script::Verb),
    /// Read and verify everything that is live: records, payload, and index.
    ///
    /// Prints what is damaged; the exit code is that of a corrupt store then.
    Check(maintenance::Check),
    /// Print what the store holds and how it is doing.
    Stats,
    /// Reclaim all space that is worth it, now. Otherwise that happens bit by bit.
    Compact,
    /// Run a node of a cluster, until SIGTERM or Ctrl-C.
    ///
    /// A new directory founds a cluster, or joins one with --join. See docs/operations.md.
    Server,
    /// Run a cluster on this machine to try things on.
    Dev(dev::Dev),
    /// See what a cluster consists of, and change that. The cluster is named by --store tyr://HOST:PORT,HOST:PORT.
    #[command(subcommand)]
    Cluster(cluster::Verb),
    /// See how the nodes of a cluster are doing.
    #[command(subcommand)]
    Node(node::Verb),
    /// Watch a cluster: nodes, keyspaces, hot blobs, conflicts, and slow operations, as the console has them.
    ///
    /// On a terminal it goes on until q or Ctrl-C; elsewhere it prints once. With --json it prints the console's JSON.
    Top(top::Top),
    /// Check an installation, and say what is wrong and what to do.
    ///
    /// It takes the settings of 'tyr server' and looks at the directories, ports, certificates, and limits of this machine, and at the cluster that
    /// --store names. Exits with 1 if something is wrong.
    Doctor(doctor::Doctor),
    /// Create, list, and remove users of a cluster.
    #[command(subcommand)]
    User(account::User),
    /// Create, list, and remove groups of users, and say who belongs to them.
    #[command(subcommand)]
    Group(account::Group),
    /// Grant rights to a user or group.
    Grant(grant::Grant),
    /// Revoke rights of a user or group. It takes effect on open connections, too.
    Revoke(grant::Grant),
    /// Make and revoke the tokens by which users prove who they are.
    #[command(subcommand)]
    Token(token::Token),
    /// Make the secret that the nodes of a cluster share.
    ///
    /// Whoever knows it may do everything.
    Secret(secret::Secret),
    /// Print what was done to the cluster through a node of this machine: who, when, from where, and what came of it.
    Audit(audit::Audit),
    /// Show on real data that what was acknowledged survives kills, and that nothing is torn.
    Demo(demo::Demo),
    /// Print the version and how this binary was built.
    Version,
    /// Print a generated document.
    #[command(hide = true)]
    Docs {
        /// Which.
        document: Document,
    },
    /// Print the completion script for a shell.
    ///
    /// For bash: tyr completion bash > /etc/bash_completion.d/tyr
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// The whole grammar, with the flags of all settings.
pub fn command() -> clap::Command {
    with_negative_numbers(with_flags(Cli::command()))
}

/// Has `-1` taken for a value, which is refused with what is allowed, and not for a flag that nobody knows.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Verb::Keyspace(verb) => verb.run(settings, out),
            Verb::Blob(verb) => verb.run(settings, out),
            Verb::Mount(mount) => mount.run(settings, out),
            Verb::Fs(files) => files.run(settings, out),
            Verb::Import(arguments) => transfer::import(&arguments, settings, out),
            Verb::Export(arguments) => transfer::export(&arguments, settings, out),
            Verb::Snapshot(verb) => verb.run(settings, out),
            Verb::Tx(verb) => verb.run(settings, out),
            Verb::Check(arguments) => maintenance::check(&arguments, settings, out),
            Verb::Stats => maintenance::stats(settings, out),
            Verb::Compact => maintenance::compact(settings, out),
            Verb::Server => server::run(settings, out),
            Verb::Dev(arguments) => dev::run(&arguments, settings, out),
            Verb::Cluster(verb) => verb.run(settings, out),
            Verb::Node(verb) => verb.run(settings, out),
            Verb::Top(top) => top.run(settings, out),
            Verb::Doctor(doctor) => doctor.run(settings, out),
            Verb::User(verb) => verb.run(settings, out),
            Verb::Group(verb) => verb.run(settings, out),
            Verb::Grant(arguments) => arguments.grant(settings, out),
            Verb::Revoke(arguments) => arguments.revoke(settings, out),
            Verb::Token(verb) => verb.run(settings, out),
            Verb::Secret(arguments) => arguments.run(out),
            Verb::Audit(arguments) => arguments.run(settings, out),
            Verb::Demo(arguments) => demo::run(&arguments, settings, out),
            Verb::Docs { document } => out.bytes(document.text().as_bytes()),
            Verb::Version => out.report(&version::Version::this()),
            Verb::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut command(), "tyr", &mut script);
                out.bytes(&script)
            }
        }
    }
}

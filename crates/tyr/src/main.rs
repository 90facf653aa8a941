//! The `tyr` command: keyspaces, blobs, transactions, and whole directory trees, on a Týr store.
//!
//! It stands on `tyr-client`, for nodes on `tyr-server`, and uses nothing that a program could not use. A run is: arguments to a [`cli::Cli`],
//! flags, environment, and configuration file to [`settings::Settings`], then one verb, which prints through
//! [`output::Output`] and ends with success or a [`failure::Failure`], whose kind is the exit code.

mod access;
mod address;
mod amount;
mod archive;
mod arithmetic;
mod blob;
mod cli;
mod cluster;
mod demo;
mod dev;
mod doctor;
mod failure;
mod files;
mod interrupt;
mod keyspace;
mod lock;
mod log;
mod maintenance;
mod moment;
mod mount;
mod node;
mod opening;
mod output;
mod payload;
mod reference;
mod script;
mod server;
mod settings;
mod snapshot;
mod top;
mod transfer;
mod version;
mod workers;

use std::{env, ffi::OsString, process::ExitCode};

use clap::FromArgMatches;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tyr_os::Allocator;

use crate::{
    cli::Cli,
    failure::{EXIT_USAGE, Failure},
    output::{ColorChoice, Form, Output, print_failure},
    settings::Environment,
};

/// A node allocates much and for a short time: with the system's allocator a fifth of what small writes cost went into that.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    open_as_many_as_allowed();
    let matches = if mount::is_helper() {
        let arguments = mount::helper_arguments(env::args_os().skip(1));
        cli::command().try_get_matches_from([OsString::from("tyr")].into_iter().chain(arguments))
    } else {
        cli::command().try_get_matches()
    };
    let matches = match matches {
        Ok(matches) => matches,
        Err(error) => return refuse_arguments(&error),
    };
    let settings = match settings::resolve(&matches, &ProcessEnvironment) {
        Ok(settings) => settings,
        Err(failure) => return end(asked_form(), ColorChoice::Auto, &failure),
    };
    let (form, color) = (settings.form, settings.color);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let mut out = Output::new(form, settings.chatter, color);
    let result = cli.verb.run(&settings, &mut out);
    let code = match result.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was printed before the failure is worth having; that it cannot be printed adds nothing to the failure.
            let _ = out.flush();
            end(form, color, &failure)
        }
    };
    log::end();
    code
}

/// A store has a file open for each of its segments, a node a connection to each client: more than the soft limit on open files, which is there
/// for programs that use `select`, lets a process have in many places.
fn open_as_many_as_allowed() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused it remains as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn end(form: Form, color: ColorChoice, failure: &Failure) -> ExitCode {
    print_failure(form, color, failure);
    ExitCode::from(failure.exit_code())
}

/// Prints what clap has to say: help and version to standard output, else what is wrong with the arguments.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help that nobody reads is no failure.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    match asked_form() {
        Form::Human => {
            let _ = error.print();
            ExitCode::from(EXIT_USAGE)
        }
        Form::Json => {
            let text = error.render().to_string();
            let message = text.strip_prefix("error: ").unwrap_or(&text);
            // What follows the first paragraph is advice for people: the usage, and where to find help.
            let message = message.split("\n\n").next().unwrap_or(message).trim();
            end(Form::Json, ColorChoice::Never, &Failure::Usage(message.to_owned()))
        }
    }
}

/// The form of output that was asked for, as far as can be told when the settings cannot be had.
fn asked_form() -> Form {
    let flags = env::args_os().take_while(|argument| argument != "--");
    let by_flag = flags.into_iter().any(|argument| argument == "--json" || argument == "--json=true");
    let by_variable = env::var("TYR_OUTPUT_JSON").is_ok_and(|value| value == "true" || value == "1");
    if by_flag || by_variable { Form::Json } else { Form::Human }
}

/// The environment of this process.
struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        env::var_os(name)
    }

    fn names(&self) -> Vec<OsString> {
        env::vars_os().map(|(name, _)| name).collect()
    }
}

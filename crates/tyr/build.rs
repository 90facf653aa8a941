//! Facts about the build that `tyr version` prints. Nothing here fails the build: what cannot be found is left empty.

use std::{env, path::Path, process::Command};

fn main() {
    fact("TYR_BUILD_COMMIT", commit());
    fact(
        "TYR_BUILD_RUSTC",
        first_line(Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("-V")),
    );
    fact("TYR_BUILD_TARGET", env::var("TARGET").ok());
    fact("TYR_BUILD_PROFILE", env::var("PROFILE").ok());
    fact("TYR_BUILD_FEATURES", Some(features()));
    println!("cargo::rerun-if-changed=build.rs");
}

fn fact(name: &str, value: Option<String>) {
    println!("cargo::rustc-env={name}={}", value.unwrap_or_default());
}

/// The commit that is checked out; none outside of a checkout. Whether files differ from it is not said: cargo does not
/// run this again when they change.
fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    Some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    first_line(Command::new("git").args(arguments))
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

fn features() -> String {
    let mut names: Vec<String> = env::vars()
        .filter_map(|(name, _)| {
            name.strip_prefix("CARGO_FEATURE_").map(|f| f.to_lowercase().replace('_', "-"))
        })
        .collect();
    names.sort();
    names.join(",")
}

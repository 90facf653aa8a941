//! Programs that are started for the comparison, and ended with it.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::system::Outcome;

/// A running program; it is asked to end on drop, and killed if it does not.
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program with its output in `log`; standard output too, unless the command says where that goes.
    pub fn start(name: &'static str, command: &mut Command, log: PathBuf) -> Outcome<Self> {
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stderr(output);
        let child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Program { name, child, log })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The running program.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until `is_ready`, but not for a program that has ended.
    pub async fn wait_until(&mut self, mut is_ready: impl AsyncFnMut() -> bool) -> Outcome<()> {
        let start = Instant::now();
        while !is_ready().await {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended: {status}{}", self.name, self.last_words()).into());
            }
            if start.elapsed() > START_TIME_MAX {
                return Err(format!("{} does not get ready{}", self.name, self.last_words()).into());
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// The end of what it logged.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(8).collect();
        lines.iter().rev().map(|line| format!("\n    {line}")).collect()
    }

    fn signal(&self, signal: Signal) {
        // A process that has ended keeps its number until it has been waited for, so this cannot meet another one.
        let _gone = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > STOP_TIME_MAX {
                self.signal(Signal::KILL);
                let _status = self.child.wait();
                return;
            }
            thread::sleep(GLANCE);
        }
    }
}

/// Runs a program to its end; what it said is in the error if it failed.
pub fn run(command: &mut Command) -> Outcome<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Where a program is: on the path, or in one of `directories`. Else says which Debian package has it.
pub fn find(name: &str, directories: &[&str], package: &str) -> Outcome<PathBuf> {
    find_or(name, directories, &format!("install the Debian package {package}"))
}

/// Where a program is: on the path, or in one of `directories`. Else says what to do.
pub fn find_or(name: &str, directories: &[&str], advice: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain(directories.iter().map(PathBuf::from));
    let found = all.map(|directory| directory.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is missing: {advice}").into())
}

/// A port of the loopback interface that is free now.
pub fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// As many ports of the loopback interface, all free now.
pub fn free_ports(count: usize) -> Outcome<Vec<u16>> {
    // All are taken at once, so that none is found twice.
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    Ok(listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()?)
}

/// Whether something listens there.
pub async fn listens(port: u16) -> bool {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

/// A file in a directory, for a program's log.
pub fn log_file(directory: &Path) -> PathBuf {
    directory.join("output.log")
}

const GLANCE: Duration = Duration::from_millis(20);
const START_TIME_MAX: Duration = Duration::from_secs(60);
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

//! Where a trial runs: in namespaces of its own, for the network, mounts, and processes.
//!
//! The program starts itself again in them by `unshare`. It is the first process of its namespace, so that the kernel ends everything
//! that it has started when it ends, be it by SIGKILL, and forgets the networks and mounts. That needs root, or a system that lets
//! anybody make user namespaces. Without either the trial runs on the loopback address, has no faults of links, and says so.

use std::process::{Command, ExitStatus, Stdio};

use crate::failure::{Failure, Result};

/// What a trial may do on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enclosure {
    /// Namespaces, with root's rights on devices: disks are file systems of their own on loop devices.
    Devices,
    /// Namespaces, without rights on devices: disks are file systems in memory.
    Namespaces,
    /// Processes on the loopback address.
    Loopback,
}

impl Enclosure {
    /// The most that this machine permits, and why not more.
    pub fn find() -> (Enclosure, String) {
        let mut refusals = Vec::new();
        if rustix::process::geteuid().is_root() {
            match Enclosure::Devices.attempt() {
                Ok(()) => return (Enclosure::Devices, String::new()),
                Err(failure) => refusals.push(format!("as root: {failure}")),
            }
            match (Enclosure::Namespaces).attempt() {
                Ok(()) => return (Enclosure::Namespaces, refusals.join("; ")),
                Err(failure) => refusals.push(format!("as root without devices: {failure}")),
            }
        } else {
            match (Enclosure::Namespaces).attempt() {
                Ok(()) => return (Enclosure::Namespaces, "not root".to_owned()),
                Err(failure) => refusals.push(format!("not root, and with a user namespace: {failure}")),
            }
        }
        (Enclosure::Loopback, refusals.join("; "))
    }

    /// The name by which the program tells itself where it runs.
    pub fn name(self) -> &'static str {
        match self {
            Enclosure::Devices => "devices",
            Enclosure::Namespaces => "namespaces",
            Enclosure::Loopback => "loopback",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Enclosure> {
        [Enclosure::Devices, Enclosure::Namespaces, Enclosure::Loopback]
            .into_iter()
            .find(|enclosure| enclosure.name() == name)
    }

    /// Whether links can be cut.
    pub fn has_links(self) -> bool {
        self != Enclosure::Loopback
    }

    /// Runs a command inside, and waits for its end.
    pub fn run(self, program: &str, arguments: &[String]) -> Result<ExitStatus> {
        let mut command = self.command(program);
        Ok(command.args(arguments).status()?)
    }

    fn command(self, program: &str) -> Command {
        let mut flags = vec!["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
        if !rustix::process::geteuid().is_root() {
            flags.extend(["--user", "--map-root-user"]);
        }
        if self == Enclosure::Loopback {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        command.args(flags).arg("--").arg(program);
        command
    }

    /// Whether everything that it takes is permitted: tried out, since no other question has a sure answer.
    fn attempt(self) -> Result<()> {
        let links = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add r && \
                     ip link add veth1 type veth peer name veth2 netns r && ip -n r rule add from 10.0.0.1 to 10.0.0.2 blackhole";
        let devices = "truncate -s 16M /run/image && mkfs.ext4 -q /run/image && mkdir /run/disk && \
                       mount -o loop /run/image /run/disk && umount /run/disk";
        let script = match self {
            Enclosure::Devices => format!("{links} && {devices}"),
            Enclosure::Namespaces => links.to_owned(),
            Enclosure::Loopback => return Ok(()),
        };
        let output = self.command("sh").args(["-c", &script]).stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(Failure::new(if said.is_empty() { output.status.to_string() } else { said }))
    }
}

/// Runs a program to its end, and fails with what it said if it does.
pub fn call(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::from(error).while_doing(program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::new(format!("{program} {}: {}: {said}", arguments.join(" "), output.status)))
}

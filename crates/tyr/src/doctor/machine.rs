//! The machine: open files, ports, and what the kernel allows.

use std::{
    net::{TcpListener, ToSocketAddrs},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};
use tyr_server::{Address, Credential, Operator};
use tyr_types::ErrorKind;

use super::Finding;
use crate::{server, settings::Settings};

/// Looks at it.
pub fn examine(settings: &Settings, findings: &mut Vec<Finding>) {
    findings.push(open_files());
    findings.extend(rings());
    if settings.server.directory.is_none() {
        findings.push(Finding::skipped("ports", "no node is named; pass --directory, as for 'tyr server'"));
        return;
    }
    findings.push(start(settings));
    let listen: Address = settings.server.listen.parse().expect("any text is an address");
    if let Address::Tcp(address) = &listen {
        findings.push(port("listen", address, || answers(settings, &listen)));
        let told = settings.server.advertise.as_deref().unwrap_or(address);
        findings.push(told_address(told));
    }
    if let Some(http) = &settings.server.http {
        findings.push(port("http", http, || answers_http(http)));
    }
}

/// Whether a node starts with these settings, in this directory.
fn start(settings: &Settings) -> Finding {
    let subject = "start";
    let examined = server::node_settings(settings).and_then(|node| Ok(node.examine()?));
    match examined {
        Ok(()) => Finding::good(subject, "a node starts with these settings"),
        // With several targets a node does without one that is lost.
        Err(failure) if settings.server.targets.len() > 1 => {
            Finding::wrong(subject, failure, "'tyr server' would say the same, or would have to do without")
        }
        Err(failure) => Finding::wrong(subject, failure, "'tyr server' would say the same"),
    }
}

fn open_files() -> Finding {
    let subject = "open files";
    let advice = "raise it: LimitNOFILE=65536 in a systemd unit, or 'ulimit -n 65536' before the start";
    match getrlimit(Resource::Nofile).current {
        None => Finding::good(subject, "without a limit"),
        Some(limit) if limit < 1024 => {
            Finding::wrong(subject, format!("a process may have {limit}, too few for a node"), advice)
        }
        Some(limit) if limit < 8192 => Finding::warning(
            subject,
            format!("a process may have {limit}, enough for some hundred clients and segments"),
            advice,
        ),
        Some(limit) => Finding::good(subject, format!("a process may have {limit}")),
    }
}

/// Without io_uring small commits cost twice the processor time.
fn rings() -> Option<Finding> {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    Some(match disabled.trim() {
        "0" => Finding::good("io_uring", "the kernel allows it"),
        _ => Finding::warning(
            "io_uring",
            "the kernel refuses it; stores do without, at more processor time for each commit",
            "sysctl kernel.io_uring_disabled=0, if your rules allow it",
        ),
    })
}

/// Whether somebody can listen there, or the right one does already.
fn port(subject: &str, address: &str, answers: impl Fn() -> Result<(), String>) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(subject, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => match answers() {
            Ok(()) => Finding::good(subject, format!("a node runs at {address}")),
            Err(reason) => Finding::wrong(
                subject,
                format!("something listens at {address}, and does not answer this as a node: {reason}"),
                format!(
                    "if it is the node, see to its certificates and to who may ask it; else end it ('ss -ltnp' shows what it is), or \
                     choose another address with --{subject}"
                ),
            ),
        },
        Err(error) => Finding::wrong(
            subject,
            format!("cannot listen at {address}: {error}"),
            format!("name an address of this machine with --{subject}"),
        ),
    }
}

fn answers(settings: &Settings, address: &Address) -> Result<(), String> {
    let tls = settings.tls().ok().flatten();
    let credential = settings.access.credential().unwrap_or(Credential::None);
    let operator = Operator::new(std::slice::from_ref(address), tls.as_ref(), &credential, PATIENCE);
    match operator.and_then(|mut operator| operator.report()) {
        // It is a node, and says no.
        Err(error) if error.kind() != ErrorKind::Denied => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn answers_http(address: &str) -> Result<(), String> {
    use std::io::{Read, Write};
    let ask = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /live HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer)?;
        Ok(answer.ends_with("live\n"))
    };
    match ask() {
        Ok(true) => Ok(()),
        Ok(false) => Err("it does not say that it is one".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether others can find the address at all.
fn told_address(address: &str) -> Finding {
    let subject = "advertise";
    match address.to_socket_addrs() {
        Ok(mut found) => match found.next() {
            Some(found) if found.ip().is_loopback() => Finding::warning(
                subject,
                format!("{address} is the loopback interface: only programs on this machine reach the node"),
                "pass --listen or --advertise with an address that the other machines reach, if there are any",
            ),
            Some(found) => Finding::good(subject, format!("{address} is {}", found.ip())),
            None => Finding::wrong(
                subject,
                format!("{address} has no number"),
                "correct the name, or the name service",
            ),
        },
        Err(error) => Finding::wrong(
            subject,
            format!("the name in {address} is not found: {error}"),
            "correct the name, or the name service, for all machines of the cluster",
        ),
    }
}

/// Somebody on this machine answers within this time.
const PATIENCE: Duration = Duration::from_secs(3);

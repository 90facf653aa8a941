//! etcd: three members, each with its log on disk. Numbers are changed under its locks, or by its transactions under the condition that no
//! key has changed since it was read.
//!
//! It is asked in JSON by HTTP, which its members answer themselves: the library for its other interface would need a compiler of protocol
//! buffers to be built. Each lane has a connection, to one of the members in turn.

mod gateway;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    rc::Rc,
};

use crate::{
    case::Case,
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};
pub use gateway::Gateway;

/// The members' processes.
#[derive(Clone)]
pub struct Etcd(Rc<Members>);

struct Members {
    programs: Vec<Program>,
    ports: Vec<u16>,
    directories: Vec<PathBuf>,
}

impl Etcd {
    /// Starts members with new directories.
    pub async fn start(scratch: &Scratch) -> Outcome<Self> {
        let program = process::find("etcd", &[], "etcd-server")?;
        let mut members = Members { programs: Vec::new(), ports: Vec::new(), directories: Vec::new() };
        let ports: Vec<(u16, u16)> =
            process::free_ports(2 * MEMBERS)?.chunks(2).map(|two| (two[0], two[1])).collect();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let name = |number: usize| format!("member-{number}");
        let all =
            ports.iter().enumerate().map(|(number, (_, peer))| format!("{}={}", name(number), url(*peer)));
        let all = all.collect::<Vec<_>>().join(",");
        for (number, &(client, peer)) in ports.iter().enumerate() {
            let directory = scratch.directory(&format!("etcd-{number}"))?;
            let mut command = Command::new(&program);
            command.arg("--name").arg(name(number)).arg("--data-dir").arg(directory.join("data"));
            for flag in ["--listen-client-urls", "--advertise-client-urls"] {
                command.args([flag, &url(client)]);
            }
            for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
                command.args([flag, &url(peer)]);
            }
            command.args(["--initial-cluster", &all, "--initial-cluster-state", "new"]);
            command.args(["--logger", "zap", "--log-level", "error"]).stdout(Stdio::null());
            members.programs.push(Program::start("etcd", &mut command, process::log_file(&directory))?);
            members.ports.push(client);
            members.directories.push(directory);
        }
        for (program, &port) in members.programs.iter_mut().zip(&members.ports) {
            program.wait_until(async || gateway::is_healthy(port).await).await?;
        }
        Ok(Etcd(Rc::new(members)))
    }

    /// A connection to one of the members.
    pub async fn gateway(&self, number: usize) -> Outcome<Gateway> {
        Gateway::connect(self.0.ports[number % self.0.ports.len()]).await
    }
}

impl System for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn processes(&self) -> Vec<u32> {
        self.0.programs.iter().map(Program::id).collect()
    }

    fn places(&self) -> Vec<PathBuf> {
        self.0.directories.clone()
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Counter => vec![Manner::CompareAndWrite, Manner::Locks],
            work if work.is_transfer() => vec![Manner::CompareAndWrite, Manner::Locks],
            _ => Vec::new(),
        }
    }

    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for number in 0..clients * lanes {
                all.push(Box::new(Member { gateway: self.gateway(number).await?, manner }));
            }
            Ok(all)
        })
    }
}

/// A connection to a member.
struct Member {
    gateway: Gateway,
    manner: Manner,
}

impl Member {
    async fn change(&mut self, changes: Vec<(u64, i64)>) -> Outcome<()> {
        let keys: Vec<String> = changes.iter().map(|(blob, _)| self.key(*blob)).collect();
        let held = match self.manner {
            Manner::Locks => Some(self.gateway.lock(&keys).await?),
            _ => None,
        };
        loop {
            let found = self.gateway.read(&keys).await?;
            let puts = keys.iter().zip(&changes).zip(found);
            let puts = puts.map(|((key, (_, added)), old)| (key.clone(), old.number + added, old.revision));
            if self.gateway.write_unless_changed(&puts.collect::<Vec<_>>()).await? {
                break;
            }
            tokio::task::yield_now().await;
        }
        match held {
            Some(held) => self.gateway.unlock(held).await,
            None => Ok(()),
        }
    }

    /// Each manner has numbers of its own.
    fn key(&self, blob: u64) -> String {
        format!("{blob:x}{}", self.manner.name())
    }
}

impl Lane for Member {
    fn put(&mut self, _blob: u64, _payload: &'static [u8]) -> Doing<'_, ()> {
        crate::system::unsupported("put")
    }

    fn get(&mut self, _blob: u64, _size: usize) -> Doing<'_, usize> {
        crate::system::unsupported("get")
    }

    fn write(&mut self, _blob: u64, _offset: u64, _payload: &'static [u8]) -> Doing<'_, ()> {
        crate::system::unsupported("write")
    }

    fn read(&mut self, _blob: u64, _offset: u64, _size: usize) -> Doing<'_, usize> {
        crate::system::unsupported("read")
    }

    /// A number that is not there is zero.
    fn open(&mut self, _blob: u64) -> Doing<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(self.change(vec![(blob, 1)]))
    }

    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        Box::pin(self.change(changes))
    }

    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        Box::pin(async move {
            let keys = [self.key(blob)];
            Ok(self.gateway.read(&keys).await?.first().map(|found| found.number))
        })
    }
}

const MEMBERS: usize = 3;

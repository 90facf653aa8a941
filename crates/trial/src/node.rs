//! A node as a process: `tyr server` on a disk and in a network namespace of its own.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    disk::Disk,
    enclosure::Enclosure,
    failure::{Failure, Result, wait_until},
    network::End,
};

/// A node, whether it runs or not.
#[derive(Debug)]
pub struct Node {
    place: usize,
    enclosure: Enclosure,
    program: PathBuf,
    log: PathBuf,
    /// What it keeps.
    pub disk: Disk,
    running: Option<Running>,
    address: Option<String>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    said: Arc<Mutex<Said>>,
    listens: JoinHandle<()>,
}

/// What a node has said of itself since it was started.
#[derive(Clone, Debug, Default)]
struct Said {
    number: Option<u32>,
    address: Option<String>,
    http: Option<String>,
}

impl Node {
    /// A node that has never run, with an empty disk.
    pub fn new(
        enclosure: Enclosure,
        program: &Path,
        place: usize,
        disks: &Path,
        records: &Path,
    ) -> Result<Node> {
        Ok(Node {
            place,
            enclosure,
            program: program.to_owned(),
            log: records.join(format!("node-{place}.log")),
            disk: Disk::new(enclosure, disks, &format!("disk-{place}"))?,
            running: None,
            address: enclosure.has_links().then(|| format!("{}:{PORT}", End::Node(place).address())),
        })
    }

    /// Starts it. With nodes to join it belongs to their cluster; otherwise to the one that its disk says, or to a new one.
    pub fn start(&mut self, join: &[String]) -> Result<()> {
        assert!(self.running.is_none(), "a node runs once");
        let mut command = self.command();
        command.args(["server", "--json", "--log", "info", "--directory"]).arg(self.disk.directory());
        command.args(["--listen", self.address.as_deref().unwrap_or("127.0.0.1:0"), "--http", &self.http()]);
        // Nobody is there but the trial.
        command.arg("--insecure");
        command.args(["--partitions", PARTITIONS, "--replicas", REPLICAS, "--segment-size", "1MiB"]);
        if !join.is_empty() {
            command.args(["--join", &join.join(",")]);
        }
        let log = File::options().create(true).append(true).open(&self.log)?;
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn()?;
        let lines = BufReader::new(process.stdout.take().expect("it was asked for"));
        let said = Arc::new(Mutex::new(Said::default()));
        let hears = said.clone();
        let listens = std::thread::spawn(move || listen(lines, &hears));
        self.running = Some(Running { process, said, listens });
        Ok(())
    }

    /// The command, in the node's network. It ends with the trial at the latest.
    fn command(&self) -> Command {
        let mut command = Command::new(if self.enclosure.has_links() { "nsenter" } else { "setpriv" });
        if self.enclosure.has_links() {
            command.arg(format!("--net=/run/netns/{}", End::Node(self.place).namespace()));
        } else {
            command.args(["--pdeathsig", "KILL"]);
        }
        command.arg("--").arg(&self.program);
        command
    }

    fn http(&self) -> String {
        match self.enclosure.has_links() {
            true => format!("{}:{HTTP_PORT}", End::Node(self.place).address()),
            false => "127.0.0.1:0".to_owned(),
        }
    }

    /// Its place in the fleet.
    pub fn place(&self) -> usize {
        self.place
    }

    /// What its log is called.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Where it listens; the system chooses a port on the loopback address when it is started first.
    pub fn address(&mut self) -> Result<String> {
        if let Some(address) = &self.address {
            return Ok(address.clone());
        }
        wait_until("a node's address", || {
            self.check_runs()?;
            self.address = self.said().address;
            Ok(self.address.is_none().then(|| "it does not listen yet".to_owned()))
        })?;
        Ok(self.address.clone().expect("it was waited for"))
    }

    /// Its number in the cluster, once it has said it.
    pub fn number(&self) -> Option<u32> {
        self.said().number
    }

    fn said(&self) -> Said {
        self.running.as_ref().map(|running| running.said.lock().clone()).unwrap_or_default()
    }

    /// Whether it was started and not ended by the trial.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Fails if its process has ended by itself.
    pub fn check_runs(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(Failure::new(format!(
                "node {} has ended by itself, {status}; its log ends with:\n{}",
                self.place,
                self.last_lines()
            ))),
        }
    }

    /// How its process has ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.running {
            Some(running) => Ok(running.process.try_wait()?),
            None => Ok(None),
        }
    }

    /// The end of its log.
    pub fn last_lines(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.running.as_ref().expect("it runs").process.id()
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let running = self.running.as_ref().expect("it runs");
        Ok(kill_process(Pid::from_child(&running.process), signal)?)
    }

    /// Ends it at once.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        running.process.kill()?;
        running.process.wait()?;
        // The thread ends with the stream that it reads.
        let _panicked = running.listens.join();
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let mut running = self.running.take().expect("it runs");
        let status = running.process.wait()?;
        let _panicked = running.listens.join();
        Ok(status)
    }

    /// Whether it says that it serves; none if it does not answer.
    pub fn ready(&self) -> Option<bool> {
        Some(self.get("/ready")?.starts_with("HTTP/1.1 200"))
    }

    /// How many nodes vote in the cluster manager, if this one leads it.
    pub fn voters(&self) -> Option<usize> {
        let metrics = self.get("/metrics")?;
        let value =
            |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value("tyr_manager_voters ").filter(|_| value("tyr_manager_leads ") == Some(1))
    }

    /// What it answers by HTTP.
    fn get(&self, path: &str) -> Option<String> {
        let address: SocketAddr = self.said().http?.parse().ok()?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
        stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // There is nobody to tell any more.
        let _failed = self.kill();
    }
}

fn listen(lines: BufReader<ChildStdout>, said: &Mutex<Said>) {
    for line in lines.lines().map_while(std::io::Result::ok) {
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        let mut said = said.lock();
        said.number = event["node"].as_u64().and_then(|number| u32::try_from(number).ok()).or(said.number);
        said.address = text("address").or(said.address.take());
        said.http = text("http").or(said.http.take());
    }
}

const PORT: u16 = 7700;
const HTTP_PORT: u16 = 7701;
/// Enough that every node leads some.
const PARTITIONS: &str = "64";
const REPLICAS: &str = "3";
const LINES_SHOWN: usize = 20;
/// A node that can be reached answers as soon, however busy.
const ANSWER_MAX: Duration = Duration::from_secs(2);

//! What is printed and written: tables for people, JSON for programs.

use std::{fs, path::Path};

use serde::Serialize;

use crate::{
    aims::{self, Case},
    load::Measured,
    meter::Cost,
    system::{Manner, Outcome},
    work::Work,
};

/// Everything that was measured, and how.
#[derive(Default, Serialize)]
pub struct Report {
    /// Name and value, as given or by default.
    pub parameters: Vec<(String, String)>,
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
    idle: Vec<Idle>,
    #[serde(skip)]
    headed: bool,
}

/// What a contender did in a case.
pub struct Contended {
    /// The system's name.
    pub system: &'static str,
    /// Whether it is not Týr.
    pub is_peer: bool,
    /// How it did it.
    pub manner: Manner,
    /// One for each round.
    pub turns: Vec<Measured>,
}

/// Medians over the rounds of one contender in one case.
#[derive(Serialize)]
struct Row {
    work: Work,
    size: Option<usize>,
    in_flight: usize,
    replicas: u32,
    system: String,
    /// Operations per second.
    rate: f64,
    /// The same of each round, in order.
    rates: Vec<f64>,
    /// Payload bytes per second.
    byte_rate: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of the servers per operation.
    server_us: f64,
    /// Processor time of the client per operation.
    client_us: f64,
    /// Processors that the rest of the machine kept busy, the highest of the rounds.
    others: f64,
}

/// Týr and a peer in one case: medians over the rounds of what Týr has, divided by what the peer has.
#[derive(Serialize)]
struct Ratio {
    work: Work,
    size: Option<usize>,
    in_flight: usize,
    replicas: u32,
    system: String,
    peer: String,
    rate: f64,
    rate_aim: Option<f64>,
    p50: f64,
    p50_aim: Option<f64>,
    server: f64,
    server_aim: Option<f64>,
    client: f64,
}

/// What servers do while nothing is asked of them.
#[derive(Serialize)]
struct Idle {
    system: &'static str,
    replicas: u32,
    /// Thousandths of a processor.
    server_mils: f64,
}

impl Contended {
    fn name(&self) -> String {
        format!("{}{}", self.system, self.manner.name())
    }

    fn median(&self, value: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().map(value).collect())
    }

    fn median_ratio(&self, peer: &Contended, value: impl Fn(&Measured) -> f64) -> f64 {
        let rounds = self.turns.iter().zip(&peer.turns);
        median(rounds.map(|(own, peer)| quotient(value(own), value(peer))).collect())
    }
}

impl Report {
    /// Notes and prints a parameter.
    pub fn parameter(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        println!("{name:<12} {value}");
        self.parameters.push((name.into(), value));
    }

    /// Notes and prints what servers did while nothing was asked of them.
    pub fn idle(&mut self, system: &'static str, replicas: u32, cost: &Cost) {
        let server_mils = quotient(cost.server_seconds, cost.seconds) * 1e3;
        println!("{:<12} {system}, r{replicas}: {server_mils:.0}", "idle");
        self.headed = false;
        self.idle.push(Idle { system, replicas, server_mils });
    }

    /// Notes and prints what the contenders of a case did.
    pub fn case(&mut self, work: Work, size: usize, in_flight: usize, replicas: u32, all: Vec<Contended>) {
        if !self.headed {
            self.headed = true;
            println!(
                "\n{:<34} {:<24} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>6}",
                "", "", "op/s", "MB/s", "p50 us", "p99 us", "server us", "client us", "others"
            );
        }
        let has_size = work.has_sizes().then_some(size);
        let of = has_size.map_or_else(String::new, |size| format!(" {}", size_name(size)));
        let title = format!("{}{of}, {in_flight} in flight, r{replicas}", work.name());
        for contended in &all {
            let row = Row::new(work, has_size, in_flight, replicas, contended);
            row.print(&title);
            self.rows.push(row);
        }
        let (peers, own): (Vec<_>, Vec<_>) = all.iter().partition(|contended| contended.is_peer);
        for own in own {
            for peer in &peers {
                let case = Case {
                    work,
                    size,
                    in_flight,
                    replicas,
                    peer: peer.system,
                    peer_manner: peer.manner,
                    manner: own.manner,
                };
                let ratio = Ratio::new(case, has_size, own, peer);
                ratio.print();
                self.ratios.push(ratio);
            }
        }
    }

    /// Writes all of it as JSON.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, serde_json::to_vec_pretty(self)?)?;
        println!("\nwritten to {}", path.display());
        Ok(())
    }
}

impl Row {
    fn new(work: Work, size: Option<usize>, in_flight: usize, replicas: u32, of: &Contended) -> Row {
        let others = |turn: &Measured| quotient(turn.cost.other_seconds, turn.cost.seconds);
        Row {
            work,
            size,
            in_flight,
            replicas,
            system: of.name(),
            rate: of.median(Measured::rate),
            rates: of.turns.iter().map(Measured::rate).collect(),
            byte_rate: of.median(Measured::byte_rate),
            p50_us: of.median(|turn| turn.p50.as_secs_f64() * 1e6),
            p99_us: of.median(|turn| turn.p99.as_secs_f64() * 1e6),
            server_us: of.median(server_us),
            client_us: of.median(client_us),
            others: of.turns.iter().map(others).fold(0.0, f64::max),
        }
    }

    fn print(&self, title: &str) {
        println!(
            "{title:<34} {:<24} {:>8.0} {:>8.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6.2}",
            self.system,
            self.rate,
            self.byte_rate / 1e6,
            self.p50_us,
            self.p99_us,
            self.server_us,
            self.client_us,
            self.others,
        );
    }
}

impl Ratio {
    fn new(case: Case<'_>, size: Option<usize>, own: &Contended, peer: &Contended) -> Ratio {
        Ratio {
            work: case.work,
            size,
            in_flight: case.in_flight,
            replicas: case.replicas,
            system: own.name(),
            peer: peer.name(),
            rate: own.median_ratio(peer, Measured::rate),
            rate_aim: aims::rate(case),
            p50: own.median_ratio(peer, |turn| turn.p50.as_secs_f64()),
            p50_aim: aims::p50(case),
            server: own.median_ratio(peer, server_us),
            server_aim: aims::server(case),
            client: own.median_ratio(peer, client_us),
        }
    }

    fn print(&self) {
        let aim = |aim: Option<f64>| aim.map_or_else(String::new, |aim| format!(" (aim {aim})"));
        println!(
            "    {} : {}: rate {:.2}{}, p50 {:.2}{}, server time {:.2}{}, client time {:.2}",
            self.system,
            self.peer,
            self.rate,
            aim(self.rate_aim),
            self.p50,
            aim(self.p50_aim),
            self.server,
            aim(self.server_aim),
            self.client,
        );
    }
}

fn server_us(turn: &Measured) -> f64 {
    turn.each_us(turn.cost.server_seconds)
}

fn client_us(turn: &Measured) -> f64 {
    turn.each_us(turn.cost.client_seconds)
}

/// As people write sizes.
pub fn size_name(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// `a / b`, or 0 where that has no meaning.
fn quotient(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

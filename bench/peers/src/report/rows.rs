//! The lines of a report, as they are printed and written.

use serde::{Deserialize, Serialize};

use super::{Contended, quotient};
use crate::{
    aims::{self, Pairing},
    case::{Case, Durability},
    load::Measured,
};

/// Medians over the rounds of one contender in one case.
#[derive(Serialize, Deserialize)]
pub struct Row {
    /// What was done.
    #[serde(flatten)]
    pub case: Case,
    /// Who did it, in which manner, and what of it.
    pub system: String,
    /// Operations per second.
    pub rate: f64,
    /// The same of each round, in order.
    pub rates: Vec<f64>,
    /// Payload bytes per second.
    pub byte_rate: f64,
    /// Half of the operations took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// Processor time of the servers per operation.
    pub server_us: f64,
    /// Processor time of the client per operation.
    pub client_us: f64,
    /// Processors that the rest of the machine kept busy, the highest of the rounds.
    pub others: f64,
}

/// Týr and a peer in one case: medians over the rounds of what Týr has, divided by what the peer has.
#[derive(Serialize, Deserialize)]
pub struct Ratio {
    /// What was done.
    #[serde(flatten)]
    pub case: Case,
    /// Týr, and how it did it.
    pub system: String,
    /// The peer, and how it did it.
    pub peer: String,
    /// Of operations per second.
    pub rate: f64,
    /// What was aimed for.
    pub rate_aim: Option<f64>,
    /// Of the median latency.
    pub p50: f64,
    /// What was aimed for.
    pub p50_aim: Option<f64>,
    /// Of the servers' processor time per operation.
    pub server: f64,
    /// What was aimed for.
    pub server_aim: Option<f64>,
    /// Of the client's processor time per operation.
    pub client: f64,
}

/// A system and itself: medians over the rounds of what it did under a condition, divided by what it did without.
#[derive(Serialize, Deserialize)]
pub struct Share {
    /// What was done.
    #[serde(flatten)]
    pub case: Case,
    /// Under the condition.
    pub system: String,
    /// Without.
    pub without: String,
    /// Of operations per second.
    pub rate: f64,
    /// What was aimed for.
    pub rate_aim: Option<f64>,
    /// Of the median latency.
    pub p50: f64,
}

/// What servers do while nothing is asked of them.
#[derive(Serialize, Deserialize)]
pub struct Idle {
    /// Whose.
    pub system: String,
    /// Copies that it keeps.
    pub replicas: u32,
    /// When operations are acknowledged.
    pub durability: Durability,
    /// Thousandths of a processor.
    pub server_mils: f64,
}

impl Idle {
    pub(super) fn print(&self) {
        let Idle { system, replicas, server_mils, .. } = self;
        let memory = if self.durability == Durability::Memory { ", memory" } else { "" };
        println!("{:<12} {system}, r{replicas}{memory}: {server_mils:.0}", "idle");
    }
}

impl Row {
    pub(super) fn new(case: Case, of: &Contended) -> Row {
        let others = |turn: &Measured| quotient(turn.cost.other_seconds, turn.cost.seconds);
        Row {
            case,
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

    pub(super) fn print_heading() {
        println!(
            "\n{:<42} {:<28} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "", "", "op/s", "MB/s", "p50 us", "p99 us", "server us", "client us", "others"
        );
    }

    pub(super) fn print(&self) {
        println!(
            "{:<42} {:<28} {:>8.0} {:>8.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6.2}",
            self.case.title(),
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
    pub(super) fn new(pairing: Pairing<'_>, own: &Contended, peer: &Contended) -> Ratio {
        Ratio {
            case: pairing.case,
            system: own.name(),
            peer: peer.name(),
            rate: own.median_ratio(peer, Measured::rate),
            rate_aim: aims::rate(pairing),
            p50: own.median_ratio(peer, |turn| turn.p50.as_secs_f64()),
            p50_aim: aims::p50(pairing),
            server: own.median_ratio(peer, server_us),
            server_aim: aims::server(pairing),
            client: own.median_ratio(peer, client_us),
        }
    }

    pub(super) fn print(&self) {
        println!(
            "    {} : {}: rate {:.2}{}, p50 {:.2}{}, server time {:.2}{}, client time {:.2}",
            self.system,
            self.peer,
            self.rate,
            aim_name(self.rate_aim),
            self.p50,
            aim_name(self.p50_aim),
            self.server,
            aim_name(self.server_aim),
            self.client,
        );
    }
}

impl Share {
    pub(super) fn new(case: Case, under: &Contended, without: &Contended) -> Share {
        let rate_aim = if under.is_peer { None } else { aims::in_transactions(&case) };
        Share {
            case,
            system: under.name(),
            without: without.name(),
            rate: under.median_ratio(without, Measured::rate),
            rate_aim,
            p50: under.median_ratio(without, |turn| turn.p50.as_secs_f64()),
        }
    }

    pub(super) fn print(&self) {
        println!(
            "    {} : {}: rate {:.2}{}, p50 {:.2}",
            self.system,
            self.without,
            self.rate,
            aim_name(self.rate_aim),
            self.p50
        );
    }
}

fn aim_name(aim: Option<f64>) -> String {
    aim.map_or_else(String::new, |aim| format!(" (aim {aim})"))
}

fn server_us(turn: &Measured) -> f64 {
    turn.each_us(turn.cost.server_seconds)
}

fn client_us(turn: &Measured) -> f64 {
    turn.each_us(turn.cost.client_seconds)
}

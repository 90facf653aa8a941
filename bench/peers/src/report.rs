//! What is printed and written: tables for people, JSON for programs.

mod rows;

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    aims::Pairing,
    case::{Case, Durability},
    course::Course,
    load::Measured,
    meter::Cost,
    plot,
    system::{Manner, Outcome},
};
pub use rows::{Idle, Ratio, Row, Share};

/// Everything that was measured, and how.
#[derive(Default, Serialize, Deserialize)]
pub struct Report {
    /// Name and value, as given or by default.
    pub parameters: Vec<(String, String)>,
    /// What contenders did.
    pub rows: Vec<Row>,
    /// Týr and its peers.
    pub ratios: Vec<Ratio>,
    /// A system and itself, doing the same in another way.
    pub shares: Vec<Share>,
    /// What systems did in a long time.
    pub courses: Vec<Course>,
    /// What did not work.
    pub failures: Vec<String>,
    /// Servers of which nothing is asked.
    pub idle: Vec<Idle>,
    #[serde(skip)]
    is_headed: bool,
}

/// What was done at a time, by some of a contender's callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Everything, by all.
    Whole,
    /// Reads, while nobody wrote.
    ReadersAlone,
    /// Writes, while nobody read.
    WritersAlone,
    /// Reads, while others wrote.
    Readers,
    /// Writes, while others read.
    Writers,
}

/// What a contender did in a case.
pub struct Contended {
    /// The system's name.
    pub system: &'static str,
    /// Whether it is not Týr.
    pub is_peer: bool,
    /// How it did it.
    pub manner: Manner,
    /// What of it.
    pub part: Part,
    /// One for each round.
    pub turns: Vec<Measured>,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Whole => "",
            Part::ReadersAlone => ", readers alone",
            Part::WritersAlone => ", writers alone",
            Part::Readers => ", readers",
            Part::Writers => ", writers",
        }
    }

    /// What it is compared with of the same system.
    fn alone(self) -> Option<Part> {
        match self {
            Part::Readers => Some(Part::ReadersAlone),
            Part::Writers => Some(Part::WritersAlone),
            _ => None,
        }
    }
}

impl Contended {
    fn name(&self) -> String {
        format!("{}{}{}", self.system, self.manner.name(), self.part.name())
    }

    fn median(&self, value: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().map(value).collect())
    }

    fn median_ratio(&self, other: &Contended, value: impl Fn(&Measured) -> f64) -> f64 {
        let rounds = self.turns.iter().zip(&other.turns);
        median(rounds.map(|(own, other)| quotient(value(own), value(other))).collect())
    }

    /// Whether the same was done by this contender of Týr and by a peer.
    fn is_like(&self, peer: &Contended) -> bool {
        self.part == peer.part && (self.manner == Manner::Separately) == (peer.manner == Manner::Separately)
    }

    /// Whether this is what the other one did, under a condition whose price is of interest.
    fn is_burdened(&self, other: &Contended) -> bool {
        let is_beside = self.part.alone() == Some(other.part) && self.manner == other.manner;
        let is_together = other.manner == Manner::Separately && self.manner != Manner::Separately;
        self.system == other.system && (is_beside || is_together)
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
    pub fn idle(&mut self, system: &'static str, replicas: u32, durability: Durability, cost: &Cost) {
        let server_mils = quotient(cost.server_seconds, cost.seconds) * 1e3;
        let idle = Idle { system: system.into(), replicas, durability, server_mils };
        idle.print();
        self.is_headed = false;
        self.idle.push(idle);
    }

    /// Notes and prints what the contenders of a case did.
    pub fn case(&mut self, case: Case, all: Vec<Contended>) {
        if !self.is_headed {
            self.is_headed = true;
            Row::print_heading();
        }
        for contended in &all {
            let row = Row::new(case, contended);
            row.print();
            self.rows.push(row);
        }
        let (peers, own): (Vec<_>, Vec<_>) = all.iter().partition(|contended| contended.is_peer);
        for own in own {
            for peer in peers.iter().filter(|peer| own.is_like(peer)) {
                let pairing =
                    Pairing { case, peer: peer.system, peer_manner: peer.manner, manner: own.manner };
                let ratio = Ratio::new(pairing, own, peer);
                ratio.print();
                self.ratios.push(ratio);
            }
        }
        for contended in &all {
            for other in all.iter().filter(|other| contended.is_burdened(other)) {
                let share = Share::new(case, contended, other);
                share.print();
                self.shares.push(share);
            }
        }
    }

    /// Notes and prints what did not work.
    pub fn failure(&mut self, failure: String) {
        println!("{failure}");
        self.failures.push(failure);
    }

    /// Notes and prints what a system did in a long time.
    pub fn course(&mut self, course: Course) {
        self.is_headed = false;
        course.print();
        self.courses.push(course);
    }

    /// Draws all of it.
    pub fn draw(&self, path: &Path) -> Outcome<()> {
        make_room(path)?;
        fs::write(path, plot::page(self))?;
        println!("drawn in {}", path.display());
        Ok(())
    }

    /// What was written before.
    pub fn read(path: &Path) -> Outcome<Self> {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Writes all of it as JSON.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        make_room(path)?;
        fs::write(path, serde_json::to_vec_pretty(self)?)?;
        println!("\nwritten to {}", path.display());
        Ok(())
    }
}

/// Makes the directory of a file.
fn make_room(path: &Path) -> Outcome<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    Ok(())
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
pub fn quotient(a: f64, b: f64) -> f64 {
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

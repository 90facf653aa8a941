//! What every part of the benchmark needs, and how contenders are compared.
//!
//! Contenders take turns: in every round each one runs once. The ratio to the first contender is taken within a round, then the
//! median over the rounds; so what slows the machine down for a while touches both sides.

use std::{path::PathBuf, time::Duration};

use crate::{
    load::Measured,
    meter::Cost,
    payload::Pool,
    report::{Report, Row},
    scratch::Scratch,
    system::{Durability, Outcome, Setting, System, Temperature},
    systems::{Family, Kind},
};

/// The parameters and the report in the making.
pub struct Bench {
    /// Where the stores lie.
    pub directory: PathBuf,
    /// Which systems take part.
    pub families: Vec<Family>,
    /// How long one contender runs in one round.
    pub time: Duration,
    /// Rounds per case; medians are over these.
    pub rounds: usize,
    /// Bytes of the data sets that are overwritten and read.
    pub set_size: u64,
    /// Blobs that [`crate::parts::Part::TenMillion`] loads.
    pub blobs: u64,
    /// What the name of a case must contain to be measured.
    pub only: String,
    /// Payload.
    pub pool: Pool,
    /// Results so far.
    pub report: Report,
}

/// One contender's turn.
pub struct Run {
    /// The load.
    pub measured: Measured,
    /// The background work that was left over.
    pub settling: Cost,
}

/// An open system in its own directory.
pub struct Opened {
    /// What it is.
    pub kind: Kind,
    /// The store; before the directory, so that it is closed before that is removed.
    pub system: Box<dyn System>,
    /// How it was opened.
    pub setting: Setting,
    /// Where it lies.
    pub scratch: Scratch,
}

impl Opened {
    /// Waits for background work; its cost.
    pub fn settle(&self) -> Outcome<Cost> {
        let meter = crate::meter::Meter::start()?;
        self.system.settle()?;
        meter.cost()
    }

    /// Closes the system and opens it again on what it left.
    pub fn reopen(self) -> Outcome<Opened> {
        let Opened { kind, system, setting, scratch } = self;
        system.close()?;
        Ok(Opened { kind, system: kind.reopen(&setting)?, setting, scratch })
    }

    /// Runs a load, then waits for the background work that it left.
    pub fn run(&self, load: impl FnOnce(&dyn System) -> Outcome<Measured>) -> Outcome<Run> {
        let measured = load(&*self.system)?;
        Ok(Run { measured, settling: self.settle()? })
    }
}

/// A name and a turn.
pub struct Contender<'a> {
    /// As printed.
    pub name: String,
    /// Runs once.
    pub turn: Box<dyn FnMut() -> Outcome<Run> + 'a>,
}

impl<'a> Contender<'a> {
    /// A system that is opened anew in every turn, or is open already.
    pub fn new(kind: Kind, turn: impl FnMut() -> Outcome<Run> + 'a) -> Self {
        Contender { name: kind.name().into(), turn: Box::new(turn) }
    }
}

impl Bench {
    /// Those of the systems that take part.
    pub fn chosen(&self, kinds: &[Kind]) -> Vec<Kind> {
        kinds.iter().copied().filter(|kind| self.families.contains(&kind.family())).collect()
    }

    /// Opens a system in a new directory.
    pub fn open(&self, kind: Kind, durability: Durability, temperature: Temperature) -> Outcome<Opened> {
        let scratch = Scratch::new(&self.directory)?;
        let setting = Setting { directory: scratch.path().to_owned(), durability, temperature };
        let system = kind.open(&setting).map_err(|error| format!("cannot open {}: {error}", kind.name()))?;
        Ok(Opened { kind, system, setting, scratch })
    }

    /// Opens a system for durable writes.
    pub fn open_durable(&self, kind: Kind) -> Outcome<Opened> {
        self.open(kind, Durability::Disk, Temperature::Usual)
    }

    /// Runs the contenders in turns; a row for each. The first one is what the others are compared with.
    pub fn compare(
        &self,
        part: &'static str,
        case: &str,
        mut contenders: Vec<Contender<'_>>,
    ) -> Outcome<Vec<Row>> {
        let mut runs: Vec<Vec<Run>> = contenders.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.rounds {
            for (contender, runs) in contenders.iter_mut().zip(&mut runs) {
                let run = (contender.turn)();
                runs.push(run.map_err(|error| format!("{part}, {case}, {}: {error}", contender.name))?);
            }
        }
        let row = |(index, contender): (usize, &Contender<'_>)| {
            let first = (index > 0).then(|| runs[0].as_slice());
            Row::new(part, case, &contender.name, &runs[index], first)
        };
        Ok(contenders.iter().enumerate().map(row).collect())
    }
}

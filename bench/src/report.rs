//! What is printed and written: a table for people, JSON for programs.

use std::{fs, path::Path};

use serde::Serialize;

use crate::{bench::Run, load::Measured, system::Outcome};

/// Everything that was measured, and how.
#[derive(Default, Serialize)]
pub struct Report {
    /// Name and value, as given or by default.
    pub parameters: Vec<(String, String)>,
    rows: Vec<Row>,
    passes: Vec<Pass>,
    facts: Vec<Fact>,
    #[serde(skip)]
    heading: Option<&'static str>,
}

/// Medians over the rounds of one contender in one case.
#[derive(Clone, Serialize)]
pub struct Row {
    part: &'static str,
    case: String,
    system: String,
    /// Operations per second.
    rate: f64,
    /// The same of each round, in order.
    rates: Vec<f64>,
    /// Payload bytes per second.
    byte_rate: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time per operation.
    processor_us: f64,
    /// Processors that the rest of the machine kept busy meanwhile, the highest of the rounds: if this is not small, distrust the row.
    others: f64,
    /// Bytes written per payload byte, until the last operation was acknowledged.
    amplification: f64,
    /// Bytes written per payload byte, the background work that followed included.
    amplification_settled: f64,
    /// Seconds of background work that followed.
    settling_seconds: f64,
    /// Median over the rounds of this rate divided by the first contender's rate in the same round.
    ratio: Option<f64>,
}

/// One pass of a data set that is overwritten again and again.
#[derive(Clone, Serialize)]
pub struct Pass {
    /// What is overwritten how.
    pub case: String,
    /// Who.
    pub system: String,
    /// 0 is the first filling.
    pub pass: u32,
    /// Operations per second.
    pub rate: f64,
    /// Payload bytes per second.
    pub byte_rate: f64,
    /// Bytes on the disk at its end, background work going on.
    pub disk_use: u64,
    /// Bytes on the disk per byte of the data set.
    pub disk_use_ratio: f64,
    /// Bytes written per payload byte.
    pub amplification: f64,
}

/// A single figure.
#[derive(Clone, Serialize)]
pub struct Fact {
    /// Who.
    pub system: String,
    /// What was measured.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
}

impl Fact {
    /// A figure.
    pub fn new(system: &str, name: &str, value: f64, unit: &str) -> Self {
        Fact { system: system.into(), name: name.into(), value, unit: unit.into() }
    }
}

impl Row {
    /// Takes the medians; `first` are the runs of the contender to compare with.
    pub fn new(part: &'static str, case: &str, system: &str, runs: &[Run], first: Option<&[Run]>) -> Self {
        let of = |value: fn(&Run) -> f64| median(runs.iter().map(value).collect());
        let ratios = |first: &[Run]| {
            runs.iter()
                .zip(first)
                .map(|(run, first)| quotient(run.measured.rate(), first.measured.rate()))
                .collect()
        };
        Row {
            part,
            case: case.into(),
            system: system.into(),
            rate: of(|run| run.measured.rate()),
            rates: runs.iter().map(|run| run.measured.rate()).collect(),
            byte_rate: of(|run| run.measured.byte_rate()),
            p50_us: of(|run| run.measured.p50.as_secs_f64() * 1e6),
            p99_us: of(|run| run.measured.p99.as_secs_f64() * 1e6),
            processor_us: of(|run| run.measured.processor_us()),
            others: runs.iter().map(others).fold(0.0, f64::max),
            amplification: of(|run| amplification(&run.measured, 0)),
            amplification_settled: of(|run| amplification(&run.measured, run.settling.written)),
            settling_seconds: of(|run| run.settling.seconds),
            ratio: first.map(|first| median(ratios(first))),
        }
    }
}

fn others(run: &Run) -> f64 {
    quotient(run.measured.cost.other_seconds, run.measured.cost.seconds)
}

/// Bytes written per payload byte, with what was written afterwards.
pub fn amplification(measured: &Measured, later: u64) -> f64 {
    quotient((measured.cost.written + later) as f64, measured.bytes as f64)
}

impl Report {
    /// Notes and prints a parameter.
    pub fn parameter(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        println!("{name:<12} {value}");
        self.parameters.push((name.into(), value));
    }

    /// Notes and prints rows.
    pub fn rows(&mut self, rows: Vec<Row>) {
        for row in rows {
            self.row(row);
        }
    }

    fn row(&mut self, row: Row) {
        if self.heading != Some(row.part) {
            self.heading = Some(row.part);
            println!(
                "\n{:<40} {:<27} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7} {:>7} {:>6} {:>6}",
                row.part,
                "",
                "op/s",
                "MB/s",
                "p50 us",
                "p99 us",
                "cpu us",
                "B/B",
                "settled",
                "others",
                "ratio"
            );
        }
        println!(
            "{:<40} {:<27} {:>9.0} {:>9.1} {:>9.1} {:>9.1} {:>8.2} {:>7} {:>7} {:>6.2} {:>6}",
            row.case,
            row.system,
            row.rate,
            row.byte_rate / 1e6,
            row.p50_us,
            row.p99_us,
            row.processor_us,
            short(row.amplification),
            short(row.amplification_settled),
            row.others,
            row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        );
        self.rows.push(row);
    }

    /// Notes and prints a pass.
    pub fn pass(&mut self, pass: Pass) {
        if pass.pass == 0 {
            println!(
                "\n{:<40} {:<12} {:>4} {:>9} {:>9} {:>9} {:>9} {:>7}",
                pass.case, pass.system, "pass", "op/s", "MB/s", "disk MB", "disk/set", "B/B"
            );
        }
        println!(
            "{:<40} {:<12} {:>4} {:>9.0} {:>9.1} {:>9.1} {:>9.2} {:>7}",
            "",
            "",
            pass.pass,
            pass.rate,
            pass.byte_rate / 1e6,
            pass.disk_use as f64 / 1e6,
            pass.disk_use_ratio,
            short(pass.amplification),
        );
        self.passes.push(pass);
    }

    /// Notes and prints a figure.
    pub fn fact(&mut self, fact: Fact) {
        println!("{:<12} {:<50} {:>14.2} {}", fact.system, fact.name, fact.value, fact.unit);
        self.facts.push(fact);
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

/// `a / b`, or 0 where that has no meaning.
pub fn quotient(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn short(value: f64) -> String {
    if value == 0.0 { "-".into() } else { format!("{value:.2}") }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

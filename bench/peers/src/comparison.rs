//! Contenders that take turns.
//!
//! In every round each contender of a case runs once. Ratios are taken within a round, then the median over the rounds; so what slows the
//! machine down for a while touches both sides.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    load::{Callers, Limit, Measured},
    meter::Meter,
    payload::Pool,
    report::{Contended, Report},
    system::{Manner, Outcome, System},
    work::{Job, Work},
};

/// The systems that are up, and how they are compared.
pub struct Comparison<'a> {
    /// Peers first; the last one is Týr.
    pub systems: Vec<Box<dyn System>>,
    /// Copies that replicating systems keep.
    pub replicas: u32,
    /// How long one contender runs in one round.
    pub time: Duration,
    /// Rounds per case.
    pub rounds: usize,
    /// Bytes of a data set.
    pub set_size: u64,
    /// Clients of works that have several.
    pub clients: usize,
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
    turns: Vec<Measured>,
}

impl Comparison<'_> {
    /// What the servers do while nothing is asked of them.
    pub async fn idle(&mut self) -> Outcome<()> {
        for system in &self.systems {
            let meter = Meter::start(system.processes())?;
            tokio::time::sleep(IDLE_TIME).await;
            self.report.idle(system.name(), self.replicas, &meter.cost()?);
        }
        Ok(())
    }

    /// Compares all that can do the work; `in_flight` counts for works that have sizes.
    pub async fn case(&mut self, work: Work, size: usize, in_flight: usize) -> Outcome<()> {
        let job = Job { work, size, set_size: self.set_size, is_filling: false, pool: self.pool };
        let (clients, lanes) = if work.has_sizes() { (1, in_flight) } else { (self.clients, 1) };
        let mut contenders = Vec::new();
        for index in 0..self.systems.len() {
            for manner in self.systems[index].manners(work, size) {
                let name = self.name(index, manner);
                let contender = self.prepare(job, index, manner, clients, lanes).await;
                contenders.push(contender.map_err(|error| format!("{}, {name}: {error}", work.name()))?);
            }
        }
        for _ in 0..self.rounds {
            for contender in &mut contenders {
                let turn = self.turn(job, contender).await;
                let name = self.name(contender.system, contender.manner);
                turn.map_err(|error| format!("{}, {name}: {error}", work.name()))?;
            }
        }
        self.tell(job, clients * lanes, contenders);
        Ok(())
    }

    fn name(&self, system: usize, manner: Manner) -> String {
        format!("{}{}", self.systems[system].name(), manner.name())
    }

    /// Connects, makes the data set if the system has it not yet, and warms up.
    async fn prepare(
        &mut self,
        job: Job,
        index: usize,
        manner: Manner,
        clients: usize,
        lanes: usize,
    ) -> Outcome<Contender> {
        let system = &self.systems[index];
        // Counters are kept in another way in each manner, blobs are not.
        let keeper = (!job.work.has_sizes()).then(|| manner.name());
        if self.filled.insert((index, keeper, job.set())) && job.fillings() > 0 {
            let mut fillers = Callers::new(system.connect(manner, 1, FILLERS).await?);
            let filling = Job { is_filling: true, ..job };
            let limit = Limit::Operations(job.fillings().div_ceil(FILLERS as u64));
            fillers.run(&filling, limit, Vec::new()).await?;
        }
        let mut callers = Callers::new(system.connect(manner, clients, lanes).await?);
        callers.run(&job, Limit::Time(WARM_UP_TIME), Vec::new()).await?;
        Ok(Contender { system: index, manner, callers, turns: Vec::new() })
    }

    async fn turn(&self, job: Job, contender: &mut Contender) -> Outcome<()> {
        let before = job.sum(contender.callers.lane()?).await?;
        let servers = self.systems[contender.system].processes();
        let measured = contender.callers.run(&job, Limit::Time(self.time), servers).await?;
        let after = job.sum(contender.callers.lane()?).await?;
        if let (Some(before), Some(after)) = (before, after) {
            let expected = before + job.sum_of(measured.operations);
            if expected != after {
                return Err(format!("the sum is {after}, and should be {expected}").into());
            }
        }
        contender.turns.push(measured);
        Ok(())
    }

    fn tell(&mut self, job: Job, in_flight: usize, contenders: Vec<Contender>) {
        let tyr = self.systems.len() - 1;
        let contended = |contender: Contender| Contended {
            system: self.systems[contender.system].name(),
            is_peer: contender.system != tyr,
            manner: contender.manner,
            turns: contender.turns,
        };
        let contended = contenders.into_iter().map(contended).collect();
        self.report.case(job.work, job.size, in_flight, self.replicas, contended);
    }
}

const FILLERS: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(1);
const WARM_UP_TIME: Duration = Duration::from_millis(300);

//! The loops of the benchmark in Rust, on the store that Python has open: what Python is compared with.

use std::{hint::black_box, time::Instant};

use futures::{StreamExt, stream::FuturesUnordered};
use pyo3::prelude::*;
use tyr_client::{Operand, Result, Transform, blocking};

use crate::{
    errors::{invalid, raise},
    face::wait,
    keyspace::{AioKeyspace, Keyspace},
    store::Store,
};

/// What a round does.
struct Round {
    store: blocking::Store,
    keyspace: blocking::Keyspace,
    asynchronous: tyr_client::Keyspace,
    count: usize,
    payload: Vec<u8>,
    batch: usize,
}

/// Does something so many times, and results in the seconds that it took; `None` if it is not known.
#[pyfunction]
#[pyo3(name = "_rounds")]
#[allow(clippy::too_many_arguments, reason = "one for each parameter of the benchmark")]
pub fn rounds(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    keyspace: &Bound<'_, Keyspace>,
    asynchronous: &Bound<'_, AioKeyspace>,
    what: &str,
    count: usize,
    size: usize,
    batch: usize,
) -> PyResult<f64> {
    let round = Round {
        store: blocking::Store::from(store.get().handle(py)?),
        keyspace: blocking::Keyspace::from((*keyspace.get().usable(py)?).clone()),
        asynchronous: (*asynchronous.get().usable(py)?).clone(),
        count,
        payload: vec![7; size],
        batch,
    };
    let ran = py.detach(|| {
        let begun = Instant::now();
        let done = round.run(what);
        done.map(|is_known| is_known.then(|| begun.elapsed().as_secs_f64()))
    });
    ran.map_err(|error| raise(py, &error))?.ok_or_else(|| invalid(py, format!("nothing is called '{what}'")))
}

impl Round {
    fn run(&self, what: &str) -> Result<bool> {
        let Round { keyspace, payload, count, .. } = self;
        let (count, payload) = (*count, &payload[..]);
        match what {
            "stat" => {
                (0..count).try_for_each(|_| keyspace.stat("small").map(|stat| drop(black_box(stat))))?
            }
            "read" => {
                (0..count).try_for_each(|_| keyspace.read("small", ..).map(|bytes| drop(black_box(bytes))))?
            }
            "put" => (0..count).try_for_each(|_| keyspace.put("put", payload))?,
            "append" => (0..count).try_for_each(|_| keyspace.append("log", payload).map(drop))?,
            "transform" => {
                let add = Transform::add(Operand::U64(1));
                (0..count).try_for_each(|_| keyspace.transform("n", 0, add).map(drop))?;
            }
            "put large" => (0..count).try_for_each(|_| keyspace.put("large", payload))?,
            "read large" => {
                (0..count)
                    .try_for_each(|_| keyspace.read("large", ..).map(|bytes| drop(black_box(bytes))))?;
            }
            "read large into a buffer" => {
                let mut buffer = vec![0; payload.len()];
                (0..count).try_for_each(|_| keyspace.read_into("large", 0, &mut buffer).map(drop))?;
            }
            "read many" => {
                let keys = self.keys();
                for _ in 0..count {
                    let read = keys.iter().map(|key| keyspace.read(key, ..)).collect::<Result<Vec<_>>>()?;
                    black_box(read);
                }
            }
            "put many" => {
                let keys = self.keys();
                for _ in 0..count {
                    let mut transaction = self.store.begin();
                    keys.iter().try_for_each(|key| transaction.put(keyspace, key, payload))?;
                    let _outcome = transaction.commit()?;
                }
            }
            "asyncio put" => self.at_once(async |keyspace, key| keyspace.put(key, payload).await)?,
            "asyncio read" => {
                self.at_once(async |keyspace, key| {
                    keyspace.read(key, ..).await.map(|bytes| drop(black_box(bytes)))
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn keys(&self) -> Vec<String> {
        (0..self.batch).map(|number| format!("many/{number}")).collect()
    }

    /// As many tasks as there are in a batch, each of which does its share one after the other.
    fn at_once(&self, operation: impl AsyncFn(&tyr_client::Keyspace, &str) -> Result<()>) -> Result<()> {
        let keys = self.keys();
        let (keyspace, operation) = (&self.asynchronous, &operation);
        let task = async |key: &String| {
            for _ in 0..self.count / self.batch {
                operation(keyspace, key).await?;
            }
            Ok::<(), tyr_client::Error>(())
        };
        let mut tasks: FuturesUnordered<_> = keys.iter().map(task).collect();
        wait(async {
            while let Some(ended) = tasks.next().await {
                ended?;
            }
            Ok(())
        })
    }
}

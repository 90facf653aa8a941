//! Redis with `appendfsync always`: it syncs its log before it answers. It keeps one copy, and all of it in memory. If everything is to be
//! in memory only it has no log.
//!
//! Each client has one connection, over which its requests are pipelined.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use ::redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection, cmd, pipe};

use super::Setting;
use crate::{
    case::{Case, Durability},
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};

/// The server's process.
pub struct Redis {
    program: Program,
    port: u16,
    directory: PathBuf,
}

impl Redis {
    /// Starts a server with a new directory.
    pub async fn start(setting: &Setting, scratch: &Scratch) -> Outcome<Self> {
        let port = process::free_port()?;
        let directory = scratch.directory("redis")?;
        let mut command = Command::new(process::find("redis-server", &[], "redis-server")?);
        let log = if setting.durability == Durability::Disk { "yes" } else { "no" };
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", log]);
        command.args(["--appendfsync", "always", "--dir"]).arg(&directory);
        command.stdout(Stdio::null());
        let mut program = Program::start("redis-server", &mut command, process::log_file(&directory))?;
        program.wait_until(async || process::listens(port).await).await?;
        Ok(Redis { program, port, directory })
    }
}

impl System for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.program.id()]
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Batch => vec![Manner::Separately, Manner::Transaction],
            _ => vec![Manner::Usual],
        }
    }

    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let server = Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for _ in 0..clients {
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let connection = server.get_multiplexed_async_connection_with_config(&config).await?;
                let lane =
                    || Box::new(Connection { connection: connection.clone(), manner }) as Box<dyn Lane>;
                all.extend((0..lanes).map(|_| lane()));
            }
            Ok(all)
        })
    }
}

/// A connection, which the lanes of its client share.
struct Connection {
    connection: MultiplexedConnection,
    manner: Manner,
}

impl Lane for Connection {
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            Ok(cmd("SET").arg(&key(blob)).arg(payload).query_async(&mut self.connection).await?)
        })
    }

    fn get(&mut self, blob: u64, _size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let bytes: Vec<u8> = cmd("GET").arg(&key(blob)).query_async(&mut self.connection).await?;
            Ok(bytes.len())
        })
    }

    fn write(&mut self, blob: u64, offset: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            Ok(cmd("SETRANGE")
                .arg(&key(blob))
                .arg(offset)
                .arg(payload)
                .exec_async(&mut self.connection)
                .await?)
        })
    }

    fn read(&mut self, blob: u64, offset: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let last = offset + size as u64 - 1;
            let bytes: Vec<u8> = cmd("GETRANGE")
                .arg(&key(blob))
                .arg(offset)
                .arg(last)
                .query_async(&mut self.connection)
                .await?;
            Ok(bytes.len())
        })
    }

    fn append(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            // The answer is the new size, so the offset is known.
            let _size: u64 =
                cmd("APPEND").arg(&key(blob)).arg(payload).query_async(&mut self.connection).await?;
            Ok(())
        })
    }

    fn open(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(
            async move { Ok(cmd("SETNX").arg(&key(blob)).arg(0).exec_async(&mut self.connection).await?) },
        )
    }

    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move { Ok(cmd("INCR").arg(&key(blob)).exec_async(&mut self.connection).await?) })
    }

    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        Box::pin(async move {
            let mut all = pipe();
            all.atomic();
            for (blob, added) in changes {
                all.cmd("INCRBY").arg(&key(blob)).arg(added);
            }
            Ok(all.exec_async(&mut self.connection).await?)
        })
    }

    fn put_all(&mut self, puts: Vec<(u64, &'static [u8])>) -> Doing<'_, ()> {
        Box::pin(async move {
            let mut all = pipe();
            if self.manner == Manner::Transaction {
                all.atomic();
            }
            for (blob, payload) in puts {
                all.cmd("SET").arg(&key(blob)).arg(payload);
            }
            Ok(all.exec_async(&mut self.connection).await?)
        })
    }

    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        Box::pin(async move {
            let value: Option<i64> = cmd("GET").arg(&key(blob)).query_async(&mut self.connection).await?;
            Ok(Some(value.unwrap_or(0)))
        })
    }
}

fn key(blob: u64) -> [u8; 8] {
    blob.to_be_bytes()
}

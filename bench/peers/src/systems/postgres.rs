//! PostgreSQL with its defaults, so that a commit is synced before it is answered. It keeps one copy.
//!
//! Whole blobs and counters are rows; what is read in part is a large object. Each lane has a connection with prepared statements.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
};

use futures_util::future::try_join_all;
use tokio_postgres::{Client, NoTls, Statement, error::SqlState};

use crate::{
    case::Case,
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};

/// The server's processes.
pub struct Postgres {
    program: Program,
    port: u16,
    directory: PathBuf,
}

impl Postgres {
    /// Starts a server with a new directory.
    pub async fn start(scratch: &Scratch) -> Outcome<Self> {
        let port = process::free_port()?;
        let place = scratch.directory("postgres")?;
        let user = User::of_server()?;
        if let Some(user) = &user {
            chown(&place, Some(user.id), Some(user.group))?;
        }
        let data = place.join("data");
        let mut command = user_command("initdb", user.as_ref())?;
        command.args([
            "--auth",
            "trust",
            "--username",
            USER,
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--pgdata",
        ]);
        process::run(command.arg(&data).current_dir(&place).stdout(Stdio::null()))?;
        let mut command = user_command("postgres", user.as_ref())?;
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "unix_socket_directories=", "-D"]);
        command.arg(&data).current_dir(&place).stdout(Stdio::null());
        let mut program = Program::start("postgres", &mut command, process::log_file(&place))?;
        program.wait_until(async || connect(port).await.is_ok()).await?;
        connect(port).await?.batch_execute(TABLES).await?;
        Ok(Postgres { program, port, directory: place })
    }
}

/// Whom the server runs as: it refuses root.
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// That of the package, if this program runs as root; else this program's.
    fn of_server() -> Outcome<Option<User>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = fields.into_iter().find(|fields| fields.first() == Some(&USER) && fields.len() > 3);
        let fields = fields.ok_or("there is no user postgres: install the Debian package postgresql")?;
        Ok(Some(User { id: fields[2].parse()?, group: fields[3].parse()? }))
    }
}

fn user_command(name: &str, user: Option<&User>) -> Outcome<Command> {
    let mut command = Command::new(find(name)?);
    if let Some(user) = user {
        command.uid(user.id).gid(user.group);
    }
    Ok(command)
}

/// Debian keeps a directory for each version.
fn find(name: &str) -> Outcome<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let files = versions.map(|version| version.path().join("bin").join(name));
    let newest = files.filter(|file| file.is_file()).max();
    newest.map_or_else(|| process::find(name, &[], "postgresql"), Ok)
}

async fn connect(port: u16) -> Outcome<Client> {
    let configuration = format!("host=127.0.0.1 port={port} user={USER} dbname=postgres");
    let (client, connection) = tokio_postgres::connect(&configuration, NoTls).await?;
    // It ends with the client.
    tokio::spawn(async move { connection.await.unwrap_or(()) });
    Ok(client)
}

impl System for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.program.id()]
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Read | Work::Patch | Work::Mixed | Work::Overwrites => vec![Manner::LargeObjects],
            Work::Append | Work::Shared => Vec::new(),
            Work::Batch => vec![Manner::Separately, Manner::Transaction],
            _ => vec![Manner::Rows],
        }
    }

    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for _ in 0..clients * lanes {
                all.push(Box::new(Connection::new(connect(self.port).await?, manner).await?));
            }
            Ok(all)
        })
    }
}

/// A connection with its statements.
struct Connection {
    client: Client,
    manner: Manner,
    put: Statement,
    put_all: Statement,
    get: Statement,
    write: Statement,
    read: Statement,
    add: Statement,
    transfer: Statement,
    counter: Statement,
}

impl Connection {
    async fn new(client: Client, manner: Manner) -> Outcome<Self> {
        Ok(Connection {
            put: client.prepare(PUT).await?,
            put_all: client.prepare(PUT_ALL).await?,
            get: client.prepare("SELECT payload FROM blobs WHERE key = $1").await?,
            write: client.prepare("SELECT lo_put($1, $2, $3)").await?,
            read: client.prepare("SELECT lo_get($1, $2, $3)").await?,
            add: client.prepare(ADD).await?,
            transfer: client.prepare(TRANSFER).await?,
            counter: client.prepare("SELECT value FROM counters WHERE key = $1").await?,
            client,
            manner,
        })
    }

    async fn create(&self, object: u32) -> Outcome<()> {
        match self.client.execute("SELECT lo_create($1)", &[&object]).await {
            // Another one has been faster.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(()),
            created => Ok(created.map(drop)?),
        }
    }
}

fn is_overtaken(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| error.message() == "tuple concurrently updated")
}

impl Lane for Connection {
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            self.client.execute(&self.put, &[&key(blob), &payload]).await?;
            Ok(())
        })
    }

    fn get(&mut self, blob: u64, _size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let row = self.client.query_one(&self.get, &[&key(blob)]).await?;
            Ok(row.try_get::<_, &[u8]>(0)?.len())
        })
    }

    fn write(&mut self, blob: u64, offset: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            let (object, offset) = (object(blob)?, i64::try_from(offset)?);
            loop {
                let written = self.client.execute(&self.write, &[&object, &offset, &payload]).await;
                let Err(error) = written else { return Ok(()) };
                match error.code() {
                    Some(&SqlState::UNDEFINED_OBJECT) => self.create(object).await?,
                    // Somebody writes the same page of it: the server does not wait, but fails.
                    Some(&SqlState::INTERNAL_ERROR) if is_overtaken(&error) => {}
                    _ => return Err(error.into()),
                }
            }
        })
    }

    fn read(&mut self, blob: u64, offset: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let (offset, size) = (i64::try_from(offset)?, i32::try_from(size)?);
            let row = self.client.query_one(&self.read, &[&object(blob)?, &offset, &size]).await?;
            Ok(row.try_get::<_, &[u8]>(0)?.len())
        })
    }

    fn open(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move {
            let open = "INSERT INTO counters VALUES ($1, 0) ON CONFLICT DO NOTHING";
            self.client.execute(open, &[&key(blob)]).await?;
            Ok(())
        })
    }

    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move {
            self.client.execute(&self.add, &[&key(blob)]).await?;
            Ok(())
        })
    }

    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        Box::pin(async move {
            let (keys, added): (Vec<i64>, Vec<i64>) =
                changes.iter().map(|&(blob, added)| (key(blob), added)).unzip();
            let count = self.client.execute(&self.transfer, &[&keys, &added]).await?;
            if count == keys.len() as u64 {
                return Ok(());
            }
            Err(format!("{count} rows were changed instead of {}", keys.len()).into())
        })
    }

    fn put_all(&mut self, puts: Vec<(u64, &'static [u8])>) -> Doing<'_, ()> {
        Box::pin(async move {
            if self.manner == Manner::Transaction {
                let (keys, payloads): (Vec<i64>, Vec<&[u8]>) =
                    puts.iter().map(|&(blob, payload)| (key(blob), payload)).unzip();
                self.client.execute(&self.put_all, &[&keys, &payloads]).await?;
                return Ok(());
            }
            // The connection sends all of them before the first is answered.
            let put = async |(blob, payload): (u64, &'static [u8])| {
                self.client.execute(&self.put, &[&key(blob), &payload]).await
            };
            try_join_all(puts.into_iter().map(put)).await?;
            Ok(())
        })
    }

    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        Box::pin(async move {
            let row = self.client.query_opt(&self.counter, &[&key(blob)]).await?;
            Ok(Some(row.map_or(Ok(0), |row| row.try_get(0))?))
        })
    }
}

fn key(blob: u64) -> i64 {
    blob.cast_signed()
}

/// Numbers of large objects have 32 bits; those below 16384 are the server's. The first byte of a blob's number tells what it is for.
fn object(blob: u64) -> Outcome<u32> {
    Ok(u32::try_from(blob >> 56)? << 16 | u32::try_from(blob & 0xffff)?)
}

const USER: &str = "postgres";
const TABLES: &str = "
    CREATE TABLE blobs (key bigint PRIMARY KEY, payload bytea NOT NULL);
    ALTER TABLE blobs ALTER COLUMN payload SET STORAGE EXTERNAL;
    CREATE TABLE counters (key bigint PRIMARY KEY, value bigint NOT NULL);
";
const PUT: &str = "
    INSERT INTO blobs VALUES ($1, $2)
    ON CONFLICT (key) DO UPDATE SET payload = excluded.payload
";
const ADD: &str = "
    INSERT INTO counters VALUES ($1, 1)
    ON CONFLICT (key) DO UPDATE SET value = counters.value + 1
";
/// One statement, that is one round trip, in which rows are locked in the order in which they come.
const PUT_ALL: &str = "
    INSERT INTO blobs SELECT * FROM unnest($1::bigint[], $2::bytea[])
    ON CONFLICT (key) DO UPDATE SET payload = excluded.payload
";
/// One statement, that is one round trip; it locks the rows in one order for all, so that nobody waits for one who waits for them.
const TRANSFER: &str = "
    WITH changes AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS change (key, added)),
         locked AS (SELECT key FROM counters WHERE key = ANY($1) ORDER BY key FOR UPDATE)
    UPDATE counters SET value = value + changes.added
    FROM changes, locked WHERE counters.key = changes.key AND counters.key = locked.key
";

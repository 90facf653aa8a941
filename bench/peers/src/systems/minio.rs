//! MinIO: one server with one directory, so one copy of everything. It syncs whatever it writes before it answers.
//!
//! Objects are replaced and read whole; there is nothing else that it could do of what is compared. It is asked as any client of S3 would, with
//! signed requests by HTTP; each lane has a connection. Its own library for Rust needs a runtime that is given up.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use rusty_s3::{
    Bucket, Credentials, UrlStyle,
    actions::{CreateBucket, GetObject, PutObject, S3Action},
};

use super::http::Connection;
use crate::{
    case::Case,
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System, unsupported},
    work::Work,
};

/// The server's process.
pub struct Minio {
    program: Program,
    port: u16,
    directory: PathBuf,
    bucket: Bucket,
}

impl Minio {
    /// Starts a server with a new directory, and makes a bucket.
    pub async fn start(scratch: &Scratch) -> Outcome<Self> {
        let program =
            process::find_or("minio", &[], "'make peers' builds it if there is Go of 1.24 or later")?;
        let ports = process::free_ports(2)?;
        let address = |port: u16| format!("127.0.0.1:{port}");
        let directory = scratch.directory("minio")?;
        let mut command = Command::new(program);
        command.arg("server").args(["--quiet", "--address", &address(ports[0])]);
        command.args(["--console-address", &address(ports[1])]).arg(directory.join("data"));
        command.env("MINIO_ROOT_USER", USER).env("MINIO_ROOT_PASSWORD", PASSWORD);
        // Else what lies beside the data, which is all of a small object, is not synced.
        command.env("MINIO_FS_OSYNC", "on").env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
        command.stdout(Stdio::null());
        let program = Program::start("minio", &mut command, process::log_file(&directory))?;
        let url = format!("http://{}/", address(ports[0])).parse()?;
        let bucket = Bucket::new(url, UrlStyle::Path, "bench", "us-east-1")?;
        let mut minio = Minio { program, port: ports[0], directory, bucket };
        let (port, create) = (minio.port, path(CreateBucket::new(&minio.bucket, &credentials())));
        minio.program.wait_until(async || made(port, &create).await).await?;
        Ok(minio)
    }
}

/// Whether the server is up and has made what is asked for.
async fn made(port: u16, target: &str) -> bool {
    let Ok(mut connection) = Connection::open(port).await else { return false };
    connection.ask("PUT", target, KIND, &[]).await.is_ok()
}

fn credentials() -> Credentials {
    Credentials::new(USER, PASSWORD)
}

/// Path and signature of a request.
fn path<'a>(action: impl S3Action<'a>) -> String {
    let url = action.sign(VALID);
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}

impl System for Minio {
    fn name(&self) -> &'static str {
        "MinIO"
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.program.id()]
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Write | Work::Get => vec![Manner::Usual],
            _ => Vec::new(),
        }
    }

    fn connect(&self, _manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for _ in 0..clients * lanes {
                let (bucket, credentials) = (self.bucket.clone(), credentials());
                all.push(Box::new(Caller {
                    connection: Connection::open(self.port).await?,
                    bucket,
                    credentials,
                }));
            }
            Ok(all)
        })
    }
}

/// A connection with what its requests are signed with.
struct Caller {
    connection: Connection,
    bucket: Bucket,
    credentials: Credentials,
}

impl Lane for Caller {
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            let target = path(PutObject::new(&self.bucket, Some(&self.credentials), &key(blob)));
            self.connection.ask("PUT", &target, KIND, payload).await.map(drop)
        })
    }

    fn get(&mut self, blob: u64, _size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let target = path(GetObject::new(&self.bucket, Some(&self.credentials), &key(blob)));
            Ok(self.connection.ask("GET", &target, KIND, &[]).await?.len())
        })
    }

    fn write(&mut self, _blob: u64, _offset: u64, _payload: &'static [u8]) -> Doing<'_, ()> {
        unsupported("write")
    }

    fn read(&mut self, _blob: u64, _offset: u64, _size: usize) -> Doing<'_, usize> {
        unsupported("read")
    }
}

fn key(blob: u64) -> String {
    format!("{blob:016x}")
}

const USER: &str = "bench";
const PASSWORD: &str = "bench-alone";
const KIND: &str = "application/octet-stream";
/// As long as a signature is valid.
const VALID: Duration = Duration::from_secs(3600);

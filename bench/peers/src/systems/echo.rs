//! A server of a few lines: it reads a request and sends back as many bytes as that asks for. Nothing is kept.
//!
//! What this gives is what sockets of this machine and this program's runtime can do: a bound for all who ask over the network.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    case::Case,
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};

/// The server's process.
pub struct Echo {
    program: Program,
    port: u16,
}

impl Echo {
    /// Starts this program once more, as the server.
    pub async fn start(scratch: &Scratch) -> Outcome<Self> {
        let port = process::free_port()?;
        let log = process::log_file(&scratch.directory("echo")?);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--serve-echo", &port.to_string()]).stdout(Stdio::null());
        let mut program = Program::start("the echo server", &mut command, log)?;
        program.wait_until(async || process::listens(port).await).await?;
        Ok(Echo { program, port })
    }
}

/// Serves until the process is killed.
pub async fn serve(port: u16) -> Outcome<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        // A connection ends with an error when the client goes.
        tokio::task::spawn_local(async move { answer(stream).await.unwrap_or(()) });
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let mut heading = [0; HEADING_SIZE];
        stream.read_exact(&mut heading).await?;
        let [a, b, c, d, e, f, g, h] = heading;
        let sent = u32::from_le_bytes([a, b, c, d]) as usize;
        let wanted = u32::from_le_bytes([e, f, g, h]) as usize;
        if sent.max(wanted) > buffer.len() {
            buffer.resize(sent.max(wanted), 0);
        }
        stream.read_exact(&mut buffer[..sent]).await?;
        stream.write_all(&buffer[..wanted]).await?;
    }
}

impl System for Echo {
    fn name(&self) -> &'static str {
        "TCP echo"
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.program.id()]
    }

    fn places(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        if case.work.is_plain() && case.work != Work::Overwrites { vec![Manner::Usual] } else { Vec::new() }
    }

    fn connect(&self, _manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for _ in 0..clients * lanes {
                let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
                stream.set_nodelay(true)?;
                all.push(Box::new(Connection { stream, buffer: Vec::new() }));
            }
            Ok(all)
        })
    }
}

/// A connection with one request on its way.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn ask(&mut self, payload: &[u8], wanted: usize) -> Outcome<usize> {
        self.buffer.clear();
        self.buffer.extend(u32::try_from(payload.len())?.to_le_bytes());
        self.buffer.extend(u32::try_from(wanted)?.to_le_bytes());
        self.buffer.extend(payload);
        self.stream.write_all(&self.buffer).await?;
        self.buffer.resize(wanted.max(self.buffer.len()), 0);
        Ok(self.stream.read_exact(&mut self.buffer[..wanted]).await?)
    }
}

impl Lane for Connection {
    fn put(&mut self, _blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { self.ask(payload, ANSWER_SIZE).await.map(|_| ()) })
    }

    fn get(&mut self, _blob: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(self.ask(&[], size))
    }

    fn write(&mut self, blob: u64, _offset: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        self.put(blob, payload)
    }

    fn read(&mut self, _blob: u64, _offset: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(self.ask(&[], size))
    }
}

/// Bytes that are sent, bytes that are wanted.
const HEADING_SIZE: usize = 8;
const BUFFER_SIZE: usize = 64 << 10;
/// What answers a write.
const ANSWER_SIZE: usize = 8;

//! Health, metrics, and the console by HTTP: `/live`, `/ready`, `/metrics` in the text format of Prometheus, and `/console`.
//!
//! As much of HTTP/1.1 as a probe or a browser needs: one request per connection, without a body. Nothing that is served changes anything.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tyr_types::{Error, Result};

use crate::{
    console::{Console, Page, page},
    metrics::metrics,
    reception::Reception,
    state::State,
};

/// Who knows what is asked.
pub(crate) struct Asked {
    pub state: Arc<State>,
    pub reception: Arc<Reception>,
    pub console: Arc<Console>,
    /// Whether the console, which names blobs, is for whoever reaches this.
    pub shows_console: bool,
}

/// Serves from now on. Returns the address, with the port that the system chose.
pub(crate) async fn serve(address: &str, asked: Asked) -> Result<String> {
    let asked = Arc::new(asked);
    let failed = |error| Error::unavailable(format!("cannot serve HTTP at {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?.to_string();
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PATIENCE / 10).await;
                continue;
            };
            let asked = asked.clone();
            tokio::spawn(async move {
                let _permit = permit;
                // Whoever does not ask or listen in time is not answered.
                let _unheard = timeout(PATIENCE, answer(stream, &asked)).await;
            });
        }
    });
    Ok(bound)
}

async fn answer(mut stream: TcpStream, asked: &Asked) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let Page { status, kind, body } = respond(&request, asked).await;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n{GUARDS}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn respond(head: &[u8], asked: &Asked) -> Page {
    let text = |status, body: &str| Page { status, kind: "text/plain; charset=utf-8", body: body.to_owned() };
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default());
    let mut words = line.split(' ');
    if words.next() != Some("GET") {
        return text("405 Method Not Allowed", "only GET is served\n");
    }
    let path = words.next().unwrap_or_default();
    match path {
        "/live" | "/health/live" => text("200 OK", "live\n"),
        "/ready" | "/health/ready" if asked.state.status().is_ready => text("200 OK", "ready\n"),
        "/ready" | "/health/ready" => {
            text("503 Service Unavailable", "not ready: it has no lease, or does not know the ring yet\n")
        }
        "/health/cluster" => match asked.console.unserved().await {
            Some(0) => text("200 OK", "every partition is served\n"),
            Some(count) => {
                text("503 Service Unavailable", &format!("{count} partitions are served by nobody\n"))
            }
            None => text("503 Service Unavailable", "nothing is known of the ring yet\n"),
        },
        "/metrics" => text("200 OK", &metrics(&asked.state, &asked.reception)),
        path if path.starts_with("/console") && !asked.shows_console => text(
            "403 Forbidden",
            "the console names blobs: on a node with a secret it is shown where only this machine reaches it, such as --http 127.0.0.1:7701\n",
        ),
        path => match page(&asked.console, path, head).await {
            Some(page) => page,
            None => {
                text("404 Not Found", "there are /live, /ready, /health/cluster, /metrics, and /console\n")
            }
        },
    }
}

/// The page asks nobody but the node for anything, is shown in no frame of another one, and nobody keeps what it shows.
const GUARDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";
/// The largest head of a request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// The most connections at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

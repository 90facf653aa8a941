//! Health and metrics by HTTP: `/live`, `/ready`, and `/metrics` in the text format of Prometheus.
//!
//! As much of HTTP/1.1 as a probe needs: one request per connection, of which only the first line is looked at.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tyr_types::{Error, Result};

use crate::{metrics::metrics, reception::Reception, state::State};

/// Serves from now on. Returns the address, with the port that the system chose.
pub(crate) async fn serve(address: &str, state: Arc<State>, reception: Arc<Reception>) -> Result<String> {
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
            let (state, reception) = (state.clone(), reception.clone());
            tokio::spawn(async move {
                let _permit = permit;
                // Whoever does not ask or listen in time is not answered.
                let _unheard = timeout(PATIENCE, answer(stream, &state, &reception)).await;
            });
        }
    });
    Ok(bound)
}

async fn answer(mut stream: TcpStream, state: &State, reception: &Reception) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = respond(line, state, reception);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(line: &[u8], state: &State, reception: &Reception) -> (&'static str, String) {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    if words.next() != Some("GET") {
        return ("405 Method Not Allowed", "only GET is served\n".into());
    }
    match words.next() {
        Some("/live") => ("200 OK", "live\n".into()),
        Some("/ready") if state.status().is_ready => ("200 OK", "ready\n".into()),
        Some("/ready") => {
            ("503 Service Unavailable", "not ready: it has no lease, or does not know the ring yet\n".into())
        }
        Some("/metrics") => ("200 OK", metrics(state, reception)),
        _ => ("404 Not Found", "there are /live, /ready, and /metrics\n".into()),
    }
}

/// The largest head of a request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// The most connections at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

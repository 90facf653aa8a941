//! Health and metrics by HTTP: `/live`, `/ready`, and `/metrics` in the text format of Prometheus.
//!
//! As much of HTTP/1.1 as a probe needs: one request per connection, of which only the first line is looked at.

use std::{fmt::Write as _, sync::Arc, sync::atomic::Ordering, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tyr_types::{Error, Result};
use tyr_wire::connection::Channel;

use crate::{reception::Reception, state::State};

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

fn metrics(state: &State, reception: &Reception) -> String {
    let status = state.status();
    let counts = &reception.counts;
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        let lines = values.iter().map(|(labels, value)| format!("{name}{labels} {value}\n"));
        write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.collect::<String>())
            .expect("text can be written to");
    };
    let one = |value: u64| vec![(String::new(), value)];
    add("tyr_ready", "gauge", "Whether the node serves.", &one(status.is_ready.into()));
    add("tyr_lease_held", "gauge", "Whether the node holds a lease.", &one(status.has_lease.into()));
    add(
        "tyr_manager_leads",
        "gauge",
        "Whether the node leads the cluster manager.",
        &one(status.leads.into()),
    );
    add("tyr_ring_version", "gauge", "The ring version that the node knows.", &one(status.ring_version.0));
    let by_channel = |values: &[std::sync::atomic::AtomicU64; Channel::COUNT]| {
        let label = |name: &str| format!("{{channel=\"{name}\"}}");
        CHANNELS
            .iter()
            .zip(values)
            .map(|(name, value)| (label(name), value.load(Ordering::Relaxed)))
            .collect::<Vec<_>>()
    };
    add("tyr_frames_received_total", "counter", "Frames that came, by channel.", &by_channel(&counts.frames));
    add(
        "tyr_received_bytes_total",
        "counter",
        "Bytes of their bodies, by channel.",
        &by_channel(&counts.bytes),
    );
    let malformed = counts.malformed.load(Ordering::Relaxed);
    add("tyr_frames_malformed_total", "counter", "Frames that made no sense.", &one(malformed));
    text
}

/// The channels that are used, in order.
const CHANNELS: [&str; 4] = ["consensus", "gossip", "manager", "data"];
/// The largest head of a request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// The most connections at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

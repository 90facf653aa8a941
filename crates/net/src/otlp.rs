//! Spans, and how a program hands them to a collector: OTLP over HTTP, in JSON (OpenTelemetry protocol 1.3, section "OTLP/HTTP").
//!
//! Whoever has a span gives it away and does not wait: a task sends what has come, many at once. What does not fit, and what the collector does
//! not take in time, is lost and counted, and the log has a warning of it. The collector is to be near: there is no encryption and no
//! compression.

use std::{
    fmt::Write as _,
    io,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

/// Something that was done for a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace that it is a part of; never 0.
    pub trace: u128,
    /// Its own name; never 0.
    pub id: u64,
    /// The span that caused it; 0 if it is the first.
    pub parent: u64,
    /// What was done.
    pub name: &'static str,
    /// Whether another program asked for it, it asked another one, or neither.
    pub side: Side,
    /// When it began and ended, in nanoseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// On which side of a question a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Within a program.
    Internal,
    /// Of who was asked.
    Server,
    /// Of who asks.
    Client,
}

/// Something that is known of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

/// Where spans are handed in. Handles are equal.
#[derive(Clone, Debug)]
pub struct Exporter {
    sender: Sender<Span>,
    lost: Arc<AtomicU64>,
}

/// The task that sends them, until there is no [`Exporter`] any more.
pub struct Exporting(JoinHandle<()>);

impl Exporter {
    /// Begins to send to a collector, in the runtime that this is called in. Says which program the spans are of, and which one of several.
    pub fn start(collector: Collector, service: &str, instance: &str) -> (Exporter, Exporting) {
        let (sender, receiver) = channel(WAITING_MAX);
        let lost = Arc::<AtomicU64>::default();
        let head = format!(
            "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[{},{},{}]}},\"scopeSpans\":[{{\"scope\":{{\"name\":\"tyr\",\"version\":{}}},\"spans\":[",
            attribute("service.name", &Attribute::Text(service.to_owned())),
            attribute("service.instance.id", &Attribute::Text(instance.to_owned())),
            attribute("service.version", &Attribute::Text(env!("CARGO_PKG_VERSION").to_owned())),
            quoted(env!("CARGO_PKG_VERSION")),
        );
        let task = tokio::spawn(send_all(collector, head, receiver, lost.clone()));
        (Exporter { sender, lost }, Exporting(task))
    }

    /// Hands in a span.
    pub fn give(&self, span: Span) {
        if self.sender.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many spans were lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Exporting {
    /// Waits until all is sent that was handed in, if there is no exporter any more; not for long.
    pub async fn finish(self) {
        // What is not sent by then is lost.
        let _late = timeout(PATIENCE, self.0).await;
    }
}

/// The time now, as spans have it.
pub fn span_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Where spans are sent: `http://host:port`, with or without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// As `host:port`.
    address: String,
    path: String,
}

impl FromStr for Collector {
    type Err = io::Error;

    fn from_str(endpoint: &str) -> io::Result<Self> {
        let refused = |message| io::Error::new(io::ErrorKind::InvalidInput, message);
        // A password is not shown.
        if endpoint.contains('@') {
            return Err(refused(
                "a collector of traces is named with a name and a password, and is given none; name it as http://HOST:PORT"
                    .to_owned(),
            ));
        }
        let wrong = || {
            let shown = endpoint.escape_debug();
            refused(format!("'{shown}' is no collector of traces; name one as http://HOST:PORT"))
        };
        let rest = endpoint.strip_prefix("http://").ok_or_else(wrong)?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        // An address of IPv6 is in brackets.
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (address, PORT),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let is_named = !host.is_empty() && (is_bracketed || !host.contains([':', '[', ']', '?', '#']));
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if !is_named || !is_port || !endpoint.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(wrong());
        }
        let address = format!("{host}:{port}");
        let path = if path.is_empty() { "/v1/traces".to_owned() } else { format!("/{path}") };
        Ok(Collector { address, path })
    }
}

impl Collector {
    async fn post(&self, body: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let Collector { address, path } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        match &answer[9..10] {
            b"2" => Ok(()),
            _ => Err(io::Error::other("the collector refuses it")),
        }
    }
}

async fn send_all(collector: Collector, head: String, mut spans: Receiver<Span>, lost: Arc<AtomicU64>) {
    let mut batch = Vec::new();
    let mut warned_at = None::<Instant>;
    while let Some(first) = spans.recv().await {
        batch.push(first);
        let end = Instant::now() + GATHERED_FOR;
        while batch.len() < BATCH {
            let left = BATCH - batch.len();
            match timeout_at(end, spans.recv_many(&mut batch, left)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let listed = batch.iter().map(listed).collect::<Vec<String>>().join(",");
        let body = format!("{head}{listed}]}}]}}]}}");
        let posted = timeout(PATIENCE, collector.post(&body)).await;
        if let Err(error) = posted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            let count = batch.len() as u64;
            let lost = lost.fetch_add(count, Ordering::Relaxed) + count;
            if warned_at.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                warned_at = Some(Instant::now());
                let collector = &collector.address;
                tracing::warn!(collector, lost, %error, "the collector of traces does not take them; they are lost");
            }
        }
        batch.clear();
    }
}

fn listed(span: &Span) -> String {
    let Span { trace, id, parent, name, side, began, ended, attributes } = span;
    let kind = match side {
        Side::Internal => 1,
        Side::Server => 2,
        Side::Client => 3,
    };
    let parent = if *parent == 0 { String::new() } else { format!("\"parentSpanId\":\"{parent:016x}\",") };
    let attributes =
        attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>().join(",");
    // Numbers of 64 bits are text in the JSON of protocol buffers.
    format!(
        "{{\"traceId\":\"{trace:032x}\",\"spanId\":\"{id:016x}\",{parent}\"name\":{},\"kind\":{kind},\"startTimeUnixNano\":\"{began}\",\"endTimeUnixNano\":\"{ended}\",\"attributes\":[{attributes}]}}",
        quoted(name)
    )
}

fn attribute(name: &str, value: &Attribute) -> String {
    let value = match value {
        Attribute::Text(text) => format!("{{\"stringValue\":{}}}", quoted(text)),
        Attribute::Number(number) => format!("{{\"intValue\":\"{number}\"}}"),
    };
    format!("{{\"key\":{},\"value\":{value}}}", quoted(name))
}

/// Text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Writing to a string does not fail.
            letter if letter < ' ' => drop(write!(quoted, "\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The most spans that wait.
const WAITING_MAX: usize = 8192;
/// As many are sent at once,
const BATCH: usize = 512;
/// or those of so long.
const GATHERED_FOR: Duration = Duration::from_millis(500);
/// The log has a warning of what is lost no more often than this.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The port of a collector for which none is named.
const PORT: &str = "4318";
/// The collector answers within this time.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::net::TcpListener;

    use super::*;

    fn span(id: u64) -> Span {
        Span {
            trace: 0xabc,
            id,
            parent: id - 1,
            name: "stop",
            side: Side::Server,
            began: 5,
            ended: 7,
            attributes: vec![
                ("tyr.key", Attribute::Text("a\"\\\n".into())),
                ("tyr.node", Attribute::Number(3)),
            ],
        }
    }

    #[tokio::test]
    async fn spans_are_posted_together_and_what_nobody_takes_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (exporter, exporting) = Exporter::start(endpoint.parse().unwrap(), "tyr", "n1");
        let collector = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            while !text.ends_with("]}]}]}") {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).await.unwrap();
                text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            text
        });
        exporter.give(span(1));
        exporter.give(span(2));
        let lost = exporter.lost.clone();
        drop(exporter);
        exporting.finish().await;
        let text = collector.await.unwrap();
        assert!(text.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{text}");
        for part in [
            r#""traceId":"00000000000000000000000000000abc","spanId":"0000000000000002","parentSpanId":"0000000000000001","name":"stop","kind":2"#,
            r#""spanId":"0000000000000001","name""#,
            r#"{"key":"tyr.key","value":{"stringValue":"a\"\\\u000a"}}"#,
            r#"{"key":"tyr.node","value":{"intValue":"3"}}"#,
            r#"{"key":"service.instance.id","value":{"stringValue":"n1"}}"#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(lost.load(Ordering::Relaxed), 0);

        // Nobody listens there any more.
        let (exporter, exporting) = Exporter::start(endpoint.parse().unwrap(), "tyr", "n1");
        exporter.give(span(1));
        let lost = exporter.lost.clone();
        drop(exporter);
        exporting.finish().await;
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_collector_is_named_by_its_host_at_least() {
        let parsed =
            |endpoint: &str| endpoint.parse::<Collector>().map(|known| (known.address, known.path)).ok();
        assert_eq!(parsed("http://host"), Some(("host:4318".into(), "/v1/traces".into())));
        assert_eq!(parsed("http://host:1/a/b"), Some(("host:1".into(), "/a/b".into())));
        assert_eq!(parsed("http://[::1]"), Some(("[::1]:4318".into(), "/v1/traces".into())));
        assert_eq!(parsed("http://[::1]:7/"), Some(("[::1]:7".into(), "/v1/traces".into())));
        for wrong in [
            "https://host",
            "host:4318",
            "http://",
            "http://a\r\nb",
            "http://host:x",
            "http://host:0",
            "http://host:65536",
            "http://host:",
            "http://:4318",
            "http://::1",
            "http://host?to=4318",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        let refused = "http://me:secret@host:4318".parse::<Collector>().unwrap_err().to_string();
        assert!(!refused.contains("secret") && refused.contains("http://HOST:PORT"), "{refused}");
    }
}

//! Transactions and reads that are traced: what a collector is sent of one over two blobs, and of reads, and that nothing is said of others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod patience;
mod real;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    num::NonZeroU32,
    sync::{
        Mutex, OnceLock,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use patience::until;
use real::Servers;
use serde_json::Value;
use tyr_client::{KeyspaceSettings, blocking::Store};
use tyr_server::Settings;

/// A collector that hands on every span that it is sent, until nobody wants them any more.
struct Collector {
    endpoint: String,
    spans: Mutex<Receiver<Value>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(body) = stream.ok().and_then(|stream| take(stream).ok()) else { continue };
                for resource in body["resourceSpans"].as_array().unwrap() {
                    let service = resource["resource"]["attributes"][0]["value"]["stringValue"].clone();
                    for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                        let mut span = span.clone();
                        span["service"] = service.clone();
                        if sender.send(span).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Collector { endpoint, spans: Mutex::new(spans) }
    }
}

/// What was posted.
fn take(mut stream: TcpStream) -> std::io::Result<Value> {
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes)?;
        text.extend_from_slice(&bytes[..count]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("application/json"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(serde_json::from_str(body).unwrap());
        }
    }
}

/// All servers have the same settings but for their directories, and those are made by a plain function.
static COLLECTOR: OnceLock<Collector> = OnceLock::new();

/// Everything has been sent after this long.
const PATIENCE: Duration = Duration::from_secs(20);

fn collector() -> &'static Collector {
    COLLECTOR.get_or_init(Collector::start)
}

fn settings(directory: &std::path::Path) -> Settings {
    let traces = Some(collector().endpoint.parse().unwrap());
    let usual = Settings::new(directory);
    let class = tyr_server::ClassSettings { partitions: 16, ..usual.class };
    Settings { traces, class, ..usual }
}

fn text(span: &Value, name: &str) -> String {
    span[name].as_str().unwrap_or_default().to_owned()
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key)?;
    let value = &found["value"];
    Some(value["stringValue"].as_str().or(value["intValue"].as_str())?.to_owned())
}

/// The spans of a trace, when they are a whole tree: of a transaction, its stops one after the other, what each of these wrote to its log,
/// and its writes to chunks elsewhere.
fn tree(spans: &[Value]) -> Option<Vec<&Value>> {
    let ids: BTreeMap<String, &Value> = spans.iter().map(|span| (text(span, "spanId"), span)).collect();
    assert_eq!(ids.len(), spans.len(), "every span is told once");
    let root = spans.iter().find(|span| span["name"] == "transaction")?;
    let mut stops: Vec<&Value> = Vec::new();
    let mut caused_by = text(root, "spanId");
    while let Some(next) =
        spans.iter().find(|span| span["name"] == "stop" && text(span, "parentSpanId") == caused_by)
    {
        caused_by = text(next, "spanId");
        stops.push(next);
    }
    let last = stops.last().filter(|last| attribute(last, "tyr.outcome").is_some())?;
    let logged =
        |of: &Value| spans.iter().any(|span| span["name"] == "log" && span["parentSpanId"] == of["spanId"]);
    let writes: Vec<&Value> = spans.iter().filter(|span| span["name"] == "write").collect();
    let mut causes = spans.iter().map(|span| text(span, "parentSpanId"));
    let is_whole = stops.iter().chain(&writes).all(|span| logged(span))
        && causes.all(|cause| cause.is_empty() || ids.contains_key(&cause));
    assert_eq!(attribute(last, "tyr.outcome"), attribute(root, "tyr.outcome"));
    for write in writes {
        assert_eq!(write["parentSpanId"], last["spanId"], "the decider has sent it");
    }
    is_whole.then_some(stops)
}

/// Whether these are a read that a node has answered, and what that node says of it.
fn is_served(spans: &[Value]) -> bool {
    let Some(root) = spans.iter().find(|span| span["name"] == "read") else { return false };
    let mut serves = spans.iter().filter(|span| span["name"] == "serve");
    serves.any(|serve| {
        assert_eq!(serve["parentSpanId"], root["spanId"]);
        for key in ["tyr.kind", "tyr.partition"] {
            assert_eq!(attribute(serve, key), attribute(root, key));
        }
        attribute(serve, "tyr.node") == attribute(root, "tyr.node")
    })
}

#[test]
fn a_collector_gets_the_whole_tree_of_a_transaction_over_two_blobs_and_of_reads_and_nothing_of_others() {
    let servers = Servers::start(3, settings);
    // Who takes over a partition goes on with what it finds in its log, and that says of nothing that it is traced.
    until("a settled ring", || servers.partitions_are_settled());
    let every = |count| NonZeroU32::new(count).unwrap();
    let traced = Store::options().traces(&collector().endpoint, every(1)).open(servers.url()).unwrap();
    let plain = Store::open(servers.url()).unwrap();
    let small = KeyspaceSettings { chunk_size: 64 << 10, ..KeyspaceSettings::default() };
    let files = traced.create_keyspace("files", small).unwrap();
    let others = plain.keyspace("files").unwrap();
    // Their heads lie on other nodes each time, and what is written lies in two chunks of which one is elsewhere.
    let mut committed = 0;
    for number in 0..16 {
        others.put(format!("plain/{number}"), b"x").unwrap();
        let keys = [format!("a/{number}"), format!("b/{number}")];
        let bytes = vec![7; 1000];
        let done = traced.run(|transaction| {
            keys.iter().try_for_each(|key| transaction.write(&files, key, (64 << 10) - 500, &bytes))
        });
        done.unwrap();
        committed += 1;
    }
    let mut gets = 0;
    for number in 0..16 {
        others.get(format!("plain/{number}")).unwrap();
        assert_eq!(files.get(format!("b/{number}")).unwrap().bytes.len(), (64 << 10) + 500);
        gets += 1;
    }
    traced.close().unwrap();

    let mut traces: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let spans = collector().spans.lock().unwrap();
    let whole = |traces: &BTreeMap<String, Vec<Value>>| {
        let committed_ones = traces.values().filter_map(|spans| tree(spans));
        committed_ones
            .filter(|stops| attribute(stops[stops.len() - 1], "tyr.outcome").as_deref() == Some("committed"))
            .count()
    };
    while whole(&traces) < committed || traces.values().filter(|spans| is_served(spans)).count() < gets {
        let Ok(span) = spans.recv_timeout(PATIENCE) else {
            let lacking: Vec<_> = traces.values().filter(|spans| tree(spans).is_none()).collect();
            let served = traces.values().filter(|spans| is_served(spans)).count();
            panic!(
                "{} of {committed} trees are whole, {served} reads; not these: {lacking:#?}",
                whole(&traces)
            );
        };
        traces.entry(text(&span, "traceId")).or_default().push(span);
    }
    let (mut lengths, mut writes, mut nodes) = (BTreeSet::new(), 0, BTreeSet::new());
    for spans in traces.values() {
        if spans.iter().any(|span| span["name"] == "read" || span["name"] == "serve") {
            let requests: BTreeSet<_> = spans.iter().map(|span| attribute(span, "tyr.request")).collect();
            assert_eq!(requests.len(), 1, "a trace is of one read: {spans:#?}");
            continue;
        }
        let root = spans.iter().find(|span| span["name"] == "transaction").unwrap();
        assert_eq!((text(root, "service"), &root["kind"]), ("tyr client".into(), &Value::from(3)));
        assert_eq!(attribute(root, "tyr.blobs").as_deref(), Some("2"), "nothing else is traced: {root}");
        assert!(root.get("parentSpanId").is_none());
        let id = attribute(root, "tyr.transaction");
        for span in spans {
            assert_eq!(attribute(span, "tyr.transaction"), id);
            let [began, ended] =
                ["startTimeUnixNano", "endTimeUnixNano"].map(|at| text(span, at).parse::<u64>().unwrap());
            assert!(began <= ended && began > 0, "{span}");
            nodes.extend(attribute(span, "tyr.node"));
        }
        lengths.extend(tree(spans).map(|stops| stops.len()));
        writes += spans.iter().filter(|span| span["name"] == "write").count();
    }
    assert!(lengths.contains(&2), "none of the chains has two stops on different shards: {lengths:?}");
    assert!(writes > 0, "all chunks lie with their heads");
    assert!(!nodes.is_empty(), "spans of servers say whose they are");
    plain.close().unwrap();
    drop(servers);
}

//! What a node shows: health, metrics, and the console; and what Prometheus and Grafana are told to look at.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::Stdio,
};

use serde_json::Value;
use tyr_proto::Outcome;

use super::{Node, kit::Driver, tyr};

/// Asks a node something by HTTP.
pub fn get(http: &str, path: &str) -> String {
    ask(http, &format!("GET {path} HTTP/1.1\r\nHost: {http}\r\n\r\n"))
}

fn ask(http: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The sum of a metric over everything that has these labels.
fn metric(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let of_name = metrics.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    of_name.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[test]
fn health_is_served_and_metrics_tell_what_was_done() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = tyr(["server", "--json", "--log", "debug", "--log-format", "json", "--slow-ms", "1"]);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]).stderr(Stdio::piped());
    command.args(["--partitions", "16", "--segment-size", "1MiB", "--directory"]).arg(directory.path());
    let mut node = Node::run(command);
    let mut log = node.process.stderr.take().unwrap();
    // Somebody has to read it, or the node waits.
    let log = std::thread::spawn(move || {
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        text
    });
    let listening = node.wait_for("listening");
    let (http, address) = (listening["http"].as_str().unwrap(), listening["address"].as_str().unwrap());
    node.wait_for("ready");
    assert!(get(http, "/live").starts_with("HTTP/1.1 200"));
    assert!(get(http, "/ready").ends_with("ready\n"));
    assert!(get(http, "/elsewhere").starts_with("HTTP/1.1 404"));
    for path in ["/live", "/ready", "/elsewhere"] {
        let answer = get(http, path);
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        let told = ask(http, &format!("HEAD {path} HTTP/1.1\r\nHost: {http}\r\n\r\n"));
        assert_eq!(told, format!("{head}\r\n\r\n"), "the same without a body");
    }
    assert!(ask(http, "PUT /live HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(http, "what is this\r\n\r\n").starts_with("HTTP/1.1 400"));
    // Those who ask slowly keep nobody out, and are answered once they have asked.
    let begin = |_| {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(b"GET /live").unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..64).map(begin).collect();
    assert!(get(http, "/live").starts_with("HTTP/1.1 200"));
    let (mut last, mut answer) = (slow.pop().unwrap(), String::new());
    last.write_all(b" HTTP/1.1\r\n\r\n").unwrap();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let mut driver = Driver::new(&[address.parse().unwrap()], 77);
    let keyspace = driver.keyspace("events");
    for number in 0..40u32 {
        assert_eq!(
            driver.append(keyspace, &["a", "b", "c"][..1 + number as usize % 3], &[7; 100]),
            Outcome::Committed
        );
    }
    assert_eq!(driver.read(keyspace, "a").unwrap().len(), 4000);
    let committed = "outcome=\"committed\"";
    let leads = |metrics: &str| metric(metrics, "tyr_partitions", &["role=\"primary\""]);
    // A shard shows every few milliseconds what it has counted, and now and then what it holds.
    let is_shown = |metrics: &String| {
        metric(metrics, "tyr_transactions_total", &[committed]) >= 40.0
            && metric(metrics, "tyr_read_bytes_total", &[]) >= 4000.0
            && metric(metrics, "tyr_reads_total", &["kind=\"look\""]) >= 1.0
            && leads(metrics) >= 16.0
    };
    let metrics = std::iter::repeat_with(|| get(http, "/metrics")).find(is_shown).unwrap();
    let metrics = metrics.split_once("\r\n\r\n").unwrap().1;
    let sum = |name: &str| metric(metrics, name, &[]);
    assert_eq!(metric(metrics, "tyr_transactions_total", &[committed]), 40.0, "{metrics}");
    // One may have been refused, and was sent again, while the partitions were being taken over.
    let (timed, answered) = (sum("tyr_transaction_seconds_count"), sum("tyr_transactions_total"));
    assert!((40.0..=answered).contains(&timed), "{timed} of {answered}");
    assert_eq!(metric(metrics, "tyr_transaction_seconds_bucket", &["le=\"+Inf\""]), timed);
    assert!(sum("tyr_transaction_seconds_sum") > 0.0 && sum("tyr_log_write_seconds_count") > 0.0);
    assert!(sum("tyr_log_entries_total") >= 40.0);
    assert_eq!(sum("tyr_read_bytes_total"), 4000.0);
    assert_eq!(metric(metrics, "tyr_reads_total", &["kind=\"look\""]), 1.0);
    assert_eq!(leads(metrics), 16.0);
    assert_eq!(
        metric(metrics, "tyr_connections", &["client"]),
        2.0,
        "one to the address, and one to the member"
    );
    assert_eq!(sum("tyr_ready"), 1.0);
    assert!(sum("tyr_disk_free_bytes") > 0.0 && sum("tyr_disk_size_bytes") >= sum("tyr_disk_free_bytes"));
    check_form(metrics);
    let of_keyspace =
        |name: &str, more: &[&str]| metric(metrics, name, &[&["keyspace=\"events\""], more].concat());
    let read = metric(metrics, "tyr_keyspace_reads_total", &[]);
    assert!(read == 0.0 || read == of_keyspace("tyr_keyspace_reads_total", &[]), "{metrics}");
    let transactions = "tyr_keyspace_transactions_total";
    let is_counted =
        |metrics: &String| metric(metrics, transactions, &["keyspace=\"events\"", committed]) >= 40.0;
    let later = std::iter::repeat_with(|| get(http, "/metrics")).find(is_counted).unwrap();
    assert_eq!(metric(&later, transactions, &[committed]), 40.0, "all are in one keyspace");
    assert_eq!(metric(&later, "tyr_keyspace_written_bytes_total", &[]), 7900.0, "79 appends of 100 bytes");
    assert_eq!(metric(&later, "tyr_written_bytes_total", &[]), 7900.0);
    check_rules(&later);

    assert!(node.stop().success());
    let log = log.join().unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"));
    let ended = lines.filter(|line| line["request"].as_str().is_some_and(|id| id.starts_with("t77.")));
    let ended: Vec<Value> = ended.filter(|line| line["outcome"] == "committed").collect();
    assert_eq!(ended.len(), 40, "each transaction is followed by its name");
    assert!(ended.iter().all(|line| line["seconds"].as_f64().is_some() && line["shard"].is_u64()));
}

/// Every metric is described before it is given, is named after its unit, and is in the documents.
fn check_form(metrics: &str) {
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability.md");
    let documents = std::fs::read_to_string(documents).unwrap();
    let mut described: Vec<&str> = Vec::new();
    for line in metrics.lines() {
        if let Some(described_as) = line.strip_prefix("# HELP ") {
            let (name, help) = described_as.split_once(' ').unwrap();
            assert!(!help.is_empty());
            assert!(documents.contains(&format!("`{name}`")), "{name} is not in docs/observability.md");
            described.push(name);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert_eq!(described.last(), Some(&name));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}");
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(name.starts_with(described.last().unwrap()), "{name} is not described");
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
        }
    }
}

/// A file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)).unwrap()
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let parts = ["_bucket", "_sum", "_count"];
    let metrics = words.filter(|word| word.starts_with("tyr_"));
    let family = |word: &str| {
        let part =
            parts.iter().find_map(|part| word.strip_suffix(part).filter(|rest| rest.ends_with("_seconds")));
        part.unwrap_or(word).to_owned()
    };
    metrics.map(family).collect()
}

/// Whatever alert rules and dashboards look at is there.
fn check_rules(metrics: &str) {
    let described = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let given: BTreeSet<String> = described.map(str::to_owned).collect();
    let alerts = named(&file("ops/prometheus/alerts.yml"));
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(
        alerts.difference(&given).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "alerts name what is not given"
    );
    for name in ["ops/grafana/cluster.json", "ops/grafana/nodes.json"] {
        let text = file(name);
        let unknown: Vec<String> = named(&text).difference(&given).cloned().collect();
        assert!(unknown.is_empty(), "{name} looks at what is not given: {unknown:?}");
        check_dashboard(name, &serde_json::from_str(&text).unwrap());
    }
    let documented = named(&file("docs/observability.md"));
    let gone: Vec<&String> = documented.difference(&given).collect();
    assert!(gone.is_empty(), "docs/observability.md describes what is not given: {gone:?}");
}

/// A dashboard has what Grafana needs to load it (the schema of version 39), and no two panels lie over each other.
fn check_dashboard(name: &str, board: &Value) {
    assert_eq!(board["schemaVersion"], 39, "{name}");
    assert!(
        board["id"].is_null() && board["uid"].is_string() && board["title"].is_string(),
        "{name}: whoever loads it gives it an id"
    );
    let variables = board["templating"]["list"].as_array().unwrap();
    assert_eq!((&variables[0]["name"], &variables[0]["type"]), (&"datasource".into(), &"datasource".into()));
    let (mut ids, mut covered) = (BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{name}: two panels {}", panel["id"]);
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24 && w > 0 && h > 0, "{name}: {panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(covered.insert(cell), "{name}: something lies under panel {}", panel["title"]);
        }
        match panel["type"].as_str().unwrap() {
            "row" => assert!(panel["panels"].is_array() && panel["collapsed"] == false),
            "stat" | "timeseries" => {
                assert!(panel["fieldConfig"]["defaults"]["unit"].is_string() && panel["options"].is_object());
                let targets = panel["targets"].as_array().unwrap();
                let references: BTreeSet<&str> =
                    targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
                assert!(!targets.is_empty() && references.len() == targets.len(), "{name}: {panel}");
                for target in targets {
                    assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}");
                    assert!(target["expr"].as_str().unwrap().contains("tyr_"), "{name}: {target}");
                }
            }
            other => panic!("{name}: panel of type {other}"),
        }
    }
}

/// The console's view of the cluster, as soon as something holds of it.
fn view(http: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let look = || {
        let answer = get(http, "/console/v1/cluster");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/json"), "{head}");
        serde_json::from_str::<Value>(body).unwrap()
    };
    std::iter::repeat_with(look).find(holds).unwrap()
}

#[test]
fn any_node_shows_the_whole_cluster_and_says_who_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let start = |number: u32, join: Option<&str>| {
        let mut command =
            tyr(["server", "--json", "--log", "error", "--segment-size", "1MiB", "--slow-ms", "1"]);
        command.args([
            "--partitions",
            "16",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--directory",
        ]);
        command.arg(directory.path().join(number.to_string()));
        if let Some(address) = join {
            command.args(["--join", address]);
        }
        let mut node = Node::run(command);
        let told = node.wait_for("listening");
        node.address = told["address"].as_str().unwrap().to_owned();
        node.wait_for("ready");
        (node, told["http"].as_str().unwrap().to_owned())
    };
    let (first, first_http) = start(1, None);
    let empty = view(&first_http, |view| view["health"] == "well");
    assert_eq!(
        (&empty["keyspaces"], &empty["slow"], &empty["oldest_pin"]),
        (&Value::Array(vec![]), &Value::Array(vec![]), &Value::Null)
    );
    assert!(get(&first_http, "/health/cluster").starts_with("HTTP/1.1 200"));
    let page = get(&first_http, "/");
    assert!(page.contains("default-src 'none'") && page.contains("<title>Týr</title>"), "{page}");
    for path in ["/console/style.css", "/console/script.js?1", "/console/icon.svg"] {
        assert!(get(&first_http, path).starts_with("HTTP/1.1 200"), "{path}");
    }

    let (second, second_http) = start(2, Some(&first.address));
    let (third, third_http) = start(3, Some(&first.address));
    let mut driver = Driver::new(&[first.address.parse().unwrap()], 78);
    let keyspace = driver.keyspace("events");
    let is_whole = |view: &Value| {
        let complete = &view["partitions"]["complete"];
        view["health"] == "well"
            && complete == 16
            && view["ring"].as_array().unwrap().iter().all(|held| held[3].as_array().unwrap().len() == 3)
    };
    view(&first_http, is_whole);
    // Sooner or later one takes a millisecond.
    let of_two = |slow: &Value| slow["kind"] == "transaction" && slow["blobs"] == 2;
    let has_slow = |view: &Value| view["slow"].as_array().unwrap().iter().any(of_two);
    let mut committed = 0;
    while committed < 20 || !has_slow(&view(&first_http, |_| true)) {
        for _ in 0..20 {
            assert_eq!(driver.append(keyspace, &["a", "b"], &[7; 100]), Outcome::Committed);
        }
        committed += 20;
    }
    let total = |view: &Value| view["keyspaces"][0]["total"]["committed"].as_u64() == Some(committed);
    for (number, http) in (1..).zip([&first_http, &second_http, &third_http]) {
        let seen = view(http, |view| is_whole(view) && total(view) && has_slow(view));
        assert_eq!((&seen["version"], &seen["seen_by"]), (&Value::from(1), &Value::from(number)));
        assert_eq!(seen["keyspaces"][0]["name"], "events");
        assert_eq!(seen["keyspaces"][0]["total"]["written_bytes"], committed * 200);
        let nodes = seen["nodes"].as_array().unwrap();
        assert!(
            nodes.len() == 3 && nodes.iter().all(|node| node["answers"] == true && node["ready"] == true)
        );
        let slow = seen["slow"].as_array().unwrap();
        let of_two = slow.iter().find(|slow| of_two(slow)).unwrap();
        assert_eq!((&of_two["keyspace_name"], &of_two["outcome"]), (&"events".into(), &"committed".into()));
        let steps: BTreeSet<&str> =
            of_two["hops"].as_array().unwrap().iter().map(|hop| hop["step"].as_str().unwrap()).collect();
        assert!(steps.contains("start") || steps.contains("pass"), "{of_two}");
    }

    let url = format!("tyr://{},{}", first.address, second.address);
    let shown = said(&["top", "--store", &url], 0);
    for part in ["all is well", "serves, leads", "events", "SLOW OPERATIONS"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let told: Value = serde_json::from_str(&said(&["top", "--json", "--store", &url], 0)).unwrap();
    assert_eq!((&told["version"], &told["keyspaces"][0]["name"]), (&Value::from(1), &Value::from("events")));
    let place = directory.path().join("1");
    let place = place.to_str().unwrap();
    let doctor =
        ["doctor", "--store", &url, "--directory", place, "--listen", &first.address, "--http", &first_http];
    let healthy = said(&doctor, 0);
    for part in [
        "a node runs at",
        "it serves",
        "all 16 partitions are complete",
        "its clock agrees",
        "versions: all nodes and this command have the same",
        "a durable write of 4 KiB takes",
    ] {
        assert!(healthy.contains(part), "{part} is not in {healthy}");
    }

    drop(third);
    let is_missed = |view: &Value| {
        let troubles = view["troubles"].as_array().unwrap();
        troubles.iter().any(|trouble| trouble.as_str().unwrap() == "node 3 is away")
            && view["partitions"]["unserved"] == 0
    };
    let seen = view(&second_http, is_missed);
    assert_eq!((&seen["health"], &seen["nodes"][2]["answers"]), (&"degraded".into(), &false.into()));
    assert_eq!(seen["nodes"][2]["shards"], Value::Array(vec![]));
    let ill = said(&["doctor", "--store", &url], 1);
    assert!(ill.contains("WRONG    node 3 at") && ill.contains("tyr cluster replace 3 NEW"), "{ill}");
    assert!(ill.contains("versions: 2 of 3 nodes"), "{ill}");
    let shown = said(&["top", "--once", "--store", &url], 0);
    assert!(shown.contains("degraded") && shown.contains("! node 3 is away"), "{shown}");
    // Without the other nothing is served, and what is left says so.
    drop(first);
    let seen = view(&second_http, |view| view["health"] == "unserved");
    let trouble = seen["troubles"][0].as_str().unwrap();
    assert!(trouble.contains("too few nodes are there to agree"), "{trouble}");
    let asked = said(&["node", "status", "--timeout", "2", "--json", "--store", &url], 0);
    let told: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!((told.as_array().unwrap().len(), &told[0]["ready"]), (1, &false.into()), "{told}");
    assert!(second.stop().success());
}

/// What the command prints, when it ends with this code.
fn said(arguments: &[&str], code: i32) -> String {
    let output = tyr(arguments).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}{complaint}");
    printed
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_machine_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let new = place("new/node");
    let well = said(
        &[
            "doctor",
            "--json",
            "--directory",
            &new,
            "--listen",
            "127.0.0.1:0",
            "--targets",
            directory.path().to_str().unwrap(),
        ],
        0,
    );
    let well: Value = serde_json::from_str(&well).unwrap();
    assert_eq!(well["wrong"], 0, "{well}");
    assert!(!std::path::Path::new(&new).exists(), "it makes nothing");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    super::certificates(directory.path());
    std::fs::write(place("file"), "").unwrap();
    std::fs::set_permissions(place("node.key"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    // Whoever this is does not answer.
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listening.local_addr().unwrap().to_string();
    let (authority, certificate, key, file) =
        (place("ca.pem"), place("node.pem"), place("node.key"), place("file"));
    let certificates = ["--tls-authority", &authority, "--tls-certificate", &certificate, "--tls-key", &key];
    let machine = [
        "doctor",
        "--directory",
        &file,
        "--listen",
        "127.0.0.1:0",
        "--http",
        &taken,
        "--store",
        "tyr://127.0.0.1:1",
        "--timeout",
        "1",
    ];
    let ill = said(&[&machine[..], &certificates[..]].concat(), 1);
    drop(listening);
    for part in [
        "it is no directory",
        "something listens at",
        "'tyr server' would say the same",
        "ss -ltnp",
        "every user of this machine can read it",
        "chmod 600",
        "it is valid for",
        "no node answers at 127.0.0.1:1",
        "only programs on this machine reach the node",
    ] {
        assert!(ill.contains(part), "{part} is not in {ill}");
    }
    super::certificates(&directory.path().join("other"));
    let unfit = [
        "--tls-authority",
        &authority,
        "--tls-certificate",
        &certificate,
        "--tls-key",
        &place("other/node.key"),
    ];
    let ill = said(&[&["doctor", "--store", "tyr+tls://127.0.0.1:1"], &unfit[..]].concat(), 1);
    assert!(ill.contains("WRONG    cluster: ") && ill.contains("nobody was asked"), "{ill}");
    let missing = said(&["doctor", "--directory", "not-there", "--listen", "127.0.0.1:0"], 0);
    assert!(missing.contains("directory 'not-there': it is not there; a first start makes it"), "{missing}");
    for (settings, reason) in [
        (&["--listen", "0.0.0.0:1"][..], "has no secret"),
        (&["--listen", "0.0.0.0:1", "--insecure"], "set an address to advertise"),
        (&["--http", "127.0.0.1"], "is no address to listen at"),
        (&["--listen", "127.0.0.1"], "is no address to listen at"),
        (&["--join", "node1"], "an address has a host and a port"),
        (&["--targets", "a,b", "--shards", "1"], "cannot be spread over 2 targets"),
        (&["--partitions", "33"], "partitions"),
    ] {
        let ill = said(&[&["doctor", "--directory", &new], settings].concat(), 1);
        assert!(ill.contains("WRONG    start: ") && ill.contains(reason), "{settings:?}: {ill}");
    }
    let alone = said(&["doctor"], 0);
    assert!(alone.contains("skipped") && alone.contains("open files"), "{alone}");
}

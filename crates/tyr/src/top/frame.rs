//! The lines that are shown of a view.

use crate::{
    output::{Align, Bytes, Style, Table},
    top::view::{Heat, Keyspace, Node, Rates, Slow, View},
};

/// A line of text.
#[derive(Debug)]
pub struct Line {
    pub style: Option<Style>,
    pub text: String,
}

impl Line {
    pub fn styled(style: Style, text: impl Into<String>) -> Line {
        Line { style: Some(style), text: text.into() }
    }

    fn plain(text: impl Into<String>) -> Line {
        Line { style: None, text: text.into() }
    }
}

/// All of them, the most important first.
pub fn frame(view: &View) -> Vec<Line> {
    let mut lines = Vec::new();
    let (health, style) = match view.health.as_str() {
        "well" => ("all is well", Style::Good),
        "degraded" => ("degraded", Style::Bad),
        _ => ("partly unserved", Style::Bad),
    };
    lines.push(Line::styled(
        style,
        format!(
            "Týr cluster {}: {health}; ring version {}, seen by node {}",
            view.cluster.get(..8).unwrap_or(&view.cluster),
            view.ring_version,
            view.seen_by
        ),
    ));
    lines.extend(view.troubles.iter().map(|trouble| Line::plain(format!("  ! {trouble}"))));
    lines.push(Line::plain(now(view)));
    section(&mut lines, "NODES", &nodes(&view.nodes));
    if !view.keyspaces.is_empty() {
        section(&mut lines, "KEYSPACES", &keyspaces(&view.keyspaces));
    }
    heats(&mut lines, "HOT BLOBS, touches a second", &view.hot);
    heats(&mut lines, "CONFLICTS, a second", &view.contended);
    lines.push(Line::plain(""));
    lines.push(Line::plain(pins(view)));
    slow(&mut lines, &view.slow);
    // A terminal would obey them, whoever has written them where.
    lines.iter_mut().for_each(|line| line.text.retain(|shown| !shown.is_control()));
    lines
}

fn now(view: &View) -> String {
    let nothing = Rates::default();
    let rates = view.samples.last().unwrap_or(&nothing);
    let partitions = &view.partitions;
    format!(
        "{} transactions/s (99 % in {}), {} reads/s (99 % in {}), {} conflicts/s, {}/s written, {}/s read; {} of {} partitions complete, {} moving, {} unserved",
        count(rates.transactions),
        seconds(rates.transaction_p99),
        count(rates.reads),
        seconds(rates.read_p99),
        count(rates.conflicts),
        bytes(rates.written_bytes),
        bytes(rates.read_bytes),
        partitions.complete,
        partitions.total,
        partitions.moving,
        partitions.unserved
    )
}

fn section(lines: &mut Vec<Line>, title: &str, table: &Table) {
    lines.push(Line::plain(""));
    lines.push(Line::styled(Style::Heading, title));
    lines.extend(table.lines().into_iter().map(Line::plain));
}

fn nodes(nodes: &[Node]) -> Table {
    let mut table = Table::new([
        ("node", Align::Right),
        ("state", Align::Left),
        ("address", Align::Left),
        ("leads", Align::Right),
        ("holds", Align::Right),
        ("tx/s", Align::Right),
        ("reads/s", Align::Right),
        ("99 %", Align::Right),
        ("queue", Align::Right),
        ("lag", Align::Right),
        ("clients", Align::Right),
        ("free", Align::Left),
    ]);
    for node in nodes {
        let told = |value: String| if node.answers { value } else { "-".to_owned() };
        let free = node.shards.iter().map(|shard| shard.free_bytes).min().unwrap_or(0);
        let size = node.shards.iter().map(|shard| shard.space_bytes).max().unwrap_or(0);
        let sum = |count: fn(&super::view::Shard) -> u64| {
            node.shards.iter().map(count).fold(0, u64::saturating_add)
        };
        table.row([
            node.node.to_string(),
            standing(node),
            node.address.clone(),
            node.leads.to_string(),
            node.holds.to_string(),
            told(count(node.rates.transactions)),
            told(count(node.rates.reads)),
            told(seconds(node.rates.transaction_p99)),
            told(sum(|shard| shard.queue).to_string()),
            told(node.shards.iter().map(|shard| shard.lag_entries).max().unwrap_or(0).to_string()),
            told(node.clients.to_string()),
            told(format!("{} of {}", Bytes(free), Bytes(size))),
        ]);
    }
    table
}

fn standing(node: &Node) -> String {
    let word = match (node.presence.as_str(), node.answers) {
        ("given-up", _) => "given up",
        ("present", true) if node.shards.iter().any(|shard| shard.failed) => "lost a store",
        ("present", true) if node.shards.iter().any(|shard| shard.full) => "full",
        ("present", true) if !node.ready => "not ready",
        ("present", true) if node.state == "draining" => "draining",
        ("present", true) if node.leads_manager => "serves, leads",
        ("present", true) => "serves",
        ("present", false) => "no answer",
        _ => "away",
    };
    word.to_owned()
}

fn keyspaces(keyspaces: &[Keyspace]) -> Table {
    let mut table = Table::new([
        ("keyspace", Align::Left),
        ("tx/s", Align::Right),
        ("conflicts/s", Align::Right),
        ("median", Align::Right),
        ("99 %", Align::Right),
        ("written/s", Align::Right),
        ("reads/s", Align::Right),
        ("99 %", Align::Right),
        ("read/s", Align::Right),
    ]);
    for Keyspace { name, recent } in keyspaces {
        table.row([
            name.clone(),
            count(recent.transactions),
            count(recent.conflicts),
            seconds(recent.transaction_p50),
            seconds(recent.transaction_p99),
            bytes(recent.written_bytes),
            count(recent.reads),
            seconds(recent.read_p99),
            bytes(recent.read_bytes),
        ]);
    }
    table
}

fn heats(lines: &mut Vec<Line>, title: &str, heats: &[Heat]) {
    if heats.is_empty() {
        return;
    }
    lines.push(Line::plain(""));
    lines.push(Line::styled(Style::Heading, title));
    for heat in heats.iter().take(HEATS_MAX) {
        let name = name_of(&heat.keyspace_name, &heat.blob);
        lines.push(Line::plain(format!("{:>8}  {name}", count(heat.per_second))));
    }
}

fn pins(view: &View) -> String {
    let backlog = format!("{} blobs have versions that may be collected", view.collection_backlog);
    match &view.oldest_pin {
        None => format!("no reader holds a version; {backlog}"),
        Some(pin) => format!(
            "{} readers hold versions, the oldest for {}: {} {}holds {} at node {}; {backlog}",
            view.pins,
            seconds(Some(pin.seconds)),
            if pin.session.is_empty() { "one session".into() } else { format!("session {}", pin.session) },
            if pin.client.is_empty() { String::new() } else { format!("from {} ", pin.client) },
            name_of(&pin.keyspace_name, &pin.blob),
            pin.node
        ),
    }
}

fn slow(lines: &mut Vec<Line>, slow: &[Slow]) {
    if slow.is_empty() {
        return;
    }
    lines.push(Line::plain(""));
    lines.push(Line::styled(Style::Heading, "SLOW OPERATIONS, the newest first"));
    for one in slow.iter().take(SLOW_MAX) {
        let Slow { node, request, kind, outcome, .. } = one;
        let name = name_of(&one.keyspace_name, &one.blob);
        lines.push(Line::plain(format!(
            "{:>8}  {kind}, {outcome}, at node {node}: {name} ({request})",
            seconds(Some(one.seconds))
        )));
        for hop in one.hops.iter().skip(1).take(HOPS_MAX) {
            let to = hop.to.map_or_else(|| "came to".to_owned(), |node| format!("to node {node} for"));
            let after = seconds(Some(hop.after_seconds));
            lines.push(Line::plain(format!("{after:>18} {} {to} {}", hop.step, hop.partition)));
        }
    }
}

/// The name of a blob, or the beginning of a long one.
fn name_of(keyspace: &str, blob: &str) -> String {
    let shown: String =
        format!("{keyspace}/{blob}").chars().flat_map(char::escape_debug).take(NAME_MAX).collect();
    if blob.is_empty() { keyspace.to_owned() } else { shown }
}

fn count(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.1} M", number / 1e6),
        number if number >= 1e4 => format!("{:.0} k", number / 1e3),
        number if number >= 1e3 => format!("{:.1} k", number / 1e3),
        number if number >= 100.0 || number == 0.0 => format!("{number:.0}"),
        number => format!("{number:.1}"),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size is neither negative nor larger"
)]
fn bytes(number: f64) -> String {
    Bytes(number.max(0.0).round() as u64).to_string()
}

fn seconds(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if number < 1e-3 => format!("{:.0} us", number * 1e6),
        Some(number) if number < 1.0 => format!("{:.1} ms", number * 1e3),
        Some(number) if number < 120.0 => format!("{number:.1} s"),
        Some(number) if number < 7200.0 => format!("{:.0} min", number / 60.0),
        Some(number) => format!("{:.0} h", number / 3600.0),
    }
}

/// As many hot blobs are shown,
const HEATS_MAX: usize = 5;
/// as many slow operations,
const SLOW_MAX: usize = 8;
/// of each as many hops,
const HOPS_MAX: usize = 6;
/// and of a name as many characters.
const NAME_MAX: usize = 120;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const VIEW: &str = r#"{
        "version": 1, "cluster": "0123456789abcdef", "seen_by": 2, "ring_version": 7, "health": "degraded",
        "troubles": ["node 3 is away"], "partitions": {"total": 64, "complete": 60, "moving": 4, "unserved": 0},
        "nodes": [
            {"node": 1, "address": "a:7700", "presence": "present", "answers": true, "ready": true, "leads_manager": true,
             "rates": {"transactions": 12345.6, "transaction_p99": 0.0023}, "shards": [{"queue": 3}, {"queue": 4}]},
            {"node": 3, "address": "c:7700", "presence": "evicted", "answers": false}
        ],
        "keyspaces": [{"name": "events", "recent": {"written_bytes": 2048.4}}],
        "hot": [{"keyspace_name": "events", "blob": "log\u001b[2J", "per_second": 99.5}],
        "slow": [{"request": "t1.2", "kind": "transaction", "outcome": "committed", "seconds": 1.5, "node": 1,
                  "hops": [{"step": "start", "partition": "p0.1"}, {"after_seconds": 1.25, "step": "vote", "partition": "p0.2", "to": 3}]}],
        "samples": [{"transactions": 1.0}, {"transactions": 250.0}], "later": {"field": true}
    }"#;

    #[test]
    fn what_is_wrong_comes_first_and_every_part_is_shown() {
        let view: View = serde_json::from_str(VIEW).unwrap();
        let lines = frame(&view);
        let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        assert!(lines[0].text.contains("degraded") && lines[1].text.contains("node 3 is away"), "{text}");
        for part in [
            "250 transactions/s",
            "60 of 64 partitions",
            "serves, leads",
            "12 k",
            "2.3 ms",
            "away",
            "events",
            "1.5 s",
            "1.2 s vote to node 3 for p0.2",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "a terminal would obey it");
    }

    #[test]
    fn of_nothing_there_is_something_to_show() {
        let lines = frame(&serde_json::from_str("{}").unwrap());
        assert!(lines[0].text.contains("unserved"));
    }
}

//! The cluster: whether it answers, all of its nodes do, and they agree on versions and on the time.

use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use tyr_server::{Address, Fact, Member, MemberState, NodeId, Operator, Presence, ViewOf};
use tyr_types::ErrorKind;

use super::Finding;
use crate::{
    cluster::{Wanted, addresses, tls},
    failure::Failure,
    node::DISTINCT,
    server,
    settings::Settings,
};

/// What is looked at of a node's view.
#[derive(Default, Deserialize)]
#[serde(default)]
struct View {
    /// Zero if it does not tell.
    node: u32,
    at_ms: u64,
    program: String,
    ready: bool,
    shards: Vec<Shard>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shard {
    shard: usize,
    failed: bool,
    full: bool,
}

/// Looks at it.
pub fn examine(settings: &Settings, findings: &mut Vec<Finding>) {
    let Ok(addresses) = addresses(settings) else {
        findings.push(Finding::skipped("cluster", "none is named; pass --store tyr://HOST:PORT"));
        return;
    };
    let shown = tls(settings).and_then(|tls| Ok((tls, settings.access.credential()?)));
    let (tls, credential) = match shown {
        Ok(shown) => shown,
        Err(failure) => {
            let advice = "nobody was asked: correct the setting or the file that it names";
            return findings.push(Finding::wrong("cluster", failure, advice));
        }
    };
    let mut operator = match Operator::new(&addresses, tls.as_ref(), &credential, settings.timeout) {
        Ok(operator) => operator,
        Err(error) => return findings.push(unanswered(error.into())),
    };
    let (told, is_led) = match operator.facts() {
        Ok(told) => {
            let version = told.reached.map_or(0, |version| version.0);
            findings.push(Finding::good("cluster", format!("it answers, at ring version {version}")));
            findings.push(ring(&told.facts));
            findings.extend(whose(settings, &told.facts));
            (told, true)
        }
        Err(error) => {
            findings.push(unanswered(error.into()));
            // Whose nodes there are is worth knowing even from somebody who heard it a while ago.
            let Ok((_, told)) = operator.memory() else { return };
            (told, false)
        }
    };
    let members = told.facts.iter().filter_map(|fact| match fact {
        Fact::Member(node, member) if member.state != MemberState::Left => Some((*node, member)),
        _ => None,
    });
    let mut members: Vec<(NodeId, &Member)> = members.collect();
    members.sort_by_key(|(node, _)| *node);
    let (count, mut programs) = (members.len(), Vec::new());
    for (node, member) in members {
        let subject = format!("node {} at {}", node.0, member.address);
        // Whether it is still away nobody knows who is not led.
        if is_led && member.presence != Presence::Present {
            let advice = format!(
                "start it again; if it is lost, 'tyr cluster replace {} NEW' or 'tyr cluster remove {}'",
                node.0, node.0
            );
            findings.push(Finding::wrong(subject, "it is away", advice));
            continue;
        }
        let address: Address = member.address.as_str().parse().expect("any text is an address");
        let before = now();
        let operator = Operator::new(&[address], tls.as_ref(), &credential, settings.timeout);
        let (operator, seen) = match operator {
            Ok(mut operator) => {
                let seen = operator.view(ViewOf::Node);
                (Some(operator), seen)
            }
            Err(error) => (None, Err(error)),
        };
        let between = u64::midpoint(before, now());
        match seen.map(|text| serde_json::from_str::<View>(&text).unwrap_or_default()) {
            Err(error) if error.kind() == ErrorKind::Denied => {
                findings.push(Finding::skipped(&subject, format!("{error}: {TOKEN}")));
                // Who it is, and its version, it tells everybody whom it lets in.
                let report = operator.and_then(|mut operator| operator.report().ok());
                match report {
                    Some(report) if report.replica.node != node => {
                        findings.push(another(&subject, report.replica.node.0));
                    }
                    Some(report) => programs.push(report.version),
                    None => {}
                }
            }
            Err(error) => {
                let advice = "clients on this machine do not reach it either: check the network between, and its address";
                findings.push(Finding::wrong(subject, error, advice));
            }
            Ok(view) if view.node != 0 && view.node != node.0 => findings.push(another(&subject, view.node)),
            Ok(view) => {
                findings.push(clock(&subject, view.at_ms, between, now() - before));
                findings.extend(health(&subject, &view));
                programs.push(view.program);
            }
        }
    }
    findings.push(versions(programs, count));
}

/// Whether a node of this cluster may be started from the directory that is named, if that is a node's already.
fn whose(settings: &Settings, facts: &[Fact]) -> Option<Finding> {
    let own = server::node_settings(settings).ok()?.whose().ok()??;
    let known = facts.iter().find_map(|fact| match fact {
        Fact::Member(node, member) if member.identity == own.identity => Some((node.0, member)),
        _ => None,
    });
    let subject = "node of the directory";
    Some(match known {
        None => Finding::wrong(
            subject,
            format!(
                "it is node {} of cluster {:032x}, which is not the one that --store names",
                own.node.0, own.cluster.0
            ),
            "name that cluster with --store, or another directory with --directory",
        ),
        Some((node, member)) if member.state == MemberState::Left => Finding::wrong(
            subject,
            format!("node {node} was removed from the cluster, for good"),
            "start a new node with empty directories",
        ),
        Some((node, member)) if own.start > 0 && own.start < member.incarnation.start() => Finding::wrong(
            subject,
            format!(
                "node {node} was started {} times, and only {} times from this directory: it is an older copy",
                member.incarnation.start(),
                own.start
            ),
            "do not start it: it lacks what the node has acknowledged since; if the node's own directory is lost, start a new node with empty directories",
        ),
        Some((node, _)) => Finding::good(subject, format!("it is node {node} of this cluster")),
    })
}

/// That it is another node that answers.
fn another(subject: &str, other: u32) -> Finding {
    Finding::wrong(subject, format!("node {other} is at this address"), DISTINCT)
}

/// That the cluster manager does not answer.
fn unanswered(failure: Failure) -> Finding {
    let advice = match failure {
        Failure::Store(ref error) if error.kind() == ErrorKind::Denied => TOKEN,
        _ => "see whether the nodes run, and whether this machine reaches their ports",
    };
    Finding::wrong("cluster", failure, advice)
}

/// Whether the nodes that were asked have the version of this command; there are so many of them altogether.
fn versions(programs: Vec<String>, nodes: usize) -> Finding {
    let (subject, asked) = ("versions", programs.len());
    let own = env!("CARGO_PKG_VERSION").to_owned();
    let different: BTreeSet<String> = programs.into_iter().chain([own]).collect();
    match (asked, different.len()) {
        (0, _) => Finding::skipped(subject, format!("none of {nodes} nodes has told its own")),
        (_, 2..) => Finding::warning(
            subject,
            format!(
                "nodes and this command have different ones: {}",
                different.into_iter().collect::<Vec<_>>().join(", ")
            ),
            "finish the upgrade: one node after the other",
        ),
        (asked, _) if asked == nodes => Finding::good(subject, "all nodes and this command have the same"),
        (asked, _) => Finding::good(
            subject,
            format!("{asked} of {nodes} nodes, which have told theirs, and this command have the same"),
        ),
    }
}

/// What to do if one may not look.
const TOKEN: &str = "pass the token of an administrator with --token-file";

fn ring(facts: &[Fact]) -> Finding {
    let wanted = Wanted::of(facts);
    let (mut total, mut unserved, mut lacking) = (0, 0, 0);
    for fact in facts {
        let Fact::Partition(_, configuration, _) = fact else { continue };
        total += 1;
        unserved += usize::from(configuration.replicas.is_empty());
        lacking += usize::from(wanted.is_lacking(fact));
    }
    match (unserved, lacking) {
        (0, 0) => Finding::good("ring", format!("all {total} partitions are complete")),
        (0, lacking) => Finding::warning(
            "ring",
            format!("{lacking} of {total} partitions lack replicas"),
            "bring back the nodes that are away, or wait until copies are made",
        ),
        (unserved, _) => Finding::wrong(
            "ring",
            format!("{unserved} of {total} partitions are served by nobody"),
            "bring back a node that holds them; nothing that was acknowledged is lost as long as one can",
        ),
    }
}

fn health(subject: &str, view: &View) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !view.ready {
        let advice = "see its log, and whether it reaches the other nodes";
        findings.push(Finding::wrong(subject, "it answers, but does not serve", advice));
    }
    for shard in view.shards.iter().filter(|shard| shard.failed || shard.full) {
        let number = shard.shard;
        findings.push(match shard.failed {
            true => Finding::wrong(
                subject,
                format!("shard {number} has lost its store"),
                "mend its target, and start the node again",
            ),
            false => Finding::wrong(
                subject,
                format!("shard {number} has no space left"),
                "remove something, or add nodes",
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::good(subject, "it serves"));
    }
    findings
}

/// What both clocks on the wall show. Nothing is decided by them, but people and certificates go by them.
fn clock(subject: &str, theirs: u64, ours: u64, took: u64) -> Finding {
    let apart = theirs.abs_diff(ours).saturating_sub(took / 2);
    match apart {
        0..1_000 => Finding::good(
            subject,
            format!("its clock agrees with this machine's to {} ms", apart.max(took / 2)),
        ),
        apart => Finding::warning(
            subject,
            format!("its clock and this machine's are {} s apart", apart / 1_000),
            "run chrony or another NTP client on both: logs and the console go by these clocks, and so do certificates",
        ),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn versions_are_told_of_the_nodes_that_have_told_theirs() {
        let told = |programs: &[&str]| {
            let found = versions(programs.iter().map(|program| (*program).to_owned()).collect(), 3);
            (found.verdict, found.found)
        };
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(told(&[]), (Verdict::Skipped, "none of 3 nodes has told its own".to_owned()));
        assert!(told(&[own, own]).1.starts_with("2 of 3 nodes"), "{:?}", told(&[own, own]));
        assert!(told(&[own, own, own]).1.starts_with("all nodes"));
        assert_eq!(told(&[own, "9.9.9"]).0, Verdict::Warning);
    }
}

//! Names for what happens seldom, as messages, log entries, and disks show it. A test demands that all of it happens.

use tyr_proto::{
    Outcome, Output, Refusal,
    entry::Entry,
    message::{Answer, Message},
};

/// Everything that has a name here.
pub const ALL: [&str; 62] = [
    "a disk failed",
    "another voter led",
    "answered elsewhere",
    "asked for a version",
    "asked about a number",
    "asked for a fate",
    "asked for a vote again",
    "collected around a pin",
    "copied a state",
    "copied a head",
    "dropped a copy of a head",
    "dropped a keyspace",
    "cut a log",
    "evicted a node",
    "expired a read",
    "fetched a number's bytes",
    "froze blobs",
    "froze blobs in parts",
    "got a blob",
    "forgot a session",
    "forgot an outcome",
    "forgot an outcome after one that is under way",
    "found a disk full",
    "found partitions on its disk",
    "installed a state",
    "learned everything",
    "lent a blob",
    "logged a lost write's place",
    "lost a number",
    "members became voters",
    "noted a mark",
    "noted a mark with exceptions",
    "old values from elsewhere",
    "passed a freeze on",
    "prepared on conditions",
    "prepared under a reserve",
    "pulled an append",
    "purged tombstones",
    "recalled a blob",
    "reconciled a log",
    "refused as busy",
    "refused as not staged",
    "refused by conflict",
    "refused by existence",
    "refused by floor",
    "refused by quota",
    "refused for a client that gave up",
    "refused for want of replicas",
    "refused for want of room",
    "refused past the first stop",
    "released a role",
    "released a slot",
    "reserved blobs",
    "reported a slow replica",
    "settled a stage",
    "staged",
    "told of a refusal",
    "told further heads",
    "took a checkpoint",
    "unstaged",
    "voters became members",
    "went on without a node",
];

/// What an output of a node shows.
pub fn of(output: &Output) -> Option<&'static str> {
    match output {
        Output::Send(_, envelope) => of_message(&envelope.message),
        Output::Answer(_, answer) => of_answer(answer),
        Output::Store { entry, .. } => of_entry(entry),
        Output::Cut(..) => Some("cut a log"),
        Output::Install { .. } => Some("installed a state"),
        Output::LearnerComplete(..) => Some("learned everything"),
        Output::Released(..) => Some("released a role"),
        Output::ReplicaSlow(..) => Some("reported a slow replica"),
        Output::AskVersion(_) => Some("asked for a version"),
    }
}

fn of_message(message: &Message) -> Option<&'static str> {
    Some(match message {
        Message::AskNumber { .. } => "asked about a number",
        Message::Ask { .. } => "asked for a fate",
        Message::AskVote { .. } => "asked for a vote again",
        Message::Copy { .. } => "copied a state",
        Message::Cached { .. } => "copied a head",
        Message::Uncached { .. } => "dropped a copy of a head",
        Message::NumberLost { .. } => "lost a number",
        Message::Olds { .. } => "old values from elsewhere",
        Message::Fetched { .. } => "fetched a number's bytes",
        Message::Freeze { freeze, .. } if freeze.stays => "reserved blobs",
        Message::Freeze { .. } => "passed a freeze on",
        Message::Reconciled { .. } => "reconciled a log",
        Message::Pulled(_) => "pulled an append",
        Message::Release { .. } => "released a slot",
        Message::Settle { .. } => "settled a stage",
        Message::Outcome { outcome: Outcome::Refused(_), .. } => "told of a refusal",
        _ => return None,
    })
}

fn of_answer(answer: &Answer) -> Option<&'static str> {
    Some(match answer {
        Answer::Outcome { outcome: Some((Outcome::Refused(refusal), _)), .. } => match refusal {
            Refusal::Conflict => "refused by conflict",
            Refusal::Exists | Refusal::NotFound => "refused by existence",
            Refusal::Fenced => "refused by floor",
            Refusal::Busy => "refused as busy",
            Refusal::Full => "refused for want of room",
            Refusal::Unstaged => "refused as not staged",
            Refusal::TooFewReplicas => "refused for want of replicas",
            Refusal::Quota => "refused by quota",
            Refusal::Invalid | Refusal::Denied | Refusal::TooLarge | Refusal::TooManyAttributes => {
                return None;
            }
        },
        Answer::Expired { .. } => "expired a read",
        Answer::Stats { stats, .. } if stats.iter().skip(1).any(Option::is_some) => "told further heads",
        Answer::Got { bytes: Some(bytes), .. } if !bytes.is_empty() => "got a blob",
        Answer::Lent { lasts: 1.., .. } => "lent a blob",
        Answer::Recall { .. } => "recalled a blob",
        Answer::Frozen { .. } => "froze blobs",
        Answer::FrozenPart { .. } => "froze blobs in parts",
        Answer::Kept { blobs, .. } if !blobs.is_empty() => "opened a snapshot",
        Answer::Elsewhere { .. } => "answered elsewhere",
        _ => return None,
    })
}

fn of_entry(entry: &Entry) -> Option<&'static str> {
    Some(match entry {
        Entry::Prepare(prepare) if prepare.plan.reserve.is_some() => "prepared under a reserve",
        Entry::Prepare(prepare) if prepare.plan.heads.iter().any(|head| !head.conditions.is_empty()) => {
            "prepared on conditions"
        }
        Entry::Refuse(refused) if refused.plan.is_none() => "refused for a client that gave up",
        Entry::Refuse(refused) if !refused.stops.is_empty() => "refused past the first stop",
        Entry::Write(writes) if writes.refused.is_some() => "logged a lost write's place",
        Entry::Keep(_) => "kept a snapshot",
        Entry::LetGo(_) => "let go of a snapshot",
        Entry::Purge(_) => "purged tombstones",
        Entry::Expire { .. } => "forgot a session",
        Entry::Forget { answered: Some(answered), .. } if !answered.exceptions().is_empty() => {
            "forgot an outcome after one that is under way"
        }
        Entry::Forget { .. } => "forgot an outcome",
        Entry::Stage(_) => "staged",
        Entry::Unstage { .. } => "unstaged",
        Entry::Mark { answered, .. } if !answered.exceptions().is_empty() => "noted a mark with exceptions",
        Entry::Mark { .. } => "noted a mark",
        Entry::Collect(discards) if discards.iter().any(|discard| !discard.keep.is_empty()) => {
            "collected around a pin"
        }
        _ => return None,
    })
}

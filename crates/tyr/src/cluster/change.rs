//! Changes of what a cluster consists of. Each can be interrupted and run again: what was begun goes on in the cluster.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use tyr_server::{Address, ClusterCommand, Member, MemberState, NodeId, Operator, Presence, Refusal};
use tyr_types::Error;

use super::{addresses, operator, picture::Picture};
use crate::{
    amount::number,
    failure::{Failure, Result},
    output::{Output, Report},
    settings::Settings,
};

/// The arguments of `tyr cluster add`.
#[derive(Args)]
pub struct Add {
    /// The address of a node that joins, as others reach it, or the number of one that was drained.
    #[arg(value_name = "ADDRESS|NODE")]
    node: String,
    #[command(flatten)]
    wait: Wait<600>,
}

/// The arguments of `tyr cluster drain`.
#[derive(Args)]
pub struct Drain {
    /// The node's number, as 'tyr cluster status' prints it.
    node: u32,
    #[command(flatten)]
    wait: Wait<0>,
}

/// The arguments of `tyr cluster remove`.
#[derive(Args)]
pub struct Remove {
    /// The node's number, as 'tyr cluster status' prints it.
    node: u32,
    /// Remove a dead node although it has the only copy of something, which is lost by that.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: Wait<600>,
}

/// The arguments of `tyr cluster replace`.
#[derive(Args)]
pub struct Replace {
    /// The number of the node that goes.
    old: u32,
    /// The number of the node that takes its place.
    new: u32,
    #[command(flatten)]
    wait: Wait<600>,
}

/// How long it may take.
#[derive(Args)]
struct Wait<const SECONDS: u64> {
    /// Wait at most so many seconds until it is done; it goes on after that.
    #[arg(long = "wait", value_name = "SECONDS", default_value = usual(SECONDS), value_parser = number(0..=WAIT_MAX))]
    seconds: u64,
}

/// A default as text: what clap keeps of a typed one is the same for all numbers.
const fn usual(seconds: u64) -> &'static str {
    match seconds {
        0 => "0",
        600 => "600",
        _ => panic!("it is not among the defaults"),
    }
}

impl Add {
    /// Waits until the node has its share.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut change = Change::new(self.wait.seconds, settings)?;
        if let Ok(number) = self.node.parse() {
            let node = NodeId(number);
            change.command(ClusterCommand::Restore(node), "restore", node)?;
            change.wait_for_share(node)?;
            return out.done(&Done::of("add", node));
        }
        let address: Address = self.node.parse().expect("any text is an address");
        if !address.is_whole() {
            let reason = format!("'{}' is neither the number of a node nor an address, HOST:PORT", self.node);
            return Err(Failure::Usage(reason));
        }
        let joined = change.picture()?.at(&self.node);
        if joined.is_none() {
            let others = addresses(settings)?.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            out.warnings().say(format_args!(
                "no node of the cluster is at {}; on its machine: tyr server --directory DIR --listen {} --join {others}",
                self.node, self.node
            ));
        }
        let node = change.wait(
            |picture| picture.present_at(&self.node),
            |picture| match picture.at(&self.node) {
                Some(node) => format!("node {} at {} is away", node.0, self.node),
                None => format!("no node at {} has joined the cluster", self.node),
            },
        )?;
        change.wait_for_share(node)?;
        out.done(&Done::of("add", node))
    }
}

impl Drain {
    /// Has the node give up what it holds.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut change = Change::new(self.wait.seconds, settings)?;
        let node = NodeId(self.node);
        let scarcity = change.picture()?.scarcity_without(node);
        change.command(ClusterCommand::Drain(node), "drain", node)?;
        if let Some((remain, replicas)) = scarcity {
            out.warnings().say(format_args!(
                "of active nodes {remain} remain, and there should be {replicas} replicas: until others join there are fewer"
            ));
        }
        if self.wait.seconds > 0 {
            change.wait_until_empty(node)?;
            return out.done(&Done::of("drain", node));
        }
        out.done(&Draining { action: "drain", node: node.0 })
    }
}

impl Remove {
    /// Forgets the node.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut change = Change::new(self.wait.seconds, settings)?;
        let node = NodeId(self.node);
        let picture = change.picture()?;
        let Some(member) = picture.member(node) else { return Err(no_such_node(node).into()) };
        if member.state == MemberState::Active && member.presence == Presence::Present {
            return Err(Error::invalid(format!(
                "node {node} is present and active; drain it first with 'tyr cluster drain {node} --wait 600', or, if it is about to \
                 die, stop it",
                node = node.0
            ))
            .into());
        }
        change.see_off(node, self.force)?;
        out.done(&Done::of("remove", node))
    }
}

impl Replace {
    /// Gives what one holds to the other, and forgets the first.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut change = Change::new(self.wait.seconds, settings)?;
        let (old, new) = (NodeId(self.old), NodeId(self.new));
        let picture = change.picture()?;
        if picture.member(old).is_none() {
            return Err(no_such_node(old).into());
        }
        let Some(member) = picture.member(new) else { return Err(no_such_node(new).into()) };
        if old == new || member.state != MemberState::Active || member.presence != Presence::Present {
            return Err(Error::invalid(format!(
                "node {} cannot take the place of node {}: it has to be another one, active and present",
                new.0, old.0
            ))
            .into());
        }
        change.command(ClusterCommand::Replace { old, new }, "replace", old)?;
        change.see_off(old, false)?;
        out.done(&Replaced { action: "replace", node: old.0, by: new.0 })
    }
}

/// A change while it is waited for.
struct Change {
    operator: Operator,
    seconds: u64,
    end: Instant,
}

impl Change {
    fn new(seconds: u64, settings: &Settings) -> Result<Self> {
        let end = Instant::now() + Duration::from_secs(seconds);
        Ok(Change { operator: operator(settings)?, seconds, end })
    }

    fn picture(&mut self) -> Result<Picture> {
        Ok(Picture(self.operator.facts()?))
    }

    /// Has a command about a node carried out.
    fn command(&mut self, command: ClusterCommand, verb: &str, node: NodeId) -> Result<()> {
        match self.operator.command(command)? {
            Ok(_) => Ok(()),
            Err(refusal) => {
                Err(refused(refusal, node).context(format_args!("{verb} node {}", node.0)).into())
            }
        }
    }

    /// Looks again and again until there is what is looked for.
    fn wait<T>(
        &mut self,
        found: impl Fn(&Picture) -> Option<T>,
        lacks: impl Fn(&Picture) -> String,
    ) -> Result<T> {
        loop {
            let picture = self.picture()?;
            if let Some(found) = found(&picture) {
                return Ok(found);
            }
            self.pause(|| lacks(&picture))?;
        }
    }

    fn pause(&self, lacks: impl Fn() -> String) -> Result<()> {
        if Instant::now() >= self.end {
            return Err(Error::unavailable(format!(
                "{} after {} seconds; it goes on, run the command again to wait for it",
                lacks(),
                self.seconds
            ))
            .into());
        }
        sleep(PAUSE);
        Ok(())
    }

    /// Waits until nothing has been on its way to the node for a while, and nothing lacks replicas that could have them: plans give a node
    /// its share bit by bit, and who restarts one node after the other goes on then.
    fn wait_for_share(&mut self, node: NodeId) -> Result<()> {
        let mut quiet_since = Instant::now();
        loop {
            let picture = self.picture()?;
            let member = picture.member(node).ok_or_else(|| no_such_node(node))?;
            if member.state == MemberState::Draining {
                return Err(Error::invalid(format!(
                    "node {} is drained: 'tyr cluster add {}' gives it a share again",
                    node.0, node.0
                ))
                .into());
            }
            let (holds, lacking) = (picture.held_by(node), picture.lacking(None));
            let is_served = member.presence == Presence::Present && (holds > 0 || member.weight == 0);
            if !is_served || picture.is_moving() {
                quiet_since = Instant::now();
            }
            // Where zones leave no place for more replicas, none are made.
            let may_stay = picture.awaited(None).is_none();
            let quiet = match lacking == 0 || picture.is_unserved() {
                true => QUIET,
                false if may_stay => STILL,
                false => Duration::MAX,
            };
            if quiet_since.elapsed() >= quiet {
                return Ok(());
            }
            self.pause(|| {
                format!(
                    "node {} holds {holds} partitions, and {} are still to change hands or to get more replicas{}",
                    node.0,
                    lacking.max(picture.moving()),
                    picture.for_whom(None)
                )
            })?;
        }
    }

    /// Waits until a node holds nothing. What it alone has nobody can take over as long as it is away, and then no replica is named.
    fn wait_until_empty(&mut self, node: NodeId) -> Result<()> {
        let is_empty = |picture: &Picture| picture.named(node) == 0 && !picture.may_wait_for(node);
        let lacks = |picture: &Picture| match picture.named(node) {
            0 => format!(
                "nobody serves {} partitions, of which node {}, which is away, may have the only copy (start it again),",
                picture.unserved(),
                node.0
            ),
            named => {
                format!("node {} still holds {named} partitions{}", node.0, picture.for_whom(Some(node)))
            }
        };
        self.wait(|picture| is_empty(picture).then_some(()), lacks)
    }

    /// Waits until nobody needs a node that goes, and what it held is somewhere else, and forgets it.
    fn see_off(&mut self, node: NodeId, force: bool) -> Result<()> {
        let picture = self.picture()?;
        // First of all what would be lost, before anything has changed.
        if picture.is_unserved() && self.has_left(node, force)? {
            return Ok(());
        }
        let away = |member: &Member| member.presence != Presence::Present;
        if picture.member(node).is_some_and(away) {
            self.command(ClusterCommand::Drain(node), "drain", node)?;
            self.command(ClusterCommand::GiveUp(node), "give up", node)?;
        }
        let mut still_since = Instant::now();
        loop {
            let picture = self.picture()?;
            let Some(member) = picture.member(node) else { return Ok(()) };
            if member.state == MemberState::Active {
                return Err(Error::unavailable(format!("node {} was taken back meanwhile", node.0)).into());
            }
            if picture.is_moving() {
                still_since = Instant::now();
            }
            let (named, lacking) = (picture.named(node), picture.lacking(Some(node)));
            // Where zones leave no place for more replicas, none are made.
            let may_stay = picture.awaited(Some(node)).is_none() && still_since.elapsed() >= STILL;
            let is_made_anew = lacking == 0 || picture.is_unserved() || may_stay;
            if named == 0 && is_made_anew && self.has_left(node, force)? {
                return Ok(());
            }
            self.pause(|| match named {
                0 => format!(
                    "{lacking} partitions have fewer replicas than they should{}",
                    picture.for_whom(Some(node))
                ),
                _ => {
                    format!("node {} still holds {named} partitions{}", node.0, picture.for_whom(Some(node)))
                }
            })?;
        }
    }

    /// Has the node leave, if nobody needs it any more.
    fn has_left(&mut self, node: NodeId, force: bool) -> Result<bool> {
        let refusal = match self.operator.command(ClusterCommand::Leave(node))? {
            Ok(_) => return Ok(true),
            Err(Refusal::Busy) => return Ok(false),
            Err(refusal) => refusal,
        };
        if refusal == Refusal::LastCopy && force {
            self.command(ClusterCommand::Abandon(node), "abandon", node)?;
            return Ok(false);
        }
        Err(refused(refusal, node).context(format_args!("remove node {}", node.0)).into())
    }
}

fn no_such_node(node: NodeId) -> Error {
    Error::not_found(format!("there is no node {} in the cluster; see 'tyr cluster status'", node.0))
}

fn refused(refusal: Refusal, node: NodeId) -> Error {
    match refusal {
        Refusal::NotFound => {
            Error::not_found("there is no such node in the cluster; see 'tyr cluster status'")
        }
        Refusal::TooFew => Error::invalid("too few nodes would remain; add others first"),
        Refusal::Invalid => Error::invalid(
            "another change of these nodes is under way, or they do not fit for it; look again with 'tyr cluster status'",
        ),
        Refusal::LastCopy => Error::invalid(format!(
            "it has the only copy of some partitions, so what they hold would be lost; start node {} again, or add --force to lose it",
            node.0
        )),
        other => Error::unavailable(other.to_string()),
    }
}

#[derive(Serialize)]
struct Done {
    action: &'static str,
    node: u32,
}

impl Done {
    fn of(action: &'static str, node: NodeId) -> Self {
        Done { action, node: node.0 }
    }
}

impl Report for Done {
    fn print(&self, out: &mut Output) -> Result<()> {
        let node = self.node;
        out.line(match self.action {
            "add" => format!("node {node} holds its share"),
            "drain" => format!("node {node} holds nothing any more, and can be switched off"),
            _ => format!("node {node} was removed for good"),
        })
    }
}

#[derive(Serialize)]
struct Draining {
    action: &'static str,
    node: u32,
}

impl Report for Draining {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "node {} is being drained; 'tyr cluster status' shows when it holds nothing",
            self.node
        ))
    }
}

#[derive(Serialize)]
struct Replaced {
    action: &'static str,
    node: u32,
    by: u32,
}

impl Report for Replaced {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("node {} was replaced by node {}, and removed for good", self.node, self.by))
    }
}

/// The longest wait in seconds: a year.
const WAIT_MAX: u64 = 366 * 86_400;
/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(200);
/// Nothing more is to come after so long: the cluster manager plans more often.
const QUIET: Duration = Duration::from_secs(1);
/// When nothing has moved for so long, nothing will.
const STILL: Duration = Duration::from_secs(10);

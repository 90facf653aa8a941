//! A partition as the cluster manager knows it: who holds it, who should, and the one change on the way between the two.
//!
//! A change has two steps. It is *proposed* while somebody who runs would lose a role by it; those acknowledge (`released`). Then it
//! *begins*: the epoch is raised. A change by which nobody who runs loses a role begins at once. Invariants:
//!
//! - An epoch ends only when every replica that loses its role by that, or loses its place as the primary, has released it or is dead.
//! - A complete replica is one of the epoch before, or its heir, or a learner whose completeness that epoch's primary reported, or the heir of
//!   the last complete set. So the primary is never one that lacks something acknowledged, as long as anybody has it.
//! - Nobody who runs gives up a role to a target that names fewer replicas than the class wants and has members for: it is what is left
//!   of a plan after slow replicas were taken out of it, and the next plan fills it up. Nor does a slow replica if too few would be left
//!   to take writes.
//! - The floor is raised exactly when the primary changes without complete hand-over; a primary that gave up its role and gets it
//!   back has changed.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{Configuration, Epoch, NodeId, Replica, RingVersion};

/// A partition as the cluster manager knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Who holds it now.
    pub configuration: Configuration,
    /// The change that waits for those who lose a role.
    pub proposal: Option<Proposal>,
    /// Who should hold it by the last plan; the first should be the primary.
    pub(super) target: Vec<NodeId>,
    /// The complete replicas of the last epoch that had any. None: it was never held, and holds nothing.
    pub(super) last_complete: Vec<Replica>,
    /// The replicas that gave up their role in this epoch, and to whom a primary handed over.
    pub(super) released: BTreeMap<Replica, Option<Replica>>,
    /// Learners that the primary reported complete in this epoch.
    pub(super) joined: Vec<Replica>,
    /// Complete replicas whose removal the primary asked for.
    pub(super) slow: Vec<Replica>,
    /// Replicas whose node runs and has lost what it kept of this partition: as good as dead here.
    pub(super) lost: Vec<Replica>,
}

/// A change that waits for those who lose a role by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The ring version that proposed it.
    pub since: RingVersion,
    /// The complete replicas of the next epoch, the primary first.
    pub replicas: Vec<Replica>,
    /// The learners of the next epoch.
    pub learners: Vec<Replica>,
}

/// What a partition must know of the members.
pub(super) trait Standing {
    /// The incarnation of a node that may hold roles.
    fn current(&self, node: NodeId) -> Option<Replica>;
    /// The incarnation that may hold roles and has all that this one held: itself, or a later one of its node.
    fn heir(&self, replica: Replica) -> Option<Replica>;
    /// Whether what a replica held is nowhere any more.
    fn has_forgotten(&self, dead: Replica) -> bool;

    /// Whether no more replicas than so many are wanted and can be had.
    fn is_full(&self, replicas: usize) -> bool;
    /// Whether so many replicas take writes.
    fn is_enough(&self, replicas: usize) -> bool;

    /// Whether this very incarnation may hold roles.
    fn is_alive(&self, replica: Replica) -> bool {
        self.current(replica.node) == Some(replica)
    }
}

/// The standing of the members without replicas that are lost.
struct Without<'a, S> {
    standing: &'a S,
    lost: &'a [Replica],
}

impl<S: Standing> Standing for Without<'_, S> {
    fn current(&self, node: NodeId) -> Option<Replica> {
        self.standing.current(node).filter(|replica| !self.lost.contains(replica))
    }

    fn heir(&self, replica: Replica) -> Option<Replica> {
        self.standing.heir(replica).filter(|replica| !self.lost.contains(replica))
    }

    fn has_forgotten(&self, dead: Replica) -> bool {
        self.standing.has_forgotten(dead)
    }

    fn is_full(&self, replicas: usize) -> bool {
        self.standing.is_full(replicas)
    }

    fn is_enough(&self, replicas: usize) -> bool {
        self.standing.is_enough(replicas)
    }
}

/// Who would hold the partition in the next epoch.
struct Shape {
    replicas: Vec<Replica>,
    learners: Vec<Replica>,
}

impl Partition {
    /// A partition that nobody holds yet.
    pub(super) fn new() -> Self {
        Partition {
            configuration: Configuration {
                epoch: Epoch(0),
                since: RingVersion(0),
                floor: RingVersion(0),
                replicas: Vec::new(),
                learners: Vec::new(),
            },
            proposal: None,
            target: Vec::new(),
            last_complete: Vec::new(),
            released: BTreeMap::new(),
            joined: Vec::new(),
            slow: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Who should hold it by the last plan; the first should be the primary.
    pub fn target(&self) -> &[NodeId] {
        &self.target
    }

    /// The complete replicas of the last epoch that had any: whoever holds the partition next is one of them.
    pub fn last_complete(&self) -> &[Replica] {
        &self.last_complete
    }

    /// The replicas that the proposal still waits for.
    pub fn awaited(&self) -> Vec<Replica> {
        let Some(proposal) = &self.proposal else { return Vec::new() };
        let losers = losers(&self.configuration, &proposal.replicas);
        losers.filter(|replica| !self.released.contains_key(replica)).collect()
    }

    /// Whether the node holds any of it, or should, or is the only one that can bring it back.
    pub(super) fn names(&self, node: NodeId) -> bool {
        let held = self.configuration.replicas.iter().chain(&self.configuration.learners);
        held.chain(&self.last_complete).any(|replica| replica.node == node) || self.target.contains(&node)
    }

    /// Takes the next step that is possible. Answers whether a node would see a difference.
    pub(super) fn advance(&mut self, standing: &impl Standing, version: RingVersion) -> bool {
        // A node that starts again may have it again.
        self.lost.retain(|replica| standing.is_alive(*replica));
        let lost = self.lost.clone();
        self.advance_without(&Without { standing, lost: &lost }, version)
    }

    fn advance_without(&mut self, standing: &impl Standing, version: RingVersion) -> bool {
        let mut seen = false;
        // Nobody can bring it back, so waiting would be for ever: it begins anew.
        if self.last_complete.iter().all(|dead| standing.has_forgotten(*dead))
            && self.held(standing).is_empty()
        {
            self.last_complete.clear();
        }
        loop {
            let goal = self.goal(standing);
            if self.is_reached(&goal) && self.released.is_empty() {
                return self.proposal.take().is_some() || seen;
            }
            if self.is_free(&goal.replicas, standing) {
                self.begin(goal, version);
            } else {
                let step = self.step(standing);
                if self.is_reached(&step) {
                    return self.propose(goal, version) || seen;
                }
                self.begin(step, version);
            }
            seen = true;
        }
    }

    /// Whether nobody who runs and has not released loses a role.
    fn is_free(&self, next: &[Replica], standing: &impl Standing) -> bool {
        losers(&self.configuration, next)
            .all(|replica| !standing.is_alive(replica) || self.released.contains_key(&replica))
    }

    fn is_reached(&self, shape: &Shape) -> bool {
        let now = &self.configuration;
        now.primary() == shape.replicas.first().copied()
            && is_same_set(&now.replicas, &shape.replicas)
            && is_same_set(&now.learners, &shape.learners)
    }

    /// Where the target leads from here. It gives up what lies outside of the target only when the target is whole and complete.
    fn goal(&self, standing: &impl Standing) -> Shape {
        let wanted: Vec<Replica> = self.target.iter().filter_map(|node| standing.current(*node)).collect();
        if self.last_complete.is_empty() {
            return Shape { replicas: wanted, learners: Vec::new() };
        }
        let held = self.held(standing);
        let arrived = wanted.len() == self.target.len() && standing.is_full(wanted.len());
        if arrived && wanted.iter().all(|replica| held.contains(replica) && self.runs_on(replica)) {
            let handed = self.handed_to().filter(|replica| wanted.contains(replica));
            return Shape { replicas: led_by(wanted, handed), learners: Vec::new() };
        }
        let mut shape = self.step(standing);
        let fast: Vec<Replica> =
            held.iter().copied().filter(|replica| !self.slow.contains(replica)).collect();
        if !fast.is_empty() && standing.is_enough(fast.len()) {
            let primary = self.next_primary(&fast);
            shape.replicas = led_by(fast, primary);
        }
        shape
    }

    /// The nearest shape in which nobody who runs loses a role: the dead are gone, learners have come, complete ones have joined.
    fn step(&self, standing: &impl Standing) -> Shape {
        let held = self.held(standing);
        let wanted = self.target.iter().filter_map(|node| standing.current(*node));
        // Without a complete replica there is nobody to learn from.
        let learners = wanted.filter(|replica| !held.is_empty() && !held.contains(replica)).collect();
        let primary = self.next_primary(&held);
        Shape { replicas: led_by(held, primary), learners }
    }

    /// Those who run and hold everything. A replica that started again and has what it held is one of them: nothing was acknowledged in this epoch
    /// that it had not stored before. It must not be taken for dead, or when all start again after each other the one that never does would be the
    /// last to have everything.
    fn held(&self, standing: &impl Standing) -> Vec<Replica> {
        let stayed = self.configuration.replicas.iter().filter_map(|replica| standing.heir(*replica));
        let joined = self.joined.iter().copied().filter(|replica| standing.is_alive(*replica));
        let held: Vec<Replica> = stayed.chain(joined).collect();
        if !held.is_empty() {
            return held;
        }
        self.last_complete.iter().filter_map(|dead| standing.heir(*dead)).collect()
    }

    /// Whether it has been complete in this very incarnation.
    fn runs_on(&self, replica: &Replica) -> bool {
        self.configuration.replicas.contains(replica) || self.joined.contains(replica)
    }

    /// The primary stays, or is whom it handed over to, or is the one that the target names first, of those that have not just started again if there
    /// are any: one that starts again and again does not take the lead each time.
    fn next_primary(&self, held: &[Replica]) -> Option<Replica> {
        let stays = self.configuration.primary().filter(|primary| !self.released.contains_key(primary));
        let named = |node: &NodeId| held.iter().find(|replica| replica.node == *node).copied();
        let planned = || self.target.iter().filter_map(named).chain(held.iter().copied());
        let order =
            [stays, self.handed_to(), planned().find(|replica| self.runs_on(replica)), planned().next()];
        order.into_iter().flatten().find(|replica| held.contains(replica))
    }

    /// To whom the primary of this epoch handed over.
    fn handed_to(&self) -> Option<Replica> {
        self.released.get(&self.configuration.primary()?).copied().flatten()
    }

    fn propose(&mut self, goal: Shape, version: RingVersion) -> bool {
        let known = self.proposal.as_ref();
        if known.is_some_and(|known| known.replicas == goal.replicas && known.learners == goal.learners) {
            return false;
        }
        self.proposal = Some(Proposal { since: version, replicas: goal.replicas, learners: goal.learners });
        true
    }

    fn begin(&mut self, next: Shape, version: RingVersion) {
        let now = &mut self.configuration;
        let before = now.primary();
        let handed_to = before.and_then(|primary| self.released.get(&primary).copied());
        let primary = next.replicas.first().copied();
        let continues = match handed_to {
            None => primary == before,
            Some(receiver) => receiver.is_some() && primary == receiver,
        };
        if !continues {
            now.floor = version;
        }
        now.epoch = Epoch(now.epoch.0 + 1);
        now.since = version;
        now.replicas = next.replicas;
        now.learners = next.learners;
        if !now.replicas.is_empty() {
            self.last_complete.clone_from(&now.replicas);
        }
        self.slow.retain(|replica| now.replicas.contains(replica));
        self.released.clear();
        self.joined.clear();
        self.proposal = None;
    }
}

/// Who loses a role if these are the next epoch's complete replicas: those who are gone, and a primary that is not the first.
fn losers<'a>(now: &'a Configuration, next: &'a [Replica]) -> impl Iterator<Item = Replica> + 'a {
    let stays = |replica: &Replica| {
        next.contains(replica) && (now.primary() != Some(*replica) || next.first() == Some(replica))
    };
    now.replicas.iter().copied().filter(move |replica| !stays(replica))
}

/// The replicas with this one first.
fn led_by(mut replicas: Vec<Replica>, primary: Option<Replica>) -> Vec<Replica> {
    if let Some(place) = replicas.iter().position(|replica| Some(*replica) == primary) {
        replicas[..=place].rotate_right(1);
    }
    replicas
}

fn is_same_set(some: &[Replica], others: &[Replica]) -> bool {
    some.len() == others.len() && some.iter().all(|replica| others.contains(replica))
}

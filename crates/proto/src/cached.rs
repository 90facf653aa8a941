//! Read-only copies of popular heads of other partitions at a shard (design, section 3).
//!
//! A copy is told by the head's primary for a time. Before a write of the head is voted for, the primary has every copy dropped, or waits
//! until its time is over (`partition/subscribers.rs`). So whatever a copy says is what the head says at that moment.
//!
//! Everything that is asked for has a number, and what is told is taken only if it answers the last that was asked for and not given up:
//! what is late or comes twice does no harm.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::{
    BlobName, Keyspaces, Limits, NodeId, PartitionId, RESEND_AFTER, Replica, Time,
    effects::Effect,
    message::{HeadStat, Message},
    popular::Popular,
};

/// The copies of a shard.
#[derive(Debug)]
pub struct CachedHeads {
    me: Replica,
    heads: BTreeMap<BlobName, Cached>,
    popular: Popular,
    last_ask: u64,
    effects: VecDeque<Effect>,
}

/// A head that is held, or asked for, or both.
#[derive(Debug)]
struct Cached {
    held: Option<Held>,
    asked: Option<Asked>,
    /// The partition of this shard to which answers go.
    at: PartitionId,
    /// The head's.
    of: PartitionId,
}

#[derive(Debug)]
struct Held {
    ask: u64,
    stat: HeadStat,
    until: Time,
    /// Once this has come it is asked for anew.
    renew_at: Time,
}

/// What was asked for and not answered.
#[derive(Debug)]
struct Asked {
    ask: u64,
    since: Time,
    said_at: Time,
}

impl CachedHeads {
    /// None yet.
    pub fn new(me: Replica) -> Self {
        CachedHeads {
            me,
            heads: BTreeMap::new(),
            popular: Popular::default(),
            last_ask: 0,
            effects: VecDeque::new(),
        }
    }

    /// What it has to say.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.heads.values().filter(|cached| cached.held.is_some()).count()
    }

    /// The node goes on as another incarnation. What it held runs out, or is confirmed to be gone.
    pub fn begin_incarnation(&mut self, me: Replica) {
        self.me = me;
        self.heads.clear();
    }

    /// What a head says now, if there is a copy of it. One that is popular is asked for, to be told to partition `at` of this shard.
    pub fn stat(
        &mut self,
        now: Time,
        blob: &BlobName,
        at: PartitionId,
        keyspaces: &Keyspaces,
        limits: &Limits,
    ) -> Option<HeadStat> {
        let keyspace = keyspaces.get(&blob.keyspace)?;
        let is_popular = self.popular.note(now, blob, limits.cached_max);
        if is_popular && !self.heads.contains_key(blob) && self.heads.len() < limits.cached_max {
            let of = keyspace.partition_of(blob, 0);
            self.heads.insert(blob.clone(), Cached { held: None, asked: None, at, of });
            self.ask(now, blob);
        }
        let held = self.heads.get(blob)?.held.as_ref()?;
        (now < held.until).then(|| held.stat.clone())
    }

    fn ask(&mut self, now: Time, blob: &BlobName) {
        let Some(cached) = self.heads.get_mut(blob) else { return };
        self.last_ask += 1;
        let asked = Asked { ask: self.last_ask, since: now, said_at: now };
        self.effects.push_back(cached.say(blob, self.me, asked.ask));
        cached.asked = Some(asked);
    }

    /// A head's primary tells what it says, for so many microseconds since that was asked for.
    pub fn handle_cached(&mut self, now: Time, blob: &BlobName, ask: u64, lasts: u64, stat: HeadStat) {
        let Some(cached) = self.heads.get_mut(blob) else { return };
        let Some(asked) = cached.asked.take_if(|asked| asked.ask == ask) else { return };
        let (until, renew_at) = (asked.since.after(lasts), now.after(lasts / 2));
        cached.held = Some(Held { ask, stat, until, renew_at });
    }

    /// A head's primary has everything dropped that was asked for up to a number: it is, and will not come any more.
    pub fn handle_uncache(
        &mut self,
        (from, of): (NodeId, PartitionId),
        partition: PartitionId,
        blob: BlobName,
        holder: Replica,
        ask: u64,
    ) {
        if holder == self.me
            && let Some(cached) = self.heads.get_mut(&blob)
        {
            cached.held.take_if(|held| held.ask <= ask);
            cached.asked.take_if(|asked| asked.ask <= ask);
            if cached.held.is_none() && cached.asked.is_none() {
                self.heads.remove(&blob);
            }
        }
        // Another incarnation of the node holds nothing any more.
        let message = Message::Uncached { blob, holder, partition, ask };
        self.effects.push_back(Effect::ToNode(from, of, message));
    }

    /// Time passes: drops what is over or not popular any more, renews what is, asks again.
    pub fn handle_tick(&mut self, now: Time) {
        self.popular.turn(now);
        let mut anew = Vec::new();
        let (me, popular, effects) = (self.me, &self.popular, &mut self.effects);
        self.heads.retain(|blob, cached| {
            cached.held.take_if(|held| held.until <= now);
            if !popular.contains(blob) {
                effects.push_back(cached.let_go(blob, me));
                return false;
            }
            match (&mut cached.asked, &cached.held) {
                (Some(asked), _) if now.since(asked.said_at) >= RESEND_AFTER => {
                    asked.said_at = now;
                    let ask = asked.ask;
                    effects.push_back(cached.say(blob, me, ask));
                }
                (None, Some(held)) if held.renew_at <= now => anew.push(blob.clone()),
                (None, None) => return false,
                _ => {}
            }
            true
        });
        for blob in anew {
            self.ask(now, &blob);
        }
    }
}

impl Cached {
    /// The last that was asked for.
    fn last(&self) -> u64 {
        let (held, asked) =
            (self.held.as_ref().map(|held| held.ask), self.asked.as_ref().map(|asked| asked.ask));
        held.max(asked).unwrap_or(0)
    }

    fn let_go(&self, blob: &BlobName, holder: Replica) -> Effect {
        let (blob, partition, ask) = (blob.clone(), self.at, self.last());
        Effect::ToPrimary(self.of, Message::Uncached { blob, holder, partition, ask })
    }

    fn say(&self, blob: &BlobName, holder: Replica, ask: u64) -> Effect {
        let message = Message::Subscribe { blob: blob.clone(), holder, partition: self.at, ask };
        Effect::ToPrimary(self.of, message)
    }
}

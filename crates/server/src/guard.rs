//! Who is let in, and what each may do: the node's side of access control.
//!
//! A [`Gate`] judges who dials. Members and newcomers prove that they know the secret of the cluster; they are trusted. Clients show a token,
//! or prove that they know the secret, as which they may do everything. What a client sends then goes through a [`Guarded`], which lets
//! nothing pass that its rights do not cover.
//!
//! Invariants:
//!
//! - Rights are worked out when a client comes, and anew when anything is said of accounts or seals; until then a look at what was worked
//!   out is all that a message costs. What this node has heard of accounts is at most as old as its lease.
//! - A client whose token has expired or was revoked is hung up on at the next thing that it sends.
//! - A message that only nodes send is never taken from a client.
//!
//! It does nothing if the node has no secret: then everybody may do everything.

mod caller;
mod names;
mod registry;
mod rules;

use std::sync::{Arc, OnceLock};

use tyr_net::{
    Admission, Claim, End, Handler, Link, Porter, Received, Secret, Token,
    channels::{DATA, MANAGER, TRACED},
};
use tyr_proto::{
    Outcome, SessionId, TraceContext,
    access::{Claims, Rights},
    cluster::ClusterId,
    encoding::{append_to, from_bytes, from_bytes_of_stranger},
    message::{Answer, Envelope},
};
use tyr_store::aligned_copy;
use tyr_wire::connection::{Frame, Kind, Party, Peer, Refusal};

pub(crate) use caller::{Caller, Who};
pub(crate) use registry::Registry;
pub(crate) use rules::{Needs, needs_of, see};

use crate::{audit::Act, event::Event, reception::Reception, surroundings::now};
use rules::Denied;

/// Judges who dials a node.
pub(crate) struct Gate {
    secret: Secret,
    /// Once the node belongs to one.
    cluster: OnceLock<ClusterId>,
    reception: Arc<Reception>,
}

impl Gate {
    /// Lets in who knows the secret, and who has a token of the cluster.
    pub fn new(secret: Secret, reception: Arc<Reception>) -> Self {
        Gate { secret, cluster: OnceLock::new(), reception }
    }

    /// The node belongs to a cluster.
    pub fn belongs_to(&self, cluster: ClusterId) {
        // A node never belongs to another one.
        let _known = self.cluster.set(cluster);
    }

    fn admit(&self, session: u64, who: Who, from: &str, proof: Vec<u8>) -> Admission {
        let caller = Arc::new(Caller::new(session, who, from));
        let guarded = Guarded { reception: self.reception.clone(), caller, entered: OnceLock::new() };
        Admission { handler: Arc::new(guarded), proof }
    }

    /// Whose token is shown.
    fn user(&self, claim: &Claim<'_>) -> Result<Who, Refusal> {
        let shown = claim.proof.shown().ok_or(Refusal::Denied)?;
        let claims: Claims =
            shown.claims().and_then(|bytes| from_bytes(bytes).ok()).ok_or(Refusal::Denied)?;
        let is_held = shown.is_held_by(&claims.holder);
        self.judge_claims(claims, is_held, |seal| shown.is_sealed_by(seal))
    }

    /// Who bears a token: whoever has all of it. None is asked for that came over a connection to which others listen.
    pub fn bearer(&self, text: &str, from: &str) -> Result<Arc<Caller>, Refusal> {
        let token = Token::parse(text).map_err(|_| Refusal::Denied);
        let who = token.and_then(|token| {
            let claims: Claims = from_bytes(token.claims()).map_err(|_| Refusal::Denied)?;
            let is_held = token.is_held_by(&claims.holder);
            self.judge_claims(claims, is_held, |seal| token.is_sealed_by(seal))
        });
        match who {
            Ok(who) => Ok(Arc::new(Caller::new(0, who, from))),
            Err(refusal) => {
                self.reception.counts.denied();
                if self.reception.counts.may_warn(now()) {
                    tracing::info!(from, %refusal, "a token that came by HTTP is not good");
                }
                Err(refusal)
            }
        }
    }

    /// Whose claims these are, if they are held by who shows them, a seal stands for them, and they are not void.
    fn judge_claims(
        &self,
        claims: Claims,
        is_held: bool,
        is_sealed_by: impl Fn(&[u8; 32]) -> bool,
    ) -> Result<Who, Refusal> {
        if self.cluster.get() != Some(&claims.cluster) || !is_held {
            return Err(Refusal::Denied);
        }
        let registry = &self.reception.registry;
        let Some(seal) = registry.seal(&claims) else {
            // One that was made after this node has heard of seals last is known in a moment.
            self.reception.events.tell(Event::Behind);
            return Err(registry.refusal_of_unknown(&claims));
        };
        if !is_sealed_by(&seal) {
            return Err(Refusal::Denied);
        }
        let now = registry.seconds();
        if now >= claims.expires {
            return Err(Refusal::Expired);
        }
        if claims.issued > now.saturating_add(CLOCKS_APART_MAX) {
            return Err(Refusal::Denied);
        }
        match registry.name(&claims) {
            Some(name) => Ok(Who::User(name, Box::new(claims))),
            None => Err(registry.refusal_of_unknown(&claims)),
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Porter for Gate {
    fn judge(&self, claim: &Claim<'_>) -> Result<Admission, Refusal> {
        let judged = match (claim.proof.by_secret(&self.secret), claim.party) {
            (_, Party::Client { session }) if SessionId(session).is_of_node() => Err(Refusal::Denied),
            (Some(proof), Party::Client { session }) => {
                Ok(self.admit(session, Who::Operator, claim.from, proof))
            }
            (Some(proof), Party::Node { .. } | Party::Newcomer { .. }) => {
                Ok(Admission { handler: self.reception.clone(), proof })
            }
            (None, Party::Client { session }) => {
                self.user(claim).map(|who| self.admit(session, who, claim.from, Vec::new()))
            }
            // A token is nobody's proof to be a node.
            (None, _) => Err(Refusal::Denied),
        };
        if let Err(refusal) = &judged {
            self.reception.counts.denied();
            if self.reception.counts.may_warn(now()) {
                tracing::info!(from = claim.from, party = ?claim.party, %refusal, "somebody is not let in");
            } else {
                tracing::debug!(from = claim.from, party = ?claim.party, %refusal, "somebody is not let in");
            }
        }
        judged
    }
}

/// Takes what comes from one client, as far as its rights go.
struct Guarded {
    reception: Arc<Reception>,
    caller: Arc<Caller>,
    /// Whether its session was free for it.
    entered: OnceLock<()>,
}

impl Guarded {
    /// It says what only nodes or other clients may say. That is not heard.
    fn foreign(&self) {
        self.reception.counts.denied();
        let caller = &self.caller;
        if self.reception.counts.may_warn(now()) {
            tracing::warn!(%caller, "a client says what only others may say; it is not heard");
        } else {
            tracing::debug!(%caller, "a client says what only others may say; it is not heard");
        }
    }

    fn take_data(&self, link: &Link, frame: Received<'_>) {
        let Some(rights) = self.caller.entitlement(&self.reception.registry) else {
            // What it was told when it came is no longer so. If it comes again it is told why.
            tracing::info!(caller = %self.caller, "a client is hung up on: its token was revoked, or has expired");
            return link.close();
        };
        let (context, body) = match frame.header.channel {
            TRACED => match TraceContext::split(frame.body) {
                Some((context, body)) => (Some(context), body),
                None => return self.reception.malformed(&frame),
            },
            _ => (None, frame.body),
        };
        let Ok(envelope) = from_bytes_of_stranger::<Envelope>(body, aligned_copy) else {
            return self.reception.malformed(&frame);
        };
        match rules::judge(&envelope.message, SessionId(self.caller.session), &rights) {
            Ok(()) => self.reception.take_envelope(envelope, context, frame.receipt),
            Err(denied) => {
                self.reception.counts.denied();
                if let Some((act, response)) = Act::denied(&envelope.message, &self.reception.registry) {
                    self.reception.audit.note(Some(&self.caller), &act, &response);
                }
                let answer = match denied {
                    Denied::Transaction(id) => {
                        let outcome = Outcome::Refused(tyr_proto::Refusal::Denied);
                        Answer::Outcome { id, outcome: Some((outcome, Vec::new())) }
                    }
                    Denied::Stage(id) => Answer::Unstaged { id, refusal: tyr_proto::Refusal::Denied },
                    Denied::Request(request) => Answer::Denied { request },
                    Denied::Foreign => return self.foreign(),
                };
                if let Some(frame) = Frame::message(DATA, |out| append_to(out, &answer)) {
                    // Whoever does not hear it asks again.
                    let _lost = link.send(frame);
                }
            }
        }
    }
}

impl Handler for Guarded {
    fn opened(&self, link: &Link, peer: &Peer) {
        if !self.reception.registry.enter(self.caller.session, self.caller.account()) {
            tracing::warn!(caller = %self.caller, "a client comes with the session of another one");
            return link.close();
        }
        let _first = self.entered.set(());
        self.reception.opened(link, peer);
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        if self.entered.get().is_none() {
            return;
        }
        self.reception.count(&frame);
        match (frame.header.channel, frame.header.kind) {
            (DATA | TRACED, Kind::Message) => self.take_data(link, frame),
            (MANAGER, Kind::Request) => self.reception.take_counted(link, frame, Some(&self.caller)),
            _ => self.foreign(),
        }
    }

    fn closed(&self, link: &Link, peer: Option<&Peer>, end: &End) {
        if self.entered.get().is_some() {
            self.reception.registry.leave(self.caller.session);
            self.reception.closed(link, peer, end);
        }
    }
}

/// Whether somebody is told of accounts: who administers something.
fn sees_accounts(rights: &tyr_proto::access::Entitlement) -> bool {
    rights.allows_anywhere(Rights::ADMINISTER)
}

/// A token that was issued so many seconds in the future comes from a clock that nobody can rely on.
const CLOCKS_APART_MAX: u64 = 300;

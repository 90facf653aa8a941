//! How the leader of the cluster manager makes tokens, and the seals that stand for them.

use std::time::{SystemTime, UNIX_EPOCH};

use tyr_net::{Holder, Secret, TOKEN_SIZE_MAX, Token, random};
use tyr_proto::{
    access::{Account, AccountKind, AccountState, Claims, LIMITS_MAX},
    cluster::{Cluster, ClusterId, Command, Refusal, Response, Seal, SealId, TokenOrder},
    encoding::{from_bytes, to_bytes},
};

use crate::{settings::Guarding, surroundings::random as draw, voting::Voting};

/// What a token says, which nobody has checked; none if it is of another version.
pub fn read_claims(token: &Token) -> Option<Claims> {
    from_bytes(token.claims()).ok()
}

/// What a node makes tokens and seals of, while it leads the cluster manager.
#[derive(Clone)]
pub(crate) struct Sealer {
    voting: Voting,
    cluster: ClusterId,
    /// That of the cluster, if it has one.
    secret: Option<Secret>,
}

impl Sealer {
    pub fn new(voting: Voting, cluster: ClusterId, guarding: &Guarding) -> Self {
        let secret = match guarding {
            Guarding::Secret(secret) => Some(secret.clone()),
            Guarding::Local | Guarding::Insecure => None,
        };
        Sealer { voting, cluster, secret }
    }

    /// Makes a token. None if that cannot be said now, so that it is asked again.
    pub async fn make_token(&self, order: &TokenOrder) -> Option<Response> {
        if let Some(elsewhere) = self.elsewhere() {
            return Some(elsewhere);
        }
        let Some(secret) = &self.secret else { return Some(refused(Refusal::NoSecret)) };
        let (id, keys) = match self.newest(secret) {
            Some(known) => known,
            None => match self.make_seal().await? {
                Response::Seal(_) => self.newest(secret)?,
                other => return Some(other),
            },
        };
        if order.lifetime == 0 || order.lifetime > TOKEN_LIFETIME_MAX || order.limits.len() > LIMITS_MAX {
            return Some(refused(Refusal::Invalid));
        }
        let is_user =
            |account: &&Account| account.kind == AccountKind::User && account.state == AccountState::Exists;
        let generation =
            |known: &Cluster| known.account(order.user).filter(is_user).map(|user| user.generation);
        let Some(generation) = self.voting.voter.look(generation) else {
            return Some(refused(Refusal::NotFound));
        };
        let issued = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let claims = Claims {
            cluster: self.cluster,
            seal: id,
            user: order.user,
            generation,
            number: draw(),
            issued,
            expires: issued.saturating_add(order.lifetime),
            limits: order.limits.clone(),
            holder: order.holder,
        };
        let token = keys.seal(&to_bytes(&claims));
        let fits = token.len() <= TOKEN_SIZE_MAX;
        Some(if fits { Response::Token(token) } else { refused(Refusal::Invalid) })
    }

    /// Makes another seal, for tokens that are made from then on.
    pub async fn make_seal(&self) -> Option<Response> {
        if let Some(elsewhere) = self.elsewhere() {
            return Some(elsewhere);
        }
        let Some(secret) = &self.secret else { return Some(refused(Refusal::NoSecret)) };
        let voter = &self.voting.voter;
        let next = SealId(voter.look(Cluster::newest_seal_id).map_or(1, |newest| newest.0 + 1));
        let salt = random().ok()?;
        let seal = Seal { public: self.keys(secret, next, &salt)?.public(), salt };
        match voter.propose(Command::AddSeal(next, seal)).await {
            Ok(Ok(_)) => Some(Response::Seal(next)),
            // Somebody else has made one meanwhile.
            Ok(Err(Refusal::Taken | Refusal::Stale)) => None,
            Ok(Err(refusal)) => Some(refused(refusal)),
            Err(unavailable) => Some(Response::Elsewhere(unavailable.leader)),
        }
    }

    /// The newest seal and its keys. None if it was made with another secret: another one is due.
    fn newest(&self, secret: &Secret) -> Option<(SealId, Holder)> {
        let newest = |known: &Cluster| known.newest_seal().map(|(id, seal)| (id, seal.clone()));
        let (id, seal) = self.voting.voter.look(newest)?;
        let keys = self.keys(secret, id, &seal.salt)?;
        (keys.public() == seal.public).then_some((id, keys))
    }

    fn keys(&self, secret: &Secret, id: SealId, salt: &[u8; 32]) -> Option<Holder> {
        secret.seal(&to_bytes(&(self.cluster, id)), salt).ok()
    }

    /// Who leads, if that is somebody else.
    fn elsewhere(&self) -> Option<Response> {
        let voter = &self.voting.voter;
        let leads = voter.leading_term().is_some();
        (!leads).then(|| Response::Elsewhere(voter.other_leader()))
    }
}

fn refused(refusal: Refusal) -> Response {
    Response::Replied(Err(refusal))
}

/// No token is good for longer, in seconds: ten years.
pub const TOKEN_LIFETIME_MAX: u64 = 10 * 366 * 86_400;

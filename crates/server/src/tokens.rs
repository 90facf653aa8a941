//! How the leader of the cluster manager makes tokens, and the seals that stand for them.

use std::time::{SystemTime, UNIX_EPOCH};

use tyr_net::{Holder, TOKEN_SIZE_MAX, Token, random};
use tyr_proto::{
    access::{AccountKind, AccountState, Claims, LIMITS_MAX},
    cluster::{ClusterId, Command, Refusal, Response, Seal, SealId, SealSecret, TokenOrder},
    encoding::{from_bytes, to_bytes},
};

use crate::{surroundings::random as draw, voting::Voting};

/// What a token says, which nobody has checked; none if it is of another version.
pub fn read_claims(token: &Token) -> Option<Claims> {
    from_bytes(token.claims()).ok()
}

/// Makes a token. None if that cannot be said now, so that it is asked again.
pub(crate) async fn make_token(voting: &Voting, cluster: ClusterId, order: &TokenOrder) -> Option<Response> {
    if let Some(elsewhere) = elsewhere(voting) {
        return Some(elsewhere);
    }
    if voting.voter.look(|cluster| cluster.newest_seal().is_none()) {
        match make_seal(voting).await? {
            Response::Seal(_) => {}
            other => return Some(other),
        }
    }
    let invalid = Some(Response::Replied(Err(Refusal::Invalid)));
    if order.lifetime == 0 || order.lifetime > TOKEN_LIFETIME_MAX || order.limits.len() > LIMITS_MAX {
        return invalid;
    }
    let (seal, generation) = voting.voter.look(|known| {
        let seal = known.newest_seal().map(|(id, seal)| (id, seal.clone()));
        let user = known
            .account(order.user)
            .filter(|account| account.kind == AccountKind::User && account.state == AccountState::Exists);
        (seal, user.map(|user| user.generation))
    });
    let Some(generation) = generation else { return Some(Response::Replied(Err(Refusal::NotFound))) };
    let (id, seal) = seal?;
    let issued = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let claims = Claims {
        cluster,
        seal: id,
        user: order.user,
        generation,
        number: draw(),
        issued,
        expires: issued.saturating_add(order.lifetime),
        limits: order.limits.clone(),
        holder: order.holder,
    };
    let keys = Holder::of(seal.secret.0).ok()?;
    let token = keys.seal(&to_bytes(&claims));
    if token.len() > TOKEN_SIZE_MAX { invalid } else { Some(Response::Token(token)) }
}

/// Makes another seal, for tokens that are made from then on.
pub(crate) async fn make_seal(voting: &Voting) -> Option<Response> {
    if let Some(elsewhere) = elsewhere(voting) {
        return Some(elsewhere);
    }
    let next = SealId(voting.voter.look(|cluster| cluster.newest_seal_id()).map_or(1, |newest| newest.0 + 1));
    let keys = Holder::of(random().ok()?).ok()?;
    let seal = Seal { public: keys.public(), secret: SealSecret(keys.seed()) };
    match voting.voter.propose(Command::AddSeal(next, seal)).await {
        Ok(Ok(_)) => Some(Response::Seal(next)),
        // Somebody else has made one meanwhile.
        Ok(Err(Refusal::Taken | Refusal::Stale)) => None,
        Ok(Err(refusal)) => Some(Response::Replied(Err(refusal))),
        Err(unavailable) => Some(Response::Elsewhere(unavailable.leader)),
    }
}

/// Who leads, if that is somebody else.
fn elsewhere(voting: &Voting) -> Option<Response> {
    let leads = voting.voter.leading_term().is_some();
    (!leads).then(|| Response::Elsewhere(voting.voter.other_leader()))
}

/// No token is good for longer, in seconds: ten years.
pub const TOKEN_LIFETIME_MAX: u64 = 10 * 366 * 86_400;

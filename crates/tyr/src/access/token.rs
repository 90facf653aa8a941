//! `tyr token`: what users show.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, Subcommand};
use serde::Serialize;
use tyr_server::{
    AccountKind, Claims, ClusterCommand, Fact, Rights, Scope, SealId, TOKEN_LIFETIME_MAX, read_claims,
};
use tyr_types::{Error, ErrorKind};

use super::{command, directory::Directory, refused, secret::write_secret};
use crate::{
    cluster::operator,
    failure::{Failure, Result},
    moment::moment,
    output::{Output, Report, Table},
    settings::Settings,
};

/// What to do with tokens.
#[derive(Subcommand)]
pub enum Token {
    /// Make a token for a user, and print it or write it to a file. It is not kept anywhere else.
    Create(Create),
    /// Print what the token says that this command would show.
    Show,
    /// Revoke all tokens of a user. Open connections end. Tokens that are made later are good.
    Revoke {
        /// The user.
        user: String,
    },
    /// Have tokens made with a new seal from now on.
    ///
    /// Tokens that were made with earlier ones stay good until they expire, unless --revoke-earlier says otherwise.
    Rotate {
        /// Revoke all tokens of all users that were made before.
        #[arg(long)]
        revoke_earlier: bool,
    },
}

/// The arguments of `tyr token create`.
#[derive(Args)]
pub struct Create {
    /// The user.
    user: String,
    /// For how long it is good: 90s, 30m, 12h, or 30d.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_time)]
    lifetime: u64,
    /// Let only these rights to this keyspace through, as RIGHTS@KEYSPACE, such as read,write@events, or RIGHTS@* for all keyspaces;
    /// several times for several. Without it the token lets through all that the user may do.
    #[arg(long = "limit", value_name = "RIGHTS@KEYSPACE")]
    limits: Vec<String>,
    /// Write it to this new file, which only its owner may read, in place of printing it.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
}

impl Token {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Token::Create(create) => create.run(settings, out),
            Token::Show => show(settings, out),
            Token::Revoke { user } => revoke(user, settings, out),
            Token::Rotate { revoke_earlier } => rotate(*revoke_earlier, settings, out),
        }
    }
}

impl Create {
    fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let mut operator = operator(settings)?;
        let directory = Directory::ask(&mut operator, settings)?;
        let user = directory.of_kind(&self.user, AccountKind::User)?;
        let limits = self.limits.iter().map(|limit| parse_limit(limit, &directory)).collect::<Result<_>>()?;
        let made = operator.token(user, self.lifetime, limits)?;
        let token =
            made.map_err(|refusal| refused(refusal).context(format!("a token for '{}'", self.user)))?;
        match &self.output {
            Some(path) => {
                write_secret(path, &token.to_text())?;
                out.done(&Made { user: &self.user, token_file: Some(path), token: None })
            }
            None => out.report(&Made { user: &self.user, token_file: None, token: Some(token.to_text()) }),
        }
    }
}

fn parse_limit(text: &str, directory: &Directory) -> Result<(Scope, Rights)> {
    let wrong =
        || Failure::Usage(format!("--limit {text}: write RIGHTS@KEYSPACE, such as read,write@events"));
    let (rights, keyspace) =
        text.split_once('@').filter(|(rights, _)| !rights.is_empty()).ok_or_else(wrong)?;
    let scope = match keyspace {
        "*" => Scope::Keyspaces,
        name => Scope::Keyspace(directory.keyspace(name)?),
    };
    let rights =
        rights.parse::<Rights>().map_err(|error| Failure::Usage(format!("--limit {text}: {error}")))?;
    Ok((scope, rights))
}

fn parse_time(text: &str) -> Result<u64, String> {
    let wrong = || "write a number with s, m, h, or d behind it, such as 12h".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = count.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    match seconds <= TOKEN_LIFETIME_MAX {
        true => Ok(seconds),
        false => Err(format!("a token is good for {} days at most", TOKEN_LIFETIME_MAX / 86_400)),
    }
}

fn show(settings: &Settings, out: &mut Output) -> Result<()> {
    let none = || {
        Failure::Usage(
            "no token is named: pass --token-file PATH, or set TYR_TOKEN_FILE or TYR_TOKEN".to_owned(),
        )
    };
    let token = settings.access.token()?.ok_or_else(none)?;
    let claims = read_claims(&token).ok_or_else(|| Error::invalid("the token is of another version"))?;
    out.report(&Shown::of(&claims))
}

fn revoke(user: &str, settings: &Settings, out: &mut Output) -> Result<()> {
    let mut operator = operator(settings)?;
    let directory = Directory::ask(&mut operator, settings)?;
    let id = directory.of_kind(user, AccountKind::User)?;
    let before = directory.accounts[&id].generation + 1;
    command(
        &mut operator,
        ClusterCommand::RevokeTokens { user: id, before },
        &format!("tokens of '{user}'"),
    )?;
    out.done(&Revoked { action: "revoked", user })
}

fn rotate(revoke_earlier: bool, settings: &Settings, out: &mut Output) -> Result<()> {
    let mut operator = operator(settings)?;
    let newest = operator.seal()?.map_err(|refusal| refused(refusal).context("another seal"))?;
    let mut removed = Vec::new();
    if revoke_earlier {
        let facts = operator.facts()?.facts;
        let earlier = facts.iter().filter_map(|fact| match fact {
            Fact::Seal(id, Some(_)) if *id < newest => Some(*id),
            _ => None,
        });
        let mut earlier: Vec<SealId> = earlier.collect();
        // With the one that this command's own token rests on its rights go.
        let own = settings.access.token()?.as_ref().and_then(read_claims).map(|claims| claims.seal);
        earlier.sort_by_key(|id| (Some(*id) == own, *id));
        for id in earlier {
            let removal =
                command(&mut operator, ClusterCommand::RemoveSeal(id), &format!("remove seal {}", id.0));
            match removal {
                // Nobody is left to be answered.
                Err(Failure::Store(error)) if Some(id) == own && error.kind() == ErrorKind::Denied => {}
                removal => drop(removal?),
            }
            removed.push(id.0);
        }
    }
    out.done(&Rotated { action: "rotated", seal: newest.0, removed })
}

#[derive(Serialize)]
struct Made<'a> {
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<&'a PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Report for Made<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        match (&self.token, self.token_file) {
            (Some(token), _) => out.line(token),
            (None, path) => {
                let path = path.map(|path| path.display().to_string()).unwrap_or_default();
                out.line(format!("wrote a token for user '{}' to '{path}'", self.user))
            }
        }
    }
}

#[derive(Serialize)]
struct Shown {
    cluster: String,
    user: u32,
    number: String,
    seal: u32,
    generation: u32,
    issued: u64,
    expires: u64,
    expired: bool,
    limits: Vec<Limit>,
}

#[derive(Serialize)]
struct Limit {
    scope: String,
    rights: Vec<String>,
}

impl Shown {
    fn of(claims: &Claims) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let limits = claims.limits.iter().map(|(scope, rights)| Limit {
            scope: match scope {
                Scope::Cluster => "cluster".to_owned(),
                Scope::Keyspaces => "all keyspaces".to_owned(),
                Scope::Keyspace(id) => format!("keyspace {}", id.0),
            },
            rights: rights.names().collect(),
        });
        Shown {
            cluster: format!("{:032x}", claims.cluster.0),
            user: claims.user.0,
            number: format!("{:016x}", claims.number),
            seal: claims.seal.0,
            generation: claims.generation,
            issued: claims.issued,
            expires: claims.expires,
            expired: now >= claims.expires,
            limits: limits.collect(),
        }
    }
}

impl Report for Shown {
    fn print(&self, out: &mut Output) -> Result<()> {
        let limits = self.limits.iter().map(|limit| format!("{} on {}", limit.rights.join(","), limit.scope));
        let limits = limits.collect::<Vec<_>>().join("; ");
        let mut table = Table::new([]);
        let is = if self.expired { "expired" } else { "good" };
        let facts = [
            ("cluster", self.cluster.clone()),
            ("user", self.user.to_string()),
            ("number", self.number.clone()),
            ("seal", self.seal.to_string()),
            ("issued", moment(self.issued)),
            ("expires", format!("{}: {is}", moment(self.expires))),
            ("limits", if limits.is_empty() { "none".to_owned() } else { limits }),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact]);
        }
        table.print(out)
    }
}

#[derive(Serialize)]
struct Revoked<'a> {
    action: &'static str,
    user: &'a str,
}

impl Report for Revoked<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("revoked all tokens of user '{}'", self.user))
    }
}

#[derive(Serialize)]
struct Rotated {
    action: &'static str,
    seal: u32,
    removed: Vec<u32>,
}

impl Report for Rotated {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(match self.removed.is_empty() {
            true => format!("tokens are made with seal {} from now on; earlier ones stay good", self.seal),
            false => {
                format!("tokens are made with seal {} from now on; all earlier ones are revoked", self.seal)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse_time(text).unwrap(), seconds);
        }
        for wrong in ["", "0s", "12", "d", "1w", "-1d", "1.5h", "99999999999999999999d", "5é"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}

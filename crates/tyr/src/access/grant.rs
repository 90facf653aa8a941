//! `tyr grant` and `tyr revoke`.

use clap::Args;
use serde::Serialize;
use tyr_server::{Account, ClusterCommand, Rights, Scope};
use tyr_types::Error;

use super::{command, directory::Directory};
use crate::{
    cluster::operator,
    failure::{Failure, Result},
    output::{Output, Report},
    settings::Settings,
};

/// The arguments of `tyr grant` and `tyr revoke`.
#[derive(Args)]
pub struct Grant {
    /// The user or group.
    account: String,
    /// The rights: read, write, administer, several of them with commas between, or all.
    rights: Rights,
    /// The keyspace.
    #[arg(required_unless_present_any = ["all_keyspaces", "cluster"], conflicts_with_all = ["all_keyspaces", "cluster"])]
    keyspace: Option<String>,
    /// All keyspaces, those that are created later included.
    #[arg(long, conflicts_with = "cluster")]
    all_keyspaces: bool,
    /// The cluster, which can only be administered: nodes, users, groups, tokens, and which keyspaces there are.
    #[arg(long)]
    cluster: bool,
}

impl Grant {
    /// Grants the rights.
    pub fn grant(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        self.change("granted", self.rights, Rights::NONE, settings, out)
    }

    /// Revokes them.
    pub fn revoke(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        self.change("revoked", Rights::NONE, self.rights, settings, out)
    }

    fn change(
        &self,
        action: &'static str,
        more: Rights,
        less: Rights,
        settings: &Settings,
        out: &mut Output,
    ) -> Result<()> {
        if self.cluster && more != Rights::NONE && more != Rights::ADMINISTER {
            return Err(Failure::Usage(
                "a cluster can only be administered: grant administer --cluster".into(),
            ));
        }
        let mut operator = operator(settings)?;
        let directory = Directory::ask(&mut operator, settings)?;
        let account = directory.account(&self.account)?;
        let scope = match &self.keyspace {
            _ if self.cluster => Scope::Cluster,
            Some(name) => Scope::Keyspace(directory.keyspace(name)?),
            None => Scope::Keyspaces,
        };
        if more == Rights::NONE {
            self.check_granted(&directory, &directory.accounts[&account], scope)?;
        }
        let what = format!("rights of '{}'", self.account);
        command(&mut operator, ClusterCommand::Grant { account, scope, more, less }, &what)?;
        let scope = directory.scope(scope).unwrap_or_default();
        let rights = self.rights.names().collect();
        out.done(&Done { action, account: &self.account, rights, scope })
    }

    /// Fails if none of the rights that are revoked was granted to the account itself, and on this: it would keep what it has by another grant, or by a group.
    fn check_granted(&self, directory: &Directory, account: &Account, scope: Scope) -> Result<()> {
        let granted = account.grants.get(&scope).copied().unwrap_or(Rights::NONE);
        let single = [Rights::READ, Rights::WRITE, Rights::ADMINISTER];
        if single.into_iter().any(|right| self.rights.has(right) && granted.has(right)) {
            return Ok(());
        }
        let groups = account.groups.iter().filter_map(|id| directory.accounts.get(id));
        let others = [account].into_iter().chain(groups).flat_map(|holder| {
            let grants = directory.grants(holder).into_iter();
            grants.map(|(scope, rights)| {
                let rights = rights.names().collect::<Vec<_>>().join(",");
                format!("{rights} on {scope} granted to '{}'", holder.name)
            })
        });
        let others: Vec<String> = others.collect();
        let has = if others.is_empty() { "nothing".to_owned() } else { others.join("; ") };
        let (rights, scope) =
            (self.rights.names().collect::<Vec<_>>(), directory.scope(scope).unwrap_or_default());
        Err(Error::not_found(format!(
            "nothing was revoked: '{}' was not granted {} on {scope}; what it has is {has}",
            self.account,
            rights.join(",")
        ))
        .into())
    }
}

#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    account: &'a str,
    rights: Vec<String>,
    scope: String,
}

impl Report for Done<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let to = if self.action == "granted" { "to" } else { "from" };
        let (action, account, scope) = (self.action, self.account, &self.scope);
        out.line(format!("{action} {} on {scope} {to} '{account}'", self.rights.join(",")))
    }
}

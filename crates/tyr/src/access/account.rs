//! `tyr user` and `tyr group`.

use clap::Subcommand;
use serde::Serialize;
use tyr_server::{AccountKind, AccountName, ClusterCommand};

use super::{command, directory::Directory, random};
use crate::{
    cluster::operator,
    failure::Result,
    output::{Align, Output, Report, Table},
    settings::Settings,
};

/// What to do with users.
#[derive(Subcommand)]
pub enum User {
    /// Create a user, who has no rights yet and no token.
    Create {
        /// Its name: letters, digits, '.', '_', '-', '@'.
        name: AccountName,
    },
    /// List all users with their groups and rights.
    List,
    /// Remove a user with all rights and tokens. Open connections end.
    Remove {
        /// Its name.
        name: String,
    },
}

/// What to do with groups.
#[derive(Subcommand)]
pub enum Group {
    /// Create a group, which has no rights yet and no users.
    Create {
        /// Its name: letters, digits, '.', '_', '-', '@'.
        name: AccountName,
    },
    /// List all groups with their users and rights.
    List,
    /// Remove a group. Its users lose the rights that they have by it.
    Remove {
        /// Its name.
        name: String,
    },
    /// Give a user the rights of a group.
    Add {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
    /// Take a user out of a group.
    Dismiss {
        /// The group.
        group: String,
        /// The user.
        user: String,
    },
}

impl User {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            User::Create { name } => create(name, AccountKind::User, settings, out),
            User::List => list(AccountKind::User, settings, out),
            User::Remove { name } => remove(name, AccountKind::User, settings, out),
        }
    }
}

impl Group {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Group::Create { name } => create(name, AccountKind::Group, settings, out),
            Group::List => list(AccountKind::Group, settings, out),
            Group::Remove { name } => remove(name, AccountKind::Group, settings, out),
            Group::Add { group, user } => enroll("added", group, user, settings, out),
            Group::Dismiss { group, user } => enroll("dismissed", group, user, settings, out),
        }
    }
}

fn create(name: &AccountName, kind: AccountKind, settings: &Settings, out: &mut Output) -> Result<()> {
    let mut operator = operator(settings)?;
    let created = ClusterCommand::CreateAccount { name: name.clone(), kind, seed: random() };
    command(&mut operator, created, &format!("create {} '{name}'", word(kind)))?;
    out.done(&Done { action: "created", kind: word(kind), name: name.as_str(), group: None })
}

fn remove(name: &str, kind: AccountKind, settings: &Settings, out: &mut Output) -> Result<()> {
    let mut operator = operator(settings)?;
    let id = Directory::ask(&mut operator, settings)?.of_kind(name, kind)?;
    let what = format!("remove {} '{name}'", word(kind));
    command(&mut operator, ClusterCommand::RemoveAccount(id), &what)?;
    out.done(&Done { action: "removed", kind: word(kind), name, group: None })
}

fn enroll(
    action: &'static str,
    group: &str,
    user: &str,
    settings: &Settings,
    out: &mut Output,
) -> Result<()> {
    let mut operator = operator(settings)?;
    let directory = Directory::ask(&mut operator, settings)?;
    let (user_id, group_id) =
        (directory.of_kind(user, AccountKind::User)?, directory.of_kind(group, AccountKind::Group)?);
    let change = match action {
        "added" => ClusterCommand::Enroll { user: user_id, group: group_id },
        _ => ClusterCommand::Dismiss { user: user_id, group: group_id },
    };
    command(&mut operator, change, &format!("user '{user}' and group '{group}'"))?;
    out.done(&Done { action, kind: "user", name: user, group: Some(group) })
}

fn list(kind: AccountKind, settings: &Settings, out: &mut Output) -> Result<()> {
    let directory = Directory::ask(&mut operator(settings)?, settings)?;
    let of_kind = directory.accounts.iter().filter(|(_, account)| account.kind == kind);
    let accounts = of_kind.map(|(id, account)| {
        let users = directory.accounts.values().filter(|other| other.groups.contains(id));
        Shown {
            name: account.name.to_string(),
            id: id.0,
            groups: account.groups.iter().filter_map(|group| directory.name(*group)).collect(),
            users: users.map(|user| user.name.to_string()).collect(),
            grants: directory.grants(account).into_iter().map(Grant::of).collect(),
        }
    });
    let mut accounts: Vec<Shown> = accounts.collect();
    accounts.sort_by(|one, other| one.name.cmp(&other.name));
    out.report(&List { kind: word(kind), accounts })
}

fn word(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::User => "user",
        AccountKind::Group => "group",
    }
}

#[derive(Serialize)]
struct List {
    kind: &'static str,
    accounts: Vec<Shown>,
}

/// An account as it is printed.
#[derive(Serialize)]
struct Shown {
    name: String,
    id: u32,
    groups: Vec<String>,
    users: Vec<String>,
    grants: Vec<Grant>,
}

#[derive(Serialize)]
struct Grant {
    scope: String,
    rights: Vec<String>,
}

impl Grant {
    fn of((scope, rights): (String, tyr_server::Rights)) -> Self {
        Grant { scope, rights: rights.names().collect() }
    }
}

impl Report for List {
    fn print(&self, out: &mut Output) -> Result<()> {
        let others = if self.kind == "user" { "GROUPS" } else { "USERS" };
        let mut table = Table::new([("NAME", Align::Left), (others, Align::Left), ("RIGHTS", Align::Left)]);
        for shown in &self.accounts {
            let others = if self.kind == "user" { &shown.groups } else { &shown.users };
            let grants =
                shown.grants.iter().map(|grant| format!("{}: {}", grant.scope, grant.rights.join(",")));
            table.row([shown.name.clone(), others.join(" "), grants.collect::<Vec<_>>().join("; ")]);
        }
        table.print(out)
    }
}

#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
}

impl Report for Done<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let Done { action, kind, name, group } = self;
        match (*action, group) {
            ("added", Some(group)) => out.line(format!("user '{name}' has the rights of group '{group}'")),
            (_, Some(group)) => out.line(format!("user '{name}' is not in group '{group}' any more")),
            _ => out.line(format!("{action} {kind} '{name}'")),
        }
    }
}

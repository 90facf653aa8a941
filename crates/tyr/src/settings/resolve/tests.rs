use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use clap::Command;

use tyr_server::TargetSettings;

use super::*;
use crate::settings::with_flags;

#[derive(Default)]
struct Variables(BTreeMap<String, OsString>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<OsString> {
        self.0.keys().map(OsString::from).collect()
    }
}

/// Resolves with an empty home directory, or with a configuration file of this text.
fn resolve_with(flags: &[&str], variables: &[(&str, &str)], file: Option<&str>) -> Result<Settings> {
    resolve_with_mode(flags, variables, file, 0o600)
}

/// The same with a file of these rights.
fn resolve_with_mode(
    flags: &[&str],
    variables: &[(&str, &str)],
    file: Option<&str>,
    mode: u32,
) -> Result<Settings> {
    let home = tempfile::tempdir().expect("a directory");
    let mut environment = Variables::default();
    environment.0.insert("HOME".into(), home.path().into());
    environment.0.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    if let Some(text) = file {
        let path = home.path().join(".config/tyr/tyr.toml");
        fs::create_dir_all(path.parent().expect("has a parent")).expect("created");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changes");
    }
    let command = Command::new("tyr").subcommand(Command::new("server"));
    let flags = with_flags(command).get_matches_from([&["tyr"], flags].concat());
    resolve(&flags, &environment)
}

fn message(result: Result<Settings>) -> String {
    let failure = result.expect_err("must be refused");
    assert_eq!(failure.kind(), "usage");
    failure.to_string()
}

#[test]
fn defaults_hold_if_nobody_says_otherwise() {
    let settings = resolve_with(&[], &[], None).expect("resolves");
    assert_eq!((settings.store, settings.data_cache, settings.threads), (None, 256 << 20, 4));
    assert_eq!((settings.form, settings.chatter), (Form::Human, Chatter::Normal));
}

#[test]
fn flag_goes_over_environment_over_file() {
    let file = Some("[transfer]\nthreads = 7\n[store]\ndata_cache = \"1MiB\"\nindex_cache = 4096\n");
    let variables = [("TYR_TRANSFER_THREADS", "6"), ("TYR_STORE_DATA_CACHE", "2MiB")];
    let settings = resolve_with(&["--threads", "5"], &variables, file).expect("resolves");
    assert_eq!((settings.threads, settings.data_cache, settings.index_cache), (5, 2 << 20, 4096));
}

#[test]
fn every_setting_can_be_set_by_its_variable_and_by_its_flag() {
    let other = |setting: &Setting| match setting.values {
        Values::Path => "/elsewhere",
        Values::Bytes => "1MiB",
        Values::Count { .. } => "5",
        Values::Switch => "true",
        Values::Choice(words) => words.last().expect("there are words"),
        Values::Text(_) | Values::Secret | Values::List(_) | Values::Paths => "/elsewhere",
    };
    let default = resolve_with(&[], &[], None).expect("resolves");
    for setting in all() {
        let value = other(setting);
        let by_variable = resolve_with(&[], &[(&setting.variable(), value)], None).expect("resolves");
        let verb = SERVER_SETTINGS.iter().any(|own| own.name == setting.name).then_some("server");
        let flag = format!("--{}={value}", setting.flag);
        let words: Vec<&str> = verb.into_iter().chain([flag.as_str()]).collect();
        let by_flag = match setting.has_flag() {
            true => resolve_with(&words, &[], None).expect("resolves"),
            false => by_variable.clone(),
        };
        let table = format!("[{}]\n{} = \"{value}\"", setting.section(), setting.key());
        let by_file = resolve_with(&[], &[], Some(&table)).expect("resolves");
        assert!(by_variable != default, "{}", setting.name);
        assert!(by_variable == by_flag && by_flag == by_file, "{}", setting.name);
    }
}

#[test]
fn the_short_variable_of_the_store_goes_first() {
    let variables = [("TYR_STORE", "/short"), ("TYR_STORE_PATH", "/long")];
    let settings = resolve_with(&[], &variables, None).expect("resolves");
    assert_eq!(settings.store, Some("/short".into()));
}

#[test]
fn a_zone_is_that_of_the_node_for_a_server_and_that_of_the_client_for_everybody_else() {
    let zones = |flags: &[&str]| {
        let settings = resolve_with(flags, &[("TYR_ZONE", "b")], None).expect("resolves");
        (settings.zone, settings.server.zone)
    };
    assert_eq!(zones(&[]), (Some("b".to_owned()), "default".to_owned()));
    assert_eq!(zones(&["--zone", "a"]), (Some("a".to_owned()), "default".to_owned()));
    assert_eq!(zones(&["server", "--zone", "a"]), (Some("b".to_owned()), "a".to_owned()));
}

#[test]
fn a_path_in_a_file_is_relative_to_the_file() {
    let settings = resolve_with(&[], &[], Some("[store]\npath = \"data\"")).expect("resolves");
    let path = settings.store.expect("is set");
    assert!(path.is_absolute() && path.ends_with(".config/tyr/data"), "{}", path.display());
}

#[test]
fn an_unknown_key_is_refused_with_the_file_and_the_closest_key() {
    let said = message(resolve_with(&[], &[], Some("[store]\ndata_cash = 1")));
    assert!(said.contains("'store.data_cash'") && said.contains("tyr.toml'"), "{said}");
    assert!(said.contains("did you mean 'store.data_cache'?"), "{said}");
    assert!(message(resolve_with(&[], &[], Some("json = true"))).contains("'output.json'"));
    assert!(message(resolve_with(&[], &[], Some("[stor]"))).contains("unknown key 'stor'"));
}

#[test]
fn an_unknown_variable_of_a_section_is_refused_and_others_are_left_alone() {
    let said = message(resolve_with(&[], &[("TYR_STORE_DATA_CASH", "1")], None));
    assert!(
        said.contains("TYR_STORE_DATA_CASH") && said.contains("did you mean TYR_STORE_DATA_CACHE?"),
        "{said}"
    );
    assert!(resolve_with(&[], &[("TYR_STOREROOM", "1"), ("TYRANT", "1")], None).is_ok());
}

#[test]
fn a_list_in_a_file_may_be_an_array() {
    let file = "[server]\njoin = ['a:1', 'b:2']\ntargets = ['x', '/y=3']";
    let server = resolve_with(&[], &[], Some(file)).expect("resolves").server;
    assert_eq!(server.join, ["a:1", "b:2"]);
    assert!(server.targets[0].path.ends_with(".config/tyr/x"));
    assert_eq!(server.targets[1], TargetSettings { path: "/y".into(), weight: 3 });
    let said = message(resolve_with(&[], &[], Some("[server]\njoin = [1]")));
    assert!(said.contains("'server.join'"), "{said}");
}

#[test]
fn wrong_values_are_refused_with_where_they_came_from() {
    let said = message(resolve_with(&["--data-cache", "12 bananas"], &[], None));
    assert!(said.contains("--data-cache: '12 bananas' is no size"), "{said}");
    let said = message(resolve_with(&[], &[("TYR_TRANSFER_THREADS", "0")], None));
    assert!(said.contains("TYR_TRANSFER_THREADS") && said.contains("from 1 to 256"), "{said}");
    let said = message(resolve_with(&[], &[], Some("[output]\ncolor = \"pink\"")));
    assert!(said.contains("'output.color'") && said.contains("auto, always, never"), "{said}");
    let said = message(resolve_with(&[], &[], Some("[store]\npath = [1]")));
    assert!(said.contains("of type array") && said.contains("a path"), "{said}");
    assert!(message(resolve_with(&[], &[], Some("[store"))).contains("tyr.toml"));
}

#[test]
fn a_named_file_must_exist() {
    assert!(
        message(resolve_with(&["--config", "/nowhere/tyr.toml"], &[], None)).contains("/nowhere/tyr.toml")
    );
    assert!(message(resolve_with(&[], &[("TYR_CONFIG", "/nowhere/a")], None)).contains("/nowhere/a"));
}

#[test]
fn a_secret_in_a_file_that_everybody_may_read_is_refused() {
    for key in ["secret", "token"] {
        let file = format!("[access]\n{key} = \"tell nobody\"");
        let with = |mode| resolve_with_mode(&[], &[], Some(&file), mode);
        for closed in [0o600, 0o640] {
            let access = with(closed).expect("resolves").access;
            assert_eq!(access.secret.or(access.token).as_deref(), Some("tell nobody"));
        }
        for open in [0o644, 0o604, 0o602] {
            let said = message(with(open));
            assert!(said.contains(&format!("'access.{key}' in")) && said.contains("chmod 600"), "{said}");
        }
    }
    // What is no secret may be read, and so may a file that only names one.
    let harmless = "[access]\nsecret = \"\"\nsecret_file = \"/secret\"\n[transfer]\nthreads = 7";
    assert_eq!(resolve_with_mode(&[], &[], Some(harmless), 0o644).expect("resolves").threads, 7);
}

/// Runs the test on a thread that has no rights to what others own; root may do anything.
fn as_another_user(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may become anybody");
            }
            test();
        });
    });
}

#[test]
fn a_file_that_may_not_be_read_is_absent_unless_it_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join(".config/tyr");
    let path = directory.join("tyr.toml");
    fs::create_dir_all(&directory).expect("created");
    fs::write(&path, "[transfer]\nthreads = 7\n").expect("written");
    let threads = |named: Option<&Path>| {
        let mut environment = Variables::default();
        environment.0.insert("HOME".into(), home.path().into());
        environment.0.extend(named.map(|path| ("TYR_CONFIG".to_owned(), path.into())));
        let flags = with_flags(Command::new("tyr")).get_matches_from(["tyr"]);
        resolve(&flags, &environment).map(|settings| settings.threads)
    };
    let allow = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("changes");
    allow(home.path(), 0o755);
    as_another_user(|| assert_eq!(threads(None).expect("resolves"), 7));
    // The file, and what it is in.
    for closed in [&path, &directory] {
        allow(closed, 0o000);
        as_another_user(|| {
            assert_eq!(threads(None).expect("resolves"), 4, "{}", closed.display());
            let said = threads(Some(&path)).expect_err("is refused").to_string();
            assert!(said.contains("cannot read the configuration file"), "{said}");
        });
        allow(closed, 0o755);
    }
}

use crate::support::Scratch;

#[test]
fn the_file_names_the_store_and_the_environment_and_flags_go_over_it() {
    let scratch = Scratch::new();
    scratch.write("tyr.toml", "[store]\npath = \"from-file\"\n[output]\njson = true\n");
    let run = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = scratch.command([&["keyspace", "create", "k"], flags].concat());
        command.env_remove("TYR_STORE").envs(variables.iter().copied());
        let output = command.output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&[], &[]).starts_with('{'));
    assert!(scratch.path("from-file").exists());
    assert!(run(&[("TYR_STORE", "from-variable"), ("TYR_OUTPUT_JSON", "false")], &[]).starts_with("created"));
    assert!(scratch.path("from-variable").exists());
    assert!(run(&[("TYR_STORE", "from-variable")], &["--store", "from-flag"]).starts_with('{'));
    assert!(scratch.path("from-flag").exists());
    assert!(
        run(&[("TYR_CONFIG", "other.toml"), ("TYR_STORE", "b")], &["--config", "tyr.toml"]).starts_with('{')
    );
}

#[test]
fn an_unknown_key_is_an_error_that_names_key_file_and_closest_key() {
    let scratch = Scratch::new();
    scratch.write("tyr.toml", "[store]\ndata_cash = \"1GiB\"\n");
    let refused = scratch.run(["keyspace", "list"]).fails(2, "unknown key 'store.data_cash'");
    assert!(
        refused.stderr.contains("tyr.toml") && refused.stderr.contains("'store.data_cache'"),
        "{}",
        refused.stderr
    );
    let json = scratch.run(["keyspace", "list", "--json"]).fails(2, r#""kind":"usage""#);
    assert!(serde_json::from_str::<serde_json::Value>(&json.stderr).is_ok(), "{}", json.stderr);
}

#[test]
fn no_store_and_no_address_are_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let output = scratch.command(["keyspace", "list"]).env_remove("TYR_STORE").output().expect("runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("pass --store PATH"));
    assert_eq!(output.status.code(), Some(2));
    scratch.run(["--store", "tyr://node1", "keyspace", "list"]).fails(2, "tyr://host:port");
    scratch.run(["blob", "cat", "tyr://node1:7000/k/a"]).fails(2, "--store tyr://node1:7000");
}

#[test]
fn whoever_opens_a_cluster_that_is_away_is_told_how_long_it_was_given() {
    let scratch = Scratch::new();
    let away = format!("tyr://unix:{}", scratch.path("nobody").display());
    let open = ["--store", &away, "--timeout", "1"];
    for verb in [&["keyspace", "list"][..], &["blob", "cat", "k/a"], &["export", "k", "tree"], &["stats"]] {
        scratch.run(open.iter().chain(verb)).fails(12, "more than 1 s with --timeout");
    }
    let listed =
        scratch.command(["--store", &away, "cluster", "status"]).env("TYR_STORE_TIMEOUT", "1").output();
    assert_eq!(listed.expect("runs").status.code(), Some(12));
    scratch.run(["keyspace", "list", "--timeout", "0"]).fails(2, "from 1 to 3600");
}

#[test]
fn settings_of_every_origin_are_checked() {
    let scratch = Scratch::with_keyspace();
    scratch.run(["keyspace", "list", "--data-cache", "12 bananas"]).fails(2, "--data-cache");
    scratch.run(["keyspace", "list", "--threads", "0"]).fails(2, "from 1 to 256");
    scratch.run(["keyspace", "list", "--segment-size", "3"]).fails(2, "power of two from 128KiB to 1GiB");
    scratch
        .run(["keyspace", "list", "--zone", &"z".repeat(65)])
        .fails(2, "--zone: a zone's name has 1 to 64 bytes");
    scratch.run(["keyspace", "list", "--io", "carrier-pigeon"]).fails(2, "direct-ring");
    scratch.run(["keyspace", "list", "--config", "nowhere.toml"]).fails(2, "nowhere.toml");
    let output =
        scratch.command(["keyspace", "list"]).env("TYR_STORE_DATA_CASH", "1").output().expect("runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean TYR_STORE_DATA_CACHE?"));
    scratch.run(["keyspace", "list", "--io", "buffered", "--index-cache", "1MiB"]).ok();
}

#[test]
fn color_is_asked_for_and_never_in_a_pipe_by_itself() {
    let scratch = Scratch::with_keyspace();
    assert!(!scratch.run(["check"]).ok().text().contains('\u{1b}'));
    assert!(scratch.run(["check", "--color", "always"]).ok().text().contains("\u{1b}[32m"));
    scratch.run(["blob", "cat", "k/a", "--color", "always"]).fails(13, "\u{1b}[31merror:");
}

#[test]
fn quiet_prints_results_only() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(["keyspace", "create", "k", "-q"]).ok().text(), "");
    assert_eq!(scratch.run_with_input(["blob", "append", "k/a", "-q"], "x").ok().text(), "0\n");
}

#[test]
fn completion_scripts_know_the_verbs() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scratch.run(["completion", shell]).ok().text();
        assert!(script.contains("keyspace") && script.contains("multi-version"), "{shell}");
    }
    scratch.run(["completion", "abacus"]).fails(2, "abacus");
}

#[test]
fn version_and_help_go_to_standard_output() {
    let scratch = Scratch::new();
    let version = scratch.run(["version"]).ok().text();
    assert!(
        version.starts_with(&format!("tyr {}\n", env!("CARGO_PKG_VERSION"))) && version.contains("rustc ")
    );
    assert!(scratch.run(["--version"]).ok().text().starts_with("tyr "));
    assert!(scratch.run(["blob", "put", "--help"]).ok().text().contains("--store"));
    assert!(scratch.run([""; 0]).fails(2, "Usage").text().is_empty());
}

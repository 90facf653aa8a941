use crate::support::Scratch;

#[test]
fn a_script_is_executed_and_says_what_it_found() {
    let scratch = Scratch::with_keyspace();
    scratch.write("payload file", vec![9; 2 << 20]);
    let script = r#"
        create    k/a
        append    k/a "one\n"
        append    k/a hex:7478
        transform k/n add u64 0 7
        attr set  k/a color 'light blue'
        write     k/b 10 file:"payload file"
        check     missing k/a
    "#;
    let run = scratch.run_with_input(["tx", "run"], script).ok().text();
    let mut lines = run.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("committed 7 operations as version ")), "{run}");
    let expected = [
        "line 3: append k/a: offset 0",
        "line 4: append k/a: offset 4",
        "line 5: transform k/n: old value 0",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"one\ntx");
    assert_eq!(scratch.run(["blob", "attr", "get", "k/a", "color"]).ok().text(), "light blue\n");
    assert_eq!(scratch.run(["blob", "stat", "k/b", "--json"]).ok().json()["size"], (2 << 20) + 10);
}

#[test]
fn a_check_that_does_not_hold_refuses_everything() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "old").ok();
    let version =
        scratch.run(["blob", "stat", "k/a", "--json"]).ok().json()["version"].as_str().map(str::to_owned);
    let version = version.expect("is text");
    for check in [
        "exists k/b",
        "missing k/a",
        "size k/a 4",
        "bytes k/a 0 new",
        "attr k/a color red",
        "version k/a 0.1",
    ] {
        let script = format!("put k/a \"new\"\ncheck {check}\n");
        scratch.run_with_input(["tx", "run"], &script).fails(11, "keyspace 'k'");
        let json = scratch.run_with_input(["tx", "run", "--json"], &script).fails(11, r#""kind":"conflict""#);
        assert_eq!(json.text(), "");
        assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"old");
    }
    let script = format!(
        "check version k/a {version}\ncheck bytes k/a 1 ld\ncheck no-attr k/a color\ncheck size k/a 3\nput k/a new\n"
    );
    scratch.run_with_input(["tx", "run"], script).ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"new");
}

#[test]
fn a_failing_operation_undoes_the_others_and_names_its_line() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["tx", "run"], "put k/a x\ndelete k/b\n").fails(13, "line 2");
    scratch.run_with_input(["tx", "run"], "put k/a x\nput nothing/a x\n").fails(13, "line 2");
    scratch.run_with_input(["tx", "run"], "put k/a x\nput k/b file:nowhere\n").fails(1, "line 2");
    scratch.run_with_input(["tx", "run"], "put k/a x\nattr set k/a n file:/dev/zero\n").fails(15, "line 2");
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "");
}

#[test]
fn a_malformed_script_is_refused_with_line_column_and_what_was_expected() {
    let scratch = Scratch::with_keyspace();
    scratch.write("script", "put k/a x\n\n  write k/a one x\n");
    let refused = scratch.run(["tx", "run", "script"]).fails(2, "'script', line 3, column 13");
    assert!(refused.stderr.contains("'one' is no size"), "{}", refused.stderr);
    let refused =
        scratch.run_with_input(["tx", "run"], "put k/a \"x").fails(2, "standard input, line 1, column 9");
    assert!(refused.stderr.contains("not closed"), "{}", refused.stderr);
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "");
    scratch.run(["tx", "run", "nowhere"]).fails(1, "cannot read the script 'nowhere'");
    scratch.run_with_input(["tx", "run"], vec![b'#'; (16 << 20) + 1]).fails(2, "larger than 16 MiB");
}

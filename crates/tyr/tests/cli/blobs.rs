use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
};

use crate::support::Scratch;

#[test]
fn what_is_open_already_is_written_and_not_replaced() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "middle").ok();
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        // Not all systems have them, and what is none is not to be replaced by a test.
        if !Path::new(path).is_symlink() {
            continue;
        }
        assert_eq!(scratch.run(["blob", "get", "k/a", path]).ok().stdout, b"middle", "{path}");
        let all = scratch.write("all", "head ");
        let end = fs::OpenOptions::new().append(true).open(&all).expect("is there");
        let mut get = scratch.command(["blob", "get", "k/a", path]);
        assert!(get.stdout(end.try_clone().expect("another")).status().expect("runs").success());
        (&end).write_all(b" tail").expect("written");
        assert_eq!(fs::read_to_string(all).expect("is there"), "head middle tail", "{path}");
    }
    // A link to a file still leads to another content.
    symlink("all", scratch.path("link")).expect("made");
    scratch.run(["blob", "get", "k/a", "link"]).ok();
    assert_eq!(fs::read_to_string(scratch.path("all")).expect("is there"), "middle");
}

#[test]
fn what_is_put_is_got_from_and_to_files_and_streams() {
    let scratch = Scratch::with_keyspace();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(|n| n.to_le_bytes()).take(5_000_001).collect();
    let file = scratch.write("file", &content);
    scratch.run(["blob", "put", "k/from-file", "file"]).ok();
    scratch.run_with_input(["blob", "put", "k/from-stdin"], &content).ok();
    scratch.run_with_input(["blob", "put", "k/from-stdin-too", "-"], &content).ok();
    for key in ["k/from-file", "k/from-stdin", "tyr:///k/from-stdin%2dtoo"] {
        assert!(scratch.run(["blob", "get", key]).ok().stdout == content, "{key}");
    }
    scratch.run(["blob", "get", "k/from-file", "copy"]).ok();
    assert!(fs::read(scratch.path("copy")).expect("is there") == fs::read(file).expect("is there"));
    let part = scratch.run(["blob", "get", "k/from-file", "--range", "1MiB..1048580"]).ok().stdout;
    assert_eq!(part, content[1 << 20..(1 << 20) + 4]);
    assert_eq!(
        scratch.run(["blob", "get", "k/from-file", "--range", "5000000.."]).ok().stdout,
        content[5_000_000..]
    );
    assert_eq!(scratch.run(["blob", "get", "k/from-file", "--range", "6000000+5"]).ok().stdout, b"");
    scratch.run_with_input(["blob", "put", "--at", "9223372036854775806", "k/huge"], b"x").ok();
    assert_eq!(scratch.run(["blob", "get", "k/huge", "--range", "9223372036854775806.."]).ok().stdout, b"x");
    assert_eq!(
        scratch.run(["blob", "cat", "k/from-file", "k/from-stdin"]).ok().stdout.len(),
        2 * content.len()
    );
}

#[test]
fn a_get_that_fails_leaves_no_file_and_a_special_file_is_written_as_it_is() {
    let scratch = Scratch::with_keyspace();
    scratch.write("there", "old");
    scratch.run(["blob", "get", "k/missing", "there"]).fails(13, "missing");
    assert_eq!(fs::read(scratch.path("there")).expect("is there"), b"old");
    assert_eq!(fs::read_dir(scratch.path("")).expect("reads").count(), 2, "the store and the file");
    scratch.run_with_input(["blob", "put", "k/a"], "content").ok();
    scratch.run(["blob", "get", "k/a", "/dev/null"]).ok();
    assert!(!fs::metadata("/dev/null").expect("is there").is_file());
}

#[test]
fn a_get_follows_no_link_keeps_the_mode_and_takes_names_of_any_length() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "content").ok();
    let mode = |name: &str| fs::metadata(scratch.path(name)).expect("is there").permissions().mode() & 0o7777;
    let secret = scratch.write("secret", "old");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("set");
    scratch.write("victim", "precious");
    symlink("victim", scratch.path(".secret.tyr-partial")).expect("linked");
    scratch.run(["blob", "get", "k/a", "secret"]).ok();
    assert_eq!(fs::read(&secret).expect("is there"), b"content");
    assert_eq!(mode("secret"), 0o600, "what was kept from others is so still");
    assert_eq!(fs::read(scratch.path("victim")).expect("is there"), b"precious");

    let long = "x".repeat(255);
    scratch.run(["blob", "get", "k/a", &long]).ok();
    assert_eq!(fs::read(scratch.path(&long)).expect("is there"), b"content");
    let plain = scratch.write("plain", "");
    fs::remove_file(&plain).expect("removed");
    fs::write(&plain, "").expect("written");
    assert_eq!(mode(&long), mode("plain"), "a new file has the mode of any other");
}

#[test]
fn a_get_to_a_symbolic_link_replaces_what_it_leads_to() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "content").ok();
    let target = scratch.write("elsewhere/target", "old");
    symlink("elsewhere/target", scratch.path("link")).expect("linked");
    scratch.run(["blob", "get", "k/a", "link"]).ok();
    assert!(scratch.path("link").is_symlink());
    assert_eq!(fs::read(&target).expect("is there"), b"content");
    assert_eq!(fs::read_dir(scratch.path("elsewhere")).expect("reads").count(), 1);
    fs::remove_file(&target).expect("removed");
    scratch.run(["blob", "get", "k/a", "link"]).fails(1, "cannot follow the symbolic link 'link'");
    assert!(scratch.path("link").is_symlink() && !target.exists());
}

#[test]
fn putting_replaces_writes_in_place_or_refuses() {
    let scratch = Scratch::with_keyspace();
    let put = |arguments: &[&str], input: &str| {
        scratch.run_with_input([&["blob", "put", "k/a"], arguments].concat(), input)
    };
    put(&[], "0123456789").ok();
    scratch.run(["blob", "attr", "set", "k/a", "color", "red"]).ok();
    put(&["--at", "4"], "xy").ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"0123xy6789");
    put(&["--new"], "new").fails(14, "already");
    put(&[], "short").ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"short");
    assert_eq!(scratch.run(["blob", "attr", "get", "k/a", "color"]).ok().stdout, b"red\n");
    put(&[], "").ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"");
}

#[test]
fn appends_print_their_offset() {
    let scratch = Scratch::with_keyspace();
    assert_eq!(scratch.run_with_input(["blob", "append", "k/log"], "12345").ok().text(), "0\n");
    let large = scratch.write("large", vec![1; (1 << 20) + 7]);
    assert_eq!(scratch.run(["blob", "append", "k/log", "large"]).ok().text(), "5\n");
    assert_eq!(scratch.run_with_input(["blob", "append", "k/log", "-"], "x").ok().text(), "1048588\n");
    let content = scratch.run(["blob", "cat", "k/log"]).ok().stdout;
    assert!(content == [b"12345", fs::read(large).expect("is there").as_slice(), b"x"].concat());
}

#[test]
fn truncating_cuts_and_extends() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "0123456789").ok();
    scratch.run(["blob", "truncate", "k/a", "3"]).ok();
    scratch.run(["blob", "truncate", "k/a", "5"]).ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"012\0\0");
    scratch.run(["blob", "truncate", "k/missing", "5"]).fails(13, "missing");
}

#[test]
fn punching_leaves_a_hole_and_the_size() {
    let scratch = Scratch::with_keyspace();
    let content = || scratch.run(["blob", "cat", "k/a"]).ok().stdout;
    scratch.run_with_input(["blob", "put", "k/a"], "abcdef").ok();
    let told = scratch.run(["blob", "punch", "k/a", "1+2"]).ok().text();
    assert_eq!(told, "left a hole of 2 bytes in k/a at 1\n");
    assert_eq!(content(), b"a\0\0def");
    scratch.run(["blob", "punch", "k/a", "5.."]).ok();
    scratch.run(["blob", "punch", "k/a", "9.."]).ok();
    scratch.run_with_input(["tx", "run"], "punch k/a 3 1\nappend k/a g\n").ok();
    assert_eq!(content(), b"a\0\0\0e\0g");
    scratch.run(["blob", "punch", "k/missing", "0..1"]).fails(13, "missing");
    scratch.run_with_input(["tx", "run"], "append k/a h\npunch k/missing 0 1\n").fails(13, "line 2");
    assert_eq!(content(), b"a\0\0\0e\0g");
}

#[test]
fn transforms_print_the_old_value() {
    let scratch = Scratch::with_keyspace();
    let transform = |arguments: &[&str]| scratch.run([&["blob", "transform", "k/n"], arguments].concat());
    assert_eq!(transform(&["add", "u64", "0", "5"]).ok().text(), "0\n");
    assert_eq!(transform(&["add", "u64", "0", "5"]).ok().text(), "5\n");
    assert_eq!(transform(&["min", "i32", "8", "-7"]).ok().text(), "0\n");
    assert_eq!(transform(&["compare-and-swap", "i32", "8", "-7", "9"]).ok().text(), "-7\n");
    assert_eq!(transform(&["cas", "i32", "8", "-7", "1"]).ok().text(), "9\n");
    let json = transform(&["multiply", "f64", "16", "2.5", "--json"]).ok().json();
    assert_eq!((&json["old"], &json["new"]), (&0.0.into(), &0.0.into()));
    transform(&["add", "u8", "0", "256"]).fails(2, "is no u8");
    transform(&["add", "f32", "24", "1e39"]).fails(2, "is no f32");
    transform(&["add", "f64", "24", "-1e999"]).fails(2, "is no f64");
    transform(&["swap", "f64", "24", "inf"]).ok();
    transform(&["plus", "u8", "0", "1"]).fails(2, "compare-and-swap");
    transform(&["add", "u8", "0", "1", "2"]).fails(2, "one operand");
    transform(&["xor", "f32", "0", "1"]).fails(2, "integer");
}

#[test]
fn attributes_are_set_got_listed_and_unset() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], "x").ok();
    scratch.write("value", [0xff, 0]);
    scratch.run(["blob", "attr", "set", "k/a", "text", "two words"]).ok();
    scratch.run(["blob", "attr", "set", "k/a", "bytes", "hex:ff00"]).ok();
    scratch.run(["blob", "attr", "set", "k/a", "file", "file:value"]).ok();
    scratch.run(["blob", "attr", "set", "k/a", "dash", "-1"]).ok();
    assert_eq!(scratch.run(["blob", "attr", "get", "k/a", "text"]).ok().text(), "two words\n");
    assert_eq!(scratch.run(["blob", "attr", "get", "k/a", "file"]).ok().stdout, b"\xff\0\n");
    let listed = scratch.run(["blob", "attr", "list", "k/a"]).ok().text();
    assert_eq!(listed, "bytes  \\xff\\u{0}\ndash   -1\nfile   \\xff\\u{0}\ntext   two words\n");
    let json = scratch.run(["blob", "attr", "get", "k/a", "bytes", "--json"]).ok().json();
    assert_eq!((json.get("value"), &json["value_hex"]), (None, &"ff00".into()));
    scratch.run(["blob", "attr", "unset", "k/a", "text"]).ok();
    scratch.run(["blob", "attr", "get", "k/a", "text"]).fails(13, "has no attribute 'text'");
    scratch.run(["blob", "attr", "unset", "k/a", "text"]).fails(13, "has no attribute 'text'");
    scratch.write("large", vec![0; 100_000]);
    scratch.run(["blob", "attr", "set", "k/a", "large", "file:large"]).fails(15, "blob of its own");
    scratch.run(["blob", "attr", "set", "k/missing", "a", "b"]).fails(13, "missing");
}

#[test]
fn lists_are_in_order_and_can_be_cut_and_continued() {
    let scratch = Scratch::with_keyspace();
    let keys: Vec<String> = (0..25).map(|n| format!("k/d/{n:02}")).collect();
    let script: String = keys.iter().map(|key| format!("put {key} x\n")).collect();
    scratch.run_with_input(["tx", "run", "-q"], script + "put k/e \"123\"\nput k/\"a\\nb\\xff\" \"\"\n").ok();
    let list = |arguments: &[&str]| scratch.run([&["blob", "ls"], arguments].concat()).ok();
    assert_eq!(list(&["k"]).text().lines().count(), 27);
    assert_eq!(list(&["k"]).text().lines().next(), Some("a\\nb\\xff"));
    assert_eq!(list(&["k/d/1"]).text().lines().count(), 10);
    assert_eq!(list(&["k/d/", "--limit", "2", "--after", "d/05"]).text(), "d/06\nd/07\n");
    assert_eq!(list(&["k/d/", "--limit", "0"]).text(), "");
    assert_eq!(list(&["k/nothing"]).text(), "");
    let long = list(&["k/e", "-l"]).text();
    assert!(long.trim_start().starts_with("3 ") && long.ends_with("  e\n"), "{long}");
    assert!(list(&["k/e", "-lH"]).text().trim_start().starts_with("3 B "));
    let json = list(&["k/d/", "--limit", "3", "--json"]).json();
    assert_eq!((json["blobs"].as_array().map(Vec::len), &json["more"]), (Some(3), &true.into()));
    assert_eq!(list(&["k", "--limit", "27", "--json"]).json()["more"], false);
    assert_eq!(list(&["k", "--json"]).json()["blobs"][0]["key_hex"], "610a62ff");
}

#[test]
fn removing_is_all_or_nothing_or_by_prefix() {
    let scratch = Scratch::with_keyspace();
    let put_all = || {
        let script: String = (0..600).map(|n| format!("put k/d/{n} x\n")).collect();
        scratch.run_with_input(["tx", "run", "-q"], script + "put k/dd x\nput k/a x\n").ok();
    };
    let count = || scratch.run(["blob", "ls", "k"]).ok().text().lines().count();
    put_all();
    let missing = "there is no blob k/missing, so nothing is removed; --force";
    scratch.run(["blob", "rm", "k/a", "k/missing"]).fails(13, missing);
    assert_eq!(count(), 602);
    assert_eq!(scratch.run(["blob", "rm", "k/a", "k/d/1"]).ok().text(), "removed 2 blobs\n");
    assert_eq!(
        scratch.run(["blob", "rm", "-f", "k/a", "k/missing", "k/d/2"]).ok().text(),
        "removed 1 blob\n"
    );
    assert_eq!(scratch.run(["blob", "rm", "--recursive", "k/d/"]).ok().text(), "removed 598 blobs\n");
    assert_eq!(count(), 1);
    scratch.run(["blob", "rm", "-r", "k/d/"]).fails(13, "no key begins with k/d/");
    scratch.run(["blob", "rm", "-rf", "k/d/"]).ok();
    put_all();
    scratch.run(["blob", "rm", "-r", "k"]).ok();
    assert_eq!(count(), 0);
}

#[test]
fn keys_are_any_bytes() {
    let scratch = Scratch::with_keyspace();
    let address = std::ffi::OsStr::from_bytes(b"k/a b\n\xff/../%41");
    let arguments = ["blob", "put"].map(std::ffi::OsString::from);
    scratch.run_with_input(arguments.iter().map(AsRef::as_ref).chain([address]), "odd").ok();
    assert_eq!(scratch.run(["blob", "cat", "tyr:///k/a%20b%0a%ff/../%2541"]).ok().stdout, b"odd");
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "a b\\n\\xff/../%41\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/a"], vec![b'x'; 3 << 20]).ok();
    let mut child = scratch.spawn(["blob", "cat", "k/a", "k/a"]);
    let mut stdout = child.stdout.take().expect("is piped");
    let mut start = [0; 10];
    stdout.read_exact(&mut start).expect("reads");
    drop(stdout);
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let scratch = Scratch::with_keyspace();
    scratch.run(["blob", "put", "k/a", "nowhere"]).fails(1, "cannot open 'nowhere'");
    scratch.run(["blob", "put", "k/a", "."]).fails(1, "cannot read '.'");
    let _socket = UnixListener::bind(scratch.path("socket")).expect("binds");
    scratch.run(["blob", "put", "k/a", "socket"]).fails(1, "cannot open 'socket'");
    scratch.run(["blob", "ls", "k"]).ok();
    scratch.run_with_input(["blob", "put", "k/a"], "x").ok();
    scratch.run(["blob", "get", "k/a", "no/such/directory"]).fails(1, "cannot create");
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "a\n", "nothing of the failed puts is there");
}

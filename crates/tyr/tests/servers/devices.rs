//! Nodes as processes on a device that is full.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Command,
};

use tyr_client::{ErrorKind, KeyspaceSettings, blocking::Store};

use super::{Node, json, tyr};

/// A command that runs with a device of so many MiB at a directory, for itself alone; none where no file system can be mounted, as without the
/// rights to that.
fn with_device(directory: &Path, size: u32, command: &Command) -> Option<Command> {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        let is_root = rustix::process::geteuid().is_root();
        unshare.args(if is_root { &["--mount"][..] } else { &["--mount", "--map-root-user"] });
        unshare.args(["sh", "-c", "mount -t tmpfs -o size=\"$0\" tmpfs \"$1\" && shift && exec \"$@\""]);
        unshare.arg(format!("{size}m")).arg(directory);
        unshare
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let mut within = unshare();
    within.arg(command.get_program()).args(command.get_args()).stdout(std::process::Stdio::piped());
    Some(within)
}

#[test]
fn a_device_that_is_full_can_be_emptied_and_filled_again() {
    let directory = tempfile::tempdir().unwrap();
    let node = directory.path().join("node");
    let server = [
        "server",
        "--json",
        "--log=warn",
        "--partitions=16",
        "--segment-size=4MiB",
        "--listen=127.0.0.1:0",
        "--directory",
        node.to_str().unwrap(),
    ];
    let Some(mut command) = with_device(directory.path(), 512, &tyr(server)) else { return };
    command.stderr(std::process::Stdio::piped());
    let mut node = Node::run(command);
    let address = node.wait_for("listening")["address"].as_str().unwrap().to_owned();
    node.wait_for("ready");

    let store = Store::open(format!("tyr://{address}")).unwrap();
    let keyspace = store.create_keyspace("k", KeyspaceSettings::default()).unwrap();
    let content = vec![7; 256 << 10];
    let full = (0..10_000).find(|blob| match keyspace.put(blob.to_string(), &content) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            true
        }
    });
    let count: u32 = full.expect("512 MiB do not hold more");
    assert!(count > 400, "{count}");
    assert_eq!(keyspace.read("0", ..).unwrap(), content, "it can be read");
    let log = BufReader::new(node.process.stderr.take().unwrap());
    let told = log.lines().map(Result::unwrap).find(|line| line.contains("the device of this shard is full"));
    let told = told.expect("whichever of both shards sees it first says so");
    assert!(told.contains("WARN"), "{told}");
    let shard = ["shard-0", "shard-1"]
        .into_iter()
        .find(|shard| told.contains(shard))
        .expect("the directory of the shard is told");
    let status = tyr(["--store", &format!("tyr://{address}"), "node", "status"]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(&format!("{shard} (full)")), "{status}");
    for blob in 0..count {
        keyspace.delete(blob.to_string()).unwrap();
    }
    // It is given back soon, though nobody else writes.
    for blob in 0..count / 4 * 3 {
        while let Err(error) = keyspace.put(blob.to_string(), &content) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        }
    }
    assert!(node.stop().success());
}

#[test]
fn a_node_goes_on_by_what_it_has_reserved_when_others_have_filled_the_device_of_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (device, data) = (directory.path().join("device"), directory.path().join("data"));
    std::fs::create_dir(&device).unwrap();
    let place = device.join("node");
    let server = ["server", "--json", "--log=warn", "--partitions=16", "--shards=2", "--listen=127.0.0.1:0"];
    let mut server = tyr(server);
    server.arg("--directory").arg(&place).arg("--targets").arg(&data);
    let Some(mut command) = with_device(&device, 16, &server) else { return };
    command.stderr(std::process::Stdio::piped());
    let mut node = Node::run(command);
    let address = node.wait_for("listening")["address"].as_str().unwrap().to_owned();
    node.wait_for("ready");
    let url = format!("tyr://{address}");
    // The device as the node sees it.
    let seen = Path::new("/proc").join(node.process.id().to_string()).join("root");
    let within = |path: &Path| seen.join(path.strip_prefix("/").unwrap());
    let (filler, reserve) = (within(&device.join("filler")), within(&place.join("manager.reserve")));
    assert!(reserve.exists());
    let mut file = std::fs::File::create(&filler).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[7; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    for number in 0..10 {
        json(&url, &["keyspace", "create", &number.to_string()]);
    }
    assert!(!reserve.exists());
    let log = BufReader::new(node.process.stderr.take().unwrap());
    let told = log.lines().map(Result::unwrap).find(|line| line.contains("room that was kept for it"));
    assert!(told.is_some_and(|line| line.contains(place.to_str().unwrap())));
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    json(&url, &["keyspace", "create", "more"]);
    assert!(reserve.exists(), "it is kept again");
    assert!(node.stop().success());
}

#[test]
fn the_doctor_says_that_a_full_device_wants_room() {
    let directory = tempfile::tempdir().unwrap();
    let mut doctor = Command::new("sh");
    doctor.args(["-c", "head -c 2000000 /dev/zero >\"$1/filler\"; exec \"$0\" doctor --listen 127.0.0.1:0 --directory \"$1\""]);
    doctor.arg(env!("CARGO_BIN_EXE_tyr")).arg(directory.path());
    let Some(mut doctor) = with_device(directory.path(), 1, &doctor) else { return };
    let found = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(found.contains("nothing can be written there") && found.contains("make room"), "{found}");
    assert!(!found.contains("chown"), "{found}");
}

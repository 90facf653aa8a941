//! Who has no right but to read a keyspace.

use std::time::Duration;

use pollster::block_on;
use tyr_client::{Keyspace, Secret, Store};
use tyr_fs::{Caller, Errno, Filesystem, Follow, How, View};
use tyr_net::{Credential, Token};
use tyr_proto::{
    access::{AccountKind, Rights, Scope},
    cluster::{Answer, ClassSettings, Command},
};
use tyr_server::{Guarding, Operator, Settings};

use crate::real::Servers;

fn secret() -> Secret {
    Secret::new(&[b's'; 32]).unwrap()
}

/// A token of a user that may read all keyspaces.
fn reader(servers: &Servers) -> Token {
    let address = servers.url().trim_start_matches("tyr://").parse().unwrap();
    let credential = Credential::Secret(secret());
    let mut operator = Operator::new(&[address], None, &credential, Duration::from_secs(30)).unwrap();
    let name = "reader".parse().unwrap();
    let create = Command::CreateAccount { name, kind: AccountKind::User, seed: 1 };
    let Answer::AccountCreated(user, _) = operator.command(create).unwrap().unwrap() else { unreachable!() };
    let (scope, less) = (Scope::Keyspaces, Rights::NONE);
    operator.command(Command::Grant { account: user, scope, more: Rights::READ, less }).unwrap().unwrap();
    operator.token(user, 3600, Vec::new()).unwrap().unwrap()
}

#[test]
fn who_may_only_read_reads_and_is_told_when_a_file_is_gone() {
    let servers = Servers::start(1, |directory| {
        let usual = Settings::new(directory);
        let class = ClassSettings { partitions: 4, ..usual.class };
        Settings { class, guarding: Guarding::Secret(secret()), ..usual }
    });
    let all = block_on(Store::options().secret(secret()).open(servers.url())).unwrap();
    let files = block_on(Filesystem::open_or_create(&all, "files")).unwrap();
    let writer = View::new(files, Caller::superuser());
    block_on(writer.put("/file", b"content")).unwrap();

    let store = block_on(Store::options().token(reader(&servers)).open(servers.url())).unwrap();
    let keyspace: Keyspace = store.keyspace("files").unwrap();
    let reader = View::new(block_on(Filesystem::open(&store, &keyspace)).unwrap(), Caller::superuser());
    for _ in 0..2 {
        let file = block_on(reader.open("/file", How::READ)).unwrap();
        assert_eq!(block_on(file.read(3, 100)).unwrap(), b"tent");
        assert_eq!(block_on(file.metadata()).unwrap().size, 7);
        assert_eq!(block_on(file.write(0, b"x")).unwrap_err().errno(), Errno::EACCES);
        assert_eq!(block_on(file.truncate(0)).unwrap_err().errno(), Errno::EACCES);
        block_on(file.sync()).unwrap();
    }
    assert_eq!(block_on(reader.open("/file", How::WRITE)).unwrap_err().errno(), Errno::EACCES);
    // Another file comes to lie in the same place: its bytes are never taken for those of the first.
    let file = block_on(reader.open("/file", How::READ)).unwrap();
    block_on(writer.remove_file("/file")).unwrap();
    assert_eq!(block_on(file.read(0, 100)).unwrap_err().errno(), Errno::ESTALE);
    block_on(writer.put("/file", b"another")).unwrap();
    let other = block_on(reader.metadata("/file", Follow::Yes)).unwrap().inode;
    assert!(other.site == file.inode().site && other.number != file.inode().number);
    assert_eq!(block_on(file.read(0, 100)).unwrap_err().errno(), Errno::ESTALE);
    assert_eq!(block_on(file.seek(tyr_client::Seek::Data, 0)).unwrap_err().errno(), Errno::ESTALE);
    let file = block_on(reader.open("/file", How::READ)).unwrap();
    assert_eq!(block_on(file.read(0, 100)).unwrap(), b"another");
    assert!(block_on(writer.filesystem().guests()).unwrap().is_empty(), "it never was a guest");
}

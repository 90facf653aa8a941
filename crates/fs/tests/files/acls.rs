//! Access control lists: who may do what by them, and what is made under them.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Acl, Caller, Changes, Errno, Filesystem, Follow, How, Put, Timestamp, View};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const NOBODY: u32 = u32::MAX;

/// The value for lines of a tag, permissions, and a number.
fn list(lines: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in lines {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// The owner has `owner`, user 1001 and group 1002 have `named`, the mask is `mask`, and others have nothing.
fn named(owner: u16, named: u16, mask: u16) -> Vec<u8> {
    list(&[
        (1, owner, NOBODY),
        (2, named, 1001),
        (4, 0, NOBODY),
        (8, named, 1002),
        (16, mask, NOBODY),
        (32, 0, NOBODY),
    ])
}

fn user(filesystem: &Filesystem, uid: u32, gid: u32) -> View {
    View::new(filesystem.clone(), Caller { uid, gid, groups: Vec::new() })
}

fn lists_are_obeyed(store: &Store) {
    let filesystem = block_on(Filesystem::open_or_create(store, "files")).unwrap();
    let root = user(&filesystem, 0, 0);
    block_on(root.create_directory("/shared", 0o755)).unwrap();
    let set =
        |path: &str, name, value: Option<&[u8]>| block_on(root.set_extended(path, name, value, Put::Any));
    let refused = |result: Result<(), tyr_fs::Error>| result.unwrap_err().errno();
    assert_eq!(refused(set("/shared", ACCESS, Some(&named(7, 7, 7)))), Errno::ENOTSUP, "none are obeyed yet");
    let shared = block_on(root.metadata("/shared", Follow::Yes)).unwrap();
    assert_eq!(block_on(filesystem.extended(&shared.inode, ACCESS)).unwrap_err().errno(), Errno::ENOTSUP);

    let before = block_on(Filesystem::open(store, filesystem.keyspace())).unwrap();
    block_on(filesystem.obey_acls()).unwrap();
    // Who opens it after that obeys, too.
    let other = block_on(Filesystem::open(store, filesystem.keyspace())).unwrap();
    assert!(other.obeys_acls());
    set("/shared", ACCESS, Some(&named(7, 7, 7))).unwrap();
    set("/shared", DEFAULT, Some(&named(7, 7, 7))).unwrap();
    assert_eq!(block_on(root.metadata("/shared", Follow::Yes)).unwrap().mode, 0o770);

    let (friend, member, stranger) =
        (user(&other, 1001, 5), user(&other, 1003, 1002), user(&other, 1004, 1004));
    let file = block_on(friend.masked(0o077).open("/shared/made", How::CREATE)).unwrap();
    let made = block_on(file.metadata()).unwrap();
    assert_eq!(made.mode, 0o640, "the default list counts, and no umask");
    assert_eq!(block_on(other.extended(&made.inode, ACCESS)).unwrap(), named(6, 7, 4));
    assert!(block_on(member.open("/shared/made", How::READ)).is_ok());
    assert_eq!(block_on(member.open("/shared/made", How::WRITE)).unwrap_err().errno(), Errno::EACCES);
    assert_eq!(block_on(stranger.fetch("/shared/made")).unwrap_err().errno(), Errno::EACCES);
    assert_eq!(block_on(member.fetch("/shared/made")).unwrap().1, b"");
    let inner = block_on(member.create_directory("/shared/inner", 0o700)).unwrap();
    assert_eq!(inner.mode, 0o700);
    assert_eq!(block_on(other.extended(&inner.inode, DEFAULT)).unwrap(), named(7, 7, 7));
    assert_eq!(block_on(other.extended(&inner.inode, ACCESS)).unwrap(), named(7, 7, 0));

    // chmod changes the mask, and a list that says what a mode can say is none.
    let changes = Changes { mode: Some(0o4660), ..Changes::default() };
    assert_eq!(block_on(root.change("/shared/made", Follow::Yes, &changes)).unwrap().mode, 0o4660);
    assert_eq!(block_on(other.extended(&made.inode, ACCESS)).unwrap(), named(6, 7, 6));
    assert!(block_on(member.open("/shared/made", How::WRITE)).is_ok());
    let plain = list(&[(1, 6, NOBODY), (4, 4, NOBODY), (32, 4, NOBODY)]);
    set("/shared/made", ACCESS, Some(&plain)).unwrap();
    assert_eq!(block_on(other.extended(&made.inode, ACCESS)).unwrap_err().errno(), Errno::ENODATA);
    let now = block_on(root.metadata("/shared/made", Follow::Yes)).unwrap();
    assert_eq!((now.mode, now.acl), (0o4644, None));
    assert_eq!(block_on(other.extended_names(&inner.inode)).unwrap(), [ACCESS, DEFAULT]);

    // What is no list, or has none, and who may not.
    assert_eq!(refused(set("/shared/made", ACCESS, Some(b"\x02\0\0\0\x01"))), Errno::EINVAL);
    assert_eq!(refused(set("/shared/made", DEFAULT, Some(&plain))), Errno::EACCES);
    assert_eq!(refused(set("/shared/made", b"system.posix_acl_other", Some(&plain))), Errno::ENOTSUP);
    let by_member = block_on(member.set_extended("/shared/made", ACCESS, Some(&plain), Put::Any));
    assert_eq!(refused(by_member), Errno::EPERM);

    // Who had it open before keeps lists and modes in step, too.
    assert!(!before.obeys_acls());
    let old = user(&before, 0, 0);
    let inherits = block_on(old.create_directory("/shared/by-old", 0o755)).unwrap();
    assert_eq!((inherits.mode, inherits.acl.is_some()), (0o750, true));
    let changes = Changes { mode: Some(0o710), ..Changes::default() };
    block_on(old.change("/shared/by-old", Follow::Yes, &changes)).unwrap();
    assert_eq!(block_on(other.extended(&inherits.inode, ACCESS)).unwrap(), named(7, 7, 1));

    // Without its default list a directory makes what any other makes.
    set("/shared", DEFAULT, None).unwrap();
    let file = block_on(root.clone().masked(0o027).open("/shared/last", How::CREATE)).unwrap();
    let last = block_on(file.metadata()).unwrap();
    assert_eq!((last.mode, last.acl), (0o640, None));
    assert_eq!(
        Acl::decode(&named(7, 7, 7)).unwrap(),
        block_on(root.metadata("/shared", Follow::Yes)).unwrap().acl
    );
}

#[test]
fn attributes_and_times_are_for_those_who_may() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let filesystem = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let (root, member) = (user(&filesystem, 0, 0), user(&filesystem, 1003, 1002));
    block_on(root.put("/file", b"x")).unwrap();
    for name in [&b"user.color"[..], b"trusted.color", b"security.color"] {
        block_on(root.set_extended("/file", name, Some(b"red"), Put::Any)).unwrap();
    }
    let set_mode = |mode| {
        let changes = Changes { mode: Some(mode), gid: Some(1002), ..Changes::default() };
        block_on(root.change("/file", Follow::Yes, &changes)).unwrap()
    };
    let errno = |result: Result<(), tyr_fs::Error>| result.map_err(|error| error.errno());
    let read = |view: &View, found, name: &[u8]| errno(block_on(view.extended_found(found, name)).map(drop));
    let write = |view: &View, found, name: &[u8]| {
        errno(block_on(view.set_extended_found(found, name, Some(b"x"), Put::Any)))
    };
    let closed = set_mode(0o600);
    assert_eq!(read(&member, &closed, b"user.color"), Err(Errno::EACCES));
    assert_eq!(write(&member, &closed, b"user.color"), Err(Errno::EACCES));
    assert_eq!(read(&member, &closed, b"trusted.color"), Err(Errno::ENODATA));
    assert_eq!(write(&member, &closed, b"trusted.color"), Err(Errno::EPERM));
    assert_eq!(write(&member, &closed, b"security.color"), Err(Errno::EPERM));
    assert_eq!(write(&root, &closed, b"user."), Err(Errno::EINVAL));
    assert_eq!(write(&root, &closed, b"color"), Err(Errno::ENOTSUP));
    assert_eq!(block_on(member.extended_names_found(&closed)).unwrap().len(), 2);
    assert_eq!(block_on(root.extended_names_found(&closed)).unwrap().len(), 3);
    let touch = Changes {
        accessed: Some(Timestamp::now()),
        modified: Some(Timestamp::now()),
        touches: true,
        ..Changes::default()
    };
    let touches = |changes: &Changes| errno(block_on(member.change("/file", Follow::Yes, changes)).map(drop));
    assert_eq!(touches(&touch), Err(Errno::EACCES));
    let open = set_mode(0o660);
    assert_eq!((read(&member, &open, b"user.color"), write(&member, &open, b"user.color")), (Ok(()), Ok(())));
    assert_eq!(touches(&touch), Ok(()));
    assert_eq!(touches(&Changes { touches: false, ..touch.clone() }), Err(Errno::EPERM));
    // A view of somebody else has his rights.
    assert_eq!(read(&member.by(Caller::superuser()), &open, b"trusted.color"), Ok(()));
    // In a sticky directory only the owner sets any, and a link has none.
    let all = block_on(root.create_directory("/tmp", 0o1777)).unwrap();
    assert_eq!(write(&user(&filesystem, 1003, 1002), &all, b"user.color"), Err(Errno::EPERM));
    let link = block_on(root.symlink("file", "/link")).unwrap();
    assert_eq!(write(&root, &link, b"user.color"), Err(Errno::EPERM));
}

#[test]
fn lists_are_obeyed_in_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    lists_are_obeyed(&store);
}

#[test]
fn and_on_a_cluster() {
    let servers = crate::real::Servers::start(3, |directory| tyr_server::Settings::new(directory));
    lists_are_obeyed(&block_on(Store::open(servers.url())).unwrap());
}

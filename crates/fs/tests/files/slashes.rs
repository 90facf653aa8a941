//! Paths that end with a slash: they mean directories, and do not lead through symbolic links to what is made or taken away.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Errno, Filesystem, Follow, Kind, Over, View};

#[test]
fn a_slash_after_a_symbolic_link_has_nothing_happen_to_where_it_leads() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let view = View::new(block_on(Filesystem::open_or_create(&store, "files")).unwrap(), Caller::superuser());
    block_on(view.symlink("target", "/link")).unwrap();
    let errno = |result: tyr_fs::Result<()>| result.unwrap_err().errno();
    let make = |path: &str| block_on(view.create_directory(path, 0o755)).map(drop);
    assert_eq!(errno(make("/link/")), Errno::EEXIST, "nothing is where it leads");
    make("/target/").unwrap();
    block_on(view.put("/file", b"content")).unwrap();
    let remove = |path: &str| block_on(view.remove_directory(path));
    let rename = |from: &str, to: &str, over| block_on(view.rename_over(from, to, over));
    for refused in [
        remove("/link/"),
        remove("/file/"),
        block_on(view.remove_file("/link/")),
        block_on(view.remove_file("/file/")),
        rename("/link/", "/moved", Over::Replace),
        rename("/file/", "/moved", Over::Replace),
        rename("/target/", "/link/", Over::Replace),
        rename("/file", "/moved/", Over::Replace),
        rename("/target", "/link/", Over::Exchange),
    ] {
        assert_eq!(errno(refused), Errno::ENOTDIR);
    }
    assert_eq!(errno(make("/link/")), Errno::EEXIST);
    assert_eq!(errno(block_on(view.symlink("other", "/link/")).map(drop)), Errno::EEXIST);
    assert_eq!(errno(block_on(view.hard_link("/file", "/link/")).map(drop)), Errno::EEXIST);
    assert_eq!(errno(block_on(view.remove_file("/target/"))), Errno::EISDIR);
    assert_eq!(errno(remove("/")), Errno::EBUSY);
    // Who only looks is led on.
    let kind = |path: &str| block_on(view.metadata(path, Follow::No)).unwrap().inode.kind;
    assert_eq!([kind("/link"), kind("/link/")], [Kind::Symlink, Kind::Directory]);
    rename("/file", "/target/", Over::Exchange).unwrap();
    rename("/file/", "/moved//", Over::Replace).unwrap();
    remove("/moved/").unwrap();
}

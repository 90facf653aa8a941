//! A file system, or a directory of it, as programs see it below a prefix.

use std::path::Path;

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Errno, Filesystem, Follow, How, View};

#[test]
fn links_and_dots_do_not_lead_out_of_a_directory_that_is_seen_below_a_prefix() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let whole =
        View::new(block_on(Filesystem::open_or_create(&store, "files")).unwrap(), Caller::superuser());
    for directory in ["/other", "/own", "/own/proj", "/own/proj/other"] {
        block_on(whole.create_directory(directory, 0o755)).unwrap();
    }
    block_on(whole.put("/other/file", b"outside")).unwrap();
    block_on(whole.put("/own/proj/other/file", b"inside")).unwrap();
    // Where the directory is may be said by way of a link, which is one of the file system.
    block_on(whole.symlink("/own", "/link")).unwrap();
    for directory in ["/own/proj", "/link/proj"] {
        let view = whole.clone().mounted_at(Path::new("/scratch"), Path::new(directory));
        let at = |name: &str| format!("{directory}{name}");
        let content = |name: &str| {
            let found = block_on(view.metadata(at(name), Follow::Yes))?;
            let file = block_on(view.open(at(name), How::READ))?;
            assert_eq!(file.inode().number, found.inode.number, "{name}");
            block_on(file.read(0, 100))
        };
        let expected = Ok(b"inside".to_vec());
        for target in [
            "/scratch/other/file",
            "//scratch/./other//file",
            "/x/../scratch/other/../other/file",
            "/scratch/../scratch/other/file",
            "other/file",
            "../other/file",
            "../../../other/file",
        ] {
            block_on(view.symlink(target, at("/soft"))).unwrap();
            assert_eq!(content("/soft").map_err(|error| error.errno()), expected, "{target}");
            block_on(view.remove_file(at("/soft"))).unwrap();
        }
        for target in
            ["/other/file", "/own/proj/other/file", "/scratchy/other/file", "/scratch/../other/file", "/"]
        {
            block_on(view.symlink(target, at("/soft"))).unwrap();
            assert_eq!(content("/soft").map_err(|error| error.errno()), Err(Errno::ENOENT), "{target}");
            block_on(view.remove_file(at("/soft"))).unwrap();
        }
        assert_eq!(content("/other/../../../other/file").map_err(|error| error.errno()), expected);
        block_on(view.symlink("/scratch", at("/top"))).unwrap();
        assert_eq!(content("/top/other/file").map_err(|error| error.errno()), expected);
        block_on(view.remove_file(at("/top"))).unwrap();
        // It is not removed from inside, and what is not in it is not there.
        assert_eq!(block_on(view.remove_directory(at(""))).unwrap_err().errno(), Errno::EBUSY);
        let outside = block_on(view.metadata("/other/file", Follow::Yes));
        assert_eq!(outside.unwrap_err().errno(), Errno::ENOENT);
    }
}

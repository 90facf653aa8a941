//! From keys to paths: which keys may become files below a directory, and which.
//!
//! Nothing that a key says leads out of the directory. (That no symbolic link on the way does is seen to where files are
//! written.)

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The key, below the prefix, of the tree's own directory.
pub const ROOT: &[u8] = b"./";

/// The prefix of all keys of a tree that is named by `prefix`: it ends in a slash unless it is empty.
pub fn tree_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut prefix = prefix.to_vec();
    if !prefix.is_empty() && !prefix.ends_with(b"/") {
        prefix.push(b'/');
    }
    prefix
}

/// The path that a key, below the prefix, stands for. A slash at the end makes no difference to the path.
pub fn relative_path(key: &[u8]) -> Result<PathBuf, &'static str> {
    // Below the root there may be the root of another tree that was imported into a directory of this one.
    let key = match key.strip_suffix(ROOT) {
        Some(b"") => return Ok(PathBuf::new()),
        Some(directory) if directory.ends_with(b"/") => directory,
        _ => key,
    };
    if key.starts_with(b"/") {
        return Err("it is an absolute path");
    }
    if key.contains(&0) {
        return Err("it contains a zero byte");
    }
    let names = key.strip_suffix(b"/").unwrap_or(key);
    for name in names.split(|byte| *byte == b'/') {
        match name {
            b"" => return Err("a directory in it has no name"),
            b"." => return Err("'.' in it is no name of a file"),
            b".." => return Err("'..' in it leads out of the directory"),
            _ => {}
        }
    }
    Ok(Path::new(OsStr::from_bytes(names)).to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_keys_are_paths() {
        let path = |key: &[u8]| relative_path(key).map(|path| path.as_os_str().as_bytes().to_vec());
        assert_eq!(path(b"a/b c\n/\xff"), Ok(b"a/b c\n/\xff".to_vec()));
        assert_eq!(path(b"a/b/"), Ok(b"a/b".to_vec()));
        assert_eq!(path(b"..a/...b"), Ok(b"..a/...b".to_vec()));
        assert_eq!((path(ROOT), path(b"a/b/./")), (Ok(vec![]), Ok(b"a/b".to_vec())));
    }

    #[test]
    fn keys_that_lead_elsewhere_are_refused() {
        for key in [
            "", "/", "/a", "..", "../a", "a/..", "a/../b", "a/../", "a//b", "a//", ".", "./a", "a/./b", "a\0",
        ] {
            assert!(relative_path(key.as_bytes()).is_err(), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out(key in "[./a\0]{0,12}") {
            if let Ok(path) = relative_path(key.as_bytes()) {
                let plain = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(path.components().all(plain), "{:?}", key);
            }
        }
    }
}

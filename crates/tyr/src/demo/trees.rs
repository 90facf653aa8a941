//! Which directory tree to import if none is named: one that is there wherever Týr was built.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The first tree that is there and is worth showing: what came with the Rust toolchain, the sources of packages that
/// cargo has unpacked, or what came with the system.
pub fn find() -> Option<PathBuf> {
    let candidates =
        [sysroot().map(|path| path.join("share/doc")), cargo_sources(), Some("/usr/share/doc".into())];
    candidates.into_iter().flatten().find(|path| has_many_files(path))
}

fn sysroot() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim_end()))
}

fn cargo_sources() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    Some(home.join("registry/src"))
}

/// Whether the tree has a thousand entries. Stops counting there.
fn has_many_files(path: &Path) -> bool {
    const MANY: usize = 1000;
    let mut directories = vec![path.to_owned()];
    let mut count = 0;
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            count += 1;
            if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                directories.push(entry.path());
            }
        }
        if count >= MANY {
            return true;
        }
    }
    false
}

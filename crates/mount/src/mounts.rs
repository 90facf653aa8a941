//! What is mounted where, as the kernel tells: proc(5) has the words of each line.

use std::{fs, io, os::unix::ffi::OsStrExt, path::Path};

/// What is mounted on a directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The numbers by which the kernel knows it.
    pub device: String,
    /// The type of the file system.
    pub kind: String,
}

/// What is mounted on a directory, which is said by its whole path.
pub fn on(directory: &Path) -> io::Result<Option<Mounted>> {
    Ok(find(&fs::read("/proc/self/mountinfo")?, directory))
}

/// Of several that are mounted one over the other the last is seen.
fn find(mounts: &[u8], directory: &Path) -> Option<Mounted> {
    let wanted = escape(directory);
    let lines = mounts.split(|byte| *byte == b'\n');
    let mut found = lines.filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (device, place) = (words.get(2)?, words.get(4)?);
        // As many words as the kernel likes end with a dash.
        let end = words.iter().skip(6).position(|word| *word == b"-")?;
        let kind = words.get(6 + end + 1)?;
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        (*place == wanted).then(|| Mounted { device: text(device), kind: text(kind) })
    });
    found.next_back()
}

fn escape(directory: &Path) -> Vec<u8> {
    let bytes = directory.as_os_str().as_bytes().iter();
    let escaped = bytes.map(|byte| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    });
    escaped.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_on_a_directory_counts_whatever_its_name() {
        let mounts = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            40 22 0:39 / /mnt/a\\040b rw - tmpfs files rw\n\
            41 22 0:40 / /mnt/a rw shared:7 master:1 - fuse.tyr files rw\n\
            42 40 0:41 / /mnt/a\\040b rw - fuse.tyr - rw\n\nshort line\n43 40 0:41 / /mnt/a no end\n";
        let found = |directory: &str| {
            find(mounts, Path::new(directory)).map(|mounted| (mounted.device, mounted.kind))
        };
        let of = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        assert_eq!(found("/mnt/a b"), of("0:41", "fuse.tyr"));
        assert_eq!(found("/mnt/a"), of("0:40", "fuse.tyr"));
        assert_eq!(found("/"), of("254:0", "ext4"));
        assert_eq!(found("/mnt"), None);
    }
}

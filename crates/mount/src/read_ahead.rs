//! How far the kernel reads ahead in a mount: 128 KiB unless somebody says more, which only the superuser may.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

/// Has the kernel read ahead as much as one request may ask for, if this may say so. It is as right without that, and slower.
pub fn extend(directory: &Path, bytes: u32) {
    let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return };
    if let Some(device) = device(&mounts, directory) {
        let kilobytes = (bytes >> 10).to_string();
        let _refused = fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), kilobytes);
    }
}

/// The numbers by which the kernel knows what is mounted on a directory, as proc(5) has them in `mountinfo`.
fn device(mounts: &[u8], directory: &Path) -> Option<String> {
    let wanted = escape(directory);
    let lines = mounts.split(|byte| *byte == b'\n');
    // Of several that are mounted one over the other the last is seen.
    let mut devices = lines.filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (device, place) = (words.get(2)?, words.get(4)?);
        (*place == wanted).then(|| String::from_utf8_lossy(device).into_owned())
    });
    devices.next_back().filter(|device| device.bytes().all(|byte| byte.is_ascii_digit() || byte == b':'))
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
            40 22 0:39 / /mnt/a\\040b rw - fuse.tyr files rw\n\
            41 22 0:40 / /mnt/a rw - fuse.tyr files rw\n\
            42 40 0:41 / /mnt/a\\040b rw - fuse.tyr files rw\n\nshort line\n";
        let found = |directory: &str| device(mounts, Path::new(directory));
        assert_eq!(found("/mnt/a b").as_deref(), Some("0:41"));
        assert_eq!(found("/mnt/a").as_deref(), Some("0:40"));
        assert_eq!(found("/mnt"), None);
        assert_eq!(device(b"1 2 ../x / /mnt rw\n", Path::new("/mnt")), None);
    }
}

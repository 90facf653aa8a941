//! How far the kernel reads ahead in a mount: 128 KiB unless somebody says more, which only the superuser may.

use std::{fs, path::Path};

use crate::mounts;

/// Has the kernel read ahead as much as one request may ask for, if this may say so. It is as right without that, and slower.
pub fn extend(directory: &Path, bytes: u32) {
    let Ok(Some(mounted)) = mounts::on(directory) else { return };
    let device = mounted.device;
    if device.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        let kilobytes = (bytes >> 10).to_string();
        let _refused = fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), kilobytes);
    }
}

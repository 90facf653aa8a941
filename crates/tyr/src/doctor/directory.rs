//! The directories of a node: whether they can be used, on what they lie, and how fast that keeps what it is told.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::fs::{OFlags, StatVfs, statfs, statvfs};

use super::{Finding, Verdict, micros};
use crate::{output::Bytes, settings::Settings};

/// Looks at them.
pub fn examine(settings: &Settings, findings: &mut Vec<Finding>) {
    let server = &settings.server;
    let Some(directory) = &server.directory else {
        findings
            .push(Finding::skipped("directories", "no node is named; pass --directory, as for 'tyr server'"));
        return;
    };
    examine_one("directory", directory, findings);
    for target in &server.targets {
        examine_one("target", &target.path, findings);
    }
}

fn examine_one(what: &str, path: &Path, findings: &mut Vec<Finding>) {
    let subject = format!("{what} '{}'", path.display());
    let existing = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => {
            findings.push(Finding::wrong(&subject, "it is no directory", "name another one"));
            return;
        }
        Ok(metadata) => {
            findings.push(rights(&subject, &metadata));
            path.to_owned()
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A name alone has no directory above it in its path.
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let Some(parent) = whole.ancestors().skip(1).find(|parent| parent.is_dir()) else { return };
            findings.push(Finding::good(&subject, "it is not there; a first start makes it"));
            parent.to_owned()
        }
        Err(error) => {
            let advice =
                "run this as the user that runs the node, and correct the rights of the directories above";
            findings.push(Finding::wrong(&subject, format!("it cannot be looked at: {error}"), advice));
            return;
        }
    };
    findings.extend(space(&subject, &existing));
    findings.extend(kind(&subject, &existing));
    findings.push(speed(&subject, &existing));
}

fn rights(subject: &str, metadata: &fs::Metadata) -> Finding {
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 == 0 {
        return Finding::good(subject, format!("it is there, with rights {mode:o}"));
    }
    Finding::warning(
        subject,
        format!("every user of this machine can look into it: its rights are {mode:o}"),
        "chmod o-rwx, unless nobody else is on this machine",
    )
}

fn space(subject: &str, path: &Path) -> Option<Finding> {
    let StatVfs { f_blocks, f_bavail, f_frsize, .. } = statvfs(path).ok()?;
    let (size, free) = (f_blocks.saturating_mul(f_frsize), f_bavail.saturating_mul(f_frsize));
    let found = format!("{} free of {}", Bytes(free), Bytes(size));
    Some(match () {
        () if free < FREE_MIN => Finding::wrong(
            subject,
            format!("{found}: a node takes no writes"),
            "make room, or use another device",
        ),
        () if free < size / 10 => Finding::warning(subject, found, "make room soon, or add nodes"),
        () => Finding::good(subject, found),
    })
}

/// File systems that are not what they seem, and disks that turn.
fn kind(subject: &str, path: &Path) -> Option<Finding> {
    let magic = u64::try_from(statfs(path).ok()?.f_type & 0xffff_ffff).ok()?;
    let name = KINDS.iter().find(|(known, ..)| *known == magic);
    match name {
        Some((_, name, Some(trouble))) => Some(Finding::warning(
            subject,
            format!("{name}: {trouble}"),
            "use a directory on a local disk, with ext4 or XFS",
        )),
        Some((_, name, None)) => match is_rotating(path) {
            Some(true) => Some(Finding::warning(
                subject,
                format!("{name} on a disk that turns: a durable write waits for it"),
                "use solid-state disks where commits are to be fast",
            )),
            _ => Some(Finding::good(subject, *name)),
        },
        None => Some(Finding::good(subject, format!("a file system of kind {magic:#x}"))),
    }
}

fn is_rotating(path: &Path) -> Option<bool> {
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let own = block.join("queue/rotational");
    let of_disk = block.join("../queue/rotational");
    let text = fs::read_to_string(own).or_else(|_| fs::read_to_string(of_disk)).ok()?;
    Some(text.trim() == "1")
}

/// Writes small blocks one after the other, each durable before the next.
fn speed(subject: &str, path: &Path) -> Finding {
    let probe = path.join(format!(".tyr-doctor-{}", std::process::id()));
    let measured = measure(&probe);
    let removed = fs::remove_file(&probe);
    let (times, is_direct) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, or use another device".to_owned(),
                ErrorKind::ReadOnlyFilesystem => {
                    "mount it so that it can be written; the system's log ('dmesg') says whether its device has failed".to_owned()
                }
                ErrorKind::PermissionDenied => {
                    format!("give the user that runs the node rights to it, as 'chown USER {}'", path.display())
                }
                _ => "the system's log ('dmesg') may say what is wrong with its device; use another one".to_owned(),
            };
            return Finding::wrong(subject, format!("nothing can be written there: {error}"), advice);
        }
    };
    if let Err(error) = removed {
        let found = format!("'{}' could not be removed: {error}", probe.display());
        return Finding::warning(subject, found, "remove it");
    }
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    let way = if is_direct { "direct I/O" } else { "no direct I/O" };
    let found = format!("{way}; a durable write of 4 KiB takes {}, {} at most", micros(median), micros(most));
    let verdict = if median > SLOW || !is_direct { Verdict::Warning } else { Verdict::Good };
    let advice = match () {
        () if median > SLOW => Some(
            "a commit waits for such a write: use a faster disk, or --durability memory for data that may be lost",
        ),
        () if !is_direct => {
            Some("stores work through the page cache there, slower; ext4 and XFS on a disk have direct I/O")
        }
        () => None,
    };
    Finding { subject: subject.to_owned(), verdict, found, advice: advice.map(str::to_owned) }
}

/// How long each write took, in microseconds, shortest first; and whether they went past the page cache.
fn measure(probe: &Path) -> std::io::Result<(Vec<u128>, bool)> {
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(probe)
    };
    let (file, is_direct): (File, bool) = match open(OFlags::DIRECT) {
        Ok(file) => (file, true),
        Err(_) => (open(OFlags::empty())?, false),
    };
    // A part of it begins at a multiple of what devices want.
    let bytes = vec![7_u8; 2 * BLOCK];
    let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
    let block = &bytes[start..start + BLOCK];
    let mut times = Vec::with_capacity(WRITES);
    // Blocks are written twice: the first time the file grows.
    for place in (0..WRITES as u64).chain(0..WRITES as u64) {
        let began = Instant::now();
        if let Err(error) = file.write_all_at(block, place * BLOCK as u64) {
            if !is_direct {
                return Err(error);
            }
            let mut file = open(OFlags::empty())?;
            file.write_all(block)?;
            file.sync_data()?;
            return Ok((vec![began.elapsed().as_micros()], false));
        }
        file.sync_data()?;
        times.push(began.elapsed().as_micros());
    }
    let mut second = times.split_off(WRITES);
    second.sort_unstable();
    Ok((second, is_direct))
}

/// With less free space a node takes no writes, in bytes.
const FREE_MIN: u64 = 64 << 20;
/// A durable write that takes longer is slow, in microseconds: a disk that turns takes about 8 ms.
const SLOW: u128 = 3_000;
const BLOCK: usize = 4096;
/// So many writes are timed.
const WRITES: usize = 32;
/// Kinds of file systems by their numbers in `statfs`, and what is to be thought of them.
const KINDS: [(u64, &str, Option<&str>); 11] = [
    (0xef53, "ext4", None),
    (0x5846_5342, "XFS", None),
    (0x9123_683e, "Btrfs", None),
    (0x2fc1_2fc1, "ZFS", None),
    (0x0102_1994, "tmpfs", Some("memory; nothing survives the machine's next start")),
    (0x8584_58f6, "ramfs", Some("memory; nothing survives the machine's next start")),
    (0x794c_7630, "overlayfs", Some("of a container; it goes with the container, and has no direct I/O")),
    (
        0x6969,
        "NFS",
        Some("another machine; what it says is durable may not be, and every commit waits for it"),
    ),
    (
        0xff53_4d42,
        "CIFS",
        Some("another machine; what it says is durable may not be, and every commit waits for it"),
    ),
    (0x6573_5546, "FUSE", Some("a program; what it says is durable may not be")),
    (
        0x0bd0_0bd0,
        "Lustre",
        Some("other machines; Týr keeps its own copies, so local disks are faster and as safe"),
    ),
];

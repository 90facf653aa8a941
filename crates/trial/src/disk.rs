//! A node's disk: a file system of its own where that is permitted, so that it can be full, and hang, for this node alone.

use std::{
    fs::{self, File},
    io::{ErrorKind, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::{
    enclosure::{Enclosure, call},
    failure::{Failure, Result},
    throttle::Throttle,
};

/// Where a node keeps what it has.
#[derive(Debug)]
pub struct Disk {
    mount: PathBuf,
    is_own: bool,
    ballast: Option<PathBuf>,
    device: Option<String>,
    throttle: Option<Throttle>,
}

impl Disk {
    /// An empty disk beneath a directory.
    pub fn new(enclosure: Enclosure, parent: &Path, name: &str) -> Result<Disk> {
        let mount = parent.join(name);
        fs::create_dir_all(&mount)?;
        let at = mount.to_string_lossy();
        let mut device = None;
        match enclosure {
            Enclosure::Devices => {
                let image = parent.join(format!("{name}.image"));
                File::create(&image)?.set_len(SIZE)?;
                let image = image.to_string_lossy();
                call("mkfs.ext4", &["-q", "-O", "^has_journal", "-m", "0", &image])?;
                call("mount", &["-o", "loop", &image, &at])?;
                let numbers = call("losetup", &["-n", "-O", "MAJ:MIN", "-j", &image])?;
                device = Some(numbers.trim().to_owned());
            }
            Enclosure::Namespaces => {
                call("mount", &["-t", "tmpfs", "-o", &format!("size={SIZE}"), "tmpfs", &at])?;
            }
            Enclosure::Loopback => {}
        }
        let is_own = enclosure != Enclosure::Loopback;
        Ok(Disk { mount, is_own, ballast: None, device, throttle: None })
    }

    /// The directory of the node.
    pub fn directory(&self) -> PathBuf {
        self.mount.join("node")
    }

    /// Takes all room but these many bytes.
    pub fn fill(&mut self, leave: u64) -> Result<()> {
        assert!(self.is_own, "a disk that others use as well is not filled");
        let room = statvfs(&self.mount)?;
        let free = room.f_bavail * room.f_frsize;
        let path = self.mount.join("ballast");
        let mut file = File::create(&path)?;
        // The file system needs a part of the room to say where the rest is.
        let most = free.saturating_sub(leave.max(free / 64)).max(1);
        fallocate(&file, FallocateFlags::empty(), 0, most)?;
        file.seek(SeekFrom::End(0))?;
        if leave == 0 {
            fill_up(&mut file)?;
        }
        self.ballast = Some(path);
        Ok(())
    }

    /// Gives the room back.
    pub fn empty(&mut self) -> Result<()> {
        match self.ballast.take() {
            Some(path) => Ok(fs::remove_file(path)?),
            None => Ok(()),
        }
    }

    /// Lets a process write to it only so often a second.
    pub fn slow_down(&mut self, process: u32, writes: u32) -> Result<()> {
        if self.throttle.is_none() {
            let device =
                self.device.as_ref().ok_or_else(|| Failure::new("the disk has no device of its own"))?;
            let name = format!("{}-{}", device.replace(':', "-"), std::process::id());
            self.throttle = Some(Throttle::new(&name, device)?);
        }
        self.throttle.as_ref().map_or(Ok(()), |throttle| throttle.limit(process, writes))
    }

    /// Lets it be as fast as it is.
    pub fn speed_up(&mut self) -> Result<()> {
        self.throttle.as_ref().map_or(Ok(()), Throttle::lift)
    }

    /// Loses everything that the node had. It must not run.
    pub fn lose(&mut self) -> Result<()> {
        Ok(fs::remove_dir_all(self.directory())?)
    }

    /// Every file of the node.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let (mut found, mut directories) = (Vec::new(), vec![self.directory()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_dir() { &mut directories } else { &mut found }.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}

fn fill_up(file: &mut File) -> Result<()> {
    loop {
        match file.write(&[0; 4096]) {
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            written => written?,
        };
    }
}

/// More than a trial writes, in bytes. An image holds only what was written to it.
const SIZE: u64 = 2 << 30;

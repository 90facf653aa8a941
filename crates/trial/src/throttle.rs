//! A device that does only so many writes a second for one process, by a control group of the kernel's.
//!
//! The group is the only thing of a trial that a SIGKILL leaves behind, empty; the next trial removes it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Result};

/// A group for the node that uses a device. Its limit ends with it.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    limit: Limit,
    device: String,
}

/// How groups are told what the limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// The first version of control groups has a tree for devices alone.
    Devices,
    /// The second has one for everything.
    Unified,
}

impl Throttle {
    /// Whether the kernel can do that.
    pub fn is_possible() -> bool {
        Limit::find().is_some()
    }

    /// A group with this name for a device, named by its two numbers, without a limit yet.
    pub fn new(name: &str, device: &str) -> Result<Throttle> {
        let limit = Limit::find().ok_or_else(|| Failure::new("the kernel does not limit devices"))?;
        if limit == Limit::Unified {
            fs::write(limit.root().join("cgroup.subtree_control"), "+io")?;
        }
        limit.remove_left_behind()?;
        let group = limit.root().join(format!("{PREFIX}{name}"));
        fs::create_dir_all(&group)?;
        Ok(Throttle { group, limit, device: device.to_owned() })
    }

    /// From now on a process can write to the device this often a second.
    pub fn limit(&self, process: u32, writes: u32) -> Result<()> {
        self.set(match self.limit {
            Limit::Devices => format!("{} {writes}", self.device),
            Limit::Unified => format!("{} wiops={writes}", self.device),
        })?;
        Ok(fs::write(self.group.join("cgroup.procs"), process.to_string())?)
    }

    /// As fast as it can.
    pub fn lift(&self) -> Result<()> {
        self.set(match self.limit {
            Limit::Devices => format!("{} 0", self.device),
            Limit::Unified => format!("{} wiops=max", self.device),
        })
    }

    fn set(&self, text: String) -> Result<()> {
        let file = match self.limit {
            Limit::Devices => "blkio.throttle.write_iops_device",
            Limit::Unified => "io.max",
        };
        fs::write(self.group.join(file), &text)
            .map_err(|error| Failure::from(error).while_doing(format_args!("{file} = {text}")))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // The next trial finds what cannot be removed now.
        let _left_behind = fs::remove_dir(&self.group);
    }
}

impl Limit {
    fn find() -> Option<Limit> {
        let has = |path: &str, word: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(word));
        if Path::new("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device").exists() {
            return Some(Limit::Devices);
        }
        has("/sys/fs/cgroup/cgroup.controllers", "io").then_some(Limit::Unified)
    }

    fn root(self) -> &'static Path {
        Path::new(match self {
            Limit::Devices => "/sys/fs/cgroup/blkio",
            Limit::Unified => "/sys/fs/cgroup",
        })
    }

    /// A group in which a process still is cannot be removed, and belongs to somebody.
    fn remove_left_behind(self) -> Result<()> {
        for entry in fs::read_dir(self.root())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                let _in_use = fs::remove_dir(entry.path());
            }
        }
        Ok(())
    }
}

const PREFIX: &str = "tyr-trial-";

//! The servers of RADOS, set up by hand: a monitor, and three that keep data in a file each.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{super::Setting, c::Client};
use crate::{
    process::{self, Program},
    scratch::Scratch,
    system::Outcome,
};

/// The servers' processes.
pub struct Cluster {
    servers: Vec<Program>,
    _monitor: Program,
    directory: PathBuf,
    configuration: CString,
}

impl Cluster {
    /// Starts it with new directories, and makes the pool.
    pub async fn start(setting: &Setting, scratch: &Scratch) -> Outcome<Self> {
        let place = Place::new(scratch.directory("rados")?)?;
        let port = process::free_port()?;
        let identity = new_uuid()?;
        fs::write(place.configuration(), configuration(&place.0, &identity, port))?;
        let monitor = place.start_monitor(&identity, port).await?;
        let configuration = CString::new(place.configuration().as_os_str().as_bytes())?;
        let client = Client::connect(&configuration)?;
        let mut servers = Vec::new();
        for number in 0..SERVERS {
            servers.push(place.start_server(&client, number)?);
        }
        wait_until_up(&client).await?;
        make_pool(&client, setting)?;
        wait_until_placed(&client, setting).await?;
        Ok(Cluster { servers, _monitor: monitor, directory: place.0, configuration })
    }

    /// Processes that keep data.
    pub fn servers(&self) -> Vec<u32> {
        self.servers.iter().map(Program::id).collect()
    }

    /// Where servers keep data.
    pub fn places(&self) -> Vec<PathBuf> {
        (0..SERVERS).map(|number| self.directory.join(format!("server-{number}"))).collect()
    }

    /// The configuration file.
    pub fn configuration(&self) -> &CStr {
        &self.configuration
    }
}

/// The directory of all of it.
struct Place(PathBuf);

impl Place {
    fn new(path: PathBuf) -> Outcome<Self> {
        for name in ["monitor", "run", "log", "crash"] {
            fs::create_dir(path.join(name))?;
        }
        Ok(Place(path))
    }

    fn configuration(&self) -> PathBuf {
        self.0.join("ceph.conf")
    }

    fn command(&self, program: &str, package: &str) -> Outcome<Command> {
        let mut command = Command::new(process::find(program, &["/usr/sbin"], package)?);
        command.arg("-c").arg(self.configuration()).stdout(Stdio::null());
        Ok(command)
    }

    async fn start_monitor(&self, identity: &str, port: u16) -> Outcome<Program> {
        let map = self.0.join("monmap");
        let mut command = self.command("monmaptool", "ceph-base")?;
        command.args(["--create", "--fsid", identity, "--addv", "a", &format!("[v2:127.0.0.1:{port}]")]);
        process::run(command.arg(&map))?;
        let mut command = self.command("ceph-mon", "ceph-mon")?;
        process::run(command.args(["-i", "a", "--mkfs", "--monmap"]).arg(&map))?;
        let mut command = self.command("ceph-mon", "ceph-mon")?;
        let log = self.0.join("monitor.log");
        let mut monitor = Program::start("ceph-mon", command.args(["-i", "a", "-f"]), log)?;
        monitor.wait_until(async || process::listens(port).await).await?;
        Ok(monitor)
    }

    fn start_server(&self, client: &Client, number: u32) -> Outcome<Program> {
        let identity = new_uuid()?;
        let directory = self.0.join(format!("server-{number}"));
        fs::create_dir(&directory)?;
        client.command(&json!({"prefix": "osd new", "uuid": identity, "id": number}))?;
        let place = ["root=default".to_owned(), format!("host=host-{number}")];
        client.command(&json!({"prefix": "osd crush add", "id": number, "weight": 1.0, "args": place}))?;
        let common = |command: &mut Command| {
            command.args(["-i", &number.to_string(), "--osd-uuid", &identity, "--osd-data"]).arg(&directory);
        };
        let mut command = self.command("ceph-osd", "ceph-osd")?;
        common(&mut command);
        process::run(command.arg("--mkfs"))?;
        let mut command = self.command("ceph-osd", "ceph-osd")?;
        common(&mut command);
        Program::start("ceph-osd", command.arg("-f"), self.0.join(format!("server-{number}.log")))
    }
}

async fn wait_until_up(client: &Client) -> Outcome<()> {
    for _ in 0..GLANCES_MAX {
        let status: Value =
            serde_json::from_slice(&client.command(&json!({"prefix": "osd stat", "format": "json"}))?)?;
        if status["num_up_osds"].as_u64() == Some(SERVERS.into()) {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
    }
    Err("the servers of RADOS do not come up".into())
}

/// Operations wait until the servers have made the pool.
fn make_pool(client: &Client, setting: &Setting) -> Outcome<()> {
    let pool = POOL.to_str()?;
    let groups = setting.partitions;
    client.command(&json!({
        "prefix": "osd pool create", "pool": pool, "pg_num": groups, "pgp_num": groups, "pool_type": "replicated",
    }))?;
    for (name, value) in [("size", setting.replicas), ("min_size", 1)] {
        client.command(&json!({
            "prefix": "osd pool set", "pool": pool, "var": name, "val": value.to_string(), "yes_i_really_mean_it": true,
        }))?;
    }
    client.command(&json!({"prefix": "osd pool application enable", "pool": pool, "app": "bench"}))?;
    for key in ["noscrub", "nodeep-scrub"] {
        client.command(&json!({"prefix": "osd set", "key": key}))?;
    }
    Ok(())
}

/// A group that has fewer servers than it should have copies is served nevertheless, so each is looked at.
async fn wait_until_placed(client: &Client, setting: &Setting) -> Outcome<()> {
    for _ in 0..GLANCES_MAX {
        let mut groups = BTreeMap::new();
        for number in 0..setting.partitions * OBJECTS_PER_GROUP {
            let answer = client.command(&json!({
                "prefix": "osd map", "pool": POOL.to_str()?, "object": number.to_string(), "format": "json",
            }))?;
            let placed: Value = serde_json::from_slice(&answer)?;
            groups.insert(placed["pgid"].to_string(), placed["acting"].as_array().map_or(0, Vec::len));
        }
        if groups.values().all(|copies| *copies == setting.replicas as usize) {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
    }
    Err(format!("RADOS does not keep {} copies", setting.replicas).into())
}

/// Data in files, nothing logged for debugging, no authentication; the rest as it comes.
fn configuration(place: &Path, identity: &str, port: u16) -> String {
    let place = place.display();
    let mut text = format!(
        "[global]
fsid = {identity}
mon_host = v2:127.0.0.1:{port}/0
mon_initial_members = a
ms_bind_ipv6 = false
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
run_dir = {place}/run
admin_socket =
pid_file = {place}/run/$name.pid
log_file = {place}/log/$name.log
mon_data = {place}/monitor
crash_dir = {place}/crash
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 1
mon_data_avail_crit = 1
mon_osd_full_ratio = 0.99
mon_osd_backfillfull_ratio = 0.985
mon_osd_nearfull_ratio = 0.98
osd_crush_update_on_start = false
osd_objectstore = bluestore
bluestore_block_size = {BLOCK_FILE_SIZE}
bluestore_block_create = true
osd_memory_target = {MEMORY_TARGET}
osd_memory_target_autotune = false
osd_class_load_list = *
osd_class_default_list = *
client_mount_timeout = 30
"
    );
    for part in QUIET {
        text.push_str(&format!("debug_{part} = 0/0\n"));
    }
    text
}

fn new_uuid() -> Outcome<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// The name of the pool.
pub const POOL: &CStr = c"bench";
const SERVERS: u32 = 3;
/// Of each server; the file has holes until it is written.
const BLOCK_FILE_SIZE: u64 = 6 << 30;
const MEMORY_TARGET: u64 = 2 << 30;
/// Enough for most groups to have one of them.
const OBJECTS_PER_GROUP: u32 = 3;
const GLANCE: Duration = Duration::from_millis(100);
const GLANCES_MAX: u32 = 600;
/// Parts that log for debugging by default, which costs a tenth and more.
const QUIET: [&str; 34] = [
    "asok",
    "auth",
    "bdev",
    "bluefs",
    "bluestore",
    "buffer",
    "client",
    "context",
    "crush",
    "filer",
    "finisher",
    "heartbeatmap",
    "lockdep",
    "memdb",
    "mgr",
    "mgrc",
    "mon",
    "monc",
    "ms",
    "none",
    "objclass",
    "objectcacher",
    "objecter",
    "optracker",
    "osd",
    "paxos",
    "perfcounter",
    "rados",
    "rocksdb",
    "striper",
    "test",
    "throttle",
    "timer",
    "tp",
];

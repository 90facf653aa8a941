//! `tyr mount`: a file system in a keyspace, on a directory of this machine.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead, BufReader, ErrorKind},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use tyr_client::{Create, Error, Store as ReadyStore, blocking::Store, is_cluster};
use tyr_fs::{Caller, Filesystem, Flat, Follow, Kind, View};
use tyr_mount::{
    Access, AccessTimes, Execution, KernelNames, Mount as Mounted, Settings as MountSettings, Sharing,
    Synchrony, WholeFileLocks, mount, remount,
};

use crate::{
    address::{PrefixAddress, lacks_keyspace},
    failure::{Failure, Result},
    files::failed,
    interrupt::Interrupt,
    opening::with_copies,
    output::{Output, Report},
    settings::Settings,
};

/// The arguments of `tyr mount`.
#[derive(Args)]
pub struct Mount {
    /// What to mount: KEYSPACE, or KEYSPACE/DIRECTORY for a part of it, or both with a cluster as tyr://HOST:PORT,HOST:PORT/KEYSPACE.
    source: OsString,
    /// The directory of this machine on which it is mounted.
    directory: PathBuf,
    /// Make the keyspace and an empty file system if there is none.
    #[arg(long)]
    create: bool,
    /// Go on in the background, and return when it is mounted.
    #[arg(long)]
    daemon: bool,
    /// Whether it was started by one that does not wait for it.
    #[arg(long, hide = true)]
    in_background: bool,
    /// Change nothing. Others do not see its locks then, nor it theirs.
    #[arg(long)]
    read_only: bool,
    /// A directory of the file system that is mounted in place of all of it.
    #[arg(long, value_name = "PATH")]
    subdir: Option<PathBuf>,
    /// The keyspace holds flat files: their paths are the keys of their blobs, and there are no directories.
    #[arg(long)]
    flat: bool,
    /// Nobody else uses the file system: cache everything, and write back later. Always so for a store in a directory, and never with --flat.
    #[arg(long)]
    alone: bool,
    /// Seconds for which what is known of files may be out of date; 0 if others use the file system, too.
    #[arg(long, value_name = "SECONDS")]
    attr_cache: Option<u32>,
    /// Seconds for which what names mean may be out of date; 0 if others use the file system, too. Not with --flat.
    #[arg(long, value_name = "SECONDS")]
    entry_cache: Option<u32>,
    /// Let the kernel keep names until another client changes something that was looked up. Takes Linux 6.16. What is mounted on directories of the mount is unmounted then.
    #[arg(long)]
    keep_names: bool,
    /// Obey access control lists from now on, here and wherever the file system is mounted after this.
    #[arg(long)]
    acl: bool,
    /// Do not note when files are read.
    #[arg(long)]
    no_atime: bool,
    /// Keep what `flock` locks to this mount, and apart from locks of `fcntl`. Always so if nobody else uses the file system, if it is flat, and with `--read-only`.
    #[arg(long)]
    local_flock: bool,
    /// Execute no program that lies on it.
    #[arg(long)]
    no_exec: bool,
    /// Have each write wait until it is durable. On a cluster it always does.
    #[arg(long)]
    sync: bool,
    /// Only change whether the mount on the directory is read-only, executes programs, and waits for writes.
    #[arg(long)]
    remount: bool,
    /// Only check the arguments, and mount nothing: `-f` of mount(8).
    #[arg(long, hide = true)]
    fake: bool,
    /// Pass over options that nobody knows: `-s` of mount(8).
    #[arg(long, hide = true)]
    sloppy: bool,
    /// Threads that answer the kernel.
    #[arg(long, value_name = "COUNT", default_value_t = THREADS, value_parser = clap::value_parser!(u16).range(1..))]
    mount_threads: u16,
    /// Options as mount(8) has them, separated by commas: ro, noatime, noexec, sync, remount, alone, create, flat, acl, localflock, keepnames, subdir=PATH,
    /// attr_cache=SECONDS, entry_cache=SECONDS.
    /// Those of mount(8) itself are passed over.
    #[arg(short, value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
}

impl Mount {
    /// Mounts it, and serves it until it is unmounted, or in the background.
    pub fn run(mut self, settings: &Settings, out: &mut Output) -> Result<()> {
        self.take_options()?;
        if self.acl && (self.remount || self.read_only) {
            return Err(Failure::Usage(
                "that access control lists are obeyed is said once for the whole file system, by a mount that may write to it: use --acl without --read-only and --remount"
                    .to_owned(),
            ));
        }
        if self.flat && self.entry_cache.is_some_and(|seconds| seconds > 0) {
            return Err(Failure::Usage(
                "what a name means is always asked of a flat file system, where a file that was renamed is another blob: use --flat without --entry-cache"
                    .to_owned(),
            ));
        }
        let (store, source) = parse_source(&self.source).map_err(Failure::Usage)?;
        let settings = Settings { store: store.or_else(|| settings.store.clone()), ..settings.clone() };
        if self.remount {
            self.check_remount()?;
        }
        if self.fake {
            return Ok(());
        }
        if self.remount {
            let place = self.directory.display();
            remount(&self.directory, &self.settings(&settings, false))
                .map_err(|error| Failure::local(format!("cannot remount '{place}'"), &error))?;
            return tell(&Done { action: "remounted", keyspace: None, directory: place.to_string() }, out);
        }
        if self.daemon {
            return start_in_background(out);
        }
        let create = if self.create { Create::IfMissing } else { Create::Never };
        with_copies(&settings, create, |store| self.serve(store, &settings, &source, out))
    }

    /// Takes what `-o` says as the flags that say the same. Of options that contradict one another the last one holds, as with mount(8).
    fn take_options(&mut self) -> Result<()> {
        for option in std::mem::take(&mut self.options) {
            let (name, value) = option.split_once('=').unwrap_or((&option, ""));
            let seconds = || {
                let wrong =
                    |_| Failure::Usage(format!("option '{option}': the value is a number of seconds"));
                value.parse().map(Some).map_err(wrong)
            };
            match name {
                "ro" => self.read_only = true,
                "rw" => self.read_only = false,
                "noatime" => self.no_atime = true,
                // Times of access are noted as is usual; they are never noted at once.
                "atime" | "relatime" | "strictatime" => self.no_atime = false,
                "noexec" => self.no_exec = true,
                "exec" => self.no_exec = false,
                "sync" => self.sync = true,
                "async" => self.sync = false,
                "remount" => self.remount = true,
                "alone" => self.alone = true,
                "create" => self.create = true,
                "flat" => self.flat = true,
                "acl" => self.acl = true,
                "localflock" => self.local_flock = true,
                "keepnames" => self.keep_names = true,
                "subdir" => self.subdir = Some(value.into()),
                "attr_cache" => self.attr_cache = seconds()?,
                "entry_cache" => self.entry_cache = seconds()?,
                name if PASSED_OVER.contains(&name) || name.starts_with("x-") || name == "comment" => {}
                // A mount that is there is described by the kernel's options, too.
                name if KERNELS_OWN.contains(&name) => {}
                _ if self.sloppy => {}
                _ => return Err(Failure::Usage(format!("'{option}' is no option of a mount of Týr"))),
            }
        }
        Ok(())
    }

    /// Fails if an option says what no remount changes. But mount(8) says all that fstab has, besides what is to change.
    fn check_remount(&self) -> Result<()> {
        let fixed = [
            ("flat", self.flat),
            ("alone", self.alone),
            ("create", self.create),
            ("subdir", self.subdir.is_some()),
            ("attr_cache", self.attr_cache.is_some()),
            ("entry_cache", self.entry_cache.is_some()),
            ("keepnames", self.keep_names),
            ("noatime", self.no_atime),
            ("localflock", self.local_flock),
            ("--mount-threads", self.mount_threads != THREADS),
        ];
        match fixed.into_iter().find(|(_, is_said)| *is_said) {
            Some((name, _)) if !is_helper() => Err(Failure::Usage(format!(
                "'{name}' is not changed by a remount, but by unmounting and mounting anew; a remount changes ro, rw, noexec, exec, sync, and async"
            ))),
            _ => Ok(()),
        }
    }

    fn serve(
        &self,
        store: &Store,
        settings: &Settings,
        source: &PrefixAddress,
        out: &mut Output,
    ) -> Result<()> {
        let is_alone = self.alone || !store.is_cluster();
        let store = store.clone().into_ready();
        let filesystem = self.open(&store, &source.keyspace)?;
        pollster(async {
            if self.acl {
                filesystem.obey_acls().await?;
            }
            if is_alone && !self.read_only {
                filesystem.evict_others().await?;
            }
            Ok(())
        })?;
        let view = View::new(filesystem.clone(), Caller::superuser());
        let part = OsStr::from_bytes(&source.prefix);
        let part = part_of(part, self.subdir.as_deref());
        let found = pollster(view.metadata(&part, Follow::Yes));
        let named = format!("{}{}", source.keyspace, part.display());
        let root = found.map_err(|failure| failure.context(named))?.inode;
        if root.kind != Kind::Directory {
            return Err(Failure::Usage(format!("'{}' is no directory of the file system", part.display())));
        }
        let interrupt = Interrupt::install()?;
        let mounted = mount(filesystem, root, &self.directory, &self.settings(settings, is_alone));
        let (name, place) = (&source.keyspace, self.directory.display());
        let mounted =
            mounted.map_err(|error| Failure::local(format!("cannot mount on '{place}'"), &error))?;
        if self.keep_names && !is_alone && !mounted.keeps_names() {
            out.warnings().say("this kernel cannot be told that names are over, as Linux 6.16 can: it asks for them each time");
        }
        out.report(&Done { action: "mounted", keyspace: Some(name), directory: place.to_string() })?;
        out.flush()?;
        if self.in_background {
            let silence = |error| Failure::local("cannot leave the standard error", &error);
            // Who reads the standard error of who has started it would wait for its end.
            let nowhere = File::options().write(true).open("/dev/null").map_err(silence)?;
            rustix::stdio::dup2_stderr(&nowhere).map_err(|error| silence(error.into()))?;
        }
        self.wait(mounted, &interrupt, out)
    }

    /// Opens the file system in the keyspace of this name.
    fn open(&self, store: &ReadyStore, name: &str) -> Result<Filesystem> {
        if self.create {
            return pollster(async {
                match self.flat {
                    false => Filesystem::open_or_create(store, name).await,
                    true => Filesystem::open_or_create_flat(store, name, Flat::Slashes).await,
                }
            });
        }
        let keyspace = store.keyspace(name).map_err(|error| match error.kind() {
            tyr_client::ErrorKind::NotFound => Error::not_found(format!(
                "there is no keyspace '{name}'; --create makes it, and an empty file system in it"
            )),
            _ => error,
        })?;
        pollster(async {
            match self.flat {
                false => Filesystem::open(store, &keyspace).await,
                true => Filesystem::open_flat(store, &keyspace, Flat::Slashes).await,
            }
        })
    }

    fn settings(&self, settings: &Settings, is_alone: bool) -> MountSettings {
        let sharing = if is_alone && !self.flat { Sharing::Alone } else { Sharing::Shared };
        let usual = MountSettings::of(&self.source.to_string_lossy(), sharing);
        let seconds =
            |given: Option<u32>, usual| given.map_or(usual, |given| Duration::from_secs(given.into()));
        MountSettings {
            access: if self.read_only { Access::ReadOnly } else { Access::ReadWrite },
            attribute_cache: seconds(self.attr_cache, usual.attribute_cache),
            entry_cache: seconds(self.entry_cache, usual.entry_cache),
            kernel_names: if self.keep_names { KernelNames::Kept } else { KernelNames::Asked },
            access_times: if self.no_atime { AccessTimes::Never } else { AccessTimes::Relative },
            whole_file_locks: match self.local_flock || self.flat || self.read_only {
                true => WholeFileLocks::Local,
                false => usual.whole_file_locks,
            },
            execution: if self.no_exec { Execution::Denied } else { Execution::Allowed },
            synchrony: if self.sync { Synchrony::Always } else { Synchrony::AsAsked },
            threads: self.mount_threads.into(),
            device: settings.store.clone().filter(|store| !is_cluster(store)),
            ..usual
        }
    }

    /// Until it is unmounted, by a signal or by whomever. What is in use then ends when it is not any more.
    fn wait(&self, mounted: Mounted, interrupt: &Interrupt, out: &mut Output) -> Result<()> {
        let place = self.directory.display();
        let failed = |error| Failure::local(format!("cannot unmount '{place}'"), &error);
        while !mounted.has_ended() {
            if interrupt.is_asked() {
                match mounted.unmount() {
                    Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                        out.warnings().say(format!(
                            "'{place}' is in use: it is out of sight now, and ends when nobody has it open any more; a second signal ends it at once"
                        ));
                        mounted.detach().map_err(failed)?;
                    }
                    result => result.map_err(failed)?,
                }
                break;
            }
            thread::sleep(GLANCE);
        }
        mounted.wait().map_err(|error| Failure::local(format!("the mount on '{place}' failed"), &error))
    }
}

/// What is mounted: a directory of the part that the source names, whether or not its path begins with a slash.
fn part_of(part: &OsStr, subdir: Option<&Path>) -> PathBuf {
    let part = Path::new("/").join(part);
    let Some(subdir) = subdir else { return part };
    part.join(subdir.strip_prefix("/").unwrap_or(subdir))
}

/// Runs to its end on this thread.
fn pollster<T>(work: impl Future<Output = tyr_fs::Result<T>>) -> Result<T> {
    tyr_fs::block_on(work).map_err(failed)
}

/// The store that a source names, if it does, and what of it is mounted.
fn parse_source(source: &OsStr) -> Result<(Option<PathBuf>, PrefixAddress), String> {
    let (store, rest) = split_source(source);
    if lacks_keyspace(&rest) {
        return Err(format!(
            "'{}' has no keyspace; write KEYSPACE, or tyr://HOST:PORT/KEYSPACE for one of a cluster",
            source.display()
        ));
    }
    Ok((store, PrefixAddress::parse(&rest)?))
}

/// The store that a source names, if it does, and the rest.
fn split_source(source: &OsStr) -> (Option<PathBuf>, OsString) {
    let bytes = source.as_bytes();
    for scheme in ["tyr+tls://", "tyr://"] {
        let Some(rest) = bytes.strip_prefix(scheme.as_bytes()) else { continue };
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        let store = OsStr::from_bytes(&bytes[..scheme.len() + end]);
        let mut keyspace = OsString::from("tyr://");
        keyspace.push(OsStr::from_bytes(&rest[end..]));
        return (Some(store.into()), keyspace);
    }
    (None, source.to_owned())
}

/// Starts this command again without `--daemon`, in a process group of its own, and waits until it has mounted or failed.
fn start_in_background(out: &mut Output) -> Result<()> {
    let wrong = |error| Failure::local("cannot start in the background", &error);
    let arguments = env::args_os().skip(1);
    let mut command = Command::new(env::current_exe().map_err(wrong)?);
    if is_helper() {
        command.args(helper_arguments(arguments).into_iter().filter(|argument| argument != DAEMON));
    } else {
        command.args(arguments.filter(|argument| argument != DAEMON));
    }
    command.arg("--in-background");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn().map_err(wrong)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(wrong)?;
    }
    if line.is_empty() {
        // It has said on standard error why.
        let status = child.wait().map_err(wrong)?;
        return Err(match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(code) => Failure::Told(code),
            None => Failure::Local(format!("the mount has ended with {status}")),
        });
    }
    // Already in the form that was asked for.
    if is_helper() { Ok(()) } else { out.line(line.trim_end()) }
}

/// Says what was done, but not to mount(8), whose helpers say nothing if all is well.
fn tell(done: &Done<'_>, out: &mut Output) -> Result<()> {
    if is_helper() { Ok(()) } else { out.report(done) }
}

/// Says that something is mounted, or differently than before.
#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyspace: Option<&'a str>,
    directory: String,
}

impl Report for Done<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        match self.keyspace {
            Some(keyspace) => out.line(format!("{} {keyspace} on {}", self.action, self.directory)),
            None => out.line(format!("{} {}", self.action, self.directory)),
        }
    }
}

/// Whether this was started as the helper of mount(8): `mount.fuse.tyr SOURCE DIRECTORY -o OPTIONS`.
pub fn is_helper() -> bool {
    let name = env::args_os().next().map(PathBuf::from);
    name.as_deref().and_then(|name| name.file_name()).is_some_and(|name| name == "mount.fuse.tyr")
}

/// The arguments of `tyr` for those of the helper. What mount(8) adds for itself, `-n` and `-v`, is passed over.
pub fn helper_arguments(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let own = arguments.filter_map(|argument| match argument.to_str() {
        Some("-n" | "-v") => None,
        Some("-f") => Some("--fake".into()),
        Some("-s") => Some("--sloppy".into()),
        _ => Some(argument),
    });
    ["mount", DAEMON].into_iter().map(OsString::from).chain(own).collect()
}

/// Threads of a mount, unless it is said how many.
const THREADS: u16 = 8;
/// The flag that the process in the background does not get.
const DAEMON: &str = "--daemon";
/// How often it is looked whether it was unmounted, or a signal came.
const GLANCE: Duration = Duration::from_millis(50);
/// What mount(8) and fstab(5) say for themselves, and what is so in any case: names are durable, directories have no times of access,
/// those of files are noted late, other users are let in as permissions have it.
const PASSED_OVER: [&str; 36] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "norelatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "dirsync",
    "silent",
    "loud",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
    "symfollow",
    "nosymfollow",
    "context",
    "fscontext",
    "defcontext",
    "rootcontext",
    "allow_other",
    "default_permissions",
    "nonempty",
];

/// What the kernel says of a mount of its own accord.
const KERNELS_OWN: [&str; 5] = ["user_id", "group_id", "rootmode", "max_read", "blksize"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_a_store_or_does_not() {
        let split = |source: &str| {
            let (store, rest) = split_source(OsStr::new(source));
            (store.map(|store| store.display().to_string()), rest.into_string().unwrap())
        };
        assert_eq!(split("files/sub"), (None, "files/sub".to_owned()));
        assert_eq!(split("tyr:///files"), (None, "tyr:///files".to_owned()));
        let store = Some("tyr://a:1,b:2".to_owned());
        assert_eq!(split("tyr://a:1,b:2/files/x"), (store, "tyr:///files/x".to_owned()));
        let store = Some("tyr+tls://a:1".to_owned());
        assert_eq!(split("tyr+tls://a:1/files"), (store, "tyr:///files".to_owned()));
    }

    #[test]
    fn a_source_without_a_keyspace_is_refused_as_it_was_written() {
        for source in ["tyr://a:1,b:2", "tyr://a:1/", "tyr+tls://a:1", "tyr://", "tyr:///", "/files", ""] {
            let wrong = parse_source(OsStr::new(source)).expect_err(source);
            assert!(wrong.starts_with(&format!("'{source}' has no keyspace; ")), "{wrong}");
            assert!(wrong.contains("tyr://HOST:PORT/KEYSPACE"), "{wrong}");
        }
        let (store, address) = parse_source(OsStr::new("tyr://a:1/files/x")).unwrap();
        assert_eq!(store, Some("tyr://a:1".into()));
        assert_eq!((address.keyspace.as_str(), address.prefix.as_slice()), ("files", b"x".as_slice()));
    }

    fn mount_with(options: &str) -> Result<Mount> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            mount: Mount,
        }
        let mut mount = <Line as clap::Parser>::parse_from(["mount", "files", "/mnt", "-o", options]).mount;
        mount.take_options().map(|()| mount)
    }

    #[test]
    fn of_options_that_contradict_one_another_the_last_one_holds() {
        let said = |options: &str| {
            let mount = mount_with(options).unwrap();
            (mount.read_only, mount.no_exec, mount.no_atime, mount.sync)
        };
        assert_eq!(said("ro,noexec,noatime,sync"), (true, true, true, true));
        assert_eq!(said("ro,noexec,noatime,sync,rw,exec,atime,async"), (false, false, false, false));
        assert_eq!(said("rw,exec,async,ro,noexec,sync"), (true, true, false, true));
        for option in ["atime", "relatime", "strictatime"] {
            assert_eq!(said(&format!("noatime,{option}")), (false, false, false, false), "{option}");
            assert_eq!(said(&format!("{option},noatime")), (false, false, true, false), "{option}");
        }
        assert!(mount_with("ro,colour").is_err());
    }

    #[test]
    fn a_remount_refuses_what_it_does_not_change() {
        let check = |options: &str| mount_with(options).unwrap().check_remount();
        check("remount,ro,noexec,sync,nodiratime,defaults").unwrap();
        for option in [
            "flat",
            "alone",
            "create",
            "subdir=a",
            "attr_cache=1",
            "entry_cache=0",
            "keepnames",
            "noatime",
            "localflock",
        ] {
            let Err(Failure::Usage(said)) = check(&format!("remount,{option}")) else { panic!("{option}") };
            assert!(said.contains(option.split('=').next().unwrap()), "{said}");
        }
    }

    #[test]
    fn a_directory_that_is_mounted_lies_below_what_the_source_names() {
        let of = |part: &str, subdir: Option<&str>| {
            part_of(OsStr::new(part), subdir.map(Path::new)).into_os_string().into_string().unwrap()
        };
        assert_eq!(of("", None), "/");
        assert_eq!(of("d", None), "/d");
        assert_eq!(of("d", Some("a1")), "/d/a1");
        assert_eq!(of("d", Some("/a1/b")), "/d/a1/b");
        assert_eq!(of("", Some("/a1")), "/a1");
    }

    #[test]
    fn the_helper_of_mount_is_told_as_a_verb() {
        let arguments = ["files", "/mnt", "-n", "-o", "ro"].map(OsString::from).into_iter();
        assert_eq!(helper_arguments(arguments), ["mount", "--daemon", "files", "/mnt", "-o", "ro"]);
        let arguments = ["files", "/mnt", "-sf", "-s", "-f", "-v"].map(OsString::from).into_iter();
        let expected = ["mount", "--daemon", "files", "/mnt", "-sf", "--sloppy", "--fake"];
        assert_eq!(helper_arguments(arguments), expected);
    }

    #[test]
    fn options_that_nobody_knows_are_refused_unless_they_are_to_be_passed_over() {
        for option in PASSED_OVER {
            mount_with(option).unwrap();
        }
        mount_with("context=system_u:object_r:nfs_t:s0,x-systemd.automount,comment=mine").unwrap();
        assert!(mount_with("colour").is_err());
        let mut mount = Mount {
            sloppy: true,
            options: vec!["colour".to_owned(), "ro".to_owned()],
            ..mount_with("rw").unwrap()
        };
        mount.take_options().unwrap();
        assert!(mount.read_only);
        mount.options = vec!["attr_cache=long".to_owned()];
        assert!(mount.take_options().is_err(), "it is known, and wrong");
    }
}

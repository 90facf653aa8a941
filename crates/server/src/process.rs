//! What the operating system says of this process, for the metrics that every Prometheus client library tells under these names.

use std::{fs, time::Duration};

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

/// How much of the machine this process takes.
#[derive(Debug)]
pub(crate) struct Process {
    /// Processor time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// Bytes of its address space,
    pub virtual_bytes: u64,
    /// and those of them that are in memory.
    pub resident_bytes: u64,
    /// When it began, in seconds since 1970.
    pub began_at: f64,
    pub threads: u64,
    pub files: u64,
    /// As many files it may have open, if there is a limit.
    pub files_max: Option<u64>,
}

impl Process {
    /// As it is now; `None` if `/proc` does not say so.
    pub fn now() -> Option<Process> {
        let files = fs::read_dir("/proc/self/fd").ok()?.count();
        let [stat, of_machine] = ["/proc/self/stat", "/proc/stat"].map(fs::read_to_string);
        Process::parse(&stat.ok()?, &of_machine.ok()?).map(|process| Process {
            // The directory that is being listed is open, too.
            files: u64::try_from(files).unwrap_or(u64::MAX).saturating_sub(1),
            files_max: getrlimit(Resource::Nofile).current,
            ..process
        })
    }

    /// From `/proc/PID/stat` and `/proc/stat` (proc(5)), but for files.
    fn parse(stat: &str, of_machine: &str) -> Option<Process> {
        // The second field, a name in parentheses, may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        let booted_at =
            of_machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<u64>().ok()?;
        Some(Process {
            cpu: Duration::from_secs_f64(seconds(field(14)?.checked_add(field(15)?)?)),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.checked_mul(page_size() as u64)?,
            began_at: booted_at as f64 + seconds(field(22)?),
            threads: field(20)?,
            files: 0,
            files_max: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_whatever_the_name_of_the_program_is() {
        let stat = "7 (a) b) 3) S 1 7 7 0 -1 4194560 10 0 0 0 250 150 9 9 20 0 12 0 100 8192 3 1 1 1";
        let of_machine = "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n";
        let process = Process::parse(stat, of_machine).expect("it is well formed");
        let ticks = clock_ticks_per_second() as f64;
        assert_eq!(process.cpu, Duration::from_secs_f64(400.0 / ticks));
        assert_eq!(process.began_at, 1_700_000_000.0 + 100.0 / ticks);
        let sizes = (process.threads, process.virtual_bytes, process.resident_bytes);
        assert_eq!(sizes, (12, 8192, 3 * page_size() as u64));
        for wrong in ["", "7 (a) S 1 7", "7 a S 1", "7 (a) S 1 7 7 0 -1 x 10 0 0 0 u 1 9 9 20 0 12 0 1 1 3 1"]
        {
            assert!(Process::parse(wrong, of_machine).is_none(), "{wrong}");
        }
        assert!(Process::parse(stat, "cpu 1 2 3\n").is_none());
    }

    #[test]
    fn files_that_are_opened_are_counted() {
        let before = Process::now().expect("there is /proc").files;
        let files: Vec<fs::File> =
            (0..100).map(|_| fs::File::open("/proc/self/stat").expect("opens")).collect();
        let with = Process::now().expect("there is /proc");
        drop(files);
        // Other tests of this process open and close some, too.
        assert!(with.files >= before + 50, "{before}, {with:?}");
        assert!(with.resident_bytes > 0 && with.resident_bytes <= with.virtual_bytes, "{with:?}");
        assert!(with.threads >= 1 && with.files_max.is_none_or(|most| most >= with.files), "{with:?}");
    }
}

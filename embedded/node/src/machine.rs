//! What the machine is: its size, its kernel, how much of it is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::fs::statvfs;

use crate::config::Capacity;
use crate::{devices, huge_pages};

/// The machine as a node offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) storage: i64,
    /// Resources that stand for devices.
    pub(crate) devices: Vec<&'static str>,
    /// Bytes of reserved huge pages by resource. They are part of `memory`.
    pub(crate) huge_pages: BTreeMap<String, i64>,
    pub(crate) kernel: String,
    pub(crate) os_image: String,
    pub(crate) id: String,
    pub(crate) boot_id: String,
}

/// What is kept back for the machine itself, of memory.
const RESERVED: i64 = 100 << 20;

impl Machine {
    /// This machine; `data` is on the file system that pods use.
    pub(crate) fn read(data: &Path, most: Capacity) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, |cores| i64::try_from(cores.get()).unwrap_or(1));
        let os = text("/etc/os-release");
        let named = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let uname = rustix::system::uname();
        Self {
            milli_cpu: (cores * 1000).min(most.milli_cpu.unwrap_or(i64::MAX)),
            memory: memory().min(most.memory.unwrap_or(i64::MAX)),
            storage: disk(data).size,
            devices: devices::offered(),
            huge_pages: huge_pages::reserved(most.nodes),
            kernel: uname.release().to_string_lossy().into_owned(),
            os_image: named.unwrap_or("Linux").trim_matches('"').to_owned(),
            id: text("/etc/machine-id").trim().to_owned(),
            boot_id: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
        }
    }

    /// What pods may ask for: reserved huge pages serve no other purpose.
    pub(crate) fn allocatable_memory(&self) -> i64 {
        (self.memory - RESERVED - self.huge_pages.values().sum::<i64>()).max(0)
    }
}

/// The memory of this machine, or what this process may use of it.
pub(crate) fn memory() -> i64 {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    memory_limit(&text).unwrap_or(i64::MAX).min(in_meminfo(&text("/proc/meminfo"), "MemTotal"))
}

/// The limit of the cgroup that this process is in, in either version.
fn memory_limit(text: &dyn Fn(&str) -> String) -> Option<i64> {
    let second = text("/sys/fs/cgroup/memory.max").trim().parse().ok();
    second.or_else(|| text("/sys/fs/cgroup/memory/memory.limit_in_bytes").trim().parse().ok())
}

/// A line of `/proc/meminfo` in bytes.
fn in_meminfo(meminfo: &str, name: &str) -> i64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: Option<i64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// A disk, in bytes.
#[derive(Default)]
struct Disk {
    size: i64,
    used: i64,
    /// Without what is kept back for root.
    free: i64,
}

fn disk(path: &Path) -> Disk {
    let Ok(stat) = statvfs(path) else { return Disk::default() };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    Disk { size: bytes(stat.f_blocks), used: bytes(used), free: bytes(stat.f_bavail) }
}

/// What is short on the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) memory: bool,
    pub(crate) disk: bool,
    pub(crate) processes: bool,
}

impl Pressure {
    pub(crate) fn read(data: &Path) -> Self {
        let available = in_meminfo(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemAvailable");
        let Disk { used: on_disk, free, .. } = disk(data);
        let used = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let limit = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
        Self::judge(available, on_disk + free, free, threads(&used), limit.trim().parse().unwrap_or(i64::MAX))
    }

    /// Memory as upstream: under 100 MiB. The disk later than upstream, which says 10 %: on a machine that is also used
    /// for other things a node with a gigabyte or two left still works.
    fn judge(available: i64, size: i64, free: i64, processes: i64, limit: i64) -> Self {
        Self { memory: available < 100 << 20, disk: free < size / 50, processes: processes > limit / 10 * 9 }
    }
}

/// `0.20 0.18 0.12 1/80 11206`: the fourth field has the number of tasks.
fn threads(loadavg: &str) -> i64 {
    let field = loadavg.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// What share of a disk is used, in percent, and how many bytes have to go until it is `target` percent.
pub(crate) fn disk_use(path: &Path, target: i64) -> (i64, i64) {
    let Disk { used, free, .. } = disk(path);
    let usable = (used + free).max(1);
    (used * 100 / usable, (used - usable / 100 * target).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        assert_eq!(in_meminfo("MemTotal:  2048 kB\nMemAvailable: 1024 kB\n", "MemAvailable"), 1 << 20);
        assert_eq!(in_meminfo("", "MemTotal"), 0);
        assert_eq!(threads("0.20 0.18 0.12 1/80 11206"), 80);
    }

    #[test]
    fn shortage_is_told() {
        let fine = Pressure::default();
        assert_eq!(Pressure::judge(1 << 30, 100, 50, 5, 100), fine);
        assert_eq!(Pressure::judge(1 << 20, 100, 50, 5, 100), Pressure { memory: true, ..fine });
        assert_eq!(Pressure::judge(1 << 30, 100, 1, 5, 100), Pressure { disk: true, ..fine });
        assert_eq!(Pressure::judge(1 << 30, 100, 50, 91, 100), Pressure { processes: true, ..fine });
    }

    #[test]
    fn nodes_of_one_machine_offer_its_memory_once() {
        let of = |nodes| Machine::read(Path::new("/"), Capacity::share_of_memory(nodes));
        assert_eq!(of(1).memory, memory());
        let (share, whole) = (of(3).memory, memory());
        assert!(share > 0 && share * 3 <= whole, "{share} of {whole}");
        assert_eq!(of(3).milli_cpu, of(1).milli_cpu);
    }

    #[test]
    fn this_machine_has_a_size() {
        let most = Capacity { milli_cpu: Some(500), memory: None, ..Capacity::default() };
        let machine = Machine::read(Path::new("/"), most);
        assert_eq!(machine.milli_cpu, 500);
        assert!(machine.memory > 0 && machine.storage > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }
}

//! The configuration of daemons. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::wanted::Wanted;

/// Modules of the manager, none of which can run: they import a library that Python has once in a process at most (PyO3 in
/// subinterpreters). Without them the manager is small.
const MODULES: &str = "alerts,balancer,crash,devicehealth,influx,insights,iostat,localpool,mirroring,nfs,orchestrator,\
                       osd_perf_query,osd_support,pg_autoscaler,progress,prometheus,rbd_support,restful,selftest,\
                       snap_schedule,stats,status,telegraf,telemetry,test_orchestrator,volumes,zabbix";

/// Options for a small cluster on one machine, by section.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("global", "auth_cluster_required", "cephx"),
    ("global", "auth_service_required", "cephx"),
    ("global", "auth_client_required", "cephx"),
    ("global", "auth_allow_insecure_global_id_reclaim", "false"),
    ("global", "run_dir", "/run/ceph"),
    ("global", "log_to_file", "false"),
    ("global", "log_to_stderr", "true"),
    ("global", "err_to_stderr", "true"),
    ("global", "mon_cluster_log_to_file", "false"),
    // A pool of a small cloud needs few placement groups, and their number stays as it was asked for.
    ("global", "osd_pool_default_pg_num", "8"),
    ("global", "osd_pool_default_pgp_num", "8"),
    ("global", "osd_pool_default_pg_autoscale_mode", "off"),
    ("global", "mon_allow_pool_delete", "true"),
    ("global", "mon_allow_pool_size_one", "true"),
    ("mon", "mon_warn_on_pool_no_redundancy", "false"),
    // Percent of the machine's disk, which has other uses, and may be large: a monitor here needs little, so warn late.
    ("mon", "mon_data_avail_warn", "1"),
    ("mon", "mon_data_avail_crit", "0"),
    ("mon", "mon_memory_autotune", "false"),
    ("mon", "mon_osd_min_down_reporters", "1"),
    ("mgr", "mgr_initial_modules", ""),
    ("mgr", "mgr_disabled_modules", MODULES),
    // The smallest that Ceph takes; what an OSD really uses is decided by its cache.
    ("osd", "osd_memory_target", "939524096"),
    ("osd", "bluestore_cache_autotune", "false"),
    ("osd", "bluestore_cache_size", "67108864"),
    ("osd", "osd_op_num_shards", "2"),
    // It would measure a disk for seconds before its first start.
    ("osd", "osd_mclock_skip_benchmark", "true"),
    // Commands need no socket of their own.
    ("client", "admin_socket", ""),
];

/// The options of a cluster: those above, and over them what `cephConfig` says.
pub(super) fn options(wanted: &Wanted) -> String {
    let mut sections: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (section, name, value) in OPTIONS {
        sections.entry(section).or_default().insert(name, value);
    }
    // Ceph warns of fewer disks than a pool has copies when it does not say.
    let copies = wanted.osds.len().clamp(1, 3).to_string();
    sections.entry("global").or_default().insert("osd_pool_default_size", &copies);
    for (section, options) in &wanted.config {
        let section = sections.entry(section).or_default();
        section.extend(options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    }
    let mut text = String::new();
    for (section, options) in sections {
        let _ = writeln!(text, "[{section}]");
        for (name, value) in options {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    text
}

/// The file: where the monitors are comes first, and may change while daemons run; they learn it from each other.
pub(super) fn file(wanted: &Wanted, fsid: &str, mon_host: &str) -> String {
    format!("[global]\nfsid = {fsid}\nmon_host = {mon_host}\n{}", options(wanted))
}

//! The files that a server is started with: its configuration, what it knows of its cluster, and the scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use c5c3_kit::hash;

use super::wanted::Wanted;

/// The port that members of a Galera cluster say on how they are.
pub(super) const STATE_PORT: u16 = 4569;

const ENTRY: &str = include_str!("scripts/entry.sh");
const NOTIFY: &str = include_str!("scripts/notify.sh");
const LIVE: &str = include_str!("scripts/live.sh");
const READY: &str = include_str!("scripts/ready.sh");
const TRANSFER: &str = include_str!("scripts/transfer.sh");

/// What a server has unless its MariaDB says otherwise. Character set and isolation are those that OpenStack is tried
/// with; a buffer pool of this size leaves a small machine room for all the rest. A commit that was answered survives a
/// power cut: all members are on one machine, so another member's copy would be lost with it.
const DEFAULTS: &str = "\
[mariadbd]
skip_name_resolve = ON
character_set_server = utf8mb3
collation_server = utf8mb3_general_ci
max_connections = 1000
innodb_buffer_pool_size = 128M
innodb_log_file_size = 64M
innodb_flush_log_at_trx_commit = 1
sync_binlog = 1
innodb_snapshot_isolation = OFF
performance_schema = OFF
# Not each probe's connection.
log_warnings = 1
";

/// What Galera needs. Transfers are made by the account of this container, through the socket.
const GALERA: &str = "\
default_storage_engine = InnoDB
innodb_autoinc_lock_mode = 2
binlog_format = ROW
wsrep_on = ON
wsrep_provider = /usr/lib/galera/libgalera_smm.so
wsrep_sst_method = mariabackup
wsrep_sst_auth = openstack:
wsrep_slave_threads = 2
";

/// How members talk to each other. Who they were before a crash they agree on before a server starts; a server that
/// remembers it (`pc.recovery`) would wait for ever for those that were restarted.
const PROVIDER_OPTIONS: &str =
    "gcache.size=64M;gcs.fc_limit=128;pc.recovery=false;evs.suspect_timeout=PT5S;evs.inactive_timeout=PT15S";

/// With what members prove themselves to each other.
const PROVIDER_TLS: &str = ";socket.ssl_ca=/etc/mariadb/tls/ca.crt;socket.ssl_cert=/etc/mariadb/tls/tls.crt;\
                            socket.ssl_key=/etc/mariadb/tls/tls.key";

/// How a member copies from another: the receiver may listen later than the sender connects.
const TRANSFER_OPTIONS: &str = "\n[sst]\nsst-log-archive = 0\nsockopt = retry=120,interval=0.5\n";

/// Both prove themselves by a certificate that the same authority has signed.
const TRANSFER_TLS: &str = "encrypt = 4\ntca = /etc/mariadb/tls/ca.crt\ntcert = /etc/mariadb/tls/tls.crt\n\
                            tkey = /etc/mariadb/tls/tls.key\n";

/// The files of the ConfigMap, by name.
pub(super) fn files(wanted: &Wanted) -> BTreeMap<String, String> {
    let files = [
        ("server.cnf", server_cnf(wanted)),
        ("cluster.env", cluster_env(wanted)),
        ("entry.sh", ENTRY.into()),
        ("notify.sh", NOTIFY.into()),
        ("live.sh", LIVE.into()),
        ("ready.sh", READY.into()),
        ("transfer.sh", TRANSFER.into()),
    ];
    files.map(|(name, content)| (name.to_owned(), content)).into()
}

/// Stands for everything that only a new start of a server brings into force. How many members there are is not among it:
/// who starts reads that again.
pub(super) fn hash(wanted: &Wanted) -> String {
    let parts = [server_cnf(wanted).as_str(), ENTRY, LIVE, NOTIFY, READY, TRANSFER].join("\0");
    hash::short(parts.as_bytes())
}

/// What is asked for comes between what can be changed and what cannot.
fn server_cnf(wanted: &Wanted) -> String {
    let mut text = DEFAULTS.to_owned();
    if !wanted.my_cnf.trim().is_empty() {
        let _ = writeln!(text, "\n# spec.myCnf\n{}", wanted.my_cnf.trim());
    }
    let _ = write!(
        text,
        "\n[mariadbd]\n\
         datadir = /var/lib/mysql\n\
         socket = /run/mysqld/mysqld.sock\n\
         pid_file = /run/mysqld/mysqld.pid\n\
         tmpdir = /tmp\n\
         bind_address = 0.0.0.0\n\
         port = {}\n",
        wanted.port
    );
    if let Some(tls) = &wanted.tls {
        text.push_str("ssl_ca = /etc/mariadb/tls/ca.crt\nssl_cert = /etc/mariadb/tls/tls.crt\n");
        text.push_str("ssl_key = /etc/mariadb/tls/tls.key\n");
        let _ = writeln!(text, "require_secure_transport = {}", if tls.required { "ON" } else { "OFF" });
    }
    if wanted.galera {
        let _ = writeln!(text, "wsrep_cluster_name = {}", wanted.name);
        text.push_str(GALERA);
        let tls = wanted.tls.as_ref();
        let _ = writeln!(text, "wsrep_provider_options = \"{PROVIDER_OPTIONS}{}\"", tls.map_or("", |_| PROVIDER_TLS));
        text.push_str(TRANSFER_OPTIONS);
        if tls.is_some_and(|tls| tls.transfers) {
            text.push_str(TRANSFER_TLS);
        }
    }
    text
}

/// What the scripts read. None of the values needs quotes: names of objects, and numbers.
fn cluster_env(wanted: &Wanted) -> String {
    format!(
        "GALERA={}\nPORT={}\nNAME={}\nSERVICE={}\nMEMBERS={}\nSTATE_PORT={STATE_PORT}\n",
        u8::from(wanted.galera),
        wanted.port,
        wanted.name,
        wanted.internal_service(),
        wanted.replicas
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::mariadb;

    #[test]
    fn a_commit_that_was_answered_survives_a_power_cut_unless_less_is_asked_for() {
        let asked = "innodb_flush_log_at_trx_commit = 2";
        let spec = json!({"storage": {"ephemeral": true}, "myCnf": format!("[mariadbd]\n{asked}\n")});
        let file = server_cnf(&Wanted::of(&mariadb(spec)).unwrap());
        let at =
            |line: &str| file.lines().position(|found| found == line).unwrap_or_else(|| panic!("no {line}: {file}"));
        // The last of two lines counts.
        assert!(at("innodb_flush_log_at_trx_commit = 1") < at(asked));
        at("sync_binlog = 1");
    }
}

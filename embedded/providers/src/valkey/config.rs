//! The files that members are started with: configuration, scripts, and who the others are. None holds a secret.

use c5c3_api::ext::valkey::Valkey;
use c5c3_kit::hash;
use serde_json::{Value, json};

use super::names::{Names, PRIMARY_NAME, SENTINEL_PORT, SERVER_PORT};
use super::tls::listen;

/// The scripts that members run.
const SCRIPTS: [(&str, &str); 5] = [
    ("ask.sh", include_str!("ask.sh")),
    ("known.sh", include_str!("known.sh")),
    ("primary.sh", include_str!("primary.sh")),
    ("sentinel.sh", include_str!("sentinel.sh")),
    ("server.sh", include_str!("server.sh")),
];

/// The files of every member, by name.
pub(super) fn files(valkey: &Valkey, names: &Names) -> Value {
    let peers = names.peers().fold(String::new(), |text, peer| text + &peer + "\n");
    let mut files = json!({"valkey.conf": server(valkey, names), "sentinel.conf": sentinel(names), "peers": peers});
    for (name, text) in SCRIPTS {
        files[name] = json!(text);
    }
    files
}

/// Stands for whatever makes a running member out of date. More members do not.
pub(super) fn hash(files: &Value) -> String {
    let mut files = files.clone();
    if let Some(files) = files.as_object_mut() {
        files.remove("peers");
    }
    hash::of_json(&files)
}

fn server(valkey: &Valkey, names: &Names) -> String {
    let keeps = valkey.spec.persistence.as_ref().is_some_and(|persistence| persistence.enabled);
    let mut lines = vec![
        "bind 0.0.0.0",
        // Every client needs the password; without this, none but local ones were let in before it is set.
        "protected-mode no",
        "dir /data",
        if keeps { "appendonly yes" } else { "appendonly no" },
        r#"save """#,
        "maxmemory 128mb",
        "maxmemory-policy noeviction",
        // With the usual delay of five seconds, replicas miss the first writes after a failover.
        "repl-diskless-sync-delay 0",
    ];
    if names.members >= 3 {
        // A primary that lost all its replicas may have lost a failover, too.
        lines.extend(["min-replicas-to-write 1", "min-replicas-max-lag 10"]);
    }
    listen(names, SERVER_PORT) + &lines.join("\n") + "\n"
}

fn sentinel(names: &Names) -> String {
    let listen = listen(names, SENTINEL_PORT);
    format!(
        "{listen}\
         bind 0.0.0.0\n\
         protected-mode no\n\
         dir /tmp\n\
         sentinel failover-timeout {PRIMARY_NAME} 10000\n\
         sentinel parallel-syncs {PRIMARY_NAME} 1\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::valkey;

    fn text(spec: Value, file: &str) -> String {
        let valkey = valkey(spec);
        files(&valkey, &Names::of(&valkey))[file].as_str().unwrap().to_owned()
    }

    #[test]
    fn with_tls_nobody_talks_in_the_clear() {
        let spec = || json!({"replicas": 3, "sentinel": {"enabled": true}, "tls": {"enabled": true}});
        insta::assert_snapshot!(text(spec(), "valkey.conf") + "---\n" + &text(spec(), "sentinel.conf"));
    }

    /// What `known.sh` says of a sentinel that has this in its file, of three members.
    fn is_known(file: Option<&str>) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        std::fs::write(folder.path().join("peers"), "a\nb\nc\n").unwrap();
        if let Some(text) = file {
            std::fs::write(folder.path().join("sentinel.conf"), text).unwrap();
        }
        let script = include_str!("known.sh").replace("/data", &path).replace("/conf", &path);
        let done = std::process::Command::new("sh").args(["-c", &script]).env("QUORUM", "2").output().unwrap();
        done.status.success()
    }

    #[test]
    fn a_sentinel_has_started_when_it_knows_enough_others_and_a_replica_and_not_before_it_has_a_file() {
        let sentinels = "sentinel known-sentinel myprimary b 26379 b1\nsentinel known-sentinel myprimary c 26379 c1\n";
        let replica = "sentinel known-replica myprimary b 6379\n";
        assert!(!is_known(None) && !is_known(Some("")) && !is_known(Some(sentinels)) && !is_known(Some(replica)));
        assert!(is_known(Some(&format!("{sentinels}{replica}"))));
    }

    #[test]
    fn more_members_restart_nobody_and_tls_does() {
        let hash = |spec| {
            let valkey = valkey(spec);
            hash(&files(&valkey, &Names::of(&valkey)))
        };
        assert_eq!(hash(json!({"replicas": 3})), hash(json!({"replicas": 5})));
        assert_ne!(hash(json!({})), hash(json!({"tls": {"enabled": true}})));
    }
}

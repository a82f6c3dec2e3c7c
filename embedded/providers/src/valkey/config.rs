//! The files that members are started with: configuration, scripts, and who the others are. None holds a secret.

use c5c3_api::ext::valkey::Valkey;
use c5c3_kit::hash;
use serde_json::{Value, json};

use super::names::{Names, PRIMARY_NAME, SENTINEL_PORT, SERVER_PORT};
use super::tls::listen;
use crate::pods::bytes;

/// The scripts that members run.
const SCRIPTS: [(&str, &str); 6] = [
    ("ask.sh", include_str!("ask.sh")),
    ("known.sh", include_str!("known.sh")),
    ("password.sh", include_str!("password.sh")),
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
    let most = format!("maxmemory {}", most_memory(valkey));
    let keeps = valkey.spec.persistence.as_ref().is_some_and(|persistence| persistence.enabled);
    let mut lines = vec![
        "bind 0.0.0.0",
        // Every client needs the password; without this, none but local ones were let in before it is set.
        "protected-mode no",
        "dir /data",
        if keeps { "appendonly yes" } else { "appendonly no" },
        r#"save """#,
        &most,
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

/// How much data a server takes: three quarters of what its container may use, which leaves room for what clients and
/// replicas have not read yet. Without a limit, as much as leaves a small machine room for all the rest.
fn most_memory(valkey: &Valkey) -> u128 {
    let limits = valkey.spec.resources.as_ref().map(|resources| &resources.limits);
    let limit = limits.and_then(|limits| limits.get("memory")).map_or(0, |limit| bytes(limit.as_str()));
    if limit == 0 { 128 << 20 } else { limit / 4 * 3 }
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
    fn a_server_takes_as_much_data_as_its_container_has_room_for() {
        let most = |spec| {
            let text = text(spec, "valkey.conf");
            text.lines().find_map(|line| line.strip_prefix("maxmemory ").map(ToOwned::to_owned)).unwrap()
        };
        assert_eq!(most(json!({})), (128 << 20).to_string());
        assert_eq!(most(json!({"resources": {"limits": {"memory": "2Gi"}}})), (1536 << 20).to_string());
    }

    #[test]
    fn a_password_is_one_word_of_a_configuration_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "a b\"\\\nrename-command GET x").unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/valkey/password.sh");
        let quoted = std::process::Command::new("sh").arg(script).env("PASSWORD", &file).output().unwrap();
        let quoted = String::from_utf8(quoted.stdout).unwrap();
        assert!(quoted.starts_with(r#""\x61\x20\x62\x22\x5c\x0a\x72"#) && quoted.ends_with(r#"\x78""#), "{quoted}");
        for (name, script) in SCRIPTS.iter().filter(|(name, _)| *name != "password.sh") {
            assert!(!script.contains("/secret/"), "{name} reads the password without quoting it");
        }
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

//! Validation of volumes: above all the paths in them, since a node acts on them as root.

use std::collections::HashSet;

use serde_json::Value;

use super::names;
use super::report::Report;
use crate::read::{is_empty_at, list_at, str_at};

/// The shortest life of a projected token, in seconds.
const SHORTEST_TOKEN: i64 = 10 * 60;
const LONGEST_TOKEN: i64 = 1 << 32;

/// Checks volumes and returns their names.
pub(super) fn volumes<'v>(path: &str, spec: &'v Value, report: &mut Report) -> HashSet<&'v str> {
    let mut names = HashSet::new();
    for (at, volume) in list_at(spec, "volumes").iter().enumerate() {
        let (path, name) = (format!("{path}.volumes[{at}]"), str_at(volume, "name"));
        if !name.is_empty() {
            report.name(format!("{path}.name"), name, names::label);
            if !names.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
        }
        let sources = volume.as_object().map_or(0, |fields| fields.keys().filter(|key| *key != "name").count());
        if sources > 1 {
            report.forbidden(&path, "may not specify more than 1 volume type");
        }
        source(&path, volume, report);
    }
    names
}

fn source(path: &str, volume: &Value, report: &mut Report) {
    for kind in ["configMap", "secret", "downwardAPI"] {
        let path = format!("{path}.{kind}");
        file_mode(format!("{path}.defaultMode"), &volume[kind]["defaultMode"], report);
        items(&path, &volume[kind], report);
    }
    if let Some(projected) = volume.get("projected") {
        self::projected(&format!("{path}.projected"), projected, report);
    }
    host_path(&format!("{path}.hostPath"), &volume["hostPath"], report);
    nfs(&format!("{path}.nfs"), &volume["nfs"], report);
    descending_path(format!("{path}.gitRepo.directory"), str_at(&volume["gitRepo"], "directory"), report);
}

/// The files of a volume that come from an object: each has a path below the volume.
fn items(path: &str, source: &Value, report: &mut Report) {
    for (at, item) in list_at(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{at}]");
        file_path(format!("{path}.path"), str_at(item, "path"), report);
        file_mode(format!("{path}.mode"), &item["mode"], report);
    }
}

fn projected(path: &str, projected: &Value, report: &mut Report) {
    file_mode(format!("{path}.defaultMode"), &projected["defaultMode"], report);
    let mut taken = HashSet::new();
    for (at, source) in list_at(projected, "sources").iter().enumerate() {
        let path = format!("{path}.sources[{at}]");
        if source.as_object().is_some_and(|fields| fields.len() > 1) {
            report.forbidden(&path, "may not specify more than 1 volume type");
        }
        for (kind, source) in source.as_object().into_iter().flatten() {
            let path = format!("{path}.{kind}");
            items(&path, source, report);
            let own =
                std::iter::once(source).filter(|_| matches!(&**kind, "serviceAccountToken" | "clusterTrustBundle"));
            for file in own.clone() {
                file_path(format!("{path}.path"), str_at(file, "path"), report);
            }
            for file in list_at(source, "items").iter().chain(own).map(|file| str_at(file, "path")) {
                if !file.is_empty() && !taken.insert(file) {
                    report.invalid(&path, file, "conflicting duplicate paths");
                }
            }
        }
        match source["serviceAccountToken"]["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < SHORTEST_TOKEN => {
                let path = format!("{path}.serviceAccountToken.expirationSeconds");
                report.invalid(path, seconds, "may not specify a duration less than 10 minutes");
            }
            Some(seconds) if seconds > LONGEST_TOKEN => {
                let path = format!("{path}.serviceAccountToken.expirationSeconds");
                report.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
}

/// A path of the node, of a pod's volume or of a PersistentVolume.
pub(super) fn host_path(path: &str, source: &Value, report: &mut Report) {
    const KINDS: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    no_backsteps(format!("{path}.path"), str_at(source, "path"), report);
    if !KINDS.contains(&str_at(source, "type")) {
        report.unsupported(format!("{path}.type"), str_at(source, "type"), KINDS);
    }
}

fn nfs(path: &str, source: &Value, report: &mut Report) {
    if !is_empty_at(source, "path") && !str_at(source, "path").starts_with('/') {
        report.invalid(format!("{path}.path"), str_at(source, "path"), "must be an absolute path");
    }
}

/// A path of a file that a node writes below a volume. Names that start with `..` are those by which a node swaps all
/// files of a volume at once.
pub(super) fn file_path(path: String, file: &str, report: &mut Report) {
    if file.starts_with("..") && !file.starts_with("../") {
        report.invalid(&*path, file, "must not start with '..'");
    }
    descending_path(path, file, report);
}

/// A path that is relative and goes down only.
pub(super) fn descending_path(path: String, place: &str, report: &mut Report) {
    if place.starts_with('/') {
        report.invalid(&*path, place, "must be a relative path");
    }
    no_backsteps(path, place, report);
}

pub(super) fn no_backsteps(path: String, place: &str, report: &mut Report) {
    if place.split('/').any(|step| step == "..") {
        report.invalid(path, place, "must not contain '..'");
    }
}

fn file_mode(path: String, mode: &Value, report: &mut Report) {
    if mode.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        report.invalid(path, mode.clone(), "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(volume: &Value) -> Vec<String> {
        let mut volume = volume.clone();
        volume["name"] = json!("v");
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": [volume]});
        problems("", "pods", &json!({"spec": spec}), None)
    }

    /// Every source of a volume whose files have paths, with its file at `path`.
    fn sources(path: &str) -> Vec<(Value, String)> {
        let items = json!([{"key": "k", "path": path}]);
        let downward = json!([{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]);
        let plain = [
            ("configMap", json!({"name": "m", "items": items}), "items[0].path"),
            ("secret", json!({"secretName": "s", "items": items}), "items[0].path"),
            ("downwardAPI", json!({"items": downward}), "items[0].path"),
        ];
        let projected = [
            ("configMap", json!({"name": "m", "items": items}), "items[0].path"),
            ("secret", json!({"name": "s", "items": items}), "items[0].path"),
            ("downwardAPI", json!({"items": downward}), "items[0].path"),
            ("serviceAccountToken", json!({"path": path}), "path"),
            ("clusterTrustBundle", json!({"name": "t", "path": path}), "path"),
        ];
        let plain = plain.map(|(kind, source, at)| (json!({kind: source}), format!("{kind}.{at}")));
        let projected = projected.map(|(kind, source, at)| {
            (json!({"projected": {"sources": [{kind: source}]}}), format!("projected.sources[0].{kind}.{at}"))
        });
        plain.into_iter().chain(projected).collect()
    }

    #[test]
    fn a_file_of_a_volume_stays_below_the_volume() {
        let cases = [
            ("/etc/cron.d/x", "must be a relative path"),
            ("../../etc/passwd", "must not contain '..'"),
            ("a/../../b", "must not contain '..'"),
            ("a/..", "must not contain '..'"),
            ("..", "must not contain '..'"),
            ("..data", "must not start with '..'"),
            ("..2026/x", "must not start with '..'"),
        ];
        for (path, why) in cases {
            for (volume, field) in sources(path) {
                let wanted = format!("spec.volumes[0].{field}: Invalid value: {path:?}: {why}");
                assert_has(&check(&volume), &wanted);
            }
        }
        for path in ["a", "a/b", ".hidden", "a..b/c..", "a/..b"] {
            for (volume, _) in sources(path) {
                assert_eq!(check(&volume), [""; 0], "{path}");
            }
        }
    }

    #[test]
    fn modes_are_permissions_and_nothing_else() {
        let volume = json!({"configMap": {"name": "m", "defaultMode": 0o4755, "items": [{"key": "k", "path": "p", "mode": -1}]}});
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        assert_has(&check(&volume), &format!("spec.volumes[0].configMap.defaultMode: Invalid value: 2541: {why}"));
        assert_has(&check(&volume), &format!("spec.volumes[0].configMap.items[0].mode: Invalid value: -1: {why}"));
    }

    #[test]
    fn two_sources_of_a_projected_volume_do_not_write_the_same_file() {
        let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 60}});
        let map = json!({"configMap": {"name": "m", "items": [{"key": "k", "path": "token"}]}});
        let problems = check(&json!({"projected": {"sources": [token, map]}}));
        let at = "spec.volumes[0].projected.sources";
        assert_has(&problems, &format!(r#"{at}[1].configMap: Invalid value: "token": conflicting duplicate paths"#));
        assert_has(
            &problems,
            &format!(
                "{at}[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes"
            ),
        );
    }

    #[test]
    fn a_path_of_the_node_has_no_steps_back_and_a_known_type() {
        let problems = check(&json!({"hostPath": {"path": "/var/lib/x/../../../etc", "type": "Link"}}));
        assert_has(
            &problems,
            r#"spec.volumes[0].hostPath.path: Invalid value: "/var/lib/x/../../../etc": must not contain '..'"#,
        );
        assert!(problems.iter().any(|problem| problem.starts_with("spec.volumes[0].hostPath.type: Unsupported value")));
        assert_eq!(check(&json!({"hostPath": {"path": "/var/lib/x"}})), [""; 0]);
        assert_has(
            &check(&json!({"nfs": {"server": "s", "path": "export"}})),
            r#"spec.volumes[0].nfs.path: Invalid value: "export": must be an absolute path"#,
        );
    }
}

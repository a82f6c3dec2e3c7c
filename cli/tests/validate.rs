//! `c5c3 validate`, as a user sees it: lines, and exit codes.

use std::io::Write;
use std::process::{Command, Stdio};

/// The output and exit code of `c5c3 validate -f - ARGS` on a text.
fn validate(text: &str, args: &[&str]) -> (Vec<String>, i32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_c5c3"))
        .args(["validate", "-f", "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A file that is too large is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let all = format!("{}{}", String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!all.contains("panicked"), "{all}");
    (all.lines().map(ToOwned::to_owned).collect(), output.status.code().unwrap())
}

const FIVE_MISTAKES: &str = "apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata:
  name: production
  namespace: openstack
spec:
  infrastructure:
    mariadb:
      replicas: 4
      storageSize: 100GB
  services:
    keystone:
      replcas: 3
  tempest:
    schedule: every night
  korc:
    bootstrapResources: [domain]
";

#[test]
fn five_mistakes_are_five_lines_each_with_its_path_and_its_fix() {
    let (lines, code) = validate(FIVE_MISTAKES, &[]);
    assert_eq!(
        lines,
        [
            "-:9: controlplane/production: spec.infrastructure.mariadb.replicas: is even, so two halves can block each other; use an odd number such as 1, 3 or 5",
            "-:10: controlplane/production: spec.infrastructure.mariadb.storageSize: is not a size above zero; write a number with a unit, such as 10Gi or 512Mi",
            "-:13: controlplane/production: spec.services.keystone.replcas: is not a known field; did you mean \"replicas\"?",
            "-:15: controlplane/production: spec.tempest.schedule: is not a cron expression; write five fields: minute hour day month weekday, such as 0 2 * * *",
            "-:17: controlplane/production: spec.korc.bootstrapResources[0]: \"domain\" is not supported; did you mean \"domains\"? use one of: domains, projects, roles",
        ]
    );
    assert_eq!(code, 1);
}

/// Mistakes that different parts find: the schema, rules of kinds, and the operators of services.
const A_MISTAKE_IN_EACH_SERVICE: &str = "apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata:
  name: production
  namespace: openstack
spec:
  services:
    keystone:
      replcas: 3
    glance:
      backend: {type: nfs}
    placement:
      template:
        extraConfig: {placement: {randomise_allocation_candidate: 'true'}}
    neutron:
      template:
        ml2: {typeDrivers: [flat], tenantNetworkTypes: [geneve]}
    nova:
      policyOverrides: {rules: {'os_compute_api:servers:create': 'role:admin or'}}
";

#[test]
fn a_mistake_in_one_service_hides_none_in_another() {
    let (lines, code) = validate(A_MISTAKE_IN_EACH_SERVICE, &[]);
    assert_eq!(code, 1);
    for wanted in [
        "-:9: controlplane/production: spec.services.keystone.replcas: is not a known field",
        "-:11: controlplane/production: spec.services.glance.backend.type: ",
        "-:14: controlplane/production: spec.services.placement.template.extraConfig.placement.randomise_allocation_candidate: ",
        "-:17: controlplane/production: spec.services.neutron.template.ml2",
        "-:19: controlplane/production: spec.services.nova.policyOverrides.rules.os_compute_api:servers:create: ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "no {wanted} in\n{}", lines.join("\n"));
    }
}

#[test]
fn the_examples_have_no_problems() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let output = Command::new(env!("CARGO_BIN_EXE_c5c3")).args(["validate", "-f", examples]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "64 objects, no problems\n");
    assert_eq!(output.status.code(), Some(0));
}

/// Asserts that a text gives one line that holds `part`, and exit code 1.
fn one_line(text: &str, part: &str) {
    let (lines, code) = validate(text, &[]);
    assert_eq!((lines.len(), code), (1, 1), "{lines:#?}");
    assert!(lines[0].contains(part), "{part:?} is not in {}", lines[0]);
}

#[test]
fn bad_yaml_is_one_line_with_its_place() {
    one_line("apiVersion: c5c3.io/v1alpha1\nkind: [ControlPlane\n", "-:");
    one_line("just text\n", "-:1: is not an object");
    one_line("", "has no object in it");
    one_line("\u{0}\u{1}\n", "-");
    one_line(&format!("{}x", "[".repeat(10_000)), "-");
    let (lines, code) = validate(&format!("a: {}", "&a [*a, *a]\n".repeat(50)), &[]);
    assert_eq!((lines.len(), code), (1, 1), "{lines:?}");
}

#[test]
fn an_unknown_kind_is_one_line_with_the_one_that_was_meant() {
    one_line(
        "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlan\nmetadata: {name: a}\n",
        "did you mean apiVersion: c5c3.io/v1alpha1, kind: ControlPlane?",
    );
    one_line("apiVersion: v1\nkind: ControlPlane\nmetadata: {name: a}\n", "did you mean apiVersion: c5c3.io/v1alpha1");
    one_line("apiVersion: example.org/v1\nkind: Zebra\nmetadata: {name: a}\n", "pass --ignore-foreign");
    one_line("kind: ControlPlane\n", "apiVersion: is missing");
}

#[test]
fn kinds_of_others_are_skipped_when_asked() {
    let (lines, code) = validate("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", &["--ignore-foreign"]);
    assert_eq!((lines, code), (vec!["0 checked, 1 skipped".to_owned()], 0));
}

#[test]
fn the_items_of_a_list_are_looked_into() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n\
                - apiVersion: c5c3.io/v1alpha1\n  kind: ControlPlane\n  metadata: {name: lab}\n  spec:\n    infrastructure:\n\
                \u{20}     mariadb: {replicas: 2}\n";
    let (lines, code) = validate(list, &["--ignore-foreign"]);
    assert_eq!(code, 1);
    assert!(
        lines.len() == 1
            && lines[0].starts_with("-:12: controlplane/lab: spec.infrastructure.mariadb.replicas: is even"),
        "{lines:?}"
    );
    let (lines, code) = validate(&list.replace("replicas: 2", "replicas: 1"), &["--ignore-foreign"]);
    assert_eq!((lines, code), (vec!["1 checked, no problems; 1 skipped".to_owned()], 0));
}

#[test]
fn an_unknown_field_is_one_line() {
    one_line(
        "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {name: a}\nspec: {infrastructur: {}}\n",
        "spec.infrastructur: is not a known field; did you mean \"infrastructure\"?",
    );
}

#[test]
fn a_duplicate_key_is_one_line_with_its_place() {
    let text = "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {name: a}\nspec:\n  korc: {}\n  korc: {}\n";
    one_line(text, "-:6: ");
    one_line(text, "korc");
}

#[test]
fn a_file_of_ten_mebibytes_is_one_line() {
    one_line(&"# filling\n".repeat(1 << 20), "is larger than 8 MiB");
}

#[test]
fn a_change_that_is_not_allowed_is_told_when_the_old_object_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    let text = |region: &str| {
        format!(
            "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {{name: a, namespace: b}}\nspec:\n  global: {{region: {region}}}\n"
        )
    };
    std::fs::write(&old, text("RegionOne")).unwrap();
    let (lines, code) = validate(&text("RegionTwo"), &["--old", old.to_str().unwrap()]);
    assert_eq!((lines.len(), code), (1, 1), "{lines:?}");
    assert!(lines[0].contains("spec.global.region: cannot be changed, because "), "{}", lines[0]);
}

#[test]
fn every_object_of_a_file_is_checked() {
    let (lines, code) = validate(&format!("{FIVE_MISTAKES}---\n{FIVE_MISTAKES}"), &[]);
    assert_eq!((lines.len(), code), (10, 1));
}

#[test]
fn completions_and_version_are_printed() {
    for args in [vec!["completions", "bash"], vec!["version"], vec!["--help"], vec!["validate", "--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_c5c3")).args(&args).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{args:?}");
    }
}

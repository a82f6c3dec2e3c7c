use serde_json::{Value, json};

use super::*;

fn standard(text: &str) -> Standard {
    let (level, version) = text.split_once(':').unwrap();
    Standard { level: Level::parse(level).unwrap(), version: Version::parse(version).unwrap() }
}

/// What a standard has against a pod with this spec, one violation a line.
fn found(text: &str, spec: &Value) -> Vec<String> {
    standard(text).violations(&json!({"spec": spec})).iter().map(ToString::to_string).collect()
}

/// A pod that `restricted` allows.
fn good() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
    })
}

/// The good pod with one more value.
fn with(pointer: &str, value: Value) -> Value {
    let mut spec = good();
    let mut at = &mut spec;
    for step in pointer.trim_start_matches('/').split('/') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at.as_array_mut().unwrap()[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
    spec
}

const CONTEXT: &str = "/containers/0/securityContext";

#[test]
fn every_control_of_baseline_refuses_in_upstreams_words() {
    let of_container = |field: &str, value: Value| with(&format!("{CONTEXT}/{field}"), value);
    let mut both = of_container("seLinuxOptions", json!({"type": "spc_t", "user": "u"}));
    both["securityContext"]["seLinuxOptions"] = json!({"role": "r"});
    let cases = [
        (
            with("/securityContext/appArmorProfile", json!({"type": "Unconfined"})),
            r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            of_container("appArmorProfile", json!({"type": "Unconfined"})),
            r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            of_container("capabilities", json!({"add": ["SYS_ADMIN", "NET_RAW", "CHOWN"]})),
            r#"non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (with("/hostNetwork", json!(true)), "host namespaces (hostNetwork=true)"),
        (with("/hostPID", json!(true)), "host namespaces (hostPID=true)"),
        (with("/hostIPC", json!(true)), "host namespaces (hostIPC=true)"),
        (
            with(
                "/volumes",
                json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]),
            ),
            r#"hostPath volumes (volumes "v", "w")"#,
        ),
        (
            with(
                "/containers/0/ports",
                json!([{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 90}]),
            ),
            r#"hostPort (container "a" uses hostPorts 80, 90)"#,
        ),
        (
            of_container("privileged", json!(true)),
            r#"privileged (container "a" must not set securityContext.privileged=true)"#,
        ),
        (
            of_container("procMount", json!("Unmasked")),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            both,
            r#"seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)"#,
        ),
        (
            of_container("seccompProfile", json!({"type": "Unconfined"})),
            r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            with("/securityContext/seccompProfile", json!({"type": "Unconfined"})),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            with("/securityContext/sysctls", json!([{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}])),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            with("/securityContext/windowsOptions", json!({"hostProcess": true})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ];
    for (spec, wanted) in &cases {
        assert_eq!(found("baseline:latest", spec), [*wanted], "{spec}");
        assert_eq!(found("privileged:latest", spec), [""; 0]);
        assert!(!found("restricted:latest", spec).is_empty(), "restricted allows what baseline does not: {spec}");
    }
    let ids = baseline::CONTROLS.iter().map(|control| control.id);
    assert_eq!(ids.count(), 11, "a control without a case");
}

#[test]
fn every_control_of_restricted_refuses_in_upstreams_words() {
    let of_container = |field: &str, value: Value| with(&format!("{CONTEXT}/{field}"), value);
    let cases = [
        (
            of_container("allowPrivilegeEscalation", Value::Null),
            r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
        (
            of_container("capabilities", json!({"drop": ["NET_RAW"], "add": ["CHOWN", "NET_BIND_SERVICE"]})),
            r#"unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            with(
                "/volumes",
                json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {}}, {"name": "e", "emptyDir": {}}]),
            ),
            r#"restricted volume types (volumes "v", "n" use restricted volume types "hostPath", "nfs")"#,
        ),
        (
            with("/securityContext/runAsNonRoot", Value::Null),
            r#"runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#,
        ),
        (
            of_container("runAsNonRoot", json!(false)),
            r#"runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (with("/securityContext/runAsUser", json!(0)), "runAsUser=0 (pod must not set runAsUser=0)"),
        (of_container("runAsUser", json!(0)), r#"runAsUser=0 (container "a" must not set runAsUser=0)"#),
        (
            with("/securityContext/seccompProfile", Value::Null),
            r#"seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        ),
        (
            of_container("seccompProfile", json!({"type": "Unconfined"})),
            r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
    ];
    for (spec, wanted) in &cases {
        assert_eq!(found("restricted:latest", spec), [*wanted], "{spec}");
    }
    assert_eq!(restricted::CONTROLS.len(), 6, "a control without a case");
}

#[test]
fn a_pod_that_does_what_is_recommended_is_allowed_and_a_plain_one_is_baseline() {
    assert_eq!(found("restricted:latest", &good()), [""; 0]);
    let plain = json!({"containers": [{"name": "web"}], "volumes": [{"name": "v", "emptyDir": {}}]});
    assert_eq!(found("baseline:latest", &plain), [""; 0]);
    assert_eq!(
        joined(&standard("restricted:latest").violations(&json!({"spec": plain}))),
        "allowPrivilegeEscalation != false (container \"web\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"web\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"web\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"web\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")"
    );
}

#[test]
fn init_and_ephemeral_containers_are_held_to_the_same() {
    for list in ["initContainers", "ephemeralContainers"] {
        let spec = with(&format!("/{list}"), json!([{"name": "b", "securityContext": {"privileged": true}}]));
        let wanted = r#"privileged (container "b" must not set securityContext.privileged=true)"#;
        assert_eq!(found("baseline:latest", &spec), [wanted]);
    }
}

#[test]
fn annotations_of_profiles_count_too() {
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    let pod = json!({"metadata": {"annotations": {key: "unconfined"}}, "spec": good()});
    let found = joined(&standard("baseline:latest").violations(&pod));
    assert_eq!(
        found,
        format!("forbidden AppArmor profile (annotation {key:?} must not set AppArmor profile type to \"unconfined\")")
    );
    let pod = json!({"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}, "spec": good()});
    assert_eq!(standard("baseline:v1.18").violations(&pod).len(), 1);
    assert_eq!(standard("baseline:latest").violations(&pod), []);
}

#[test]
fn a_version_says_what_a_level_means() {
    let rmem = with("/securityContext/sysctls", json!([{"name": "net.ipv4.tcp_rmem"}]));
    assert_eq!(found("baseline:v1.31", &rmem), ["forbidden sysctls (net.ipv4.tcp_rmem)"]);
    assert_eq!(found("baseline:v1.32", &rmem), [""; 0]);
    let keeps = with(&format!("{CONTEXT}/capabilities"), json!({"add": ["NET_RAW"]}));
    assert!(found("restricted:v1.21", &keeps)[0].starts_with("non-default capabilities"));
    assert!(found("restricted:v1.22", &keeps)[0].starts_with("unrestricted capabilities"));
    assert_eq!(found("baseline:v1.99", &rmem), [""; 0]);
    let mut windows = good();
    windows["os"] = json!({"name": "windows"});
    windows["containers"][0]["securityContext"] = json!({});
    assert_eq!(found("restricted:v1.25", &windows), [""; 0]);
    assert_ne!(found("restricted:v1.24", &windows), [""; 0]);
}

#[test]
fn labels_of_a_namespace_say_which_standard_holds() {
    let namespace = json!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.30",
        "pod-security.kubernetes.io/warn": "restricted",
    }}});
    let of = |mode| Standard::of_namespace(&namespace, mode).to_string();
    assert_eq!((of(Mode::Enforce).as_str(), of(Mode::Warn).as_str()), ("baseline:v1.30", "restricted:latest"));
    assert!(Standard::of_namespace(&namespace, Mode::Audit).allows_everything());
    assert_eq!(wrong_labels(&namespace["metadata"]), []);
    let enforced = |level: &str| {
        Standard::of_namespace(
            &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}),
            Mode::Enforce,
        )
    };
    assert!(enforced("restricted").is_stricter_than(enforced("baseline")));
    assert!(!enforced("privileged").is_stricter_than(enforced("baseline")));
}

#[test]
fn labels_that_cannot_be_read_are_named_and_enforce_the_strictest() {
    let namespace = json!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "strict",
        "pod-security.kubernetes.io/warn": "all",
        "pod-security.kubernetes.io/audit-version": "1.30",
        "pod-security.kubernetes.io/warn-version": "v1.007",
    }}});
    assert_eq!(Standard::of_namespace(&namespace, Mode::Enforce).to_string(), "restricted:latest");
    assert!(Standard::of_namespace(&namespace, Mode::Warn).allows_everything());
    let wrong: Vec<String> = wrong_labels(&namespace["metadata"]).into_iter().map(|(label, ..)| label).collect();
    assert_eq!(
        wrong,
        [
            "pod-security.kubernetes.io/enforce",
            "pod-security.kubernetes.io/audit-version",
            "pod-security.kubernetes.io/warn",
            "pod-security.kubernetes.io/warn-version",
        ]
    );
}

#[test]
fn templates_are_found_in_every_workload() {
    let template = json!({"spec": good()});
    let of = |group: &str, kind: &str, object: Value| template_of(group, kind, &object).cloned();
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
        assert_eq!(of("apps", kind, json!({"spec": {"template": template}})).as_ref(), Some(&template), "{kind}");
    }
    assert_eq!(of("batch", "Job", json!({"spec": {"template": template}})).as_ref(), Some(&template));
    assert_eq!(of("", "PodTemplate", json!({"template": template})).as_ref(), Some(&template));
    let cron = json!({"spec": {"jobTemplate": {"spec": {"template": template}}}});
    assert_eq!(of("batch", "CronJob", cron).as_ref(), Some(&template));
    assert_eq!(of("", "Service", json!({})), None);
}

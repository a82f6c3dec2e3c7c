//! What the specs of several services have in common beyond their fields: spellings, and rules over more than one block.

use kube::core::ObjectMeta;

use crate::blocks::{Autoscaling, DependencyKind, DependsOn, ExtraConfig, Replicas, Resources, Workload};
use crate::{Problem, problem};

/// The second spellings of `keystone` that every service takes, followed by the service's own.
macro_rules! keystone_aliases {
    ($($more:expr),* $(,)?) => {
        &[
            $crate::alias::alias("keystoneAuth", "keystone"),
            $crate::alias::alias("keystone.applicationCredentialRef.name", "keystone.appCredentialRef.secretName"),
            $crate::alias::alias("keystone.appCredentialRef.name", "keystone.appCredentialRef.secretName"),
            $($more),*
        ]
    };
}
pub(crate) use keystone_aliases;

/// The rule that the schema of `spec.database` keeps its name in either spelling, also when the block comes or goes.
/// The block's own rule cannot see that: a transition rule does not run where there was no value before.
macro_rules! keeps_schema {
    (@name $spec:literal, $default:literal) => {
        concat!(
            "(!has(", $spec, ".database) ? '", $default, "' : has(", $spec, ".database.database) ? ", $spec,
            ".database.database : has(", $spec, ".database.name) ? ", $spec, ".database.name : '", $default, "')"
        )
    };
    ($default:literal) => {
        ::kube::core::Rule::new(concat!(
            $crate::openstack::keeps_schema!(@name "self", $default),
            " == ",
            $crate::openstack::keeps_schema!(@name "oldSelf", $default)
        ))
        .message(concat!(
            "changes the database's name (", $default,
            " when absent), and with it all data; keep the old name, or create a new object and migrate"
        ))
        .field_path(".database")
    };
}
pub(crate) use keeps_schema;

/// How many pods a component has.
pub(super) fn replicas(workload: Option<&Workload>, default: i32) -> i32 {
    workload.and_then(|workload| workload.replicas).map_or(default, Replicas::get)
}

/// Autoscaling by a share of what nobody requests: an autoscaler would only say that it knows nothing. A limit is a request
/// where there is none.
pub(crate) fn unmeasured(autoscaling: Option<&Autoscaling>, resources: Option<&Resources>) -> Vec<Problem> {
    let Some(autoscaling) = autoscaling else { return Vec::new() };
    let targets = [
        ("targetCPUUtilization", autoscaling.target_cpu_utilization, "cpu", "500m"),
        ("targetMemoryUtilization", autoscaling.target_memory_utilization, "memory", "1Gi"),
    ];
    let is_requested = |name: &str| {
        let is_in =
            |resources: &Resources| resources.requests.contains_key(name) || resources.limits.contains_key(name);
        resources.is_some_and(is_in)
    };
    let unmeasured = targets.into_iter().filter(|(_, target, name, _)| target.is_some() && !is_requested(name));
    unmeasured
        .map(|(field, _, name, such_as)| {
            problem(
                format!("spec.autoscaling.{field}"),
                format!("is a share of the {name} that a pod requests, and it requests none"),
                format!("set spec.resources.requests.{name}, such as {such_as}, or remove it"),
            )
        })
        .collect()
}

/// What every service can get wrong in ways that no schema finds.
pub(crate) fn mistakes(
    kind: DependencyKind,
    meta: &ObjectMeta,
    depends_on: &[DependsOn],
    extra: &ExtraConfig,
) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, dependency) in depends_on.iter().enumerate() {
        if dependency.kind == kind && meta.name.as_deref() == Some(dependency.name.as_str()) {
            let path = format!("spec.dependsOn[{index}]");
            found.push(problem(path, "is the object itself, which would wait forever", "remove this entry"));
        }
    }
    for (section, options) in extra {
        let path = format!("spec.extraConfig.{section}");
        if section.is_empty() || section.contains(['[', ']', '\n', '\r']) {
            found.push(problem(&path, "is not a section's name", "name the section without brackets, such as DEFAULT"));
        }
        for (option, value) in options {
            let path = format!("{path}.{option}");
            if option.is_empty() || option.starts_with(['[', '#', ';']) || option.contains(['=', ':', '\n', '\r']) {
                found.push(problem(
                    path,
                    "is not an option's name",
                    "name one option, such as debug, and put its value behind it",
                ));
            } else if value.contains(['\n', '\r']) {
                found.push(problem(
                    path,
                    "has a line break, after which another option would start",
                    "write the value on one line",
                ));
            }
        }
    }
    found
}

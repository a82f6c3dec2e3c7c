//! What the specs of several services have in common beyond their fields: spellings, and rules over more than one block.

use std::fmt::Debug;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blocks::{
    Autoscaling, Cache, DeletionPolicy, DependencyKind, DependsOn, Exposure, ExtraConfig, HttpUrl, Image, Middleware,
    Operations, Plugin, PolicyOverrides, Replicas, Resources, Scheduling, ServiceStatus, Tls, Workload,
};
use crate::{Problem, problem};

/// The parts that the objects of all OpenStack services have, for code that works with any of them. A part that a kind
/// does not have is `None` or empty.
pub trait ServiceObject:
    Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// Which service it is, such as `keystone`.
    const SERVICE: &'static str;
    /// The kind, as dependencies name it.
    const KIND: DependencyKind;
    /// The field with `resources` and `scheduling` of the API's pods: `spec` or `spec.api`.
    const API: &'static str;
    /// The longest name of an object, with which the names of all that its operator creates are within Kubernetes' limits.
    const LONGEST_NAME: usize;

    /// The image; the operator's choice when absent.
    fn image(&self) -> Option<&Image>;
    /// How many API pods run without autoscaling.
    fn replicas(&self) -> i32;
    /// TLS on the API.
    fn tls(&self) -> Option<&Tls>;
    /// How the API is reached and scaled.
    fn exposure(&self) -> &Exposure;
    /// How the service is run.
    fn operations(&self) -> &Operations;
    /// CPU and memory of the API's pods.
    fn resources(&self) -> Option<&Resources>;
    /// The nodes that the API's pods are scheduled to.
    fn scheduling(&self) -> Option<&Scheduling>;
    /// Where tokens are cached.
    fn cache(&self) -> Option<&Cache>;
    /// Policies that replace the service's own.
    fn policy_overrides(&self) -> Option<&PolicyOverrides>;
    /// Plugins with configuration sections of their own.
    fn plugins(&self) -> &[Plugin];
    /// Filters around the WSGI application.
    fn middleware(&self) -> &[Middleware];
    /// Raw options of the service's configuration file.
    fn extra_config(&self) -> &ExtraConfig;
    /// What must be ready before the service starts.
    fn depends_on(&self) -> &[DependsOn];
    /// What becomes of data when the object is deleted.
    fn deletion_policy(&self) -> DeletionPolicy;
    /// The URL that clients outside the cluster reach the API at, where the spec says so.
    fn public_endpoint(&self) -> Option<&HttpUrl>;
    /// What the operator observed.
    fn status(&self) -> Option<&ServiceStatus>;
}

/// The longest name of most kinds. A component's Service is called `<name>-<component>`, which ends at 63 characters, and
/// `-novncproxy` has 11; a CronJob's name ends at 52, because Kubernetes adds 11 to it for its Jobs.
pub(super) const LONGEST_NAME: usize = 52;

/// Implements [`ServiceObject`] for a kind. Most parts are fields that all specs have; the list is of those that differ.
macro_rules! service_object {
    (
        $kind:ident, $service:literal, api: $api:literal, longest_name: $longest:expr, |$spec:ident| {
            replicas: $replicas:expr,
            resources: $resources:expr,
            scheduling: $scheduling:expr,
            plugins: $plugins:expr,
            middleware: $middleware:expr,
            public_endpoint: $public_endpoint:expr,
        }
    ) => {
        impl $crate::openstack::ServiceObject for $kind {
            const SERVICE: &'static str = $service;
            const KIND: $crate::blocks::DependencyKind = $crate::blocks::DependencyKind::$kind;
            const API: &'static str = $api;
            const LONGEST_NAME: usize = $longest;

            fn image(&self) -> Option<&$crate::blocks::Image> {
                self.spec.image.as_ref()
            }
            fn replicas(&self) -> i32 {
                let $spec = &self.spec;
                $replicas
            }
            fn tls(&self) -> Option<&$crate::blocks::Tls> {
                self.spec.tls.as_ref()
            }
            fn exposure(&self) -> &$crate::blocks::Exposure {
                &self.spec.exposure
            }
            fn operations(&self) -> &$crate::blocks::Operations {
                &self.spec.operations
            }
            fn resources(&self) -> Option<&$crate::blocks::Resources> {
                let $spec = &self.spec;
                $resources
            }
            fn scheduling(&self) -> Option<&$crate::blocks::Scheduling> {
                let $spec = &self.spec;
                $scheduling
            }
            fn cache(&self) -> Option<&$crate::blocks::Cache> {
                self.spec.cache.as_ref()
            }
            fn policy_overrides(&self) -> Option<&$crate::blocks::PolicyOverrides> {
                self.spec.policy_overrides.as_ref()
            }
            #[allow(unused_variables)] // Placement has no such list.
            fn plugins(&self) -> &[$crate::blocks::Plugin] {
                let $spec = &self.spec;
                $plugins
            }
            #[allow(unused_variables)] // Placement has no such list.
            fn middleware(&self) -> &[$crate::blocks::Middleware] {
                let $spec = &self.spec;
                $middleware
            }
            fn extra_config(&self) -> &$crate::blocks::ExtraConfig {
                &self.spec.extra_config
            }
            fn depends_on(&self) -> &[$crate::blocks::DependsOn] {
                &self.spec.depends_on
            }
            fn deletion_policy(&self) -> $crate::blocks::DeletionPolicy {
                self.spec.deletion_policy
            }
            fn public_endpoint(&self) -> Option<&$crate::blocks::HttpUrl> {
                let $spec = &self.spec;
                $public_endpoint
            }
            fn status(&self) -> Option<&$crate::blocks::ServiceStatus> {
                self.status.as_ref().map(|status| &status.service)
            }
        }
    };
}
pub(crate) use service_object;

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

/// What is wrong with the object of an OpenStack service in ways that no schema finds, whichever service it is.
pub(super) fn service_mistakes<S: ServiceObject>(object: &S) -> Vec<Problem> {
    let mut found = mistakes(S::KIND, object.meta(), object.depends_on(), object.extra_config());
    found.extend(unfit_name(object.meta(), S::LONGEST_NAME));
    let exposure = object.exposure();
    found.extend(unmeasured(exposure.autoscaling.as_ref(), object.resources(), S::API));
    if exposure.gateway.is_some() && object.tls().is_some_and(|tls| tls.enabled) {
        found.push(problem(
            "spec.gateway",
            "leads to pods that speak TLS, and a Gateway speaks plain HTTP to them",
            "set spec.tls.enabled to false and let the Gateway end TLS, or remove it and write a route with a \
             BackendTLSPolicy of your own",
        ));
    }
    found
}

/// A name that the objects which an operator names after this one cannot have: a Service's name is a DNS label that
/// starts with a letter, and there is no room for a suffix behind a long one. The API server would refuse them one by one.
pub(super) fn unfit_name(meta: &ObjectMeta, longest: usize) -> Option<Problem> {
    let name = meta.name.as_deref()?;
    let fix = "names cannot be changed: create the object with another name";
    if name.len() > longest {
        let what =
            format!("has {} characters, and what is named after it would exceed the limits of Kubernetes", name.len());
        return Some(problem("metadata.name", what, format!("use at most {longest} characters; {fix}")));
    }
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (!is_label).then(|| {
        let what = "is not a name that a Service can have";
        problem("metadata.name", what, format!("use lower case letters, digits and '-', starting with a letter; {fix}"))
    })
}

/// Autoscaling by utilization of a resource without a request: an autoscaler could not compute it. A limit is a request
/// where there is none.
fn unmeasured(autoscaling: Option<&Autoscaling>, resources: Option<&Resources>, api: &str) -> Vec<Problem> {
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
                format!("set {api}.resources.requests.{name}, such as {such_as}, or remove it"),
            )
        })
        .collect()
}

/// What is wrong with dependencies and raw options in ways that no schema finds.
pub(crate) fn mistakes(
    kind: DependencyKind,
    meta: &ObjectMeta,
    depends_on: &[DependsOn],
    extra: &ExtraConfig,
) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, dependency) in depends_on.iter().enumerate() {
        let is_here =
            dependency.namespace.as_ref().is_none_or(|there| meta.namespace.as_deref() == Some(there.as_str()));
        if dependency.kind == kind && is_here && meta.name.as_deref() == Some(dependency.name.as_str()) {
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

//! Pod Security Standards: what the levels `baseline` and `restricted` forbid a pod, by the labels of its namespace.
//!
//! The controls, their order and their words are those of upstream's `k8s.io/pod-security-admission` for 1.33, with the
//! versions in which a control became what it is. The control of probes' hosts, which is newer, is not there.

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::read::{list_at, str_at};

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The minor version of Kubernetes whose controls `latest` stands for.
const NEWEST: u32 = 33;

/// How much a pod may do, from everything to little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Privileged,
    /// Nothing by which a pod is known to become root of its node.
    Baseline,
    /// What current practice recommends.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The version of Kubernetes whose controls hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Latest,
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_canonical = digits == "0" || !digits.starts_with('0');
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_canonical && is_number).map(Self::Minor)
    }

    fn minor(self) -> u32 {
        match self {
            Self::Latest => NEWEST,
            Self::Minor(minor) => minor.min(NEWEST),
        }
    }
}

/// A level, and the version of Kubernetes that says what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    level: Level,
    version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Latest => write!(f, "{}:latest", self.level.name()),
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
        }
    }
}

/// What becomes of a pod that breaks a namespace's standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is refused.
    Enforce,
    /// The client is warned.
    Warn,
    /// It is logged.
    Audit,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Audit => "audit",
        }
    }
}

/// One thing that a pod does and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In a few words.
    pub reason: String,
    /// Where.
    pub detail: String,
}

impl Violation {
    fn new(reason: &str, detail: String) -> Self {
        Self { reason: reason.to_owned(), detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { f.write_str(&self.reason) } else { write!(f, "{} ({})", self.reason, self.detail) }
    }
}

impl Standard {
    /// What the labels of a namespace ask for in a mode. A level that cannot be read is the strictest where it is
    /// enforced, and none elsewhere.
    pub fn of_namespace(namespace: &Value, mode: Mode) -> Self {
        let labels = &namespace["metadata"]["labels"];
        let level = match labels.get(format!("{PREFIX}{}", mode.name())).map(|level| level.as_str().unwrap_or_default())
        {
            None => Level::Privileged,
            Some(text) => Level::parse(text).unwrap_or(match mode {
                Mode::Enforce => Level::Restricted,
                Mode::Warn | Mode::Audit => Level::Privileged,
            }),
        };
        let version = labels.get(format!("{PREFIX}{}-version", mode.name())).and_then(Value::as_str);
        Self { level, version: version.and_then(Version::parse).unwrap_or(Version::Latest) }
    }

    /// Whether nothing breaks it.
    pub fn allows_everything(self) -> bool {
        self.level == Level::Privileged
    }

    /// Whether pods may break it that keep to `other`.
    pub fn is_stricter_than(self, other: Self) -> bool {
        self.level > other.level || self.version != other.version
    }

    /// Every way in which a pod or a pod template breaks it: the controls of `baseline` first.
    pub fn violations(self, pod: &Value) -> Vec<Violation> {
        let subject = Subject { metadata: &pod["metadata"], spec: &pod["spec"], minor: self.version.minor() };
        let is_restricted = self.level == Level::Restricted;
        let baseline = baseline::CONTROLS
            .iter()
            .filter(|control| !is_restricted || !restricted::replaces(control.id, subject.minor));
        let restricted = restricted::CONTROLS.iter().filter(|_| is_restricted);
        let controls = baseline.chain(restricted).filter(|control| control.since <= subject.minor);
        if self.allows_everything() {
            Vec::new()
        } else {
            controls.filter_map(|control| (control.check)(&subject)).collect()
        }
    }
}

/// What is wrong with the labels of a namespace: each label, its value and why.
pub fn wrong_labels(metadata: &Value) -> Vec<(String, String, &'static str)> {
    let mut wrong = Vec::new();
    for mode in [Mode::Enforce, Mode::Audit, Mode::Warn] {
        let (level, version) = (format!("{PREFIX}{}", mode.name()), format!("{PREFIX}{}-version", mode.name()));
        let text = |label: &str| metadata["labels"].get(label).and_then(Value::as_str);
        if let Some(text) = text(&level).filter(|text| Level::parse(text).is_none()) {
            wrong.push((level, text.to_owned(), "must be one of privileged, baseline, restricted"));
        }
        if let Some(text) = text(&version).filter(|text| Version::parse(text).is_none()) {
            wrong.push((version, text.to_owned(), "must be \"latest\" or \"v1.x\""));
        }
    }
    wrong
}

/// The pod template of a workload, if its kind has one.
pub fn template_of<'v>(group: &str, kind: &str, object: &'v Value) -> Option<&'v Value> {
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => Some(&object["spec"]["template"]),
        ("batch", "CronJob") => Some(&object["spec"]["jobTemplate"]["spec"]["template"]),
        ("", "PodTemplate") => Some(&object["template"]),
        _ => None,
    }
}

/// Violations as users read them.
pub fn joined(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A control: what it is called, since which minor version it is this one, and what it finds.
struct Control {
    id: &'static str,
    since: u32,
    check: fn(&Subject<'_>) -> Option<Violation>,
}

/// A pod as controls look at it.
struct Subject<'v> {
    metadata: &'v Value,
    spec: &'v Value,
    minor: u32,
}

impl<'v> Subject<'v> {
    fn context(&self) -> &'v Value {
        &self.spec["securityContext"]
    }

    /// All containers, in the order in which upstream visits them.
    fn containers(&self) -> impl Iterator<Item = &'v Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| list_at(spec, list))
    }

    /// The names of the containers of which something is true.
    fn names(&self, is: impl Fn(&Value) -> bool) -> Vec<&'v str> {
        self.containers().filter(|container| is(container)).map(|container| str_at(container, "name")).collect()
    }

    /// Whether the pod is of Windows, for which some controls make no sense since 1.25.
    fn is_windows(&self) -> bool {
        self.minor >= 25 && self.spec["os"]["name"] == "windows"
    }
}

/// `container "a"`, `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    counted("container", names)
}

fn counted<T: AsRef<str>>(noun: &str, names: &[T]) -> String {
    format!("{noun}{} {}", plural(names.len()), quoted(names))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn quoted<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(|name| format!("{:?}", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Those who set something: the pod, containers, or both.
fn setters(pod: bool, names: &[&str]) -> Vec<String> {
    let named = (!names.is_empty()).then(|| containers(names));
    pod.then(|| "pod".to_owned()).into_iter().chain(named).collect()
}

/// Each value once, in order.
fn sorted(values: impl IntoIterator<Item = String>) -> Vec<String> {
    values.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

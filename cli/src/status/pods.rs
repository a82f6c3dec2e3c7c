//! What is wrong with a pod, told from its status, its claims and its events.

use serde_json::Value;

use super::world::{Object, World};

/// A container that does not run.
pub(crate) struct Halted<'a> {
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    /// The reason in one word, such as ImagePullBackOff.
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// What it said when it ended, if that is in the status.
    pub(crate) last_words: Option<&'a str>,
    /// How the last run ended: exit code and number of restarts.
    pub(crate) ended: Option<(i64, i64)>,
}

/// Whether a pod serves, or has ended well.
pub(crate) fn is_ready(pod: &Object) -> bool {
    let ready = pod.condition("Ready").is_some_and(|ready| ready["status"] == "True");
    ready || pod.text("/status/phase") == Some("Succeeded")
}

/// The containers that do not run, those of the start first.
pub(crate) fn halted(pod: &Object) -> Vec<Halted<'_>> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    lists.iter().flat_map(|list| pod.list(list)).filter_map(halt).collect()
}

/// A container that does not run, by its status.
pub(crate) fn halt(status: &Value) -> Option<Halted<'_>> {
    let text = |value: &'_ Value, field: &str| -> Option<String> { value[field].as_str().map(ToOwned::to_owned) };
    let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
    let (waiting, terminated) = (&state["waiting"], &state["terminated"]);
    let failed = terminated["exitCode"].as_i64().is_some_and(|code| code != 0);
    if waiting.is_null() && !failed {
        return None;
    }
    let found = if waiting.is_null() { terminated } else { waiting };
    // A container that has not been started yet is no news.
    if matches!(text(found, "reason").as_deref(), Some("ContainerCreating" | "PodInitializing")) {
        return None;
    }
    let code = terminated["exitCode"].as_i64().or(last["exitCode"].as_i64());
    let last_words = terminated["message"].as_str().or(last["message"].as_str());
    let restarts = status["restartCount"].as_i64().unwrap_or_default();
    Some(Halted {
        name: status["name"].as_str().unwrap_or_default(),
        image: status["image"].as_str().unwrap_or_default(),
        reason: found["reason"].as_str().unwrap_or("Waiting"),
        message: found["message"].as_str().unwrap_or_default(),
        last_words: last_words.filter(|words| !words.trim().is_empty()),
        ended: code.map(|code| (code, restarts)),
    })
}

/// A container that was killed because it used more memory than it may.
pub(crate) fn out_of_memory(pod: &Object) -> Option<&str> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod.list(list));
    statuses.find_map(|status| {
        let states = [&status["state"]["terminated"], &status["lastState"]["terminated"]];
        states.iter().any(|state| state["reason"] == "OOMKilled").then(|| status["name"].as_str())?
    })
}

/// How much memory a container may use; none if that is not limited.
pub(crate) fn memory_limit<'a>(pod: &'a Object, name: &str) -> Option<&'a str> {
    let mut containers = ["/spec/initContainers", "/spec/containers"].into_iter().flat_map(|list| pod.list(list));
    containers.find(|container| container["name"] == name)?["resources"]["limits"]["memory"].as_str()
}

/// What the log of a container is called among those that were read.
pub(crate) fn log_name(pod: &Object, container: &str) -> String {
    format!("{}/{}/{container}", pod.namespace().unwrap_or_default(), pod.reference.name)
}

/// Why a pod has no node; none if it has one.
pub(crate) fn unscheduled(pod: &Object) -> Option<&str> {
    let scheduled = pod.condition("PodScheduled").filter(|scheduled| scheduled["status"] == "False")?;
    scheduled["message"].as_str()
}

/// What no node has enough of, by the scheduler's message.
pub(crate) fn lacking(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("Insufficient ")?;
    rest.split([',', '.', ' ']).next()
}

/// How much of something each of its containers asks for.
pub(crate) fn requests<'a>(pod: &'a Object, of: &'a str) -> impl Iterator<Item = &'a str> {
    let requests = pod.list("/spec/containers").iter().map(move |container| &container["resources"]["requests"][of]);
    requests.filter_map(Value::as_str)
}

/// The arguments of one of its containers.
pub(crate) fn arguments<'a>(pod: &'a Object, container: &str) -> Vec<&'a str> {
    let all = ["/spec/initContainers", "/spec/containers"].into_iter().flat_map(|list| pod.list(list));
    let own = all.filter(|found| found["name"] == container).filter_map(|found| found["args"].as_array());
    own.flatten().filter_map(Value::as_str).collect()
}

/// The claims that a pod mounts.
pub(crate) fn claims(pod: &Object) -> impl Iterator<Item = &str> {
    pod.list("/spec/volumes").iter().filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// A container that has not passed its startup probe, and since when it runs.
pub(crate) fn starting(pod: &Object) -> Option<(&str, &str)> {
    let statuses = pod.list("/status/containerStatuses").iter();
    let mut starting = statuses.filter(|status| status["started"] == false && status["restartCount"] == 0);
    starting.find_map(|status| Some((status["name"].as_str()?, status["state"]["running"]["startedAt"].as_str()?)))
}

/// How a pod is, in a few words.
pub(crate) fn says(world: &World, pod: &Object) -> String {
    if let Some(message) = unscheduled(pod) {
        return format!("not scheduled: {message}");
    }
    if let Some(halted) = halted(pod).first() {
        return match (halted.ended, halted.message.is_empty()) {
            (Some((code, restarts)), _) => {
                format!("{}: {} ended with exit code {code}, restarted {restarts} times", halted.reason, halted.name)
            }
            (None, true) => format!("{}: {}", halted.reason, halted.name),
            (None, false) => format!("{}: {}", halted.reason, halted.message),
        };
    }
    // A startup probe fails until a container has started: that is how it starts.
    let warning = world
        .warning(pod)
        .filter(|(reason, message)| !(*reason == "Unhealthy" && message.starts_with("Startup probe failed")));
    if let Some((reason, message)) = warning {
        return format!("{reason}: {message}");
    }
    if let Some(ago) = starting(pod).and_then(|(_, since)| world.ago(since)) {
        return format!("starting for {ago}");
    }
    match pod.text("/status/phase") {
        Some("Running") => "runs, and is not ready yet".to_owned(),
        Some("Pending") => "is being started".to_owned(),
        Some(phase) => format!("is {phase}"),
        None => "has no status yet".to_owned(),
    }
}

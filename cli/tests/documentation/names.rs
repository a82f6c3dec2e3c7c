//! The reasons, conditions and events of operators, and metrics: pages name all that the code has, and nothing else.

use std::collections::BTreeSet;

use crate::pages::{Page, below, one};

/// The page of each operator, and its source. What all of them share is on the first one.
const OPERATORS: &[(&str, &[&str])] = &[
    ("docs/operators/README.md", &["crates/kit/src", "crates/service/src"]),
    ("docs/operators/cinder.md", &["operators/cinder/src"]),
    ("docs/operators/controlplane.md", &["operators/controlplane/src"]),
    ("docs/operators/cortex.md", &["operators/cortex/src"]),
    ("docs/operators/glance.md", &["operators/glance/src"]),
    ("docs/operators/ha.md", &["operators/ha/src"]),
    ("docs/operators/hypervisor.md", &["operators/hypervisor/src", "agents/node/src"]),
    ("docs/operators/keystone.md", &["operators/keystone/src"]),
    ("docs/operators/labels-injector.md", &["operators/labels-injector/src"]),
    ("docs/operators/neutron.md", &["operators/neutron/src"]),
    ("docs/operators/nova.md", &["operators/nova/src"]),
    ("docs/operators/orc.md", &["operators/orc/src"]),
    ("docs/operators/ovn.md", &["operators/ovn/src", "agents/ovs/src"]),
    ("docs/operators/placement.md", &["operators/placement/src"]),
    ("docs/operators/tempest.md", &["operators/tempest/src"]),
];

/// Words that look like reasons and are values of Kubernetes' or OpenStack's own fields.
const OTHERS: &[&str] = &[
    "AccessKey",
    "ClusterFirstWithHostNet",
    "ClusterRole",
    "Completed",
    "ConfigMap",
    "ContainerCreating",
    "ContainerResource",
    "DaemonSet",
    "DeadlineExceeded",
    "DirectoryOrCreate",
    "FailJob",
    "FallbackToLogsOnError",
    "IfNotPresent",
    "InternalDNS",
    "InternalIP",
    "NoExecute",
    "NoSchedule",
    "NoneOnDryRun",
    "NotFound",
    "OVSNode",
    "OnRootMismatch",
    "PersistentVolumeClaim",
    "PodInitializing",
    "ProgressDeadlineExceeded",
    "ReadWriteMany",
    "ReadWriteOnce",
    "RollingUpdate",
    "RuntimeDefault",
    "ScheduleAnyway",
    "SecretDeleted",
    "SecretKey",
    "ServiceAccount",
    "StatefulSet",
    "TimedOut",
];

/// Calls whose arguments are reasons, conditions or events, even if they are a single word.
const CALLS: &[&str] = &[
    "::met(",
    "::unmet(",
    ".failed(",
    ".reasons(",
    "(ConditionStatus::",
    "Decided::told(",
    "event(",
    "ready_reason(",
    "state(\"",
    "with_reason(",
];

/// Whether a word is made of at least two words: `PoolNotFound`, `APIReady`.
fn is_compound(word: &str) -> bool {
    let is_letter =
        word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric());
    let (mut uppers, mut lowers) = (0, 0);
    for c in word.chars() {
        uppers += usize::from(c.is_ascii_uppercase());
        lowers += usize::from(c.is_ascii_lowercase());
    }
    is_letter && uppers > 1 && lowers > 1
}

/// Whether a word is one word with a capital: `Evicting`.
fn is_single(word: &str) -> bool {
    word.len() > 3
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().skip(1).all(|c| c.is_ascii_lowercase())
}

/// The words of a source that may be read in a status, an event or a metric. Tests and comments are left out.
fn words(source: &Page) -> BTreeSet<String> {
    let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut parts = line.split('"');
        let mut before = parts.next().unwrap_or_default().to_owned();
        while let (Some(literal), after) = (parts.next(), parts.next()) {
            let is_told = is_single(literal) && CALLS.iter().any(|call| before.contains(call));
            if (is_compound(literal) || is_told) && !OTHERS.contains(&literal) {
                found.insert(literal.to_owned());
            }
            before.push_str(after.unwrap_or_default());
        }
    }
    found
}

/// The source of a crate without its tests.
fn sources(folder: &str) -> Vec<Page> {
    let mut sources = below(folder, ".rs");
    sources.retain(|source| !source.path.contains("test"));
    sources
}

#[test]
fn the_page_of_each_operator_names_every_condition_reason_and_event_of_its_source() {
    let shared = one(OPERATORS[0].0);
    let mut missing = BTreeSet::new();
    for (path, folders) in OPERATORS {
        let page = one(path);
        let is_named = |word: &str| {
            let code = format!("`{word}`");
            page.text.contains(&code) || shared.text.contains(&code)
        };
        for source in folders.iter().flat_map(|folder| sources(folder)) {
            let words = words(&source).into_iter().filter(|word| !is_named(word));
            missing.extend(words.map(|word| format!("{path} does not name `{word}` of {}", source.path)));
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_pages_of_operators_name_nothing_that_the_code_does_not_have() {
    let folders = ["crates", "operators", "agents", "cli/src", "embedded/providers"];
    let code: String = folders.iter().flat_map(|folder| below(folder, ".rs")).map(|source| source.text).collect();
    let known: BTreeSet<&str> = code.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let pages = OPERATORS.iter().map(|(path, _)| one(path)).chain([one("docs/troubleshooting.md")]);
    let mut unknown = Vec::new();
    for page in pages {
        let words = page.code().filter(|(_, word)| is_compound(word) && !known.contains(word));
        unknown.extend(words.map(|(number, word)| format!("{}:{number}: `{word}`", page.path)));
    }
    assert!(unknown.is_empty(), "nothing in the code is called so:\n{}", unknown.join("\n"));
}

#[test]
fn every_operator_has_a_page() {
    let folders = std::fs::read_dir(crate::pages::root().join("operators")).unwrap();
    for name in folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let page = format!("docs/operators/{name}.md");
        let is_known = OPERATORS.iter().any(|(path, _)| *path == page);
        assert!(is_known, "operators/{name} has no page: write {page}, and name it in OPERATORS");
    }
}

#[test]
fn every_metric_of_the_kit_is_on_the_page_about_monitoring() {
    let page = one("docs/monitoring.md").text;
    let metrics = one("crates/kit/src/metrics.rs").text;
    let code = metrics.split("#[cfg(test)]").next().unwrap();
    let names: Vec<&str> = code.split("registry.register(").skip(1).filter_map(|rest| rest.split('"').nth(1)).collect();
    assert!(names.len() > 8, "{names:?}");
    let missing: Vec<&str> = names.into_iter().filter(|name| !page.contains(&format!("c5c3_{name}"))).collect();
    assert!(missing.is_empty(), "docs/monitoring.md does not name c5c3_{}", missing.join(", c5c3_"));
}

#[test]
fn a_reason_is_told_from_other_words() {
    let source = "//! \"InComment\"\nstep.reasons(\"Done\", \"NotDone\") // x\nlet kind = \"Secret\"; // \"ConfigMap\"\n\
                  wait.failed(\"PoolNotFound\");\n#[cfg(test)]\nlet x = \"OnlyInTests\";";
    let page = Page { path: "a.rs".into(), text: source.into() };
    assert_eq!(words(&page).into_iter().collect::<Vec<_>>(), ["Done", "NotDone", "PoolNotFound"]);
    assert!(is_compound("APIReady") && !is_compound("API") && !is_compound("Ready") && !is_compound("Two words"));
}

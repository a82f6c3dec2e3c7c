//! What specs ask for, once everything in them is known to be provided.

use std::time::Duration;

use super::git::Commit;
use super::health;
use super::kinds::{GitReference, GitRepository, Kustomization};
use super::patch::Patch;
use super::refusal::{Refusal, duration, unknown};

/// How long git may take where no one says.
const GIT: Duration = Duration::from_mins(1);

/// How long objects may take to be healthy at least where no one says.
const HEALTHY: Duration = Duration::from_secs(30);

/// What is fetched, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) url: String,
    /// A reference, or the hash of a commit.
    pub(super) reference: String,
    /// What the revision calls the reference.
    called: Option<String>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

impl Fetch {
    /// What a GitRepository asks for.
    pub(super) fn of(repository: &GitRepository) -> Result<Self, Refusal> {
        let spec = &repository.spec;
        unknown("spec", &spec.other, &[("provider", "generic")])?;
        let asked = spec.reference.clone().unwrap_or_default();
        unknown("spec.ref", &asked.other, &[])?;
        let path = spec.url.strip_prefix("file://").unwrap_or(&spec.url);
        if !path.starts_with('/') || path.chars().any(char::is_control) {
            return Err(Refusal::field(
                "spec.url: only repositories on the machine of the cluster are fetched; write file:///srv/cloud or /srv/cloud, \
                 or run Flux itself on a cluster of yours",
            ));
        }
        let (reference, called) = reference(&asked)?;
        Ok(Self {
            url: spec.url.clone(),
            reference,
            called,
            interval: duration("spec.interval", &spec.interval)?,
            timeout: spec.timeout.as_deref().map_or(Ok(GIT), |text| duration("spec.timeout", text))?,
        })
    }

    /// The revision that a commit is.
    pub(super) fn revision(&self, commit: &Commit) -> String {
        match &self.called {
            Some(called) => format!("{called}@{}", commit.digest()),
            None => commit.digest(),
        }
    }
}

/// What is fetched, and what its revision calls it.
fn reference(asked: &GitReference) -> Result<(String, Option<String>), Refusal> {
    let set = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    if let Some(commit) = set(&asked.commit) {
        Commit::parse(&commit)
            .ok_or_else(|| Refusal::field(format!("spec.ref.commit: {commit} is not the hash of a commit")))?;
        return Ok((commit, set(&asked.branch)));
    }
    let (field, reference, called) = if let Some(name) = set(&asked.name) {
        ("name", name.clone(), name)
    } else if let Some(tag) = set(&asked.tag) {
        ("tag", format!("refs/tags/{tag}"), tag)
    } else {
        let branch = set(&asked.branch).unwrap_or_else(|| "master".into());
        ("branch", format!("refs/heads/{branch}"), branch)
    };
    // It becomes part of a refspec, where some characters have a meaning.
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control() || ":*?[]^~\\".contains(letter);
    if !reference.starts_with("refs/") || reference.contains("..") || reference.contains(is_odd) {
        return Err(Refusal::field(format!("spec.ref.{field}: {called} is not a reference of git")));
    }
    Ok((reference, Some(called)))
}

/// What is applied, and how often.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) interval: Duration,
    /// How soon what failed is tried again.
    pub(super) retry: Duration,
    /// How long objects may take to be healthy.
    pub(super) timeout: Duration,
    pub(super) patches: Vec<Patch>,
}

impl Wanted {
    /// What a Kustomization asks for.
    pub(super) fn of(kustomization: &Kustomization) -> Result<Self, Refusal> {
        let spec = &kustomization.spec;
        unknown("spec", &spec.other, &[])?;
        for (index, dependency) in spec.depends_on.iter().enumerate() {
            unknown(&format!("spec.dependsOn[{index}]"), &dependency.other, &[])?;
        }
        if spec.source_ref.kind != "GitRepository" {
            return Err(Refusal::field(format!(
                "spec.sourceRef.kind: {} is not provided by the stand-in for Flux of this cluster; write GitRepository",
                spec.source_ref.kind
            )));
        }
        let policy = spec.deletion_policy.as_deref().unwrap_or("MirrorPrune");
        if !["MirrorPrune", "Delete", "Orphan"].contains(&policy) {
            let message = format!("spec.deletionPolicy: {policy} is not provided; write MirrorPrune, Delete or Orphan");
            return Err(Refusal::field(message));
        }
        let own = (kustomization.metadata.namespace.clone(), kustomization.metadata.name.clone());
        if kustomization.dependencies().any(|(namespace, name)| (Some(namespace), Some(name)) == own) {
            return Err(Refusal::field("spec.dependsOn: names this Kustomization itself"));
        }
        for (index, expression) in spec.health_check_exprs.iter().enumerate() {
            let wrong = |error| Refusal::field(format!("spec.healthCheckExprs[{index}]: {error}"));
            health::check(expression).map_err(wrong)?;
        }
        let patches = spec.patches.iter().enumerate();
        let patches = patches.map(|(index, patch)| Patch::read(&format!("spec.patches[{index}]"), patch));
        let patches = patches.collect::<Result<_, _>>().map_err(Refusal::field)?;
        let interval = duration("spec.interval", &spec.interval)?;
        let or = |field, text: Option<&String>, otherwise| text.map_or(Ok(otherwise), |text| duration(field, text));
        Ok(Self {
            interval,
            retry: or("spec.retryInterval", spec.retry_interval.as_ref(), interval)?,
            timeout: or("spec.timeout", spec.timeout.as_ref(), interval.max(HEALTHY))?,
            patches,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::object;

    fn fetch(more: &Value) -> Result<Fetch, String> {
        let mut spec = json!({"interval": "1m", "url": "file:///srv/cloud"});
        more.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
        Fetch::of(&object("cloud", "marsh", spec)).map_err(|refusal| refusal.message)
    }

    fn wanted(more: &Value) -> Result<Wanted, String> {
        let mut spec =
            json!({"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "cloud"}});
        more.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
        Wanted::of(&object("cloud", "marsh", spec)).map_err(|refusal| refusal.message)
    }

    #[test]
    fn what_is_fetched_follows_the_first_of_commit_name_tag_and_branch() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let commit = Commit::parse(hash).unwrap();
        for (asked, reference, revision) in [
            (json!({}), "refs/heads/master", "master@sha1:"),
            (json!({"branch": "main"}), "refs/heads/main", "main@sha1:"),
            (json!({"branch": "main", "tag": "v1"}), "refs/tags/v1", "v1@sha1:"),
            (json!({"tag": "v1", "name": "refs/pull/4/head"}), "refs/pull/4/head", "refs/pull/4/head@sha1:"),
            (json!({"commit": hash}), hash, "sha1:"),
            (json!({"commit": hash, "branch": "main"}), hash, "main@sha1:"),
        ] {
            let fetch = fetch(&json!({"ref": asked})).unwrap();
            assert_eq!((fetch.reference.as_str(), fetch.revision(&commit)), (reference, format!("{revision}{hash}")));
        }
    }

    #[test]
    fn only_repositories_and_references_of_this_machine_are_fetched() {
        assert!(fetch(&json!({"url": "/srv/cloud", "provider": "generic", "timeout": "5s"})).is_ok());
        for (more, expected) in [
            (json!({"url": "https://git.example/cloud"}), "spec.url: only repositories on the machine"),
            (json!({"url": "file://host/cloud"}), "spec.url: "),
            (json!({"url": "../cloud"}), "spec.url: "),
            (json!({"ref": {"branch": "a:refs/heads/b"}}), "spec.ref.branch: "),
            (json!({"ref": {"branch": "*"}}), "spec.ref.branch: "),
            (json!({"ref": {"name": "--upload-pack=x"}}), "spec.ref.name: "),
            (json!({"ref": {"commit": "main"}}), "spec.ref.commit: "),
            (json!({"ref": {"semver": ">=1"}}), "spec.ref.semver: not provided"),
            (json!({"secretRef": {"name": "key"}}), "spec.secretRef: not provided"),
            (json!({"interval": "often"}), "spec.interval: "),
            (json!({"timeout": "-1s"}), "spec.timeout: "),
        ] {
            let said = fetch(&more).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn what_a_kustomization_asks_for_that_is_not_provided_is_refused_by_its_field() {
        let usual = wanted(&json!({"retryInterval": "10s"})).unwrap();
        assert_eq!((usual.interval.as_secs(), usual.retry.as_secs(), usual.timeout.as_secs()), (60, 10, 60));
        assert_eq!(wanted(&json!({"interval": "1s"})).unwrap().timeout.as_secs(), 30);
        for (more, expected) in [
            (json!({"kubeConfig": {"secretRef": {"name": "hub"}}}), "spec.kubeConfig: not provided"),
            (json!({"sourceRef": {"kind": "OCIRepository", "name": "cloud"}}), "spec.sourceRef.kind: OCIRepository"),
            (
                json!({"dependsOn": [{"name": "base", "readyExpr": "true"}]}),
                "spec.dependsOn[0].readyExpr: not provided",
            ),
            (json!({"dependsOn": [{"name": "cloud"}]}), "spec.dependsOn: names this Kustomization itself"),
            (json!({"deletionPolicy": "WaitForTermination"}), "spec.deletionPolicy: WaitForTermination"),
            (json!({"patches": [{"patch": "word"}]}), "spec.patches[0]: "),
            (
                json!({"healthCheckExprs": [{"apiVersion": "v1", "kind": "Pod", "current": "a."}]}),
                "spec.healthCheckExprs[0]: ",
            ),
            (json!({"timeout": "soon"}), "spec.timeout: "),
        ] {
            let said = wanted(&more).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}

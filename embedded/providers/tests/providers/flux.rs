//! GitRepository and Kustomization, with commits of real git repositories.

use std::path::Path;
use std::process::Command;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_providers::flux::{GitRepository, Kustomization};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::stage::{Objects, Stage};

/// A git repository with a branch `main`.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().expect("a folder"));
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path()).args(["-c", "commit.gpgsign=false"]).args(args);
        git.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "wren").env(format!("GIT_{who}_EMAIL"), "wren@marsh.example");
        }
        let output = git.output().expect("git is installed: tools/packages");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Commits files; an empty one is removed. Returns the revision.
    fn commit(&self, files: &[(&str, String)]) -> String {
        for (path, content) in files {
            let path = self.path().join(path);
            if content.is_empty() {
                std::fs::remove_file(path).expect("a file to remove");
                continue;
            }
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "Change the marsh"]);
        format!("main@sha1:{}", self.git(&["rev-parse", "HEAD"]))
    }
}

/// A ConfigMap as a file.
fn bird(name: &str, song: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{song: {song}}}\n")
}

fn object(kind: &str, name: &str, usual: Value, more: &Value) -> Value {
    let group = if kind == "GitRepository" { "source" } else { "kustomize" };
    let mut spec = usual;
    more.as_object().expect("fields").iter().for_each(|(field, value)| spec[field] = value.clone());
    let version = format!("{group}.toolkit.fluxcd.io/v1");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn git_repository(repository: &Repository, more: &Value) -> Value {
    let url = format!("file://{}", repository.path().display());
    object("GitRepository", "marsh", json!({"interval": "1s", "url": url, "ref": {"branch": "main"}}), more)
}

fn kustomization(name: &str, more: &Value) -> Value {
    let source = json!({"kind": "GitRepository", "name": "marsh"});
    let usual = json!({"interval": "1h", "retryInterval": "2s", "prune": true, "path": "./birds", "sourceRef": source});
    object("Kustomization", name, usual, more)
}

/// What an object has to say.
trait Says: Objects {
    fn conditions(&self) -> &[Condition];

    fn says(&self, condition: &str) -> Option<(ConditionStatus, &str, &str)> {
        let found = self.conditions().iter().find(|one| one.r#type == condition)?;
        Some((found.status, found.reason.as_deref()?, found.message.as_deref()?))
    }
}

impl Says for GitRepository {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
    }
}

impl Says for Kustomization {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
    }
}

impl Stage {
    /// Waits until a revision is applied and healthy.
    async fn applied(&self, name: &str, revision: &str) -> Kustomization {
        let is_there = |object: Option<&Kustomization>| {
            let applied = object.and_then(|object| object.status.as_ref()?.last_applied_revision.as_deref());
            let ready = object.and_then(|object| object.says("Ready"));
            applied == Some(revision) && ready.is_some_and(|(status, ..)| status == ConditionStatus::True)
        };
        let object = self.eventually::<Kustomization>(name, is_there).await.expect("it is there");
        self.is_as_flux_writes_it(&object).await;
        object
    }

    /// Waits until something is not ready for a reason, and returns what it says.
    async fn says_no<K: Says>(&self, name: &str, reason: &'static str) -> String {
        let says = move |object: Option<&K>| {
            let ready = object.and_then(|object| object.says("Ready"));
            ready.is_some_and(|(status, why, _)| status == ConditionStatus::False && why == reason)
        };
        let object = self.eventually::<K>(name, says).await.expect("it is there");
        self.is_as_flux_writes_it(&object).await;
        object.says("Ready").expect("a condition").2.to_owned()
    }

    /// Every field is one of Flux. Only URLs of files are our own.
    async fn is_as_flux_writes_it<K: Says>(&self, object: &K) {
        let kind = ApiResource::erase::<K>(&());
        let api = Api::<DynamicObject>::default_namespaced_with(self.client.clone(), &kind);
        let written = api.get(&object.name_any()).await.expect("an object");
        let mut written = serde_json::to_value(written).expect("JSON");
        if kind.kind == "GitRepository" {
            written["spec"]["url"] = json!("https://git.example/marsh");
        }
        let problems = c5c3_contracts::problems(&written);
        assert!(problems.is_empty(), "{}\n{written:#}", problems.join("\n"));
    }

    /// Waits until a bird sings so; one without a song is not there.
    async fn sings(&self, name: &str, song: Option<&str>) {
        let sings = |bird: Option<&ConfigMap>| match (bird, song) {
            (None, None) => true,
            (Some(bird), Some(song)) => bird.data.as_ref().is_some_and(|data| data["song"] == song),
            _ => false,
        };
        self.eventually::<ConfigMap>(name, sings).await;
    }

    async fn song(&self, name: &str) -> Option<String> {
        let bird = self.api::<ConfigMap>().get_opt(name).await.expect("an answer")?;
        bird.data.and_then(|mut data| data.remove("song"))
    }
}

/// A stage with a repository, its GitRepository `marsh` and a Kustomization `birds`, which applied a heron and a wren.
async fn with_birds() -> (Stage, Repository) {
    let (stage, repository) = (Stage::set().await, Repository::new());
    let first =
        repository.commit(&[("birds/heron.yaml", bird("heron", "low")), ("birds/wren.yaml", bird("wren", "high"))]);
    stage.create::<GitRepository>(git_repository(&repository, &json!({}))).await;
    stage.create::<Kustomization>(kustomization("birds", &json!({}))).await;
    stage.applied("birds", &first).await;
    (stage, repository)
}

#[tokio::test]
async fn a_commit_becomes_objects_and_what_the_next_one_removes_is_deleted() {
    let (stage, repository) = with_birds().await;
    let heron = stage.api::<ConfigMap>().get("heron").await.unwrap();
    assert_eq!(heron.labels()["kustomize.toolkit.fluxcd.io/name"], "birds");
    let managers: Vec<_> = heron.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    assert_eq!(managers, ["kustomize-controller"]);

    let next = repository.commit(&[("birds/heron.yaml", bird("heron", "lower")), ("birds/wren.yaml", String::new())]);
    let birds = stage.applied("birds", &next).await;
    assert_eq!((stage.song("heron").await.as_deref(), stage.song("wren").await), (Some("lower"), None));
    let inventory: Vec<String> =
        birds.status.unwrap().inventory.unwrap().entries.into_iter().map(|entry| entry.id).collect();
    assert_eq!(inventory, ["default_heron__ConfigMap"]);
    let artifact = stage.api::<GitRepository>().get("marsh").await.unwrap().status.unwrap().artifact.unwrap();
    assert_eq!(artifact.revision, next);

    // An annotation keeps an object that is gone from the repository.
    repository.commit(&[("birds/wren.yaml", bird("wren", "high"))]);
    stage.sings("wren", Some("high")).await;
    stage
        .change::<ConfigMap>(
            "wren",
            json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/prune": "disabled"}}}),
        )
        .await;
    let last = repository.commit(&[("birds/wren.yaml", String::new())]);
    stage.applied("birds", &last).await;
    assert_eq!(stage.song("wren").await.as_deref(), Some("high"));
}

#[tokio::test]
async fn a_broken_commit_changes_nothing_and_the_one_that_mends_it_is_applied() {
    let (stage, repository) = with_birds().await;
    let applied = stage.api::<Kustomization>().get("birds").await.unwrap().status.unwrap();
    let is_unchanged = async || {
        let now = stage.api::<Kustomization>().get("birds").await.unwrap().status.unwrap();
        assert_eq!(
            (now.last_applied_revision, now.inventory),
            (applied.last_applied_revision.clone(), applied.inventory.clone())
        );
        assert_eq!(
            (stage.song("heron").await.as_deref(), stage.song("wren").await.as_deref()),
            (Some("low"), Some("high"))
        );
        assert_eq!(stage.song("bittern").await, None);
    };
    repository.commit(&[("birds/heron.yaml", bird("heron", "loud")), ("birds/owl.yaml", "kind: [".into())]);
    let why = stage.says_no::<Kustomization>("birds", "BuildFailed").await;
    assert!(why.starts_with("birds/owl.yaml:"), "{why}");
    is_unchanged().await;

    // A name that the API refuses, in the last of three files.
    let refused = bird("Owl_of_the_marsh", "hoo");
    let changes = [
        ("birds/bittern.yaml", bird("bittern", "boom")),
        ("birds/owl.yaml", refused),
        ("birds/wren.yaml", String::new()),
    ];
    let third = repository.commit(&changes);
    let why = stage.says_no::<Kustomization>("birds", "ReconciliationFailed").await;
    assert!(why.starts_with("birds/owl.yaml: ") && why.contains("Owl_of_the_marsh"), "{why}");
    is_unchanged().await;
    let status = stage.api::<Kustomization>().get("birds").await.unwrap().status.unwrap();
    assert_eq!(status.last_attempted_revision, Some(third));

    let unknown =
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: owl, namespace: default}\n";
    repository.commit(&[("birds/owl.yaml", unknown.into())]);
    let says = |object: Option<&Kustomization>| {
        object
            .and_then(|object| object.says("Ready"))
            .is_some_and(|(.., said)| said.contains("install charts with `helm`"))
    };
    stage.eventually::<Kustomization>("birds", says).await;
    is_unchanged().await;

    let mended = repository.commit(&[("birds/owl.yaml", bird("owl", "hoo"))]);
    stage.applied("birds", &mended).await;
    for (name, song) in [("heron", Some("loud")), ("bittern", Some("boom")), ("owl", Some("hoo")), ("wren", None)] {
        assert_eq!(stage.song(name).await.as_deref(), song, "{name}");
    }
}

#[tokio::test]
async fn kinds_and_namespaces_of_a_commit_are_there_before_what_needs_them() {
    let (stage, repository) = with_birds().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "nests.marsh.example"},
        "spec": {"group": "marsh.example", "scope": "Namespaced", "names": {"kind": "Nest", "plural": "nests"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"eggs": {"type": "integer"}}}}}}}]},
    });
    let nest = |eggs: &str| {
        format!(
            "apiVersion: marsh.example/v1\nkind: Nest\nmetadata: {{name: reed, namespace: pond}}\nspec: {{eggs: {eggs}}}\n"
        )
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: pond}\n";
    let files = [
        ("birds/a-nest.yaml", nest("4")),
        ("birds/kinds.yaml", definition.to_string()),
        ("birds/namespace.yaml", namespace.into()),
    ];
    let revision = repository.commit(&files);
    stage.applied("birds", &revision).await;
    let kind = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("marsh.example", "v1", "Nest"));
    let nests = Api::<DynamicObject>::namespaced_with(stage.client.clone(), "pond", &kind);
    assert_eq!(nests.get("reed").await.unwrap().data["spec"]["eggs"], 4);

    repository.commit(&[("birds/a-nest.yaml", nest("many")), ("birds/heron.yaml", String::new())]);
    let why = stage.says_no::<Kustomization>("birds", "ReconciliationFailed").await;
    assert!(why.starts_with("birds/a-nest.yaml: "), "{why}");
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
}

#[tokio::test]
async fn what_is_suspended_is_left_alone_and_goes_on_with_the_newest_commit() {
    let (stage, repository) = with_birds().await;
    stage.change::<Kustomization>("birds", json!({"spec": {"suspend": true}})).await;
    let second =
        repository.commit(&[("birds/heron.yaml", bird("heron", "lower")), ("fish/pike.yaml", bird("pike", "none"))]);
    // Another Kustomization of the same repository has seen the commit.
    stage.create::<Kustomization>(kustomization("fish", &json!({"path": "./fish"}))).await;
    stage.applied("fish", &second).await;
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
    stage.change::<Kustomization>("birds", json!({"spec": {"suspend": false}})).await;
    stage.applied("birds", &second).await;
    assert_eq!(stage.song("heron").await.as_deref(), Some("lower"));

    stage.change::<GitRepository>("marsh", json!({"spec": {"suspend": true}})).await;
    let third = repository.commit(&[("birds/heron.yaml", bird("heron", "lowest"))]);
    stage.change::<Kustomization>("birds", json!({"spec": {"interval": "30m"}})).await;
    let seen = |object: Option<&Kustomization>| {
        object.is_some_and(|object| object.status.as_ref().unwrap().observed_generation == object.metadata.generation)
    };
    stage.eventually::<Kustomization>("birds", seen).await;
    stage.applied("birds", &second).await;
    stage.change::<GitRepository>("marsh", json!({"spec": {"suspend": false}})).await;
    stage.applied("birds", &third).await;
}

#[tokio::test]
async fn a_request_fetches_and_applies_at_once_and_a_commit_alone_waits_for_the_interval() {
    let (stage, repository) = (Stage::set().await, Repository::new());
    let first = repository.commit(&[("birds/heron.yaml", bird("heron", "low"))]);
    stage.create::<GitRepository>(git_repository(&repository, &json!({"interval": "1h"}))).await;
    stage.create::<Kustomization>(kustomization("birds", &json!({"path": "/birds"}))).await;
    stage.applied("birds", &first).await;
    let second = repository.commit(&[("birds/heron.yaml", bird("heron", "lower"))]);
    // What someone changed by hand is put right, too.
    stage.change::<ConfigMap>("heron", json!({"data": {"song": "out of tune"}})).await;
    let request = |at: &str| json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}});
    stage.change::<Kustomization>("birds", request("1")).await;
    let handled = |at: &'static str| {
        move |object: Option<&Kustomization>| {
            let handled = object.and_then(|object| object.status.as_ref()?.last_handled_reconcile_at.as_deref());
            handled == Some(at)
        }
    };
    stage.eventually::<Kustomization>("birds", handled("1")).await;
    stage.sings("heron", Some("low")).await;
    stage.change::<GitRepository>("marsh", request("2")).await;
    stage.applied("birds", &second).await;
    let marsh = stage.api::<GitRepository>().get("marsh").await.unwrap();
    assert_eq!(marsh.status.as_ref().unwrap().last_handled_reconcile_at.as_deref(), Some("2"));
    stage.is_as_flux_writes_it(&marsh).await;
}

#[tokio::test]
async fn one_waits_for_what_it_depends_on_and_that_for_its_objects_to_be_healthy() {
    let (stage, repository) = (Stage::set().await, Repository::new());
    let revision =
        repository.commit(&[("birds/heron.yaml", bird("heron", "low")), ("fish/pike.yaml", bird("pike", "none"))]);
    stage.create::<GitRepository>(git_repository(&repository, &json!({}))).await;
    let after = json!({"path": "./fish", "dependsOn": [{"name": "birds"}], "wait": true});
    stage.create::<Kustomization>(kustomization("fish", &after)).await;
    let why = stage.says_no::<Kustomization>("fish", "DependencyNotReady").await;
    assert_eq!(why, "dependency 'default/birds' not found");
    let gate = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gate"}]);
    stage.create::<Kustomization>(kustomization("birds", &json!({"healthChecks": gate, "timeout": "3s"}))).await;
    let waits = |object: Option<&Kustomization>| {
        let healthy = object.and_then(|object| object.says("Healthy"));
        healthy.is_some_and(|(status, ..)| status == ConditionStatus::Unknown)
    };
    let birds = stage.eventually::<Kustomization>("birds", waits).await.unwrap();
    assert_eq!(birds.says("Ready").unwrap().2, "ConfigMap/default/gate: is not there");
    let why = stage.says_no::<Kustomization>("birds", "HealthCheckFailed").await;
    assert_eq!(why, "timeout waiting for: ConfigMap/default/gate: is not there");
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"), "it is applied all the same");
    assert_eq!(stage.song("pike").await, None);
    stage.create::<ConfigMap>(json!({"metadata": {"name": "gate"}})).await;
    let birds = stage.applied("birds", &revision).await;
    assert_eq!(birds.says("Healthy").unwrap().0, ConditionStatus::True);
    stage.applied("fish", &revision).await;
    assert_eq!(stage.song("pike").await.as_deref(), Some("none"));
}

#[tokio::test]
async fn with_a_kustomization_goes_what_it_applied_unless_it_is_to_be_left() {
    let (stage, repository) = with_birds().await;
    let revision =
        repository.commit(&[("fish/pike.yaml", bird("pike", "none")), ("fish/eel.yaml", bird("eel", "none"))]);
    for (name, more) in [("fish", json!({"path": "./fish"})), ("orphans", json!({"deletionPolicy": "Orphan"}))] {
        stage.create::<Kustomization>(kustomization(name, &more)).await;
        stage.applied(name, &revision).await;
    }
    stage
        .change::<ConfigMap>("eel", json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "other"}}}))
        .await;
    stage.delete::<Kustomization>("fish").await;
    stage.sings("pike", None).await;
    assert_eq!(stage.song("eel").await.as_deref(), Some("none"), "another one has it now");
    stage.delete::<Kustomization>("orphans").await;
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
    stage.delete::<GitRepository>("marsh").await;
    stage.says_no::<Kustomization>("birds", "ArtifactFailed").await;
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"), "nothing goes with the repository");
}

#[tokio::test]
async fn what_is_not_provided_is_refused_by_its_field_and_what_is_not_there_is_awaited() {
    let (stage, repository) = (Stage::set().await, Repository::new());
    let elsewhere = json!({"url": "https://git.example/marsh"});
    stage.create::<GitRepository>(git_repository(&repository, &elsewhere)).await;
    let why = stage.says_no::<GitRepository>("marsh", "InvalidField").await;
    assert!(why.starts_with("spec.url: only repositories on the machine"), "{why}");
    stage.create::<Kustomization>(kustomization("birds", &json!({"postBuild": {"substitute": {"a": "b"}}}))).await;
    let why = stage.says_no::<Kustomization>("birds", "UnsupportedField").await;
    assert!(why.starts_with("spec.postBuild: not provided"), "{why}");
    let birds = stage.api::<Kustomization>().get("birds").await.unwrap();
    assert_eq!(birds.says("Stalled").unwrap().0, ConditionStatus::True);
    stage.change::<Kustomization>("birds", json!({"spec": {"postBuild": null}})).await;
    let why = stage.says_no::<Kustomization>("birds", "ArtifactFailed").await;
    assert!(why.starts_with("Source 'GitRepository/default/marsh' has no artifact: spec.url"), "{why}");

    // A folder that is not there yet, and then is not a repository.
    let moved = repository.path().join("moved");
    stage.change::<GitRepository>("marsh", json!({"spec": {"url": moved.to_str().unwrap()}})).await;
    let why = stage.says_no::<GitRepository>("marsh", "GitOperationFailed").await;
    assert!(why.contains("does not appear to be a git repository"), "{why}");
    let later = Repository::new();
    let revision = later.commit(&[("birds/heron.yaml", bird("heron", "low"))]);
    std::os::unix::fs::symlink(later.path(), &moved).unwrap();
    stage.applied("birds", &revision).await;
    let why = json!({"spec": {"path": "./fish"}});
    stage.change::<Kustomization>("birds", why).await;
    let why = stage.says_no::<Kustomization>("birds", "ArtifactFailed").await;
    assert!(why.contains("kustomization path not found") && why.contains("./fish"), "{why}");
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
}

#[tokio::test]
async fn a_commit_or_a_tag_is_applied_though_the_branch_has_gone_on() {
    let (stage, repository) = (Stage::set().await, Repository::new());
    let first = repository.commit(&[("birds/heron.yaml", bird("heron", "low"))]);
    repository.git(&["tag", "--annotate", "--message", "The first", "v1"]);
    repository.commit(&[("birds/heron.yaml", bird("heron", "lower"))]);
    let last = repository.commit(&[("birds/heron.yaml", bird("heron", "lowest"))]);
    let hash = first.rsplit_once(':').unwrap().1;
    stage.create::<GitRepository>(git_repository(&repository, &json!({"ref": {"commit": hash}}))).await;
    stage.create::<Kustomization>(kustomization("birds", &json!({}))).await;
    stage.applied("birds", &format!("sha1:{hash}")).await;
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
    for (reference, revision) in [
        (json!({"commit": null, "branch": "main"}), last.clone()),
        (json!({"tag": "v1"}), first.replace("main@", "v1@")),
        (json!({"tag": null, "name": "refs/heads/main"}), format!("refs/heads/{last}")),
    ] {
        stage.change::<GitRepository>("marsh", json!({"spec": {"ref": reference}})).await;
        stage.applied("birds", &revision).await;
    }
    assert_eq!(stage.song("heron").await.as_deref(), Some("lowest"));
}

#[tokio::test]
async fn patches_and_the_namespace_of_a_kustomization_change_what_is_applied() {
    let (stage, repository) = with_birds().await;
    let pond: Namespace = crate::stage::of(json!({"metadata": {"name": "pond"}}));
    Api::<Namespace>::all(stage.client.clone()).create(&kube::api::PostParams::default(), &pond).await.unwrap();
    let change = "- {op: replace, path: /data/song, value: silence}";
    let more = json!({"targetNamespace": "pond", "patches": [{"patch": change, "target": {"name": "her.*"}}]});
    stage.create::<Kustomization>(kustomization("pond", &more)).await;
    let revision = format!("main@sha1:{}", repository.git(&["rev-parse", "HEAD"]));
    stage.applied("pond", &revision).await;
    let birds = Api::<ConfigMap>::namespaced(stage.client.clone(), "pond");
    let song = async |name: &str| birds.get(name).await.unwrap().data.unwrap()["song"].clone();
    assert_eq!((song("heron").await.as_str(), song("wren").await.as_str()), ("silence", "high"));
    assert_eq!(stage.song("heron").await.as_deref(), Some("low"));
}

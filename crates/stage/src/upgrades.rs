//! Upgrades from one release to another: what is planned in each phase, and how it goes when operators die on the way.

use c5c3_api::openstack::ServiceObject;
use c5c3_kit::{Child, Plan};
use c5c3_service::component::{Component, Kind};
use c5c3_service::{Instance, ReleaseOptions, Service};
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::Condition;
use serde_json::{Value, json};

use crate::installs::LIVES;
use crate::{Stage, World, file, merge};

/// The components of an object, in the order in which an upgrade replaces them.
fn components<S: Service>(object: &Value) -> Vec<Component> {
    let object: S::Kind = serde_json::from_value(object.clone()).expect("an object is of its kind");
    S::describe(&object, &Instance::new(S::NAME, object.meta())).components
}

fn kind(component: &Component) -> &'static str {
    match component.kind {
        Kind::Deployment => "Deployment",
        Kind::StatefulSet { .. } => "StatefulSet",
        Kind::DaemonSet => "DaemonSet",
    }
}

fn image<S: Service>(tag: &str) -> Value {
    json!({"repository": format!("ghcr.io/c5c3/{}", S::NAME), "tag": tag})
}

/// An object of that spec with the image of that tag.
fn at<S: Service>(spec: &Value, tag: &str) -> Value
where
    <S::Kind as Resource>::Scope: 'static,
{
    let mut spec = spec.clone();
    merge(&mut spec, &json!({"image": image::<S>(tag)}));
    World::<S>::object(&spec)
}

/// The Jobs of a plan that change schemas.
fn migrations(plan: &Plan) -> impl Iterator<Item = &Child> {
    let group = |child: &Child| child.object.metadata.labels.as_ref()?.get("c5c3.io/job-group").cloned();
    plan.children().filter(move |child| child.resource.kind == "Job" && group(child).as_deref() == Some("schema"))
}

/// What a Job is called without its hash, and its commands without options.
fn described(job: &Child) -> String {
    let pod = &job.object.data["spec"]["template"]["spec"];
    let containers = ["initContainers", "containers"].into_iter().filter_map(|field| pod[field].as_array()).flatten();
    let command = |container: &Value| {
        let words = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        let is_program = |word: &&str| word.contains("/bin/") && !word.ends_with("/python");
        let own = words.iter().position(is_program).map_or(&words[..], |place| &words[place..]);
        let own =
            own.iter().filter(|word| !word.starts_with("--")).map(|word| word.rsplit("/bin/").next().unwrap_or(word));
        own.collect::<Vec<_>>().join(" ")
    };
    format!("{} ({})", base(&job.reference().name), containers.map(command).collect::<Vec<_>>().join("; "))
}

fn base(job: &str) -> &str {
    let name = job.rsplit_once('-').map_or(job, |(name, _)| name);
    name.strip_prefix("gate-").unwrap_or(name)
}

impl<S: Service> World<S>
where
    <S::Kind as Resource>::Scope: 'static,
{
    /// What is done with the schemas on the way from one tag to another: what is recorded of the way, and the Jobs with their
    /// commands, a line for each reconcile. After each all Jobs are complete, and all pods have the new image.
    ///
    /// # Panics
    /// If the upgrade is refused, or does not end.
    pub fn upgrade(mut self, spec: &Value, from: &str, to: &str) -> Vec<String> {
        let mut object = at::<S>(spec, to);
        object["status"] = json!({"conditions": [], "installedRelease": from});
        let mut lines = Vec::new();
        loop {
            let plan = self.plan(&object).expect("the upgrade is allowed");
            let phase = plan.status.get("upgradePhase").and_then(Value::as_str);
            let jobs: Vec<String> = migrations(&plan).map(described).collect();
            lines.push(format!("{}: {}", phase.unwrap_or("done"), jobs.join(", ")));
            if phase.is_none() {
                assert_eq!(plan.status["installedRelease"], to);
                return lines;
            }
            for field in ["installedRelease", "targetRelease", "upgradePhase"] {
                object["status"][field] = plan.status[field].clone();
            }
            for job in migrations(&plan) {
                let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
                let metadata = json!({"name": job.reference().name, "namespace": "cloud"});
                self =
                    self.with(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": done}));
            }
            for component in components::<S>(&object) {
                self = self.with(rolled::<S>(&component, to));
            }
            assert!(lines.len() < 10, "{lines:#?}");
        }
    }

    /// The options of the main configuration that the release of a tag does not have, or not with such a value.
    ///
    /// # Panics
    /// If nothing is known of the release.
    pub fn unknown_options(&self, spec: &Value, tag: &str) -> Vec<String> {
        let plan = self.plan(&at::<S>(spec, tag)).expect("the object is valid");
        let release = c5c3_service::image::Version::of(tag).and_then(|version| version.release(S::NAME));
        let known = release.and_then(|release| ReleaseOptions::of(S::NAME, &release)).expect("a release that is known");
        let (text, mut section, mut unknown) = (file(&plan, "gate-config", S::CONF), String::new(), Vec::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut section);
            } else if let Some((option, value)) = line.split_once(" = ") {
                unknown.extend(known.check(&format!("[{section}] {option}"), &section, option, value));
            }
        }
        unknown.iter().map(ToString::to_string).collect()
    }
}

/// What runs a component, with all pods at a tag and ready.
fn rolled<S: Service>(component: &Component, tag: &str) -> Value {
    let containers = json!([{"image": format!("ghcr.io/c5c3/{}:{tag}", S::NAME)}]);
    json!({"apiVersion": "apps/v1", "kind": kind(component),
           "metadata": {"name": format!("gate-{}", component.name), "namespace": "cloud", "generation": 1},
           "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}},
           "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}})
}

/// Whether a tag is installed, and nothing is under way to another one.
fn runs<K: ServiceObject>(tag: &str) -> impl Condition<K> {
    let tag = tag.to_owned();
    move |object: Option<&K>| {
        let status = object.and_then(ServiceObject::status);
        status.is_some_and(|status| status.installed_release.as_deref() == Some(&tag) && status.upgrade_phase.is_none())
    }
}

impl<S: Service> Stage<S>
where
    S::Kind: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    /// Installs an object of that spec at a tag, and upgrades it to another one by operators that are killed after each change
    /// that they make. Returns the Jobs of schemas that have run, in their order.
    ///
    /// # Panics
    /// If the upgrade does not end; if pods of the new release run before the schema has what they need, or those of a component
    /// before all of the one before it; if the schema loses what pods of the old release need; or if a Job runs twice.
    pub async fn upgrade(&self, spec: &Value, from: &str, to: &str) -> Vec<String> {
        let object = at::<S>(spec, from);
        let installing = self.operate();
        self.create(&object).await;
        self.until_ready().await;
        self.until(runs(from)).await;
        drop(installing);
        let tag = Patch::Merge(json!({"spec": {"image": {"tag": to}}}));
        self.objects().patch("gate", &PatchParams::default(), &tag).await.expect("the new tag is taken");
        let mut lives = 0;
        loop {
            lives += 1;
            assert!(lives < LIVES, "the upgrade does not end: {:?}", self.jobs.ended());
            let is_over = self.live_until_a_change(runs(to)).await;
            self.is_in_order(&components::<S>(&object), to).await;
            if is_over {
                break;
            }
        }
        assert!(lives > 5, "killed {lives} times only");
        // The release is recorded before the last Job has ended.
        let _running = self.operate();
        self.until_ready().await;
        let mut ran: Vec<String> = self.jobs.ended().into_iter().filter(|name| name.starts_with("gate-db-")).collect();
        let bases = ran.iter().map(|name| base(name).to_owned()).collect();
        ran.sort();
        assert!(ran.windows(2).all(|pair| pair[0] != pair[1]), "a Job ran twice: {ran:?}");
        bases
    }

    /// Holds what runs to the order of an upgrade.
    async fn is_in_order(&self, components: &[Component], to: &str) {
        let mut new = Vec::new();
        for component in components {
            let api = self.api(&json!({"apiVersion": "apps/v1", "kind": kind(component)}));
            let live = api.get(&format!("gate-{}", component.name)).await.expect("a workload stays");
            let containers =
                live.data["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
            let image = format!("ghcr.io/c5c3/{}:{to}", S::NAME);
            new.push((&component.step, containers.iter().any(|container| container["image"] == image.as_str())));
        }
        let jobs = self.jobs.ended();
        let has_ended = |name: &str| jobs.iter().any(|job| base(job) == name);
        assert!(new.iter().all(|(_, new)| !new) || has_ended("db-expand"), "{new:?} before {jobs:?}");
        assert!(!has_ended("db-contract") || new.iter().all(|(_, new)| *new), "{jobs:?} before {new:?}");
        let is_overtaken = |pair: &[(_, bool)]| pair[0].0 != pair[1].0 && !pair[0].1 && pair[1].1;
        assert!(!new.windows(2).any(is_overtaken), "out of order: {new:?}");
    }
}

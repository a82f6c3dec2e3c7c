//! The steps of a service: which objects, in which order, and what each waits for. The graph of every service is this one.
//!
//! ```text
//!  record, dependencies ─┐
//!  database ─────────────┴─► schema ─┬─► <components> ─┬─► contract
//!  config, messaging ────────────────┘                 └─► health
//!  secrets ─► auth                      services ─► route
//! ```
//!
//! During an upgrade with offline migrations a step `offline` is between `schema` and the components.
//!
//! As long as something is missing, the steps that it is for are undecided: they keep what they have made.

mod files;
mod schema;

use std::collections::BTreeMap;

use c5c3_api::openstack::ServiceObject;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::plan::Needs;
use c5c3_kit::{Child, Inputs, KindRef, Plan, Step, StepName, Wait, hash, object};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use crate::backing_services::{BackingServices, Missing};
use crate::component::{API, Component};
use crate::database::Server;
use crate::job::{Command, JOB_POD, Run, fail_at_once};
use crate::network::{self, Traffic};
use crate::parts::Parts;
use crate::pod::Mount;
use crate::rotated_account::RotatedAccounts;
use crate::service::{OwnSteps, Service};
use crate::upgrade::{MigrationPhase, Progress};
use crate::workload::Workload;
use crate::{api, dependencies, operations, record, tls};

/// Hint for when the API does not answer and ingress is restricted.
const UNREACHED: &str = "it is probed through the API server, which may not reach it: spec.networkPolicy.ingress has to name \
                         the API server's addresses (cidr), as those of all clients";

/// The program that gets a token: `auth.py SETTINGS`.
const AUTH: &str = include_str!("auth.py");

/// How `auth.py` ends when Keystone refuses a credential: `EX_NOPERM` of sysexits.
const REFUSED: i32 = 77;

/// Everything that was looked up, and the configuration that is made from it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What the service stands on.
    pub backing: BackingServices,
    /// The main configuration file.
    pub conf: Ini,
}

/// A service's parts, and what was found out about them.
#[derive(Debug)]
pub struct ServicePlan<'a, S: Service> {
    /// The object, and what was read.
    pub inputs: &'a Inputs<S::Kind>,
    /// Its parts.
    pub parts: &'a Parts<'a, S>,
    /// What it stands on, or what is missing.
    pub resolved: Result<&'a Resolved, &'a Missing>,
    /// What is to be done with the database.
    pub migration_phase: MigrationPhase,
    /// What is to be recorded of that.
    pub progress: &'a Progress,
}

/// The main configuration file: what the layer writes, what the service writes, what users add.
pub(crate) fn render<S: Service>(parts: &Parts<'_, S>, backing: &BackingServices) -> Result<Ini, IniError> {
    let mut conf = Ini::new();
    operations::logging(&mut conf, S::NAME, parts.object.operations(), parts.description.quiet)?;
    conf.set("oslo_middleware", "enable_proxy_headers_parsing", true)?;
    conf.set("oslo_policy", "enforce_scope", true)?;
    conf.set("oslo_policy", "enforce_new_defaults", true)?;
    if !backing.rules.is_empty() {
        conf.set("oslo_policy", "policy_file", format!("{}/policy.yaml", S::FOLDER))?;
    }
    S::configure(parts.object, backing, &mut conf)?;
    parts.additions().apply(&mut conf)?;
    crate::extra_config::apply(&backing.settings, parts.release_options(), &mut conf)?;
    Ok(conf)
}

impl<S: Service> ServicePlan<'_, S> {
    /// All steps.
    pub(crate) fn plan(&self) -> Plan {
        let OwnSteps { before, between, after, requeue_after, removed, status } = S::steps(self);
        let mut plan = Plan::new().step(self.record()).step(self.secrets()).step(self.dependencies());
        plan.steps.extend(self.services());
        plan.steps.extend(before);
        plan = plan.step(self.claims()).step(self.database());
        plan.steps.extend(self.messaging());
        plan = plan.step(self.config()).step(self.schema());
        plan.steps.extend(self.offline());
        plan.steps.extend(between);
        plan.steps.extend(self.components());
        plan.steps.extend(self.without_pods(after));
        plan = plan.step(self.contract());
        plan.steps.extend(self.auth());
        plan = self.try_accounts(plan);
        plan.steps.extend(self.health());
        plan.steps.extend(self.pools());
        plan.steps.extend(self.route());
        plan.requeue_after = requeue_after;
        plan.removed_steps.extend(removed);
        status.into_iter().fold(plan, |plan, (field, value)| plan.status(field, value))
    }

    /// What goes on while the spec is wrong.
    pub(crate) fn maintenance(&self) -> Plan {
        let OwnSteps { before, after, requeue_after, .. } = S::maintenance(self);
        let mut plan = Plan::new();
        plan.steps = before.into_iter().chain(after).collect();
        plan.requeue_after = requeue_after;
        // It needs no step: what serves is asked, and what does not is what it was.
        plan.steps.extend(self.health().filter(|_| self.parts.serves(self.inputs)));
        plan
    }

    pub(crate) fn known(&self) -> Option<&Resolved> {
        self.resolved.ok()
    }

    /// The version and the phase, where they outlive the status. It is applied first: what is written down is acted on in the
    /// next reconcile.
    fn record(&self) -> Step {
        let child = record::child(&self.parts.instance, self.progress, self.parts.keeps_database());
        Step::new("DatabaseReady")
            .node("record", [])
            .child(child)
            .done("")
            .reasons("DatabaseSynced", "DBSyncInProgress")
    }

    fn secrets(&self) -> Step {
        let step = Step::new("SecretsReady").node("secrets", []).childless().done("every Secret exists");
        let mut waits: Vec<Wait> = Vec::new();
        for wait in self.resolved.err().into_iter().flat_map(|missing| &missing.secrets) {
            // Several servers may be signed in to with one account.
            if !waits.contains(wait) {
                waits.push(wait.clone());
            }
        }
        waits.into_iter().fold(step, Step::wait).reasons("SecretsAvailable", "WaitingForSecret")
    }

    /// Of a service that has run, nothing is asked of others but to come back.
    fn dependencies(&self) -> Step {
        let step = Step::new("DependenciesReady").node("dependencies", []).childless();
        let waits = if self.parts.has_run() {
            Vec::new()
        } else {
            dependencies::waits(self.parts.object.depends_on(), self.inputs, &self.parts.instance.namespace)
        };
        waits
            .into_iter()
            .fold(step, Step::wait)
            .done("what it depends on is ready")
            .reasons("DependenciesMet", "DependencyNotMet")
    }

    /// Where components are reached: known before they are there, since the catalog is made from it.
    fn services(&self) -> Option<Step> {
        let of_api = self.parts.api(self.inputs).map(|api| api.services()).unwrap_or_default();
        let others = self.parts.description.components.iter().filter(|component| component.name != API);
        let others = others.filter(|component| !component.ports().is_empty()).map(|component| {
            let name = self.parts.instance.named(&component.name);
            api::service(&self.parts.instance, &name, &component.name, &component.ports())
        });
        let children: Vec<Child> = of_api.into_iter().chain(others).collect();
        let step = Step::new("DeploymentReady")
            .node("services", [])
            .done("it has an address")
            .reasons("DeploymentAvailable", "DeploymentProgressing");
        (!children.is_empty()).then(|| step.children(children))
    }

    /// What leads to it from outside, if anything does. Nothing waits for it but `Ready`: Gateways are not ours.
    fn route(&self) -> Option<Step> {
        let api = self.parts.api(self.inputs)?;
        let step = Step::new("DeploymentReady").node("route", ["services"]);
        Some(match api.route() {
            Some(route) => step.child(route).done("its Gateway routes to it"),
            None => step.childless().done(""),
        })
    }

    /// Reserves the schemas, before anything is created for them.
    fn claims(&self) -> Step {
        let databases = &self.parts.description.databases;
        let claims: Vec<Child> = databases.iter().flat_map(Server::claims).collect();
        let step = Step::new("DatabaseReady").node("claims", []).done("");
        let step = step.reasons("DatabaseAvailable", "WaitingForDatabase");
        if claims.is_empty() { step.childless() } else { step.children(claims) }
    }

    fn database(&self) -> Step {
        let step = Step::new("DatabaseReady").done("the database and its account exist");
        let step = step.reasons("DatabaseAvailable", "WaitingForDatabase");
        match self.resolved {
            Ok(resolved) => {
                let opened = resolved.backing.databases.iter();
                let children: Vec<Child> = opened.flat_map(|opened| opened.server.objects(&opened.account)).collect();
                let step = step.node("database", ["claims"]);
                if children.is_empty() { step.childless() } else { step.children(children) }
            }
            Err(missing) => {
                // The database waits for nothing but its server and its account.
                let objects = missing.accounts.iter().flat_map(|(server, account)| server.objects(account));
                let children: Vec<Child> = objects.collect();
                let step = step.node("database", ["claims", "secrets"]);
                let waits = missing.database.clone();
                if children.is_empty() || !waits.is_empty() {
                    return step.undecided(waits);
                }
                step.children(children)
            }
        }
    }

    /// Virtual hosts and accounts on message brokers; no step for a service without one.
    fn messaging(&self) -> Option<Step> {
        let buses = &self.parts.description.messaging;
        if buses.is_empty() {
            return None;
        }
        let step =
            Step::new("MessagingReady").node("messaging", ["secrets"]).done("the virtual host and its account exist");
        let step = step.reasons("MessagingAvailable", "WaitingForRabbitMQ");
        let rotated = buses.iter().map(|bus| Some((bus, RotatedAccounts::find(self.inputs, bus.secret()).ok()?)));
        let Some(rotated) = rotated.collect::<Option<Vec<_>>>() else { return Some(step.undecided([])) };
        // Virtual hosts of one broker share the account.
        let mut children: Vec<Child> = Vec::new();
        for child in rotated.iter().flat_map(|(bus, accounts)| bus.objects(accounts)) {
            if children.iter().all(|other| other.reference() != child.reference()) {
                children.push(child);
            }
        }
        Some(match self.resolved.err().filter(|missing| !missing.messaging.is_empty()) {
            Some(missing) => step.undecided(missing.messaging.clone()),
            None if children.is_empty() => step.childless(),
            None => step.children(children),
        })
    }

    fn config(&self) -> Step {
        let step = Step::new("ConfigReady").done("rendered").reasons("Rendered", "WaitingForConfig");
        match self.resolved {
            Ok(resolved) => {
                let policy = self.policy_of_jobs(&resolved.backing);
                step.node("config", []).children(policy).child(self.files(resolved).child())
            }
            Err(missing) => step.node("config", ["secrets", "database"]).undecided(missing.config.clone()),
        }
    }

    /// The NetworkPolicy of Jobs: egress to what the service needs, no ingress.
    fn policy_of_jobs(&self, backing: &BackingServices) -> Option<Child> {
        let instance = &self.parts.instance;
        let labels =
            [("app.kubernetes.io/instance", instance.name.as_str()), ("app.kubernetes.io/name", S::NAME), JOB_POD];
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let pods = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
        let traffic = Traffic { component: "jobs", pods, ports: &[], egress: Some(backing.egress()) };
        let access = self.parts.object.exposure().network_policy.as_ref();
        network::policy(instance, traffic, access)
    }

    /// What all Jobs of the service have in common.
    pub fn run<'r>(&'r self, what: &'r str, commands: &'r [Command], mounts: Vec<Mount>) -> Run<'r> {
        Run {
            instance: &self.parts.instance,
            what,
            image: &self.parts.image,
            commands,
            servers: Vec::new(),
            env: &[],
            mounts,
            shared: &self.parts.shared,
            resources: self.parts.object.operations().job_resources.as_ref(),
            scheduling: self.parts.object.scheduling(),
            identity: Value::Null,
            group: None,
        }
    }

    /// The service's own steps while its pods are stopped: those that need pods keep what they have.
    fn without_pods(&self, steps: Vec<Step>) -> Vec<Step> {
        if self.migration_phase != MigrationPhase::Stop {
            return steps;
        }
        let components = self.parts.description.components.iter();
        let mut stopped: Vec<StepName> = components.map(|component| component.step.clone()).collect();
        let undecided = |mut step: Step| {
            let Some(node) = step.node.as_mut() else { return step };
            let before = node.needs.len();
            node.needs.retain(|need| !stopped.contains(need));
            if node.needs.len() == before {
                return step;
            }
            stopped.push(node.name.clone());
            step.undecided([])
        };
        steps.into_iter().map(undecided).collect()
    }

    /// The pods, step by step. During an upgrade a step waits for the one before it.
    fn components(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut names: Vec<StepName> = Vec::new();
        let components = &self.parts.description.components;
        let offline = self.offline().filter(|_| self.migration_phase != MigrationPhase::Stop);
        for component in components {
            let place = names.iter().position(|name| *name == component.step);
            let index = place.unwrap_or_else(|| {
                let mut needs = ["schema", "config", "dependencies"].names();
                needs.extend(names.last().filter(|_| self.progress.phase.is_some()).cloned());
                needs.extend(offline.as_ref().map(|_| StepName::from("offline")));
                if !self.parts.description.messaging.is_empty() {
                    needs.push("messaging".into());
                }
                needs.extend(
                    components
                        .iter()
                        .filter(|one| one.step == component.step)
                        .flat_map(|one| one.after.iter().cloned()),
                );
                let step = Step::new(component.condition).node(&component.step, needs);
                let step = step.done("all pods are up to date and available");
                steps.push(step.reasons("DeploymentAvailable", "DeploymentProgressing"));
                names.push(component.step.clone());
                steps.len() - 1
            });
            match self.known() {
                Some(resolved) => steps[index].children.extend(self.component(component, resolved)),
                None => steps[index] = steps[index].clone().undecided([]),
            }
        }
        if self.migration_phase == MigrationPhase::Stop {
            steps = steps.into_iter().map(stopped).collect();
        }
        steps
    }

    fn component(&self, component: &Component, resolved: &Resolved) -> Vec<Child> {
        let Parts { instance, image, shared, object, .. } = self.parts;
        let access = object.exposure().network_policy.as_ref();
        let mut ports: Vec<i32> = component.ports().iter().map(|(_, port)| *port).collect();
        ports.extend(self.parts.health_port().filter(|_| component.name == API));
        let pods = instance.selector(&component.name);
        let egress = Some(resolved.backing.egress());
        let traffic = Traffic { component: &component.name, pods, ports: &ports, egress };
        let mut children: Vec<Child> = Vec::new();
        let mut mounts = vec![Mount::secret("config", &self.files(resolved).name(), S::FOLDER)];
        mounts.extend(resolved.backing.mounts());
        let mut replicas = Some(component.replicas);
        let mut speaks_tls = None;
        if let (API, Some(wsgi), Some(api)) = (component.name.as_str(), component.wsgi(), self.parts.api(self.inputs)) {
            let addresses: Vec<_> = self.parts.public_address().into_iter().collect();
            children.extend(tls::certificate(instance, object.tls(), &addresses));
            children.extend(api.scaling());
            replicas = api.count();
            if let Some(secret) = self.parts.tls_secret() {
                let tls_image = tls::image(object.tls(), api.live, image);
                mounts.push(tls::mount(&secret));
                speaks_tls = Some(tls::container(&tls_image, &secret, wsgi.port, wsgi.own_port()));
            }
        }
        children.extend(network::policy(instance, traffic, access));
        let version = format!("{image} {}", hash::of_json(&self.schemas(resolved).identity));
        let folder = S::FOLDER;
        let workload = Workload { instance, component, image, version, shared, folder, mounts, tls: speaks_tls };
        children.extend(workload.objects(replicas));
        children
    }

    /// Whether the service's credential is good for a token. Pods do not wait for it: they may run on the one before.
    pub(crate) fn auth(&self) -> Option<Step> {
        self.parts.description.identity.as_ref()?;
        let step = Step::new("KeystoneAuthReady").node("auth", ["secrets", "dependencies"]);
        let step = step.done("Keystone accepts its credential").reasons("Authenticated", "AuthenticationInProgress");
        let Some(resolved) = self.known() else { return Some(step.undecided([])) };
        let access = resolved.backing.identity.as_ref()?;
        let instance = &self.parts.instance;
        let files = ConfigFiles::new(&instance.namespace, instance.named("auth"))
            .file("auth.py", AUTH.into())
            .file("auth.json", access.check_settings());
        let (script, settings) = (format!("{}/auth.py", S::FOLDER), format!("{}/auth.json", S::FOLDER));
        let python = format!("/opt/{}/bin/python", S::NAME);
        let command = [Command::new(&[&python, &script, &settings])];
        let mut mounts = vec![Mount::secret("config", &files.name(), S::FOLDER)];
        mounts.extend(access.mounts());
        let run = Run { identity: json!({ "credential": files.hash() }), ..self.run("auth", &command, mounts) };
        Some(step.child(files.child()).child(fail_at_once(run.child(), "auth", REFUSED)))
    }

    /// Whether the API answers.
    fn health(&self) -> Option<Step> {
        let component = self.parts.api_component()?;
        let probe = self.parts.probe()?;
        // While pods are replaced the others answer.
        let needs = if self.parts.serves(self.inputs) { Vec::new() } else { vec![component.step.clone()] };
        let step = Step::new(S::HEALTH).node("health", needs).childless().done("the API answers");
        let step = step.reasons("Answering", "NotAnswering");
        if component.replicas == 0 && self.parts.object.exposure().autoscaling.is_none() {
            return Some(step.done("switched off"));
        }
        let workload = self.parts.workload(component);
        let wait = Wait::on(&workload).condition("answers").because("clients use it");
        if self.migration_phase == MigrationPhase::Stop {
            let wait = wait.now("is stopped for the offline migrations of an upgrade").with_reason("UpgradeOffline");
            return Some(step.node("health", []).wait(wait));
        }
        let look = format!("kubectl logs deployment/{} -n {}", workload.name, self.parts.instance.namespace);
        Some(match self.inputs.answer(&probe) {
            Some(Ok(_)) => step,
            Some(Err(said)) => {
                let restricted = network::is_restricted(self.parts.object.exposure().network_policy.as_ref());
                let wait = if restricted { wait.because(UNREACHED) } else { wait };
                step.wait(wait.now(format!("does not answer: {said}")).look_at(look).with_reason("NotAnswering"))
            }
            None => step.wait(wait.now("has not been probed yet").with_reason("NotAskedYet")),
        })
    }
}

/// A step of components without what their pods belong to, so that the pods are stopped.
fn stopped(step: Step) -> Step {
    let runs = [
        KindRef::of::<Deployment>(),
        KindRef::of::<StatefulSet>(),
        KindRef::of::<DaemonSet>(),
        KindRef::of::<HorizontalPodAutoscaler>(),
    ];
    let children: Vec<Child> = step
        .children
        .iter()
        .filter(|child| !runs.iter().any(|kind| kind.resource == child.resource))
        .cloned()
        .collect();
    let step = Step { children: Vec::new(), ..step }.done("stopped for the offline migrations of an upgrade");
    if children.is_empty() { step.childless() } else { step.children(children) }
}

/// Whether a Job has run to its end.
pub fn is_complete<K: kube::Resource>(inputs: &Inputs<K>, job: &Child) -> bool {
    let live = inputs.own_named::<Job>(&job.reference().name);
    live.and_then(|live| object::condition(live, "Complete")).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_checks_a_credential_ends_as_the_job_expects() {
        assert!(AUTH.contains(&format!("sys.exit({REFUSED} if ")));
    }
}

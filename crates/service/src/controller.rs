//! The controller of every service: reads what a description names, looks for mistakes, and makes the plan.

use std::fmt;
use std::marker::PhantomData;

use c5c3_api::Problem;
use c5c3_api::blocks::{ServiceAccount, ServiceIdentity};
use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::openstack::ServiceObject;
use c5c3_kit::preview::Ahead;
use c5c3_kit::retention::Retained;
use c5c3_kit::{Controller, Inputs, KindRef, Plan, Probe, Ref, Verdict, Wait};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use serde_json::{Value, json};

use crate::api::Api;
use crate::backing_services::{BackingServices, Given, Missing};
use crate::component::API;
use crate::database::Server;
use crate::identity::Identity;
use crate::instance::Instance;
use crate::messaging::Bus;
use crate::parts::Parts;
use crate::policy::{self, PolicyError, Rules};
use crate::service::Service;
use crate::service_plan::{Resolved, ServicePlan, render};
use crate::upgrade::{self, MigrationPhase, Progress, UpgradeState};
use crate::workload::Workload;
use crate::{accounts_in_use, dependencies, extra_config, record, tls};

/// The controller of a service's objects.
pub struct ServiceController<S>(PhantomData<S>);

impl<S> Default for ServiceController<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<S: Service> fmt::Debug for ServiceController<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceController<{}>", S::NAME)
    }
}

/// An object whose spec is good: what it stands on, and what is to be done with its database.
#[derive(Debug)]
pub struct Valid {
    resolved: Result<Resolved, Missing>,
    migration_phase: MigrationPhase,
    progress: Progress,
}

impl<S: Service> Controller for ServiceController<S>
where
    <S::Kind as Resource>::Scope: 'static,
{
    type Kind = S::Kind;
    type Valid = Valid;
    const NAME: &'static str = S::NAME;
    const CONDITIONS: &'static [&'static str] = S::CONDITIONS;
    const FINALIZER: Option<&'static str> = Some(S::FINALIZER);
    const PROBES: bool = true;

    fn children(&self) -> Vec<KindRef> {
        let mut kinds: Vec<KindRef> = Api::children().into();
        kinds.extend(Workload::children());
        kinds.extend(Server::children());
        kinds.extend(Bus::children());
        kinds.extend([KindRef::of::<Secret>(), KindRef::of::<ConfigMap>(), KindRef::of::<NetworkPolicy>()]);
        kinds.extend([KindRef::of::<Job>(), KindRef::of::<Certificate>()]);
        kinds.extend(S::children());
        let mut distinct: Vec<KindRef> = Vec::new();
        for kind in kinds {
            if !distinct.contains(&kind) {
                distinct.push(kind);
            }
        }
        distinct
    }

    /// Databases, brokers, caches and Keystone are among what can be depended on.
    fn reads(&self) -> Vec<KindRef> {
        let mut kinds = dependencies::reads();
        kinds.extend(Identity::reads());
        kinds.extend(Bus::reads());
        kinds.extend(S::reads());
        kinds
    }

    fn observes(&self) -> Vec<KindRef> {
        let observed = [
            KindRef::of::<Deployment>(),
            KindRef::of::<StatefulSet>(),
            KindRef::of::<DaemonSet>(),
            KindRef::of::<Job>(),
            KindRef::of::<CronJob>(),
        ];
        let children = self.children();
        observed.into_iter().chain(accounts_in_use::observes()).filter(|kind| children.contains(kind)).collect()
    }

    fn needs(&self, inputs: &Inputs<S::Kind>) -> Vec<Ref> {
        let mut needs = Parts::<S>::new(inputs).needs(inputs);
        needs.extend(S::needs(inputs));
        needs
    }

    fn probes(&self, inputs: &Inputs<S::Kind>) -> Vec<Probe> {
        let parts = Parts::<S>::new(inputs);
        let all = parts.probe().into_iter().chain(parts.pools_probe()).chain(parts.report_probe());
        all.filter(|_| parts.serves(inputs)).collect()
    }

    fn validate(&self, inputs: &Inputs<S::Kind>) -> Verdict<Valid> {
        let parts = Parts::<S>::new(inputs);
        let mut problems = spec_problems(&parts);
        let rules = rules(&parts, inputs).map_err(|found| problems.extend(found)).unwrap_or(Ok(Rules::new()));
        let (settings, waits, wrong) =
            extra_config::read(&parts.object.operations().extra_config_from, inputs, &parts.instance.namespace);
        problems.extend(wrong);
        let unset = [parts.owned(), parts.description.only_in_spec.to_vec()].concat();
        problems.extend(extra_config::problems(&settings, parts.release_options(), &unset));
        let given = Given { runs: parts.has_run(), rules, settings: (settings, waits), own: S::look_up(inputs) };
        let resolved = resolve(&parts, inputs, given);
        let (contracted, offline) = {
            let (migration_phase, progress) = (MigrationPhase::Contract, &parts.recorded);
            let plan = ServicePlan { inputs, parts: &parts, resolved: resolved.as_ref(), migration_phase, progress };
            (plan.contracted(), plan.offline_state())
        };
        let (tag, rolled) = (parts.tag(), parts.rolled(inputs));
        let seen = UpgradeState { service: S::NAME, wanted: tag.as_deref(), rolled, contracted, offline };
        match upgrade::next_phase(&parts.recorded, seen).map_err(|found| problems.push(found)) {
            Ok((migration_phase, progress)) if problems.is_empty() => {
                Verdict::Valid(Valid { resolved, migration_phase, progress })
            }
            _ => Verdict::Invalid(problems.into()),
        }
    }

    fn plan(&self, valid: &Valid, inputs: &Inputs<S::Kind>) -> Plan {
        let parts = Parts::<S>::new(inputs);
        let Valid { resolved, migration_phase, progress } = valid;
        let service_plan = ServicePlan {
            inputs,
            parts: &parts,
            resolved: resolved.as_ref(),
            migration_phase: *migration_phase,
            progress,
        };
        let plan = service_plan.plan().upgrading(progress.phase.is_some());
        let signs_in = (service_plan.identity(), service_plan.accounts());
        with_status(told(plan, &parts.recorded, progress), &parts, progress, inputs, signs_in)
    }

    fn ahead(&self, valid: &Valid, inputs: &Inputs<S::Kind>) -> Vec<Ahead> {
        let Valid { resolved, migration_phase, progress } = valid;
        let (parts, resolved, migration_phase) = (Parts::<S>::new(inputs), resolved.as_ref(), *migration_phase);
        ServicePlan { inputs, parts: &parts, resolved, migration_phase, progress }.ahead()
    }

    /// Steps of the service's own, and whether the API answers. What the rest stands on is not looked for: nothing of it changes.
    fn maintain(&self, inputs: &Inputs<S::Kind>) -> Option<Plan> {
        let parts = Parts::<S>::new(inputs);
        let (missing, progress) = (Missing::default(), parts.recorded.clone());
        let resolved = Err(&missing);
        let service_plan =
            ServicePlan { inputs, parts: &parts, resolved, migration_phase: MigrationPhase::Sync, progress: &progress };
        let signs_in = (service_plan.identity(), service_plan.accounts());
        Some(with_status(service_plan.maintenance(), &parts, &progress, inputs, signs_in))
    }

    /// Pods are gone before the object is, and before the databases that it needs are deleted by its own owner.
    fn teardown(&self) -> Vec<Vec<KindRef>> {
        vec![vec![KindRef::of::<Deployment>(), KindRef::of::<StatefulSet>(), KindRef::of::<DaemonSet>()]]
    }

    fn retention(&self, object: &Value) -> Vec<Retained> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let instance = Instance { service: S::NAME, name: text("name"), namespace: text("namespace") };
        let keeps = S::DATABASE_STAYS || object["spec"]["deletionPolicy"] != "Delete";
        let mut retained = vec![Retained::new(record::reference(&instance)).kept(keeps)];
        // A schema is dropped with the object that asked for it, and never when it merely moves to another server.
        if !keeps && !object["metadata"]["deletionTimestamp"].is_null() {
            let parsed = serde_json::from_value::<S::Kind>(object.clone()).ok();
            let servers = parsed.map(|parsed| S::describe(&parsed, &instance).databases).unwrap_or_default();
            retained.extend(servers.iter().flat_map(Server::dropped));
        }
        retained.extend(S::retention(object, &instance));
        retained
    }
}

/// Everything that is wrong with a spec in ways that no schema finds.
fn spec_problems<S: Service>(parts: &Parts<'_, S>) -> Vec<Problem> {
    let mut problems = parts.additions().problems(parts.release_options(), &parts.owned());
    problems.extend(S::problems(parts.object));
    problems.extend(tls::problems(parts.object.tls()));
    problems
}

/// Finds everything that the configuration is made from and renders it, or says all that is missing.
fn resolve<S: Service>(parts: &Parts<'_, S>, inputs: &Inputs<S::Kind>, given: Given) -> Result<Resolved, Missing> {
    let backing = BackingServices::find(&parts.description, inputs, given)?;
    match render(parts, &backing) {
        Ok(conf) => Ok(Resolved { backing, conf }),
        // What users write was looked at before; what is left is what a Secret holds.
        Err(error) => {
            let secret = parts.needs(inputs).swap_remove(0);
            let wait = Wait::on(&secret)
                .condition("can be written to a file")
                .now(format!("holds a value that cannot be written to a file: {error}"));
            Err(Missing { secrets: vec![wait.failed("Malformed")], ..Missing::default() })
        }
    }
}

/// The policies, or the wait for them; or what is wrong with them.
fn rules<S: Service>(parts: &Parts<'_, S>, inputs: &Inputs<S::Kind>) -> Result<Result<Rules, Wait>, Vec<Problem>> {
    let overrides = parts.object.policy_overrides();
    match policy::rules(overrides, inputs, &parts.instance.namespace, parts.release_options()) {
        Ok(rules) => Ok(Ok(rules)),
        Err(PolicyError::Wait(wait)) => Ok(Err(*wait)),
        Err(PolicyError::Problems(problems)) => Err(problems),
    }
}

/// Events of an upgrade: each phase, and its end.
fn told(plan: Plan, before: &Progress, after: &Progress) -> Plan {
    let (installed, target) = (after.installed.as_deref().unwrap_or("nothing"), after.target.as_deref());
    match (after.phase.as_deref(), target) {
        (Some(upgrade::EXPANDING), Some(target)) => plan.event(
            "UpgradeExpanding",
            format!("from {installed} to {target}: the schema is extended, then pods are replaced"),
        ),
        (Some(upgrade::STOPPING), Some(target)) => plan.event(
            "UpgradeStopping",
            format!("from {installed} to {target}: pods are stopped, because migrations of {target} bear none"),
        ),
        (Some(upgrade::MIGRATING), Some(target)) => {
            plan.event("UpgradeMigrating", format!("to {target}: the offline migrations start, and cannot be undone"))
        }
        (Some(_), Some(target)) => plan
            .event("UpgradeContracting", format!("to {target}: the contract migrations start, and cannot be undone")),
        _ if before.target.is_some() && before.target.as_deref() == after.installed.as_deref() => {
            plan.event("UpgradeCompleted", format!("{installed} runs"))
        }
        _ if before.target.is_some() => plan.event("UpgradeTakenBack", format!("{installed} runs again")),
        _ => plan,
    }
}

fn with_status<S: Service>(
    plan: Plan,
    parts: &Parts<'_, S>,
    progress: &Progress,
    inputs: &Inputs<S::Kind>,
    (identity, accounts): (Option<ServiceIdentity>, Vec<ServiceAccount>),
) -> Plan {
    let live = parts.api_component().and_then(|component| parts.live(component, inputs));
    let replicas = live.and_then(|live| live.data["status"]["replicas"].as_i64());
    let labels = parts.instance.labels(API);
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let progress = progress.clone();
    let fields: [(&str, Option<Value>); 8] = [
        ("endpoint", parts.endpoint().map(Into::into)),
        ("selector", Some(selector.join(",").into())),
        ("replicas", replicas.map(Into::into)),
        ("identity", identity.map(|identity| json!(identity))),
        ("accounts", (!accounts.is_empty()).then(|| json!(accounts))),
        ("installedRelease", progress.installed.map(Into::into)),
        ("targetRelease", progress.target.map(Into::into)),
        ("upgradePhase", progress.phase.map(Into::into)),
    ];
    let known = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
    known.fold(plan, |plan, (field, value)| plan.status(field, value))
}

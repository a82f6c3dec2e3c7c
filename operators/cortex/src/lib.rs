//! Cortex: the scheduler that Nova asks where servers go. Its pods run `c5c3 scheduler`; its pipelines are Pipeline objects.
//!
//! ```text
//! secrets ──────► token, certificate ─┐
//! access ───────► account, roles ─────┼─► deployment ─► leader ─► endpoint
//! dependencies ───────────────────────┘
//! pipelines ────► Pipeline objects, which the scheduler reads and judges ─► PipelinesReady, activePipelines
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod pipelines;
mod scheduler;

use c5c3_api::blocks::Tls;
use c5c3_api::cortex::{Cortex, CortexPipelines, Decision, Descheduling, Pipeline};
use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::hypervisor::Hypervisor;
use c5c3_api::{Problem, Problems};
use c5c3_kit::{
    Child, Controller, Inputs, KindRef, Operator, Plan, Ref, Step, Verdict, Wait, controller, random_secret,
};
use c5c3_service::{Instance, dependencies, tls};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use scheduler::Scheduler;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "cortex-operator";

/// The key of the token, in the Secret `NAME-token`.
pub const TOKEN: &str = "token";

const DEPENDENCIES: &str = "DependenciesReady";
const SECRETS: &str = "SecretsReady";
const DATABASE: &str = "DatabaseReady";
const CONFIG: &str = "ConfigReady";
const DEPLOYMENT: &str = "DeploymentReady";
const PIPELINES: &str = "PipelinesReady";

/// The operator. What a Cortex has is in its own namespace, but for the right to read Hypervisors, which are in none.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(|| Cortexes)
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Cortexes;

/// A Cortex whose scheduler can be run.
#[derive(Debug)]
pub struct Valid {
    instance: Instance,
    tls: Option<Tls>,
}

impl Controller for Cortexes {
    type Kind = Cortex;
    type Valid = Valid;
    const NAME: &'static str = "cortex";
    const CONDITIONS: &'static [&'static str] = &[DEPENDENCIES, SECRETS, DATABASE, CONFIG, DEPLOYMENT, PIPELINES];
    const FINALIZER: Option<&'static str> = Some("c5c3.io/cortex-cleanup");
    const CROSS_NAMESPACE: bool = true;

    fn children(&self) -> Vec<KindRef> {
        vec![
            KindRef::of::<Secret>(),
            KindRef::of::<Certificate>(),
            KindRef::of::<ServiceAccount>(),
            KindRef::of::<Role>(),
            KindRef::of::<RoleBinding>(),
            KindRef::of::<ClusterRole>(),
            KindRef::of::<ClusterRoleBinding>(),
            KindRef::of::<Deployment>(),
            KindRef::of::<Service>(),
            KindRef::of::<NetworkPolicy>(),
            KindRef::of::<Pipeline>(),
        ]
    }

    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Deployment>(), KindRef::of::<Pipeline>()]
    }

    fn reads(&self) -> Vec<KindRef> {
        dependencies::reads()
    }

    /// Rights can only be given by an account that has them.
    fn rights(&self) -> Vec<(KindRef, &'static str, &'static [&'static str])> {
        vec![
            (KindRef::of::<Pipeline>(), "/status", &["patch"]),
            (KindRef::of::<Decision>(), "", access::DECISIONS),
            (KindRef::of::<Decision>(), "/status", &["patch"]),
            (KindRef::of::<Descheduling>(), "", access::DESCHEDULINGS),
            (KindRef::of::<Descheduling>(), "/status", &["update"]),
            (KindRef::of::<Hypervisor>(), "", access::READ),
            (KindRef::of::<Lease>(), "", &["create", "get", "list", "update", "watch", "delete"]),
        ]
    }

    fn needs(&self, inputs: &Inputs<Cortex>) -> Vec<Ref> {
        let (instance, spec) = (instance(&inputs.object), &inputs.object.spec);
        let depends_on = spec.depends_on.iter().flat_map(|one| dependencies::needs(one, &instance.namespace));
        let certificate = tls::secret(&instance, tls_of(&inputs.object).as_ref());
        depends_on.chain(certificate).collect()
    }

    fn validate(&self, inputs: &Inputs<Cortex>) -> Verdict<Valid> {
        let tls = tls_of(&inputs.object);
        match tls::problems(tls.as_ref()) {
            Some(problem) => Verdict::Invalid(vec![problem].into()),
            None => Verdict::Valid(Valid { instance: instance(&inputs.object), tls }),
        }
    }

    fn plan(&self, valid: &Valid, inputs: &Inputs<Cortex>) -> Plan {
        let (cortex, instance) = (&inputs.object, &valid.instance);
        let unmet = dependencies::waits(&cortex.spec.depends_on, inputs, &instance.namespace);
        let dependencies = Step::new(DEPENDENCIES).node("dependencies", []).childless();
        let dependencies = unmet.into_iter().fold(dependencies, Step::wait).done("all dependencies are ready");
        let scheduler = Scheduler { instance, cortex, tls: valid.tls.as_ref() };
        let plan = Plan::new()
            .step(dependencies)
            .step(secrets(valid, inputs))
            .step(database(cortex, instance))
            .step(datasources(cortex, instance))
            .step(account(instance))
            .step(pipelines::step(cortex, instance))
            .step(deployment(&scheduler, valid, inputs))
            .step(leader(&scheduler, inputs));
        scheduler.statuses(inputs).into_iter().fold(plan, |plan, (field, value)| plan.status(field, value))
    }

    /// A step that no scheduler knows is told by `PipelinesReady`, and keeps nothing else back.
    fn parse(&self, object: &Value) -> Result<Cortex, Problems> {
        let problems = match controller::parse::<Cortex>(object) {
            Ok(cortex) => return Ok(cortex),
            Err(problems) => problems,
        };
        let is_step = |problem: &Problem| problem.path.starts_with("spec.pipelines.");
        if !problems.iter().all(is_step) {
            return Err(problems);
        }
        let mut without = object.clone();
        let pipelines = without["spec"]["pipelines"].take();
        without["spec"].as_object_mut().into_iter().for_each(|spec| drop(spec.remove("pipelines")));
        let mut cortex = controller::parse::<Cortex>(&without)?;
        match serde_json::from_value::<CortexPipelines>(pipelines) {
            Ok(pipelines) if !pipelines.problems().is_empty() => {
                cortex.spec.pipelines = Some(pipelines);
                Ok(cortex)
            }
            // It is something else.
            _ => Err(problems),
        }
    }
}

fn instance(cortex: &Cortex) -> Instance {
    Instance::new("cortex", &cortex.metadata)
}

fn own(instance: &Instance) -> Ref {
    Ref::namespaced::<Cortex>(&instance.namespace, &instance.name)
}

/// The TLS of the spec in the form that services have in common.
fn tls_of(cortex: &Cortex) -> Option<Tls> {
    let tls = cortex.spec.tls.clone()?;
    Some(Tls { enabled: tls.enabled, issuer_ref: tls.issuer_ref, cert_secret_ref: tls.cert_secret_ref, image: None })
}

/// The token, which is generated once, and the certificate. They wait for nothing: clients mount them.
fn secrets(valid: &Valid, inputs: &Inputs<Cortex>) -> Step {
    let instance = &valid.instance;
    let mut token = random_secret::child(&instance.namespace, &scheduler::token_secret(instance), &[], &[TOKEN]);
    token.object.metadata.labels = Some(instance.labels(scheduler::COMPONENT));
    let certificate: Option<Child> = tls::certificate(instance, valid.tls.as_ref(), &[]);
    // The Secret of a Certificate is filled after that is made.
    let waits = if certificate.is_none() { certificate_waits(valid, inputs) } else { Vec::new() };
    let step = Step::new(SECRETS).node("secrets", []).child(token).children(certificate);
    waits.into_iter().fold(step, Step::wait).done("the token exists").reasons("SecretsAvailable", "WaitingForSecret")
}

/// What the Secret of the certificate lacks.
fn certificate_waits(valid: &Valid, inputs: &Inputs<Cortex>) -> Vec<Wait> {
    let Some(secret) = tls::secret(&valid.instance, valid.tls.as_ref()) else { return Vec::new() };
    let missing = ["tls.crt", "tls.key"].into_iter().find_map(|key| inputs.secret(&secret, key).err());
    let is_given = valid.tls.as_ref().is_some_and(|tls| tls.cert_secret_ref.is_some());
    let remedy = if is_given {
        "put tls.crt, tls.key and ca.crt into it, or correct spec.tls.certSecretRef".to_owned()
    } else {
        format!("kubectl describe certificate {} -n {}", secret.name, valid.instance.namespace)
    };
    missing.into_iter().map(|wait| wait.because("spec.tls is enabled").look_at(remedy.clone())).collect()
}

/// Nothing that is built needs a database: one that is asked for is refused, and the scheduler runs without it.
fn database(cortex: &Cortex, instance: &Instance) -> Step {
    let step = Step::new(DATABASE).node("database", []).childless();
    let step = step.done("no database is needed: decisions are kept as Decision objects");
    if cortex.spec.database.is_none() {
        return step;
    }
    let wait = Wait::on(&own(instance))
        .condition("a database")
        .now("sets spec.database, and no datasource of this version stores data in PostgreSQL")
        .because("the scheduler runs without it, and keeps decisions as Decision objects")
        .look_at("remove spec.database")
        .failed("NotSupported");
    step.wait(wait)
}

/// The scheduler knows what requests and Hypervisors tell; what else is asked for is refused.
fn datasources(cortex: &Cortex, instance: &Instance) -> Step {
    let step = Step::new(CONFIG).node("config", []).childless();
    let step = step.done("the scheduler knows what requests and Hypervisor objects tell");
    let asked = cortex.spec.datasources.clone().unwrap_or_default();
    let asked = [("prometheus", asked.prometheus), ("nova", asked.nova), ("cinder", asked.cinder)];
    let enabled = asked.into_iter().filter(|(_, source)| source.as_ref().is_some_and(|source| source.enabled));
    let wait = |(name, _): (&str, _)| {
        let field = format!("spec.datasources.{name}");
        Wait::on(&own(instance))
            .condition(format!("the datasource {name}"))
            .now(format!("sets {field}, and this version reads no datasources"))
            .because("the scheduler decides by requests and Hypervisor objects")
            .look_at(format!("set {field}.enabled to false"))
            .failed("NotSupported")
    };
    enabled.map(wait).fold(step, Step::wait)
}

/// The account of the pods. The first step of its condition names the reasons.
fn account(instance: &Instance) -> Step {
    let step = Step::new(DEPLOYMENT).node("access", []).children(access::children(instance)).done("");
    step.reasons("SchedulerReady", "WaitingForDeployment")
}

fn deployment(scheduler: &Scheduler<'_>, valid: &Valid, inputs: &Inputs<Cortex>) -> Step {
    let step = Step::new(DEPLOYMENT).node("deployment", ["dependencies", "secrets", "access"]);
    let step = step.children(scheduler.children()).done("");
    certificate_waits(valid, inputs).into_iter().fold(step, Step::wait)
}

/// Of all pods one decides, and the others are not ready on purpose, so that the Deployment is never fully available.
fn leader(scheduler: &Scheduler<'_>, inputs: &Inputs<Cortex>) -> Step {
    let step = Step::new(DEPLOYMENT).node("leader", ["deployment"]).childless();
    let step = step.done("a scheduler decides, the others stand by").reasons("SchedulerReady", "WaitingForLeader");
    scheduler.waits(inputs).into_iter().fold(step, Step::wait)
}

/// The address of the API.
pub(crate) fn endpoint(instance: &Instance, tls: Option<&Tls>) -> Value {
    let scheme = if tls.is_some_and(|tls| tls.enabled) { "https" } else { "http" };
    json!(format!("{scheme}://{}:{}", instance.host(), scheduler::PORT))
}

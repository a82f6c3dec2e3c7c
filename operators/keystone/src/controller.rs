//! The controller of Keystone objects: what is read, what is wrong, and the plan.

use std::time::Duration;

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::openstack::Keystone;
use c5c3_api::{Problem, problem};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Probe, Ref, Verdict, Wait, object};
use c5c3_service::api::{Api, COMPONENT};
use c5c3_service::backup::Store;
use c5c3_service::database::Database;
use c5c3_service::policy::{self, Rules, Unusable};
use c5c3_service::upgrade::{self, Course, Progress, Seen};
use c5c3_service::{dependencies, tls};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use crate::config::OWNED;
use crate::filters;
use crate::keys::PROPAGATION;
use crate::parts::Parts;
use crate::retention;
use crate::rotation::Repository;
use crate::steps::{Keys, Resolved};

/// The most keys that a set may grow to: every one is tried on a token that nobody can read.
const MOST_KEYS: u64 = 100;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Keystones;

/// A Keystone whose spec is good.
pub struct Valid {
    rules: Result<Rules, Wait>,
    course: Course,
    progress: Progress,
}

impl Controller for Keystones {
    type Kind = Keystone;
    type Valid = Valid;
    const NAME: &'static str = "keystone";
    const CONDITIONS: &'static [&'static str] = &[
        "SecretsReady",
        "FernetKeysReady",
        "DatabaseReady",
        "ConfigReady",
        "DeploymentReady",
        "BootstrapReady",
        "KeystoneAPIReady",
    ];
    const FINALIZER: Option<&'static str> = Some("c5c3.io/keystone-cleanup");
    const PROBES: bool = true;

    fn children(&self) -> Vec<KindRef> {
        let mut kinds = Api::children();
        kinds.extend(Repository::children());
        kinds.extend(Database::children());
        kinds.extend(Store::children());
        kinds.extend([KindRef::of::<Job>(), KindRef::of::<Certificate>()]);
        kinds
    }

    /// Databases and caches are among what can be depended on.
    fn reads(&self) -> Vec<KindRef> {
        let mut kinds = dependencies::reads();
        kinds.extend(Store::reads());
        kinds.push(KindRef::of::<ConfigMap>());
        kinds
    }

    fn needs(&self, inputs: &Inputs<Keystone>) -> Vec<Ref> {
        let parts = Parts::new(&inputs.object);
        let namespace = &parts.instance.namespace;
        let mut needs = parts.database.needs();
        needs.extend(parts.cache.needs());
        needs.extend(parts.fernet().needs());
        needs.extend(parts.credential(None).needs());
        needs.extend(parts.tls_secret());
        needs.extend(policy::reference(inputs.object.spec.policy_overrides.as_ref(), namespace));
        needs.extend(inputs.object.spec.depends_on.iter().flat_map(|one| dependencies::needs(one, namespace)));
        needs.extend([parts.store.needs(), parts.admin_secret().0, parts.deployment()]);
        needs.extend([parts.fernet(), parts.credential(None)].iter().flat_map(|keys| keys.more_needs(inputs)));
        // Jobs are called after what they do, which is known when the rest has been read.
        if needs.iter().all(|need| inputs.has_read(need))
            && let Ok(resolved) = parts.resolve(inputs, rules(&parts, inputs).unwrap_or(Ok(Rules::new())))
        {
            needs.push(parts.contract_job(&resolved.ini).reference());
            needs.extend(migration(&parts, inputs, &resolved).map(|job| job.reference()));
        }
        needs
    }

    fn probes(&self, inputs: &Inputs<Keystone>) -> Vec<Probe> {
        let parts = Parts::new(&inputs.object);
        if parts.serves(inputs) { vec![parts.probe()] } else { Vec::new() }
    }

    fn validate(&self, inputs: &Inputs<Keystone>) -> Verdict<Valid> {
        let parts = Parts::new(&inputs.object);
        let mut problems = parts.additions().problems(parts.catalogue(), OWNED);
        problems.extend(filters::problems(&parts.spec.middleware));
        problems.extend(too_many_keys(&parts));
        problems.extend(Database::problems(parts.spec.database.as_ref()));
        problems.extend(tls::problems(parts.spec.tls.as_ref()));
        let rules = rules(&parts, inputs).map_err(|found| problems.extend(found)).unwrap_or(Ok(Rules::new()));
        let contracted = parts
            .resolve(inputs, rules.clone())
            .is_ok_and(|resolved| is_complete(inputs, &parts.contract_job(&resolved.ini)));
        let (tag, rolled) = (parts.tag(), parts.rolled(inputs));
        let course = upgrade::course(&parts.progress, Seen { wanted: tag.as_deref(), rolled, contracted });
        match course.map_err(|found| problems.push(found)) {
            Ok((course, progress)) if problems.is_empty() => Verdict::Valid(Valid { rules, course, progress }),
            _ => Verdict::Invalid(problems.into()),
        }
    }

    fn plan(&self, valid: &Valid, inputs: &Inputs<Keystone>) -> Plan {
        let parts = Parts::new(&inputs.object);
        let resolved = parts.resolve(inputs, valid.rules.clone());
        let known = resolved.as_ref().ok();
        let keys = decide(&parts, inputs, known);
        let (secret, key) = parts.admin_secret();
        let password = inputs.secret(&secret, &key).ok();
        let (health, ask_again) = parts.health_step(inputs);
        let mut plan = Plan::new()
            .step(parts.secrets_step(inputs, resolved.as_ref().err()))
            .step(parts.services_step(inputs))
            .step(parts.keys_step(inputs, &keys))
            .step(parts.database_step(resolved.as_ref()))
            .step(parts.config_step(resolved.as_ref()))
            .step(parts.schema_step(known, valid.course))
            .step(parts.deployment_step(inputs, known))
            .step(parts.bootstrap_step(known, password.as_ref()))
            .step(health);
        plan.steps.splice(0..0, Parts::restore_step(&keys));
        plan.steps.extend(Parts::rotation_step(&keys));
        plan.steps.extend(parts.route_step(inputs));
        let mut again = vec![ask_again];
        if let (Some(resolved), Ok(credential)) = (known, &keys.credential)
            && let Some(step) = parts.credentials_step(inputs, resolved, &credential.state)
        {
            again.push(step.children.is_empty().then_some(PROPAGATION));
            plan = plan.step(step);
        }
        if let (Some(resolved), Course::Contract) = (known, valid.course) {
            plan = plan.step(parts.contract_step(resolved));
        } else if valid.progress != parts.progress && valid.progress.phase.is_some() {
            // What is written down now is acted on next.
            again.push(Some(Duration::from_millis(200)));
        }
        again.extend([&keys.fernet, &keys.credential].map(|one| one.as_ref().ok().and_then(|one| one.again_after)));
        plan.again_after = again.into_iter().flatten().min();
        with_status(plan, &parts, valid, inputs)
    }

    fn retention(&self, object: &Value) -> Vec<Retained> {
        retention::of(object)
    }
}

/// The policies, or the wait for them; or what is wrong with them.
fn rules(parts: &Parts<'_>, inputs: &Inputs<Keystone>) -> Result<Result<Rules, Wait>, Vec<Problem>> {
    let overrides = parts.spec.policy_overrides.as_ref();
    match policy::rules(overrides, inputs, &parts.instance.namespace, parts.catalogue()) {
        Ok(rules) => Ok(Ok(rules)),
        Err(Unusable::Wait(wait)) => Ok(Err(*wait)),
        Err(Unusable::Problems(problems)) => Err(problems),
    }
}

/// Keys stay until no token needs them, so that a schedule that is too quick makes more of them than can be tried.
fn too_many_keys(parts: &Parts<'_>) -> Option<Problem> {
    let schedule = &parts.spec.fernet.rotation_schedule;
    let (life, interval) = (parts.token_life(), schedule.shortest_interval());
    let needed = (life + PROPAGATION).as_secs().div_ceil(interval.as_secs().max(1)) + 2;
    let least = life.as_secs().div_ceil((MOST_KEYS - 2) * 60);
    (needed > MOST_KEYS).then(|| {
        problem(
            "spec.fernet.rotationSchedule",
            format!("makes a key every {} s while tokens have to be read for {} s, which takes {needed} keys", interval.as_secs(), life.as_secs()),
            format!("rotate every {least} minutes at most, or shorten token.expiration and token.allow_expired_window in spec.extraConfig"),
        )
    })
}

/// Both sets of keys. Stored credentials get no new key before all of them are encrypted with the present one.
fn decide(parts: &Parts<'_>, inputs: &Inputs<Keystone>, resolved: Option<&Resolved>) -> Keys {
    let rotated = parts.credential(None).current(inputs).is_some_and(|state| state.keys.primary() > 1);
    let migrated = || {
        let job = migration(parts, inputs, resolved?)?;
        is_complete(inputs, &job).then_some(())
    };
    let hold = (rotated && migrated().is_none()).then(|| "credentials are being encrypted anew".to_owned());
    Keys { fernet: parts.fernet().decide(inputs), credential: parts.credential(hold).decide(inputs) }
}

/// The Job that encrypts stored credentials with the key that is the primary now.
fn migration(parts: &Parts<'_>, inputs: &Inputs<Keystone>, resolved: &Resolved) -> Option<Child> {
    let state = parts.credential(None).current(inputs)?;
    parts.credential_job(&resolved.ini, &state)
}

fn is_complete(inputs: &Inputs<Keystone>, job: &Child) -> bool {
    let complete = inputs.get(&job.reference()).and_then(|job| object::condition(job, "Complete"));
    complete.is_some_and(|condition| condition["status"] == "True")
}

fn with_status(plan: Plan, parts: &Parts<'_>, valid: &Valid, inputs: &Inputs<Keystone>) -> Plan {
    let deployment = inputs.get(&parts.deployment());
    let replicas = deployment.and_then(|deployment| deployment.data["status"]["replicas"].as_i64());
    let labels = parts.instance.labels(COMPONENT);
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let progress = valid.progress.clone();
    let fields: [(&str, Option<Value>); 6] = [
        ("endpoint", Some(parts.endpoint().into())),
        ("selector", Some(selector.join(",").into())),
        ("replicas", replicas.map(Into::into)),
        ("installedRelease", progress.installed.map(Into::into)),
        ("targetRelease", progress.target.map(Into::into)),
        ("upgradePhase", progress.phase.map(Into::into)),
    ];
    let known = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
    known.fold(plan, |plan, (field, value)| plan.status(field, value))
}

//! SecretAggregate: one Secret put together from keys of others.

use std::collections::BTreeMap;

use c5c3_api::blocks::NamespacedRef;
use c5c3_api::c5c3::{SecretAggregate, SecretSource};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Verdict, Wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde_json::Value;

type Data = BTreeMap<String, ByteString>;

/// The controller.
pub struct SecretAggregates {
    /// Whether Secrets of other namespaces may be read and written.
    pub cross_namespace: bool,
}

/// A SecretAggregate whose references are allowed.
pub struct Valid {
    target: Ref,
    sources: Vec<(Ref, SecretSource)>,
}

impl Controller for SecretAggregates {
    type Kind = SecretAggregate;
    type Valid = Valid;
    const NAME: &'static str = "secretaggregate";
    /// A target may be in another namespace.
    const CROSS_NAMESPACE: bool = true;
    const CONDITIONS: &'static [&'static str] = &["SourcesResolved", "AllSourcesAvailable"];
    const FINALIZER: Option<&'static str> = Some("c5c3.io/secretaggregate-cleanup");

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>()]
    }

    fn needs(&self, inputs: &Inputs<SecretAggregate>) -> Vec<Ref> {
        let spec = &inputs.object.spec;
        // What may not be read is not read, not even to be refused afterwards.
        let allowed = |secret: &NamespacedRef| self.allows(inputs, secret);
        let sources = spec.sources.iter().map(|source| &source.secret_ref);
        sources.chain([&spec.target]).filter(|secret| allowed(secret)).map(|secret| reference(inputs, secret)).collect()
    }

    fn validate(&self, inputs: &Inputs<SecretAggregate>) -> Verdict<Valid> {
        let spec = &inputs.object.spec;
        let mut problems = Vec::new();
        for (index, source) in spec.sources.iter().enumerate() {
            problems.extend(self.refuse(
                inputs,
                &source.secret_ref,
                &format!("spec.sources[{index}].secretRef.namespace"),
            ));
        }
        problems.extend(self.refuse(inputs, &spec.target, "spec.target.namespace"));
        if !problems.is_empty() {
            return Verdict::Invalid(problems.into());
        }
        let sources = spec.sources.iter().map(|source| (reference(inputs, &source.secret_ref), source.clone()));
        Verdict::Valid(Valid { target: reference(inputs, &spec.target), sources: sources.collect() })
    }

    fn plan(&self, valid: &Valid, inputs: &Inputs<SecretAggregate>) -> Plan {
        let mut resolved = Step::new("SourcesResolved").childless().done("every source exists");
        let mut available = Step::new("AllSourcesAvailable").done("the target holds every key");
        let mut data = Data::new();
        for (index, (reference, source)) in valid.sources.iter().enumerate() {
            match inputs.typed::<Secret>(reference) {
                Err(wait) => resolved = resolved.wait(missing_source(wait, index)),
                Ok(secret) => match taken(reference, source, secret.data.unwrap_or_default()) {
                    Ok(keys) => data.extend(keys),
                    Err(waits) => {
                        available.waits.extend(waits.into_iter().map(|wait| missing_key(wait, index)));
                    }
                },
            }
        }
        let changed = current(inputs, &valid.target).as_ref() != Some(&data);
        available = available.child(target(&valid.target, data));
        let done = resolved.waits.is_empty() && available.waits.is_empty();
        let plan = Plan::new().step(resolved).step(available).ready_reason("AllSourcesAvailable");
        let before = inputs.object.status.as_ref().and_then(|status| status.last_aggregated.clone());
        match before.filter(|_| !(changed && done)) {
            Some(before) => plan.status("lastAggregated", time(&before.0)),
            None if done => plan.status("lastAggregated", time(&inputs.now)),
            None => plan,
        }
    }
}

impl SecretAggregates {
    fn allows(&self, inputs: &Inputs<SecretAggregate>, secret: &NamespacedRef) -> bool {
        let own = inputs.object.namespace();
        self.cross_namespace || secret.namespace.as_ref().is_none_or(|namespace| Some(namespace.to_string()) == own)
    }

    fn refuse(&self, inputs: &Inputs<SecretAggregate>, secret: &NamespacedRef, path: &str) -> Option<Problem> {
        (!self.allows(inputs, secret)).then(|| {
            problem(
                path,
                "names another namespace, which this operator must not access",
                "remove it, or start the operator with --allow-cross-namespace",
            )
        })
    }
}

fn reference(inputs: &Inputs<SecretAggregate>, secret: &NamespacedRef) -> Ref {
    let namespace = secret.namespace.as_ref().map(ToString::to_string).or(inputs.object.namespace());
    Ref::namespaced::<Secret>(namespace.unwrap_or_default(), secret.name.to_string())
}

/// The keys that a source gives, under the names that the target has for them.
fn taken(reference: &Ref, source: &SecretSource, mut data: Data) -> Result<Data, Vec<Wait>> {
    if source.keys.is_empty() {
        return Ok(data);
    }
    let (mut keys, mut missing) = (Data::new(), Vec::new());
    for key in &source.keys {
        if let Some(value) = data.remove(key.source().as_str()) {
            keys.insert(key.target().to_string(), value);
            continue;
        }
        let (wanted, now) = (format!("has the key {}", key.source()), format!("has no key {}", key.source()));
        missing.push(Wait::on(reference).condition(wanted).now(now));
    }
    if missing.is_empty() { Ok(keys) } else { Err(missing) }
}

fn missing_source(wait: Wait, index: usize) -> Wait {
    let remedy = format!("create it, or correct spec.sources[{index}]");
    wait.because(format!("spec.sources[{index}].secretRef names it")).look_at(remedy).failed("SourceMissing")
}

fn missing_key(wait: Wait, index: usize) -> Wait {
    let remedy = format!("add the key to it, or correct spec.sources[{index}].keys");
    wait.because(format!("spec.sources[{index}].keys names it")).look_at(remedy).failed("KeyMissing")
}

fn current(inputs: &Inputs<SecretAggregate>, target: &Ref) -> Option<Data> {
    inputs.typed::<Secret>(target).ok().map(|secret| secret.data.unwrap_or_default())
}

fn target(reference: &Ref, data: Data) -> Child {
    Child::new(&Secret {
        metadata: ObjectMeta {
            name: Some(reference.name.clone()),
            namespace: reference.namespace.clone(),
            ..ObjectMeta::default()
        },
        data: Some(data),
        type_: Some("Opaque".into()),
        ..Secret::default()
    })
}

/// To the second, as every time in a status.
fn time(time: &k8s_openapi::jiff::Timestamp) -> Value {
    serde_json::to_value(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(*time)).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use c5c3_kit::inputs::Found;
    use serde_json::json;

    use super::*;

    /// The plan of an aggregate over the Secrets that are there.
    fn plan(secrets: &[Value]) -> String {
        let aggregate: SecretAggregate = serde_json::from_value(json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "SecretAggregate", "metadata": {"name": "bundle", "namespace": "cloud"},
            "spec": {
                "sources": [
                    {"name": "db", "secretRef": {"name": "db-root"}, "keys": [{"sourceKey": "password", "targetKey": "DB_PASSWORD"}]},
                    {"secretRef": {"name": "queue-user"}, "keys": ["username"]},
                ],
                "target": {"name": "all-credentials"},
            },
        }))
        .unwrap();
        let controller = SecretAggregates { cross_namespace: false };
        let mut inputs = Inputs::new(aggregate, "2026-01-01T00:00:00Z".parse().unwrap());
        for reference in controller.needs(&inputs) {
            let found = secrets.iter().find(|secret| secret["metadata"]["name"] == reference.name.as_str());
            let found = found.map(|secret| serde_json::from_value(secret.clone()).unwrap());
            inputs.insert(reference, found.map_or(Found::Missing, |secret| Found::Object(Box::new(secret))));
        }
        match controller.validate(&inputs) {
            Verdict::Valid(valid) => controller.plan(&valid, &inputs).golden(),
            other => panic!("not valid: {:?}", std::mem::discriminant(&other)),
        }
    }

    fn secret(name: &str, data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"}, "data": data})
    }

    #[test]
    fn the_plan_of_an_aggregate_whose_sources_are_there() {
        let secrets =
            [secret("db-root", &json!({"password": "b25l"})), secret("queue-user", &json!({"username": "dHdv"}))];
        insta::assert_snapshot!(plan(&secrets));
    }

    #[test]
    fn the_plan_of_an_aggregate_that_waits() {
        insta::assert_snapshot!(plan(&[secret("db-root", &json!({"passwort": "b25l"}))]));
    }
}

//! ControlPlanes on paper: read, validated and planned, without a cluster.

use std::path::Path;

use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::inputs::Found;
use c5c3_kit::testing::schemas;
use c5c3_kit::{Controller, Inputs, Plan, Verdict, controller};
use c5c3_operator_controlplane::ControlPlanes;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// The example of that name.
pub(crate) fn example(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/controlplane").join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A ControlPlane with that spec.
pub(crate) fn lab(spec: &Value) -> Value {
    json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
           "metadata": {"name": "lab", "namespace": "cellar", "generation": 1}, "spec": spec})
}

/// A Secret that is there.
pub(crate) fn secret(name: &str, keys: &[&str]) -> Value {
    let data: serde_json::Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!("eA=="))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cellar"}, "data": data})
}

/// A storage class that is there.
pub(crate) fn storage_class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "x"})
}

/// An issuer that is ready.
pub(crate) fn issuer(name: &str) -> Value {
    json!({"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": name}, "spec": {},
           "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

/// The plan for a ControlPlane where these objects are there, or what is wrong with it. An API server would take every
/// child as it is.
pub(crate) fn plan(object: &Value, there: &[Value]) -> Result<Plan, String> {
    plan_with(object, there, &[])
}

/// An object that the operator made.
pub(crate) fn made(api_version: &str, kind: &str, name: &str) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": c5c3_operator_controlplane::NAME});
    json!({"apiVersion": api_version, "kind": kind,
           "metadata": {"name": name, "namespace": "cellar", "labels": labels}})
}

/// The plan for a ControlPlane that has made these objects of K-ORC and rotations.
pub(crate) fn plan_with(object: &Value, there: &[Value], own: &[Value]) -> Result<Plan, String> {
    let parsed: ControlPlane = controller::parse(object).map_err(|problems| problems.to_string())?;
    let mut inputs = Inputs::new(parsed, "2026-01-01T00:00:00Z".parse().unwrap());
    for child in own {
        let child: DynamicObject = serde_json::from_value(child.clone()).unwrap();
        inputs.insert_own(child);
    }
    // What is found may lead to more.
    while let Some(reference) = ControlPlanes.needs(&inputs).into_iter().find(|reference| !inputs.has_read(reference)) {
        let is_it = |found: &&Value| {
            found["kind"] == reference.resource.kind.as_str() && found["metadata"]["name"] == reference.name.as_str()
        };
        let found = there.iter().find(is_it).map(|found| serde_json::from_value(found.clone()).unwrap());
        inputs.insert(reference, found.map_or(Found::Missing, |found| Found::Object(Box::new(found))));
    }
    match ControlPlanes.validate(&inputs) {
        Verdict::Valid(valid) => {
            let plan = ControlPlanes.plan(&valid, &inputs);
            schemas::check(&plan);
            Ok(plan)
        }
        Verdict::Invalid(problems) => Err(problems.to_string()),
        Verdict::Wait(waits) => panic!("a ControlPlane waits in its steps, never as a whole: {waits:?}"),
    }
}

/// What the steps wait for before their children are applied, a line each.
pub(crate) fn waits(plan: &Plan) -> Vec<String> {
    let all = plan.steps.iter().flat_map(|step| step.waits.iter().map(move |wait| (step, wait)));
    all.map(|(step, wait)| format!("{}: {}", step.node.as_ref().unwrap().name, wait.message(Some("cellar")))).collect()
}

//! What is there beside a Cortex when a plan is made for it.

use c5c3_api::cortex::Cortex;
use c5c3_kit::inputs::Found;
use c5c3_kit::testing::schemas;
use c5c3_kit::{Controller, Inputs, Plan, Ref, Verdict};
use c5c3_operator_cortex::Cortexes;
use c5c3_stage::secret;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// Objects of the namespace `cloud`.
#[derive(Clone, Default)]
pub struct World {
    objects: Vec<Value>,
    /// Children of the object.
    own: Vec<Value>,
}

impl World {
    /// A certificate, as cert-manager and users make it.
    pub fn new() -> Self {
        let certificate = [("tls.crt", "CRT"), ("tls.key", "KEY"), ("ca.crt", "CA")];
        Self::default().with(secret("gate-api-tls", &certificate)).with(secret("pass", &certificate))
    }

    /// Adds an object.
    pub fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Adds a child that is there.
    pub fn own(mut self, object: Value) -> Self {
        self.own.push(object);
        self
    }

    /// The plan, or everything that is wrong with the object.
    pub fn plan(&self, object: &Value) -> Result<Plan, String> {
        let parsed = Cortexes.parse(object).map_err(|problems| problems.to_string())?;
        let mut inputs: Inputs<Cortex> = Inputs::new(parsed, "2026-01-02T03:00:00Z".parse().unwrap());
        self.own.iter().for_each(|own| inputs.insert_own(typed(own)));
        loop {
            let new: Vec<Ref> = Cortexes.needs(&inputs).into_iter().filter(|need| !inputs.has_read(need)).collect();
            if new.is_empty() {
                break;
            }
            for reference in new {
                let is_it = |object: &&Value| {
                    object["kind"] == reference.resource.kind.as_str()
                        && object["metadata"]["name"] == reference.name.as_str()
                };
                let found = self.objects.iter().find(is_it).map(|object| Found::Object(Box::new(typed(object))));
                inputs.insert(reference, found.unwrap_or(Found::Missing));
            }
        }
        match Cortexes.validate(&inputs) {
            Verdict::Valid(valid) => {
                let plan = Cortexes.plan(&valid, &inputs);
                schemas::check(&plan);
                Ok(plan)
            }
            Verdict::Invalid(problems) => Err(problems.to_string()),
            Verdict::Wait(waits) => Err(format!("{waits:?}")),
        }
    }
}

/// A Cortex of that spec, called `gate`.
pub fn cortex(spec: &Value) -> Value {
    json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex",
           "metadata": {"name": "gate", "namespace": "cloud", "uid": "1234", "generation": 1}, "spec": spec})
}

/// The Deployment with so many pods that are updated and available.
pub fn deployment(updated: i32, available: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
           "metadata": {"name": "gate-scheduler", "namespace": "cloud", "generation": 3}, "spec": {"replicas": 2},
           "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": updated, "availableReplicas": available}})
}

/// A Pipeline that the scheduler has judged.
pub fn pipeline(name: &str, ready: &str) -> Value {
    json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline",
           "metadata": {"name": name, "namespace": "cloud", "generation": 1}, "spec": {"schedulingDomain": name},
           "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Said", "message": ""}]}})
}

fn typed(object: &Value) -> DynamicObject {
    serde_json::from_value(object.clone()).unwrap()
}

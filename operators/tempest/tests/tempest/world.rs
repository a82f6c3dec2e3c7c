//! What is there beside a Tempest when a plan is made for it.

use c5c3_api::openstack::Tempest;
use c5c3_kit::inputs::Found;
use c5c3_kit::testing::schemas;
use c5c3_kit::{Controller, Inputs, Plan, Ref, Summary, Verdict};
use c5c3_operator_tempest::{CREDENTIAL, Tempests};
use c5c3_stage::{ready, secret};
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// When it is.
pub const NOW: &str = "2026-01-02T03:00:00Z";

/// Objects of the namespace `cloud`.
#[derive(Clone)]
pub struct World {
    objects: Vec<Value>,
    /// Jobs of the object, and their pods.
    runs: Vec<Value>,
}

impl World {
    /// A Keystone and the credential, by their conventional names.
    pub fn new() -> Self {
        let mut keystone = ready("keystone.openstack.c5c3.io/v1alpha1", "Keystone", "keystone", &json!({}));
        keystone["status"]["endpoint"] = "http://keystone.cloud.svc.cluster.local:5000".into();
        let world = Self { objects: vec![keystone], runs: Vec::new() };
        world.with(credential(CREDENTIAL)).with(secret("keystone-ca", &[("ca.crt", "CA"), ("bundle.pem", "CA")]))
    }

    /// Adds an object.
    pub fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Takes away all objects of that name.
    pub fn without(mut self, name: &str) -> Self {
        self.objects.retain(|object| object["metadata"]["name"] != name);
        self
    }

    /// Adds a Job and its pod, if it has one.
    pub fn run(mut self, job: Value, pod: Option<Value>) -> Self {
        self.runs.extend([Some(job), pod].into_iter().flatten());
        self
    }

    fn inputs(&self, object: &Value) -> Result<Inputs<Tempest>, String> {
        let parsed = Tempests.parse(object).map_err(|problems| problems.to_string())?;
        let mut inputs = Inputs::new(parsed, NOW.parse().unwrap());
        self.runs.iter().for_each(|run| inputs.insert_own(typed(run)));
        loop {
            let new: Vec<Ref> = Tempests.needs(&inputs).into_iter().filter(|need| !inputs.has_read(need)).collect();
            if new.is_empty() {
                return Ok(inputs);
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
    }

    /// The plan, or everything that is wrong with the object.
    pub fn plan(&self, object: &Value) -> Result<Plan, String> {
        let inputs = self.inputs(object)?;
        match Tempests.validate(&inputs) {
            Verdict::Valid(valid) => {
                let plan = Tempests.plan(&valid, &inputs);
                schemas::check(&plan);
                Ok(plan)
            }
            Verdict::Invalid(problems) => Err(problems.to_string()),
            Verdict::Wait(waits) => Err(format!("{waits:?}")),
        }
    }

    /// `TestsPassed` after a plan: its status, its reason and its message.
    pub fn tests_passed(&self, object: &Value) -> (String, String, String) {
        let plan = self.plan(object).unwrap();
        let applied = c5c3_kit::apply::Applied::default();
        let outcome = c5c3_kit::report::Outcome::Applied(&applied, &plan);
        let state = Summary {
            outcome: &outcome,
            waits: &[],
            before: &[],
            generation: None,
            namespace: Some("cloud"),
            paused: false,
        };
        let said = Tempests.summary(state).into_iter().find(|said| said.condition == "TestsPassed").unwrap();
        (format!("{:?}", said.status), said.reason, said.message)
    }
}

/// A Tempest of that spec, called `gate`.
pub fn tempest(spec: &Value) -> Value {
    json!({"apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
           "metadata": {"name": "gate", "namespace": "cloud", "uid": "1234", "generation": 1}, "spec": spec})
}

fn credential(name: &str) -> Value {
    secret(name, &[("application_credential_id", "a1b2"), ("application_credential_secret", "app$ecret")])
}

/// A Job that began at 02:00 and has this condition, if it has ended.
pub fn job(name: &str, end: Option<(&str, &str, &str)>) -> Value {
    let conditions: Vec<Value> = end
        .map(|(kind, at, reason)| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "so it ended", "lastTransitionTime": at})
        })
        .into_iter()
        .collect();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "cloud"},
           "spec": {"activeDeadlineSeconds": 14400}, "status": {"startTime": "2026-01-02T02:00:00Z", "conditions": conditions}})
}

/// The pod of a Job, and what it left.
pub fn pod(job: &str, message: &str) -> Value {
    let state = json!({"terminated": {"exitCode": 1, "message": message}});
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": format!("{job}-x"), "namespace": "cloud", "labels": {"batch.kubernetes.io/job-name": job}},
           "status": {"containerStatuses": [{"name": "tempest", "state": state}]}})
}

fn typed(object: &Value) -> DynamicObject {
    serde_json::from_value(object.clone()).unwrap()
}

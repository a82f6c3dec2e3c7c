//! What is there beside an object when a plan is made for it.

use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use c5c3_kit::inputs::Found;
use c5c3_kit::probe::Answer;
use c5c3_kit::testing::schemas;
use c5c3_kit::{Child, Controller, Inputs, Plan, Ref, Verdict};
use kube::Resource as _;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use c5c3_service::{Service, ServiceController};

/// Objects of the namespace `cloud`, what was answered, and when it is.
#[derive(Debug)]
pub struct World<S> {
    /// The objects. Those whose name begins with that of the instance, `gate-`, are its own children.
    pub objects: Vec<Value>,
    /// When it is.
    pub now: &'static str,
    /// What the API answers.
    pub answer: Option<Answer>,
    service: PhantomData<S>,
}

impl<S> Clone for World<S> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), now: self.now, answer: self.answer.clone(), service: PhantomData }
    }
}

/// A Secret with these values.
pub fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    let data: Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"}, "data": data})
}

/// An object whose condition `Ready` is true.
pub fn ready(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "cloud", "generation": 1},
           "spec": spec, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": ""}]}})
}

/// What a plan waits for: the condition and the message of each wait, a line each.
pub fn waits(plan: &Plan) -> String {
    let of = |step: &c5c3_kit::Step| -> Vec<String> {
        step.waits.iter().map(|wait| format!("{}: {}", step.condition, wait.message(Some("cloud")))).collect()
    };
    plan.steps.iter().flat_map(of).collect::<Vec<_>>().join("\n")
}

/// What a service needs beside its own Secrets.
#[derive(Clone, Copy, Debug)]
pub struct BackingObjects;

impl BackingObjects {
    /// A MariaDB, a Memcached, a RabbitMQ and a Keystone.
    pub fn objects() -> Vec<Value> {
        let replicas = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let keystone = json!({"endpoint": "http://keystone.cloud.svc.cluster.local:5000",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": ""}]});
        let conditions: Vec<Value> = ["AllReplicasReady", "ClusterAvailable", "ReconcileSuccess"]
            .iter()
            .map(|condition| json!({"type": condition, "status": "True"}))
            .collect();
        vec![
            ready("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", &json!({"galera": {"enabled": true}})),
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "memcached", "namespace": "cloud"},
                   "spec": {"replicas": 2, "serviceName": "memcached", "selector": {}, "template": {}}, "status": replicas}),
            json!({"apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster",
                   "metadata": {"name": "rabbitmq", "namespace": "cloud", "generation": 1}, "spec": {"replicas": 1},
                   "status": {"observedGeneration": 1, "conditions": conditions}}),
            json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
                   "metadata": {"name": "keystone", "namespace": "cloud", "generation": 1}, "spec": {}, "status": keystone}),
        ]
    }
}

impl<S: Service> World<S>
where
    <S::Kind as kube::Resource>::Scope: 'static,
{
    /// A world with these objects and everything that services need by convention.
    pub fn with_all(objects: Vec<Value>) -> Self {
        let mut all = BackingObjects::objects();
        all.push(secret(
            &format!("{}-db-credentials", S::NAME),
            &[("username", "gatekeeper"), ("password", "db$ecret/1")],
        ));
        all.push(secret(
            &format!("{}-keystone-credentials", S::NAME),
            &[("application_credential_id", "a1b2"), ("application_credential_secret", "app$ecret")],
        ));
        all.push(secret(
            &format!("{}-rabbitmq-credentials", S::NAME),
            &[("username", "messenger"), ("password", "mq$ecret")],
        ));
        let world = Self { objects: all, now: "2026-01-01T00:00:00Z", answer: None, service: PhantomData };
        objects.into_iter().fold(world, Self::with)
    }

    /// An object of that spec, called `gate`.
    pub fn object(spec: &Value) -> Value {
        json!({"apiVersion": S::Kind::api_version(&()), "kind": S::Kind::kind(&()),
               "metadata": {"name": "gate", "namespace": "cloud", "uid": "1234", "generation": 1}, "spec": spec})
    }

    /// The object of an example, in the namespace `cloud` and under the name `gate`.
    ///
    /// # Panics
    /// If it is not YAML.
    pub fn example(text: &str) -> Value {
        let example: Value = serde_saphyr::from_str(text).expect("an example is YAML");
        Self::object(&example["spec"])
    }

    /// Adds an object, in the place of one of the same kind and name.
    pub fn with(mut self, object: Value) -> Self {
        self.objects
            .retain(|old| old["kind"] != object["kind"] || old["metadata"]["name"] != object["metadata"]["name"]);
        self.objects.push(object);
        self
    }

    /// Lets the API answer like this.
    pub fn answering(self, answer: Answer) -> Self {
        Self { answer: Some(answer), ..self }
    }

    /// Takes away all objects of that name.
    pub fn without(mut self, name: &str) -> Self {
        self.objects.retain(|object| object["metadata"]["name"] != name);
        self
    }

    fn find(&self, reference: &Ref) -> Found {
        let found = self.objects.iter().find(|object| {
            object["kind"] == reference.resource.kind.as_str() && object["metadata"]["name"] == reference.name.as_str()
        });
        found.map_or(Found::Missing, |object| Found::Object(Box::new(typed(object))))
    }

    /// What a reconcile of the object would read.
    pub fn inputs(&self, object: &Value) -> Result<Inputs<S::Kind>, String> {
        let controller = ServiceController::<S>::default();
        let parsed = controller.parse(object).map_err(|problems| problems.to_string())?;
        let mut inputs = Inputs::new(parsed, self.now.parse().map_err(|_| "no time")?);
        let observed = controller.observes();
        for own in &self.objects {
            let is_own = own["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("gate-"));
            if is_own && observed.iter().any(|kind| own["kind"] == kind.resource.kind.as_str()) {
                inputs.insert_own(typed(own));
            }
        }
        loop {
            let new: Vec<Ref> = controller.needs(&inputs).into_iter().filter(|need| !inputs.has_read(need)).collect();
            if new.is_empty() {
                break;
            }
            for reference in new {
                let found = self.find(&reference);
                inputs.insert(reference, found);
            }
        }
        for probe in controller.probes(&inputs) {
            if let Some(answer) = &self.answer {
                inputs.insert_answer(probe, answer.clone());
            }
        }
        Ok(inputs)
    }

    /// The plan, or everything that is wrong with the object.
    ///
    /// # Panics
    /// If an API server would not take a child as it is.
    pub fn plan(&self, object: &Value) -> Result<Plan, String> {
        let inputs = self.inputs(object)?;
        let controller = ServiceController::<S>::default();
        match controller.validate(&inputs) {
            Verdict::Valid(valid) => {
                let plan = controller.plan(&valid, &inputs);
                schemas::check(&plan);
                Ok(plan)
            }
            Verdict::Invalid(problems) => Err(problems.to_string()),
            Verdict::Wait(waits) => Err(format!("{waits:?}")),
        }
    }
}

fn typed(object: &Value) -> DynamicObject {
    serde_json::from_value(object.clone()).expect("an object of a world has metadata")
}

/// A file of a Secret in a plan.
///
/// # Panics
/// If there is none.
pub fn file(plan: &Plan, base: &str, name: &str) -> String {
    let is_it = |child: &&Child| {
        child.resource.kind == "Secret" && child.object.metadata.labels.iter().flatten().any(|(_, value)| value == base)
    };
    let secret = plan.children().find(is_it).unwrap_or_else(|| panic!("no Secret of {base}"));
    let text = secret.object.data["data"][name].as_str().unwrap_or_else(|| panic!("no file {name} in {base}"));
    String::from_utf8(STANDARD.decode(text).expect("a Secret is base64")).expect("a file is text")
}

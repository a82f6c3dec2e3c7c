//! What is there beside a Keystone when a plan is made for it.

use c5c3_api::openstack::Keystone;
use c5c3_kit::inputs::Found;
use c5c3_kit::probe::Answer;
use c5c3_kit::{Controller, Inputs, Plan, Ref, Verdict};
use c5c3_operator_keystone::Keystones;
use serde_json::{Value, json};

/// Objects of the namespace `cloud`, and when it is.
#[derive(Clone)]
pub struct World {
    pub objects: Vec<Value>,
    pub now: &'static str,
    pub answer: Option<Answer>,
}

/// A Keystone of that spec.
pub fn keystone(spec: &Value) -> Value {
    json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
           "metadata": {"name": "gate", "namespace": "cloud", "uid": "1234", "generation": 1}, "spec": spec})
}

/// The Keystone of an example, in the namespace `cloud` and under the name `gate`.
pub fn example(text: &str) -> Value {
    let example: Value = serde_saphyr::from_str(text).unwrap();
    keystone(&example["spec"])
}

pub fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    use base64::Engine as _;
    let encode = |value: &str| base64::engine::general_purpose::STANDARD.encode(value);
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), encode(value).into())).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"}, "data": data})
}

pub fn ready(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "cloud", "generation": 1},
           "spec": spec, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": ""}]}})
}

impl Default for World {
    /// Everything that a Keystone needs by convention.
    fn default() -> Self {
        let objects = vec![
            secret("keystone-db-credentials", &[("username", "gatekeeper"), ("password", "db$ecret/1")]),
            secret("keystone-admin-credentials", &[("password", "adm1n")]),
            secret("mariadb-ca", &[("ca.crt", "CA")]),
            secret("keystone-db-client", &[("tls.crt", "CRT"), ("tls.key", "KEY")]),
            ready("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", &json!({"galera": {"enabled": true}})),
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "memcached", "namespace": "cloud"},
                   "spec": {"replicas": 2, "serviceName": "memcached", "selector": {}, "template": {}}, "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keystone-policy", "namespace": "cloud"},
                   "data": {"policy.yaml": "\"identity:list_users\": \"rule:admin_required\"\n"}}),
        ];
        Self { objects, now: "2026-01-01T00:00:00Z", answer: None }
    }
}

impl World {
    pub fn with(mut self, object: Value) -> Self {
        self.objects
            .retain(|old| old["kind"] != object["kind"] || old["metadata"]["name"] != object["metadata"]["name"]);
        self.objects.push(object);
        self
    }

    /// The keys of a Keystone that was there before.
    pub fn with_keys(self) -> Self {
        let key = |letter: &str| format!("{}=", letter.repeat(43));
        let (staged, primary) = (key("A"), key("E"));
        let keys = |name: &str| secret(name, &[("0", &staged), ("1", &primary)]);
        self.with(keys("gate-fernet-keys")).with(keys("gate-credential-keys"))
    }

    pub fn without(mut self, name: &str) -> Self {
        self.objects.retain(|object| object["metadata"]["name"] != name);
        self
    }

    fn find(&self, reference: &Ref) -> Found {
        let found = self.objects.iter().find(|object| {
            object["kind"] == reference.resource.kind.as_str() && object["metadata"]["name"] == reference.name.as_str()
        });
        found.map_or(Found::Missing, |object| Found::Object(Box::new(serde_json::from_value(object.clone()).unwrap())))
    }

    /// What a reconcile of the object would read.
    pub fn inputs(&self, object: &Value) -> Result<Inputs<Keystone>, String> {
        let parsed = Keystones.parse(object).map_err(|problems| problems.to_string())?;
        let mut inputs = Inputs::new(parsed, self.now.parse().unwrap());
        loop {
            let new: Vec<Ref> = Keystones.needs(&inputs).into_iter().filter(|need| !inputs.has_read(need)).collect();
            if new.is_empty() {
                break;
            }
            for reference in new {
                let found = self.find(&reference);
                inputs.insert(reference, found);
            }
        }
        for probe in Keystones.probes(&inputs) {
            if let Some(answer) = &self.answer {
                inputs.insert_answer(probe, answer.clone());
            }
        }
        Ok(inputs)
    }

    /// The plan, or everything that is wrong.
    pub fn plan(&self, object: &Value) -> Result<Plan, String> {
        let inputs = self.inputs(object)?;
        match Keystones.validate(&inputs) {
            Verdict::Valid(valid) => Ok(Keystones.plan(&valid, &inputs)),
            Verdict::Invalid(problems) => Err(problems.to_string()),
            Verdict::Wait(waits) => Err(format!("{waits:?}")),
        }
    }
}

/// A file of a Secret in a plan.
pub fn file(plan: &Plan, base: &str, name: &str) -> String {
    use base64::Engine as _;
    let is_it = |child: &&c5c3_kit::Child| {
        child.resource.kind == "Secret" && child.object.metadata.labels.iter().flatten().any(|(_, value)| value == base)
    };
    let secret = plan.children().find(is_it).unwrap_or_else(|| panic!("no Secret of {base}"));
    let text = secret.object.data["data"][name].as_str().unwrap_or_else(|| panic!("no file {name} in {base}"));
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
}

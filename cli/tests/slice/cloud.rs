//! A cloud of a test's own, and its Keystone as clients see it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::http::{Answer, ask};
use crate::machine::Machine;

/// Two Keystones on one of everything else, which is what a small machine has room for.
const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi, resources: {requests: {cpu: 50m, memory: 384Mi}}}
    valkey: {replicas: 1, sentinel: {enabled: false}}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 2}
";

/// A cloud that runs. Dropping it removes it.
pub struct Cloud {
    pub machine: Machine,
    pub identity: Identity,
}

/// Keystone, and who signs in to it.
#[derive(Clone)]
pub struct Identity {
    address: SocketAddr,
    password: Arc<str>,
}

/// A token, which is never printed.
pub type Token = Arc<str>;

impl Cloud {
    /// Brings a cloud up, from nothing to ready.
    pub fn up() -> Self {
        let machine = Machine::up_to_ready(CONTROL_PLANE);
        let address = machine.ok("kubectl -n cloud get service keystone -o jsonpath='{.spec.clusterIP}'");
        let secret =
            "kubectl -n cloud get secret keystone-admin-credentials -o jsonpath='{.data.password}' | base64 -d";
        let password = machine.ok(secret).into();
        let address = format!("{address}:5000").parse().unwrap();
        Self { machine, identity: Identity { address, password } }
    }

    /// What the OpenStack client prints, signed in as `c5c3 env` says.
    pub fn openstack(&self, command: &str) -> String {
        let client = crate::machine::cache().join("c5c3/python/bin/openstack");
        assert!(client.exists(), "there is no {}; `make test` makes it", client.display());
        self.machine.ok(&format!("eval \"$($C5C3 env --data $PWD/data)\" && {} {command}", client.display()))
    }

    /// Waits until the ControlPlane and its Keystone are ready as they are specified now.
    pub fn settle(&self) {
        let ready =
            "{.status.conditions[?(@.type==\"Ready\")].status} {.status.observedGeneration} {.metadata.generation}";
        for object in ["keystone/keystone", "controlplane/lab"] {
            let look = format!(
                "set -- $(kubectl -n cloud get {object} -o jsonpath='{ready}'); [ \"$2\" = \"$3\" ] && echo $1"
            );
            self.machine.eventually(&look, "True");
        }
    }

    /// The pods that serve for a part, and are not on their way out.
    pub fn pods(&self, part: &str) -> Vec<String> {
        let pods = format!("kubectl -n cloud get pods -l app.kubernetes.io/name={part} -o json");
        let pods: Value = serde_json::from_str(&self.machine.ok(&pods)).unwrap();
        let serves = |pod: &&Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["metadata"]["labels"].get("batch.kubernetes.io/job-name").is_none()
        };
        let pods = pods["items"].as_array().unwrap().iter().filter(serves);
        pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until every pod of Keystone has a set of keys with this primary.
    pub fn has_keys(&self, primary: u32) {
        for pod in self.pods("keystone") {
            let highest = "ls /var/lib/keystone/fernet-keys | sort -n | tail -1";
            let look = format!("kubectl -n cloud exec {pod} -c api -- sh -c '{highest}'");
            self.machine.eventually(&look, &primary.to_string());
        }
    }
}

impl Identity {
    fn tokens(&self, method: &str, headers: &[(&str, &str)], body: &Value) -> Result<Answer, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = ask(self.address, method, "/v3/auth/tokens", headers, &body)?;
        match answer.status {
            200..=299 => Ok(answer),
            status => Err(format!("{method}: {status}: {}", answer.body)),
        }
    }

    fn issue(&self, identity: &Value) -> Result<Token, String> {
        let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
        let answer = self.tokens("POST", &[], &json!({"auth": {"identity": identity, "scope": scope}}))?;
        answer.header("x-subject-token").map(Into::into).ok_or_else(|| "an answer without a token".to_owned())
    }

    /// A token for the administrator's password.
    pub fn sign_in(&self) -> Result<Token, String> {
        let user = json!({"name": "admin", "domain": {"id": "default"}, "password": *self.password});
        self.issue(&json!({"methods": ["password"], "password": {"user": user}}))
    }

    /// A token for another one.
    pub fn exchange(&self, token: &str) -> Result<Token, String> {
        self.issue(&json!({"methods": ["token"], "token": {"id": token}}))
    }

    /// Whether a token is good.
    pub fn validate(&self, token: &str) -> Result<(), String> {
        self.tokens("GET", &[("X-Auth-Token", token), ("X-Subject-Token", token)], &Value::Null).map(drop)
    }
}

//! A cloud of a test's own, the ControlPlane `lab` in the namespace `cloud`, and its Keystone as clients see it.
#![allow(dead_code)]

pub mod accounts;
pub mod http;
pub mod leaks;
pub mod load;
pub mod passwords;
pub mod rotation;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine::Machine;
use http::{Answer, Server, ask};

/// How long something may take that was killed, until it serves again on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

const DATABASE_READY: &str =
    "kubectl -n cloud get mariadb mariadb -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'";

/// Refuses a pod by its name, so that whatever makes it again cannot.
const REFUSED: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kept-down}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "object.metadata.name != 'NAME'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kept-down}
spec: {policyName: kept-down, validationActions: [Deny]}
"#;

/// A cloud that runs. Dropping it removes it.
pub struct Cloud {
    pub machine: Machine,
    pub identity: Identity,
}

/// Keystone, and who signs in to it.
#[derive(Clone)]
pub struct Identity {
    server: Server,
    password: Arc<str>,
}

/// A token, which is never printed.
pub type Token = Arc<str>;

impl Cloud {
    /// Brings the cloud of a manifest up, from nothing to ready.
    pub fn up(manifest: &str) -> Self {
        Self::on(Machine::up_to_ready(manifest))
    }

    /// The cloud that is ready on a machine.
    pub fn on(machine: Machine) -> Self {
        let address = machine.ok("kubectl -n cloud get service keystone -o jsonpath='{.spec.clusterIP}'");
        let address = format!("{address}:5000").parse().unwrap();
        let secret = |name: &str, key: &str| {
            machine.ok(&format!("kubectl -n cloud get secret {name} -o jsonpath='{{.data.{key}}}' | base64 -d"))
        };
        let has_tls = machine.ok("kubectl -n cloud get keystone keystone -o jsonpath='{.spec.tls.enabled}'") == "true";
        let server = if has_tls {
            Server::with_tls(address, "keystone.cloud.svc", &secret("keystone-api-tls", r"ca\.crt"))
        } else {
            Server::plain(address)
        };
        let password = secret("keystone-admin-credentials", "password").into();
        Self { machine, identity: Identity { server, password } }
    }

    /// What the OpenStack client prints, signed in as `c5c3 env` says.
    pub fn openstack(&self, command: &str) -> String {
        self.machine.ok(&client(command))
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

    /// The token of before is good, and so is one of now.
    pub fn still_good(&self, token: &Token) {
        self.are_good(token).unwrap();
    }

    /// The same, once what was killed is back.
    pub fn good_again(&self, token: &Token) {
        let begun = Instant::now();
        while let Err(error) = self.are_good(token) {
            assert!(begun.elapsed() < PATIENCE, "{error}");
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn are_good(&self, token: &Token) -> Result<(), String> {
        self.identity.validate(token)?;
        self.identity.validate(&self.identity.sign_in()?)
    }

    /// Takes the primary of the database away, and keeps it away as a broken machine would, until [`Self::repair`].
    pub fn break_a_database_server(&self) -> String {
        let pod = self.machine.ok("kubectl -n cloud get mariadb mariadb -o jsonpath='{.status.currentPrimary}'");
        self.machine.write("kept-down.yaml", &REFUSED.replace("NAME", &pod));
        self.machine.ok("kubectl apply -f kept-down.yaml");
        self.machine.ok(&format!("kubectl -n cloud delete pod {pod} --grace-period=0 --force --wait=false"));
        self.machine.eventually(DATABASE_READY, "False");
        pod
    }

    /// Asserts that the server is still away, and lets it come back.
    pub fn repair(&self, pod: &str) {
        self.machine.says(&format!("kubectl -n cloud get pod {pod} -o name --ignore-not-found"), "");
        self.machine.says(DATABASE_READY, "False");
        self.machine.ok("kubectl delete -f kept-down.yaml");
        self.machine.eventually(DATABASE_READY, "True");
    }

    /// Ends one pod as a machine does that loses its power, and waits until another one is in its place.
    pub fn kill_one(&self, part: &str, token: &Token) {
        let pod = self.pods(part).remove(0);
        let uid =
            |name: &str| format!("kubectl -n cloud get pod {name} -o jsonpath='{{.metadata.uid}}' --ignore-not-found");
        let before = self.machine.ok(&uid(&pod));
        self.machine.ok(&format!("kubectl -n cloud delete pod {pod} --grace-period=0 --force --wait=false"));
        let is_another = format!("[ \"$({})\" != {before} ] && echo another", uid(&pod));
        self.machine.eventually(&is_another, "another");
        self.settle();
        self.good_again(token);
    }
}

/// The line that runs the OpenStack client, signed in as `c5c3 env` says.
pub fn client(command: &str) -> String {
    format!("eval \"$($C5C3 env --data $PWD/data)\" && {} {command}", program())
}

/// The OpenStack client.
pub fn program() -> String {
    let client = crate::machine::cache().join("c5c3/python/bin/openstack");
    assert!(client.exists(), "there is no {}; `make test` makes it", client.display());
    client.display().to_string()
}

impl Identity {
    fn tokens(&self, method: &str, headers: &[(&str, &str)], body: &Value) -> Result<Answer, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = ask(&self.server, method, "/v3/auth/tokens", headers, &body)?;
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

    /// The same with another password.
    pub fn with_password(&self, password: &str) -> Self {
        Self { password: password.into(), ..self.clone() }
    }

    /// Signs in with an application credential.
    pub fn sign_in_with(&self, id: &str, secret: &str) -> Result<(), String> {
        let credential = json!({"id": id, "secret": secret});
        let identity = json!({"methods": ["application_credential"], "application_credential": credential});
        self.tokens("POST", &[], &json!({"auth": {"identity": identity}})).map(drop)
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

//! The objects of a database: a StatefulSet whose pods have names that last, Services, a disruption budget and a NetworkPolicy.

use c5c3_kit::Child;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::layout::{Database, Layout, apart, confined, container, env, pod, resources, schedule, shell};

pub(crate) const MEMBER: &str = include_str!("member.sh");
pub(crate) const CONTROL: &str = include_str!("control.py");

/// The container whose image says which version runs.
pub(crate) const SERVER: &str = "ovsdb";

impl Layout {
    /// All objects of a database.
    pub(crate) fn database_children(
        &self,
        database: Database,
        replicas: usize,
        live: Option<&DynamicObject>,
    ) -> Vec<Child> {
        let (component, labels) = (database.component(), self.labels(database.component()));
        let raft = self.raft_service(database);
        let mut children = vec![
            self.child::<Service>(&raft, component, &self.raft_service_spec(database)),
            self.client_service_child(database),
            self.child::<NetworkPolicy>(&self.named(database.short()), component, &self.policy(database)),
        ];
        if self.database(database).replicas.get() > 1 {
            let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": labels}});
            children.push(self.child::<PodDisruptionBudget>(&self.named(database.short()), component, &budget));
        }
        let set = self.stateful_set(database, replicas, live);
        // Whether members take part is told by what they say, which is known sooner and in more detail.
        let set = self.child::<StatefulSet>(&self.named(database.short()), component, &set).readiness_optional();
        children.push(set.version(self.ovn_image()));
        children
    }

    /// A member must resolve its own name before it listens, and others before it is ready.
    fn raft_service_spec(&self, database: Database) -> Value {
        json!({
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": self.labels(database.component()),
            "ports": [
                {"name": "ovsdb", "port": database.port(), "targetPort": "ovsdb"},
                {"name": "raft", "port": database.raft_port(), "targetPort": "raft"},
            ],
        })
    }

    fn client_service_child(&self, database: Database) -> Child {
        let (name, port) = self.client_service(database);
        let exposure = self.database(database).service.clone().unwrap_or_default();
        let spec = json!({
            "type": exposure.r#type,
            "selector": self.labels(database.component()),
            "ports": [{"name": "ovsdb", "port": port, "targetPort": "ovsdb"}],
        });
        let mut child = self.child::<Service>(&name, database.component(), &spec);
        if !exposure.annotations.is_empty() {
            child.object.metadata.annotations = Some(exposure.annotations);
        }
        child
    }

    /// OVSDB is for whoever needs it, hypervisors among them, which no selector can name. Raft is for members alone.
    fn policy(&self, database: Database) -> Value {
        let labels = self.labels(database.component());
        let tcp = |port: i32| json!({"port": port, "protocol": "TCP"});
        json!({
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [tcp(database.port()), tcp(database.control_port())]},
                {"ports": [tcp(database.raft_port())], "from": [{"podSelector": {"matchLabels": labels}}]},
            ],
            "egress": [
                {"ports": [tcp(53), {"port": 53, "protocol": "UDP"}]},
                {"ports": [tcp(database.raft_port())], "to": [{"podSelector": {"matchLabels": labels}}]},
            ],
        })
    }

    fn stateful_set(&self, database: Database, replicas: usize, live: Option<&DynamicObject>) -> Value {
        let (written, labels) = (self.database(database), self.labels(database.component()));
        let mut template = confined(pod(&self.member_containers(database), &self.member_volumes()));
        template["affinity"] = apart(&labels);
        template["terminationGracePeriodSeconds"] = json!(30);
        schedule(&mut template, written.scheduling.as_ref());
        let mut claim = json!({
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": claim_size(live).unwrap_or_else(|| json!(written.storage.size))}},
            },
        });
        if let Some(class) = &written.storage.storage_class {
            claim["spec"]["storageClassName"] = json!(class);
        }
        json!({
            "serviceName": self.raft_service(database),
            "replicas": replicas,
            // A member without data waits for orders, and must not hold up the others.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
            "volumeClaimTemplates": [claim],
        })
    }

    fn member_containers(&self, database: Database) -> Vec<Value> {
        let fields = [("POD_NAME", "metadata.name"), ("POD_IP", "status.podIP")];
        let raft =
            format!("{}:{}:{}", self.protocol(), self.member_host(database, "$(POD_NAME)"), database.raft_port());
        let fixed = [
            ("DATABASE", database.short().to_owned()),
            ("PORT", database.port().to_string()),
            ("RAFT_ADDRESS", raft),
            ("CONTROL_PORT", database.control_port().to_string()),
        ];
        let (_, tls) = self.tls_volume();
        let folders =
            [json!({"name": "data", "mountPath": "/var/lib/ovn"}), json!({"name": "run", "mountPath": "/run/ovn"})];
        let mounts: Vec<Value> = folders.into_iter().chain(tls).collect();

        let mut server = container(SERVER, &self.ovn_image(), &shell(MEMBER));
        server["env"] = json!(env(&fixed, &fields));
        server["volumeMounts"] = json!(mounts);
        server["ports"] = json!([
            {"name": "ovsdb", "containerPort": database.port()}, {"name": "raft", "containerPort": database.raft_port()},
        ]);
        server["resources"] = resources(self.database(database).resources.as_ref(), "100m", "128Mi");
        let scheme = if self.tls.is_some() { "HTTPS" } else { "HTTP" };
        server["readinessProbe"] = json!({
            "httpGet": {"path": "/ready", "port": database.control_port(), "scheme": scheme},
            "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 2,
        });

        let python = ["python3", "-c", CONTROL].map(ToOwned::to_owned);
        let mut control = container("control", &self.ovn_image(), &python);
        control["env"] = json!(env(&fixed, &fields));
        control["volumeMounts"] = json!(
            mounts
                .into_iter()
                .chain([json!({"name": "token", "mountPath": "/etc/ovn-control", "readOnly": true})])
                .collect::<Vec<_>>()
        );
        control["ports"] = json!([{"name": "control", "containerPort": database.control_port()}]);
        control["resources"] = resources(None, "20m", "48Mi");
        control["livenessProbe"] = json!({"tcpSocket": {"port": "control"}, "periodSeconds": 20, "timeoutSeconds": 5});
        vec![server, control]
    }

    fn member_volumes(&self) -> Vec<Value> {
        let (tls, _) = self.tls_volume();
        let own = [
            json!({"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
            json!({"name": "token", "secret": {"secretName": self.token().name, "defaultMode": 0o440}}),
        ];
        own.into_iter().chain(tls).collect()
    }
}

/// The size in the template of claims, which cannot be changed: volumes that exist grow by their claims.
pub(crate) fn claim_size(live: Option<&DynamicObject>) -> Option<Value> {
    let size = &live?.data["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
    Some(size.clone()).filter(|size| !size.is_null())
}

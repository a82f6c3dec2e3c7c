//! What the parts of an OVNCluster are called, where they listen, and what their pods have in common.

use c5c3_api::blocks::{Image, Port, Resources, Scheduling};
use c5c3_api::ovn::{OVNCluster, OVNClusterSpec, RaftDatabase, ServicePort};
use c5c3_kit::{Child, Ref, cluster_domain};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::remote::Door;

/// The images of an OVNCluster that names none.
const OVN_IMAGE: &str = "ghcr.io/c5c3/ovn:25.03.0";
const OVS_IMAGE: &str = "ghcr.io/c5c3/openvswitch:3.5.0";

/// The user that images run as.
const USER: i64 = 42424;

/// Where certificates are in pods.
pub(crate) const TLS_FOLDER: &str = "/etc/ovn-tls";

/// One of the two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Northbound,
    Southbound,
}

impl Database {
    /// As names have it.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::Northbound => "nb",
            Self::Southbound => "sb",
        }
    }

    /// As labels and the status have it.
    pub(crate) fn component(self) -> &'static str {
        match self {
            Self::Northbound => "northbound",
            Self::Southbound => "southbound",
        }
    }

    /// The condition that says how it is.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Northbound => "NorthboundReady",
            Self::Southbound => "SouthboundReady",
        }
    }

    /// Where clients connect to.
    pub(crate) fn port(self) -> i32 {
        match self {
            Self::Northbound => 6641,
            Self::Southbound => 6642,
        }
    }

    /// Where members connect to each other.
    pub(crate) fn raft_port(self) -> i32 {
        self.port() + 2
    }

    /// Where the operator asks and orders.
    pub(crate) fn control_port(self) -> i32 {
        self.port() + 20_000
    }
}

/// An OVNCluster with everything that its parts are named and built after.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) spec: OVNClusterSpec,
    /// The Secret with the certificate, if TLS is on.
    pub(crate) tls: Option<Ref>,
}

impl Layout {
    pub(crate) fn of(cluster: &OVNCluster) -> Self {
        let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
        let tls = cluster.spec.tls.as_ref().filter(|tls| tls.enabled).map(|tls| {
            let own = tls.cert_secret_ref.as_ref().map(|secret| secret.name.to_string());
            Ref::namespaced::<Secret>(&namespace, own.unwrap_or_else(|| format!("{name}-tls")))
        });
        Self { name, namespace, spec: cluster.spec.clone(), tls }
    }

    /// The name of a part: `ovn-nb`.
    pub(crate) fn named(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    pub(crate) fn labels(&self, component: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "ovn", "app.kubernetes.io/instance": self.name, "app.kubernetes.io/component": component,
        })
    }

    pub(crate) fn ovn_image(&self) -> String {
        self.spec.ovn_image.as_ref().map_or_else(|| OVN_IMAGE.to_owned(), Image::reference)
    }

    pub(crate) fn ovs_image(&self) -> String {
        self.spec.ovs_image.as_ref().map_or_else(|| OVS_IMAGE.to_owned(), Image::reference)
    }

    pub(crate) fn database(&self, database: Database) -> &RaftDatabase {
        match database {
            Database::Northbound => &self.spec.northbound,
            Database::Southbound => &self.spec.southbound,
        }
    }

    /// How OVSDB is spoken.
    pub(crate) fn protocol(&self) -> &'static str {
        if self.tls.is_some() { "ssl" } else { "tcp" }
    }

    /// The Service that gives each member its name.
    pub(crate) fn raft_service(&self, database: Database) -> String {
        self.named(&format!("{}-raft", database.short()))
    }

    pub(crate) fn pod(&self, database: Database, ordinal: usize) -> String {
        format!("{}-{ordinal}", self.named(database.short()))
    }

    /// The full name of a member. OVSDB resolves names by itself and knows no search domains.
    pub(crate) fn member_host(&self, database: Database, pod: &str) -> String {
        format!("{pod}.{}", cluster_domain::service_host(&self.raft_service(database), &self.namespace))
    }

    /// What a member is known by in its Raft cluster, for as long as it is in it.
    pub(crate) fn raft_address(&self, database: Database, ordinal: usize) -> String {
        let host = self.member_host(database, &self.pod(database, ordinal));
        format!("{}:{host}:{}", self.protocol(), database.raft_port())
    }

    /// The connections of all members, for clients that have to find the leader.
    pub(crate) fn remotes(&self, database: Database) -> String {
        let count = usize::try_from(self.database(database).replicas.get()).unwrap_or(1);
        let one = |ordinal| {
            let host = self.member_host(database, &self.pod(database, ordinal));
            format!("{}:{host}:{}", self.protocol(), database.port())
        };
        (0..count).map(one).collect::<Vec<_>>().join(",")
    }

    fn written_service(&self, database: Database) -> Option<&ServicePort> {
        match database {
            Database::Northbound => self.spec.northbound_service(),
            Database::Southbound => self.spec.southbound_service(),
        }
    }

    /// The Service for clients, and its port: `NAME-nb:6641` or `NAME-sb:6642` unless the object says otherwise.
    pub(crate) fn client_service(&self, database: Database) -> (String, i32) {
        let written = self.written_service(database);
        let name = written.and_then(|service| service.name.as_ref()).map(ToString::to_string);
        let port = written.and_then(|service| service.port).map_or(database.port(), Port::get);
        (name.unwrap_or_else(|| self.named(database.short())), port)
    }

    /// The connection for clients that any member serves.
    pub(crate) fn endpoint(&self, database: Database) -> String {
        let (service, port) = self.client_service(database);
        format!("{}:{}:{port}", self.protocol(), cluster_domain::service_host(&service, &self.namespace))
    }

    /// What the status says: the Service that the object names, or else all members. Neutron needs the leader, and behind a
    /// Service it would have to connect again and again until it meets it.
    pub(crate) fn published(&self, database: Database) -> String {
        if self.written_service(database).is_some() { self.endpoint(database) } else { self.remotes(database) }
    }

    /// Where a member takes questions and orders.
    pub(crate) fn door(&self, database: Database, pod: &str) -> Door {
        Door {
            namespace: self.namespace.clone(),
            pod: pod.to_owned(),
            port: database.control_port(),
            tls: self.tls.is_some(),
        }
    }

    /// The Secret with the token of orders.
    pub(crate) fn token(&self) -> Ref {
        Ref::namespaced::<Secret>(&self.namespace, self.named("control"))
    }

    /// A child with a spec.
    pub(crate) fn child<K: Resource<DynamicType = ()>>(&self, name: &str, component: &str, spec: &Value) -> Child {
        self.child_of::<K>(name, component, json!({ "spec": spec }))
    }

    /// A child.
    pub(crate) fn child_of<K: Resource<DynamicType = ()>>(&self, name: &str, component: &str, data: Value) -> Child {
        let resource = ApiResource::erase::<K>(&());
        let mut object = DynamicObject::new(name, &resource).within(&self.namespace);
        object.metadata.labels = serde_json::from_value(self.labels(component)).ok();
        object.data = data;
        Child::dynamic(resource, object)
    }

    /// The options of a daemon that speaks TLS.
    pub(crate) fn tls_options(&self) -> Vec<String> {
        if self.tls.is_none() {
            return Vec::new();
        }
        [("private-key", "tls.key"), ("certificate", "tls.crt"), ("ca-cert", "ca.crt")]
            .map(|(option, file)| format!("--{option}={TLS_FOLDER}/{file}"))
            .into()
    }

    /// The volume and the mount of the certificate.
    pub(crate) fn tls_volume(&self) -> (Vec<Value>, Vec<Value>) {
        let Some(secret) = &self.tls else { return Default::default() };
        let volume = json!({"name": "tls", "secret": {"secretName": secret.name, "defaultMode": 0o440}});
        (vec![volume], vec![json!({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": true})])
    }
}

/// What all pods have in common. ovsdb-server keeps its settings in a temporary file.
pub(crate) fn pod(containers: &[Value], volumes: &[Value]) -> Value {
    let with_scratch = |container: &Value| {
        let mut container = container.clone();
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.push(json!({"name": "tmp", "mountPath": "/tmp"}));
        }
        container
    };
    let tmp = json!({"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}});
    json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "containers": containers.iter().map(with_scratch).collect::<Vec<_>>(),
        "volumes": volumes.iter().cloned().chain([tmp]).collect::<Vec<_>>(),
    })
}

/// A pod of the user that images are made for.
pub(crate) fn confined(mut pod: Value) -> Value {
    pod["securityContext"] = json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
    });
    pod
}

/// A container that may do nothing but run, and with these capabilities of root.
pub(crate) fn security(capabilities: &[&str]) -> Value {
    let mut own = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    if !capabilities.is_empty() {
        own["capabilities"]["add"] = json!(capabilities);
    }
    own
}

/// A container.
pub(crate) fn container(name: &str, image: &str, args: &[String]) -> Value {
    json!({
        "name": name, "image": image, "imagePullPolicy": "IfNotPresent", "args": args, "securityContext": security(&[]),
    })
}

/// Arguments that run a script of ours.
pub(crate) fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(ToOwned::to_owned).into()
}

/// A probe by a command of the shell.
pub(crate) fn says(command: &str, period: i32) -> Value {
    json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": 3})
}

/// Where the user wants pods, over what we choose.
pub(crate) fn schedule(pod: &mut Value, scheduling: Option<&Scheduling>) {
    let Some(Value::Object(wanted)) = scheduling.map(|scheduling| json!(scheduling)) else { return };
    let Some(fields) = pod.as_object_mut() else { return };
    fields.extend(wanted);
}

/// Pods of a component keep away from each other, where there is room.
pub(crate) fn apart(labels: &Value) -> Value {
    json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}},
    }]}})
}

/// The resources of a spec, or these requests.
pub(crate) fn resources(own: Option<&Resources>, cpu: &str, memory: &str) -> Value {
    own.map_or_else(|| json!({"requests": {"cpu": cpu, "memory": memory}}), |own| json!(own))
}

/// The environment of a container.
pub(crate) fn env(fixed: &[(&str, String)], fields: &[(&str, &str)]) -> Vec<Value> {
    let fixed = fixed.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let from = |(name, path): &(&str, &str)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    fields.iter().map(from).chain(fixed).collect()
}

/// The image of the named container in a live workload.
pub(crate) fn live_image<'a>(live: Option<&'a DynamicObject>, container: &str) -> Option<&'a str> {
    let containers = live?.data["spec"]["template"]["spec"]["containers"].as_array()?;
    containers.iter().find(|found| found["name"] == container)?["image"].as_str()
}

/// A status without what is not known.
pub(crate) fn known(fields: &[(&str, Value)]) -> Value {
    let known = fields.iter().filter(|(_, value)| !value.is_null());
    Value::Object(known.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>())
}

//! The agents on hypervisors: a DaemonSet for each, with an account whose tokens are confined to the objects of their node.

use c5c3_agent_publish::Access;
use c5c3_api::Kind;
use serde_json::{Value, json};

use super::{HOME, PORT, grant, image, object};

/// The label of hypervisors.
pub(crate) const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";

/// Where an agent finds the host's `os-release`.
const OS_RELEASE: &str = "/host/os-release";

/// An agent.
pub(crate) struct Agent {
    /// As the command line names it.
    pub(crate) name: &'static str,
    /// Where its pods are.
    home: String,
    objects: Objects,
    access: Access,
    /// Folders of sockets that it sees, at the same paths, read-only. They may be missing when the pod starts.
    folders: &'static [(&'static str, &'static str)],
    /// Whether it tells of the operating system.
    tells_of_os: bool,
}

/// The namespace of an agent's objects.
enum Objects {
    /// That of a cloud.
    Cloud(String),
    /// The one that the agent runs in.
    Home,
}

/// All agents. `namespace` is where operators and their objects are.
pub(crate) fn all(namespace: &str) -> Vec<Agent> {
    vec![
        Agent {
            name: "node",
            home: HOME.to_owned(),
            objects: Objects::Cloud(namespace.to_owned()),
            access: c5c3_agent_node::access(),
            folders: &[("libvirt", "/run/libvirt")],
            tells_of_os: true,
        },
        Agent {
            name: "ovs",
            home: "ovn-system".to_owned(),
            objects: Objects::Home,
            access: c5c3_agent_ovs::access(),
            folders: &[("switch", "/run/openvswitch"), ("ovn", "/run/ovn")],
            tells_of_os: false,
        },
    ]
}

impl Agent {
    /// The name of its DaemonSet, its account and its chart.
    pub(crate) fn own(&self) -> String {
        format!("c5c3-agent-{}", self.name)
    }

    /// The namespace that it runs in.
    pub(crate) fn home(&self) -> &str {
        &self.home
    }

    /// The same agent in another namespace.
    pub(crate) fn in_namespace(self, home: &str) -> Self {
        Self { home: home.to_owned(), ..self }
    }

    /// Whether it writes objects of one cloud.
    pub(crate) fn is_about_a_cloud(&self) -> bool {
        matches!(self.objects, Objects::Cloud(_))
    }

    /// Whether it writes objects of a kind.
    pub(crate) fn writes(&self, kind: &Kind) -> bool {
        let plural = kind.crd().spec.names.plural;
        let is_it =
            |(group, resources): &(&str, Vec<&str>)| *group == kind.group() && resources.contains(&plural.as_str());
        self.access.resources.iter().any(is_it)
    }

    /// Where its objects are.
    pub(crate) fn objects(&self) -> &str {
        match &self.objects {
            Objects::Cloud(namespace) => namespace,
            Objects::Home => &self.home,
        }
    }

    /// Everything that the agent needs but its CRDs, in the order in which it is applied.
    pub(crate) fn manifests(&self) -> Vec<Value> {
        let own = self.own();
        let account = (own.as_str(), self.home.as_str());
        let rules = |rules: &Value| serde_json::from_value::<Vec<_>>(rules.clone()).expect("rules of a role");
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.home}}),
            object("v1", "ServiceAccount", &own, Some(&self.home)),
        ];
        objects.extend(grant(account, &own, None, None, &rules(&self.access.in_cluster)));
        let in_namespace = rules(&self.access.in_namespace);
        objects.extend(grant(account, &format!("{own}-objects"), None, Some(self.objects()), &in_namespace));
        objects.extend(self.access.policy(&own, account));
        objects.push(self.daemon_set(&own));
        objects
    }

    /// A pod on each hypervisor. It is root without any capability, because the sockets belong to root.
    fn daemon_set(&self, own: &str) -> Value {
        let labels = json!({"app.kubernetes.io/name": own, "app.kubernetes.io/part-of": "c5c3"});
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
        let volume =
            |name: &str, path: &str, kind: &str| json!({"name": name, "hostPath": {"path": path, "type": kind}});
        let mut mounts: Vec<Value> = self.folders.iter().map(|(name, path)| mount(name, path)).collect();
        let mut volumes: Vec<Value> =
            self.folders.iter().map(|(name, path)| volume(name, path, "DirectoryOrCreate")).collect();
        let mut args: Vec<String> = ["c5c3", "agent", self.name, "--log-format=json"].map(ToOwned::to_owned).into();
        args.push(format!("--metrics-address=0.0.0.0:{PORT}"));
        args.push(format!("--namespace={}", self.objects()));
        if self.tells_of_os {
            args.push(format!("--os-release={OS_RELEASE}"));
            mounts.push(mount("os-release", OS_RELEASE));
            // Not checked: a host without the file has an agent, too.
            volumes.push(volume("os-release", "/etc/os-release", ""));
        }
        let mut set = object("apps/v1", "DaemonSet", own, Some(&self.home));
        set["spec"] = json!({
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": own,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": HYPERVISOR, "operator": "Exists"}]}],
                    }}},
                    "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "agent",
                        "image": image(),
                        "args": args,
                        "env": [field("NODE_NAME", "spec.nodeName")],
                        "ports": [{"name": "http", "containerPort": PORT}],
                        "livenessProbe": probe("/healthz"),
                        "readinessProbe": probe("/readyz"),
                        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": mounts,
                    }],
                    "volumes": volumes,
                },
            },
        });
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_reads_no_secret_and_may_do_nothing_with_everything() {
        for agent in all("cellar") {
            let objects = agent.manifests();
            let rules: Vec<&Value> = objects.iter().map(|object| &object["rules"]).collect();
            let text = json!(rules).to_string();
            assert!(!text.contains('*') && !text.contains("secrets"), "{}: {text}", agent.name);
            assert!(objects.iter().any(|object| object["kind"] == "ValidatingAdmissionPolicy"), "{}", agent.name);
        }
    }

    #[test]
    fn migrations_are_where_the_operators_objects_are() {
        let node = all("cellar").remove(0);
        let text = json!(node.manifests()).to_string();
        assert!(text.contains("--namespace=cellar"), "{text}");
    }
}

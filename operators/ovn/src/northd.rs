//! northd: of several pods one works, the others wait for its lock.

use c5c3_kit::Child;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::layout::{Database, Layout, apart, confined, container, pod, resources, says, schedule};

/// The daemon and its label.
pub(crate) const COMPONENT: &str = "northd";

const CONNECTED: &str = "for side in nb sb; do [ \"$(ovn-appctl -T 5 -t /run/ovn/northd.ctl $side-connection-status)\" = connected ] || exit 1; done";
const ALIVE: &str = "ovn-appctl -T 5 -t /run/ovn/northd.ctl version";

impl Layout {
    pub(crate) fn northd_children(&self) -> Vec<Child> {
        let (name, labels, written) = (self.named(COMPONENT), self.labels(COMPONENT), &self.spec.northd);
        let args = [
            "ovn-northd".to_owned(),
            "-vconsole:info".to_owned(),
            "-vfile:off".to_owned(),
            "-vsyslog:off".to_owned(),
            "--unixctl=/run/ovn/northd.ctl".to_owned(),
            format!("--ovnnb-db={}", self.remotes(Database::Northbound)),
            format!("--ovnsb-db={}", self.remotes(Database::Southbound)),
        ];
        let args: Vec<String> = args.into_iter().chain(self.tls_options()).collect();
        let (tls_volumes, tls_mounts) = self.tls_volume();
        let mut daemon = container(COMPONENT, &self.ovn_image(), &args);
        daemon["volumeMounts"] =
            json!([json!({"name": "run", "mountPath": "/run/ovn"})].into_iter().chain(tls_mounts).collect::<Vec<_>>());
        daemon["resources"] = resources(written.resources.as_ref(), "100m", "128Mi");
        daemon["readinessProbe"] = says(CONNECTED, 5);
        daemon["livenessProbe"] = says(ALIVE, 20);
        let volumes = [json!({"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}})];
        let mut template = confined(pod(&[daemon], &volumes.into_iter().chain(tls_volumes).collect::<Vec<_>>()));
        template["affinity"] = apart(&labels);
        schedule(&mut template, written.scheduling.as_ref());
        let deployment = json!({
            "replicas": written.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
            "template": {"metadata": {"labels": labels}, "spec": template},
        });
        let tcp = |port: i32| json!({"port": port, "protocol": "TCP"});
        let to = |database: Database| {
            json!({
                "ports": [tcp(database.port())], "to": [{"podSelector": {"matchLabels": self.labels(database.component())}}],
            })
        };
        let policy = json!({
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": [{"ports": [tcp(53), {"port": 53, "protocol": "UDP"}]}, to(Database::Northbound), to(Database::Southbound)],
        });
        let mut children = vec![
            self.child::<Deployment>(&name, COMPONENT, &deployment).version(self.ovn_image()),
            self.child::<NetworkPolicy>(&name, COMPONENT, &policy),
        ];
        if written.replicas.get() > 1 {
            let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": labels}});
            children.push(self.child::<PodDisruptionBudget>(&name, COMPONENT, &budget));
        }
        children
    }
}

//! The daemons on each hypervisor: Open vSwitch, and ovn-controller, which tells it what to do.

use c5c3_api::ovn::NodeDaemon;
use c5c3_kit::Child;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use crate::layout::{Layout, container, env, pod, resources, says, security, shell};
use crate::remote::TUN;

pub(crate) const OVSDB: &str = include_str!("ovsdb.sh");
pub(crate) const VSWITCHD: &str = include_str!("vswitchd.sh");
pub(crate) const CONFIGURE: &str = include_str!("configure.sh");

/// The daemons, their names and labels.
pub(crate) const CONTROLLER: &str = "controller";
pub(crate) const OVS: &str = "ovs";

/// The container whose image says which version of Open vSwitch runs.
pub(crate) const SWITCH: &str = "vswitchd";

/// Sockets of Open vSwitch, which libvirt and agents look for at this path.
const RUN: &str = "/run/openvswitch";

impl Layout {
    /// The ConfigMap with the settings of each node's Open vSwitch.
    pub(crate) fn chassis_config(&self) -> String {
        self.named("chassis")
    }

    /// Open vSwitch. Its image is given, because a new one waits for ovn-controller.
    pub(crate) fn ovs_child(&self, image: &str, asks_for_tun: bool) -> Child {
        let host =
            |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}});
        let at = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let run = at("run", RUN);

        let mut database = container("ovsdb", image, &shell(OVSDB));
        database["volumeMounts"] = json!([run, at("database", "/etc/openvswitch")]);
        database["readinessProbe"] = says("ovs-vsctl -t 5 --no-wait show", 10);
        database["resources"] = resources(None, "20m", "32Mi");

        let mut switch = container(SWITCH, image, &shell(VSWITCHD));
        // Links and packets; the kernel's datapath is reached with the first one alone.
        switch["securityContext"] = security(&["NET_ADMIN", "NET_RAW", "SYS_NICE"]);
        switch["volumeMounts"] = json!([run]);
        switch["readinessProbe"] = says("ovs-appctl -T 5 -t /run/openvswitch/ovs-vswitchd.ctl version", 10);
        switch["livenessProbe"] = says("ovs-appctl -T 5 -t /run/openvswitch/ovs-vswitchd.ctl version", 20);
        switch["resources"] = resources(self.spec.ovs.resources.as_ref(), "100m", "128Mi");
        if asks_for_tun {
            switch["resources"]["limits"][TUN] = json!("1");
        }

        let mut configure = container("chassis", image, &shell(CONFIGURE));
        configure["securityContext"] = security(&["NET_ADMIN"]);
        configure["env"] = json!(env(&[], &[("NODE_NAME", "spec.nodeName")]));
        configure["volumeMounts"] =
            json!([run, at("chassis", "/etc/ovn-chassis"), at("configured", "/run/configured")]);
        configure["readinessProbe"] = says("test -e /run/configured/chassis", 5);
        configure["resources"] = resources(None, "10m", "16Mi");

        let volumes = [
            host("run", RUN),
            host("database", "/etc/openvswitch"),
            json!({"name": "chassis", "configMap": {"name": self.chassis_config()}}),
            json!({"name": "configured", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        ];
        self.daemon(OVS, &self.spec.ovs, pod(&[database, switch, configure], &volumes)).version(image)
    }

    /// ovn-controller.
    pub(crate) fn controller_child(&self) -> Child {
        let args = [
            "ovn-controller",
            "-vconsole:info",
            "-vfile:off",
            "-vsyslog:off",
            "--unixctl=/run/ovn/controller.ctl",
            "unix:/run/openvswitch/db.sock",
        ];
        let args: Vec<String> = args.into_iter().map(ToOwned::to_owned).chain(self.tls_options()).collect();
        let (tls_volumes, tls_mounts) = self.tls_volume();
        let mut daemon = container(CONTROLLER, &self.ovn_image(), &args);
        let mounts = [json!({"name": "run", "mountPath": RUN}), json!({"name": "own", "mountPath": "/run/ovn"})];
        daemon["volumeMounts"] = json!(mounts.into_iter().chain(tls_mounts).collect::<Vec<_>>());
        daemon["resources"] = resources(self.spec.controller.resources.as_ref(), "100m", "128Mi");
        let connected = "[ \"$(ovn-appctl -T 5 -t /run/ovn/controller.ctl connection-status)\" = connected ]";
        daemon["readinessProbe"] = says(connected, 5);
        daemon["livenessProbe"] = says("ovn-appctl -T 5 -t /run/ovn/controller.ctl version", 20);
        let volumes = [
            json!({"name": "run", "hostPath": {"path": RUN, "type": "DirectoryOrCreate"}}),
            // A folder of the node, because the agent of Open vSwitch asks ovn-controller there.
            json!({"name": "own", "hostPath": {"path": "/run/ovn", "type": "DirectoryOrCreate"}}),
        ];
        let volumes: Vec<Value> = volumes.into_iter().chain(tls_volumes).collect();
        self.daemon(CONTROLLER, &self.spec.controller, pod(&[daemon], &volumes)).version(self.ovn_image())
    }

    /// In the network of the node, as root, because the sockets and the database there are root's.
    fn daemon(&self, component: &str, written: &NodeDaemon, mut template: Value) -> Child {
        template["hostNetwork"] = json!(true);
        template["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        template["securityContext"] =
            json!({"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}});
        template["priorityClassName"] = json!("system-node-critical");
        template["nodeSelector"] = json!(written.node_selector);
        // Instances need a network also on a node that takes no new pods.
        template["tolerations"] =
            if written.tolerations.is_empty() { json!([{"operator": "Exists"}]) } else { json!(written.tolerations) };
        let labels = self.labels(component);
        let set = json!({
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": template},
        });
        self.child::<DaemonSet>(&self.named(component), component, &set)
    }
}

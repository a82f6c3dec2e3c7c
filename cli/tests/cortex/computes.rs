//! Hypervisors that pretend: nova-compute with Nova's fake driver, in pods like those of their cell's conductor.

use serde_json::{Value, json};

use crate::cloud::{Cloud, client};

const DRIVER: &str = include_str!("../servers/stable_fake.py");

/// Runs what follows in a pod of Nova's API.
pub fn in_api() -> String {
    "kubectl -n cloud exec -i deploy/nova-api -c api --".to_owned()
}

/// The pods of a conductor have the certificates that nova-compute's configuration names.
fn pods(conductor: &Value, packages: &str) -> Value {
    let template = &conductor["spec"]["template"]["spec"];
    let of_both = |list: &Value| -> Vec<Value> {
        let all = list.as_array().unwrap().iter();
        all.filter(|one| one["name"] != "config" && one["name"] != "state").cloned().collect()
    };
    let container = &template["containers"][0];
    let (mut mounts, mut volumes) = (of_both(&container["volumeMounts"]), of_both(&template["volumes"]));
    mounts.extend([
        json!({"name": "config", "mountPath": "/etc/nova", "readOnly": true}),
        json!({"name": "state", "mountPath": "/var/lib/nova"}),
        json!({"name": "driver", "mountPath": format!("{packages}/nova/virt/stable_fake.py"),
               "subPath": "stable_fake.py", "readOnly": true}),
    ]);
    volumes.extend([
        json!({"name": "config", "secret": {"secretName": "nova-compute-cell1", "defaultMode": 288}}),
        json!({"name": "state", "emptyDir": {}}),
        json!({"name": "driver", "configMap": {"name": "pretend"}}),
    ]);
    let compute = json!({
        "name": "nova-compute", "image": container["image"], "imagePullPolicy": "IfNotPresent",
        "args": ["/opt/nova/bin/nova-compute", "--config-file=/etc/nova/nova.conf"],
        "env": [{"name": "OS_DEFAULT__COMPUTE_DRIVER", "value": "stable_fake.StableFakeDriver"}],
        "securityContext": container["securityContext"], "volumeMounts": mounts,
    });
    let labels = json!({"app": "pretend"});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "pretend", "namespace": "cloud"},
        "spec": {
            "replicas": 3, "serviceName": "pretend", "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"securityContext": template["securityContext"], "containers": [compute], "volumes": volumes},
            },
        },
    })
}

pub fn register(cloud: &Cloud) {
    let it = &cloud.machine;
    let conductor = it.ok("kubectl -n cloud get statefulset nova-conductor-cell1 -o json");
    let python = "import sysconfig; print(sysconfig.get_path(\"purelib\"))";
    let packages = it.ok(&format!("{} /opt/nova/bin/python -c '{python}'", in_api()));
    it.write("stable_fake.py", DRIVER);
    let pods = pods(&serde_json::from_str(&conductor).unwrap(), packages.trim());
    it.write("computes.json", &pods.to_string());
    it.ok("kubectl -n cloud create configmap pretend --from-file=stable_fake.py && kubectl apply -f computes.json");
    let list = "compute service list --service nova-compute -f value -c Host -c State | sort | xargs";
    it.eventually(&client(list), "pretend-0 up pretend-1 up pretend-2 up");
    let count = "kubectl -n cloud get nova nova -o jsonpath='{.status.cells[?(@.name==\"cell1\")].computeNodes}'";
    it.eventually(count, "3");
}

//! Hypervisors that pretend: nova-compute with Nova's fake driver, configured as real ones are, by the Secret of their cell.

use crate::cells::status;
use crate::cloud::{Cloud, client};

const DRIVER: &str = include_str!("stable_fake.py");

/// As many as one likes, under names that stay.
const COMPUTES: &str = r"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pretend, namespace: cloud}
spec:
  replicas: 2
  serviceName: pretend
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: pretend}}
  template:
    metadata: {labels: {app: pretend}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 42424, runAsGroup: 42424, fsGroup: 42424, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: nova-compute
        image: IMAGE
        imagePullPolicy: IfNotPresent
        args: [/opt/nova/bin/nova-compute, --config-file=/etc/nova/nova.conf]
        env: [{name: OS_DEFAULT__COMPUTE_DRIVER, value: stable_fake.StableFakeDriver}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
        volumeMounts:
        - {name: config, mountPath: /etc/nova, readOnly: true}
        - {name: driver, mountPath: PACKAGES/nova/virt/stable_fake.py, subPath: stable_fake.py, readOnly: true}
        - {name: state, mountPath: /var/lib/nova}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - {name: config, secret: {secretName: nova-compute-cell1, defaultMode: 288}}
      - {name: driver, configMap: {name: pretend}}
      - {name: state, emptyDir: {}}
      - {name: tmp, emptyDir: {}}
";

const COUNT: &str = "kubectl -n cloud get nova nova -o jsonpath='{.status.cells[?(@.name==\"cell1\")].computeNodes}'";

/// They register in their cell, schedulers find them, and one that is restarted is the same one.
pub fn register_and_are_counted(cloud: &Cloud) {
    let it = &cloud.machine;
    let image = it.ok("kubectl -n cloud get deploy nova-api -o jsonpath='{.spec.template.spec.containers[0].image}'");
    let python = "import sysconfig; print(sysconfig.get_path(\"purelib\"))";
    let packages = it.ok(&format!("{} /opt/nova/bin/python -c '{python}'", crate::in_api()));
    it.write("stable_fake.py", DRIVER);
    it.write("computes.yaml", &COMPUTES.replace("IMAGE", image.trim()).replace("PACKAGES", packages.trim()));
    it.ok("kubectl -n cloud create configmap pretend --from-file=stable_fake.py && kubectl apply -f computes.yaml");
    let list = "compute service list --service nova-compute -f value -c Host -c State | sort | xargs";
    it.eventually(&client(list), "pretend-0 up pretend-1 up");
    it.eventually(COUNT, "2");
    it.eventually(&status("cell1"), "Ready");
    let hypervisors = client("hypervisor list -f value -c ID -c \"Hypervisor Hostname\" | sort | xargs");
    let before = it.ok(&hypervisors);
    it.ok("kubectl -n cloud delete pod pretend-0");
    it.ok("kubectl -n cloud rollout status statefulset/pretend --timeout=100s");
    it.eventually(&client(list), "pretend-0 up pretend-1 up");
    it.says(&hypervisors, &before);
}

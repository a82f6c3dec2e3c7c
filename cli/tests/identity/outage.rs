//! Keystone is scaled to 0 for a minute: each of the nine kinds says so or waits for one that does, `c5c3 why` names the link that
//! fails, and everything comes back by itself, with the ids that it had.

use std::time::{Duration, Instant};

use crate::cloud::{self, Cloud};

/// Kinds that a ControlPlane makes no object of, or none of a customer: a group, and a user with its role.
const CUSTOMER: &str = "
apiVersion: v1
kind: Secret
metadata: {name: customer-password, namespace: cloud}
stringData: {password: hornbeams-make-a-hedge}
---
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: Group
metadata: {name: gardeners, namespace: cloud}
spec:
  cloudCredentialsRef: {cloudName: openstack, secretName: k-orc-clouds-yaml}
  resource: {}
---
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: User
metadata: {name: customer, namespace: cloud}
spec:
  cloudCredentialsRef: {cloudName: openstack, secretName: k-orc-clouds-yaml}
  resource: {passwordRef: customer-password, defaultProjectRef: customer-project}
---
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: RoleAssignment
metadata: {name: customer-member, namespace: cloud}
spec:
  cloudCredentialsRef: {cloudName: openstack, secretName: k-orc-clouds-yaml}
  resource: {roleRef: member-role, userRef: customer, projectRef: customer-project}
";

/// The credential of the customer, which nothing can make while Keystone is away.
const ROTATION: &str = "
apiVersion: c5c3.io/v1alpha1
kind: CredentialRotation
metadata: {name: customer-rotation, namespace: cloud}
spec:
  targetServiceUser: customer
  rotationType: applicationCredential
  schedule: {intervalDays: 90, preRotationDays: 7}
";

/// How long Keystone's API refuses, at least.
const AWAY: Duration = Duration::from_mins(1);

/// All that K-ORC manages.
const KINDS: [&str; 9] =
    ["ApplicationCredential", "Domain", "Endpoint", "Group", "Project", "Role", "RoleAssignment", "Service", "User"];

/// The kinds, as `kubectl` is told of several.
fn resources() -> String {
    KINDS.map(|kind| format!("{}s.openstack.k-orc.cloud", kind.to_lowercase())).join(",")
}

/// Objects and why they progress, a line each.
pub fn progress() -> String {
    let reason = "{.status.conditions[?(@.type==\"Progressing\")].reason}";
    let line = format!("{{range .items[*]}}{{.kind}} {{.metadata.name}} {reason}{{\"\\n\"}}{{end}}");
    format!("kubectl -n cloud get {} -o jsonpath='{line}'", resources())
}

/// Objects and their ids in Keystone, a line each, but those of a rotation that begins meanwhile.
fn ids(cloud: &Cloud) -> String {
    let line = "{range .items[*]}{.kind} {.metadata.name} {.status.id}{\"\\n\"}{end}";
    let listed = format!("kubectl -n cloud get {} -o jsonpath='{line}'", resources());
    cloud.machine.ok(&format!("{listed} | grep -v ' customer-app-credential-' | LC_ALL=C sort"))
}

/// What says whether Keystone's API answers: nothing if it does not.
fn answers(cloud: &Cloud) -> String {
    let address = cloud.machine.ok("kubectl -n cloud get service keystone -o jsonpath='{.spec.clusterIP}'");
    format!("curl -s -m 5 -o answer.txt http://{address}:5000/v3 && echo it answers || true")
}

fn scale(cloud: &Cloud, replicas: u8) {
    let patch = format!(r#"{{"spec": {{"services": {{"keystone": {{"replicas": {replicas}}}}}}}}}"#);
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

/// A project has been made before, and the user of it is made here.
pub fn is_said_by_every_kind_and_ends_by_itself(cloud: &Cloud) {
    let it = &cloud.machine;
    it.write("customer.yaml", CUSTOMER);
    it.write("rotation.yaml", ROTATION);
    it.ok("kubectl apply -f customer.yaml");
    it.eventually(&crate::available("roleassignments", "customer-member"), "True");
    it.eventually(&crate::available("groups", "gardeners"), "True");

    let (before, answers) = (ids(cloud), answers(cloud));
    it.says(&answers, "it answers");
    scale(cloud, 0);
    // A pod on its way out still answers.
    let pods = "kubectl -n cloud get pods -l app.kubernetes.io/name=keystone,app.kubernetes.io/component=api -o name";
    it.eventually(&format!("{pods} 2>/dev/null"), "");
    it.eventually(&answers, "");
    let refuses = Instant::now();
    it.ok("kubectl apply -f rotation.yaml");
    let why = "$C5C3 why credentialrotation/customer-rotation -n cloud --data $PWD/data";
    // That Keystone is away, or that its user cannot be looked at: whichever was seen last.
    let credential = "applicationcredential/customer-app-credential-v1  *(TransientError|Progressing)";
    it.eventually(&format!("{why} | grep -qE '{credential}' && echo named"), "named");
    eprintln!("{}", it.ok(&format!("{why} || true")));
    let patch = r#"{"spec": {"resource": {"description": "Changed meanwhile"}}}"#;
    it.ok(&format!("kubectl -n cloud patch projects.openstack.k-orc.cloud customer-project --type=merge -p '{patch}'"));
    // What was read a moment ago answers for objects that are looked at, and they are looked at when they change.
    let look = format!("kubectl -n cloud annotate {} --all seen=$(date +%s%N) --overwrite >annotated.txt", resources());
    // What refers to a resource that cannot be looked at waits for that.
    let reasons = "grep -E ' (TransientError|Progressing)$'";
    let silent = format!("{} | {reasons} | cut -d' ' -f1 | LC_ALL=C sort -u | paste -s -d,", progress());
    it.eventually(&format!("{look}; {silent}"), &KINDS.join(","));
    let said = refuses.elapsed();
    while refuses.elapsed() < AWAY {
        it.says(&answers, "");
        std::thread::sleep(Duration::from_millis(500));
    }
    it.eventually(&silent, &KINDS.join(","));
    it.says(&answers, "");
    let away = refuses.elapsed();

    scale(cloud, 1);
    let show = cloud::client("project show customer-project -f value -c description 2>/dev/null");
    it.eventually(&show, "Changed meanwhile");
    it.eventually(&format!("{} | grep -v ' Success$'", progress()), "");
    it.eventually(&crate::available("applicationcredentials", "customer-app-credential-v1"), "True");
    it.eventually(&format!("{why} >why.txt && echo ready"), "ready");
    cloud.settle();
    assert_eq!(ids(cloud), before, "something has another id, or is gone");
    let back = refuses.elapsed().saturating_sub(away);
    eprintln!("Keystone away for {away:.1?}: said by all kinds after {said:.1?}, all of them back {back:.1?} later");
}

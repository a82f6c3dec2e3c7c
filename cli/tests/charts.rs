//! The charts, with a genuine Helm: they install what `c5c3 manifests` prints, twice the same, and leave what users made.

#[allow(dead_code, reason = "shared with the sessions of kubectl")]
mod server;
#[allow(dead_code, reason = "shared with the sessions of kubectl")]
mod terminal;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use terminal::Terminal;

const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/charts");

/// What a program prints, both streams, and whether it succeeded.
fn run(program: &str, args: &[&str], folder: &Path) -> (String, bool) {
    let mut command = Command::new(program);
    // No repositories, registries or plugins of the user's.
    command.args(args).current_dir(folder).env("HELM_CONFIG_HOME", folder).env("HELM_CACHE_HOME", folder);
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}; `make {program}` unpacks it"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (text, output.status.success())
}

fn helm(args: &[&str], folder: &Path) -> String {
    let (text, succeeded) = run("helm", args, folder);
    assert!(succeeded, "helm {}: {text}", args.join(" "));
    text
}

/// The charts of operators and agents, each with its folder.
fn charts() -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(CHARTS).unwrap().flatten().filter(|entry| entry.path().is_dir());
    let mut charts: Vec<(String, PathBuf)> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path())).collect();
    charts.retain(|(name, _)| name != "c5c3");
    charts.sort();
    assert!(charts.len() >= 10, "{charts:?}");
    charts
}

/// Objects of a text by what they are called, but for namespaces, which Helm or another file makes.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let objects = documents.into_iter().filter(|object| !object.is_null() && object["kind"] != "Namespace");
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{}/{}/{}", object["kind"], metadata["namespace"], metadata["name"])
    };
    objects.map(|object| (name(&object), object)).collect()
}

/// What `c5c3 manifests` prints with these arguments.
fn manifests(args: &[&str]) -> BTreeMap<String, Value> {
    let (text, succeeded) = run(env!("CARGO_BIN_EXE_c5c3"), &[&["manifests"], args].concat(), Path::new("/"));
    assert!(succeeded, "{text}");
    objects(&text)
}

/// Where the pods of an operator or an agent run.
fn home(manifests: &BTreeMap<String, Value>, chart: &str) -> String {
    let is_it = |object: &&Value| {
        (object["kind"] == "Deployment" || object["kind"] == "DaemonSet") && object["metadata"]["name"] == chart
    };
    manifests.values().find(is_it).unwrap()["metadata"]["namespace"].as_str().unwrap().to_owned()
}

/// A copy of all charts, in which that of all operators has its dependencies.
fn umbrella() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (said, copied) = run("cp", &["-r", CHARTS, "charts"], folder.path());
    assert!(copied, "{said}");
    let chart = folder.path().join("charts/c5c3").to_str().unwrap().to_owned();
    helm(&["dependency", "update", &chart], folder.path());
    (folder, chart)
}

/// Whether only the chart of the operator of hypervisors has such a value.
fn is_of_hypervisors(value: &str) -> bool {
    value.contains("=hold.") || value.contains("=certificateIssuer.")
}

#[test]
fn a_chart_installs_what_the_manifests_say() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--webhooks", "--monitoring"], &["--api-versions=monitoring.coreos.com/v1"]),
        (&["--all-namespaces"], &["--set=watchNamespace=", "--set=webhooks.enabled=false"]),
        (&["--namespace=cellar", "--webhooks"], &["--set=watchNamespace=cellar"]),
        (
            &["--webhooks", "--hold-namespace=kube-system", "--certificate-issuer=pki/ClusterIssuer/libvirt"],
            &[
                "--set=hold.namespace=kube-system",
                "--set=certificateIssuer.namespace=pki,certificateIssuer.name=libvirt",
            ],
        ),
    ];
    for (told, values) in cases {
        let expected = manifests(told);
        let mut rendered = BTreeMap::new();
        for (chart, path) in charts() {
            let home = home(&expected, &chart);
            let args = ["template", &chart, path.to_str().unwrap(), "--namespace", &home];
            // The agent of switches writes objects in its own namespace, and no agent has webhooks.
            let is_known = |value: &&&str| match chart.as_str() {
                other if other != "hypervisor-operator" && is_of_hypervisors(value) => false,
                "c5c3-agent-ovs" => value.starts_with("--api-versions"),
                "c5c3-agent-node" => !value.contains("webhooks"),
                _ => true,
            };
            let values: Vec<&str> = values.iter().filter(is_known).copied().collect();
            let text = helm(&[&args, values.as_slice()].concat(), folder.path());
            rendered.extend(objects(&text));
        }
        assert_eq!(rendered.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{told:?}");
        for (name, object) in &rendered {
            assert_eq!(object, &expected[name], "{told:?}: {name}");
        }
    }
}

#[test]
fn the_chart_of_all_installs_all_each_in_its_namespace() {
    let (folder, chart) = umbrella();
    helm(&["lint", "--strict", &chart], folder.path());
    let rendered = objects(&helm(&["template", "c5c3", &chart, "--namespace=c5c3-system"], folder.path()));
    assert_eq!(rendered, manifests(&["--webhooks"]));
    let fewer = helm(&["template", "c5c3", &chart, "--set=tempest-operator.enabled=false"], folder.path());
    assert!(!fewer.contains("tempest-operator") && fewer.contains("nova-operator"));
}

#[test]
fn charts_are_without_fault_and_their_values_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (chart, path) in charts() {
        let path = path.to_str().unwrap();
        helm(&["lint", "--strict", path], folder.path());
        for wrong in ["--set=replicaCounts=3", "--set=image.digest=latest", "--set-string=replicas=two"] {
            let (said, succeeded) = run("helm", &["template", &chart, path, wrong], folder.path());
            assert!(!succeeded && said.contains("schema"), "{chart} {wrong}: {said}");
        }
    }
}

#[test]
fn the_values_of_the_documents_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str]); 2] = [
        ("c5c3-operator", &["--set=replicaCount=2", "--set=metrics.enabled=true"]),
        ("openstack-resource-controller", &["--set=globalCloudConfig.secretName=k-orc-clouds-yaml"]),
    ];
    for (chart, values) in cases {
        helm(&[&["template", chart, &format!("{CHARTS}/{chart}")], values].concat(), folder.path());
    }
}

#[test]
fn replicas_and_images_are_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = |values: &[&str]| {
        let path = format!("{CHARTS}/nova-operator");
        let text = helm(&[&["template", "nova-operator", &path], values].concat(), folder.path());
        let found = objects(&text).into_values().find(|object| object["kind"] == "Deployment").unwrap();
        let image = found["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        (found["spec"]["replicas"].as_u64().unwrap(), image, found.to_string())
    };
    let version = env!("CARGO_PKG_VERSION");
    let (replicas, image, _) = deployment(&[]);
    assert_eq!((replicas, image), (2, format!("ghcr.io/c5c3/c5c3:{version}")));
    assert_eq!(deployment(&["--set=replicaCount=3"]).0, 3);
    assert_eq!(deployment(&["--set=replicaCount=3", "--set=replicas=0"]).0, 0);
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let values =
        ["--set=image.tag=v7", &format!("--set=image.digest={digest}"), "--set=global.image.registry=mirror:5000"];
    assert_eq!(deployment(&values).1, format!("mirror:5000/c5c3/c5c3:v7@{digest}"));
    let (_, _, text) = deployment(&[
        "--set=logLevel=debug",
        "--set=extraArgs={--concurrency=8}",
        "--set=nodeSelector.zone=a",
        "--set=imagePullSecrets[0].name=own",
        "--set=global.image.pullSecrets[0].name=shared",
    ]);
    for part in
        ["--log=debug", "--concurrency=8", r#""nodeSelector":{"zone":"a"}"#, r#""name":"own""#, r#""name":"shared""#]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A cluster with the kinds of cert-manager.
fn cluster() -> Terminal {
    let it = Terminal::open();
    for plural in ["issuers", "certificates"] {
        let contract = c5c3_contracts::Contract::find("cert-manager.io", plural).unwrap();
        it.write(&format!("{plural}.json"), &contract.definition().to_string());
    }
    it.ok("kubectl apply --server-side -f issuers.json -f certificates.json");
    it.ok("kubectl wait --for=condition=Established crd --all --timeout=60s");
    it
}

/// The version of each object of the cluster, but for what Helm keeps of a release.
fn versions(it: &Terminal) -> BTreeMap<String, String> {
    let kinds = it.ok("kubectl api-resources --verbs=list -o name").replace('\n', ",");
    let path = "{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}\n{end}";
    let text = it.ok(&format!("kubectl get {kinds} -A -o jsonpath='{path}'"));
    let versions = text.lines().map(|line| line.split_once(' ').unwrap_or_else(|| panic!("{line}")));
    let others = versions.filter(|(name, _)| !name.contains("/sh.helm.release."));
    let versions: BTreeMap<String, String> =
        others.map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
    assert!(versions.len() > 200 && versions.values().all(|version| !version.is_empty()), "{versions:?}");
    versions
}

/// What was created, changed or deleted since.
fn changed(it: &Terminal, before: &BTreeMap<String, String>) -> Vec<String> {
    let now = versions(it);
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != now.get(*name)).cloned().collect()
}

/// Genuine Helm against our API server: what it needs of a cluster is there, and a second time changes nothing.
#[test]
fn a_release_is_installed_upgraded_and_removed_and_kinds_and_namespaces_stay() {
    let it = cluster();
    // Somebody else's, which the release leaves alone.
    it.ok("kubectl create ns ovn-system");
    let (_folder, chart) = umbrella();
    let install = format!("helm upgrade --install c5c3 {chart} -n c5c3-system --create-namespace");
    it.tells(&install, &["STATUS: deployed", "REVISION: 1"]);
    let before = versions(&it);
    it.tells(&install, &["STATUS: deployed", "REVISION: 2"]);
    assert_eq!(changed(&it, &before), [""; 0], "the second time changes nothing");
    it.tells(&format!("{install} --set nova-operator.image.tag=v0"), &["REVISION: 3"]);
    it.says(
        "kubectl get deploy -n openstack nova-operator -o jsonpath='{.spec.template.spec.containers[0].image}'",
        "ghcr.io/c5c3/c5c3:v0",
    );
    assert_eq!(changed(&it, &before), ["Deployment/openstack/nova-operator"], "its tag changes no other operator");
    it.ok("helm uninstall c5c3 -n c5c3-system");
    it.says("kubectl get deploy,pdb,networkpolicy -A -o name", "");
    it.tells("kubectl get crd -o name", &["novas.nova.openstack.c5c3.io", "controlplanes.c5c3.io"]);
    it.tells("kubectl get ns -o name", &["namespace/openstack", "namespace/ovn-system"]);
}

#[test]
fn manifests_are_installed_on_an_empty_cluster_and_removed_without_the_namespaces() {
    let it = Terminal::open();
    it.ok(r#""$C5C3" manifests | kubectl apply --server-side -f -"#);
    let ours = "-l app.kubernetes.io/part-of=c5c3";
    let kinds =
        "deploy,ds,svc,sa,role,rolebinding,clusterrole,clusterrolebinding,pdb,networkpolicy,validatingadmissionpolicy";
    it.tells(&format!("kubectl get {kinds} -A {ours} -o name"), &["deployment.apps/nova-operator", "/c5c3-agent-node"]);
    it.ok(&format!(r#""$C5C3" manifests | kubectl delete -f - {ours}"#));
    it.says(&format!("kubectl get {kinds} -A {ours} -o name"), "");
    it.tells("kubectl get ns -o name", &["namespace/openstack", "namespace/c5c3-system", "namespace/ovn-system"]);
}

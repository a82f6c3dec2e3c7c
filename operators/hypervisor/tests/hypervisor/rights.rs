//! The rights that the operator says it needs are enough, and are bound in the namespaces that it is told and nowhere else.

use std::fmt::Debug;
use std::time::Duration;

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use c5c3_kit::Access;
use c5c3_openstack::{Clients, Options};
use c5c3_operator_hypervisor::{Hold, Issuer, certificate_access, event_access, hold_access, with};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::site::{Site, condition, run};

/// The user of [`TestCluster::limited`] may do this in another namespace as well.
async fn bind(cluster: &TestCluster, user: &str, namespace: &str, access: &Access) {
    let params = PostParams::default();
    let role = json!({"metadata": {"name": "place"}, "rules": access.in_namespaces()});
    let role: Role = serde_json::from_value(role).unwrap();
    Api::namespaced(cluster.client(), namespace).create(&params, &role).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "place"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "place"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": cluster.name(user)}]});
    let binding: RoleBinding = serde_json::from_value(binding).unwrap();
    Api::namespaced(cluster.client(), namespace).create(&params, &binding).await.unwrap();
}

/// Waits until an object is as told.
async fn until<K>(api: &Api<K>, name: &str, what: &str, is_so: impl Fn(Option<&K>) -> bool + Send + Sync)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let waited = tokio::time::timeout(Duration::from_mins(1), await_condition(api.clone(), name, is_so)).await;
    waited.unwrap_or_else(|_| panic!("not within 60 s: {name} {what}")).unwrap();
}

async fn change<K>(api: &Api<K>, name: &str, part: &str, patch: Value)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    if part == "status" {
        api.patch_status(name, &params, &patch).await.unwrap();
    } else {
        api.patch(name, &params, &patch).await.unwrap();
    }
}

/// The kind of cert-manager's that the operator writes.
fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": "certificates.cert-manager.io"}, "spec": {
        "group": "cert-manager.io", "scope": "Namespaced",
        "names": {"kind": "Certificate", "listKind": "CertificateList", "plural": "certificates", "singular": "certificate"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}}],
    }})
}

#[test]
fn nothing_is_asked_for_holds_and_certificates_beside_what_is_bound_in_their_namespaces() {
    let asked = |settings| json!(with(Clients::new(Options::default()), settings).access().in_namespaces());
    let none = asked(c5c3_operator_hypervisor::Settings::default());
    let both = asked(c5c3_operator_hypervisor::Settings {
        hold: Some(Hold { namespace: "cellar".into(), image: "pause".into() }),
        issuer: Some(Issuer { namespace: "pki".into(), kind: "ClusterIssuer".into(), name: "libvirt".into() }),
        ..c5c3_operator_hypervisor::Settings::default()
    });
    assert_eq!(none, both);
    for kind in ["deployments", "poddisruptionbudgets", "certificates"] {
        assert!(!none.to_string().contains(kind), "{kind}");
    }
}

#[tokio::test]
async fn holds_and_certificates_are_made_with_the_rights_in_their_namespaces_and_no_others() {
    let cluster = TestCluster::embedded("nodes are made by hand").await.unwrap().unwrap();
    cluster.install(&serde_json::from_value(definition()).unwrap()).await.unwrap();
    let (cellar, pki) =
        (cluster.namespace_named("cellar").await.unwrap(), cluster.namespace_named("pki").await.unwrap());
    let mut site = Site::in_cluster(cluster, |settings| {
        settings.hold = Some(Hold { namespace: cellar.clone(), image: "pause".into() });
        settings.issuer = Some(Issuer { namespace: pki.clone(), kind: "ClusterIssuer".into(), name: "libvirt".into() });
    })
    .await;
    site.kill().await;
    let operator = with(Clients::new(Options::default()), site.settings.clone());
    let (access, namespace) = (operator.access(), site.cluster.namespace().to_owned());
    let limited =
        site.cluster.limited("few-rights", &namespace, access.in_namespaces(), access.in_cluster()).await.unwrap();
    for (place, access) in
        [(cellar.as_str(), hold_access()), (pki.as_str(), certificate_access()), ("default", event_access())]
    {
        bind(&site.cluster, "few-rights", place, &access).await;
    }
    let task = run(limited.client.clone(), Some(namespace), &site.settings, &site.metrics);
    site.ready("hv-1").await;

    let client = site.cluster.client();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &cellar);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &cellar);
    let certificates: Api<Certificate> = Api::namespaced(client, &pki);
    site.said("Hypervisor", "hv-1", "NodeHeld", "False", "PodNotAvailable").await;
    until(&deployments, "hold-hv-1", "is there", |found| found.is_some()).await;
    let available = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    change(&deployments, "hold-hv-1", "status", available).await;
    site.said("Hypervisor", "hv-1", "NodeHeld", "True", "Held").await;
    // A budget that somebody deletes is back at once.
    until(&budgets, "hold-hv-1", "is there", |found| found.is_some()).await;
    budgets.delete("hold-hv-1", &DeleteParams::default()).await.unwrap();
    until(&budgets, "hold-hv-1", "is back", |found| found.is_some()).await;

    until(&certificates, "libvirt-hv-1", "is there", |found| found.is_some()).await;
    let issued = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
        "message": "up to date", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    change(&certificates, "libvirt-hv-1", "status", issued).await;
    site.said("Hypervisor", "hv-1", "CertificateIssued", "True", "Issued").await;
    // Each writer's conditions stay when others write theirs.
    let status = site.status("Hypervisor", "hv-1").await;
    for (name, reason) in [("Ready", "Ready"), ("NodeHeld", "Held"), ("Onboarding", "Succeeded")] {
        assert_eq!(condition(&status, name)["reason"], reason, "{status:#}");
    }

    // An agent that requested one would write it in turns with the operator; there is none, so what is there stays.
    let hypervisors = site.hypervisors();
    change(
        &hypervisors,
        "hv-1",
        "",
        json!({"spec": {"lifecycleEnabled": false, "createCertManagerCertificate": true}}),
    )
    .await;
    until(&deployments, "hold-hv-1", "is gone", |found| found.is_none()).await;
    until(&budgets, "hold-hv-1", "is gone", |found| found.is_none()).await;
    site.said("Hypervisor", "hv-1", "NodeHeld", "False", "LifecycleDisabled").await;
    site.said("Hypervisor", "hv-1", "CertificateIssued", "False", "NotSupported").await;
    let status = site.status("Hypervisor", "hv-1").await;
    let told = condition(&status, "CertificateIssued")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("spec.createCertManagerCertificate: set it to false"), "{told}");
    assert!(certificates.get("libvirt-hv-1").await.unwrap().metadata.deletion_timestamp.is_none());
    let corrected = json!({"spec": {"lifecycleEnabled": true, "createCertManagerCertificate": false}});
    change(&hypervisors, "hv-1", "", corrected).await;
    site.said("Hypervisor", "hv-1", "CertificateIssued", "True", "Issued").await;
    site.said("Hypervisor", "hv-1", "NodeHeld", "False", "PodNotAvailable").await;

    // The hold is released when the host has left Nova.
    site.maintain("hv-1", "termination").await;
    site.said("Hypervisor", "hv-1", "Offboarded", "True", "Offboarded").await;
    site.said("Hypervisor", "hv-1", "NodeHeld", "False", "Released").await;
    let is_released = |found: Option<&Deployment>| {
        found.and_then(|found| found.spec.as_ref()).is_some_and(|spec| spec.replicas == Some(0))
    };
    until(&deployments, "hold-hv-1", "has no replicas", is_released).await;
    assert_eq!(limited.refused(), Vec::<String>::new());
    task.abort();
}

#[tokio::test]
async fn a_bridge_that_a_host_must_have_is_found_in_the_namespace_of_the_agents_of_open_vswitch() {
    let cluster = TestCluster::embedded("nodes are made by hand").await.unwrap().unwrap();
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").unwrap().crd()).await.unwrap();
    let switches = cluster.namespace_named("switches").await.unwrap();
    let mut site = Site::in_cluster(cluster, |settings| {
        settings.bridges = vec!["br-ex".into()];
        settings.ovs_namespace = switches.clone();
    })
    .await;
    site.kill().await;
    let operator = with(Clients::new(Options::default()), site.settings.clone());
    let (access, namespace) = (operator.access(), site.cluster.namespace().to_owned());
    let limited =
        site.cluster.limited("few-rights", &namespace, access.in_namespaces(), access.in_cluster()).await.unwrap();
    bind(&site.cluster, "few-rights", "default", &event_access()).await;
    let task = run(limited.client.clone(), Some(namespace), &site.settings, &site.metrics);

    site.cloud.register("hv-1");
    site.node("hv-1", json!({})).await;
    let waits_for = |what: &'static str| {
        move |object: Option<&DynamicObject>| {
            let said = object.map(|object| condition(&object.data["status"], "Onboarding")).unwrap_or_default();
            said["reason"] == "Testing" && said["message"].as_str().unwrap_or_default().contains(what)
        }
    };
    let what = "waits until the agent of Open vSwitch reports";
    site.until("Hypervisor", "hv-1", what, waits_for(what)).await;
    let reports: Api<OVSNode> = Api::namespaced(site.cluster.client(), &switches);
    let report = json!({"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "metadata": {"name": "hv-1"},
        "spec": {"nodeRef": {"name": "hv-1"}}});
    reports.create(&PostParams::default(), &serde_json::from_value(report).unwrap()).await.unwrap();
    change(&reports, "hv-1", "status", json!({"status": {"bridges": [{"name": "br-int"}]}})).await;
    let what = "waits for the bridge br-ex";
    site.until("Hypervisor", "hv-1", what, waits_for(what)).await;
    change(&reports, "hv-1", "status", json!({"status": {"bridges": [{"name": "br-ex"}, {"name": "br-int"}]}})).await;
    site.said("Hypervisor", "hv-1", "Ready", "True", "Ready").await;
    assert_eq!(limited.refused(), Vec::<String>::new());
    task.abort();
}

//! Issuer, ClusterIssuer and Certificate.

use c5c3_api::ext::cert_manager::{Certificate, ClusterIssuer, Issuer};
use c5c3_auth::Issued;
use c5c3_harness::Fault;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, of};

#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Makes an authority, as people do: a certificate that signs itself, and an issuer that signs with it.
async fn authority(stage: &Stage) {
    stage.create::<Issuer>(object("Issuer", "self", json!({"selfSigned": {}}))).await;
    let root = json!({
        "secretName": "root", "isCA": true, "commonName": "Wax Root", "issuerRef": {"name": "self"},
        "privateKey": {"algorithm": "ECDSA", "size": 256},
    });
    stage.create::<Certificate>(object("Certificate", "root", root)).await;
    stage.create::<Issuer>(object("Issuer", "stamp", json!({"ca": {"secretName": "root"}}))).await;
    stage.ready::<Issuer>("stamp").await;
}

fn seal(more: &Value) -> Value {
    let mut spec = json!({
        "secretName": "seal", "issuerRef": {"name": "stamp"}, "dnsNames": ["wax.default.svc"],
        "usages": ["server auth", "digital signature"],
    });
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    object("Certificate", "seal", spec)
}

#[tokio::test]
async fn an_authority_that_signed_itself_signs_for_others() {
    let stage = Stage::set().await;
    // Before there is anybody who could sign.
    stage.create::<Certificate>(seal(&json!({"secretTemplate": {"labels": {"colour": "red"}}}))).await;
    let why = stage.not_ready::<Certificate>("seal", "DoesNotExist").await;
    assert!(why.contains("Issuer stamp"), "{why}");
    authority(&stage).await;
    let seal: Certificate = stage.ready("seal").await;
    let status = seal.status.unwrap();
    assert_eq!(status.revision, Some(1));
    assert!(status.renewal_time < status.not_after && status.not_before < status.renewal_time);
    let held = stage.api::<Secret>().get("seal").await.unwrap();
    assert_eq!(held.type_.as_deref(), Some("kubernetes.io/tls"));
    assert_eq!(held.metadata.labels.as_ref().unwrap()["colour"], "red");
    assert_eq!(held.metadata.annotations.as_ref().unwrap()["cert-manager.io/issuer-name"], "stamp");
    let (held, root) = (stage.secret("seal").await, stage.secret("root").await);
    assert_eq!(held["ca.crt"], root["tls.crt"]);
    assert_eq!(root["ca.crt"], root["tls.crt"]);
    assert!(Issued::read(&root["tls.crt"]).unwrap().is_authority());

    stage.delete::<Certificate>("seal").await;
    assert_eq!(stage.secret("seal").await, held, "the Secret stays");
}

#[tokio::test]
async fn a_certificate_is_issued_anew_when_it_is_lost_spoilt_or_asked_to_be_another() {
    let stage = Stage::set().await;
    authority(&stage).await;
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets/seal"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/certificates/seal").times(2));
    stage.create::<Certificate>(seal(&json!({}))).await;
    stage.ready::<Certificate>("seal").await;
    let first = stage.secret("seal").await;

    let other = move |old: String| {
        move |secret: Option<&Secret>| {
            let now = secret.and_then(|secret| secret.data.as_ref()?.get("tls.crt"));
            now.is_some_and(|now| now.0 != old.as_bytes())
        }
    };
    stage.change::<Certificate>("seal", json!({"spec": {"dnsNames": ["wax.default.svc", "wax"]}})).await;
    stage.eventually::<Secret>("seal", other(first["tls.crt"].clone())).await;
    stage.ready::<Certificate>("seal").await;
    let second = stage.secret("seal").await;
    assert_ne!(second["tls.key"], first["tls.key"], "a new certificate has a new key");

    stage.change::<Certificate>("seal", json!({"spec": {"privateKey": {"rotationPolicy": "Never"}}})).await;
    stage.change::<Certificate>("seal", json!({"spec": {"commonName": "wax"}})).await;
    stage.eventually::<Secret>("seal", other(second["tls.crt"].clone())).await;
    assert_eq!(stage.secret("seal").await["tls.key"], second["tls.key"], "unless it is asked to keep it");

    stage.api::<Secret>().delete("seal", &DeleteParams::default()).await.unwrap();
    stage.eventually::<Secret>("seal", |secret: Option<&Secret>| secret.is_some()).await;
}

#[tokio::test]
async fn an_issuer_of_the_cluster_has_its_authority_in_the_namespace_of_cert_manager() {
    let stage = Stage::set().await;
    authority(&stage).await;
    let issuers = Api::<ClusterIssuer>::all(stage.client.clone());
    let everywhere: ClusterIssuer = of(object("ClusterIssuer", "everywhere", json!({"ca": {"secretName": "root"}})));
    issuers.create(&PostParams::default(), &everywhere).await.unwrap();
    let spec = json!({"issuerRef": {"name": "everywhere", "kind": "ClusterIssuer"}});
    stage.create::<Certificate>(seal(&spec)).await;
    let why = stage.not_ready::<Certificate>("seal", "DoesNotExist").await;
    assert!(why.contains("ClusterIssuer everywhere"), "{why}");

    let home = stage.cluster.namespace_named("cert-manager").await.unwrap();
    let mut root = stage.api::<Secret>().get("root").await.unwrap();
    root.metadata = ObjectMeta { name: Some("root".into()), ..ObjectMeta::default() };
    Api::namespaced(stage.client.clone(), &home).create(&PostParams::default(), &root).await.unwrap();
    stage.ready::<Certificate>("seal").await;
    let ready = |issuer: Option<&ClusterIssuer>| {
        issuer.is_some_and(|issuer| c5c3_api::ext::Readiness::readiness(issuer).is_yes())
    };
    tokio::time::timeout(PATIENCE, await_condition(issuers, "everywhere", ready)).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_signed_is_named() {
    let stage = Stage::set().await;
    stage.create::<Issuer>(object("Issuer", "stamp", json!({"selfSigned": {}, "ca": {"secretName": "x"}}))).await;
    stage.not_ready::<Issuer>("stamp", "NotProvided").await;
    stage.create::<Issuer>(object("Issuer", "empty", json!({"ca": {"secretName": "nowhere"}}))).await;
    let why = stage.not_ready::<Issuer>("empty", "ErrGetKeyPair").await;
    assert!(why.contains("default/nowhere"), "{why}");
    stage.create::<Certificate>(seal(&json!({"privateKey": {"algorithm": "RSA", "size": 4096}}))).await;
    let why = stage.not_ready::<Certificate>("seal", "InvalidSpec").await;
    assert!(why.starts_with("spec.privateKey"), "{why}");
}

//! What `c5c3 credentials` prints for clusters on paper.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::secrets::Secrets;
use super::{collect, document, table};
use crate::status::tests::{object, world};

fn ready() -> Value {
    json!([{"type": "Ready", "status": "True"}])
}

fn rotation(name: &str, status: &Value) -> Value {
    let spec = json!({"targetServiceUser": format!("{name}-service-user"), "rotationType": "applicationCredential",
        "consumers": [{"apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova", "name": name}]});
    let rest = json!({"spec": spec, "status": status});
    object("c5c3.io/v1alpha1", "CredentialRotation", &format!("{name}-rotation"), "", &rest)
}

fn user(name: &str) -> Value {
    let rest = json!({"spec": {"resource": {"name": name, "passwordRef": format!("{name}-service-password")}},
        "status": {"conditions": [{"type": "Available", "status": "True"}]}});
    object("openstack.k-orc.cloud/v1alpha1", "User", &format!("{name}-service-user"), "", &rest)
}

fn cloud() -> Vec<Value> {
    let idle = json!({"phase": "Grace", "conditions": ready(), "nextRotation": "2026-03-20T00:00:00Z",
        "currentCredentialRef": {"name": "nova-app-credential-v2"},
        "previousCredentialRef": {"name": "nova-app-credential-v1"},
        "currentCredential": {"id": "x", "version": 2, "createdAt": "2025-12-31T00:00:00Z", "expiresAt": "2026-03-31T00:00:00Z"},
        "previousCredential": {"id": "y", "version": 1, "revokeAt": "2026-01-02T00:00:00Z"}});
    let stuck = json!({"phase": "Delivering", "conditions": [{"type": "Ready", "status": "False", "reason": "Delivering",
        "message": "pushsecret/cinder-app-credential is not Ready"}]});
    let app_credential = |name: &str| {
        let rest = json!({"spec": {"resource": {"userRef": "nova-service-user", "secretRef": name}},
            "status": {"conditions": [{"type": "Available", "status": "True"}]}});
        object("openstack.k-orc.cloud/v1alpha1", "ApplicationCredential", name, "", &rest)
    };
    let keystone = json!({"spec": {"fernet": {"rotationSchedule": "0 0 * * 0"}}, "status": {"conditions": ready()}});
    let account = json!({"spec": {"mariaDbRef": {"name": "mariadb"}, "name": "nova_api",
        "passwordSecretKeyRef": {"name": "nova-db-credentials", "key": "password"}}, "status": {"conditions": ready()}});
    let certificate = json!({"spec": {"secretName": "nova-api-tls", "dnsNames": ["nova.cellar.svc"], "issuerRef": {"name": "i"}},
        "status": {"conditions": ready(), "notBefore": "2025-12-01T00:00:00Z", "notAfter": "2025-12-31T00:00:00Z",
                   "renewalTime": "2025-12-20T00:00:00Z"}});
    let server = json!({"spec": {"rootPasswordSecretKeyRef": {"name": "mariadb-root", "key": "password"}},
        "status": {"conditions": ready()}});
    let pods = json!({"spec": {"template": {"spec": {"volumes": [
        {"projected": {"sources": [{"secret": {"name": "keystone-fernet-keys"}}]}}, {"secret": {"secretName": "nova-api-tls"}}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "mariadb-root", "key": "password"}}}]}]}}}});
    let nova = json!({"status": {"conditions": ready()}});
    vec![
        rotation("nova", &idle),
        rotation("cinder", &stuck),
        user("nova"),
        app_credential("nova-app-credential-v1"),
        app_credential("nova-app-credential-v2"),
        object("keystone.openstack.c5c3.io/v1alpha1", "Keystone", "keystone", "", &keystone),
        object("nova.openstack.c5c3.io/v1alpha1", "Nova", "nova", "", &nova),
        object("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", "", &server),
        object("k8s.mariadb.com/v1alpha1", "User", "nova-api", "nova-nova", &account),
        object("rabbitmq.com/v1beta1", "RabbitmqCluster", "rabbitmq", "", &json!({})),
        object("cert-manager.io/v1", "Certificate", "nova-api-tls", "nova-nova", &certificate),
        object("apps/v1", "Deployment", "everything", "", &pods),
    ]
}

fn secrets() -> Secrets {
    let secret = |name: &str, rest: Value| -> ObjectMeta {
        let mut meta = json!({"name": name, "namespace": "cellar", "creationTimestamp": "2025-11-01T00:02:14Z"});
        for (field, value) in rest.as_object().unwrap() {
            meta[field] = value.clone();
        }
        serde_json::from_value(meta).unwrap()
    };
    let written = json!({"managedFields": [
        {"manager": "a", "operation": "Apply", "time": "2025-12-22T00:00:00Z", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:password": {}}}},
        {"manager": "b", "operation": "Update", "time": "2025-12-31T00:00:00Z", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:metadata": {}}}]});
    let since = json!({"annotations": {"keystone.openstack.c5c3.io/primary-since": "7=2025-12-28T00:00:00Z"}});
    Secrets::new([
        secret("nova-keystone-credentials", json!({})),
        secret("nova-service-password", written),
        secret("nova-app-credential-v1", json!({})),
        secret("keystone-admin-credentials", json!({})),
        secret("keystone-fernet-keys", since),
        secret("nova-db-credentials", json!({})),
        secret("mariadb-root", json!({})),
        secret("rabbitmq-default-user", json!({})),
        secret("nova-api-tls", json!({})),
    ])
}

#[test]
fn every_credential_is_listed_with_its_owner_its_use_and_its_times() {
    let world = world(cloud());
    let credentials = collect::all(&world, &secrets());
    insta::assert_snapshot!(table::render(&credentials, &["nodes (not allowed)".to_owned()], world.now, false));
}

#[test]
fn an_account_that_is_rotated_is_listed_once_and_the_one_before_it_until_it_is_gone() {
    let status = json!({"phase": "Grace", "conditions": ready(), "nextRotation": "2026-03-20T00:00:00Z",
        "currentCredentialRef": {"name": "heron-db-account-v2"}, "previousCredentialRef": {"name": "heron-db-account-v1"},
        "currentCredential": {"id": "heron-b", "version": 2, "createdAt": "2025-12-31T00:00:00Z"},
        "previousCredential": {"id": "heron", "version": 1, "revokeAt": "2026-01-02T00:00:00Z"}});
    let spec = json!({"targetServiceUser": "heron", "rotationType": "databaseAccount"});
    let rest = json!({"spec": spec, "status": status});
    let account = |name: &str, secret: &str| {
        let rest = json!({"spec": {"mariaDbRef": {"name": "mariadb"}, "name": name,
            "passwordSecretKeyRef": {"name": secret, "key": "password"}}, "status": {"conditions": ready()}});
        object("k8s.mariadb.com/v1alpha1", "User", name, "", &rest)
    };
    let world = world(vec![
        object("c5c3.io/v1alpha1", "CredentialRotation", "heron-database-rotation", "", &rest),
        account("heron", "heron-db-account-v1"),
        account("heron-b", "heron-db-account-v2"),
    ]);
    let found = collect::all(&world, &Secrets::default());
    let listed: Vec<(&str, &str, Option<&str>)> =
        found.iter().map(|one| (one.what.words(), one.owner.as_str(), one.secret.as_deref())).collect();
    assert_eq!(
        listed,
        [
            ("database account", "heron", Some("heron-db-account-v1")),
            ("database account", "heron-b", Some("heron-db-credentials")),
        ]
    );
    assert_eq!(
        (found[0].rotation, found[0].used_by[0].as_str()),
        (super::Rotation::WithIts, "nothing: it is replaced")
    );
    assert!(matches!(found[1].rotation, super::Rotation::At(_)));
}

#[test]
fn a_credential_that_no_pod_mounts_is_used_by_what_reads_it_by_name() {
    let of = |user: &str, secret: &str| {
        let spec = json!({"targetServiceUser": format!("{user}-service-user"), "rotationType": "applicationCredential",
            "targetSecretRef": {"name": secret}});
        let rest = json!({"spec": spec, "status": {"phase": "Idle", "conditions": ready()}});
        object("c5c3.io/v1alpha1", "CredentialRotation", &format!("{user}-rotation"), "", &rest)
    };
    let programs = [
        ("cortex", "cortex-clouds-yaml", "scheduler of Cortex"),
        ("ha-operator", "ha-operator-clouds-yaml", "operator ha"),
        ("hypervisor-operator", "hypervisor-operator-clouds-yaml", "operator hypervisor"),
    ];
    let world = world(programs.iter().flat_map(|(name, secret, _)| [of(name, secret), user(name)]).collect());
    let found = collect::all(&world, &Secrets::default());
    let used = found.iter().filter(|one| one.what == super::What::ApplicationCredential);
    let used: Vec<_> =
        used.map(|one| (one.owner.as_str(), one.secret.as_deref().unwrap(), one.used_by.join(", "))).collect();
    assert_eq!(used, programs.map(|(name, secret, by)| (name, secret, by.to_owned())));
}

#[test]
fn a_list_is_a_value_too_and_says_what_has_expired() {
    let world = world(cloud());
    let credentials = collect::all(&world, &secrets());
    let value = document(&credentials, &[], world.now);
    let of = |object: &str| value["items"].as_array().unwrap().iter().find(|item| item["object"] == object).unwrap();
    let nova = of("credentialrotation/nova-rotation");
    assert_eq!(nova["rotatesAt"], "2026-03-20T00:00:00Z");
    assert_eq!(nova["usedBy"], json!(["nova/nova"]));
    assert_eq!(of("certificate/nova-api-tls")["expired"], true);
    assert_eq!(of("credentialrotation/cinder-rotation")["rotating"], true);
}

#[test]
fn who_may_not_list_secrets_sees_the_rest() {
    let world = world(cloud());
    let credentials = collect::all(&world, &Secrets::default());
    assert_eq!(credentials.len(), collect::all(&world, &secrets()).len());
    assert!(credentials.iter().all(|one| one.says.as_ref().is_none_or(|says| !says.contains("does not exist"))));
}

//! A ControlPlane that cannot work says so: object, field and remedy.

use serde_json::{Value, json};

use crate::paper::{lab, plan, secret, waits};

fn refused(spec: &Value) -> String {
    plan(&lab(spec), &[]).map(|_| ()).unwrap_err()
}

fn waits_for(spec: &Value, there: &[Value]) -> Vec<String> {
    waits(&plan(&lab(spec), there).unwrap())
}

#[test]
fn two_members_are_refused() {
    let message = refused(&json!({"infrastructure": {"mariadb": {"replicas": 2}}, "services": {"keystone": {}}}));
    assert_eq!(
        message,
        "spec.infrastructure.mariadb.replicas: is even, so two halves can block each other; use an odd number such as 1, 3 or 5"
    );
}

#[test]
fn a_release_without_images_is_refused() {
    let message = refused(&json!({"openStackRelease": "2031.1", "services": {"keystone": {}}}));
    assert_eq!(
        message,
        "spec.openStackRelease: \"2031.1\" is a release that no images are known for; use one of: 2025.2, 2026.1"
    );
}

#[test]
fn a_storage_class_that_is_not_there_holds_up_its_own_part_and_no_other() {
    let spec =
        json!({"infrastructure": {"mariadb": {"storageClass": "gold"}, "rabbitmq": {}}, "services": {"keystone": {}}});
    assert_eq!(
        waits_for(&spec, &[]),
        ["mariadb: storageclass/gold does not exist; spec.infrastructure.mariadb.storageClass names it; \
          kubectl get storageclasses; change the field to one of them, or create this one"]
    );
    let made = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": "mariadb"}, "spec": {}});
    assert!(waits_for(&spec, &[made]).is_empty(), "volumes that are there need no class");
}

#[test]
fn an_administrators_secret_that_is_not_there_is_named_with_its_field() {
    let spec = json!({
        "services": {"keystone": {}},
        "identity": {"keystone": {"bootstrap": {"adminUser": {"passwordSecretRef": {"name": "boss", "key": "word"}}}}},
    });
    let expected = |state: &str| {
        format!(
            "keystone: secret/boss {state}; spec.identity.keystone.bootstrap.adminUser.passwordSecretRef names it; \
             create it: kubectl create secret generic boss -n cellar --from-literal=word=..."
        )
    };
    assert_eq!(waits_for(&spec, &[]), [expected("does not exist")]);
    assert_eq!(waits_for(&spec, &[secret("boss", &["password"])]), [expected("has no key word")]);
    assert!(waits_for(&spec, &[secret("boss", &["word"])]).is_empty());
}

#[test]
fn accounts_on_servers_that_exist_already_must_be_brought_along() {
    let spec = json!({"infrastructure": {"mariadb": {"host": "db.example.org"}}, "services": {"keystone": {}}});
    assert_eq!(
        waits_for(&spec, &[secret("keystone-db-credentials", &["username"])]),
        ["keystone: secret/keystone-db-credentials has no key password; keystone signs in \
          with it to the server of spec.infrastructure.mariadb.host; create it: kubectl \
          create secret generic keystone-db-credentials -n cellar --from-literal=username=... --from-literal=password=..."]
    );
}

#[test]
fn an_issuer_that_is_not_there_is_named_with_its_field() {
    let spec = json!({
        "infrastructure": {"rabbitmq": {}},
        "services": {"keystone": {}},
        "global": {"tls": {"enabled": true, "issuerRef": {"name": "notary"}}},
    });
    let said = |part: &str| {
        format!(
            "{part}: clusterissuer/notary does not exist; spec.global.tls.issuerRef names it; \
             create it, or set spec.global.tls.enabled to false"
        )
    };
    assert_eq!(waits_for(&spec, &[]), ["mariadb", "rabbitmq"].map(said));
}

#[test]
fn a_second_service_brings_the_catalog_and_each_service_waits_for_its_own_credential() {
    let needs = |spec: &Value, node: &str| {
        let plan = plan(&lab(spec), &[]).unwrap();
        let found = plan.steps.iter().filter_map(|step| step.node.clone()).find(|found| found.name == node);
        found.map(|node| node.needs)
    };
    let one = json!({"services": {"keystone": {}}});
    assert_eq!(needs(&one, "korc"), None);
    let two = json!({"services": {"keystone": {}, "glance": {}, "placement": {}}});
    assert_eq!(needs(&two, "catalog").unwrap(), ["korc"]);
    assert_eq!(needs(&two, "credentials-glance").unwrap(), ["keystone", "korc"]);
    assert_eq!(needs(&two, "glance").unwrap(), ["mariadb", "keystone", "credentials-glance"]);
    assert_eq!(needs(&two, "placement").unwrap(), ["mariadb", "keystone", "credentials-placement"]);
}

#[test]
fn without_k_orc_a_credential_is_provided() {
    let spec = json!({"services": {"keystone": {}, "placement": {}}, "korc": {"enabled": false}});
    let said = |state: &str| {
        format!(
            "credentials-placement: secret/placement-keystone-credentials {state}; placement signs in to Keystone with it, and \
             spec.korc.enabled is false; create it: kubectl create secret generic placement-keystone-credentials -n cellar \
             --from-literal=application_credential_id=... --from-literal=application_credential_secret=..."
        )
    };
    assert_eq!(waits_for(&spec, &[]), [said("does not exist")]);
    let half = secret("placement-keystone-credentials", &["application_credential_id"]);
    assert_eq!(waits_for(&spec, &[half]), [said("has no key application_credential_secret")]);
    let whole = ["application_credential_id", "application_credential_secret"];
    assert!(waits_for(&spec, &[secret("placement-keystone-credentials", &whole)]).is_empty());
}

#[test]
fn users_without_k_orc_are_reported() {
    let users = json!({"keystone": {"bootstrap": {"serviceUsers": [{"name": "swift"}]}}});
    let spec = json!({"services": {"keystone": {}}, "identity": users});
    let said = waits_for(&spec, &[]);
    assert!(said[0].contains("sets spec.identity.keystone.bootstrap.serviceUsers, and no operator"), "{said:?}");
}

#[test]
fn settings_of_a_catalog_that_is_switched_off_are_refused() {
    let message = refused(&json!({
        "services": {"keystone": {}},
        "korc": {"enabled": false, "bootstrapResources": ["domains"], "cloudCredentialsRef": {"cloudName": "x"}},
    }));
    let said = |field: &str| {
        format!(
            "spec.korc.{field}: has no effect while spec.korc.enabled is false; remove it, or set spec.korc.enabled to true"
        )
    };
    assert_eq!(message, ["bootstrapResources", "cloudCredentialsRef"].map(said).join("\n"));
}

#[test]
fn storage_without_an_operator_is_reported() {
    let spec = json!({
        "services": {"keystone": {}},
        "storage": {"storageClusters": ["a"], "ceph": {"monitors": ["192.0.2.1:6789"], "filesystem": {"name": "x"}}},
    });
    let said = waits_for(&spec, &[]);
    let fields = ["storageClusters", "ceph.monitors", "ceph.filesystem"];
    assert_eq!(said.len(), fields.len(), "{said:#?}");
    for (said, field) in said.iter().zip(fields) {
        assert!(said.starts_with("storage: controlplane/lab sets "), "{said}");
        assert!(
            said.contains(&format!(" sets spec.storage.{field}, and no operator of this version acts on it; ")),
            "{said}"
        );
    }
}

#[test]
fn cortex_needs_the_services_that_ask_it() {
    let services = json!({"keystone": {}, "glance": {}, "placement": {}, "nova": {}});
    let needs = |services: &Value, pipelines: &Value| {
        let cortex = json!({"enabled": true, "pipelines": pipelines});
        let plan = plan(&lab(&json!({"services": services, "cortex": cortex})), &[])?;
        let cortex = plan.steps.iter().filter_map(|step| step.node.clone()).find(|node| node.name == "cortex");
        Ok::<_, String>(cortex.unwrap().needs)
    };
    assert_eq!(needs(&services, &json!([])).unwrap(), ["nova"]);
    let message = needs(&services, &json!(["nova", "cinder"])).unwrap_err();
    assert!(message.starts_with("spec.cortex: is enabled without cinder"), "{message}");
    let mut with_cinder = services.clone();
    with_cinder["cinder"] = json!({});
    assert_eq!(needs(&with_cinder, &json!([])).unwrap(), ["nova", "cinder"]);
    assert_eq!(needs(&with_cinder, &json!(["nova"])).unwrap(), ["nova"]);
}

#[test]
fn a_release_goes_back_until_a_database_cannot() {
    let spec = json!({"openStackRelease": "2025.2", "services": {"keystone": {}}});
    let back = |status: Value| {
        let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {"name": "keystone", "labels": {"app.kubernetes.io/managed-by": c5c3_operator_controlplane::NAME}},
            "spec": {"database": {"clusterRef": {"name": "mariadb"}}}, "status": status});
        plan(&lab(&spec), &[keystone]).map(|_| ())
    };
    let upgrading =
        |phase: &str| json!({"installedRelease": "28.0.0", "targetRelease": "29.0.0", "upgradePhase": phase});
    assert_eq!(back(json!({"installedRelease": "28.0.0"})), Ok(()));
    assert_eq!(back(upgrading("Expanding")), Ok(()));
    assert_eq!(
        back(upgrading("Contracting")).unwrap_err(),
        "spec.openStackRelease: asks for 2025.2, whose keystone is 28.0.0, and the database of keystone has lost what 29.0.0 \
         does not use; set it to 2026.1, or restore a backup into a new ControlPlane"
    );
    assert_eq!(
        back(json!({"installedRelease": "29.0.0"})).unwrap_err(),
        "spec.openStackRelease: asks for 2025.2, whose keystone is 28.0.0, where the database of keystone has the schema of \
         29.0.0; set it to 2026.1, or restore a backup into a new ControlPlane"
    );
}

/// A MariaDB that belongs to another ControlPlane of the namespace, and that ControlPlane.
fn rival(created: &str, deleted: bool) -> [Value; 2] {
    let mut other = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "c5c3", "namespace": "cellar", "creationTimestamp": created}, "spec": {}});
    if deleted {
        other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let mariadb = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "spec": {}, "metadata": {
        "name": "mariadb", "namespace": "cellar", "annotations": {"c5c3.io/owner": "ControlPlane/cellar/c5c3"}}});
    [other, mariadb]
}

#[test]
fn the_younger_of_two_control_planes_in_a_namespace_is_refused() {
    let mut second = lab(&json!({"services": {"keystone": {}}}));
    second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let beside = |created: &str, deleted: bool| plan(&second, &rival(created, deleted)).map(drop);
    assert_eq!(
        beside("2025-12-31T00:00:00Z", false).unwrap_err(),
        "metadata.namespace: the namespace cellar already has controlplane/c5c3, and each namespace can have one \
         ControlPlane; delete controlplane/lab, or create it in another namespace"
    );
    assert!(beside("2026-01-02T00:00:00Z", false).is_ok(), "the older one stays valid");
    assert!(beside("2025-12-31T00:00:00Z", true).is_ok(), "a terminating one is no rival");
    // Of the same second, the first by name is kept.
    assert!(beside("2026-01-01T00:00:00Z", false).is_err());
}

//! Every field of a ControlPlane: a change takes effect in an object, is refused with the reason, or is said to have none. The
//! fields are those of the schema, so that a new one without a row fails.

use std::collections::BTreeSet;

use c5c3_kit::Plan;
use serde_json::{Value, json};

use crate::paper::{issuer, lab, plan, secret};

/// What becomes of a change.
enum Change {
    /// It shows in this child, at this place of its spec, as this value.
    Takes(&'static str, &'static str, &'static str),
    /// It is refused, and this is part of the reason.
    Refused(&'static str),
    /// It takes effect as something that is no longer there.
    Removes(&'static str),
    /// It is taken, and this is what it waits for.
    Waits(&'static str),
    /// It shows in Keystone, at this place of its spec, as this value, as soon as Keystone's kind has the field.
    Shared(&'static str, &'static str),
}
use Change::{Refused, Removes, Shared, Takes, Waits};

/// Field, value before, value after (absent when empty), what becomes of it.
type Row = (&'static str, &'static str, &'static str, Change);

const DB: &str = "keystone/keystone";
const ROLE: &str = "role/admin-role";
const CPU: (&str, &str) = (r#"{"cpu": "1"}"#, r#"{"cpu": "2"}"#);
const SERVICE_USER: &str = r#"[{"name": "glance"}]"#;
const RULE: &str = r#"{"identity:list_users": "role:auditor"}"#;

const INFRASTRUCTURE: &[Row] = &[
    ("mariadb.replicas", "3", "5", Takes("mariadb/mariadb", "/replicas", "5")),
    ("mariadb.replicas", "3", "2", Refused("is even")),
    ("mariadb.storageSize", "'10Gi'", "'20Gi'", Takes("mariadb/mariadb", "/storage/size", "'20Gi'")),
    ("mariadb.storageSize", "'10Gi'", "'5Gi'", Refused("no volume can become")),
    ("mariadb.storageSize", "", "'50Gi'", Refused("100Gi")),
    ("mariadb.storageClass", "'a'", "'b'", Refused("set it back to \"a\"")),
    ("mariadb.storageClass", "", "'b'", Refused("a volume keeps for life")),
    ("mariadb.storageClass", "'a'", "", Refused("a volume keeps for life")),
    ("mariadb.resources.requests", CPU.0, CPU.1, Takes("mariadb/mariadb", "/resources/requests", CPU.1)),
    ("mariadb.resources.limits", CPU.0, CPU.1, Takes("mariadb/mariadb", "/resources/limits", CPU.1)),
    ("mariadb.clusterRef.name", "'a'", "'b'", Refused("all data would stay on the old one")),
    ("mariadb.clusterRef.name", "'a'", "", Refused("all data would stay on the old one")),
    ("mariadb.clusterRef.name", "", "'a'", Refused("all data would stay on the old one")),
    ("mariadb.clusterRef.namespace", "'a'", "'b'", Refused("all data would stay on the old one")),
    ("mariadb.clusterRef.namespace", "", "'cellar'", Takes(DB, "/database/clusterRef/namespace", "'cellar'")),
    ("mariadb.host", "'a'", "'b'", Takes(DB, "/database/host", "'b'")),
    ("mariadb.host", "", "'db'", Refused("all data would stay on the old one")),
    ("mariadb.host", "'db'", "", Refused("all data would stay on the old one")),
    ("mariadb.port", "3306", "3307", Takes(DB, "/database/port", "3307")),
    ("mariadb.tls.caSecretRef.name", "'a'", "'b'", Takes(DB, "/database/tls/caSecretRef/name", "'b'")),
    ("mariadb.tls.caSecretRef.key", "'a'", "'b'", Takes(DB, "/database/tls/caSecretRef/key", "'b'")),
    ("mariadb.tls.clientSecretRef.name", "'a'", "'b'", Takes(DB, "/database/tls/clientSecretRef/name", "'b'")),
    ("mariadb.tls.clientSecretRef.key", "", "'b'", Refused("tls.crt and tls.key")),
    ("rabbitmq.replicas", "3", "5", Takes("rabbitmqcluster/rabbitmq", "/replicas", "5")),
    ("rabbitmq.replicas", "3", "1", Refused("RabbitMQ removes none")),
    ("rabbitmq.replicas", "3", "4", Refused("is even")),
    ("rabbitmq.storageSize", "'10Gi'", "'20Gi'", Takes("rabbitmqcluster/rabbitmq", "/persistence/storage", "'20Gi'")),
    ("rabbitmq.storageSize", "'10Gi'", "'5Gi'", Refused("no volume can become")),
    ("rabbitmq.storageClass", "'a'", "'b'", Refused("a volume keeps for life")),
    ("rabbitmq.resources.requests", CPU.0, CPU.1, Takes("rabbitmqcluster/rabbitmq", "/resources/requests", CPU.1)),
    ("rabbitmq.resources.limits", CPU.0, CPU.1, Takes("rabbitmqcluster/rabbitmq", "/resources/limits", CPU.1)),
    ("rabbitmq.clusterRef.name", "", "'b'", Takes("neutron/neutron", "/messaging/clusterRef/name", "'b'")),
    ("rabbitmq.clusterRef.namespace", "'a'", "'b'", Takes("neutron/neutron", "/messaging/clusterRef/namespace", "'b'")),
    ("rabbitmq.hosts", "", "['mq:5672']", Takes("neutron/neutron", "/messaging/hosts", "['mq:5672']")),
    ("rabbitmq.hosts", "", "['mq:5672']", Removes("rabbitmqcluster/rabbitmq")),
    ("ovn.replicas", "3", "5", Takes("ovncluster/ovn", "/southbound/replicas", "5")),
    ("ovn.replicas", "3", "4", Refused("is even")),
    ("ovn.storageSize", "'10Gi'", "'20Gi'", Takes("ovncluster/ovn", "/northbound/storage/size", "'20Gi'")),
    ("ovn.storageSize", "'10Gi'", "'5Gi'", Refused("no volume can become")),
    ("ovn.storageClass", "'a'", "'b'", Refused("a volume keeps for life")),
    ("ovn.resources.requests", CPU.0, CPU.1, Takes("ovncluster/ovn", "/northbound/resources/requests", CPU.1)),
    ("ovn.resources.limits", CPU.0, CPU.1, Takes("ovncluster/ovn", "/southbound/resources/limits", CPU.1)),
    (
        "ovn.bridgeMappings",
        "",
        "[{'physicalNetwork': 'out', 'bridge': 'br-ex', 'interface': 'eth1'}]",
        Takes("ovncluster/ovn", "/bridgeMappings/0/interface", "'eth1'"),
    ),
    ("ovn.clusterRef.name", "", "'b'", Takes("neutron/neutron", "/ovn/clusterRef/name", "'b'")),
    ("ovn.clusterRef.name", "", "'b'", Removes("ovncluster/ovn")),
    ("ovn.clusterRef.namespace", "'a'", "'b'", Takes("neutron/neutron", "/ovn/clusterRef/namespace", "'b'")),
    ("valkey.replicas", "3", "5", Takes("valkey/valkey", "/replicas", "5")),
    ("valkey.sentinel.enabled", "true", "false", Refused("cannot be changed")),
    ("valkey.sentinel.enabled", "", "false", Refused("cannot be changed")),
    ("valkey.resources.requests", "", CPU.1, Takes("valkey/valkey", "/resources/requests", CPU.1)),
    ("valkey.resources.limits", "", CPU.1, Takes("valkey/valkey", "/resources/limits", CPU.1)),
    ("memcached.replicas", "3", "1", Takes("statefulset/memcached", "/replicas", "1")),
    ("memcached.replicas", "3", "1", Removes("poddisruptionbudget/memcached")),
    (
        "memcached.memory",
        "'64Mi'",
        "'128Mi'",
        Takes("statefulset/memcached", "/template/spec/containers/0/args/2", "'128'"),
    ),
    (
        "memcached.resources.requests",
        "",
        CPU.1,
        Takes("statefulset/memcached", "/template/spec/containers/0/resources/requests", CPU.1),
    ),
    (
        "memcached.resources.limits",
        "",
        CPU.1,
        Takes("statefulset/memcached", "/template/spec/containers/0/resources/limits", CPU.1),
    ),
    ("memcached.servers", "", "['c:11211']", Takes(DB, "/cache/servers", "['c:11211']")),
    ("memcached.servers", "", "['c:11211']", Removes("statefulset/memcached")),
];

const KEYSTONE: &[Row] = &[
    ("services.keystone.enabled", "true", "false", Removes("keystone/keystone")),
    ("services.keystone.replicas", "3", "5", Takes(DB, "/replicas", "5")),
    (
        "services.keystone.publicEndpoint",
        "",
        "'https://id.example.net'",
        Takes(DB, "/bootstrap/publicEndpoint", "'https://id.example.net'"),
    ),
    ("services.keystone.fernet.maxActiveKeys", "", "5", Takes(DB, "/fernet/maxActiveKeys", "5")),
    ("services.keystone.fernet.rotationInterval", "", "'24h'", Takes(DB, "/fernet/rotationSchedule", "'0 0 * * *'")),
    ("services.keystone.fernet.rotationInterval", "", "'25h'", Refused("cannot be kept as a schedule")),
    ("services.keystone.policyOverrides.rules", "", RULE, Takes(DB, "/policyOverrides/rules", RULE)),
    (
        "services.keystone.policyOverrides.configMapRef.name",
        "'a'",
        "'b'",
        Takes(DB, "/policyOverrides/configMapRef/name", "'b'"),
    ),
    ("identity.keystone.bootstrap.adminUser.name", "'admin'", "'boss'", Refused("create another administrator")),
    (
        "identity.keystone.bootstrap.adminUser.passwordSecretRef.name",
        "'a'",
        "'b'",
        Takes(DB, "/bootstrap/adminPasswordSecretRef/name", "'b'"),
    ),
    (
        "identity.keystone.bootstrap.adminUser.passwordSecretRef.key",
        "'a'",
        "'b'",
        Takes(DB, "/bootstrap/adminPasswordSecretRef/key", "'b'"),
    ),
    (
        "identity.keystone.bootstrap.serviceUsers",
        "",
        SERVICE_USER,
        Takes("user/glance-service-user", "/resource/name", "'glance'"),
    ),
    (
        "identity.keystone.bootstrap.serviceUsers",
        "",
        "[{'name': 'swift', 'applicationCredential': {'name': 'mine'}}]",
        Refused("a rotation writes swift-app-credential"),
    ),
    (
        "global.publicDomain",
        "",
        "'cloud.example.net'",
        Takes(DB, "/bootstrap/publicEndpoint", "'https://keystone.cloud.example.net'"),
    ),
    ("global.region", "'a'", "'b'", Refused("every endpoint of the catalog")),
    ("global.tls.enabled", "false", "true", Takes(DB, "/tls/enabled", "true")),
    ("global.tls.issuerRef.name", "'a'", "'b'", Takes(DB, "/tls/issuerRef/name", "'b'")),
    ("global.tls.issuerRef.kind", "", "'Issuer'", Takes(DB, "/tls/issuerRef/kind", "'Issuer'")),
    ("global.monitoring.enabled", "false", "true", Takes("mariadb/mariadb", "/metrics/enabled", "true")),
    ("global.policyOverrides.rules", "", RULE, Takes(DB, "/policyOverrides/rules", RULE)),
    ("global.policyOverrides.configMapRef.name", "'a'", "'b'", Waits("configmap/b does not exist")),
    ("global.image.registry", "'a.net'", "'b.net/c5c3'", Takes(DB, "/image/repository", "'b.net/c5c3/keystone'")),
    ("global.image.registry", "", "'b.net:5000'", Takes("mariadb/mariadb", "/image", "'b.net:5000/mariadb:11.8.6'")),
    (
        "global.image.pullSecrets",
        "[{'name': 'a'}]",
        "[{'name': 'b'}]",
        Takes("statefulset/memcached", "/template/spec/imagePullSecrets/0/name", "'b'"),
    ),
    ("global.image.pullSecrets", "", "[{'name': 'b'}]", Takes("mariadb/mariadb", "/imagePullSecrets/0/name", "'b'")),
    ("global.image.pullSecrets", "", "[{'name': 'b'}]", Shared("/imagePullSecrets/0/name", "'b'")),
    ("global.logging.level", "'INFO'", "'DEBUG'", Shared("/logging/level", "'DEBUG'")),
    ("global.logging.format", "'text'", "'json'", Shared("/logging/format", "'json'")),
    ("global.logging.accessLog", "false", "true", Shared("/logging/accessLog", "true")),
    ("global.caBundleRef.secretRef.name", "'a'", "'b'", Shared("/caBundleRef/secretRef/name", "'b'")),
    ("global.caBundleRef.secretRef.key", "'a'", "'b'", Shared("/caBundleRef/secretRef/key", "'b'")),
    ("global.caBundleRef.configMapRef.name", "'a'", "'b'", Shared("/caBundleRef/configMapRef/name", "'b'")),
    ("global.caBundleRef.configMapRef.key", "'a'", "'b'", Shared("/caBundleRef/configMapRef/key", "'b'")),
    (
        "services.keystone.template",
        "{'resources': {'requests': {'cpu': '1'}}}",
        "{'resources': {'requests': {'cpu': '2'}}}",
        Takes(DB, "/resources/requests/cpu", "'2'"),
    ),
    (
        "services.keystone.template",
        "{}",
        "{'replicas': 5}",
        Refused("sets it to 3 from spec.services.keystone.replicas"),
    ),
];

/// The fields that the services other than Keystone have in common.
macro_rules! service {
    ($name:literal) => {
        [
            (concat!("services.", $name, ".enabled"), "true", "false", Removes(concat!($name, "/", $name))),
            (
                concat!("services.", $name, ".policyOverrides.rules"),
                "",
                "{'some_policy': 'role:a'}",
                Takes(concat!($name, "/", $name), "/policyOverrides/rules/some_policy", "'role:a'"),
            ),
            (
                concat!("services.", $name, ".policyOverrides.configMapRef.name"),
                "'a'",
                "'b'",
                Takes(concat!($name, "/", $name), "/policyOverrides/configMapRef/name", "'b'"),
            ),
            (
                concat!("services.", $name, ".publicEndpoint"),
                "",
                "'https://a.example.net'",
                Takes(concat!($name, "/", $name), "/publicEndpoint", "'https://a.example.net'"),
            ),
            (
                concat!("services.", $name, ".template"),
                "",
                "{'extraConfig': {'DEFAULT': {'debug': 'true'}}}",
                Takes(concat!($name, "/", $name), "/extraConfig/DEFAULT/debug", "'true'"),
            ),
        ]
    };
}

const SHARED: &[[Row; 5]] =
    &[service!("glance"), service!("placement"), service!("nova"), service!("neutron"), service!("cinder")];

const REST: &[Row] = &[
    ("openStackRelease", "'2025.2'", "'2026.1'", Takes(DB, "/image/tag", "'29.0.0'")),
    ("deletionPolicy", "'Retain'", "'Delete'", Takes(DB, "/deletionPolicy", "'Delete'")),
    ("services.glance.replicas", "2", "3", Takes("glance/glance", "/replicas", "3")),
    ("services.glance.backend.type", "'rbd'", "'file'", Takes("glance/glance", "/storage/backend", "'file'")),
    ("services.glance.backend.pool", "'a'", "'b'", Takes("glance/glance", "/storage/rbd/pool", "'b'")),
    ("services.placement.replicas", "2", "3", Takes("placement/placement", "/replicas", "3")),
    ("services.nova.api.replicas", "2", "5", Takes("nova/nova", "/api/replicas", "5")),
    ("services.nova.scheduler.replicas", "2", "5", Takes("nova/nova", "/scheduler/replicas", "5")),
    ("services.nova.conductor.replicas", "2", "5", Takes("nova/nova", "/conductor/replicas", "5")),
    ("services.nova.console.replicas", "2", "5", Takes("nova/nova", "/console/replicas", "5")),
    (
        "services.nova.console.publicEndpoint",
        "",
        "'https://screens.example.net'",
        Takes("nova/nova", "/console/publicEndpoint", "'https://screens.example.net'"),
    ),
    ("services.neutron.api.replicas", "2", "5", Takes("neutron/neutron", "/api/replicas", "5")),
    ("services.cinder.api.replicas", "2", "5", Takes("cinder/cinder", "/api/replicas", "5")),
    ("services.cinder.scheduler.replicas", "2", "5", Takes("cinder/cinder", "/scheduler/replicas", "5")),
    ("services.cinder.volume.replicas", "1", "2", Takes("cinder/cinder", "/volume/replicas", "2")),
    (
        "services.cinder.backends",
        "[{'name': 'a', 'type': 'rbd'}]",
        "[{'name': 'b', 'type': 'rbd'}]",
        Takes("cinder/cinder", "/backends/0/name", "'b'"),
    ),
    ("cortex.enabled", "true", "false", Removes("cortex/cortex")),
    ("cortex.replicas", "2", "3", Takes("cortex/cortex", "/replicas", "3")),
    ("cortex.pipelines", "['nova']", "['cinder']", Takes("cortex/cortex", "/pipelines/cinder/enabled", "true")),
    ("tempest.enabled", "true", "false", Removes("tempest/tempest")),
    ("tempest.schedule", "'0 2 * * *'", "'0 3 * * *'", Takes("tempest/tempest", "/schedule", "'0 3 * * *'")),
    ("korc.enabled", "false", "true", Takes(ROLE, "/managementPolicy", "'unmanaged'")),
    ("korc.bootstrapResources", "", "['domains']", Removes("project/admin-project")),
    ("korc.cloudCredentialsRef.cloudName", "", "'a'", Takes(ROLE, "/cloudCredentialsRef/cloudName", "'a'")),
    ("korc.cloudCredentialsRef.secretName", "", "'a'", Takes(ROLE, "/cloudCredentialsRef/secretName", "'a'")),
    ("compute.hypervisorClusters", "['a']", "['b']", Takes("nova/nova", "/cells/0/name", "'b'")),
    ("storage.storageClusters", "", "['a']", Waits("cephcluster/rook-ceph/a")),
    ("storage.ceph.monitors", "", "['a:1']", Waits("sets spec.storage.ceph.monitors, and no operator")),
    ("storage.ceph.filesystem.name", "", "'a'", Waits("sets spec.storage.ceph.filesystem, and no operator")),
    ("storage.ceph.secretRef.name", "'a'", "'b'", Takes("glance/glance", "/storage/rbd/cephSecretRef/name", "'b'")),
    ("storage.ceph.secretRef.key", "'a'", "'b'", Takes("glance/glance", "/storage/rbd/cephSecretRef/key", "'b'")),
    ("storage.ceph.pools.images", "'a'", "'b'", Takes("glance/glance", "/storage/rbd/pool", "'b'")),
    ("storage.ceph.pools.volumes", "'a'", "'b'", Takes("cinder/cinder", "/backends/0/rbd/pool", "'b'")),
    ("storage.ceph.pools.ephemeral", "'a'", "'b'", Takes("nova/nova", "/storage/rbd/pool", "'b'")),
];

/// All services, for what belongs to several of them.
const EVERYTHING: &str = r#"{"services": {"glance": {}, "placement": {}, "nova": {}, "cinder": {}}}"#;
const CEPH: &str = r#"{"storage": {"ceph": {"secretRef": {"name": "x"}}}}"#;

/// What a field needs beside it, before and after a change of it.
const BESIDE: &[(&str, &str)] = &[
    (
        "infrastructure.mariadb.clusterRef.namespace",
        r#"{"infrastructure": {"mariadb": {"clusterRef": {"name": "x"}}}}"#,
    ),
    ("infrastructure.mariadb.port", r#"{"infrastructure": {"mariadb": {"host": "db"}}}"#),
    (
        "infrastructure.mariadb.tls",
        r#"{"infrastructure": {"mariadb": {"host": "db", "tls": {"caSecretRef": {"name": "x"}, "clientSecretRef": {"name": "x"}}}}}"#,
    ),
    (
        "infrastructure.rabbitmq.clusterRef.namespace",
        r#"{"infrastructure": {"rabbitmq": {"clusterRef": {"name": "x"}}}}"#,
    ),
    ("infrastructure.ovn.clusterRef.namespace", r#"{"infrastructure": {"ovn": {"clusterRef": {"name": "x"}}}}"#),
    ("infrastructure.valkey", r#"{"infrastructure": {"valkey": {}}}"#),
    ("global.tls", r#"{"global": {"tls": {"enabled": true, "issuerRef": {"name": "x"}}}}"#),
    (
        "identity.keystone.bootstrap.adminUser.passwordSecretRef",
        r#"{"identity": {"keystone": {"bootstrap": {"adminUser": {"passwordSecretRef": {"name": "x", "key": "x"}}}}}}"#,
    ),
    ("services.keystone.enabled", r#"{"services": {"neutron": null}}"#),
    ("services.glance", CEPH),
    ("services.glance.backend.pool", r#"{"services": {"glance": {"backend": {"type": "rbd"}}}}"#),
    ("services.nova", r#"{"services": {"glance": {}, "placement": {}}}"#),
    ("services.cinder", CEPH),
    ("services.cinder.volume", r#"{"infrastructure": {"valkey": {}}}"#),
    ("services.cinder.replicas.volume", r#"{"infrastructure": {"valkey": {}}}"#),
    ("cortex", EVERYTHING),
    ("cortex", r#"{"cortex": {"enabled": true}}"#),
    ("tempest", r#"{"tempest": {"enabled": true}}"#),
    ("compute", EVERYTHING),
    ("storage", EVERYTHING),
    ("storage.ceph", CEPH),
    ("global.caBundleRef.secretRef", r#"{"global": {"caBundleRef": {"secretRef": {"name": "x"}}}}"#),
    ("global.caBundleRef.configMapRef", r#"{"global": {"caBundleRef": {"configMapRef": {"name": "x"}}}}"#),
];

fn rows() -> impl Iterator<Item = (String, &'static Row)> {
    let infrastructure = INFRASTRUCTURE.iter().map(|row| (format!("infrastructure.{}", row.0), row));
    let others = KEYSTONE.iter().chain(SHARED.iter().flatten()).chain(REST);
    infrastructure.chain(others.map(|row| (row.0.to_owned(), row)))
}

/// A value as rows write it: JSON with either kind of quotes.
fn value(text: &str) -> Value {
    serde_json::from_str(&text.replace('\'', "\"")).unwrap()
}

fn merge(target: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else { return *target = change.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in change {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// A ControlPlane with one field set, or without it.
fn with(field: &str, text: &str) -> Value {
    let mut spec = json!({"services": {"keystone": {}, "neutron": {}}});
    for (_, beside) in BESIDE.iter().filter(|(of, _)| field.starts_with(of)) {
        merge(&mut spec, &value(beside));
    }
    if !text.is_empty() {
        let nested = field.rsplit('.').fold(value(text), |inner, name| json!({ name: inner }));
        merge(&mut spec, &nested);
    }
    lab(&spec)
}

fn find<'a>(plan: &'a Plan, child: &str) -> Option<&'a Value> {
    plan.children().find(|found| found.reference().short() == child).map(|found| &found.object.data["spec"])
}

/// Whether Keystone's kind has the first field of a place in its spec.
fn keystone_has(place: &str) -> bool {
    let kind = c5c3_api::find("keystone.openstack.c5c3.io/v1alpha1", "Keystone").unwrap();
    kind.schema().has_field(&["spec", place.split('/').nth(1).unwrap()])
}

/// What there is: what others brought along, and what was made of the ControlPlane as it was.
fn there(before: Option<&Plan>) -> Vec<Value> {
    let mut all: Vec<Value> = ["a", "b", "x"].map(issuer).into();
    all.extend(
        ["a", "b", "x", "keystone-db-credentials", "neutron-db-credentials"]
            .map(|name| secret(name, &["a", "b", "x", "username", "password"])),
    );
    for child in before.into_iter().flat_map(Plan::children) {
        let mut made = serde_json::to_value(&child.object).unwrap();
        made["metadata"]["labels"]["app.kubernetes.io/managed-by"] = c5c3_operator_controlplane::NAME.into();
        all.push(made);
    }
    all
}

/// What becomes of a change of a ControlPlane that runs: the plans before and after, or why it is refused.
fn change(before: &Value, after: &Value) -> Result<(Plan, Plan), String> {
    let kind = c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap();
    let refused = kind.check(after, Some(before));
    if !refused.is_empty() {
        return Err(refused.to_string());
    }
    let old = plan(before, &there(None)).expect("what was before is good");
    let new = plan(after, &there(Some(&old)))?;
    Ok((old, new))
}

#[test]
fn every_change_takes_effect_or_is_refused_with_the_reason() {
    let mut wrong = Vec::new();
    for (field, (_, before, after, becomes)) in rows() {
        let outcome = change(&with(&field, before), &with(&field, after));
        let good = match (&outcome, becomes) {
            (Err(reason), Refused(part)) => reason.contains(part),
            (Ok((old, new)), Takes(child, place, expected)) => {
                let at = |plan: &Plan| find(plan, child).and_then(|spec| spec.pointer(place)).cloned();
                at(new) == Some(value(expected)) && at(old) != at(new)
            }
            (Ok((old, new)), Removes(child)) => find(old, child).is_some() && find(new, child).is_none(),
            (Ok((old, new)), Shared(place, expected)) => {
                let at = |plan: &Plan| find(plan, DB).and_then(|spec| spec.pointer(place)).cloned();
                let expected = keystone_has(place).then(|| value(expected));
                at(new) == expected && (expected.is_none() || at(old) != at(new))
            }
            (Ok((_, new)), Waits(part)) => crate::paper::waits(new).iter().any(|wait| wait.contains(part)),
            _ => false,
        };
        if !good {
            wrong.push(format!("{field}: {before} -> {after}: {:?}", outcome.err()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The fields of a schema that are no objects of ours themselves.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(fields) = schema["properties"].as_object() else {
        found.insert(path.to_owned());
        return;
    };
    for (name, field) in fields {
        leaves(field, &format!("{path}.{name}"), found);
    }
}

/// Second spellings, which become the first before anybody looks at them: see the test below.
const SPELLINGS: &[(&str, &str)] = &[
    ("infrastructure.database", "infrastructure.mariadb"),
    ("infrastructure.messaging", "infrastructure.rabbitmq"),
    ("infrastructure.cache", "infrastructure.memcached"),
    ("identity.keystone.replicas", "services.keystone.replicas"),
    ("services.nova.replicas.api", "services.nova.api.replicas"),
    ("services.nova.replicas.scheduler", "services.nova.scheduler.replicas"),
    ("services.nova.replicas.conductor", "services.nova.conductor.replicas"),
    ("services.neutron.replicas", "services.neutron.api.replicas"),
    ("services.cinder.replicas.api", "services.cinder.api.replicas"),
    ("services.cinder.replicas.scheduler", "services.cinder.scheduler.replicas"),
    ("services.cinder.replicas.volume", "services.cinder.volume.replicas"),
];

/// Second spellings of whole sections.
const SECTIONS: &[&str] = &["openstack", "region", "tls"];

#[test]
fn no_field_is_forgotten() {
    let kind = c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap();
    let mut known = BTreeSet::new();
    let schema = kind.open_api();
    let sections = schema["properties"]["spec"]["properties"].as_object().unwrap();
    for (name, section) in sections.iter().filter(|(name, _)| !SECTIONS.contains(&name.as_str())) {
        leaves(section, name, &mut known);
    }
    known.retain(|field| !SPELLINGS.iter().any(|(second, _)| field.starts_with(second)));
    let tried: BTreeSet<String> = rows().map(|(field, _)| field).collect();
    assert_eq!(known.symmetric_difference(&tried).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn a_second_spelling_is_the_same_field() {
    for (second, first) in SPELLINGS {
        let text = if second.contains("replicas") { "5" } else { r#"{"replicas": 5}"# };
        let golden = |field: &str| plan(&with(field, text), &there(None)).unwrap().golden();
        assert_eq!(golden(second), golden(first), "{second}");
        assert_ne!(golden(second), plan(&with("services.keystone", "{}"), &there(None)).unwrap().golden(), "{second}");
    }
}

//! Keystone's part of a ControlPlane.

use c5c3_api::c5c3::rotation_schedule;
use serde_json::json;

use super::accounts::{ADMIN_SECRET, admin};
use super::cloud::{Cloud, replicas};
use super::part::Part;
use super::services::{cache, database, policy, tls};
use super::spec::Spec;

const BOOTSTRAP: &str = "spec.identity.keystone.bootstrap.adminUser";

pub(super) fn project(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.keystone.as_ref();
    let field = |name: &str| format!("{}.{name}", part.field);
    spec.set("replicas", replicas(written.and_then(|keystone| keystone.replicas), 3), field("replicas"));
    database(part, spec, cloud);
    cache(spec, cloud);
    tls(part, spec, cloud);
    policy(part, spec, cloud, written.and_then(|keystone| keystone.policy_overrides.as_ref()));

    let fernet = written.and_then(|keystone| keystone.fernet.clone()).unwrap_or_default();
    let keys = fernet.max_active_keys.map(|keys| json!(keys));
    spec.maybe("fernet.maxActiveKeys", keys, field("fernet.maxActiveKeys"));
    let schedule = fernet.rotation_interval.as_ref().and_then(rotation_schedule).map(|schedule| json!(schedule));
    spec.maybe("fernet.rotationSchedule", schedule, field("fernet.rotationInterval"));

    let (secret, key) = admin(cloud).unwrap_or_else(|| (ADMIN_SECRET.into(), "password".into()));
    spec.set("bootstrap.region", json!(cloud.region()), "spec.global.region");
    let password = json!({"name": secret, "key": key});
    spec.set("bootstrap.adminPasswordSecretRef", password, format!("{BOOTSTRAP}.passwordSecretRef"));
    spec.maybe("bootstrap.adminUser", admin_user(cloud), format!("{BOOTSTRAP}.name"));
    if let Some((endpoint, from)) = cloud.public_endpoint(part) {
        spec.set("bootstrap.publicEndpoint", endpoint, from);
    }
}

/// Where clients outside the cluster reach Keystone, if that is not where services do.
pub(super) fn public_endpoint(cloud: &Cloud) -> Option<String> {
    let object = super::services::object(&super::parts::KEYSTONE, cloud);
    object["bootstrap"]["publicEndpoint"].as_str().map(ToOwned::to_owned)
}

pub(super) fn admin_user(cloud: &Cloud) -> Option<&str> {
    let bootstrap = cloud.spec.identity.as_ref()?.keystone.as_ref()?.bootstrap.as_ref()?;
    bootstrap.admin_user.as_ref().map(|user| user.name.as_str())
}

//! Keystone's part of a ControlPlane.

use c5c3_api::c5c3::rotation_schedule;
use serde_json::json;

use super::accounts::{ADMIN_SECRET, admin};
use super::cloud::{Cloud, replicas};
use super::services::{Spec, cache, database, policy, tls};

pub(super) fn project(spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.keystone.as_ref();
    spec.insert("replicas".into(), replicas(written.and_then(|keystone| keystone.replicas), 3).into());
    spec.insert("database".into(), database("keystone", cloud));
    spec.insert("cache".into(), cache(cloud));
    tls(spec, cloud);
    policy(spec, cloud, written.and_then(|keystone| keystone.policy_overrides.as_ref()));

    let fernet = written.and_then(|keystone| keystone.fernet.clone()).unwrap_or_default();
    let keys = fernet.max_active_keys.map(|keys| json!({"maxActiveKeys": keys}));
    let mut keys = keys.unwrap_or_else(|| json!({}));
    if let Some(schedule) = fernet.rotation_interval.as_ref().and_then(rotation_schedule) {
        keys["rotationSchedule"] = json!(schedule);
    }
    if keys != json!({}) {
        spec.insert("fernet".into(), keys);
    }

    if !cloud.keeps_data() {
        spec.insert("deletionPolicy".into(), "Delete".into());
    }

    let (secret, key) = admin(cloud).unwrap_or_else(|| (ADMIN_SECRET.into(), "password".into()));
    let mut bootstrap = json!({
        "region": cloud.region(),
        "adminPasswordSecretRef": {"name": secret, "key": key},
    });
    if let Some(user) = admin_user(cloud) {
        bootstrap["adminUser"] = user.into();
    }
    if let Some(endpoint) = written.and_then(|keystone| keystone.public_endpoint.as_ref()) {
        bootstrap["publicEndpoint"] = json!(endpoint);
    }
    spec.insert("bootstrap".into(), bootstrap);
}

pub(super) fn admin_user(cloud: &Cloud) -> Option<&str> {
    let bootstrap = cloud.spec.identity.as_ref()?.keystone.as_ref()?.bootstrap.as_ref()?;
    bootstrap.admin_user.as_ref().map(|user| user.name.as_str())
}

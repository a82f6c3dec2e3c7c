//! Plans of drains, as text.

use std::sync::Arc;

use c5c3_api::hypervisor::Eviction;
use c5c3_kit::inputs::Found;
use c5c3_kit::{Controller, Inputs};
use c5c3_openstack::{Clients, Options};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::{Evictions, asks};
use crate::access;
use crate::cloud::{Answer, Cloud, Guests, HostSeen, Question};
use crate::settings::Settings;

const CLOUDS: &str = "clouds: {openstack: {region_name: south, auth: {auth_url: 'http://keystone/v3', username: a, password: b, \
    project_name: c, user_domain_name: d, project_domain_name: d}}}";

fn plan(servers: Value, migrations: Value, status: Value) -> String {
    let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Eviction",
        "metadata": {"name": "hv-1", "uid": "e1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"hypervisor": "hv-1.rack", "reason": "new disk"}, "status": status});
    let object: Eviction = serde_json::from_value(object).unwrap();
    let [host, guests] = asks(&object);
    let mut inputs = Inputs::new(object, "2026-01-01T01:00:00Z".parse().unwrap());
    let settings = Arc::new(Settings::default());
    let mut secret = kube::api::DynamicObject::new("k-orc-clouds-yaml", &ApiResource::erase::<Secret>(&()));
    secret.data = json!({"data": {"clouds.yaml": k8s_openapi::ByteString(CLOUDS.into())}});
    inputs.insert(access::secret(&settings.cloud), Found::Object(Box::new(secret)));
    let access = access::read(&inputs, &settings.cloud).unwrap();
    let service =
        json!({"id": "s-1", "host": "hv-1.rack", "status": "disabled", "state": "up", "disabled_reason": "by us"});
    let seen = HostSeen { service: serde_json::from_value(service).unwrap(), ..HostSeen::default() };
    let on_it = Guests {
        servers: serde_json::from_value(servers).unwrap(),
        migrations: serde_json::from_value(migrations).unwrap(),
        destinations: 3,
        ..Guests::default()
    };
    for (ask, answer) in [(host, Answer::Host(seen)), (guests, Answer::Guests(on_it))] {
        inputs.insert_reply::<Cloud>(Question { access: access.clone(), ask }, Ok(answer));
    }
    let cloud = Arc::new(Cloud::new(Clients::new(Options::default()), (*settings).clone()));
    Evictions::new(settings, cloud).plan(&(), &inputs).golden()
}

fn server(id: &str, status: &str) -> Value {
    json!({"id": id, "name": format!("vm-{id}"), "status": status, "OS-EXT-SRV-ATTR:host": "hv-1.rack", "flavor": {"ram": 1024}})
}

fn migration(id: i64, server: &str, status: &str, kind: &str, at: &str) -> Value {
    json!({"id": id, "instance_uuid": server, "source_compute": "hv-1.rack", "dest_compute": "hv-2.rack", "status": status,
        "migration_type": kind, "created_at": at, "updated_at": at})
}

#[test]
fn each_instance_is_moved_as_its_state_allows_two_at_a_time() {
    let servers =
        json!([server("a", "ACTIVE"), server("b", "SHUTOFF"), server("c", "PAUSED"), server("d", "SUSPENDED")]);
    insta::assert_snapshot!(plan(servers, json!([]), json!({})));
}

#[test]
fn what_moved_is_confirmed_what_hangs_is_aborted_and_what_failed_too_often_is_given_up() {
    let servers = json!([server("hangs", "MIGRATING"), server("fails", "ACTIVE")]);
    let migrations = json!([
        migration(1, "moved", "completed", "live-migration", "2026-01-01T00:10:00.000000"),
        migration(2, "cold", "finished", "migration", "2026-01-01T00:10:00.000000"),
        migration(3, "hangs", "running", "live-migration", "2026-01-01T00:10:00.000000"),
        migration(4, "fails", "error", "live-migration", "2026-01-01T00:10:00.000000"),
        migration(5, "fails", "error", "live-migration", "2026-01-01T00:20:00.000000"),
        migration(6, "fails", "error", "live-migration", "2026-01-01T00:30:00.000000"),
        migration(7, "before", "completed", "live-migration", "2025-01-01T00:30:00.000000"),
    ]);
    insta::assert_snapshot!(plan(servers, migrations, json!({})));
}

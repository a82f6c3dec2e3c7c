//! When a chassis is asked about again, and when it counts as lost.

use std::time::Duration;

use c5c3_api::ovn::OVNChassis;
use c5c3_kit::inputs::Found;
use c5c3_kit::ownership::OWNER;
use c5c3_kit::{Controller, Inputs, Plan, Verdict};
use serde_json::json;

use super::cluster;
use crate::chassis::AllChassis;
use crate::layout::{Database, Layout};
use crate::remote::{Ask, Members, Row, Told};

/// The plan for a chassis whose last heartbeat is that many seconds old.
fn plan(age: i64) -> Plan {
    let owner = cluster(&json!({}), &json!({"southbound": {"leader": "weave-sb-0"}}));
    let layout = Layout::of(&owner);
    let chassis: OVNChassis = serde_json::from_value(json!({
        "apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNChassis",
        "metadata": {"name": "hv-1", "namespace": "loom", "annotations": {OWNER: "OVNCluster/loom/weave"}},
        "spec": {"hostname": "hv-1", "systemId": "hv-1", "encapsulation": {"ip": "10.0.1.1"}},
    }))
    .unwrap();
    let mut inputs = Inputs::new(chassis, "2026-01-01T00:00:00Z".parse().unwrap());
    for need in AllChassis.needs(&inputs) {
        let found = if need.name == "weave" {
            Found::Object(Box::new(serde_json::from_value(json!(owner)).unwrap()))
        } else {
            Found::Missing
        };
        inputs.insert(need, found);
    }
    let heartbeat = inputs.now.as_millisecond() - age * 1000;
    let rows = vec![Row { name: "hv-1".into(), datapath: "netdev".into(), heartbeat }];
    let door = layout.door(Database::Southbound, "weave-sb-0");
    inputs.insert_reply::<Members>(Ask::Chassis(door, Some("hv-1".into())), Ok(Told::Chassis(rows)));
    let Verdict::Valid(valid) = AllChassis.validate(&inputs) else { panic!("not valid") };
    AllChassis.plan(&valid, &inputs)
}

#[test]
fn a_chassis_is_asked_about_again_when_it_would_count_as_lost() {
    for (age, left) in [(0, 180), (60, 120), (170, 10)] {
        let plan = plan(age);
        assert_eq!(plan.requeue_after, Some(Duration::from_secs(left)), "{age}");
        assert!(plan.steps.iter().all(|step| step.waits.is_empty()), "{age}");
    }
    let plan = plan(180);
    let reasons: Vec<String> = plan.steps.iter().flat_map(|step| &step.waits).map(c5c3_kit::Wait::reason).collect();
    assert_eq!(reasons, ["HeartbeatLost"]);
}

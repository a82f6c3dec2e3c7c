//! `status.identity`: how far each user is.

use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::{Inputs, Plan};
use serde_json::{Value, json};

use super::super::cloud::Cloud;
use super::super::parts::KORC;
use super::users;

pub(crate) fn of(plan: Plan, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
    if !cloud.has(&KORC) {
        return plan;
    }
    let users: Vec<Value> = users::accounts(cloud).iter().map(|account| users::status(account, inputs)).collect();
    let is_ready = users.iter().all(|user| {
        user["status"] == "Ready"
            && user.pointer("/applicationCredential/status").is_none_or(|status| status == "Ready")
    });
    let phase = if is_ready { "Ready" } else { "Pending" };
    plan.status("identity", json!({"phase": phase, "serviceUsers": users}))
}

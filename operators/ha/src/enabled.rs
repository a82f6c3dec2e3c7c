//! `HaEnabled`: whether the servers of a host start elsewhere when it fails. The hypervisor operator ends an onboarding when it is
//! true, and keeps the hold of a machine while it is. It is a report: what is fenced follows from `spec.highAvailability`.

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_kit::condition::{ConditionState, find};

/// The condition. It is absent where this operator does not run, and then nothing waits for it.
pub(crate) const ENABLED: &str = "HaEnabled";

/// Computes the condition from `spec.highAvailability` and the other conditions of the Hypervisor.
pub(crate) fn enabled(high_availability: bool, conditions: &[Condition]) -> ConditionState {
    let reason = |name: &str| find(conditions, name).and_then(|found| found.reason.as_deref());
    let is = |name: &str, status: ConditionStatus| find(conditions, name).is_some_and(|found| found.status == status);
    let has_left = is("Offboarded", ConditionStatus::True);
    let is_empty = is("Evicting", ConditionStatus::False) && reason("Evicting") == Some("Succeeded");
    match reason("Onboarding") {
        _ if !high_availability => no("NotWanted", "spec.highAvailability is false"),
        _ if has_left => no("Evicted", "the host has left Nova"),
        _ if is_empty => no("Evicted", "all servers were moved away"),
        Some("Handover" | "Succeeded") => {
            ConditionState::met(ENABLED, "Succeeded", "servers start elsewhere when the host fails")
        }
        Some("Aborted") => no("Onboarding", "the onboarding of the host was aborted"),
        _ => no("Onboarding", "the host has not passed its tests yet"),
    }
}

fn no(reason: &str, message: &str) -> ConditionState {
    ConditionState::unmet(ENABLED, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said = (&'static str, ConditionStatus, &'static str);

    #[test]
    fn high_availability_is_enabled_from_the_handover_until_the_host_is_empty() {
        use ConditionStatus::{False, True};
        let cases: [(bool, &[Said], &str); 10] = [
            (true, &[], "Onboarding"),
            (true, &[("Onboarding", True, "Initial")], "Onboarding"),
            (true, &[("Onboarding", True, "Testing")], "Onboarding"),
            (true, &[("Onboarding", True, "Handover")], "Succeeded"),
            (true, &[("Onboarding", False, "Succeeded"), ("Evicting", False, "NotAsked")], "Succeeded"),
            (true, &[("Onboarding", False, "Aborted")], "Onboarding"),
            (true, &[("Onboarding", False, "Succeeded"), ("Evicting", True, "Running")], "Succeeded"),
            (true, &[("Onboarding", False, "Succeeded"), ("Evicting", False, "Succeeded")], "Evicted"),
            (true, &[("Onboarding", False, "Succeeded"), ("Offboarded", True, "Offboarded")], "Evicted"),
            (false, &[("Onboarding", False, "Succeeded")], "NotWanted"),
        ];
        for (wanted, conditions, reason) in cases {
            let conditions: Vec<Condition> = conditions
                .iter()
                .map(|(name, status, reason)| {
                    let state = ConditionState { status: *status, ..ConditionState::met(*name, *reason, "") };
                    state.to_condition(None, None, jiff::Timestamp::UNIX_EPOCH)
                })
                .collect();
            let said = enabled(wanted, &conditions);
            assert_eq!(said.reason, reason, "{conditions:?}");
            assert_eq!(said.status == True, reason == "Succeeded");
        }
    }
}

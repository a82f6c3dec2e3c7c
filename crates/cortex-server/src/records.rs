//! A decision of the engine as a Decision object. Pure.

use c5c3_api::blocks::{Condition, ConditionStatus, ObjectName};
use c5c3_api::cortex::{
    Decision, DecisionHistory, DecisionHost, DecisionRemoval, DecisionResources, DecisionSpec, DecisionStatus,
    DecisionStep, PipelineRef,
};
use c5c3_cortex as engine;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::names::NAME;

const HOSTS: usize = 10;
const HISTORY: usize = 10;
const LONGEST_EXPLANATION: usize = 16_000;
const LONGEST_EARLIER: usize = 4_000;

/// The object for a decision; `None` for a workload without an id, which nothing could be asked about.
pub fn record(decision: &engine::Decision, at: Timestamp, earlier: Option<&Decision>) -> Option<Decision> {
    let name = name(decision)?;
    let pipeline = ObjectName::new(&decision.pipeline).ok()?;
    let resources = DecisionResources {
        vcpus: u32::try_from(decision.resources.vcpus).unwrap_or(u32::MAX),
        memory_mib: decision.resources.memory_mib,
        disk_gib: decision.resources.disk_gib,
    };
    let spec = DecisionSpec {
        scheduling_domain: decision.domain.into(),
        pipeline_ref: PipelineRef { name: pipeline },
        resource_id: decision.workload.clone(),
        intent: Some(decision.intent.as_str().to_owned()),
        project_id: Some(decision.project.clone()).filter(|id| !id.is_empty()),
        resources: Some(resources),
    };
    let mut object = Decision::new(&name, spec);
    object.metadata.annotations = decision.name.clone().map(|name| [(NAME.to_owned(), name)].into());
    object.status = Some(status(decision, at, earlier));
    Some(object)
}

/// `nova-<uuid>`; another id's letters that no name can have become `-`.
fn name(decision: &engine::Decision) -> Option<String> {
    if decision.workload.is_empty() || decision.workload.len() > 128 {
        return None;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = format!("{}-{}", decision.domain, decision.workload).chars().map(plain).collect();
    Some(name.trim_end_matches('-').to_owned())
}

fn status(decision: &engine::Decision, at: Timestamp, earlier: Option<&Decision>) -> DecisionStatus {
    let target = decision.target().map(str::to_owned);
    let explanation = cut(decision.explanation(), LONGEST_EXPLANATION);
    let (is, reason) = match target {
        Some(_) => (ConditionStatus::True, "SchedulingSucceeded"),
        None => (ConditionStatus::False, "NoHostFound"),
    };
    let ready = Condition {
        r#type: "Ready".into(),
        status: is,
        reason: Some(reason.into()),
        message: Some(explanation.clone()),
        last_transition_time: Some(Time(at)),
        observed_generation: None,
    };
    DecisionStatus {
        conditions: vec![ready],
        decided_at: Some(Time(at)),
        target_host: target,
        explanation: Some(explanation),
        offered_hosts: Some(count(decision.offered)),
        remaining_hosts: Some(count(decision.hosts.len())),
        ordered_hosts: decision
            .hosts
            .iter()
            .take(HOSTS)
            .map(|ranked| DecisionHost { host: ranked.host.clone(), score: ranked.score })
            .collect(),
        step_results: steps(decision),
        history: history(earlier),
    }
}

fn steps(decision: &engine::Decision) -> Vec<DecisionStep> {
    let filters = decision.filters.iter().map(|filter| DecisionStep {
        step_name: filter.step.into(),
        removed_hosts: Some(count(filter.removed)),
        removals: filter
            .named
            .iter()
            .map(|one| DecisionRemoval { host: one.host.clone(), reason: cut(one.reason.clone(), 1000) })
            .collect(),
        unjudged_hosts: Some(count(filter.unjudged)),
        ..DecisionStep::default()
    });
    let weighers = decision.weighers.iter().map(|weigher| DecisionStep {
        step_name: weigher.step.into(),
        unjudged_hosts: Some(count(weigher.unjudged)),
        activations: decision.hosts.iter().map(|ranked| ranked.host.clone()).zip(weigher.adds.clone()).collect(),
        ..DecisionStep::default()
    });
    filters.chain(weighers).collect()
}

/// What was decided before, the last first.
fn history(earlier: Option<&Decision>) -> Vec<DecisionHistory> {
    let Some((object, status)) = earlier.and_then(|object| Some((object, object.status.as_ref()?))) else {
        return Vec::new();
    };
    let last = DecisionHistory {
        decided_at: status.decided_at.clone(),
        intent: object.spec.intent.clone(),
        target_host: status.target_host.clone(),
        explanation: status.explanation.clone().map(|text| cut(text, LONGEST_EARLIER)),
    };
    std::iter::once(last).chain(status.history.iter().cloned()).take(HISTORY).collect()
}

fn count(hosts: usize) -> u32 {
    u32::try_from(hosts).unwrap_or(u32::MAX)
}

/// At most so many bytes, cut between characters.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use c5c3_cortex::{Candidate, Domain, Host, Request, Resources, Scheduler};

    use super::*;

    fn decide(workload: &str) -> engine::Decision {
        let mut scheduler = Scheduler::new(1000);
        scheduler.put_host(Domain::Nova, Host { name: "hv-1".into(), ..Host::default() });
        let offer = |host: &str| Candidate { host: host.into(), node: None, weight: 1.0 };
        let resources = Resources { vcpus: 1, memory_mib: 2, disk_gib: 3 };
        let candidates = (0..100).map(|index| offer(&format!("hv-{index}"))).collect();
        scheduler.decide(&Request { resources, candidates, ..Request::new(Domain::Nova, workload) }, 0).unwrap()
    }

    #[test]
    fn a_record_is_what_its_kind_takes_and_remembers_ten_earlier_ones() {
        let kind = c5c3_api::find("cortex.c5c3.io/v1alpha1", "Decision").unwrap();
        let mut earlier = None;
        for second in 0..15 {
            let at = Timestamp::from_second(second).unwrap();
            let object = record(&decide("6F2C_1"), at, earlier.as_ref()).unwrap();
            let written = serde_json::to_value(&object).unwrap();
            assert_eq!(kind.check(&written, None).to_string(), "");
            assert!(written.to_string().len() < 64 * 1024, "{} bytes", written.to_string().len());
            earlier = Some(object);
        }
        let last = earlier.unwrap();
        assert_eq!(last.metadata.name.as_deref(), Some("nova-6f2c-1"));
        let status = last.status.unwrap();
        let times: Vec<i64> = status.history.iter().map(|one| one.decided_at.as_ref().unwrap().0.as_second()).collect();
        assert_eq!(times, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
        assert_eq!(status.conditions[0].reason.as_deref(), Some("NoHostFound"));
        assert_eq!(status.offered_hosts, Some(100));
    }

    #[test]
    fn the_name_that_a_request_has_is_an_annotation() {
        let name = |decision: &engine::Decision| {
            let object = record(decision, Timestamp::UNIX_EPOCH, None).unwrap();
            object.metadata.annotations.and_then(|all| all.get(NAME).cloned())
        };
        let mut named = decide("v-1");
        assert_eq!(name(&named), None);
        named.name = Some("Plum data / 1".into());
        assert_eq!(name(&named).as_deref(), Some("Plum data / 1"));
    }

    #[test]
    fn a_workload_without_an_id_is_not_recorded() {
        assert!(record(&decide(""), Timestamp::UNIX_EPOCH, None).is_none());
    }
}

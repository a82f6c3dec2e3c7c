//! Policies for all services at once. Each service gets the rules that it has policies for, and a name that no service has
//! is the ControlPlane's own mistake.

use std::collections::BTreeMap;

use c5c3_api::blocks::PolicyOverrides;
use c5c3_api::c5c3::ControlPlane;
use c5c3_api::{Problem, problem};
use c5c3_kit::{Inputs, Ref, Step};
use c5c3_service::ReleaseOptions;
use c5c3_service::policy::{self, PolicyError};

use super::cloud::Cloud;
use super::part::Part;
use super::parts::PARTS;

type Rules = BTreeMap<String, String>;

/// The policies of a service: its own rules win over those for all, and so does its own ConfigMap.
pub(super) fn of(part: &Part, own: Option<&PolicyOverrides>, cloud: &Cloud) -> Option<PolicyOverrides> {
    let own_rules = own.map(|own| own.rules.clone()).unwrap_or_default();
    let config_map_ref = own.and_then(|own| own.config_map_ref.clone());
    let mut rules = chosen(part, &shared(cloud, config_map_ref.is_none()), &own_rules, cloud);
    rules.extend(own_rules);
    (!rules.is_empty() || config_map_ref.is_some()).then_some(PolicyOverrides { rules, config_map_ref })
}

/// The rules for all services: those of the spec, over those of its ConfigMap if that counts.
fn shared(cloud: &Cloud, with_map: bool) -> Rules {
    let mut rules = if with_map { cloud.shared_policies.clone() } else { Rules::new() };
    rules.extend(global(cloud).map(|all| all.rules.clone()).unwrap_or_default());
    rules
}

/// The ConfigMap with policies for all services. It is read here and not handed on: a service would refuse another service's policies.
pub(super) fn reference(cloud: &Cloud) -> Option<Ref> {
    policy::reference(global(cloud), &cloud.namespace)
}

/// Reads the ConfigMap into the cloud, or the wait for it; gives what is wrong with it.
pub(super) fn read(cloud: &mut Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Problem> {
    let Some(reference) = reference(cloud) else { return Vec::new() };
    match policy::read(inputs, &reference) {
        Ok(rules) => cloud.shared_policies = rules,
        Err(PolicyError::Wait(wait)) => {
            cloud.policy_wait = Some(wait.because("spec.global.policyOverrides.configMapRef names it"));
        }
        Err(PolicyError::Problems(problems)) => {
            let here = |one: Problem| Problem { path: one.path.replacen("spec.", "spec.global.", 1), ..one };
            return problems.into_iter().map(here).collect();
        }
    }
    Vec::new()
}

/// The step of a service, which waits for the policies for all services if they are missing.
pub(super) fn waiting(part: &Part, step: Step, cloud: &Cloud) -> Step {
    match &cloud.policy_wait {
        Some(wait) if part.takes(&["policyOverrides"]) => step.wait(wait.clone()),
        _ => step,
    }
}

fn global(cloud: &Cloud) -> Option<&PolicyOverrides> {
    cloud.spec.global.as_ref()?.policy_overrides.as_ref()
}

fn release_options(part: &Part, cloud: &Cloud) -> Option<&'static ReleaseOptions> {
    ReleaseOptions::of(part.name, cloud.release.name)
}

/// Whether some service is known to have a policy.
fn is_claimed(name: &str, cloud: &Cloud) -> bool {
    PARTS
        .iter()
        .any(|part| release_options(part, cloud).is_some_and(|release_options| release_options.has_policy(name)))
}

/// The rules for all services that are for this one: those that it has, or, if its policies are not listed, those that no
/// other service is known to have. Rules that these refer to go with them.
fn chosen(part: &Part, all: &Rules, own: &Rules, cloud: &Cloud) -> Rules {
    let is_its_own = |name: &str| match release_options(part, cloud) {
        Some(release_options) => release_options.has_policy(name),
        None => !is_claimed(name, cloud),
    };
    let mut chosen: Rules = all.iter().filter(|(name, _)| is_its_own(name)).map(owned).collect();
    loop {
        let used: Vec<String> = chosen.values().chain(own.values()).flat_map(|rule| references(rule)).collect();
        let is_missing = |name: &String| !chosen.contains_key(name) && !own.contains_key(name);
        let missing: Rules =
            all.iter().filter(|(name, _)| used.contains(name) && is_missing(name)).map(owned).collect();
        if missing.is_empty() {
            return chosen;
        }
        chosen.extend(missing);
    }
}

fn owned((name, rule): (&String, &String)) -> (String, String) {
    (name.clone(), rule.clone())
}

/// The names of the rules that a rule refers to.
fn references(rule: &str) -> Vec<String> {
    let words = rule.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    words.filter_map(|word| word.strip_prefix("rule:")).map(ToOwned::to_owned).collect()
}

/// The names that no service has. A name without a colon is a rule for other rules to use, which anybody may add; and as
/// long as the policies of some service of the cloud are not listed, a name may be one of them.
pub(super) fn problems(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Problem> {
    let all = shared(cloud, true);
    let services: Vec<&Part> = cloud.parts().filter(|part| part.takes(&["policyOverrides"])).collect();
    let lists: Vec<&ReleaseOptions> = services.iter().filter_map(|part| release_options(part, cloud)).collect();
    if lists.is_empty() || lists.len() < services.len() {
        return Vec::new();
    }
    let unknown = all.keys().filter(|name| name.contains(':') && !is_claimed(name, cloud));
    unknown
        .map(|name| {
            let hint = lists.iter().find_map(|release_options| nearest(name, release_options, cloud, inputs));
            problem(
                place(name, cloud),
                format!("is a policy that no service of {} has", cloud.release.name),
                hint.unwrap_or_else(|| "remove it".to_owned()),
            )
        })
        .collect()
}

/// The field that a rule for all services comes from.
fn place(name: &str, cloud: &Cloud) -> String {
    let field = "spec.global.policyOverrides";
    let map = global(cloud).filter(|all| !all.rules.contains_key(name)).and_then(|all| all.config_map_ref.as_ref());
    map.map_or_else(|| format!("{field}.rules.{name}"), |map| format!("{field}.configMapRef({}).{name}", map.name))
}

/// What a service would say about a policy that it does not have.
fn nearest(
    name: &str,
    release_options: &ReleaseOptions,
    cloud: &Cloud,
    inputs: &Inputs<ControlPlane>,
) -> Option<String> {
    let rules = [(name.to_owned(), String::new())].into();
    let asked = PolicyOverrides { rules, config_map_ref: None };
    match policy::rules(Some(&asked), inputs, &cloud.namespace, Some(release_options)) {
        Err(PolicyError::Problems(found)) => found.into_iter().map(|found| found.fix).find(|fix| !fix.is_empty()),
        Ok(_) | Err(PolicyError::Wait(_)) => None,
    }
}

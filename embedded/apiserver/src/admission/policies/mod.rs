//! Admission policies, rules in CEL that bindings put into force: which of them a request is for, and what their
//! expressions see.
//!
//! Not done: `authorizer`, audit annotations, and parameters of a kind that is not served.

mod mutating;
mod validating;

use c5c3_schema::{Budget, Expression, Outcome, Variables};
use serde_json::{Value, json};

use super::review::Request;
use super::{Webhook, conditions, rules};
use crate::object::{meta, of_entry};
use crate::selector::Labels;
use crate::status::ApiError;

pub(super) use mutating::{change, mutating};
pub(super) use validating::admit;

/// What the expressions of one policy may cost for one request.
const BUDGET: u64 = 10_000_000;

/// A policy that is in force, as one of its bindings has it.
pub(super) struct InForce {
    policy: Value,
    binding: Value,
}

/// The policies that are in force: `mutating` or `validating` ones, by the names of their bindings.
fn in_force(request: &Request<'_>, kind: &str) -> Vec<InForce> {
    let stored = |plural: String| {
        let served = request.call.server.registry().find("admissionregistration.k8s.io", "v1", &plural);
        let entries = served.map(|served| (request.call.server.store().list(&served.prefix(None)), served));
        entries.map_or_else(Vec::new, |(entries, served)| {
            entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect::<Vec<Value>>()
        })
    };
    let bindings = stored(format!("{kind}admissionpolicybindings"));
    if bindings.is_empty() {
        return Vec::new();
    }
    let policies = stored(format!("{kind}admissionpolicies"));
    let bound = bindings.into_iter().filter_map(|binding| {
        let named = policies.iter().find(|policy| binding["spec"]["policyName"] == *meta(policy, "name"))?;
        Some(InForce { policy: named.clone(), binding })
    });
    bound.collect()
}

impl InForce {
    /// Whether the policy is for a request.
    fn is_for(&self, request: &Request<'_>, shown: &Value) -> Result<bool, ApiError> {
        let (constraints, resources) =
            (&self.policy["spec"]["matchConstraints"], &self.binding["spec"]["matchResources"]);
        Ok(takes(request, constraints, shown, false)? && takes(request, resources, shown, true)?)
    }

    /// Whether a request goes on when the policy cannot be judged.
    fn is_dispensable(&self) -> bool {
        self.policy["spec"]["failurePolicy"] == "Ignore"
    }

    /// The objects that the policy is to be judged with, each by itself; nothing, for a policy without parameters.
    fn parameters(&self, request: &Request<'_>) -> Result<Vec<Value>, String> {
        let kind = &self.policy["spec"]["paramKind"];
        if kind.is_null() {
            return Ok(vec![Value::Null]);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let server = request.call.server;
        let served = server.registry().of_kind(&text(&kind["apiVersion"]), &text(&kind["kind"]));
        let served = served.ok_or("failed to find resource referenced by paramKind")?;
        let reference = &self.binding["spec"]["paramRef"];
        let own = Some(text(&reference["namespace"])).filter(|namespace| !namespace.is_empty());
        let namespace = own.or_else(|| Some(request.namespace.clone())).filter(|_| served.resource.namespaced);
        let found: Vec<Value> = if let Some(name) = reference["name"].as_str() {
            let entry = server.store().get(&served.key(namespace.as_deref(), name));
            entry.and_then(|entry| of_entry(&served.resource, &entry).ok()).into_iter().collect()
        } else {
            let selector = Labels::from_object(&reference["selector"])?;
            let entries = server.store().list(&served.prefix(namespace.as_deref()));
            let all = entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok());
            all.filter(|object| selector.matches(&object["metadata"]["labels"])).collect()
        };
        match reference["parameterNotFoundAction"].as_str() {
            Some("Allow") => Ok(found),
            _ if found.is_empty() => {
                Err("no params found for policy binding with `Deny` parameterNotFoundAction".into())
            }
            _ => Ok(found),
        }
    }

    /// What the policy's match conditions see of a request.
    fn seen(request: &Request<'_>, shown: &Value, parameter: &Value) -> Variables {
        let (_, review) = request.review(&request.call.served.resource, shown);
        let mut variables = conditions::variables(&review["request"]);
        variables.json("params", parameter);
        variables.json("namespaceObject", &namespace(request));
        variables.map("variables", []);
        variables
    }

    /// Whether the policy's match conditions hold.
    fn is_wanted(&self, seen: &Variables, budget: &mut Budget) -> Result<bool, String> {
        conditions::all_hold(&self.policy["spec"]["matchConditions"], seen, budget)
    }

    /// What the other expressions see: the policy's own variables, too.
    fn with_variables(&self, mut seen: Variables, budget: &mut Budget) -> Variables {
        let mut known: Vec<(String, Outcome)> = Vec::new();
        for variable in self.policy["spec"]["variables"].as_array().into_iter().flatten() {
            // One that fails is an error for those who use it.
            if let Ok(outcome) = evaluate(&variable["expression"], &seen, budget) {
                known.push((variable["name"].as_str().unwrap_or_default().to_owned(), outcome));
                seen.map("variables", known.iter().map(|(name, outcome)| (name.as_str(), outcome)));
            }
        }
        seen
    }
}

fn evaluate(expression: &Value, variables: &Variables, budget: &mut Budget) -> Result<Outcome, String> {
    let parsed = Expression::parse(expression.as_str().unwrap_or_default())?;
    parsed.evaluate(variables, budget).map_err(|error| error.to_string())
}

/// Whether a request is among those that are meant. Without rules a policy means none, and a binding all of the policy's.
fn takes(request: &Request<'_>, means: &Value, shown: &Value, without_rules: bool) -> Result<bool, ApiError> {
    let as_hook = |rules: &Value| {
        let mut hook = means.clone();
        if !hook.is_object() {
            hook = json!({});
        }
        hook["rules"] = rules.clone();
        Webhook(hook)
    };
    let listed = |field: &str| means[field].as_array().is_some_and(|rules| !rules.is_empty());
    let named = |rules: &Value| {
        let fitting = rules.as_array().into_iter().flatten().filter(|rule| {
            let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
            names.is_none_or(|names| names.iter().any(|name| *name == *request.name))
        });
        Value::Array(fitting.cloned().collect())
    };
    let hook = as_hook(&named(&means["resourceRules"]));
    if listed("excludeResourceRules")
        && rules::resource(request, &as_hook(&named(&means["excludeResourceRules"]))).is_some()
    {
        return Ok(false);
    }
    let ruled = if listed("resourceRules") { rules::resource(request, &hook).is_some() } else { without_rules };
    Ok(ruled && rules::selects(request, &hook, shown)?)
}

fn namespace(request: &Request<'_>) -> Value {
    let server = request.call.server;
    let found = server.registry().find("", "v1", "namespaces").and_then(|served| {
        let entry = server.store().get(&served.key(None, &request.namespace))?;
        of_entry(&served.resource, &entry).ok()
    });
    found.unwrap_or_default()
}

//! ValidatingAdmissionPolicies: rules in CEL that bindings put into force.
//!
//! Not done: `authorizer`, audit annotations, and parameters of a kind that is not served.

use c5c3_schema::{Budget, Expression, Outcome, Variables};
use http::StatusCode;
use serde_json::{Value, json};

use super::review::Request;
use super::{Webhook, conditions, rules};
use crate::object::{meta, of_entry};
use crate::selector::Labels;
use crate::status::ApiError;

/// What the expressions of one policy may cost for one request.
const BUDGET: u64 = 10_000_000;

/// A policy that is in force, as one of its bindings has it.
struct InForce<'p> {
    policy: &'p Value,
    binding: &'p Value,
}

/// Refuses what a policy refuses, and warns of what one warns of.
pub(super) fn admit(request: &Request<'_>, object: &Value) -> Result<(), ApiError> {
    let stored = |plural: &str| {
        let served = request.call.server.registry().find("admissionregistration.k8s.io", "v1", plural);
        let entries = served.map(|served| (request.call.server.store().list(&served.prefix(None)), served));
        entries.map_or_else(Vec::new, |(entries, served)| {
            entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect::<Vec<Value>>()
        })
    };
    let bindings = stored("validatingadmissionpolicybindings");
    if bindings.is_empty() {
        return Ok(());
    }
    let policies = stored("validatingadmissionpolicies");
    let shown = request.shown(object);
    for binding in &bindings {
        let named = policies.iter().find(|policy| binding["spec"]["policyName"] == *meta(policy, "name"));
        if let Some(policy) = named {
            InForce { policy, binding }.admit(request, &shown)?;
        }
    }
    Ok(())
}

impl InForce<'_> {
    fn admit(&self, request: &Request<'_>, shown: &Value) -> Result<(), ApiError> {
        let (constraints, resources) =
            (&self.policy["spec"]["matchConstraints"], &self.binding["spec"]["matchResources"]);
        if !takes(request, constraints, shown, false)? || !takes(request, resources, shown, true)? {
            return Ok(());
        }
        let (_, review) = request.review(&request.call.served.resource, shown);
        let parameters = match self.parameters(request) {
            Ok(parameters) => parameters,
            Err(why) => return self.fail(request, &why, ""),
        };
        for parameter in parameters {
            self.judge(request, &review["request"], &parameter)?;
        }
        Ok(())
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

    fn judge(&self, request: &Request<'_>, told: &Value, parameter: &Value) -> Result<(), ApiError> {
        let spec = &self.policy["spec"];
        let mut budget = Budget::new(BUDGET);
        let mut variables = conditions::variables(told);
        variables.json("params", parameter);
        variables.json("namespaceObject", &namespace(request));
        variables.map("variables", []);
        match conditions::all_hold(&spec["matchConditions"], &variables, &mut budget) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => return self.fail(request, &why, ""),
        }
        let mut known: Vec<(String, Outcome)> = Vec::new();
        for variable in spec["variables"].as_array().into_iter().flatten() {
            // One that fails is an error for those who use it.
            if let Ok(outcome) = evaluate(&variable["expression"], &variables, &mut budget) {
                known.push((variable["name"].as_str().unwrap_or_default().to_owned(), outcome));
                variables.map("variables", known.iter().map(|(name, outcome)| (name.as_str(), outcome)));
            }
        }
        for validation in spec["validations"].as_array().into_iter().flatten() {
            let reason = validation["reason"].as_str().unwrap_or_default();
            match evaluate(&validation["expression"], &variables, &mut budget).map(|outcome| outcome.as_bool()) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => {
                    self.deny(request, &message(validation, &variables, &mut budget), reason)?;
                }
                Ok(None) => self.fail(request, "it is neither true nor false", reason)?,
                Err(why) => {
                    let expression = validation["expression"].as_str().unwrap_or_default();
                    self.fail(request, &format!("expression '{expression}' resulted in error: {why}"), reason)?;
                }
            }
        }
        Ok(())
    }

    /// What is to become of a policy that cannot be judged.
    fn fail(&self, request: &Request<'_>, why: &str, reason: &str) -> Result<(), ApiError> {
        if self.policy["spec"]["failurePolicy"] == "Ignore" { Ok(()) } else { self.deny(request, why, reason) }
    }

    /// Does what the binding says is to be done with what the policy refuses.
    fn deny(&self, request: &Request<'_>, why: &str, reason: &str) -> Result<(), ApiError> {
        let actions = self.binding["spec"]["validationActions"].as_array().cloned().unwrap_or_default();
        let (policy, binding) = (meta(self.policy, "name"), meta(self.binding, "name"));
        if actions.contains(&json!("Warn")) {
            let text =
                format!("Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {why}");
            request.call.warnings.add(&text);
        }
        if !actions.contains(&json!("Deny")) {
            return Ok(());
        }
        let message = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}");
        let mut error = ApiError::forbidden_object(&request.call.served.resource, &request.name, &message);
        let (code, reason) = match reason {
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        (error.code, error.reason) = (code, reason.into());
        error.details["causes"] = json!([{"message": message}]);
        Err(error)
    }
}

fn evaluate(expression: &Value, variables: &Variables, budget: &mut Budget) -> Result<Outcome, String> {
    let parsed = Expression::parse(expression.as_str().unwrap_or_default())?;
    parsed.evaluate(variables, budget).map_err(|error| error.to_string())
}

fn message(validation: &Value, variables: &Variables, budget: &mut Budget) -> String {
    let evaluated =
        validation.get("messageExpression").and_then(|expression| evaluate(expression, variables, budget).ok());
    let evaluated = evaluated.and_then(|outcome| outcome.as_str().map(|text| text.trim().to_owned()));
    let usable = evaluated.filter(|text| !text.is_empty() && !text.contains('\n'));
    let written =
        || validation["message"].as_str().map(str::trim).filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    let expression = validation["expression"].as_str().unwrap_or_default().trim();
    usable.or_else(written).unwrap_or_else(|| format!("failed expression: {expression}"))
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

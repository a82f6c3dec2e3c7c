//! MutatingAdmissionPolicies: what they make of an object that is about to be written.

use std::collections::BTreeSet;

use c5c3_fields::Shape;
use c5c3_schema::{Budget, Expression, Variables};
use http::StatusCode;
use serde_json::{Value, json};

use super::{BUDGET, InForce, in_force};
use crate::admission::review::Request;
use crate::object::meta;
use crate::status::{ApiError, Reason};
use crate::verbs;

/// The policies that are in force.
pub(in crate::admission) fn mutating(request: &Request<'_>) -> Vec<InForce> {
    in_force(request, "mutating")
}

/// What the policies make of an object, one after the other.
pub(in crate::admission) fn change(
    request: &Request<'_>,
    policies: &[InForce],
    mut object: Value,
) -> Result<Value, ApiError> {
    if !object.is_object() {
        return Ok(object);
    }
    let (mut asked, mut again) = (Vec::new(), BTreeSet::new());
    for (index, policy) in policies.iter().enumerate() {
        let new = policy.changed(request, &object)?;
        if new != object {
            again.extend(asked.iter().copied());
            object = new;
        }
        if policy.policy["spec"]["reinvocationPolicy"] == "IfNeeded" {
            asked.push(index);
        }
    }
    // One more round, for those who saw an object that others changed after them.
    again.into_iter().try_fold(object, |object, index| policies[index].changed(request, &object))
}

impl InForce {
    fn changed(&self, request: &Request<'_>, object: &Value) -> Result<Value, ApiError> {
        let shown = request.shown(object);
        if !self.is_for(request, &shown)? {
            return Ok(object.clone());
        }
        let changed = self.parameters(request).and_then(|parameters| {
            parameters.iter().try_fold(shown.clone(), |shown, parameter| self.mutated(request, shown, parameter))
        });
        match changed {
            Ok(changed) if changed == shown => Ok(object.clone()),
            Ok(changed) => verbs::mutated(request.call, object, request.old, changed),
            Err(_) if self.is_dispensable() => Ok(object.clone()),
            Err(why) => Err(self.failure(request, &why)),
        }
    }

    /// What the mutations make of what is shown of an object, each of what those before it made.
    fn mutated(&self, request: &Request<'_>, mut shown: Value, parameter: &Value) -> Result<Value, String> {
        let mut budget = Budget::new(BUDGET);
        if !self.is_wanted(&Self::seen(request, &shown, parameter), &mut budget)? {
            return Ok(shown);
        }
        for mutation in self.policy["spec"]["mutations"].as_array().into_iter().flatten() {
            let variables = self.with_variables(Self::seen(request, &shown, parameter), &mut budget);
            shown = mutate(request, mutation, &shown, &variables, &mut budget)?;
        }
        Ok(shown)
    }

    fn failure(&self, request: &Request<'_>, why: &str) -> ApiError {
        let (policy, binding) = (meta(&self.policy, "name"), meta(&self.binding, "name"));
        let message = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
        let mut error = ApiError::forbidden_object(&request.call.served.resource, &request.name, &message);
        (error.code, error.reason) = (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid);
        error.details["causes"] = json!([{"message": message}]);
        error
    }
}

/// What one mutation makes of what is shown of an object.
fn mutate(
    request: &Request<'_>,
    mutation: &Value,
    shown: &Value,
    variables: &Variables,
    budget: &mut Budget,
) -> Result<Value, String> {
    let made = |part: &str, budget: &mut Budget| {
        let expression = Expression::parse_mutation(mutation[part]["expression"].as_str().unwrap_or_default())?;
        let outcome = expression.evaluate(variables, budget).map_err(|error| error.to_string())?;
        outcome.to_json().ok_or_else(|| "what the expression makes has no form in JSON".to_owned())
    };
    if mutation["patchType"] == "JSONPatch" {
        let patch = made("jsonPatch", budget)?;
        return c5c3_fields::json_patch(shown, &patch).map_err(|error| error.to_string());
    }
    let configuration = made("applyConfiguration", budget)?;
    if !configuration.is_object() {
        return Err("the expression does not make an object".to_owned());
    }
    let deduced = Shape::deduced();
    let shape = if request.call.is_about_own_kind() { request.call.served.shape() } else { &deduced };
    let mut merged = shown.clone();
    c5c3_fields::merge(shape, &mut merged, &configuration);
    Ok(merged)
}

//! ValidatingAdmissionPolicies: what they refuse, and what they warn of.

use c5c3_schema::{Budget, Variables};
use http::StatusCode;
use serde_json::{Value, json};

use super::{BUDGET, InForce, evaluate, in_force};
use crate::admission::review::Request;
use crate::object::meta;
use crate::status::{ApiError, Reason};

/// Refuses what a policy refuses, and warns of what one warns of.
pub(in crate::admission) fn admit(request: &Request<'_>, object: &Value) -> Result<(), ApiError> {
    let policies = in_force(request, "validating");
    if policies.is_empty() {
        return Ok(());
    }
    let shown = request.shown(object);
    policies.iter().try_for_each(|policy| policy.admit(request, &shown))
}

impl InForce {
    fn admit(&self, request: &Request<'_>, shown: &Value) -> Result<(), ApiError> {
        if !self.is_for(request, shown)? {
            return Ok(());
        }
        match self.parameters(request) {
            Ok(parameters) => parameters.iter().try_for_each(|parameter| self.judge(request, shown, parameter)),
            Err(why) => self.fail(request, &why, ""),
        }
    }

    fn judge(&self, request: &Request<'_>, shown: &Value, parameter: &Value) -> Result<(), ApiError> {
        let mut budget = Budget::new(BUDGET);
        let seen = Self::seen(request, shown, parameter);
        match self.is_wanted(&seen, &mut budget) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => return self.fail(request, &why, ""),
        }
        let variables = self.with_variables(seen, &mut budget);
        for validation in self.policy["spec"]["validations"].as_array().into_iter().flatten() {
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
        if self.is_dispensable() { Ok(()) } else { self.deny(request, why, reason) }
    }

    /// Does what the binding says is to be done with what the policy refuses.
    fn deny(&self, request: &Request<'_>, why: &str, reason: &str) -> Result<(), ApiError> {
        let actions = self.binding["spec"]["validationActions"].as_array().cloned().unwrap_or_default();
        let (policy, binding) = (meta(&self.policy, "name"), meta(&self.binding, "name"));
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
            "Unauthorized" => (StatusCode::UNAUTHORIZED, Reason::Unauthorized),
            "Forbidden" => (StatusCode::FORBIDDEN, Reason::Forbidden),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid),
        };
        (error.code, error.reason) = (code, reason);
        error.details["causes"] = json!([{"message": message}]);
        Err(error)
    }
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

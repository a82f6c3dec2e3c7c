//! What the API refuses: an answer that is about one child and stays the same until a user corrects the cause. It is a wait of
//! that child's step, so that others go on; what merely fails (a conflict, a server that is down) is an error, and tried again.

use crate::error::Error;
use crate::object::{Ref, said};
use crate::wait::Wait;

impl Error {
    /// The wait for a user to correct what the API refuses of a child; the error itself if it is not a refusal.
    pub(crate) fn refused(self) -> Result<Wait, Self> {
        let (object, source, verb, reason) = match &self {
            Self::ApplyFailed { object, source } => (object, source, "applied", "ApplyRefused"),
            Self::ReadFailed { object, source } => (object, source, "read", "ReadRefused"),
            Self::DeleteFailed { object, source } => (object, source, "deleted", "DeleteRefused"),
            _ => return Err(self),
        };
        let Some(remedy) = remedy(object, source) else { return Err(self) };
        let wait = Wait::on(object).condition(format!("can be {verb}"));
        Ok(wait.now(format!("cannot be {verb}: {}", said(source))).look_at(remedy).failed(reason))
    }
}

/// What a user has to do about a refusal; none if the answer is not a refusal.
fn remedy(object: &Ref, error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    // A webhook that does not answer is told as an internal error.
    if status.message.contains("webhook") && !status.message.contains("denied the request") {
        return Some("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations".into());
    }
    let namespace = object.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    match status.code {
        403 if status.message.contains("quota") => Some(format!("kubectl describe resourcequotas{namespace}")),
        403 if status.message.contains(" cannot ") => Some("apply the operator's RBAC again: c5c3 manifests".into()),
        403 => Some("find the admission policy that forbids it, and change it or add an exception".into()),
        400 | 413 | 422 => Some("correct what the message names, on the object or where it comes from".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::Status;

    use super::*;

    fn reason(code: u16, message: &str) -> Option<(String, String)> {
        let source = kube::Error::Api(Box::new(Status::failure(message, "x").with_code(code)));
        let object = Box::new(Ref::namespaced::<Secret>("orchard", "key"));
        let wait = Error::ApplyFailed { object, source: Box::new(source) }.refused().ok()?;
        Some((wait.reason(), wait.look_at.unwrap_or_default()))
    }

    #[test]
    fn a_refusal_is_told_from_a_failure_and_says_what_to_do() {
        let quota = reason(403, "secrets \"key\" is forbidden: exceeded quota: small").unwrap();
        assert_eq!(quota, ("ApplyRefused".into(), "kubectl describe resourcequotas -n orchard".into()));
        let right = reason(403, "user \"press\" cannot patch resource \"secrets\"").unwrap();
        assert!(right.1.contains("c5c3 manifests"), "{right:?}");
        let denied = reason(422, "admission webhook \"gate\" denied the request: spec.size: must not shrink").unwrap();
        assert!(denied.1.starts_with("correct what the message names"), "{denied:?}");
        assert!(reason(500, "failed calling webhook \"gate\": connection refused").unwrap().1.contains("webhook"));
        assert!(reason(422, "spec.size: must not shrink").is_some());
        for code in [401, 404, 409, 429, 500, 503] {
            assert_eq!(reason(code, "not now"), None, "{code}");
        }
    }
}

//! What may be written and deleted now, beside what the policy lets users do.

use c5c3_auth::rbac;
use serde_json::{Value, json};

use crate::access::refused;
use crate::call::Call;
use crate::object::{Head, meta};
use crate::server::Server;
use crate::status::ApiError;

impl Server {
    /// Refuses what may not be created now.
    pub(crate) fn may_be_created(&self, call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
        self.may_be_granted(call, None, object)?;
        self.kind_may_grow(call)?;
        let Some(namespace) = call.namespace() else { return Ok(()) };
        let registry = self.registry();
        let Some(namespaces) = registry.find("", "v1", "namespaces") else { return Ok(()) };
        let entry = self
            .store()
            .get(&namespaces.key(None, namespace))
            .ok_or_else(|| ApiError::not_found(&namespaces.resource, namespace))?;
        if Head::read(&entry.value)?.is_going() {
            let name = meta(object, "name");
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut error = ApiError::forbidden_object(&call.served.resource, name, &why);
            error.details["causes"] = json!([{"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
            return Err(error);
        }
        Ok(())
    }

    /// Refuses new objects of a kind whose definition is going.
    fn kind_may_grow(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let Some(custom) = call.served.resource.custom() else { return Ok(()) };
        let Some(definitions) = self.registry().find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return Ok(());
        };
        let entry = self.store().get(&definitions.key(None, &custom.definition));
        match entry.map(|entry| Head::read(&entry.value)).transpose()? {
            Some(definition) if !definition.is_going() => Ok(()),
            _ => Err(ApiError::not_allowed()),
        }
    }

    /// Refuses a change that may not be made.
    pub(crate) fn may_be_changed(&self, call: &Call<'_>, old: &Value, new: &Value) -> Result<(), ApiError> {
        self.may_be_granted(call, Some(old), new)
    }

    /// Refuses to delete what no cluster can be without.
    pub(crate) fn may_be_deleted(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
        let resource = &call.served.resource;
        let name = meta(object, "name");
        let kept = resource.group.is_empty()
            && resource.kind == "Namespace"
            && matches!(name, "default" | "kube-system" | "kube-public");
        if kept { Err(ApiError::forbidden_object(resource, name, "this namespace may not be deleted")) } else { Ok(()) }
    }

    /// No one grants what they do not have.
    fn may_be_granted(&self, call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        if call.served.resource.group != "rbac.authorization.k8s.io" {
            return Ok(());
        }
        let granted = self.with_policy(|policy| {
            if call.served.resource.kind.ends_with("Binding") {
                rbac::check_binding(policy, &call.user, old, new)
            } else {
                rbac::check_role(policy, &call.user, old, new)
            }
        });
        granted.map_err(|refusal| refused(&refusal))
    }
}

//! Which application credential a service runs with: what a rotation waits for before it revokes the one before.

use c5c3_api::blocks::ServiceIdentity;
use c5c3_api::openstack::ServiceObject;

use crate::service::Service;
use crate::service_plan::{ServicePlan, is_complete};

impl<S: Service> ServicePlan<'_, S> {
    /// The credential that all pods run with, and whether one of them got a token with it. While pods are replaced it is the
    /// one of before.
    pub(crate) fn identity(&self) -> Option<ServiceIdentity> {
        let before = || self.parts.object.status().and_then(|status| status.identity.clone());
        let Some(resolved) = self.known() else { return before() };
        let access = resolved.backing.identity.as_ref()?;
        if !self.parts.rolled_out(self.inputs, &self.files(resolved).name()) {
            return before();
        }
        let job = self.auth()?.children.into_iter().find(|child| child.resource.kind == "Job")?;
        let verified = is_complete(self.inputs, &job);
        Some(ServiceIdentity { credential_id: access.credential_id().to_owned(), verified })
    }
}

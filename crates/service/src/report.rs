//! What a service alone knows, such as the room on its backends: a program of its own (`report.py`), which API pods run when they
//! are asked for it.

use c5c3_kit::probe::Answer;
use serde_json::{Value, json};

use crate::component::Component;
use crate::service::Service;
use crate::service_plan::{Resolved, ServicePlan};

impl<S: Service> ServicePlan<'_, S> {
    /// What the service's own report needs to know: its credential, and where the application listens within the pod.
    pub(crate) fn report_settings(component: &Component, resolved: &Resolved) -> Option<Value> {
        let (wsgi, access) = (component.wsgi().filter(|_| S::REPORT.is_some())?, resolved.backing.identity.as_ref()?);
        let url = format!("http://127.0.0.1:{}{}", wsgi.own_port(), S::VERSION);
        Some(json!({"auth": access.settings(), "url": url}))
    }

    /// What the service's own report says; none while it has not been asked for, and what is wrong if there is none.
    pub fn report(&self) -> Option<&Answer> {
        self.inputs.answer(&self.parts.report_probe()?)
    }
}

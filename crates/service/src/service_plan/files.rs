//! The files of a service's configuration, which its pods mount as one Secret.

use c5c3_kit::config::ConfigFiles;
use serde_json::Value;

use super::{Resolved, ServicePlan};
use crate::component::{API, Component};
use crate::parts::Parts;
use crate::service::Service;
use crate::{health, policy, rbd};

impl<S: Service> ServicePlan<'_, S> {
    /// All files of the service.
    pub fn files(&self, resolved: &Resolved) -> ConfigFiles {
        let Parts { instance, object, description, .. } = self.parts;
        let mut files = ConfigFiles::new(&instance.namespace, instance.named("config"));
        match S::SECOND_CONF {
            None => files = files.file(S::CONF, resolved.conf.render()),
            Some((name, is_in_it)) => {
                let (second, main) = resolved.conf.partition(is_in_it);
                files = files.file(S::CONF, main.render()).file(name, second.render());
            }
        }
        for (name, content) in S::files(object, &resolved.backing) {
            files = files.file(name, content);
        }
        for (name, content) in S::named_files(object, &resolved.backing) {
            files = files.file(name, content);
        }
        let applications = description.components.iter().filter_map(Component::wsgi);
        for (name, content) in applications.flat_map(crate::wsgi::Wsgi::files) {
            files = files.file(name, content);
        }
        files = files.file("health.py", include_str!("../health.py").into());
        let pools: Vec<Value> = resolved.backing.pools.iter().map(|pool| pool.settings(S::FOLDER)).collect();
        for component in &description.components {
            let checks = resolved.backing.checks(component);
            // The others of a service with several applications answer neither for pools nor with a report.
            let is_api = component.name == API || component.wsgi().is_none();
            let report = Self::report_settings(component, resolved).filter(|_| is_api);
            let settings = health::content(&checks, component.wsgi(), if is_api { &pools } else { &[] }, report);
            files = files.file(health::settings(component.health()), settings);
        }
        for (name, content) in resolved.backing.pools.iter().flat_map(|pool| pool.files(S::FOLDER)) {
            files = files.file(name, content);
        }
        if let Some(program) = S::REPORT {
            files = files.file("report.py", program.into());
        }
        if !pools.is_empty() {
            files = files.file("pools.py", rbd::ASK.into());
        }
        if !resolved.backing.rules.is_empty() {
            files = files.file("policy.yaml", policy::render(&resolved.backing.rules).into());
        }
        files
    }
}

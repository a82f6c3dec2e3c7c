//! What Keystone's bootstrap makes and objects refer to, with the credential of K-ORC.

use std::collections::BTreeSet;

use c5c3_api::c5c3::{BootstrapResource, ControlPlane};
use c5c3_api::orc::{Domain, Project, Role};
use c5c3_kit::{Child, Inputs, Step};
use serde_json::json;

use super::super::cloud::Cloud;
use super::super::part::Part;
use super::object::{As, detached, import, slug};
use super::{access, unready, users};

/// The roles that Keystone's bootstrap makes.
const ROLES: &[&str] = &["admin", "service", "member", "reader"];

/// The project that service users work in. Bootstrap need not have made it.
const SERVICE_PROJECT: &str = "service";

/// The object of the default domain, if it is imported.
pub(super) fn domain(cloud: &Cloud) -> Option<&'static str> {
    is_asked(cloud, BootstrapResource::Domains).then_some("default-domain")
}

/// The object of a project.
pub(super) fn project(name: &str) -> String {
    format!("{}-project", slug(name))
}

/// The object of a role.
pub(super) fn role(name: &str) -> String {
    format!("{}-role", slug(name))
}

fn is_asked(cloud: &Cloud, resource: BootstrapResource) -> bool {
    let asked = cloud.spec.korc.as_ref().map(|korc| korc.bootstrap_resources.as_slice()).unwrap_or_default();
    asked.is_empty() || asked.contains(&resource)
}

fn children(cloud: &Cloud) -> Vec<Child> {
    let accounts = users::accounts(cloud);
    let within = |mut fields: serde_json::Value| {
        if let Some(domain) = domain(cloud) {
            fields["domainRef"] = domain.into();
        }
        fields
    };
    let default = domain(cloud).map(|name| import::<Domain>(cloud, name, &json!({"name": "Default"})));
    let admin = is_asked(cloud, BootstrapResource::Projects).then_some("admin");
    let others = accounts.iter().map(|account| account.project.as_str()).filter(|name| *name != SERVICE_PROJECT);
    let projects: BTreeSet<&str> = admin.into_iter().chain(others).collect();
    let projects =
        projects.into_iter().map(|name| import::<Project>(cloud, &project(name), &within(json!({ "name": name }))));
    let description = "Users of the services of this cloud";
    let service = within(json!({"name": SERVICE_PROJECT, "description": description}));
    let service = detached::<Project>(cloud, As::Korc, &project(SERVICE_PROJECT), &service);
    let own = accounts.iter().flat_map(|account| account.roles.iter().chain(&account.credential_roles));
    let roles: BTreeSet<&str> = ROLES.iter().copied().chain(own.map(String::as_str)).collect();
    let roles = roles.into_iter().map(|name| import::<Role>(cloud, &role(name), &json!({ "name": name })));
    default.into_iter().chain(projects).chain([service]).chain(roles).collect()
}

pub(crate) fn step(_: &'static Part, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let step = match access::secrets(cloud, inputs) {
        Ok(secrets) => step.children(secrets),
        Err(wait) => step.wait(wait),
    };
    step.children(children(cloud)).done("domain, projects and roles are imported")
}

/// What is not there yet.
pub(crate) fn missing(_: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    if inputs.own::<Role>().next().is_none() {
        return Some("does not exist yet".into());
    }
    unready::<Domain>(inputs, cloud)
        .or_else(|| unready::<Project>(inputs, cloud))
        .or_else(|| unready::<Role>(inputs, cloud))
}

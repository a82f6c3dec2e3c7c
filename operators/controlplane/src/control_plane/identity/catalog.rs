//! The service catalog: a Service and two Endpoints for each service, and the region, which K-ORC's Endpoint has no field for.
//! The rows of Keystone itself are made by its bootstrap.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::orc::{Endpoint, Service};
use c5c3_kit::{Call, Child, Inputs, Ref, Step};
use c5c3_openstack::Access;
use c5c3_service::instance;
use kube::api::DynamicObject;
use serde_json::json;

use super::super::cloud::Cloud;
use super::super::part::Part;
use super::super::parts::{CINDER, GLANCE, NEUTRON, NOVA, PLACEMENT};
use super::super::services;
use super::keystone::{Answer, Keystone, Question, SetRegion};
use super::object::{As, managed};
use super::{access, unready};

/// What the catalog says of a service.
pub(crate) struct Entry {
    /// The service.
    pub(crate) part: &'static Part,
    /// What clients look for.
    service_type: &'static str,
    /// The port of its API.
    port: u16,
    /// What comes after the port.
    path: &'static str,
    description: &'static str,
}

pub(crate) static ENTRIES: &[Entry] = &[
    Entry { part: &GLANCE, service_type: "image", port: 9292, path: "", description: "Images" },
    Entry { part: &PLACEMENT, service_type: "placement", port: 8778, path: "", description: "Resource inventory" },
    Entry { part: &NOVA, service_type: "compute", port: 8774, path: "/v2.1", description: "Compute" },
    Entry { part: &NEUTRON, service_type: "network", port: 9696, path: "", description: "Networking" },
    Entry { part: &CINDER, service_type: "block-storage", port: 8776, path: "/v3", description: "Block storage" },
];

impl Entry {
    /// Where the API answers: for clients outside, and within the cluster.
    fn urls(&self, cloud: &Cloud) -> [(&'static str, String); 2] {
        let spec = services::object(self.part, cloud);
        let scheme = if spec["tls"]["enabled"] == true { "https" } else { "http" };
        let internal = format!("{scheme}://{}:{}", instance::host(self.part.name, &cloud.namespace), self.port);
        let routed = spec["gateway"]["hostname"].as_str();
        let routed =
            routed.map(|host| format!("https://{host}{}", spec["gateway"]["path"].as_str().unwrap_or_default()));
        let public = spec["publicEndpoint"].as_str().map(ToOwned::to_owned).or(routed);
        let public = public.unwrap_or_else(|| internal.clone());
        [("public", self.versioned(&public)), ("internal", self.versioned(&internal))]
    }

    fn versioned(&self, url: &str) -> String {
        let url = url.trim_end_matches('/');
        if url.ends_with(self.path) { url.to_owned() } else { format!("{url}{}", self.path) }
    }

    fn children(&self, cloud: &Cloud) -> Vec<Child> {
        let name = self.part.name;
        let service = format!("{name}-service");
        let fields = json!({"name": name, "type": self.service_type, "description": self.description});
        let mut children = vec![managed::<Service>(cloud, As::Korc, &service, &fields)];
        for (interface, url) in self.urls(cloud) {
            let fields = json!({"serviceRef": service, "interface": interface, "url": url});
            children.push(managed::<Endpoint>(cloud, As::Korc, &format!("{name}-{interface}"), &fields));
        }
        children
    }
}

fn entries(cloud: &Cloud) -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| cloud.has(entry.part))
}

pub(super) fn questions(inputs: &Inputs<ControlPlane>, access: &Access) -> Option<Question> {
    let is_known = inputs.own::<Endpoint>().any(|endpoint| endpoint.data["status"]["id"].is_string());
    is_known.then(|| Question::Endpoints(access.clone()))
}

/// The first object that is left of a service's entry, in the order in which they go.
pub(super) fn remaining(service: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Ref> {
    let name = service.name;
    let endpoints = ["public", "internal"].map(|interface| format!("{name}-{interface}"));
    let endpoint = endpoints.into_iter().find(|name| inputs.own_named::<Endpoint>(name).is_some());
    if let Some(endpoint) = endpoint {
        return Some(Ref::namespaced::<Endpoint>(&cloud.namespace, endpoint));
    }
    let service = format!("{name}-service");
    inputs.own_named::<Service>(&service).map(|_| Ref::namespaced::<Service>(&cloud.namespace, service))
}

/// The calls that put endpoints into the region: new ones, and those that were moved.
fn moves(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Call> {
    let Ok(access) = access::access(cloud, inputs) else { return Vec::new() };
    let Ok(Answer::Endpoints(live)) = inputs.answered::<Keystone>(&Question::Endpoints(access.clone())) else {
        return Vec::new();
    };
    let region = cloud.region().to_string();
    let call = |object: &DynamicObject| {
        let id = object.data["status"]["id"].as_str()?;
        let found = live.iter().find(|endpoint| endpoint.id == id)?;
        let is = found.region_id.as_deref();
        let why = match is {
            Some(is) if is == region => return None,
            Some(is) => format!("region_id is {is} and should be {region}"),
            None => format!("it has no region, and clients look for it in {region}"),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        let (access, id, region) = (access.clone(), id.to_owned(), region.clone());
        Some(Call::to::<Keystone>(SetRegion { access, id, name, region }, why))
    };
    inputs.own::<Endpoint>().filter_map(call).collect()
}

pub(crate) fn step(_: &'static Part, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let step = step.children(entries(cloud).flat_map(|entry| entry.children(cloud)));
    moves(cloud, inputs).into_iter().fold(step, Step::call).done("every service is in the catalog")
}

/// What is not there yet.
pub(crate) fn missing(_: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    let there = inputs.own::<Endpoint>().count();
    if there < entries(cloud).count() * 2 {
        return Some("does not exist yet".into());
    }
    unready::<Service>(inputs, cloud).or_else(|| unready::<Endpoint>(inputs, cloud))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_in_a_url_once() {
        let nova = ENTRIES.iter().find(|entry| entry.part.name == "nova").unwrap();
        assert_eq!(nova.versioned("https://nova.example.net"), "https://nova.example.net/v2.1");
        assert_eq!(nova.versioned("https://nova.example.net/v2.1/"), "https://nova.example.net/v2.1");
    }

    #[test]
    fn an_entry_is_there_for_every_part_with_a_credential() {
        let named = ENTRIES.iter().map(|entry| format!("credentials-{}", entry.part.name));
        for name in named {
            assert!(super::super::super::PARTS.iter().any(|part| part.name == name), "{name}");
        }
    }
}

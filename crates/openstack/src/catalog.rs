//! The service catalog of a token: which services there are, and where.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cloud::{Cloud, Interface};

/// The services that Keystone returns with a token.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Catalog {
    services: Vec<Service>,
}

#[derive(Clone, Debug, Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Deserialize)]
struct Endpoint {
    /// Text, because a catalog of another OpenStack may contain interfaces that are not ours.
    interface: String,
    region: Option<String>,
    url: String,
}

impl Endpoint {
    fn region(&self) -> &str {
        self.region.as_deref().unwrap_or("none")
    }
}

impl Catalog {
    /// The URL of a service for a cloud's region and interface, without a slash at its end. The error says what the
    /// catalog has instead.
    pub fn url(&self, service: &str, cloud: &Cloud) -> Result<String, String> {
        let all: Vec<&Endpoint> =
            self.services.iter().filter(|entry| entry.kind == service).flat_map(|entry| &entry.endpoints).collect();
        let matching: Vec<&Endpoint> = all.iter().copied().filter(|endpoint| matches(endpoint, cloud)).collect();
        let regions: BTreeSet<&str> = matching.iter().map(|endpoint| endpoint.region()).collect();
        match matching.first() {
            Some(endpoint) if regions.len() == 1 => Ok(versioned(service, endpoint.url.trim_end_matches('/'))),
            Some(_) => Err(format!(
                "the catalog has {service} endpoints in the regions {}; set region_name",
                join(regions.iter().copied())
            )),
            None => Err(self.missing(service, cloud, &all)),
        }
    }

    fn missing(&self, service: &str, cloud: &Cloud, all: &[&Endpoint]) -> String {
        if !self.services.iter().any(|entry| entry.kind == service) {
            let kinds: BTreeSet<&str> = self.services.iter().map(|service| service.kind.as_str()).collect();
            return format!("the catalog has no service of type {service}; it has {}", join(kinds.iter().copied()));
        }
        let Cloud { interface, region, .. } = cloud;
        let region = region.as_deref().map(|region| format!(" in region {region}")).unwrap_or_default();
        let has: BTreeSet<String> =
            all.iter().map(|endpoint| format!("{} in region {}", endpoint.interface, endpoint.region())).collect();
        format!(
            "the catalog has no {interface} endpoint of {service}{region}; it has {}",
            join(has.iter().map(String::as_str))
        )
    }
}

fn matches(endpoint: &Endpoint, cloud: &Cloud) -> bool {
    let wanted: Interface = cloud.interface;
    endpoint.interface == wanted.name() && cloud.region.as_ref().is_none_or(|region| endpoint.region() == region)
}

/// Keystone is often registered without a version, and all of our paths are of version 3.
pub(crate) fn versioned(service: &str, url: &str) -> String {
    if service == "identity" && !url.ends_with("/v3") { format!("{url}/v3") } else { url.into() }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        let endpoint = |interface: &str, region: &str| {
            json!({ "id": "e", "interface": interface, "region": region, "region_id": region,
                    "url": format!("http://{interface}.{region}:8774/v2.1/") })
        };
        serde_json::from_value(json!([
            { "type": "compute", "name": "nova", "endpoints": [
                endpoint("public", "south"), endpoint("internal", "south"), endpoint("internal", "north"),
            ] },
            { "type": "identity", "name": "keystone", "endpoints": [
                { "interface": "internal", "region": "south", "region_id": "south", "url": "http://keystone:5000" },
            ] },
            { "type": "image", "name": "glance", "endpoints": [] },
        ]))
        .unwrap()
    }

    fn cloud(region: Option<&str>, interface: Interface) -> Cloud {
        Cloud { region: region.map(Into::into), interface, ..Cloud::new("http://keystone:5000") }
    }

    #[test]
    fn an_endpoint_is_chosen_by_interface_and_region() {
        let url = |region, interface| catalog().url("compute", &cloud(region, interface)).unwrap();
        assert_eq!(url(Some("north"), Interface::Internal), "http://internal.north:8774/v2.1");
        assert_eq!(url(Some("south"), Interface::Public), "http://public.south:8774/v2.1");
        assert_eq!(url(None, Interface::Public), "http://public.south:8774/v2.1");
    }

    #[test]
    fn keystone_is_called_at_version_3_whatever_the_catalog_says() {
        let url = catalog().url("identity", &cloud(None, Interface::Internal)).unwrap();
        assert_eq!(url, "http://keystone:5000/v3");
    }

    #[test]
    fn an_error_says_what_the_catalog_has() {
        let error = |service, region, interface| catalog().url(service, &cloud(region, interface)).unwrap_err();
        assert_eq!(
            error("compute", Some("north"), Interface::Public),
            "the catalog has no public endpoint of compute in region north; it has internal in region north, \
             internal in region south, public in region south"
        );
        assert_eq!(
            error("volumev3", None, Interface::Internal),
            "the catalog has no service of type volumev3; it has compute, identity, image"
        );
        assert_eq!(
            error("compute", None, Interface::Internal),
            "the catalog has compute endpoints in the regions north, south; set region_name"
        );
    }
}

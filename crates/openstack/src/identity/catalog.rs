//! The services and endpoints of the catalog, as an administrator registers them.

use serde::{Deserialize, Serialize};

use super::Resource;
use crate::cloud::Interface;

/// A service of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Service {
    /// The id.
    pub id: String,
    /// The name, as in `nova`.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The type, as in `compute`.
    pub r#type: String,
    /// Whether the catalog of a token contains it.
    pub enabled: bool,
}

/// The fields of a new service.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServiceCreate {
    /// The type.
    pub r#type: String,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is enabled; it is without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

optional! {
    /// Changes to a service.
    ServiceUpdate {
        /// The type.
        r#type: String,
        /// The name.
        name: String,
        /// The description; `Some(None)` removes it.
        description: Option<String>,
        /// Whether it is enabled.
        enabled: bool,
    }
}

optional! {
    /// Which services.
    ServiceFilter {
        /// The exact name.
        name: String,
        /// The type.
        r#type: String,
    }
}

impl Resource for Service {
    const SINGULAR: &'static str = "service";
    const PLURAL: &'static str = "services";
    type Filter = ServiceFilter;
    type Create = ServiceCreate;
    type Update = ServiceUpdate;
}

/// An endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Endpoint {
    /// The id.
    pub id: String,
    /// The service.
    pub service_id: String,
    /// The interface.
    pub interface: Interface,
    /// The region.
    pub region_id: Option<String>,
    /// The URL.
    pub url: String,
    /// The description.
    pub description: Option<String>,
    /// Whether the catalog of a token contains it.
    pub enabled: bool,
}

/// The fields of a new endpoint.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EndpointCreate {
    /// The service.
    pub service_id: String,
    /// The interface.
    pub interface: Interface,
    /// The URL.
    pub url: String,
    /// The region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_id: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is enabled; it is without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

optional! {
    /// Changes to an endpoint.
    EndpointUpdate {
        /// The interface.
        interface: Interface,
        /// The URL.
        url: String,
        /// The region.
        region_id: String,
        /// Whether it is enabled.
        enabled: bool,
    }
}

optional! {
    /// Which endpoints. Keystone does not filter by URL.
    EndpointFilter {
        /// The service.
        service_id: String,
        /// The interface.
        interface: Interface,
        /// The region.
        region_id: String,
    }
}

impl Resource for Endpoint {
    const SINGULAR: &'static str = "endpoint";
    const PLURAL: &'static str = "endpoints";
    type Filter = EndpointFilter;
    type Create = EndpointCreate;
    type Update = EndpointUpdate;
}

//! The addresses of Services as objects: the range that they come from, and an IPAddress for each that is taken.
//!
//! Which address a Service gets is decided while it is written, in `services/`; what is here only shows it. Services get
//! addresses from the range of the cluster and no other, and the status of a ServiceCIDR that asks for more says so.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Change, SERVER, create, edit, set_condition};
use crate::object::{is_going, meta, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::services;
use crate::status::{ApiError, Reason};
use crate::verbs::{DeleteOptions, delete_object};

/// The range of the cluster.
const DEFAULT: &str = "kubernetes";
const GROUP: &str = "networking.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Whether a change is about the addresses of Services.
pub(super) fn concerns(change: &Change) -> bool {
    let resource = &change.served.resource;
    resource.is("", "Service") || resource.is(GROUP, "IPAddress") || resource.is(GROUP, "ServiceCIDR")
}

/// Makes the objects say what is the case.
pub(super) async fn reconcile(server: &Arc<Server>) -> Result<(), ApiError> {
    ranges(server).await?;
    let (services, addresses) = (served(server, "", "services")?, served(server, GROUP, "ipaddresses")?);
    let mut wanted: BTreeMap<String, Value> =
        all(server, &services).iter().flat_map(taken).map(|(address, by)| (address.to_string(), by)).collect();
    for address in
        all(server, &addresses).iter().filter(|address| address["metadata"]["labels"][MANAGED_BY] == ALLOCATOR)
    {
        let name = meta(address, "name");
        if wanted.get(name).is_some_and(|by| *by == address["spec"]["parentRef"]) {
            wanted.remove(name);
        } else if !is_going(address) {
            let options = DeleteOptions { uid: Some(meta(address, "uid").to_owned()), ..DeleteOptions::default() };
            match delete_object(server, &addresses, &addresses.key(None, name), &options).await {
                Err(error) if error.reason != Reason::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    for (name, by) in wanted {
        let family = if name.contains(':') { "IPv6" } else { "IPv4" };
        let labels = json!({"ipaddress.kubernetes.io/ip-family": family, MANAGED_BY: ALLOCATOR});
        let address = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name, "labels": labels},
            "spec": {"parentRef": by},
        });
        create(server, SERVER, address).await?;
    }
    Ok(())
}

/// The addresses that a Service has, each with the reference to it.
fn taken(service: &Value) -> Vec<(IpAddr, Value)> {
    let by = json!({
        "resource": "services", "namespace": meta(service, "namespace"), "name": meta(service, "name"),
    });
    services::addresses(service).into_iter().map(|address| (address, by.clone())).collect()
}

/// Writes the range of the cluster, unless it is there, and says of each range whether it is used.
async fn ranges(server: &Arc<Server>) -> Result<(), ApiError> {
    let range = server.allocations().range().to_string();
    let own = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": DEFAULT},
        "spec": {"cidrs": [range]},
    });
    create(server, SERVER, own).await?;
    let served = served(server, GROUP, "servicecidrs")?;
    for stored in all(server, &served) {
        let is_used = stored["spec"]["cidrs"] == json!([range]);
        let (status, reason, message) = if is_used {
            ("True", "", "Kubernetes Service CIDR is ready")
        } else {
            (
                "False",
                "NotUsed",
                "Services of this cluster get addresses from one range only, which is set when it starts",
            )
        };
        edit(server, SERVER, &served, &served.key(None, meta(&stored, "name")), |object| {
            let before = object.clone();
            set_condition(object, "Ready", status, reason, message);
            *object != before
        })
        .await?;
    }
    Ok(())
}

fn served(server: &Server, group: &str, plural: &str) -> Result<Arc<Served>, ApiError> {
    server.registry().find(group, "v1", plural).ok_or_else(ApiError::no_such_path)
}

fn all(server: &Server, served: &Served) -> Vec<Value> {
    let entries = server.store().list(&served.prefix(None));
    entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_takes_the_addresses_in_its_spec_and_a_headless_one_none() {
        let service = |spec: Value| json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let by = json!({"resource": "services", "namespace": "shop", "name": "web"});
        let with = service(json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}));
        assert_eq!(taken(&with), [("10.0.0.9".parse().unwrap(), by)]);
        assert_eq!(taken(&service(json!({"clusterIP": "None", "clusterIPs": ["None"]}))), []);
        assert_eq!(taken(&service(json!({"type": "ExternalName"}))), []);
    }
}

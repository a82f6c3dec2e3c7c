//! What a cluster has from the start beside what its API server makes: the names Service, and what nodes may read.

use std::fmt::Debug;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Who applies it.
const MANAGER: &str = "c5c3";

/// Where the DNS server's objects are.
const NAMESPACE: &str = "kube-system";

/// Applies all of it; what is there already stays as it is.
pub(crate) async fn furnish(client: &Client, dns: Ipv4Addr, host: Ipv4Addr) -> Result<(), kube::Error> {
    let (role, holders) = c5c3_network::access::for_nodes();
    apply(&Api::all(client.clone()), &role).await?;
    apply(&Api::all(client.clone()), &holders).await?;
    let (service, slice) = names(dns, host);
    apply(&Api::namespaced(client.clone(), NAMESPACE), &service).await?;
    apply(&Api::namespaced(client.clone(), NAMESPACE), &slice).await
}

async fn apply<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await.map(drop)
}

/// The Service of the DNS server, which is no pod, and where it is.
fn names(dns: Ipv4Addr, host: Ipv4Addr) -> (Service, EndpointSlice) {
    let of = |name: &str, labels: [(&str, &str); 2]| ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    let ports = [("dns", "UDP"), ("dns-tcp", "TCP")].map(|(name, protocol)| (name.to_owned(), protocol.to_owned()));
    let port = |(name, protocol)| ServicePort {
        name: Some(name),
        protocol: Some(protocol),
        port: 53,
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some(dns.to_string()),
        ports: Some(ports.clone().map(port).into()),
        ..ServiceSpec::default()
    };
    let service = Service {
        metadata: of("kube-dns", [("k8s-app", "kube-dns"), ("kubernetes.io/name", "CoreDNS")]),
        spec: Some(spec),
        ..Service::default()
    };
    let port = |(name, protocol)| EndpointPort {
        name: Some(name),
        protocol: Some(protocol),
        port: Some(53),
        ..EndpointPort::default()
    };
    let endpoint = Endpoint {
        addresses: vec![host.to_string()],
        conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
        ..Endpoint::default()
    };
    let slice = EndpointSlice {
        metadata: of(
            "kube-dns-host",
            [("kubernetes.io/service-name", "kube-dns"), ("endpointslice.kubernetes.io/managed-by", "c5c3.io")],
        ),
        address_type: "IPv4".to_owned(),
        ports: Some(ports.map(port).into()),
        endpoints: vec![endpoint],
    };
    (service, slice)
}

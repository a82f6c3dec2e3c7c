//! All names of the cluster's domain, made from Services, EndpointSlices and Namespaces. Pure.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use hickory_proto::ProtoError;
use hickory_proto::rr::rdata::{A, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::services::{Slices, address, is_ready};

/// The version of the specification.
const VERSION: &str = "1.1.0";

/// How long an answer, or that there is none, may be kept: CoreDNS's default, short because pods come and go.
pub(super) const TTL: u32 = 5;

/// Every name that exists, and what it has. A name that has nothing exists because of the names below it.
pub struct Zone {
    origin: Name,
    serial: u32,
    names: HashMap<Name, Vec<RData>>,
}

/// A domain as a name that ends in the root.
pub(super) fn origin(domain: &str) -> Result<Name, ProtoError> {
    let mut name = Name::from_ascii(domain)?.to_lowercase();
    name.set_fqdn(true);
    Ok(name)
}

impl Zone {
    /// The zone of a cluster that has these objects.
    pub fn build(
        origin: &Name,
        serial: u32,
        namespaces: &[String],
        services: &[Arc<Service>],
        slices: &[Arc<EndpointSlice>],
    ) -> Self {
        let mut zone = Self { origin: origin.clone(), serial, names: HashMap::new() };
        for parent in ["svc", "pod"] {
            zone.exists(&[parent]);
            for namespace in namespaces {
                zone.exists(&[namespace, parent]);
            }
        }
        let slices = Slices::index(slices);
        for service in services {
            zone.service(service, slices.of(service));
        }
        zone.about_itself(services);
        zone
    }

    /// The domain.
    pub(super) fn origin(&self) -> &Name {
        &self.origin
    }

    /// What a name has, if it exists.
    pub(super) fn get(&self, name: &Name) -> Option<&[RData]> {
        self.names.get(name).map(Vec::as_slice)
    }

    /// The record that says who is responsible, and how long a name may be taken not to exist.
    pub(super) fn soa(&self) -> SOA {
        let (primary, contact) = (self.below(&["ns", "dns"]), self.below(&["hostmaster"]));
        let origin = || self.origin.clone();
        SOA::new(primary.unwrap_or_else(origin), contact.unwrap_or_else(origin), self.serial, 7200, 1800, 86400, TTL)
    }

    /// A name below the domain, from its labels. None: a label is no label of DNS.
    fn below(&self, labels: &[&str]) -> Option<Name> {
        Name::from_labels(labels.iter().map(|label| label.as_bytes())).ok()?.append_domain(&self.origin).ok()
    }

    /// Lets a name exist, and with it all names above it.
    fn exists(&mut self, labels: &[&str]) -> Option<Name> {
        for start in 0..=labels.len() {
            let above = self.below(&labels[start..])?;
            self.names.entry(above).or_default();
        }
        self.below(labels)
    }

    fn add(&mut self, labels: &[&str], data: RData) {
        let Some(name) = self.exists(labels) else { return };
        let known = self.names.entry(name).or_default();
        // Endpoints may be in two slices, and share a hostname.
        if !known.contains(&data) {
            known.push(data);
        }
    }

    fn add_reverse(&mut self, address: Ipv4Addr, labels: &[&str]) {
        let Some(name) = self.below(labels) else { return };
        let data = RData::PTR(PTR(name));
        let known = self.names.entry(Name::from(address)).or_default();
        if !known.contains(&data) {
            known.push(data);
        }
    }

    fn about_itself(&mut self, services: &[Arc<Service>]) {
        let is_dns = |service: &&Arc<Service>| {
            let meta = &service.metadata;
            (meta.namespace.as_deref(), meta.name.as_deref()) == (Some("kube-system"), Some("kube-dns"))
        };
        self.add(&["dns-version"], RData::TXT(TXT::new(vec![VERSION.to_owned()])));
        self.add(&[], RData::SOA(self.soa()));
        if let Some(name) = self.exists(&["ns", "dns"]) {
            self.add(&[], RData::NS(NS(name)));
        }
        let dns = services.iter().find(is_dns).and_then(|service| service.spec.as_ref());
        for address in dns.map(cluster_addresses).unwrap_or_default() {
            self.add(&["ns", "dns"], RData::A(A(address)));
        }
    }

    fn service(&mut self, service: &Service, slices: &[&EndpointSlice]) {
        let (Some(spec), Some(namespace), Some(name)) =
            (&service.spec, &service.metadata.namespace, &service.metadata.name)
        else {
            return;
        };
        let labels = [name.as_str(), namespace.as_str(), "svc"];
        if spec.type_.as_deref() == Some("ExternalName") {
            let target = spec.external_name.as_deref().and_then(|name| origin(name).ok());
            if let Some(target) = target {
                self.add(&labels, RData::CNAME(CNAME(target)));
            }
            return;
        }
        let addresses = cluster_addresses(spec);
        for address in &addresses {
            self.add(&labels, RData::A(A(*address)));
            self.add_reverse(*address, &labels);
        }
        if !addresses.is_empty() {
            for port in spec.ports.iter().flatten() {
                self.port(&labels, port.name.as_deref(), port.protocol.as_deref(), port.port, &labels);
            }
        }
        let headless = spec.cluster_ip.as_deref() == Some("None");
        let everybody = spec.publish_not_ready_addresses == Some(true);
        for slice in slices {
            for endpoint in slice.endpoints.iter().filter(|endpoint| everybody || is_ready(endpoint)) {
                self.endpoint(&labels, slice, endpoint, headless);
            }
        }
    }

    /// An endpoint has a name of its own below every Service, and is the Service itself when that is headless.
    fn endpoint(&mut self, service: &[&str; 3], slice: &EndpointSlice, endpoint: &Endpoint, headless: bool) {
        let Some(address) = address(endpoint) else { return };
        let dashed = address.to_string().replace('.', "-");
        let own = endpoint.hostname.as_deref().filter(|hostname| !hostname.is_empty()).unwrap_or(&dashed);
        let labels = [own, service[0], service[1], service[2]];
        self.add(&labels, RData::A(A(address)));
        self.add_reverse(address, &labels);
        if !headless {
            return;
        }
        self.add(service, RData::A(A(address)));
        for port in slice.ports.iter().flatten() {
            if let Some(number) = port.port {
                self.port(service, port.name.as_deref(), port.protocol.as_deref(), number, &labels);
            }
        }
    }

    /// `_name._protocol.service` leads to a port of a target; the Service itself leads to all of them.
    fn port(&mut self, service: &[&str; 3], name: Option<&str>, protocol: Option<&str>, number: i32, target: &[&str]) {
        let (Ok(number), Some(target)) = (u16::try_from(number), self.below(target)) else { return };
        let data = RData::SRV(SRV::new(0, 100, number, target));
        self.add(service, data.clone());
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let name = format!("_{name}");
            let protocol = format!("_{}", protocol.unwrap_or("TCP").to_lowercase());
            self.add(&[&name, &protocol, service[0], service[1], service[2]], data);
        }
    }
}

fn cluster_addresses(spec: &ServiceSpec) -> Vec<Ipv4Addr> {
    spec.cluster_ips.iter().flatten().filter_map(|address| address.parse().ok()).collect()
}

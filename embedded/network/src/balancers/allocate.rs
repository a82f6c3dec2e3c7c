//! Which Service gets which address. Pure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::Pool;

/// What has to change about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It gets this address.
    Give(Ipv4Addr),
    /// It is no load balancer any more, and loses its address.
    Take,
    /// It cannot have an address; why, and what to do.
    Refuse(String),
}

/// A port as a Service has it: its protocol and number.
pub(super) type Port = (String, i32);

/// The Services that have to change. Those that have a valid address keep it; the others are served oldest first.
pub(super) fn allocate(
    pool: Pool,
    services: &[Arc<Service>],
    listening: &BTreeSet<Port>,
) -> Vec<(Arc<Service>, Decision)> {
    let mut order: Vec<_> = services.iter().collect();
    order.sort_by_key(|service| {
        let meta = &service.metadata;
        (meta.creation_timestamp.clone().map(|time| time.0), meta.namespace.clone(), meta.name.clone())
    });
    let mut used = Used { addresses: BTreeSet::new(), ports: listening.clone(), listening };
    let (mut decided, mut waiting) = (Vec::new(), Vec::new());
    for service in order {
        let has = addresses_of(service);
        if !is_ours(service) {
            if wants_no_balancer(service) && !has.is_empty() {
                decided.push((service.clone(), Decision::Take));
            }
            continue;
        }
        match has[..] {
            [address] if pool.contains(address) && wanted(service).is_none_or(|wanted| wanted == address) => {
                match used.conflict(pool, service, address) {
                    None => used.take(service, address),
                    Some(_) => waiting.push(service),
                }
            }
            _ => waiting.push(service),
        }
    }
    for service in waiting {
        match used.choose(pool, service) {
            Ok(address) => {
                used.take(service, address);
                if addresses_of(service) != [address] {
                    decided.push((service.clone(), Decision::Give(address)));
                }
            }
            Err(why) => {
                if !addresses_of(service).is_empty() {
                    decided.push((service.clone(), Decision::Take));
                }
                decided.push((service.clone(), Decision::Refuse(why)));
            }
        }
    }
    decided
}

/// The addresses that a Service's load balancer has.
fn addresses_of(service: &Service) -> Vec<Ipv4Addr> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().filter_map(|ingress| ingress.ip.as_deref()?.parse().ok()).collect()
}

fn class(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.load_balancer_class.as_deref()
}

fn is_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

fn is_ours(service: &Service) -> bool {
    is_balancer(service) && class(service).is_none() && service.metadata.deletion_timestamp.is_none()
}

fn wants_no_balancer(service: &Service) -> bool {
    !is_balancer(service)
}

/// The address that a Service asks for by itself.
fn wanted(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.load_balancer_ip.as_deref()?.parse().ok()
}

fn ports(service: &Service) -> BTreeSet<Port> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    ports.iter().map(|port| (port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port.port)).collect()
}

struct Used<'a> {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<Port>,
    listening: &'a BTreeSet<Port>,
}

impl Used<'_> {
    fn take(&mut self, service: &Service, address: Ipv4Addr) {
        self.addresses.insert(address);
        self.ports.extend(ports(service));
    }

    /// Why a Service cannot have an address, if it cannot.
    fn conflict(&self, pool: Pool, service: &Service, address: Ipv4Addr) -> Option<String> {
        match pool {
            Pool::Range(_) => {
                self.addresses.contains(&address).then(|| format!("{address} belongs to another Service"))
            }
            Pool::Exposed(_) => {
                let ports = ports(service);
                let (protocol, port) = ports.intersection(&self.ports).next()?;
                let holder = if self.listening.contains(&(protocol.clone(), *port)) {
                    "a process of this machine"
                } else {
                    "another Service of type LoadBalancer"
                };
                Some(format!(
                    "port {port}/{protocol} of {address} is used by {holder}; choose another spec.ports[].port"
                ))
            }
        }
    }

    fn choose(&self, pool: Pool, service: &Service) -> Result<Ipv4Addr, String> {
        if let Some(address) = wanted(service) {
            if !pool.contains(address) {
                return Err(format!(
                    "spec.loadBalancerIP {address} is not an address that this cluster has for load balancers ({}); \
                     leave it out",
                    match pool {
                        Pool::Range(range) => range.to_string(),
                        Pool::Exposed(address) => address.to_string(),
                    }
                ));
            }
            return self.conflict(pool, service, address).map_or(Ok(address), Err);
        }
        match pool {
            Pool::Exposed(address) => self.conflict(pool, service, address).map_or(Ok(address), Err),
            Pool::Range(range) => range
                .hosts()
                .find(|address| !self.addresses.contains(address))
                .ok_or_else(|| format!("all addresses of {range} are used; delete a Service of type LoadBalancer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RANGE: &str = "10.9.0.128/30";

    fn range() -> Pool {
        Pool::Range(RANGE.parse().unwrap())
    }

    fn exposed() -> Pool {
        Pool::Exposed([192, 0, 2, 7].into())
    }

    fn service(name: &str, port: i32, has: Option<&str>, spec: &Value) -> Arc<Service> {
        let ingress: Vec<_> = has.into_iter().map(|ip| json!({"ip": ip})).collect();
        let mut service = json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": port}]},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        for (key, value) in spec.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        Arc::new(serde_json::from_value(service).unwrap())
    }

    fn decided(pool: Pool, services: &[Arc<Service>], listening: &[i32]) -> Vec<String> {
        let listening = listening.iter().map(|port| ("TCP".to_owned(), *port)).collect();
        let told = |(service, decision): &(Arc<Service>, Decision)| {
            format!("{}: {decision:?}", service.metadata.name.as_deref().unwrap())
        };
        allocate(pool, services, &listening).iter().map(told).collect()
    }

    #[test]
    fn each_service_gets_an_address_of_its_own_and_keeps_it() {
        let (none, web) = (json!({}), service("web", 80, Some("10.9.0.129"), &json!({})));
        assert_eq!(decided(range(), &[service("shop", 80, None, &none), web], &[]), ["shop: Give(10.9.0.130)"]);
    }

    #[test]
    fn two_services_with_one_address_do_not_keep_it_both() {
        let both = ["a", "b"].map(|name| service(name, 80, Some("10.9.0.129"), &json!({})));
        assert_eq!(decided(range(), &both, &[]), ["b: Give(10.9.0.130)"]);
    }

    #[test]
    fn a_range_that_is_used_up_is_explained() {
        let all = ["a", "b", "c"].map(|name| service(name, 80, None, &json!({})));
        let told = decided(range(), &all, &[]);
        assert_eq!(told[..2], ["a: Give(10.9.0.129)", "b: Give(10.9.0.130)"]);
        assert!(told[2].contains("all addresses of 10.9.0.128/30 are used"), "{told:?}");
    }

    #[test]
    fn services_share_an_exposed_address_by_their_ports() {
        let none = json!({});
        let all = [service("a", 80, None, &none), service("b", 443, None, &none), service("c", 80, None, &none)];
        let told = decided(exposed(), &all, &[]);
        assert_eq!(told[..2], ["a: Give(192.0.2.7)", "b: Give(192.0.2.7)"]);
        assert!(told[2].contains("port 80/TCP of 192.0.2.7 is used by another Service"), "{told:?}");
    }

    #[test]
    fn a_port_that_a_process_of_the_machine_listens_on_stays_its_own() {
        let told = decided(exposed(), &[service("ssh", 22, None, &json!({}))], &[22]);
        assert!(told[0].contains("port 22/TCP of 192.0.2.7 is used by a process of this machine"), "{told:?}");
    }

    #[test]
    fn an_address_follows_the_pool_and_the_type() {
        let moved = service("moved", 80, Some("10.9.0.129"), &json!({}));
        assert_eq!(decided(exposed(), &[moved], &[]), ["moved: Give(192.0.2.7)"]);
        let inside = service("inside", 80, Some("10.9.0.129"), &json!({"type": "ClusterIP"}));
        assert_eq!(decided(range(), &[inside], &[]), ["inside: Take"]);
        let foreign = service("foreign", 80, None, &json!({"loadBalancerClass": "example.com/lb"}));
        assert!(decided(range(), &[foreign], &[]).is_empty());
    }

    #[test]
    fn an_address_that_is_asked_for_is_given_or_the_refusal_says_why() {
        let asking = |ip: &str| service("web", 80, None, &json!({"loadBalancerIP": ip}));
        assert_eq!(decided(range(), &[asking("10.9.0.130")], &[]), ["web: Give(10.9.0.130)"]);
        let told = decided(range(), &[asking("203.0.113.1")], &[]);
        assert!(
            told[0].contains("spec.loadBalancerIP 203.0.113.1 is not an address that this cluster has"),
            "{told:?}"
        );
    }
}

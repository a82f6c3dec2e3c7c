//! Addresses and ports of Services: each is handed out once, and given back when its Service goes or does without.
//!
//! What is handed out is known from the Services that are stored; between the choice and the write a [`Claim`] holds it.

mod families;
mod pool;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use c5c3_kinds::Resource;
use c5c3_schema::{Problem, ProblemKind, Problems};
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::call::Call;
use crate::object::{meta, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::status::ApiError;
use families::Family;
use pool::{PORTS, Pool};

/// What Services have.
#[derive(Debug)]
pub(crate) struct Allocations {
    range: IpNet,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: Pool<IpAddr>,
    ports: Pool<u16>,
}

/// The addresses and ports in one Service.
struct Held {
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
}

impl Held {
    fn by(service: &Value) -> Self {
        let spec = &service["spec"];
        let listed = spec["clusterIPs"].as_array().into_iter().flatten().chain([&spec["clusterIP"]]);
        let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
        Self {
            addresses: listed.filter_map(|address| address.as_str()?.parse().ok()).collect(),
            ports: ports.chain([&spec["healthCheckNodePort"]]).filter_map(port_number).collect(),
        }
    }
}

/// The addresses that a Service has.
pub(crate) fn addresses(service: &Value) -> Vec<IpAddr> {
    let mut addresses = Held::by(service).addresses;
    addresses.dedup();
    addresses
}

fn port_number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

impl Allocations {
    pub(crate) fn new(range: IpNet) -> Self {
        Self { range, taken: Mutex::default() }
    }

    /// Where addresses come from.
    pub(crate) fn range(&self) -> IpNet {
        self.range
    }

    /// The address of the Service `kubernetes`.
    pub(crate) fn first(&self) -> IpAddr {
        pool::nth(&self.range, 1)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a Service that is stored.
    pub(crate) fn learn(&self, service: &Value) {
        let (held, uid) = (Held::by(service), meta(service, "uid"));
        let mut taken = self.taken();
        for address in held.addresses.into_iter().filter(|address| self.range.contains(address)) {
            taken.addresses.take(address, uid);
        }
        for port in held.ports {
            taken.ports.take(port, uid);
        }
    }

    /// Gives back what `before` had and `now`, the Service as it is stored, has not.
    pub(crate) fn settle(&self, before: &Value, now: Option<&Value>) {
        let uid = meta(before, "uid");
        let kept = now.filter(|now| meta(now, "uid") == uid).map(Held::by);
        let held = Held::by(before);
        let mut taken = self.taken();
        for address in held.addresses {
            if !kept.as_ref().is_some_and(|kept| kept.addresses.contains(&address)) {
                taken.addresses.give_back(address, uid);
            }
        }
        for port in held.ports {
            if !kept.as_ref().is_some_and(|kept| kept.ports.contains(&port)) {
                taken.ports.give_back(port, uid);
            }
        }
    }
}

/// What a request has taken for a Service that it is about to write. When it is done, what is stored is what counts.
pub(crate) struct Claim<'a> {
    server: &'a Server,
    served: Arc<Served>,
    key: String,
    seen: Vec<Value>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let stored = self.server.store().get(&self.key);
        let stored = stored.and_then(|entry| of_entry(&self.served.resource, &entry).ok());
        for service in &self.seen {
            self.server.allocations().settle(service, stored.as_ref());
        }
    }
}

/// Gives a Service that is about to be written the addresses and ports that it is to have. Does nothing to other kinds,
/// and nothing where only a status is written.
pub(crate) fn allocate<'a>(
    call: &Call<'a>,
    old: Option<&Value>,
    service: &mut Value,
) -> Result<Option<Claim<'a>>, ApiError> {
    let served = &call.served;
    let resource = &served.resource;
    if resource.custom().is_some() || !resource.group.is_empty() || resource.kind != "Service" {
        return Ok(None);
    }
    if call.target.subresource.is_some() || !service["spec"].is_object() {
        return Ok(None);
    }
    let key = call.key(meta(service, "name"));
    let mut claim =
        Claim { server: call.server, served: served.clone(), key, seen: old.into_iter().cloned().collect() };
    let allocations = call.server.allocations();
    families::settle(&mut service["spec"], Family::of(&allocations.range))
        .map_err(|problems| ApiError::invalid(resource, meta(service, "name"), &problems))?;
    // What was taken up to a failure is given back with the rest.
    let taken =
        take_addresses(allocations, resource, service).and_then(|()| take_ports(allocations, resource, service));
    claim.seen.push(service.clone());
    taken.map(|()| Some(claim))
}

fn refused(resource: &Resource, service: &Value, path: String, what: String) -> ApiError {
    let mut problems = Problems::new();
    problems.push(Problem::new(path, ProblemKind::Invalid, what, ""));
    ApiError::invalid(resource, meta(service, "name"), &problems)
}

fn take_addresses(allocations: &Allocations, resource: &Resource, service: &mut Value) -> Result<(), ApiError> {
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" || spec["clusterIP"] == "None" {
        return Ok(());
    }
    let uid = meta(service, "uid").to_owned();
    let range = &allocations.range;
    let asked = spec["clusterIP"].as_str().filter(|asked| !asked.is_empty());
    let address = if let Some(asked) = asked {
        // What is no address is for validation to say.
        let Ok(address) = asked.parse::<IpAddr>() else { return Ok(()) };
        take_address(allocations, address, &uid).map_err(|why| {
            let what = format!("Invalid value: {}: failed to allocate IP {asked}: {why}", spec["clusterIPs"]);
            refused(resource, service, "spec.clusterIPs".into(), what)
        })?;
        address
    } else {
        let (all, upper) = (pool::addresses(range), pool::upper_addresses(range));
        let any = allocations.taken().addresses.take_any(all, upper, |number| pool::nth(range, number), &uid);
        any.ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))?
    };
    service["spec"]["clusterIP"] = address.to_string().into();
    service["spec"]["clusterIPs"] = json!([address.to_string()]);
    Ok(())
}

fn take_address(allocations: &Allocations, address: IpAddr, uid: &str) -> Result<(), String> {
    let range = &allocations.range;
    if !range.contains(&address) {
        return Err(format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
        ));
    }
    let taken = allocations.taken().addresses.take(address, uid);
    if taken { Ok(()) } else { Err("provided IP is already allocated".to_owned()) }
}

/// Takes the ports that are asked for first, so that none of them is handed out to another port of the same Service.
fn take_ports(allocations: &Allocations, resource: &Resource, service: &mut Value) -> Result<(), ApiError> {
    let uid = meta(service, "uid").to_owned();
    let asked: Vec<(String, Value)> = port_fields(&service["spec"]);
    let mut taken = allocations.taken();
    for (path, value) in &asked {
        let Some(port) = port_number(value) else { continue };
        let why = if !PORTS.contains(&u64::from(port)) {
            format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                PORTS.start,
                PORTS.end - 1
            )
        } else if !taken.ports.take(port, &uid) {
            "provided port is already allocated".to_owned()
        } else {
            continue;
        };
        return Err(refused(resource, service, path.clone(), format!("Invalid value: {port}: {why}")));
    }
    let mut any = || {
        let port =
            taken.ports.take_any(PORTS, pool::upper_ports(), |port| u16::try_from(port).unwrap_or_default(), &uid);
        port.ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))
    };
    if c5c3_kinds::has_node_ports(&service["spec"]) {
        fill_ports(service["spec"]["ports"].as_array_mut().map_or(&mut [][..], Vec::as_mut_slice), &mut any)?;
    }
    if c5c3_kinds::has_health_port(&service["spec"]) && port_number(&service["spec"]["healthCheckNodePort"]).is_none() {
        service["spec"]["healthCheckNodePort"] = any()?.into();
    }
    Ok(())
}

/// Gives ports to those that have none. Two protocols on one port of the Service share one port of the nodes.
fn fill_ports(ports: &mut [Value], any: &mut impl FnMut() -> Result<u16, ApiError>) -> Result<(), ApiError> {
    for index in 0..ports.len() {
        if port_number(&ports[index]["nodePort"]).is_some() {
            continue;
        }
        let shares =
            |other: &&Value| other["port"] == ports[index]["port"] && other["protocol"] != ports[index]["protocol"];
        let shared = ports.iter().filter(shares).find_map(|other| port_number(&other["nodePort"]));
        let port = match shared {
            Some(port) => port,
            None => any()?,
        };
        ports[index]["nodePort"] = port.into();
    }
    Ok(())
}

/// The places in a Service where a port of the nodes can be, and what is there.
fn port_fields(spec: &Value) -> Vec<(String, Value)> {
    let ports = spec["ports"].as_array().into_iter().flatten().enumerate();
    let ports = ports.map(|(index, port)| (format!("spec.ports[{index}].nodePort"), port["nodePort"].clone()));
    ports.chain([("spec.healthCheckNodePort".to_owned(), spec["healthCheckNodePort"].clone())]).collect()
}

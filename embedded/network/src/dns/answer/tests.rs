use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::dns::zone;

fn objects<T: serde::de::DeserializeOwned>(values: Value) -> Vec<Arc<T>> {
    serde_json::from_value::<Vec<T>>(values).unwrap().into_iter().map(Arc::new).collect()
}

fn zone() -> Zone {
    let services = objects(json!([
        {"metadata": {"namespace": "shop", "name": "web"},
         "spec": {"clusterIP": "10.7.0.80", "clusterIPs": ["10.7.0.80"], "ports": [
            {"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}},
        {"metadata": {"namespace": "shop", "name": "db"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
        {"metadata": {"namespace": "shop", "name": "quiet"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
        {"metadata": {"namespace": "shop", "name": "eager"},
         "spec": {"clusterIP": "None", "clusterIPs": ["None"], "publishNotReadyAddresses": true}},
        {"metadata": {"namespace": "shop", "name": "out"}, "spec": {"type": "ExternalName", "externalName": "Example.org."}},
        {"metadata": {"namespace": "shop", "name": "alias"},
         "spec": {"type": "ExternalName", "externalName": "web.shop.svc.cluster.local"}},
        {"metadata": {"namespace": "shop", "name": "ring"},
         "spec": {"type": "ExternalName", "externalName": "ring.shop.svc.cluster.local"}},
        {"metadata": {"namespace": "kube-system", "name": "kube-dns"},
         "spec": {"clusterIP": "10.7.0.10", "clusterIPs": ["10.7.0.10"], "ports": []}},
    ]));
    let slice = |service: &str, endpoints: Value| {
        json!({"metadata": {"namespace": "shop", "name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "mysql", "port": 3306}]})
    };
    let not_ready = json!({"ready": false});
    let slices = objects(json!([
        slice("web", json!([{"addresses": ["10.8.0.9"]}])),
        slice(
            "db",
            json!([
            {"addresses": ["10.8.0.1"], "hostname": "db-0"}, {"addresses": ["10.8.0.2"], "hostname": "db-1"},
            {"addresses": ["10.8.0.3"], "hostname": "db-2", "conditions": not_ready},
            {"addresses": ["10.8.0.4"]}])
        ),
        slice("quiet", json!([{"addresses": ["10.8.0.5"], "conditions": not_ready}])),
        slice("eager", json!([{"addresses": ["10.8.0.6"], "hostname": "eager-0", "conditions": not_ready}])),
    ]));
    let namespaces = ["shop".to_owned(), "kube-system".to_owned()];
    Zone::build(&zone::origin("cluster.local").unwrap(), 7, &namespaces, &services, &slices)
}

/// The answer in one line: code, then what each section has.
fn ask(name: &str, kind: RecordType) -> String {
    let name = Name::from_ascii(name).unwrap();
    let Some(answer) = answer(&zone(), &name, kind) else { return "elsewhere".to_owned() };
    let section = |records: &[Record]| {
        let mut texts: Vec<_> = records.iter().map(|r| format!("{} {}", r.record_type(), r.data)).collect();
        texts.sort();
        texts.join(", ")
    };
    let mut text = match answer.code {
        ResponseCode::NoError if answer.answers.is_empty() => "nodata".to_owned(),
        ResponseCode::NoError => section(&answer.answers),
        ResponseCode::NXDomain => "nxdomain".to_owned(),
        other => other.to_string(),
    };
    if !answer.additionals.is_empty() {
        text = format!("{text} + {}", section(&answer.additionals));
    }
    if let Some(target) = answer.elsewhere {
        text = format!("{text} -> {target}");
    }
    let negative = answer.answers.is_empty() && answer.code != ResponseCode::ServFail;
    assert_eq!(answer.authorities.len(), usize::from(negative), "an empty answer comes with the zone's authority");
    text
}

#[track_caller]
fn table(rows: &[(&str, RecordType, &str)]) {
    let asked: Vec<_> = rows.iter().map(|(name, kind, _)| (*name, *kind, ask(name, *kind))).collect();
    let asked: Vec<_> = asked.iter().map(|(name, kind, answer)| (*name, *kind, answer.as_str())).collect();
    assert_eq!(asked, rows);
}

use RecordType::{A as ADDRESS, AAAA, ANY, CNAME, NS, PTR, SOA, SRV, TXT};

#[test]
fn services_have_their_cluster_address() {
    table(&[
        ("web.shop.svc.cluster.local.", ADDRESS, "A 10.7.0.80"),
        ("WEB.Shop.SVC.cluster.LOCAL.", ADDRESS, "A 10.7.0.80"),
        ("web.shop.svc.cluster.local.", AAAA, "nodata"),
        ("web.shop.svc.cluster.local.", TXT, "nodata"),
        ("80.0.7.10.in-addr.arpa.", PTR, "PTR web.shop.svc.cluster.local."),
        ("80.0.7.10.in-addr.arpa.", ADDRESS, "nodata"),
    ]);
}

#[test]
fn headless_services_have_the_addresses_of_their_ready_endpoints() {
    table(&[
        ("db.shop.svc.cluster.local.", ADDRESS, "A 10.8.0.1, A 10.8.0.2, A 10.8.0.4"),
        ("db-0.db.shop.svc.cluster.local.", ADDRESS, "A 10.8.0.1"),
        ("db-2.db.shop.svc.cluster.local.", ADDRESS, "nxdomain"),
        ("10-8-0-4.db.shop.svc.cluster.local.", ADDRESS, "A 10.8.0.4"),
        ("2.0.8.10.in-addr.arpa.", PTR, "PTR db-1.db.shop.svc.cluster.local."),
        ("9.0.8.10.in-addr.arpa.", PTR, "PTR 10-8-0-9.web.shop.svc.cluster.local."),
        ("quiet.shop.svc.cluster.local.", ADDRESS, "nxdomain"),
        ("eager-0.eager.shop.svc.cluster.local.", ADDRESS, "A 10.8.0.6"),
    ]);
}

#[test]
fn named_ports_have_services_records_with_the_addresses_they_lead_to() {
    table(&[
        ("_http._tcp.web.shop.svc.cluster.local.", SRV, "SRV 0 100 80 web.shop.svc.cluster.local. + A 10.7.0.80"),
        ("_dns._udp.web.shop.svc.cluster.local.", SRV, "SRV 0 100 53 web.shop.svc.cluster.local. + A 10.7.0.80"),
        ("_dns._tcp.web.shop.svc.cluster.local.", SRV, "nxdomain"),
        ("_tcp.web.shop.svc.cluster.local.", SRV, "nodata"),
        ("_http._tcp.web.shop.svc.cluster.local.", ADDRESS, "nodata"),
        (
            "_mysql._tcp.db.shop.svc.cluster.local.",
            SRV,
            "SRV 0 100 3306 10-8-0-4.db.shop.svc.cluster.local., SRV 0 100 3306 db-0.db.shop.svc.cluster.local., \
             SRV 0 100 3306 db-1.db.shop.svc.cluster.local. + A 10.8.0.1, A 10.8.0.2, A 10.8.0.4",
        ),
    ]);
}

#[test]
fn external_names_are_aliases_that_are_followed() {
    table(&[
        ("out.shop.svc.cluster.local.", ADDRESS, "CNAME example.org. -> example.org."),
        ("out.shop.svc.cluster.local.", CNAME, "CNAME example.org."),
        ("alias.shop.svc.cluster.local.", ADDRESS, "A 10.7.0.80, CNAME web.shop.svc.cluster.local."),
        ("ring.shop.svc.cluster.local.", ADDRESS, "Server Failure"),
    ]);
}

#[test]
fn a_name_with_names_below_it_exists_and_others_do_not() {
    table(&[
        ("cluster.local.", ADDRESS, "nodata"),
        ("svc.cluster.local.", ADDRESS, "nodata"),
        ("shop.svc.cluster.local.", ADDRESS, "nodata"),
        ("bank.svc.cluster.local.", ADDRESS, "nxdomain"),
        ("nobody.shop.svc.cluster.local.", ADDRESS, "nxdomain"),
        // What the search path makes of an outside name.
        ("example.org.shop.svc.cluster.local.", ADDRESS, "nxdomain"),
        ("example.org.cluster.local.", AAAA, "nxdomain"),
        ("example.org.", ADDRESS, "elsewhere"),
        ("1.1.1.1.in-addr.arpa.", PTR, "elsewhere"),
    ]);
}

#[test]
fn pods_have_names_after_their_addresses() {
    table(&[
        ("10-8-0-1.shop.pod.cluster.local.", ADDRESS, "A 10.8.0.1"),
        ("10-8-0-1.shop.pod.cluster.local.", AAAA, "nodata"),
        ("10-8-0-1.bank.pod.cluster.local.", ADDRESS, "nxdomain"),
        ("10-8-0-300.shop.pod.cluster.local.", ADDRESS, "nxdomain"),
        ("shop.pod.cluster.local.", ADDRESS, "nodata"),
        ("10-8-0-1.shop.svc.cluster.local.", ADDRESS, "nxdomain"),
    ]);
}

#[test]
fn the_zone_speaks_about_itself() {
    let soa = "SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5";
    table(&[
        ("dns-version.cluster.local.", TXT, "TXT 1.1.0"),
        ("cluster.local.", SOA, soa),
        ("cluster.local.", NS, "NS ns.dns.cluster.local. + A 10.7.0.10"),
        ("ns.dns.cluster.local.", ADDRESS, "A 10.7.0.10"),
        ("dns.cluster.local.", ADDRESS, "nodata"),
        (
            "web.shop.svc.cluster.local.",
            ANY,
            "A 10.7.0.80, SRV 0 100 53 web.shop.svc.cluster.local., \
            SRV 0 100 80 web.shop.svc.cluster.local. + A 10.7.0.80",
        ),
    ]);
}

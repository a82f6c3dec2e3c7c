#![allow(clippy::needless_pass_by_value, reason = "`json!` reads best where it is used")]

use serde_json::{Value, json};

use super::*;
use crate::balancers::Pool;

fn place() -> Place {
    Place {
        table: "t".to_owned(),
        node: Some("here".to_owned()),
        node_addresses: vec![Ipv4Addr::new(10, 9, 0, 11)],
        pods: Some("10.8.1.0/24".parse().unwrap()),
        balancers: None,
        services: "10.7.0.0/16".parse().unwrap(),
    }
}

fn service(spec: Value) -> Arc<Service> {
    let mut service = json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"clusterIP": "10.7.0.80", "clusterIPs": ["10.7.0.80"], "ports": [{"name": "http", "port": 80}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(service).unwrap())
}

/// Endpoints at these addresses and nodes.
fn slice(endpoints: &[(&str, &str)], port: Value) -> Arc<EndpointSlice> {
    let endpoints: Vec<_> =
        endpoints.iter().map(|(address, node)| json!({"addresses": [address], "nodeName": node})).collect();
    let slice = json!({
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [port],
    });
    Arc::new(serde_json::from_value(slice).unwrap())
}

const BOTH: &[(&str, &str)] = &[("10.8.1.5", "here"), ("10.8.2.5", "there")];

fn http() -> Value {
    json!({"name": "http", "port": 8080})
}

/// What a Service adds to the table that there is without any.
fn added(spec: Value, endpoints: &[(&str, &str)], port: Value) -> String {
    let nothing = render(&place(), &[], &[]).ruleset;
    render(&place(), &[service(spec)], &[slice(endpoints, port)]).ruleset.change_from(&nothing)
}

#[test]
fn without_services_there_is_only_the_frame() {
    insta::assert_snapshot!(render(&place(), &[], &[]).ruleset.replacement(), @r"
    add table ip t
    delete table ip t
    add table ip t
    add map ip t frontends { type ipv4_addr . inet_proto . inet_service : verdict; }
    add set ip t hairpin { type ipv4_addr . ipv4_addr; }
    add map ip t unserved { type ipv4_addr . inet_proto . inet_service : verdict; }
    add chain ip t output { type nat hook output priority -100; policy accept; }
    add chain ip t postrouting { type nat hook postrouting priority 100; policy accept; }
    add chain ip t prerouting { type nat hook prerouting priority -100; policy accept; }
    add chain ip t refuse
    add chain ip t unserved-output { type filter hook output priority 0; policy accept; }
    add chain ip t unserved-prerouting { type filter hook prerouting priority 0; policy accept; }
    add rule ip t output ip daddr . meta l4proto . th dport vmap @frontends
    add rule ip t postrouting meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000 masquerade fully-random
    add rule ip t postrouting ct status dnat ip saddr . ip daddr @hairpin masquerade fully-random
    add rule ip t prerouting ip daddr . meta l4proto . th dport vmap @frontends
    add rule ip t refuse meta l4proto tcp reject with tcp reset
    add rule ip t refuse reject
    add rule ip t unserved-output ip daddr . meta l4proto . th dport vmap @unserved
    add rule ip t unserved-output ip daddr 10.7.0.0/16 goto refuse
    add rule ip t unserved-prerouting ip daddr . meta l4proto . th dport vmap @unserved
    add rule ip t unserved-prerouting ip daddr 10.7.0.0/16 goto refuse
    ");
}

#[test]
fn a_service_is_balanced_over_its_endpoints() {
    insta::assert_snapshot!(added(json!({}), BOTH, http()), @r"
    add chain ip t anywhere/shop/web/tcp/80
    add rule ip t anywhere/shop/web/tcp/80 meta l4proto tcp dnat to numgen random mod 2 map { 0 : 10.8.1.5 . 8080, 1 : 10.8.2.5 . 8080 }
    add element ip t frontends { 10.7.0.80 . tcp . 80 : goto anywhere/shop/web/tcp/80 }
    add element ip t hairpin { 10.8.1.5 . 10.8.1.5, 10.8.2.5 . 10.8.2.5 }
    ");
}

#[test]
fn a_node_port_is_masqueraded() {
    let spec = json!({"type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]});
    insta::assert_snapshot!(added(spec, BOTH, http()), @r"
    add chain ip t anywhere/shop/web/tcp/80
    add chain ip t external/shop/web/tcp/80
    add rule ip t anywhere/shop/web/tcp/80 meta l4proto tcp dnat to numgen random mod 2 map { 0 : 10.8.1.5 . 8080, 1 : 10.8.2.5 . 8080 }
    add rule ip t external/shop/web/tcp/80 meta mark set meta mark | 0x4000
    add rule ip t external/shop/web/tcp/80 goto anywhere/shop/web/tcp/80
    add element ip t frontends { 10.7.0.80 . tcp . 80 : goto anywhere/shop/web/tcp/80, 10.9.0.11 . tcp . 30080 : goto external/shop/web/tcp/80 }
    add element ip t hairpin { 10.8.1.5 . 10.8.1.5, 10.8.2.5 . 10.8.2.5 }
    ");
}

#[test]
fn local_traffic_from_outside_keeps_its_source_and_stays_here() {
    let spec = json!({
        "type": "NodePort", "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.1"],
        "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
    });
    insta::assert_snapshot!(added(spec.clone(), BOTH, http()), @r"
    add chain ip t anywhere/shop/web/tcp/80
    add chain ip t external/shop/web/tcp/80
    add chain ip t local/shop/web/tcp/80
    add rule ip t anywhere/shop/web/tcp/80 meta l4proto tcp dnat to numgen random mod 2 map { 0 : 10.8.1.5 . 8080, 1 : 10.8.2.5 . 8080 }
    add rule ip t external/shop/web/tcp/80 ip saddr 10.8.1.0/24 goto anywhere/shop/web/tcp/80
    add rule ip t external/shop/web/tcp/80 fib saddr type local goto anywhere/shop/web/tcp/80
    add rule ip t external/shop/web/tcp/80 goto local/shop/web/tcp/80
    add rule ip t local/shop/web/tcp/80 meta l4proto tcp dnat to 10.8.1.5:8080
    add element ip t frontends { 10.7.0.80 . tcp . 80 : goto anywhere/shop/web/tcp/80, 10.9.0.11 . tcp . 30080 : goto external/shop/web/tcp/80, 192.0.2.1 . tcp . 80 : goto external/shop/web/tcp/80 }
    add element ip t hairpin { 10.8.1.5 . 10.8.1.5, 10.8.2.5 . 10.8.2.5 }
    ");
    insta::assert_snapshot!(added(spec, &BOTH[1..], http()), @r"
    add chain ip t anywhere/shop/web/tcp/80
    add chain ip t external/shop/web/tcp/80
    add rule ip t anywhere/shop/web/tcp/80 meta l4proto tcp dnat to 10.8.2.5:8080
    add rule ip t external/shop/web/tcp/80 ip saddr 10.8.1.0/24 goto anywhere/shop/web/tcp/80
    add rule ip t external/shop/web/tcp/80 fib saddr type local goto anywhere/shop/web/tcp/80
    add element ip t frontends { 10.7.0.80 . tcp . 80 : goto anywhere/shop/web/tcp/80, 10.9.0.11 . tcp . 30080 : goto external/shop/web/tcp/80, 192.0.2.1 . tcp . 80 : goto external/shop/web/tcp/80 }
    add element ip t hairpin { 10.8.2.5 . 10.8.2.5 }
    add element ip t unserved { 10.9.0.11 . tcp . 30080 : drop, 192.0.2.1 . tcp . 80 : drop }
    ");
}

#[test]
fn local_traffic_from_inside_stays_here_or_is_dropped() {
    let spec = json!({"internalTrafficPolicy": "Local"});
    insta::assert_snapshot!(added(spec.clone(), BOTH, http()), @r"
    add chain ip t local/shop/web/tcp/80
    add rule ip t local/shop/web/tcp/80 meta l4proto tcp dnat to 10.8.1.5:8080
    add element ip t frontends { 10.7.0.80 . tcp . 80 : goto local/shop/web/tcp/80 }
    add element ip t hairpin { 10.8.1.5 . 10.8.1.5, 10.8.2.5 . 10.8.2.5 }
    ");
    insta::assert_snapshot!(added(spec, &BOTH[1..], http()), @r"
    add element ip t hairpin { 10.8.2.5 . 10.8.2.5 }
    add element ip t unserved { 10.7.0.80 . tcp . 80 : drop }
    ");
}

#[test]
fn a_client_sticks_to_its_endpoint() {
    let spec = json!({
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        "ports": [{"name": "http", "port": 80, "protocol": "SCTP"}],
    });
    insta::assert_snapshot!(added(spec, BOTH, json!({"name": "http", "protocol": "SCTP", "port": 8080})), @r"
    add set ip t sticky/shop/web/sctp/80/10.8.1.5-8080 { type ipv4_addr; flags dynamic, timeout; timeout 60s; }
    add set ip t sticky/shop/web/sctp/80/10.8.2.5-8080 { type ipv4_addr; flags dynamic, timeout; timeout 60s; }
    add chain ip t anywhere/shop/web/sctp/80
    add chain ip t sticky/shop/web/sctp/80/10.8.1.5-8080
    add chain ip t sticky/shop/web/sctp/80/10.8.2.5-8080
    add rule ip t anywhere/shop/web/sctp/80 ip saddr @sticky/shop/web/sctp/80/10.8.1.5-8080 goto sticky/shop/web/sctp/80/10.8.1.5-8080
    add rule ip t anywhere/shop/web/sctp/80 ip saddr @sticky/shop/web/sctp/80/10.8.2.5-8080 goto sticky/shop/web/sctp/80/10.8.2.5-8080
    add rule ip t anywhere/shop/web/sctp/80 numgen random mod 2 vmap { 0 : goto sticky/shop/web/sctp/80/10.8.1.5-8080, 1 : goto sticky/shop/web/sctp/80/10.8.2.5-8080 }
    add rule ip t sticky/shop/web/sctp/80/10.8.1.5-8080 update @sticky/shop/web/sctp/80/10.8.1.5-8080 { ip saddr }
    add rule ip t sticky/shop/web/sctp/80/10.8.1.5-8080 meta l4proto sctp dnat to 10.8.1.5:8080
    add rule ip t sticky/shop/web/sctp/80/10.8.2.5-8080 update @sticky/shop/web/sctp/80/10.8.2.5-8080 { ip saddr }
    add rule ip t sticky/shop/web/sctp/80/10.8.2.5-8080 meta l4proto sctp dnat to 10.8.2.5:8080
    add element ip t frontends { 10.7.0.80 . sctp . 80 : goto anywhere/shop/web/sctp/80 }
    add element ip t hairpin { 10.8.1.5 . 10.8.1.5, 10.8.2.5 . 10.8.2.5 }
    ");
}

#[test]
fn a_service_without_endpoints_refuses() {
    let spec = json!({"type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]});
    insta::assert_snapshot!(added(spec, &[], http()), @r"
    add element ip t unserved { 10.7.0.80 . tcp . 80 : goto refuse, 10.9.0.11 . tcp . 30080 : goto refuse }
    ");
}

#[test]
fn the_address_of_a_load_balancer_is_served_unless_it_is_a_proxy() {
    let mut service = (*service(json!({"type": "LoadBalancer"}))).clone();
    service.status = serde_json::from_value(json!({
        "loadBalancer": {"ingress": [{"ip": "192.0.2.7", "ipMode": "VIP"}, {"ip": "192.0.2.8", "ipMode": "Proxy"}]},
    }))
    .unwrap();
    let script = render(&place(), &[Arc::new(service)], &[slice(BOTH, http())]).ruleset.replacement();
    assert!(script.contains("192.0.2.7 . tcp . 80 : goto external/shop/web/tcp/80"), "{script}");
    assert!(!script.contains("192.0.2.8"), "{script}");
}

#[test]
fn headless_external_and_foreign_services_have_no_rules() {
    let headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
    let external = json!({"type": "ExternalName", "externalName": "example.org", "clusterIPs": null});
    let mut foreign = (*service(json!({}))).clone();
    foreign.metadata.labels = Some([(PROXY_NAME.to_owned(), "other".to_owned())].into());
    let slices = [slice(BOTH, http())];
    for service in [service(headless), service(external), Arc::new(foreign)] {
        let rules = render(&place(), &[service], &slices).ruleset;
        assert_eq!(rules.change_from(&render(&place(), &[], &[]).ruleset), "");
    }
}

#[test]
fn where_udp_goes_is_told() {
    let spec = json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]});
    let slices = [slice(BOTH, json!({"name": "dns", "protocol": "UDP", "port": 5353}))];
    let rules = render(&place(), &[service(spec)], &slices);
    assert_eq!(format!("{:?}", rules.udp), "{10.7.0.80:53: {10.8.1.5:5353, 10.8.2.5:5353}}");
}

#[test]
fn the_machine_itself_serves_cluster_addresses_node_ports_and_its_own_load_balancers() {
    let exposed = Ipv4Addr::new(198, 51, 100, 7);
    let machine = Place {
        node: None,
        pods: None,
        node_addresses: vec![Ipv4Addr::new(10, 9, 0, 1), exposed],
        balancers: Some(Pool::Exposed(exposed)),
        ..place()
    };
    let spec = json!({"type": "LoadBalancer", "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local",
                      "ports": [{"name": "http", "port": 80, "nodePort": 30080}]});
    let mut web = Arc::unwrap_or_clone(service(spec));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}, {"ip": "203.0.113.5"}]}});
    web.status = Some(serde_json::from_value(status).unwrap());
    let script = render(&machine, &[Arc::new(web)], &[slice(BOTH, http())]).ruleset.replacement();
    let external = "goto external/shop/web/tcp/80";
    for front in ["198.51.100.7 . tcp . 80", "198.51.100.7 . tcp . 30080", "10.9.0.1 . tcp . 30080"] {
        assert!(script.contains(&format!("{front} : {external}")), "{front}: {script}");
    }
    assert!(script.contains("10.7.0.80 . tcp . 80 : goto anywhere/shop/web/tcp/80"), "{script}");
    assert!(script.contains("add rule ip t external/shop/web/tcp/80 goto anywhere/shop/web/tcp/80"), "{script}");
    for foreign in ["192.0.2.1", "203.0.113.5"] {
        assert!(!script.contains(foreign), "{script}");
    }
}

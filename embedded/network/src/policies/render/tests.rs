#![allow(clippy::needless_pass_by_value, reason = "`json!` reads best where it is used")]

use serde_json::{Value, json};

use super::*;

fn place() -> Place {
    Place { table: "t".to_owned(), node: "here".to_owned(), dns: Some([10, 9, 0, 1].into()) }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn pod(namespace: &str, app: &str, address: &str, node: &str) -> Arc<Pod> {
    object(json!({
        "metadata": {"namespace": namespace, "name": app, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "ports": [
            {"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        ]}]},
        "status": {"phase": "Running", "podIP": address},
    }))
}

fn namespace(name: &str) -> Arc<Namespace> {
    object(json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}))
}

fn policy(name: &str, spec: Value) -> Arc<NetworkPolicy> {
    object(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}))
}

fn pods() -> Vec<Arc<Pod>> {
    vec![
        pod("shop", "web", "10.8.1.5", "here"),
        pod("shop", "cart", "10.8.1.6", "here"),
        pod("shop", "till", "10.8.2.5", "there"),
        pod("bank", "vault", "10.8.2.6", "there"),
    ]
}

/// What policies add to the table that there is without any.
fn added(policies: &[Arc<NetworkPolicy>], pods: &[Arc<Pod>]) -> String {
    let namespaces = [namespace("shop"), namespace("bank"), namespace("kube-system")];
    let nothing = render(&place(), &[], pods, &namespaces);
    render(&place(), policies, pods, &namespaces).change_from(&nothing)
}

fn web(rest: Value) -> Value {
    let mut spec = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    spec
}

#[test]
fn without_policies_everything_passes() {
    insta::assert_snapshot!(render(&place(), &[], &pods(), &[]).replacement(), @r"
    add table ip t
    delete table ip t
    add table ip t
    add map ip t egress { type ipv4_addr : verdict; }
    add map ip t ingress { type ipv4_addr : verdict; }
    add set ip t itself { type ipv4_addr . ipv4_addr; }
    add chain ip t egress-forward { type filter hook forward priority -1; policy accept; }
    add chain ip t ingress-forward { type filter hook forward priority 0; policy accept; }
    add rule ip t egress-forward ct state established,related accept
    add rule ip t egress-forward ip saddr . ip daddr @itself accept
    add rule ip t egress-forward ip saddr vmap @egress
    add rule ip t ingress-forward ct state established,related accept
    add rule ip t ingress-forward ip saddr . ip daddr @itself accept
    add rule ip t ingress-forward ip daddr vmap @ingress
    ");
}

#[test]
fn a_default_deny_isolates_the_pods_of_this_node() {
    let deny = policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    insta::assert_snapshot!(added(&[deny], &pods()), @r"
    add chain ip t egress/10.8.1.5
    add chain ip t egress/10.8.1.6
    add chain ip t egress/shop/deny
    add chain ip t ingress/10.8.1.5
    add chain ip t ingress/10.8.1.6
    add chain ip t ingress/shop/deny
    add rule ip t egress/10.8.1.5 jump egress/shop/deny
    add rule ip t egress/10.8.1.5 drop
    add rule ip t egress/10.8.1.6 jump egress/shop/deny
    add rule ip t egress/10.8.1.6 drop
    add rule ip t ingress/10.8.1.5 jump ingress/shop/deny
    add rule ip t ingress/10.8.1.5 drop
    add rule ip t ingress/10.8.1.6 jump ingress/shop/deny
    add rule ip t ingress/10.8.1.6 drop
    add element ip t egress { 10.8.1.5 : goto egress/10.8.1.5, 10.8.1.6 : goto egress/10.8.1.6 }
    add element ip t ingress { 10.8.1.5 : goto ingress/10.8.1.5, 10.8.1.6 : goto ingress/10.8.1.6 }
    add element ip t itself { 10.8.1.5 . 10.8.1.5, 10.8.1.6 . 10.8.1.6 }
    ");
}

#[test]
fn several_policies_allow_what_any_of_them_allows() {
    let deny = policy("deny", json!({"podSelector": {}}));
    let allow = policy("allow-web", web(json!({"ingress": [{}]})));
    insta::assert_snapshot!(added(&[deny, allow], &pods()), @r"
    add chain ip t ingress/10.8.1.5
    add chain ip t ingress/10.8.1.6
    add chain ip t ingress/shop/allow-web
    add chain ip t ingress/shop/deny
    add rule ip t ingress/10.8.1.5 jump ingress/shop/allow-web
    add rule ip t ingress/10.8.1.5 jump ingress/shop/deny
    add rule ip t ingress/10.8.1.5 drop
    add rule ip t ingress/10.8.1.6 jump ingress/shop/deny
    add rule ip t ingress/10.8.1.6 drop
    add rule ip t ingress/shop/allow-web accept
    add element ip t ingress { 10.8.1.5 : goto ingress/10.8.1.5, 10.8.1.6 : goto ingress/10.8.1.6 }
    add element ip t itself { 10.8.1.5 . 10.8.1.5, 10.8.1.6 . 10.8.1.6 }
    ");
}

#[test]
fn peers_are_pods_here_pods_of_namespaces_and_blocks_with_holes() {
    let from = json!([
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bank"}},
         "podSelector": {"matchLabels": {"app": "vault"}}},
        {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}},
    ]);
    let allow = policy("allow", web(json!({"ingress": [{"from": from}]})));
    insta::assert_snapshot!(added(&[allow], &pods()), @r"
    add set ip t ingress/shop/allow/0 { type ipv4_addr; flags interval; }
    add chain ip t ingress/10.8.1.5
    add chain ip t ingress/shop/allow
    add rule ip t ingress/10.8.1.5 jump ingress/shop/allow
    add rule ip t ingress/10.8.1.5 drop
    add rule ip t ingress/shop/allow ip saddr @ingress/shop/allow/0 accept
    add element ip t ingress { 10.8.1.5 : goto ingress/10.8.1.5 }
    add element ip t ingress/shop/allow/0 { 10.8.1.6, 10.8.2.5-10.8.2.6, 192.0.2.0-192.0.2.127 }
    add element ip t itself { 10.8.1.5 . 10.8.1.5 }
    ");
}

#[test]
fn ports_are_numbers_ranges_names_or_all_of_a_protocol() {
    let ports = json!([
        {"port": 80}, {"port": 8000, "endPort": 8010}, {"port": 8005}, {"port": "http"},
        {"port": "dns", "protocol": "UDP"}, {"protocol": "SCTP"},
    ]);
    let allow = policy("allow", web(json!({"ingress": [{"ports": ports}]})));
    insta::assert_snapshot!(added(&[allow], &pods()), @r"
    add set ip t ingress/shop/allow/0-named { type ipv4_addr . inet_proto . inet_service; }
    add chain ip t ingress/10.8.1.5
    add chain ip t ingress/shop/allow
    add rule ip t ingress/10.8.1.5 jump ingress/shop/allow
    add rule ip t ingress/10.8.1.5 drop
    add rule ip t ingress/shop/allow tcp dport { 80, 8000-8010 } accept
    add rule ip t ingress/shop/allow meta l4proto sctp accept
    add rule ip t ingress/shop/allow ip daddr . meta l4proto . th dport @ingress/shop/allow/0-named accept
    add element ip t ingress { 10.8.1.5 : goto ingress/10.8.1.5 }
    add element ip t ingress/shop/allow/0-named { 10.8.1.5 . tcp . 8080, 10.8.1.5 . udp . 53 }
    add element ip t itself { 10.8.1.5 . 10.8.1.5 }
    ");
}

#[test]
fn a_name_of_a_port_is_looked_up_where_an_egress_goes() {
    let to = json!([{"podSelector": {"matchLabels": {"app": "till"}}}]);
    let allow = policy("allow", web(json!({"egress": [{"to": to, "ports": [{"port": "http"}]}]})));
    insta::assert_snapshot!(added(&[allow], &pods()), @r"
    add set ip t egress/shop/allow/0 { type ipv4_addr; flags interval; }
    add set ip t egress/shop/allow/0-named { type ipv4_addr . inet_proto . inet_service; }
    add chain ip t egress/10.8.1.5
    add chain ip t egress/shop/allow
    add chain ip t ingress/10.8.1.5
    add chain ip t ingress/shop/allow
    add rule ip t egress/10.8.1.5 jump egress/shop/allow
    add rule ip t egress/10.8.1.5 drop
    add rule ip t egress/shop/allow ip daddr @egress/shop/allow/0 ip daddr . meta l4proto . th dport @egress/shop/allow/0-named accept
    add rule ip t ingress/10.8.1.5 jump ingress/shop/allow
    add rule ip t ingress/10.8.1.5 drop
    add element ip t egress { 10.8.1.5 : goto egress/10.8.1.5 }
    add element ip t egress/shop/allow/0 { 10.8.2.5 }
    add element ip t egress/shop/allow/0-named { 10.8.2.5 . tcp . 8080 }
    add element ip t ingress { 10.8.1.5 : goto ingress/10.8.1.5 }
    add element ip t itself { 10.8.1.5 . 10.8.1.5 }
    ");
}

#[test]
fn the_dns_server_passes_for_the_pod_that_it_is_elsewhere() {
    let to = json!([{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]);
    let allow = policy("dns", web(json!({"policyTypes": ["Egress"], "egress": [{"to": to}]})));
    let script = added(&[allow], &pods());
    assert!(script.contains("add element ip t egress/shop/dns/0 { 10.9.0.1 }"), "{script}");
}

#[test]
fn a_policy_without_types_is_about_egress_only_if_it_has_rules_for_that() {
    let ingress_only = added(&[policy("p", web(json!({})))], &pods());
    assert!(ingress_only.contains("ingress/shop/p") && !ingress_only.contains("egress/shop/p"), "{ingress_only}");
    let both = added(&[policy("p", web(json!({"egress": [{}]})))], &pods());
    assert!(both.contains("ingress/shop/p") && both.contains("egress/shop/p"), "{both}");
    let egress_only = added(&[policy("p", web(json!({"policyTypes": ["Egress"]})))], &pods());
    assert!(!egress_only.contains("ingress/shop/p") && egress_only.contains("egress/shop/p"), "{egress_only}");
}

#[test]
fn pods_without_an_address_of_their_own_are_not_isolated() {
    let deny = policy("deny", json!({"podSelector": {}}));
    let mut host = (*pod("shop", "host", "10.9.0.11", "here")).clone();
    host.spec.as_mut().unwrap().host_network = Some(true);
    let mut done = (*pod("shop", "done", "10.8.1.9", "here")).clone();
    done.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    let mut new = (*pod("shop", "new", "", "here")).clone();
    new.status.as_mut().unwrap().pod_ip = None;
    assert_eq!(added(&[deny], &[Arc::new(host), Arc::new(done), Arc::new(new)]), "");
}

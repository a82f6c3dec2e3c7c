//! How a pod resolves names: its `resolv.conf`, by its policy.

use c5c3_cri::v1;

use crate::config::NodeConfig;
use crate::pod::Pod;

/// What libc reads at most.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;

/// The pod's name servers, search path and options. `resolv_conf` is the node's own file.
pub(crate) fn config(pod: &Pod, node: &NodeConfig, resolv_conf: &str) -> v1::DnsConfig {
    let spec = pod.spec();
    let of_node = parse(resolv_conf);
    let mut dns = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "None" => v1::DnsConfig::default(),
        "Default" => of_node,
        "ClusterFirst" if pod.is_host_network() => of_node,
        // Without a cluster DNS, as the kubelet does: the node's.
        _ if node.cluster_dns.is_empty() => of_node,
        _ => {
            let domain = &node.cluster_domain;
            let own = [format!("{}.svc.{domain}", pod.namespace()), format!("svc.{domain}"), domain.clone()];
            v1::DnsConfig {
                servers: node.cluster_dns.iter().map(ToString::to_string).collect(),
                searches: own.into_iter().chain(of_node.searches).collect(),
                options: vec!["ndots:5".to_owned()],
            }
        }
    };
    if let Some(more) = &spec.dns_config {
        dns.servers.extend(more.nameservers.iter().flatten().cloned());
        dns.searches.extend(more.searches.iter().flatten().cloned());
        for option in more.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            dns.options.retain(|known| known.split(':').next() != Some(&name));
            dns.options.push(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")));
        }
    }
    dns.servers = distinct(dns.servers, MOST_SERVERS);
    dns.searches = distinct(dns.searches, MOST_SEARCHES);
    dns
}

fn distinct(list: Vec<String>, most: usize) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for item in list {
        if !kept.contains(&item) && kept.len() < most {
            kept.push(item);
        }
    }
    kept
}

fn parse(resolv_conf: &str) -> v1::DnsConfig {
    let mut dns = v1::DnsConfig::default();
    for line in resolv_conf.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("nameserver") => dns.servers.extend(words.next()),
            // The last line of a kind counts.
            Some("search") => dns.searches = words.map(|name| name.trim_end_matches('.').to_owned()).collect(),
            Some("options") => dns.options = words.collect(),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    const NODE: &str = "# by hand\nsearch example.test.\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions edns0\n";

    fn made(spec: Value) -> (String, String, String) {
        let mut node = crate::config::testing::config();
        node.cluster_dns = vec!["10.125.0.10".parse().unwrap()];
        let dns = config(&pod(spec), &node, NODE);
        (dns.servers.join(" "), dns.searches.join(" "), dns.options.join(" "))
    }

    fn row(servers: &str, searches: &str, options: &str) -> (String, String, String) {
        (servers.to_owned(), searches.to_owned(), options.to_owned())
    }

    #[test]
    fn each_policy_has_its_servers() {
        let cluster =
            row("10.125.0.10", "shop.svc.cluster.local svc.cluster.local cluster.local example.test", "ndots:5");
        let node = row("192.0.2.1 192.0.2.2", "example.test", "edns0");
        assert_eq!(made(json!({})), cluster);
        assert_eq!(made(json!({"dnsPolicy": "Default"})), node);
        assert_eq!(made(json!({"hostNetwork": true})), node);
        assert_eq!(made(json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"})), cluster);
    }

    #[test]
    fn what_a_pod_adds_comes_last_and_its_options_win() {
        let more = json!({"nameservers": ["192.0.2.9"], "searches": ["shop.test"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]});
        assert_eq!(
            made(json!({"dnsPolicy": "None", "dnsConfig": more.clone()})),
            row("192.0.2.9", "shop.test", "ndots:2 rotate")
        );
        let (servers, _, options) = made(json!({"dnsConfig": more}));
        assert_eq!((servers.as_str(), options.as_str()), ("10.125.0.10 192.0.2.9", "ndots:2 rotate"));
    }
}

//! A pod's `/etc/hosts`.

use std::fmt::Write;

use super::sandbox::{full_name, host_name};
use crate::pod::Pod;

const OWN: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// The file's content; `of_node` is the node's own file, which pods in its network see.
pub(crate) fn file(pod: &Pod, ips: &[String], domain: &str, of_node: &str) -> String {
    let mut text = if pod.is_host_network() {
        format!("# Kubernetes-managed hosts file (host network).\n{of_node}")
    } else {
        let names = full_name(pod, domain).into_iter().chain([host_name(pod)]).collect::<Vec<_>>().join("\t");
        ips.iter().fold(OWN.to_owned(), |text, ip| format!("{text}{ip}\t{names}\n"))
    };
    let aliases = pod.spec().host_aliases.as_deref().unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}\t{names}", alias.ip);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn a_pod_knows_itself_and_its_aliases() {
        let aliases = json!([{"ip": "192.0.2.7", "hostnames": ["till", "till.test"]}]);
        let pod = pod(json!({"hostname": "db-0", "subdomain": "db", "hostAliases": aliases}));
        let text = file(&pod, &["10.124.1.7".to_owned()], "cluster.local", "");
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{text}");
        assert!(text.contains("\n10.124.1.7\tdb-0.db.shop.svc.cluster.local\tdb-0\n"), "{text}");
        assert!(text.ends_with("\n# Entries added by HostAliases.\n192.0.2.7\ttill\ttill.test\n"), "{text}");
    }

    #[test]
    fn a_pod_in_the_nodes_network_sees_the_nodes_file() {
        let text = file(&pod(json!({"hostNetwork": true})), &[], "cluster.local", "127.0.0.1 localhost\n");
        assert_eq!(text, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n");
    }
}

//! Network cards that are to be moved into a node: only those that the machine itself does not use.

use std::path::Path;
use std::process::{Command, Stdio};

use c5c3_cri::links::Network;
use serde_json::Value;

/// Says why a network card cannot be moved, if one cannot.
pub(crate) fn check(network: &Network) -> Result<(), String> {
    let wanted = network.nodes.iter().flat_map(|node| node.nics.iter().map(move |nic| (node, nic)));
    for (node, nic) in wanted {
        let is_here = Path::new("/sys/class/net").join(nic).exists();
        if !is_here && !node.namespace.exists() {
            return Err(format!("--nic: this machine has no link {nic}; `ip link` lists them"));
        }
        if let Some(address) = addresses(nic).into_iter().next().filter(|_| is_here) {
            return Err(format!(
                "--nic: {nic} has the address {address}, by which this machine is reached; a card that is moved into a \
                node loses its addresses: remove them first (`ip address flush dev {nic}`), or use another card"
            ));
        }
    }
    Ok(())
}

/// The IPv4 addresses of a link.
fn addresses(link: &str) -> Vec<String> {
    let mut ask = Command::new("ip");
    let output = ask.args(["-4", "-json", "address", "show", "dev", link]).stdin(Stdio::null()).output();
    let links: Value = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    let infos = links.as_array().into_iter().flatten().filter_map(|link| link["addr_info"].as_array());
    infos.flatten().filter_map(|info| info["local"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use c5c3_cri::{Addresses, Instance, Site, links};

    use super::*;

    #[test]
    fn a_card_that_is_missing_or_in_use_is_refused() {
        let instance = Instance::new("zoo").unwrap();
        let site = Site::new(instance.clone(), "lion", "/data").unwrap();
        let with = |nic: &str| {
            let node = links::Node { nics: vec![nic.to_owned()], ..links::Node::new(1, &site) };
            check(&Network { instance: instance.clone(), addresses: Addresses::default(), nodes: vec![node] })
        };
        assert!(with("none0").unwrap_err().contains("this machine has no link none0"));
        assert!(with("lo").unwrap_err().contains("lo has the address 127.0.0.1"));
    }
}

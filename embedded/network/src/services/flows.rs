//! UDP flows that the kernel still sends where a Service no longer does.
//!
//! A TCP client notices that its peer is gone and connects again. A UDP client that keeps its port does not: the kernel
//! remembers where its first packet went for as long as packets come. Such memories are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use crate::namespace::{CommandError, Namespace};

/// Where Services are reached by UDP, and the endpoints behind each address.
pub type Frontends = BTreeMap<SocketAddrV4, BTreeSet<SocketAddrV4>>;

/// What the kernel remembers of a flow: both ends as the client sees them, and who really answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    client: SocketAddrV4,
    frontend: SocketAddrV4,
    backend: SocketAddrV4,
}

/// Ends the flows that go where none of these frontends leads now.
pub(super) async fn end_stale(namespace: &Namespace, old: &Frontends, new: &Frontends) {
    if old == new {
        return;
    }
    if let Err(error) = try_end_stale(namespace, old, new).await {
        tracing::warn!(%error, "UDP flows to endpoints that are gone were left to time out");
    }
}

async fn try_end_stale(namespace: &Namespace, old: &Frontends, new: &Frontends) -> Result<(), CommandError> {
    let listing = namespace.run("conntrack", &["-L", "-p", "udp"], "").await?;
    for flow in stale(&listing, old, new) {
        tracing::debug!(?flow, "a UDP flow is ended");
        let (client, frontend) = (flow.client, flow.frontend);
        let (source, destination) = (client.ip().to_string(), frontend.ip().to_string());
        let (source_port, port) = (client.port().to_string(), frontend.port().to_string());
        let which = ["-D", "-p", "udp", "-s", &source, "--sport", &source_port, "-d", &destination, "--dport", &port];
        match namespace.run("conntrack", &which, "").await {
            // It has timed out in between.
            Ok(_) | Err(CommandError::Failed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The flows of a listing that lead to none of the endpoints behind the address that they were sent to.
fn stale(listing: &str, old: &Frontends, new: &Frontends) -> Vec<Flow> {
    let ours = |flow: &Flow| old.contains_key(&flow.frontend) || new.contains_key(&flow.frontend);
    let served = |flow: &Flow| new.get(&flow.frontend).is_some_and(|backends| backends.contains(&flow.backend));
    listing.lines().filter_map(parse).filter(|flow| ours(flow) && !served(flow)).collect()
}

/// Reads `udp 17 29 src=C dst=F sport=1 dport=2 [UNREPLIED] src=B dst=C sport=3 dport=1 mark=0 use=1`.
fn parse(line: &str) -> Option<Flow> {
    let value = |key: &str, direction: usize| {
        line.split_whitespace().filter_map(|word| word.strip_prefix(key)?.strip_prefix('=')).nth(direction)
    };
    let end = |address: &str, port: &str, direction: usize| -> Option<SocketAddrV4> {
        let address = value(address, direction)?.parse().ok()?;
        Some(SocketAddrV4::new(address, value(port, direction)?.parse().ok()?))
    };
    Some(Flow { client: end("src", "sport", 0)?, frontend: end("dst", "dport", 0)?, backend: end("src", "sport", 1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
udp      17 29 src=10.1.0.5 dst=10.125.0.10 sport=4000 dport=53 src=10.1.0.9 dst=10.1.0.5 sport=5353 dport=4000 mark=0 use=1
udp      17 29 src=10.1.0.6 dst=10.125.0.10 sport=4001 dport=53 [UNREPLIED] src=10.1.0.8 dst=10.1.0.6 sport=5353 dport=4001 mark=0 use=1
udp      17 29 src=10.1.0.6 dst=8.8.8.8 sport=4002 dport=53 src=8.8.8.8 dst=10.1.0.6 sport=53 dport=4002 mark=0 use=1
udp      17 29 src=10.1.0.7 dst=10.125.0.11 sport=4003 dport=53 src=10.125.0.11 dst=10.1.0.7 sport=53 dport=4003 mark=0 use=1
";

    fn frontends(entries: &[(&str, &[&str])]) -> Frontends {
        let parse = |address: &&str| address.parse().unwrap();
        entries.iter().map(|(front, back)| (parse(front), back.iter().map(parse).collect())).collect()
    }

    fn clients(old: &Frontends, new: &Frontends) -> Vec<u16> {
        stale(LISTING, old, new).iter().map(|flow| flow.client.port()).collect()
    }

    #[test]
    fn flows_to_an_endpoint_that_is_gone_are_stale() {
        let new = frontends(&[("10.125.0.10:53", &["10.1.0.9:5353"])]);
        assert_eq!(clients(&Frontends::new(), &new), [4001]);
    }

    #[test]
    fn all_flows_of_a_service_that_is_gone_are_stale() {
        let old = frontends(&[("10.125.0.10:53", &["10.1.0.9:5353"])]);
        assert_eq!(clients(&old, &Frontends::new()), [4000, 4001]);
    }

    #[test]
    fn flows_that_began_before_the_service_did_are_stale() {
        let new = frontends(&[("10.125.0.11:53", &["10.1.0.9:5353"])]);
        assert_eq!(clients(&Frontends::new(), &new), [4003]);
    }
}

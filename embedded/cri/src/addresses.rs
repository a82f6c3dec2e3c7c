//! The addresses of a cluster, and which node has which. Pure arithmetic on four ranges.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The ranges of a cluster. The defaults are `10.123.0.0/24`, `10.123.1.0/24`, `10.124.0.0/16` and `10.125.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The machine, as seen by the nodes, and the nodes themselves.
    pub nodes: Ipv4Net,
    /// The provider network that hypervisors are connected to: the machine, routers of servers and floating IPs.
    pub provider: Ipv4Net,
    /// All pods; each node has a part of it with 256 addresses.
    pub pods: Ipv4Net,
    /// Services.
    pub services: Ipv4Net,
}

impl Default for Addresses {
    fn default() -> Self {
        Self::within(10, 123)
    }
}

impl Addresses {
    /// Neighbouring ranges: `first.second.0.0/24` for nodes, `first.second.1.0/24` for the provider network, and the next two
    /// `/16` for pods and Services.
    ///
    /// # Panics
    ///
    /// If `second` has no two neighbours above it.
    pub fn within(first: u8, second: u8) -> Self {
        let range = |offset, third, length| {
            Ipv4Net::new(Ipv4Addr::new(first, second + offset, third, 0), length).expect("the length is one of ours")
        };
        Self { nodes: range(0, 0, 24), provider: range(0, 1, 24), pods: range(1, 0, 16), services: range(2, 0, 16) }
    }

    /// The machine's address on the bridge, with the length of its range.
    pub fn bridge(&self) -> Ipv4Net {
        let address = at(self.nodes, 1);
        Ipv4Net::new(address, self.nodes.prefix_len()).expect("the length is that of a range")
    }

    /// The machine's address on the provider network, which is the gateway there, with the length of its range.
    pub fn gateway(&self) -> Ipv4Net {
        let address = at(self.provider, 1);
        Ipv4Net::new(address, self.provider.prefix_len()).expect("the length is that of a range")
    }

    /// The address of a node: the tenth and on, counted from zero.
    pub fn node(&self, index: u8) -> Ipv4Addr {
        at(self.nodes, 10 + u32::from(index))
    }

    /// The addresses of load balancers: the upper half of the nodes' range, where no node is.
    pub fn balancers(&self) -> Ipv4Net {
        Ipv4Net::new(at(self.nodes, 128), 25).expect("25 is a length")
    }

    /// The range of a node's pods.
    pub fn pods_of(&self, index: u8) -> Ipv4Net {
        Ipv4Net::new(at(self.pods, u32::from(index) << 8), 24).expect("24 is a length")
    }

    /// The Service `kubernetes`.
    pub fn kubernetes(&self) -> Ipv4Addr {
        at(self.services, 1)
    }

    /// The Service `kube-dns`.
    pub fn dns(&self) -> Ipv4Addr {
        at(self.services, 10)
    }
}

fn at(range: Ipv4Net, offset: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(range.network()).wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_the_third_node() {
        let addresses = Addresses::default();
        assert_eq!(addresses.bridge().to_string(), "10.123.0.1/24");
        assert_eq!(addresses.gateway().to_string(), "10.123.1.1/24");
        assert_eq!(addresses.node(2).to_string(), "10.123.0.12");
        assert_eq!(addresses.balancers().to_string(), "10.123.0.128/25");
        assert_eq!(addresses.pods_of(2).to_string(), "10.124.2.0/24");
        assert_eq!((addresses.kubernetes(), addresses.dns()), ([10, 125, 0, 1].into(), [10, 125, 0, 10].into()));
    }
}

//! Sets of whole numbers as ranges that neither touch nor overlap: addresses of a policy's peers, and ports.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// Numbers, as sorted ranges with both ends in them. nftables refuses ranges that overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(crate) fn add(&mut self, first: u32, last: u32) {
        self.0.push((first, last));
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(first, last) in &self.0 {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }

    pub(crate) fn remove(&mut self, first: u32, last: u32) {
        self.0 = self
            .0
            .iter()
            .flat_map(|&(from, to)| {
                let below = first.checked_sub(1).map(|end| (from, to.min(end)));
                let above = last.checked_add(1).map(|start| (from.max(start), to));
                [below, above]
            })
            .flatten()
            .filter(|(from, to)| from <= to)
            .collect();
    }

    pub(crate) fn add_net(&mut self, net: Ipv4Net) {
        self.add(net.network().to_bits(), net.broadcast().to_bits());
    }

    pub(crate) fn remove_net(&mut self, net: Ipv4Net) {
        self.remove(net.network().to_bits(), net.broadcast().to_bits());
    }

    pub(crate) fn add_address(&mut self, address: Ipv4Addr) {
        self.add(address.to_bits(), address.to_bits());
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for &(first, last) in &other.0 {
            self.add(first, last);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As elements of a set of addresses.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.written(Ipv4Addr::from_bits)
    }

    /// As elements of a set of ports.
    pub(crate) fn numbers(&self) -> Vec<String> {
        self.written(|number| number)
    }

    fn written<T: ToString>(&self, unit: impl Fn(u32) -> T) -> Vec<String> {
        let element = |&(first, last): &(u32, u32)| {
            let (first, last) = (unit(first).to_string(), unit(last).to_string());
            if first == last { first } else { format!("{first}-{last}") }
        };
        self.0.iter().map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    #[test]
    fn what_overlaps_or_touches_becomes_one() {
        let mut ports = Ranges::default();
        for (first, last) in [(8000, 8010), (80, 80), (8005, 8020), (8021, 8021), (443, 443)] {
            ports.add(first, last);
        }
        assert_eq!(ports.numbers(), ["80", "443", "8000-8021"]);
    }

    #[test]
    fn exceptions_are_cut_out() {
        let mut peers = Ranges::default();
        peers.add_net(net("10.0.0.0/8"));
        peers.remove_net(net("10.1.0.0/16"));
        peers.remove_net(net("10.255.255.255/32"));
        assert_eq!(peers.addresses(), ["10.0.0.0-10.0.255.255", "10.2.0.0-10.255.255.254"]);
        peers.remove_net(net("0.0.0.0/0"));
        assert!(peers.is_empty());
    }

    #[test]
    fn everything_is_a_range_too() {
        let mut all = Ranges::default();
        all.add_net(net("0.0.0.0/0"));
        all.add_address(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(all.addresses(), ["0.0.0.0-255.255.255.255"]);
    }
}

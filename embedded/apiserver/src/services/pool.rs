//! What is handed out once: addresses of a range, ports of the nodes, each with the uid of the Service that has it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ipnet::IpNet;

/// The ports that Services get on nodes.
pub(super) const PORTS: Range<u64> = 30000..32768;

/// The largest part of a range that is used: enough for any machine, and small enough to look through.
const MOST_ADDRESSES: u128 = 1 << 16;

/// Things that are handed out, and their holders.
#[derive(Debug)]
pub(super) struct Pool<T> {
    taken: HashMap<T, String>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { taken: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Pool<T> {
    /// Takes a thing. False: another has it.
    pub(super) fn take(&mut self, thing: T, owner: &str) -> bool {
        self.taken.entry(thing).or_insert_with(|| owner.to_owned()) == owner
    }

    /// Takes any that is free: at random from the upper ones, so that the lower ones stay for those who ask for one by
    /// name, and from the lower ones when there is no other.
    pub(super) fn take_any(&mut self, all: Range<u64>, upper: u64, nth: impl Fn(u64) -> T, owner: &str) -> Option<T> {
        for band in [upper..all.end, all.start..upper] {
            if band.is_empty() {
                continue;
            }
            let length = band.end - band.start;
            let first = rand::random_range(0..length);
            for step in 0..length {
                let thing = nth(band.start + (first + step) % length);
                if !self.taken.contains_key(&thing) {
                    self.take(thing, owner);
                    return Some(thing);
                }
            }
        }
        None
    }

    /// Gives a thing back, if it is that owner's.
    pub(super) fn give_back(&mut self, thing: T, owner: &str) {
        if self.taken.get(&thing).is_some_and(|held| held == owner) {
            self.taken.remove(&thing);
        }
    }
}

/// The address so many after the first of a range.
pub(super) fn nth(range: &IpNet, number: u64) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => {
            IpAddr::V4(Ipv4Addr::from(u32::from(first).wrapping_add(u32::try_from(number).unwrap_or(u32::MAX))))
        }
        IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from(u128::from(first).wrapping_add(u128::from(number)))),
    }
}

/// The numbers of the addresses of a range that can be handed out: neither the network's nor that of all its members.
pub(super) fn addresses(range: &IpNet) -> Range<u64> {
    let bits = u32::from(range.max_prefix_len() - range.prefix_len()).min(64);
    let size = (1u128 << bits).min(MOST_ADDRESSES);
    let last = if matches!(range, IpNet::V4(_)) { size - 1 } else { size };
    1..u64::try_from(last).unwrap_or(u64::MAX).max(1)
}

/// Where the upper part of a range begins: a sixteenth of it is kept for those who ask, between 16 and 256.
pub(super) fn upper_addresses(range: &IpNet) -> u64 {
    let all = addresses(range);
    let size = all.end - all.start;
    if size < 16 { all.start } else { all.start + (size / 16).clamp(16, 256).min(size) }
}

/// Where the upper part of the ports begins.
pub(super) fn upper_ports() -> u64 {
    PORTS.start + ((PORTS.end - PORTS.start) / 32).clamp(16, 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_range_is_handed_out_once() {
        let range: IpNet = "10.0.0.0/28".parse().unwrap();
        assert_eq!((addresses(&range), upper_addresses(&range)), (1..15, 1));
        let mut pool = Pool::default();
        let mut all: Vec<IpAddr> = (0..14)
            .map(|_| pool.take_any(addresses(&range), upper_addresses(&range), |n| nth(&range, n), "a").unwrap())
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), all[0], all[13]), (14, "10.0.0.1".parse().unwrap(), "10.0.0.14".parse().unwrap()));
        assert_eq!(pool.take_any(addresses(&range), 1, |n| nth(&range, n), "a"), None);
        pool.give_back(all[3], "another");
        assert!(!pool.take(all[3], "another"), "what is another's is not given back");
        pool.give_back(all[3], "a");
        assert!(pool.take(all[3], "another"));
    }

    #[test]
    fn the_lower_part_of_a_range_is_left_to_those_who_ask_for_it() {
        let range: IpNet = "10.125.0.0/16".parse().unwrap();
        assert_eq!((addresses(&range), upper_addresses(&range)), (1..65535, 257));
        assert_eq!(upper_ports(), 30086);
        let range: IpNet = "fd00::/108".parse().unwrap();
        assert_eq!(addresses(&range), 1..65536);
        assert_eq!(nth(&range, 10).to_string(), "fd00::a");
    }
}

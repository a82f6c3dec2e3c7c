//! Which addresses a cluster takes: ranges that nothing else on the machine uses.

use std::process::{Command, Stdio};

use c5c3_cri::Addresses;
use ipnet::Ipv4Net;

/// The second part of a cluster's first range, `10.B.0.0`; it takes three.
const BLOCKS: std::ops::RangeInclusive<u8> = 123..=240;

/// The ranges of a block.
pub(crate) fn of(block: u8) -> Addresses {
    Addresses::within(10, block)
}

/// The first block of which no range overlaps with one in use.
pub(crate) fn choose(used: &[Ipv4Net]) -> Option<u8> {
    let free = |block: &u8| {
        let Addresses { nodes, provider, pods, services } = of(*block);
        [nodes, provider, pods, services].iter().all(|own| used.iter().all(|used| !overlap(*own, *used)))
    };
    BLOCKS.step_by(3).find(free)
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The ranges that this machine has routes to; none if it does not say.
pub(crate) fn used() -> Option<Vec<Ipv4Net>> {
    let mut ask = Command::new("ip");
    let output = ask.args(["-4", "-json", "route", "show", "table", "all"]).stdin(Stdio::null()).output().ok()?;
    let routes: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let destinations = routes.as_array()?.iter().filter_map(|route| route["dst"].as_str());
    Some(destinations.filter_map(range).collect())
}

/// Reads `10.1.0.0/16`, or an address, which is a range of one.
fn range(text: &str) -> Option<Ipv4Net> {
    text.parse().ok().or_else(|| Ipv4Net::new(text.parse().ok()?, 32).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(ranges: &[&str]) -> Vec<Ipv4Net> {
        ranges.iter().map(|text| range(text).unwrap()).collect()
    }

    #[test]
    fn a_machine_without_such_routes_gets_the_first_block() {
        assert_eq!(choose(&used(&["192.168.1.0/24", "172.17.0.0/16"])), Some(123));
    }

    #[test]
    fn ranges_in_use_are_stepped_over_whether_wider_or_narrower() {
        assert_eq!(choose(&used(&["10.124.3.0/24"])), Some(126));
        assert_eq!(choose(&used(&["10.120.0.0/13"])), Some(129));
        assert_eq!(choose(&used(&["10.125.0.9"])), Some(126));
    }

    #[test]
    fn a_machine_whose_routes_take_all_of_it_gets_none() {
        assert_eq!(choose(&used(&["10.0.0.0/8"])), None);
    }
}

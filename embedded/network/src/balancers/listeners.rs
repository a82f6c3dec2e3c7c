//! Ports of the exposed address that processes of the machine listen on: a rule for a Service would take them over.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::Pool;
use super::allocate::Port;

/// The state of a listening TCP socket in `/proc/net/tcp`; an unconnected UDP socket has [`UNCONNECTED`].
const LISTEN: &str = "0A";
const UNCONNECTED: &str = "07";

/// The ports that are taken; none unless an address of the machine is exposed.
pub(super) fn taken(pool: Pool) -> BTreeSet<Port> {
    let Pool::Exposed(address) = pool else { return BTreeSet::new() };
    let read = |protocol: &str, file: &str, state: &str| {
        let text = std::fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
        listening(&text, address, state).into_iter().map(|port| (protocol.to_owned(), port)).collect::<Vec<_>>()
    };
    [("TCP", "tcp", LISTEN), ("TCP", "tcp6", LISTEN), ("UDP", "udp", UNCONNECTED), ("UDP", "udp6", UNCONNECTED)]
        .into_iter()
        .flat_map(|(protocol, file, state)| read(protocol, file, state))
        .collect()
}

/// The ports of sockets in this state that are bound to the address or to all addresses.
fn listening(text: &str, address: Ipv4Addr, state: &str) -> Vec<i32> {
    let own = format!("{:08X}", u32::from(address).swap_bytes());
    let mapped = format!("0000000000000000FFFF0000{own}");
    let is_bound = |bound: &str| bound.bytes().all(|digit| digit == b'0') || bound == own || bound == mapped;
    let socket = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (bound, port) = fields.next()?.split_once(':')?;
        let is_listening = fields.nth(1)? == state;
        (is_listening && is_bound(bound)).then(|| i32::from_str_radix(port, 16).ok())?
    };
    text.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_the_address_and_of_all_addresses_count() {
        let text = "  sl  local_address rem_address   st tx_queue\n\
                    0: 00000000:0016 00000000:0000 0A 00000000:00000000\n\
                    1: 0702000A:0050 00000000:0000 0A 00000000:00000000\n\
                    2: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                    3: 0702000A:01BB 0900000A:1000 01 00000000:00000000\n";
        assert_eq!(listening(text, Ipv4Addr::new(10, 0, 2, 7), LISTEN), [22, 80]);
    }

    #[test]
    fn a_listener_of_this_machine_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = i32::from(socket.local_addr().unwrap().port());
        assert!(taken(Pool::Exposed(Ipv4Addr::LOCALHOST)).contains(&("TCP".to_owned(), port)));
    }
}

//! Stale flows: those that match or output to a port which their bridge does not have. Packets to them are lost, and a new port
//! that gets the same number is taken for the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::openflow::{NEWEST, OLDEST, OpenFlowError, Session, number};

/// The ports of each bridge that only flows know.
pub type Stale = BTreeMap<String, BTreeSet<u32>>;

/// The names of each bridge's ports. A change is a reason to read the flows.
pub type Ports = BTreeMap<String, Vec<String>>;

/// How often flows are read while no port changes.
const SELDOM: Duration = Duration::from_mins(1);
/// How long ovn-controller has after a change, and how far apart the two reads are that must agree.
const SOON: Duration = Duration::from_secs(5);
/// A read may take a hundredth of the time: ovs-vswitchd does nothing else in its main thread meanwhile.
const SHARE: u32 = 100;
/// For how long the flows of one bridge are read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Multipart messages.
const FLOWS: u16 = 1;
const PORTS: u16 = 13;
/// Numbers from here on are no ports but names, such as LOCAL.
const RESERVED: u32 = 0xffff_ff00;

/// Reads flows until it is dropped, and tells of ports that two reads in a row found missing: between a port and its flows there
/// is always a moment in which only one of them is gone.
pub async fn follow(run: PathBuf, mut ports: watch::Receiver<Ports>, found: watch::Sender<Stale>) {
    let mut before = Stale::new();
    loop {
        let began = Instant::now();
        let bridges: Vec<String> = ports.borrow_and_update().keys().cloned().collect();
        let seen = read_all(&run, &bridges).await;
        let agreed = both(&before, &seen);
        found.send_if_modified(|known| std::mem::replace(known, agreed.clone()) != agreed);
        let is_decided = seen == agreed;
        before = seen;
        sleep((began.elapsed() * SHARE).max(SOON)).await;
        if is_decided {
            tokio::select! {
                () = sleep(SELDOM) => {}
                changed = ports.changed() => match changed {
                    Ok(()) => sleep(SOON).await,
                    Err(_) => return,
                },
            }
        }
    }
}

async fn read_all(run: &Path, bridges: &[String]) -> Stale {
    let mut seen = Stale::new();
    for bridge in bridges {
        let read = timeout(PATIENCE, read(&run.join(format!("{bridge}.mgmt")))).await;
        match read.unwrap_or(Err(OpenFlowError::TimedOut)) {
            Ok(ports) if ports.is_empty() => {}
            Ok(ports) => drop(seen.insert(bridge.clone(), ports)),
            Err(error) => tracing::debug!(%error, bridge, "its flows cannot be read"),
        }
    }
    seen
}

/// What both have.
fn both(one: &Stale, other: &Stale) -> Stale {
    let common = one.iter().filter_map(|(bridge, ports)| {
        let ports: BTreeSet<u32> = ports.intersection(other.get(bridge)?).copied().collect();
        (!ports.is_empty()).then(|| (bridge.clone(), ports))
    });
    common.collect()
}

/// The ports that flows of a bridge name and that it does not have. Ports are read last: one that is new is not taken for stale.
async fn read(socket: &Path) -> Result<BTreeSet<u32>, OpenFlowError> {
    let mut session = Session::open(socket, OLDEST..=NEWEST).await?;
    let version = session.version();
    let (mut named, mut existing) = (BTreeSet::new(), BTreeSet::new());
    session
        .ask(FLOWS, &all_flows(), |entries| {
            flows(version, entries, &mut named);
        })
        .await?;
    named.retain(|port| *port < RESERVED);
    if named.is_empty() {
        return Ok(named);
    }
    // From 1.5 on the question names a port; this one means any.
    let any = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let question = if version == NEWEST { &any[..] } else { &[] };
    session
        .ask(PORTS, question, |entries| {
            ports(version, entries, &mut existing);
        })
        .await?;
    Ok(named.difference(&existing).copied().collect())
}

/// The question for the flows of all tables, for any port and group, of any cookie, with an empty match.
pub fn all_flows() -> Vec<u8> {
    [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 4], &[0; 16], &[0, 1, 0, 4, 0, 0, 0, 0]].concat()
}

/// Splits what begins with its length at `at` off a list.
fn split(list: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let length = usize::from(number::<u16>(list, at)?);
    list.split_at_checked(length).filter(|(one, _)| one.len() > at)
}

/// Takes the ports that the flows of one part of an answer match or output to, up to where it ends or makes no sense.
fn flows(version: u8, mut entries: &[u8], found: &mut BTreeSet<u32>) -> Option<()> {
    let (head, has_statistics) = if version == NEWEST { (24, true) } else { (48, false) };
    loop {
        let (entry, rest) = split(entries, 0)?;
        entries = rest;
        let mut rest = fields(entry.get(head..)?, found)?;
        if has_statistics {
            let length = usize::from(number::<u16>(rest, 2)?).next_multiple_of(8);
            rest = rest.get(length..)?;
        }
        instructions(rest, found);
    }
}

/// Takes the port that a match names, and returns what follows the match.
fn fields<'a>(bytes: &'a [u8], found: &mut BTreeSet<u32>) -> Option<&'a [u8]> {
    const IN_PORT: [u8; 4] = [0x80, 0, 0, 4];
    let length = usize::from(number::<u16>(bytes, 2)?);
    let mut fields = bytes.get(4..length)?;
    while let Some(head) = fields.first_chunk::<4>() {
        if *head == IN_PORT {
            found.extend(number::<u32>(fields, 4));
        }
        fields = fields.get(4 + usize::from(head[3])..)?;
    }
    bytes.get(length.next_multiple_of(8)..)
}

fn instructions(mut list: &[u8], found: &mut BTreeSet<u32>) {
    const WRITE_ACTIONS: u16 = 3;
    const APPLY_ACTIONS: u16 = 4;
    while let Some((one, rest)) = split(list, 2) {
        if let Some(WRITE_ACTIONS | APPLY_ACTIONS) = number(one, 0) {
            actions(one.get(8..).unwrap_or_default(), found);
        }
        list = rest;
    }
}

/// Takes the ports that actions output to, and those within a `clone`.
fn actions(mut list: &[u8], found: &mut BTreeSet<u32>) {
    /// The type of an extension, Nicira's number, and that of `clone`.
    const CLONE: [u8; 8] = [0xff, 0xff, 0, 0, 0x23, 0x20, 0, 42];
    while let Some((one, rest)) = split(list, 2) {
        if number::<u16>(one, 0) == Some(0) {
            found.extend(number::<u32>(one, 4));
        } else if one.get(..2) == Some(&CLONE[..2]) && one.get(4..10) == Some(&CLONE[2..]) {
            actions(one.get(16..).unwrap_or_default(), found);
        }
        list = rest;
    }
}

/// Takes the ports of one part of an answer, up to where it ends. They have a length of their own from 1.4 on.
fn ports(version: u8, mut entries: &[u8], found: &mut BTreeSet<u32>) -> Option<()> {
    loop {
        let (entry, rest) = if version == OLDEST { entries.split_at_checked(64)? } else { split(entries, 4)? };
        entries = rest;
        found.insert(number(entry, 0)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow that matches port 7, and outputs to 8 and, within a clone, to 9 and LOCAL.
    fn flow(version: u8) -> Vec<u8> {
        let output = |port: u32| [&[0, 0, 0, 16][..], &port.to_be_bytes(), &[0; 8]].concat();
        let nested = [output(9), output(0xffff_fffe)].concat();
        let clone = [&[0xff, 0xff, 0, 48, 0, 0, 0x23, 0x20, 0, 42][..], &[0; 6], &nested].concat();
        let actions = [output(8), clone].concat();
        let apply = [&[0, 4, 0, 72, 0, 0, 0, 0][..], &actions].concat();
        let goto = [0, 1, 0, 8, 5, 0, 0, 0];
        // Type of Ethernet frame, then the port: 4 + 6 + 8 bytes, and 6 of padding.
        let matched = [&[0, 1, 0, 18][..], &[0x80, 0, 10, 2, 8, 0], &[0x80, 0, 0, 4, 0, 0, 0, 7], &[0; 6]].concat();
        let (head, statistics) = if version == NEWEST {
            (24, &[0, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0][..])
        } else {
            (48, &[][..])
        };
        let mut entry = [&vec![0; head], &matched[..], statistics, &apply, &goto].concat();
        let length = u16::try_from(entry.len()).unwrap();
        entry[..2].copy_from_slice(&length.to_be_bytes());
        entry
    }

    #[test]
    fn a_flow_names_the_ports_that_it_matches_and_outputs_to_in_all_versions() {
        for version in OLDEST..=NEWEST {
            let entries = [flow(version), flow(version)].concat();
            let mut found = BTreeSet::new();
            flows(version, &entries, &mut found);
            assert_eq!(found, [7, 8, 9, 0xffff_fffe].into(), "version {version}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_is_read_as_far_as_it_goes() {
        let entry = flow(OLDEST);
        for cut in 0..entry.len() {
            let (mut found, entries) = (BTreeSet::new(), [&entry[..], &entry[..cut]].concat());
            flows(OLDEST, &entries, &mut found);
            assert_eq!(found.len(), 4, "cut at {cut}");
        }
        let mut found = BTreeSet::new();
        flows(OLDEST, &[0; 64], &mut found);
        assert_eq!(found, BTreeSet::new(), "a length of nothing ends it");
    }

    #[test]
    fn a_port_counts_as_stale_when_two_reads_agree() {
        let seen = |bridge: &str, ports: &[u32]| Stale::from([(bridge.to_owned(), ports.iter().copied().collect())]);
        assert_eq!(both(&seen("br-int", &[7, 8]), &seen("br-int", &[8, 9])), seen("br-int", &[8]));
        assert_eq!(both(&seen("br-int", &[7]), &seen("br-ex", &[7])), Stale::new());
        assert_eq!(both(&seen("br-int", &[7]), &seen("br-int", &[9])), Stale::new());
    }
}

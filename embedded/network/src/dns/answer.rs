//! What a zone answers to a question. Pure.

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::zone::{TTL, Zone};

/// How many names an alias may lead through.
const LONGEST_CHAIN: usize = 8;

/// An answer, as far as the zone has one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether the name exists.
    pub code: ResponseCode,
    /// What was asked for.
    pub answers: Vec<Record>,
    /// Who says so; given when there is nothing that was asked for.
    pub authorities: Vec<Record>,
    /// What will be asked for next.
    pub additionals: Vec<Record>,
    /// An alias leads out of the zone, to this name: what it has belongs into the answer, too.
    pub elsewhere: Option<Name>,
}

/// The answer to a question. None: the zone is not the one to ask.
pub fn answer(zone: &Zone, name: &Name, kind: RecordType) -> Option<Answer> {
    if !zone.origin().zone_of(name) {
        // Reverse names are ours one by one: the addresses around ours are not.
        let known = zone.get(name)?;
        return Some(found(zone, name, kind, known));
    }
    let mut chain = Vec::new();
    let mut current = name.clone();
    loop {
        let known = match zone.get(&current) {
            Some(known) => known.to_vec(),
            None => pod(zone, &current).map(|address| vec![RData::A(A(address))]).unwrap_or_default(),
        };
        let alias =
            known.iter().find_map(|data| if let RData::CNAME(target) = data { Some(target.0.clone()) } else { None });
        let Some(target) = alias.filter(|_| !matches!(kind, RecordType::CNAME | RecordType::ANY)) else {
            let exists = !known.is_empty() || zone.get(&current).is_some();
            let mut answer = if exists { found(zone, &current, kind, &known) } else { not_found(zone) };
            answer.answers.splice(0..0, chain);
            return Some(answer);
        };
        chain.extend(known.into_iter().map(|data| Record::from_rdata(current.clone(), TTL, data)));
        if !zone.origin().zone_of(&target) {
            return Some(Answer { answers: chain, elsewhere: Some(target), ..Answer::default() });
        }
        if chain.len() > LONGEST_CHAIN {
            return Some(Answer { code: ResponseCode::ServFail, ..Answer::default() });
        }
        current = target;
    }
}

/// A name that exists: what it has of this kind, which may be nothing.
fn found(zone: &Zone, name: &Name, kind: RecordType, known: &[RData]) -> Answer {
    let wanted = known.iter().filter(|data| kind == RecordType::ANY || data.record_type() == kind);
    let answers: Vec<_> = wanted.map(|data| Record::from_rdata(name.clone(), TTL, data.clone())).collect();
    if answers.is_empty() {
        return Answer { authorities: vec![authority(zone)], ..Answer::default() };
    }
    Answer { additionals: targets(zone, &answers), answers, ..Answer::default() }
}

fn not_found(zone: &Zone) -> Answer {
    Answer { code: ResponseCode::NXDomain, authorities: vec![authority(zone)], ..Answer::default() }
}

fn authority(zone: &Zone) -> Record {
    Record::from_rdata(zone.origin().clone(), TTL, RData::SOA(zone.soa()))
}

/// The addresses of what these records lead to.
fn targets(zone: &Zone, answers: &[Record]) -> Vec<Record> {
    let mut targets: Vec<Record> = Vec::new();
    for record in answers {
        let target = match &record.data {
            RData::SRV(srv) => &srv.target,
            RData::NS(server) => &server.0,
            _ => continue,
        };
        for data in zone.get(target).unwrap_or_default() {
            let address = Record::from_rdata(target.clone(), TTL, data.clone());
            if matches!(data, RData::A(_)) && !targets.contains(&address) {
                targets.push(address);
            }
        }
    }
    targets
}

/// The address that a pod's name says: `10-1-2-3.NAMESPACE.pod`.
fn pod(zone: &Zone, name: &Name) -> Option<Ipv4Addr> {
    let namespace = name.base_name();
    let of_pods = namespace.base_name().iter().next() == Some(b"pod".as_slice());
    if !of_pods || name.num_labels() != zone.origin().num_labels() + 3 || zone.get(&namespace).is_none() {
        return None;
    }
    std::str::from_utf8(name.iter().next()?).ok()?.replace('-', ".").parse().ok()
}

#[cfg(test)]
mod tests;

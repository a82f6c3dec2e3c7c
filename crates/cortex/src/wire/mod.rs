//! The bodies of the external scheduler API: what Nova, Cinder and Manila send, as a [`Request`].

mod nova;
mod volumes;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Candidate, Domain, Options, Request};

/// Why a body is not a request. The words are the answer's body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not JSON, or of another shape.
    #[error("the body is not a request: {0}")]
    Undecodable(String),
    /// A host is there without a weight.
    #[error("missing weight for host {0}")]
    MissingWeight(String),
    /// A weight is there without a host.
    #[error("weight for unknown host {0}")]
    UnknownHost(String),
    /// A host is there twice.
    #[error("host {0} is offered twice")]
    HostTwice(String),
    /// Of the workload's description.
    #[error("{0}")]
    Spec(String),
}

#[derive(Deserialize)]
struct Body {
    spec: Value,
    hosts: Vec<BodyHost>,
    weights: HashMap<String, f64>,
    #[serde(default)]
    pipeline: Option<String>,
    #[serde(default)]
    options: Option<BodyOptions>,
}

#[derive(Deserialize)]
struct BodyHost {
    host: String,
    #[serde(default)]
    hypervisor_hostname: Option<String>,
}

#[allow(clippy::struct_excessive_bools)]
#[derive(Default, Deserialize)]
#[serde(default)]
struct BodyOptions {
    read_only: bool,
    assume_empty_hosts: bool,
    ignored_reservation_types: Vec<String>,
    max_candidates: usize,
    skip_history: bool,
    skip_inflight: bool,
}

impl From<BodyOptions> for Options {
    /// `read_only` alone is enough. Options about committed resources concern nothing that exists here.
    fn from(options: BodyOptions) -> Self {
        Self {
            read_only: options.read_only,
            assume_empty_hosts: options.assume_empty_hosts,
            ignore_in_flight: options.ignored_reservation_types.iter().any(|kind| kind == "InFlightReservation"),
            max_candidates: options.max_candidates,
            skip_history: options.skip_history,
            skip_in_flight: options.skip_inflight,
        }
    }
}

/// Reads the body of `POST /scheduler/DOMAIN/external`.
pub fn read(domain: Domain, body: &[u8]) -> Result<Request, WireError> {
    let body: Body = serde_json::from_slice(body).map_err(|error| WireError::Undecodable(error.to_string()))?;
    let mut request = match domain {
        Domain::Nova => nova::read(&body.spec)?,
        Domain::Cinder | Domain::Manila => volumes::read(domain, &body.spec)?,
    };
    request.candidates = candidates(body.hosts, body.weights)?;
    request.pipeline = body.pipeline.unwrap_or_default();
    request.options = body.options.unwrap_or_default().into();
    Ok(request)
}

fn candidates(hosts: Vec<BodyHost>, mut weights: HashMap<String, f64>) -> Result<Vec<Candidate>, WireError> {
    let mut candidates: Vec<Candidate> = Vec::with_capacity(hosts.len());
    for BodyHost { host, hypervisor_hostname: node } in hosts {
        let Some(weight) = weights.remove(&host) else {
            let twice = candidates.iter().any(|candidate| candidate.host == host);
            return Err(if twice { WireError::HostTwice(host) } else { WireError::MissingWeight(host) });
        };
        candidates.push(Candidate { host, node, weight });
    }
    match weights.into_keys().min() {
        Some(unknown) => Err(WireError::UnknownHost(unknown)),
        None => Ok(candidates),
    }
}

/// The body of the answer.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// Always a list: `null` makes a client ignore the answer.
    hosts: &'a [&'a str],
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// The body of the answer with these hosts, best first.
pub fn answer<'a>(hosts: &'a [&'a str]) -> Answer<'a> {
    Answer { hosts }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number; objects of Nova have some as floats.
fn amount(value: &Value, name: &str) -> Result<u64, WireError> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => whole(value).ok_or_else(|| WireError::Spec(format!("{name} is {value}, which is no amount"))),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str()?.trim().parse().ok())
        .or_else(|| value.as_f64().filter(|number| *number >= 0.0 && *number < 9e15).map(|number| number.ceil() as u64))
}

fn names(value: Option<&Value>) -> BTreeSet<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

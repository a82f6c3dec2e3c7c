//! How a server is set up.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};

/// Where objects are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory, for tests.
    Memory,
    /// In a folder, durably.
    Folder(PathBuf),
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where objects are kept.
    pub storage: Storage,
    /// Names and addresses of the server beside the usual ones, for its certificate.
    pub extra_names: Vec<String>,
    /// The address at which pods reach the server; where it listens, unless it says otherwise.
    pub advertise: Option<IpAddr>,
    /// The addresses that Services get. The first one is the server's own, as the Service `kubernetes`.
    pub service_range: IpNet,
    /// How long an event is kept after it was written last.
    pub event_ttl: Duration,
    /// How long the server's certificate lasts. It is renewed, while the server runs, when a third of that is left.
    pub certificate_life: Duration,
    /// Whether requests to pods, Services and nodes are passed on to loopback addresses. Only for tests, whose servers
    /// listen there: whoever may write an EndpointSlice would reach all that listens on this machine alone.
    pub reaches_loopback: bool,
}

impl Config {
    /// The usual set-up, with objects kept there.
    pub fn new(storage: Storage) -> Self {
        let service_range = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 125, 0, 0), 16));
        Self {
            storage,
            extra_names: Vec::new(),
            advertise: None,
            service_range,
            event_ttl: Duration::from_hours(1),
            certificate_life: c5c3_auth::SERVER_LIFE,
            reaches_loopback: false,
        }
    }

    /// What the server's certificate is for, beside the usual names.
    pub(crate) fn names(&self, own: IpAddr) -> Vec<String> {
        let addresses = std::iter::once(own).chain(self.advertise).map(|address| address.to_string());
        self.extra_names.iter().cloned().chain(addresses).collect()
    }
}

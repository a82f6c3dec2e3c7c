//! How much of a server each client takes up: one that opens connection after connection must leave room for others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The clients of a server, by their addresses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clients {
    most: usize,
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// What a client takes up, until this is dropped.
#[derive(Debug)]
pub struct Share {
    client: IpAddr,
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Clients {
    /// Clients that each have as many connections or requests at once, at most.
    pub fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// Lets a client have one more; none if it has as many as it may.
    pub fn admit(&self, client: IpAddr) -> Option<Share> {
        let client = client.to_canonical();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Share { client, held: self.held.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_its_share_leaves_others_theirs() {
        let clients = Clients::new(2);
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let shares = [clients.admit(one), clients.admit("::ffff:10.0.0.1".parse().unwrap())];
        assert!(shares.iter().all(Option::is_some));
        assert!(clients.admit(one).is_none() && clients.admit(other).is_some());
        drop(shares);
        assert!(clients.admit(one).is_some());
        assert!(clients.held.lock().unwrap().is_empty(), "clients that are gone are forgotten");
    }
}

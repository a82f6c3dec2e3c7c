//! One client for each credential of a process, however many objects use it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::client::{Client, Options};
use crate::clouds::CloudError;

/// A client that is unused for this time is dropped with its token: its Secret was rotated or deleted.
const UNUSED: Duration = Duration::from_hours(1);

/// The clients of a process, by cloud and credential.
pub struct Clients {
    options: Options,
    clients: Mutex<HashMap<[u8; 32], (Client, Instant)>>,
}

impl Clients {
    /// An empty cache. Its clients share these options.
    pub fn new(options: Options) -> Self {
        Self { options, clients: Mutex::default() }
    }

    /// The client of a credential. Equal credentials of the same cloud share one, and with it the token.
    pub fn client(&self, access: &Access) -> Result<Client, CloudError> {
        let now = self.options.clock.now();
        let mut clients = self.clients.lock().expect("no one panics with the lock");
        clients.retain(|_, (_, used)| now.saturating_duration_since(*used) < UNUSED);
        if let Some((client, used)) = clients.get_mut(&access.digest()) {
            *used = now;
            return Ok(client.clone());
        }
        let client = Client::new(access.cloud().clone(), access.credential().clone(), self.options.clone())?;
        clients.insert(access.digest(), (client.clone(), now));
        Ok(client)
    }
}

//! The client against a scripted Keystone: tokens, retries, errors, endpoints, pages and resources.

mod calls;
mod keystone;
mod resources;
mod retries;
mod tokens;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use c5c3_openstack::{Client, Clock, Cloud, Credential, Metrics, Options};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::keystone::Keystone;

/// A clock that a test advances. Waiting advances it, too, and takes no time.
struct ManualClock {
    start: Instant,
    passed: Mutex<Duration>,
    waits: Mutex<Vec<Duration>>,
}

impl ManualClock {
    fn advance(&self, time: Duration) {
        *self.passed.lock().unwrap() += time;
    }

    fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap().clone()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.waits.lock().unwrap().push(time);
        self.advance(time);
        Box::pin(std::future::ready(()))
    }
}

/// A Keystone and a client of it.
struct Stage {
    keystone: Keystone,
    client: Client,
    clock: Arc<ManualClock>,
    metrics: Metrics,
}

const SECRET: &str = "cherry-secret";

fn credential() -> Credential {
    Credential::Application { id: "a1".into(), secret: SECRET.into() }
}

impl Stage {
    async fn start() -> Self {
        let keystone = Keystone::start().await;
        let cloud = Cloud { region: Some("south".into()), ..Cloud::new(keystone.url()) };
        Self::of(keystone, cloud)
    }

    fn of(keystone: Keystone, cloud: Cloud) -> Self {
        let (start, passed, waits) = (Instant::now(), Mutex::default(), Mutex::default());
        let clock = Arc::new(ManualClock { start, passed, waits });
        let metrics = Metrics::default();
        let options = Options { clock: clock.clone(), metrics: metrics.clone(), ..Options::default() };
        let client = Client::new(cloud, credential(), options).unwrap();
        Self { keystone, client, clock, metrics }
    }

    fn authentications(&self) -> usize {
        self.keystone.requests(keystone::TOKENS).len()
    }

    fn metrics_text(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        text
    }
}

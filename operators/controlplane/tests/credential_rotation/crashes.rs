//! The operator is killed after its first write, after its second and so on, in each phase, and goes on from what the cluster
//! holds.

use std::time::Duration;

use crate::lives::nothing_secret_is_said;
use crate::mortal::Mortal;
use crate::site::{Site, consumers, operator};

/// Lets an operator live for so many writes. It is killed when it is about to make another, or has nothing left to do.
async fn live(site: &Site, writes: usize) -> bool {
    let mortal = Mortal::new(site.cluster.client(), site.cluster.namespace(), writes);
    let task = operator(mortal.client);
    let died = tokio::time::timeout(Duration::from_secs(1), mortal.died.notified()).await.is_ok();
    task.abort();
    let _ = task.await;
    died
}

#[tokio::test]
async fn a_rotation_that_is_killed_between_any_two_writes_ends_with_exactly_one_valid_credential() {
    let mut site = Site::open().await;
    site.serve().await;
    site.rotate(consumers()).await;
    let (mut kills, mut version) = (0, 0);
    while kills < 50 {
        version += 1;
        if version > 1 {
            site.request(&version.to_string()).await;
        }
        let (mut writes, mut phase) = (1, None);
        loop {
            kills += usize::from(live(&site, writes).await);
            let valid = site.ids();
            assert!(valid.len() <= 2, "{valid:?}");
            if let Some(delivered) = site.delivered().await {
                assert!(valid.contains(&delivered), "services read {delivered}, and Keystone has {valid:?}");
            }
            let status = site.until("it has a status", |_| true).await;
            if status["phase"] == "Idle" && status["currentCredential"]["version"] == version {
                break;
            }
            // A new process applies everything again, so it has to live longer to get further.
            let now = Some(status["phase"].clone());
            writes = if now == phase { writes + 1 } else { 1 };
            phase = now;
            assert!(writes < 100, "{status:#}");
        }
        let ids = site.ids();
        assert_eq!((ids.len(), site.delivered().await), (1, ids.first().cloned()));
    }
    assert!(version > 1, "a credential was replaced");
    nothing_secret_is_said(&site).await;
}

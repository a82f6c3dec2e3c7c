//! A rotation under load: Placement validates new tokens with its own credential while that is replaced, and the old one ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cloud::http::{Server, ask};
use crate::cloud::{Cloud, Identity};

/// Ten requests a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// A load of requests that Placement has to ask Keystone about.
struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    fn start(cloud: &Cloud) -> Self {
        let address = cloud.machine.ok("kubectl -n cloud get service placement -o jsonpath='{.spec.clusterIP}'");
        let placement = Server::plain(format!("{address}:8778").parse().unwrap());
        let (stop, identity) = (Arc::new(AtomicBool::new(false)), cloud.identity.clone());
        let is_over = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut done, mut failures) = (0, Vec::new());
            while !is_over.load(Ordering::SeqCst) {
                done += 1;
                failures.extend(request(&identity, &placement).err());
                std::thread::sleep(INTERVAL);
            }
            (done, failures)
        });
        Self { stop, thread }
    }

    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// A token that no cache knows, so that Placement asks Keystone about it.
fn request(identity: &Identity, placement: &Server) -> Result<(), String> {
    let token = identity.sign_in()?;
    let answer = ask(placement, "GET", "/resource_providers", &[("X-Auth-Token", &token)], "")?;
    match answer.status {
        200 => Ok(()),
        status => Err(format!("placement: {status}: {}", answer.body)),
    }
}

/// Rotates twice: the second rotation revokes the credential of before the first.
pub fn loses_no_request_and_ends_the_old_credential(cloud: &Cloud) {
    let value = |key: &str| {
        let path = format!("{{.data.{key}}}");
        cloud
            .machine
            .ok(&format!("kubectl -n cloud get secret placement-keystone-credentials -o jsonpath='{path}' | base64 -d"))
    };
    let old = (value("application_credential_id"), value("application_credential_secret"));
    cloud.identity.sign_in_with(&old.0, &old.1).unwrap();
    let load = Load::start(cloud);
    for _ in 0..2 {
        let said = cloud.machine.ok("$C5C3 rotate placement-rotation -n cloud --wait --data $PWD/data");
        assert!(said.contains("the new credential is in use"), "{said}");
    }
    let (done, failures) = load.end();
    eprintln!("two rotations under {done} requests, {} of which failed", failures.len());
    assert!(done > 20 && failures.is_empty(), "{done} requests: {failures:#?}");
    let refused = cloud.identity.sign_in_with(&old.0, &old.1).unwrap_err();
    assert!(refused.contains("401") || refused.contains("404"), "{refused}");
    let new = (value("application_credential_id"), value("application_credential_secret"));
    cloud.identity.sign_in_with(&new.0, &new.1).unwrap();
    let listed = cloud.machine.ok("$C5C3 credentials -n cloud --data $PWD/data");
    assert!(listed.contains("placement") && !listed.contains(&new.1), "{listed}");
}

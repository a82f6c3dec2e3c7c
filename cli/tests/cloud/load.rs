//! Requests at a fixed rate, whatever else happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many take turns, so that one that waits for an answer does not hold up the next.
const CLIENTS: u32 = 20;

/// The share of the rate that has to be reached on average, in percent: what is late is made up for, so that less than this means
/// that the services did not keep up, on two busy cores, too.
const LEAST_SHARE: u32 = 50;

/// A load of requests at a fixed rate.
pub struct Load {
    what: &'static str,
    wanted: u32,
    begun: Instant,
    stop: Arc<AtomicBool>,
    failures: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    /// Sends that many requests a second.
    pub fn start(
        what: &'static str,
        rate: u32,
        request: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let interval = Duration::from_secs(1) / rate;
        let (begun, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let (request, failures) = (Arc::new(request), Arc::new(Mutex::new(Vec::new())));
        let clients = (0..CLIENTS).map(|turn| {
            let (request, stop, failures) = (request.clone(), stop.clone(), failures.clone());
            std::thread::spawn(move || {
                let mut done = 0;
                let mut next = begun + interval * turn;
                while !stop.load(Ordering::SeqCst) {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    next += interval * CLIENTS;
                    if let Err(failure) = request() {
                        failures.lock().unwrap().push(format!("{:.1?}: {failure}", begun.elapsed()));
                    }
                    done += 1;
                }
                done
            })
        });
        Self { what, wanted: rate, begun, stop: stop.clone(), failures: failures.clone(), clients: clients.collect() }
    }

    /// Ends the load, prints what it was, and asserts that it was a load.
    pub fn end(self) -> Vec<String> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::SeqCst);
        let done: usize = self.clients.into_iter().map(|client| client.join().unwrap()).sum();
        let failures = std::mem::take(&mut *self.failures.lock().unwrap());
        let rate = f64::from(u32::try_from(done).unwrap()) / seconds;
        eprintln!(
            "{}: {done} requests in {seconds:.0} s, {rate:.1} of {} a second, {} of which failed",
            self.what,
            self.wanted,
            failures.len()
        );
        assert!(done > 20, "{}: {done} requests", self.what);
        let least = f64::from(self.wanted * LEAST_SHARE) / 100.0;
        assert!(
            rate >= least,
            "{}: {rate:.1} requests a second, and {least:.1} are the least: {failures:#?}",
            self.what
        );
        failures
    }
}

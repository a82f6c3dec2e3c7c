//! A constant load of token requests: made, exchanged, validated, whatever happens meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cloud::{Identity, Token};

/// Twenty requests a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// How many may be under way. A machine that is too slow for the load gets less of it, in the place of more and more.
const UNDER_WAY: usize = 100;

/// One in so many signs in with the password, which costs ten times what the others do.
const PASSWORD_EVERY: usize = 20;

/// A load that goes on until it is ended.
pub struct Load {
    shared: Arc<Shared>,
    ticking: JoinHandle<()>,
}

struct Shared {
    identity: Identity,
    latest: Mutex<Token>,
    failures: Mutex<Vec<String>>,
    done: AtomicUsize,
    under_way: AtomicUsize,
    stop: AtomicBool,
    begun: Instant,
}

impl Load {
    /// Begins with a token that is good.
    pub fn start(identity: &Identity, token: &Token) -> Self {
        let shared = Arc::new(Shared {
            identity: identity.clone(),
            latest: Mutex::new(token.clone()),
            failures: Mutex::default(),
            done: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            begun: Instant::now(),
        });
        let ticking = shared.clone();
        Self { shared, ticking: std::thread::spawn(move || tick(&ticking)) }
    }

    /// Ends it, waits for what is under way, and says how many requests there were and which of them failed.
    pub fn end(self) -> (usize, Vec<String>) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.ticking.join().unwrap();
        while self.shared.under_way.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(INTERVAL);
        }
        let failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.shared.done.load(Ordering::SeqCst), failures)
    }
}

fn tick(shared: &Arc<Shared>) {
    for turn in 0.. {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        if shared.under_way.fetch_add(1, Ordering::SeqCst) < UNDER_WAY {
            let shared = shared.clone();
            std::thread::spawn(move || shared.request(turn));
        } else {
            shared.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        std::thread::sleep(INTERVAL);
    }
}

impl Shared {
    fn request(&self, turn: usize) {
        let asked = self.begun.elapsed();
        let latest = self.latest.lock().unwrap().clone();
        let outcome = match turn {
            turn if turn % PASSWORD_EVERY == 0 => self.identity.sign_in().map(Some),
            turn if turn % 2 == 0 => self.identity.exchange(&latest).map(Some),
            _ => self.identity.validate(&latest).map(|()| None),
        };
        match outcome {
            Ok(Some(token)) => *self.latest.lock().unwrap() = token,
            Ok(None) => {}
            Err(error) => {
                let (asked, now) = (asked.as_secs_f64(), self.begun.elapsed().as_secs_f64());
                self.failures.lock().unwrap().push(format!("request {turn}, {asked:.1} s to {now:.1} s: {error}"));
            }
        }
        self.done.fetch_add(1, Ordering::SeqCst);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

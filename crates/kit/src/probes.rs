//! Asks probes on a timer of their own. A reconcile reads the last answer; one that turns starts a reconcile.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Client;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::object::Ref;
use crate::probe::{Answer, Probe};

/// How soon a probe is asked again that failed.
const WHILE_BAD: Duration = Duration::from_secs(5);

/// How many failures in a row turn a good answer: one lost packet makes no outage.
const FAILURES: u32 = 2;

/// How many probes are asked at a time: one that does not answer takes its whole time limit.
const CONCURRENCY: usize = 16;

/// What is known of one probe.
#[derive(Debug)]
struct Record {
    answer: Answer,
    failures: u32,
    next: Instant,
    interval: Duration,
    keeps_text: bool,
    /// Whose reconciles read it.
    owners: HashSet<Ref>,
}

impl Record {
    fn new(probe: &Probe, answer: Answer, owner: &Ref, now: Instant) -> Self {
        let Probe { interval, keeps_text, .. } = *probe;
        let mut record = Self { answer, failures: 0, next: now, interval, keeps_text, owners: [owner.clone()].into() };
        record.schedule(now);
        record
    }

    /// Notes an answer, and says whether it turned from good to bad or back, or has another text.
    fn heard(&mut self, answer: Answer, now: Instant) -> bool {
        self.failures = if answer.is_ok() { 0 } else { self.failures + 1 };
        let is_believed = answer.is_ok() || self.answer.is_err() || self.failures >= FAILURES;
        let both_bad = answer.is_err() && self.answer.is_err();
        let same = answer == self.answer || (both_bad && !self.keeps_text);
        let turned = is_believed && !same;
        if is_believed {
            self.answer = answer;
        }
        self.schedule(now);
        turned
    }

    /// With jitter, so that services that came together are not asked together.
    fn schedule(&mut self, now: Instant) {
        let is_good = self.answer.is_ok() && self.failures == 0;
        let interval = if is_good { self.interval } else { WHILE_BAD };
        self.next = now + interval.mul_f64(rand::random_range(0.9..=1.1));
    }
}

/// The probes of all objects of a controller.
#[derive(Debug, Default)]
pub struct Probes {
    records: Mutex<HashMap<Probe, Record>>,
    changed: Notify,
}

impl Probes {
    /// The last answer to a probe of `owner`. One that was never asked is asked now.
    pub(crate) async fn answer(&self, owner: &Ref, probe: &Probe, client: &Client) -> Answer {
        if let Some(record) = self.lock().get_mut(probe) {
            record.owners.insert(owner.clone());
            return record.answer.clone();
        }
        let answer = probe.ask(client).await;
        let now = Instant::now();
        let mut records = self.lock();
        // Another object may have asked the same meanwhile.
        let record = records.entry(probe.clone()).or_insert_with(|| Record::new(probe, answer, owner, now));
        record.owners.insert(owner.clone());
        let answer = record.answer.clone();
        drop(records);
        self.changed.notify_one();
        answer
    }

    /// Asks nothing but these for `owner` from now on.
    pub(crate) fn keep_only(&self, owner: &Ref, probes: &[Probe]) {
        self.lock().retain(|probe, record| {
            if !probes.contains(probe) {
                record.owners.remove(owner);
            }
            !record.owners.is_empty()
        });
    }

    /// Asks each probe when it is due, for ever, and sends whose answer turned to `triggers`.
    pub(crate) async fn keep_asking(&self, client: &Client, triggers: &Sender<Ref>) {
        loop {
            let next = self.lock().values().map(|record| record.next).min();
            let until_next = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until_next => {}
                () = self.changed.notified() => continue,
            }
            let now = Instant::now();
            let due: Vec<Probe> =
                self.lock().iter().filter(|(_, record)| record.next <= now).map(|(probe, _)| probe.clone()).collect();
            let asked = stream::iter(due).for_each_concurrent(CONCURRENCY, |probe| async move {
                let answer = probe.ask(client).await;
                for owner in self.heard(&probe, answer) {
                    // The receiver is dropped when the controller ends.
                    let _ = triggers.send(owner).await;
                }
            });
            asked.await;
        }
    }

    /// Records an answer, and returns the objects to reconcile because of it.
    fn heard(&self, probe: &Probe, answer: Answer) -> Vec<Ref> {
        let mut records = self.lock();
        let Some(record) = records.get_mut(probe) else { return Vec::new() };
        if let Err(error) = &answer {
            tracing::debug!(service = probe.service, namespace = probe.namespace, error, "a probe failed");
        }
        let turned = record.heard(answer, Instant::now());
        if turned { record.owners.iter().cloned().collect() } else { Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Probe, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    fn bad() -> Answer {
        Err("no".into())
    }

    fn owner() -> Ref {
        Ref::namespaced::<ConfigMap>("orchard", "tree")
    }

    fn probe(keeps_text: bool, interval: Duration) -> Probe {
        Probe {
            namespace: "orchard".into(),
            service: "press".into(),
            port: 80,
            tls: false,
            path: "/".into(),
            keeps_text,
            interval,
        }
    }

    #[tokio::test]
    async fn one_failure_does_not_turn_a_good_answer_and_two_do() {
        let now = Instant::now();
        let mut record = Record::new(&probe(false, Probe::INTERVAL), Ok(String::new()), &owner(), now);
        assert!(record.next > now + Duration::from_secs(50));
        assert!(!record.heard(bad(), now) && record.answer.is_ok());
        assert!(record.next < now + Duration::from_secs(6), "a doubt is cleared up soon");
        assert!(!record.heard(Ok(String::new()), now) && !record.heard(bad(), now));
        assert!(record.heard(bad(), now) && record.answer.is_err());
        assert!(!record.heard(bad(), now));
        assert!(record.heard(Ok(String::new()), now) && record.answer.is_ok(), "one good answer is enough");
        assert!(record.heard(Ok("7 GiB are free".into()), now), "another text is another answer");
        assert!(!record.heard(Ok("7 GiB are free".into()), now));
    }

    #[tokio::test]
    async fn what_is_wrong_is_an_answer_of_its_own_where_the_text_is_kept() {
        let now = Instant::now();
        let other = || Err("nothing else either".into());
        let turns = |keeps_text| {
            let mut record = Record::new(&probe(keeps_text, Probe::INTERVAL), bad(), &owner(), now);
            (record.heard(bad(), now), record.heard(other(), now), record.answer == other())
        };
        assert_eq!(turns(true), (false, true, true));
        assert_eq!(turns(false), (false, false, true), "a reconcile for another reason reads the last text");
    }

    #[tokio::test]
    async fn a_probe_that_something_depends_on_is_asked_as_often_as_it_says() {
        let now = Instant::now();
        let record = Record::new(&probe(true, Probe::SHORT_INTERVAL), Ok("ready".into()), &owner(), now);
        let after = record.next - now;
        assert!((18..=22).contains(&after.as_secs()), "{after:?}");
    }

    /// A service behind an API, the status that it answers with, and how often it was asked.
    fn service() -> (Client, Arc<AtomicU16>, Arc<AtomicUsize>) {
        let (code, asked) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
        let (answers, counted) = (code.clone(), asked.clone());
        let api = service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = Response::builder().status(answers.load(Ordering::SeqCst)).body(Body::from(b"{}".to_vec()));
            std::future::ready(answer)
        });
        (Client::new(api, "orchard"), code, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_at_rest_is_asked_once_a_minute_and_starts_no_reconcile_until_its_answer_turns() {
        let (client, code, asked) = service();
        let (triggers, mut triggered) = tokio::sync::mpsc::channel(8);
        let probes = Arc::new(Probes::default());
        let probe = probe(false, Probe::INTERVAL);
        for _ in 0..3 {
            assert_eq!(probes.answer(&owner(), &probe, &client).await, Ok(String::new()));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "a reconcile reads the last answer");
        let (asking, own_client) = (probes.clone(), client.clone());
        let task = tokio::spawn(async move { asking.keep_asking(&own_client, &triggers).await });
        let at_rest = tokio::time::timeout(Duration::from_mins(10), triggered.recv()).await;
        assert!(at_rest.is_err(), "nothing turned");
        let count = asked.load(Ordering::SeqCst);
        assert!((10..=12).contains(&count), "{count} times in ten minutes");
        code.store(500, Ordering::SeqCst);
        assert_eq!(triggered.recv().await, Some(owner()));
        assert!(probes.answer(&owner(), &probe, &client).await.is_err());
        code.store(200, Ordering::SeqCst);
        assert_eq!(triggered.recv().await, Some(owner()));
        probes.keep_only(&owner(), &[]);
        assert!(probes.lock().is_empty(), "no object has probes any more");
        task.abort();
    }
}

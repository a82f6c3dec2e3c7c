//! One turn: reads what is known of each host, decides, makes the calls, tells. And the turns, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::hypervisor::Hypervisor as HypervisorKind;
use c5c3_kit::events::Events;
use c5c3_kit::{Ref, Task};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::decide::{Action, Host, Known, Power, cliff, decide};
use crate::fence::{Fence, FenceRequest, Fencer};
use crate::read::{Eviction, Hypervisor, Node, evictions, host, hypervisors, nodes};
use crate::report::{self, Fenced, Report};
use crate::restart::{Evictions, Look, Made, scene};
use crate::{Compute, Means, NAME, NAMESPACE};

/// Runs until the task is stopped.
pub(crate) async fn run(mut task: Task, means: Arc<Means>) {
    let (client, stop) = (task.client.clone(), task.stop.clone());
    let namespace = task.options.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
    let events = Events::new(client.clone(), NAME);
    let mut watch = Watch::new(&client);
    let work = async move {
        loop {
            let is_due = watch.is_due(means.policy.interval).await;
            if watch.is_known() {
                task.started();
            }
            if is_due {
                let turn = Turn { client: &client, namespace: &namespace, means: &means, events: &events };
                turn.take(&watch.hypervisors, &watch.nodes, &watch.evictions).await;
            }
        }
    };
    Box::pin(stop.run_until_cancelled_owned(work)).await;
}

/// The hosts of the cluster, as they are now.
struct Watch {
    nodes: BTreeMap<String, Node>,
    hypervisors: BTreeMap<String, Hypervisor>,
    evictions: Evictions,
    node_events: BoxStream<'static, Event<Node>>,
    hypervisor_events: BoxStream<'static, Event<Hypervisor>>,
    eviction_events: BoxStream<'static, Event<Eviction>>,
    listed: (bool, bool, bool),
    /// The hosts about which there may be something to do.
    of_interest: BTreeSet<String>,
    /// When they are looked at next: neither their patience nor Nova sends events.
    due: Instant,
}

impl Watch {
    fn new(client: &Client) -> Self {
        Self {
            nodes: BTreeMap::new(),
            hypervisors: BTreeMap::new(),
            evictions: BTreeMap::new(),
            node_events: events(nodes(client), "Node"),
            hypervisor_events: events(hypervisors(client), "Hypervisor"),
            eviction_events: events(evictions(client), "Eviction"),
            listed: (false, false, false),
            of_interest: BTreeSet::new(),
            due: Instant::now(),
        }
    }

    fn is_known(&self) -> bool {
        self.listed == (true, true, true)
    }

    /// Waits for something that happens; whether it is time for a turn. Agents write to their Hypervisors all the time, so that an
    /// event alone is no reason for one.
    async fn is_due(&mut self, interval: Duration) -> bool {
        let is_known = self.is_known();
        let changed = tokio::select! {
            Some(event) = self.node_events.next() => fold(&mut self.nodes, &mut self.listed.0, event),
            Some(event) = self.hypervisor_events.next() => fold(&mut self.hypervisors, &mut self.listed.1, event),
            Some(event) = self.eviction_events.next() => {
                let about = match &event {
                    Event::Apply(one) | Event::InitApply(one) | Event::Delete(one) => Some(one.spec.hypervisor.clone()),
                    Event::Init | Event::InitDone => None,
                };
                let changed = fold(&mut self.evictions, &mut self.listed.2, event);
                about.map_or(changed, Changed::One)
            }
            () = tokio::time::sleep_until(self.due), if is_known && !self.of_interest.is_empty() => {
                self.due = Instant::now() + interval;
                return true;
            }
        };
        match changed {
            Changed::One(name) => self.look(&name),
            // Which hosts there are has changed.
            Changed::All => {
                self.of_interest.clear();
                let names: Vec<String> = self.hypervisors.keys().cloned().collect();
                for name in &names {
                    self.look(name);
                }
            }
        }
        false
    }

    /// Looks whether there may be something to do about a host, or `HaEnabled` has to be written.
    fn look(&mut self, name: &str) {
        let is_of_interest = self.hypervisors.get(name).is_some_and(|hypervisor| {
            let host = host(hypervisor, self.nodes.get(name));
            host.is_of_interest()
                || !report::is_enabled_told(hypervisor)
                || scene(hypervisor, &host, &self.evictions).is_of_interest()
        });
        if is_of_interest {
            self.of_interest.insert(name.to_owned());
        } else {
            self.of_interest.remove(name);
        }
    }
}

/// What an event was about.
enum Changed {
    One(String),
    All,
}

/// Follows an event. While a list is read again, hosts are missing: in a part of them, many failed hosts may look like few.
fn fold<K: kube::Resource>(known: &mut BTreeMap<String, K>, listed: &mut bool, event: Event<K>) -> Changed {
    match event {
        Event::Apply(object) | Event::InitApply(object) => {
            let name = object.name_any();
            known.insert(name.clone(), object);
            Changed::One(name)
        }
        Event::Delete(object) => {
            known.remove(&object.name_any());
            Changed::One(object.name_any())
        }
        Event::Init => {
            known.clear();
            *listed = false;
            Changed::All
        }
        Event::InitDone => {
            *listed = true;
            Changed::All
        }
    }
}

fn events<K>(api: Api<K>, kind: &'static str) -> BoxStream<'static, Event<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let told = move |event: Result<Event<K>, watcher::Error>| {
        let event = event.inspect_err(|error| tracing::warn!(kind, %error, "a watch failed and is started again"));
        futures::future::ready(event.ok())
    };
    events.filter_map(told).boxed()
}

/// What a turn works with.
pub(crate) struct Turn<'a> {
    pub(crate) client: &'a Client,
    namespace: &'a str,
    pub(crate) means: &'a Means,
    events: &'a Events,
}

/// What calls are made with, as far as it is there.
type With<'a> = (Option<&'a Arc<dyn Compute>>, Option<&'a Arc<dyn Fencer>>);

impl Turn<'_> {
    async fn take(
        &self,
        hypervisors: &BTreeMap<String, Hypervisor>,
        nodes: &BTreeMap<String, Node>,
        evictions: &Evictions,
    ) {
        let hosts: Vec<Host> =
            hypervisors.values().map(|hypervisor| host(hypervisor, nodes.get(&hypervisor.name_any()))).collect();
        let cliff = cliff(&hosts, &self.means.policy);
        let (mut compute, mut fencer): (Option<Made<dyn Compute>>, _) = (None, None);
        for (hypervisor, host) in hypervisors.values().zip(hosts) {
            let mut known = Known { host, nova: None, cliff: cliff.clone(), fencing: None };
            let guests = Look::at(hypervisor, &known.host, evictions, &self.means.policy.guests);
            if !known.host.is_of_interest() && report::is_enabled_told(hypervisor) && guests.is_none() {
                continue;
            }
            let fenced = known.host.fenced_at.filter(|_| known.host.is_fenced());
            if compute.is_none() && (fenced.is_some() || guests.as_ref().is_some_and(Look::asks)) {
                compute = Some((self.means.compute)(self.client.clone(), self.namespace.to_owned()).await);
            }
            if let Some(fenced) = fenced {
                known.nova = match &compute {
                    Some(Ok(nova)) => Some(nova.ask(&known.host, fenced).await),
                    Some(Err(why)) => Some(Err(why.clone())),
                    None => None,
                };
            } else if matches!(known.host.power, Power::Lost(_)) {
                if fencer.is_none() {
                    fencer = Some((self.means.fencer)(self.client.clone(), self.namespace.to_owned()).await);
                }
                known.fencing = fencer.as_ref().and_then(|made| made.as_ref().err().cloned());
            }
            let guests = match guests {
                Some(guests) => self.guests(hypervisor, &guests, compute.as_ref()).await,
                None => None,
            };
            let with = (
                compute.as_ref().and_then(|made| made.as_ref().ok()),
                fencer.as_ref().and_then(|made| made.as_ref().ok()),
            );
            self.act(hypervisor, &known, guests, with).await;
        }
    }

    /// Decides about one host, makes the calls and tells, also what there is about its guests.
    async fn act(&self, hypervisor: &Hypervisor, known: &Known, guests: Option<Report>, with: With<'_>) {
        let mut decided = decide(known, &self.means.policy, Timestamp::now());
        let (mut fenced, mut problems) = (Fenced::Kept, Vec::new());
        for action in &decided.actions {
            let made = self.make(hypervisor, action, with).await;
            self.say(hypervisor, action, &made).await;
            match made {
                Ok(Fenced::Kept) => {}
                Ok(changed) => fenced = changed,
                Err(why) => {
                    problems.push(why);
                    // One server must not hold up the others; everything else builds on what comes before.
                    if !matches!(action, Action::Evacuate(_) | Action::Start(_)) {
                        break;
                    }
                }
            }
        }
        if let (Some((_, _, message)), false) = (&mut decided.report, problems.is_empty()) {
            *message = format!("{message}; {}", problems.join("; "));
        }
        if let Some(wanted) =
            report::told(hypervisor, decided.report.as_ref(), guests.as_ref(), &fenced, Timestamp::now())
            && let Err(error) = report::write(self.client, hypervisor, &wanted).await
        {
            tracing::warn!(host = known.host.name, %error, "cannot write the conditions of a Hypervisor; trying again");
        }
    }

    /// Makes one call, and says what it means for the fence.
    async fn make(&self, hypervisor: &Hypervisor, action: &Action, with: With<'_>) -> Result<Fenced, String> {
        match (action, with) {
            (Action::Fence(since), (_, Some(fencer))) => {
                let request = FenceRequest::new(&hypervisor.name_any(), &hypervisor.uid().unwrap_or_default(), *since);
                match Fence::judge(&request, fencer.fence(&request).await) {
                    Fence::Confirmed(record) => Ok(Fenced::Confirmed(record)),
                    Fence::Open(why) => Err(why),
                }
            }
            (Action::Fence(_), (_, None)) => Err("nothing can switch it off".into()),
            (Action::Record(running), _) => {
                let written = report::record(self.client, hypervisor, Some(running)).await;
                written.map(|()| Fenced::Kept).map_err(|error| error.to_string())
            }
            (Action::Forget, _) => {
                let written = report::record(self.client, hypervisor, None).await;
                written.map(|()| Fenced::Over).map_err(|error| error.to_string())
            }
            (action, (Some(compute), _)) => compute.call(action).await.map(|()| Fenced::Kept),
            (_, (None, _)) => Err("Nova cannot be reached".into()),
        }
    }

    /// Tells of a call by an event: what was done to a host is there when the condition says something else.
    pub(crate) async fn say(&self, hypervisor: &Hypervisor, action: &Action, done: &Result<Fenced, String>) {
        let (reason, what) = match action {
            Action::Fence(_) => ("Fence", "the host is switched off".to_owned()),
            Action::Record(_) | Action::Forget => return,
            Action::ForceDown(_) => ("ForceDown", "the compute service is declared down".to_owned()),
            Action::Disable(_, reason) => ("DisableService", reason.clone()),
            Action::Evacuate(server) => ("Evacuate", format!("server {server} starts on another host")),
            Action::Start(server) => ("StartServer", format!("server {server} is started")),
            Action::Restart(server) => ("RestartGuest", format!("server {server} is started again by a hard reboot")),
            Action::LiftForceDown(_) => ("LiftForceDown", "the compute service may be up again".to_owned()),
            Action::Enable(_) => ("EnableService", "the compute service is enabled".to_owned()),
        };
        let (warning, reason, note) = match done {
            Ok(_) => (false, reason.to_owned(), what),
            Err(why) => (true, format!("{reason}Failed"), format!("not done: {what}: {why}")),
        };
        self.publish(hypervisor, warning, &reason, &note).await;
    }

    /// Publishes an event of a Hypervisor.
    pub(crate) async fn publish(&self, hypervisor: &Hypervisor, warning: bool, reason: &str, note: &str) {
        let about = Ref::cluster::<HypervisorKind>(hypervisor.name_any());
        self.events.publish(&about, &hypervisor.uid().unwrap_or_default(), warning, reason, note).await;
    }
}

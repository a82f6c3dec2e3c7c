//! The toy: a Guest of the cluster has a room in the inn. And a running operator of Guests on an API server.

use std::sync::Arc;
use std::time::Duration;

use c5c3_harness::TestCluster;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{
    Call, Child, Controller, Farewell, Inputs, KindRef, Operator, Plan, Question, Ref, RemoteHandle, Settings, Step,
    Verdict,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::wait::await_condition;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::inn::{Inn, Order, RoomOf, Shared};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "inn.example.org", version = "v1", kind = "Guest", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GuestSpec {
    pub(crate) floor: i64,
    /// Whether a Deployment must be ready before the room is booked.
    #[serde(default)]
    pub(crate) luggage: bool,
    /// Whether the plan ignores what the inn answers.
    #[serde(default)]
    pub(crate) careless: bool,
    /// Whether the key must not be deleted before the guest.
    #[serde(default)]
    pub(crate) guards: bool,
    /// How often the inn is asked, in milliseconds.
    pub(crate) resync: Option<u64>,
}

pub(crate) struct Guests {
    pub(crate) inn: Shared,
}

fn question(guest: &Guest) -> RoomOf {
    RoomOf(guest.name_any())
}

fn key(guest: &Guest) -> Ref {
    Ref::namespaced::<Secret>(guest.namespace().unwrap(), "key")
}

impl Controller for Guests {
    type Kind = Guest;
    type Valid = secrecy::SecretString;
    const NAME: &'static str = "guest";
    const CONDITIONS: &'static [&'static str] = &["RoomReady"];
    const FINALIZER: Option<&'static str> = Some("inn.example.org/guest");

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Deployment>()]
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>()]
    }

    fn needs(&self, inputs: &Inputs<Guest>) -> Vec<Ref> {
        vec![key(&inputs.object)]
    }

    fn guarded(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>()]
    }

    fn guards(&self, guest: &Guest) -> Vec<Ref> {
        if guest.spec.guards { vec![key(guest)] } else { Vec::new() }
    }

    fn remote(&self) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(self.inn.clone()))
    }

    fn questions(&self, inputs: &Inputs<Guest>) -> Vec<Question> {
        vec![Question::to::<Inn>(question(&inputs.object))]
    }

    fn validate(&self, inputs: &Inputs<Guest>) -> Verdict<secrecy::SecretString> {
        match inputs.secret(&key(&inputs.object), "key") {
            Ok(key) => Verdict::Valid(key),
            Err(wait) => Verdict::Wait(vec![wait]),
        }
    }

    fn plan(&self, key: &secrecy::SecretString, inputs: &Inputs<Guest>) -> Plan {
        let (guest, name) = (&inputs.object, inputs.object.name_any());
        let step = Step::new("RoomReady");
        let plan = Plan::new().resync(guest.spec.resync.map(Duration::from_millis));
        if guest.spec.careless {
            return plan.step(step.childless());
        }
        let room = match inputs.answered::<Inn>(&question(guest)) {
            Ok(room) => room,
            Err(wait) => return plan.step(step.undecided([wait])),
        };
        let floor = guest.spec.floor;
        let step = match room {
            None => {
                let order = Order::Book { guest: name.clone(), floor, key: key.clone() };
                step.call(Call::to::<Inn>(order, "the guest has no room"))
            }
            Some(room) if room.floor != floor => {
                let why = format!("floor is {} and should be {floor}", room.floor);
                step.call(Call::to::<Inn>(Order::Move { id: room.id, floor }, why))
            }
            Some(_) if guest.spec.luggage => step,
            Some(_) => step.childless(),
        };
        let step = if guest.spec.luggage {
            step.child(Child::new(&luggage(&name, &guest.namespace().unwrap())))
        } else {
            step
        };
        let plan = plan.step(step);
        match room {
            Some(room) => plan.status("room", room.id),
            None => plan,
        }
    }

    fn farewell(&self, inputs: &Inputs<Guest>) -> Farewell {
        let farewell = Farewell::new().leaves(format!("the room of {}", inputs.object.name_any()));
        match inputs.answered::<Inn>(&question(&inputs.object)) {
            Ok(None) => Farewell::new(),
            Ok(Some(room)) => farewell.call(Call::to::<Inn>(Order::Leave { id: room.id }, "the guest leaves")),
            Err(wait) => farewell.wait(wait),
        }
    }
}

fn luggage(name: &str, namespace: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"guest": name}}, "template": {
            "metadata": {"labels": {"guest": name}}, "spec": {"containers": [{"name": "main", "image": "luggage:1"}]}}},
    }))
    .unwrap()
}

/// A cluster with an operator of Guests, and the inn.
pub(crate) struct House {
    pub(crate) cluster: TestCluster,
    pub(crate) inn: Shared,
    pub(crate) metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl House {
    pub(crate) async fn open() -> Option<Self> {
        let cluster = TestCluster::without_controllers("it plays the Deployment controller").await.unwrap()?;
        cluster.install(&definition()).await.unwrap();
        let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
        let key: Secret =
            serde_json::from_value(json!({"metadata": {"name": "key"}, "stringData": {"key": "opensesame"}})).unwrap();
        secrets.create(&PostParams::default(), &key).await.unwrap();
        let (inn, metrics) = (Arc::new(Inn::default()), Metrics::default());
        let task = start(&cluster, &inn, &metrics);
        Some(Self { cluster, inn, metrics, task })
    }

    /// Kills the operator where it stands.
    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) fn restart(&mut self) {
        self.task = start(&self.cluster, &self.inn, &self.metrics);
    }

    pub(crate) fn guests(&self) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.cluster.client(), &ApiResource::erase::<Guest>(&()))
    }

    pub(crate) async fn arrive(&self, name: &str, spec: Value) {
        let mut guest = DynamicObject::new(name, &ApiResource::erase::<Guest>(&()));
        guest.data = json!({"spec": spec});
        self.guests().create(&PostParams::default(), &guest).await.unwrap();
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.guests().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the Guest is as told; none is one that is gone.
    pub(crate) async fn until(&self, name: &str, what: &str, is_so: impl Fn(Option<&Value>) -> bool + Send + Sync) {
        let is_so = |guest: Option<&DynamicObject>| match guest {
            Some(guest) => is_so(Some(&json!({"metadata": guest.metadata, "status": guest.data["status"]}))),
            None => is_so(None),
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), await_condition(self.guests(), name, is_so)).await;
        let Ok(waited) = waited else { panic!("not within 30 s: {what}; {:?}", self.guests().get_opt(name).await) };
        waited.unwrap();
    }

    pub(crate) async fn until_ready(&self, name: &str) {
        self.until(name, "it is ready", |guest| guest.is_some_and(is_ready)).await;
    }

    /// Waits until the Guest waits for something with this reason.
    pub(crate) async fn until_waits(&self, name: &str, reason: &str) -> Value {
        let has = |guest: &Value| waits(guest).iter().any(|wait| wait["reason"] == reason);
        self.until(name, reason, |guest| guest.is_some_and(has)).await;
        self.guests().get(name).await.unwrap().data["status"].clone()
    }

    /// Waits for an event with this reason, and gives its note.
    pub(crate) async fn event(&self, reason: &str) -> String {
        let events: Api<Event> = Api::default_namespaced(self.cluster.client());
        let look = async {
            loop {
                let all = events.list(&ListParams::default()).await.unwrap();
                if let Some(event) = all.items.into_iter().find(|event| event.reason.as_deref() == Some(reason)) {
                    return event.note.unwrap_or_default();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), look).await.unwrap_or_else(|_| panic!("no event {reason}"))
    }

    /// Everything that anyone may read of the operator's work.
    pub(crate) async fn all_text(&self) -> String {
        let events: Api<Event> = Api::default_namespaced(self.cluster.client());
        let (events, guests) =
            (events.list(&ListParams::default()).await.unwrap(), self.guests().list(&ListParams::default()).await);
        format!("{events:?} {guests:?} {}", self.metrics.text())
    }
}

fn start(cluster: &TestCluster, inn: &Shared, metrics: &Metrics) -> JoinHandle<()> {
    let options = RunOptions {
        debounce: Duration::ZERO,
        first_retry: Duration::from_millis(5),
        last_retry: Duration::from_millis(50),
        ..RunOptions::default()
    };
    let (client, metrics, inn) = (cluster.client(), metrics.clone(), inn.clone());
    tokio::spawn(async move {
        let operator = Operator::new("guest-operator").controller(move || Guests { inn: inn.clone() });
        let settings = Settings { options, election: None };
        operator.run(client, settings, metrics, Readiness::default(), CancellationToken::new()).await;
    })
}

pub(crate) fn waits(guest: &Value) -> Vec<Value> {
    guest["status"]["waitingFor"].as_array().cloned().unwrap_or_default()
}

pub(crate) fn condition(guest: &Value, kind: &str) -> Value {
    let all = guest["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

fn is_ready(guest: &Value) -> bool {
    condition(guest, "Ready")["status"] == "True"
}

fn definition() -> CustomResourceDefinition {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {"name": "guests.inn.example.org"},
        "spec": {
            "group": "inn.example.org", "scope": "Namespaced",
            "names": {"kind": "Guest", "plural": "guests", "singular": "guest", "listKind": "GuestList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    }))
    .unwrap()
}

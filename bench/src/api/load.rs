//! The load of one object at a time, by many clients at once, and of all objects in one list.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::json;

use super::measure::Row;

/// The kind that server-side applies are measured with.
pub(super) const DEFINITION: &str = "presses.bench.c5c3.io";

/// How many lists of everything are made.
const LISTS: usize = 5;

pub(super) struct Load {
    client: Client,
    namespace: String,
    objects: usize,
    clients: usize,
}

impl Load {
    pub(super) fn new(client: Client, namespace: &str, objects: usize, clients: usize) -> Self {
        Self { client, namespace: namespace.to_owned(), objects, clients }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Does one thing for each object, as many at a time as there are clients.
    async fn each<Doing>(&self, what: &str, count: usize, act: impl Fn(usize) -> Doing) -> Result<Row, kube::Error>
    where
        Doing: Future<Output = Result<(), kube::Error>>,
    {
        eprintln!("  {what}: {count}");
        let begun = Instant::now();
        let timed = stream::iter(0..count).map(|number| {
            let doing = act(number);
            async move {
                let begun = Instant::now();
                doing.await.map(|()| begun.elapsed())
            }
        });
        let times: Vec<Duration> = timed.buffer_unordered(self.clients).try_collect().await?;
        Ok(Row::rate(what, begun, times))
    }

    pub(super) async fn creates(&self) -> Result<Row, kube::Error> {
        let maps = self.maps();
        self.each("creates", self.objects, |number| {
            let maps = maps.clone();
            async move { maps.create(&PostParams::default(), &map(number, "new")).await.map(drop) }
        })
        .await
    }

    pub(super) async fn updates(&self) -> Result<Row, kube::Error> {
        let maps = self.maps();
        self.each("updates", self.objects, |number| {
            let maps = maps.clone();
            async move { maps.replace(&name(number), &PostParams::default(), &map(number, "old")).await.map(drop) }
        })
        .await
    }

    pub(super) async fn gets(&self) -> Result<Row, kube::Error> {
        let maps = self.maps();
        self.each("gets", self.objects, |number| {
            let maps = maps.clone();
            async move { maps.get(&name(number)).await.map(drop) }
        })
        .await
    }

    /// Everything in one answer, and in pages of 500.
    pub(super) async fn lists(&self) -> Result<Vec<Row>, kube::Error> {
        let (maps, mut rows) = (self.maps(), Vec::new());
        for (what, page) in [("lists of all", 0), ("lists of all, by 500", 500)] {
            eprintln!("  {what}: {LISTS}");
            let (begun, mut times) = (Instant::now(), Vec::new());
            for _ in 0..LISTS {
                let begun = Instant::now();
                list(&maps, page).await?;
                times.push(begun.elapsed());
            }
            rows.push(Row::rate(what, begun, times));
        }
        Ok(rows)
    }

    /// Server-side applies of custom resources: new ones, changed ones, and unchanged ones.
    pub(super) async fn applies(&self) -> Result<Vec<Row>, kube::Error> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        // Created, not applied: a server from before CEL leaves the rule out instead of refusing the definition.
        match definitions.create(&PostParams::default(), &definition()).await {
            Err(kube::Error::Api(error)) if error.is_already_exists() => {}
            created => drop(created?),
        }
        let established = await_condition(definitions, DEFINITION, conditions::is_crd_established());
        established.await.map_err(|error| kube::Error::Service(Box::new(error)))?;
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("bench.c5c3.io", "v1", "Press"), "presses");
        let presses: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        let (count, params) = (self.objects / 5, PatchParams::apply("bench"));
        let mut rows = Vec::new();
        for (what, size) in [("applies that create", 3), ("applies that change", 4), ("applies of the same", 4)] {
            let row = self.each(what, count, |number| {
                let (presses, params, press) = (presses.clone(), params.clone(), press(number, size));
                async move { presses.patch(&name(number), &params, &Patch::Apply(press)).await.map(drop) }
            });
            rows.push(row.await?);
        }
        Ok(rows)
    }
}

async fn list(maps: &Api<ConfigMap>, page: u32) -> Result<(), kube::Error> {
    let mut params = if page == 0 { ListParams::default() } else { ListParams::default().limit(page) };
    loop {
        let next = maps.list(&params).await?.metadata.continue_.filter(|token| !token.is_empty());
        match next {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

fn name(number: usize) -> String {
    format!("object-{number:06}")
}

/// An object of about a kibibyte, as most are.
fn map(number: usize, turn: &str) -> ConfigMap {
    let labels = BTreeMap::from([("bench".to_owned(), (number % 10).to_string())]);
    let metadata = ObjectMeta { name: Some(name(number)), labels: Some(labels), ..ObjectMeta::default() };
    let data = BTreeMap::from([("turn".to_owned(), turn.to_owned()), ("filling".to_owned(), "x".repeat(800))]);
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

fn press(number: usize, size: usize) -> serde_json::Value {
    json!({
        "apiVersion": "bench.c5c3.io/v1",
        "kind": "Press",
        "metadata": {"name": name(number)},
        "spec": {
            "size": size,
            "fruit": "pear",
            "parts": [{"name": "screw", "count": 1}, {"name": "plate", "count": size}],
            "notes": {"first": "x".repeat(200), "second": "y".repeat(200)},
        },
    })
}

fn definition() -> CustomResourceDefinition {
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "fruit": {"type": "string", "maxLength": 64},
            "pace": {"type": "string", "default": "slow"},
            "parts": {
                "type": "array", "maxItems": 16, "items": part,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
            "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "x-kubernetes-validations": [{"rule": "self.fruit != 'stone'", "message": "stones cannot be pressed"}],
    });
    let definition = json!({
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "bench.c5c3.io", "scope": "Namespaced",
            "names": {"plural": "presses", "singular": "press", "kind": "Press", "listKind": "PressList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

//! What discovery advertises is served: every resource, every subresource, every verb.

use http::{Method, Request, header};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use serde_json::{Value, json};

use crate::fixtures::{ORCHARD, Tested, embedded, orchard};

/// An object that does not exist.
const NAME: &str = "nobody-has-this-name";

/// What a verb of a resource asks for.
struct Attempt {
    method: Method,
    path: String,
    content_type: &'static str,
    body: String,
}

impl Attempt {
    /// The request of a verb. Nothing changes by it: the object does not exist, or the request is a dry run.
    fn of(version: &str, resource: &APIResource, verb: &str, home: &str) -> Self {
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let (plural, below) = resource.name.split_once('/').unwrap_or((&resource.name, ""));
        let place = if resource.namespaced { format!("/namespaces/{home}") } else { String::new() };
        let all = format!("{root}/{version}{place}/{plural}");
        let one = if below.is_empty() { format!("{all}/{NAME}") } else { format!("{all}/{NAME}/{below}") };
        let own = |part: &Option<String>, default: &str| part.clone().unwrap_or_else(|| default.to_owned());
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let (group, number) = (own(&resource.group, group), own(&resource.version, number));
        let version = if group.is_empty() { number } else { format!("{group}/{number}") };
        let object = json!({"apiVersion": version, "kind": resource.kind, "metadata": {"name": NAME}}).to_string();
        let (method, path, body) = match verb {
            "list" => (Method::GET, all, String::new()),
            "watch" => (Method::GET, format!("{all}?watch=true&timeoutSeconds=1"), String::new()),
            "get" => (Method::GET, one, String::new()),
            "create" if below.is_empty() => (Method::POST, format!("{all}?dryRun=All"), object),
            "create" => (Method::POST, format!("{one}?dryRun=All"), object),
            "update" => (Method::PUT, format!("{one}?dryRun=All"), object),
            "patch" => (Method::PATCH, format!("{one}?dryRun=All"), "{}".to_owned()),
            "delete" => (Method::DELETE, format!("{one}?dryRun=All"), String::new()),
            "deletecollection" => (Method::DELETE, format!("{all}?dryRun=All"), String::new()),
            other => panic!("{version} {} has the verb {other}, which no client knows", resource.name),
        };
        let content_type = if verb == "patch" { "application/merge-patch+json" } else { "application/json" };
        Self { method, path, content_type, body }
    }

    /// Says what is wrong with the answer: there is no such path, the method is not allowed, or the server failed.
    async fn fails(&self, client: &Client) -> Option<String> {
        let request = Request::builder().method(self.method.clone()).uri(&self.path);
        let request =
            request.header(header::CONTENT_TYPE, self.content_type).body(self.body.clone().into_bytes().into());
        let answer = client.send(request.expect("a request")).await.expect("an answer");
        let code = answer.status();
        if code.is_success() {
            // The body of a watch ends late.
            return None;
        }
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let message = serde_json::from_slice::<Value>(&body).unwrap_or_default()["message"].clone();
        let is_about_the_object = message.as_str().is_some_and(|message| message.contains(NAME));
        let is_served = match code.as_u16() {
            404 => is_about_the_object,
            400..=499 => code != 405,
            _ => false,
        };
        let Self { method, path, .. } = self;
        (!is_served).then(|| format!("{method} {path}: {code}: {}", String::from_utf8_lossy(&body)))
    }
}

/// All versions of all groups, as URLs have them: `v1`, `apps/v1`.
async fn versions(client: &Client) -> Result<Vec<String>, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let named = groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version);
    Ok(client.list_core_api_versions().await?.versions.into_iter().chain(named).collect())
}

#[tokio::test]
async fn every_verb_that_discovery_lists_is_served() -> Tested {
    let Some((cluster, client)) = embedded("it tries to delete whatever there is").await else { return Ok(()) };
    orchard(&cluster).await;
    let (mut tried, mut failed) = (0, Vec::new());
    let versions = versions(&client).await?;
    assert!(versions.iter().any(|version| version.starts_with(ORCHARD)), "{versions:?}");
    for version in versions {
        let list = if version.contains('/') {
            client.list_api_group_resources(&version).await?
        } else {
            client.list_core_api_resources(&version).await?
        };
        for resource in list.resources {
            assert!(!resource.verbs.is_empty(), "{version} {} has no verb", resource.name);
            for verb in &resource.verbs {
                let attempt = Attempt::of(&version, &resource, verb, cluster.namespace());
                failed.extend(attempt.fails(&client).await.map(|why| format!("{verb}: {why}")));
                tried += 1;
            }
        }
    }
    assert!(failed.is_empty(), "{} of {tried}:\n{}", failed.len(), failed.join("\n"));
    assert!(tried > 400, "only {tried} were tried");
    Ok(())
}

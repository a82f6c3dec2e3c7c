//! Removes finalizers that no controller removes any more, so that terminating objects can go.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::error::Error;
use crate::ledger::Made;
use crate::leftovers::listable;
use crate::raw::send;

/// Whose finalizers are taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of the controllers that ended with the test.
    TheTests,
    /// The cluster's own, too, which may leak what they stand for; and pods do not wait for their node.
    Anybodys,
}

/// Takes finalizers off an object that is going, and off what it waits for.
pub(crate) async fn release(client: &Client, made: &Made, object: &Value, whose: Whose) -> Result<(), Error> {
    if made.is_namespace() {
        release_namespace(client, made, object, whose).await
    } else if made.is_definition() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&object["spec"]["group"]), text(&object["spec"]["names"]["plural"]));
        let versions = object["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let version = versions.iter().find(|version| version["served"] == true);
        let version = version.map(|version| text(&version["name"])).unwrap_or_default();
        release_all(client, &Made::across(&group, &version, &plural, ""), whose).await
    } else {
        release_one(client, made, object, whose).await
    }
}

async fn release_namespace(client: &Client, made: &Made, object: &Value, whose: Whose) -> Result<(), Error> {
    let mut namespace = object.clone();
    namespace["spec"]["finalizers"] = json!(["kubernetes"]);
    send(client, Method::PUT, &format!("{}/finalize", made.path()), Some(namespace)).await?;
    release_pods(client, &format!("{}/pods", made.path()), whose).await?;
    for (group, version, plural) in listable(client, true).await? {
        let namespace = Some(made.name.clone());
        release_all(client, &Made { group, version, plural, namespace, name: String::new() }, whose).await?;
    }
    Ok(())
}

/// Ends pods that no one will: their node is not there, or does not answer.
async fn release_pods(client: &Client, pods: &str, whose: Whose) -> Result<(), Error> {
    let (_, list) = send(client, Method::GET, pods, None).await?;
    for pod in list["items"].as_array().into_iter().flatten() {
        let (name, node) = (pod["metadata"]["name"].as_str(), pod["spec"]["nodeName"].as_str());
        let lonely = match node {
            Some(node) => send(client, Method::GET, &format!("/api/v1/nodes/{node}"), None).await?.0 == 404,
            None => false,
        };
        if lonely || whose == Whose::Anybodys {
            let pod = format!("{pods}/{}?gracePeriodSeconds=0", name.unwrap_or_default());
            send(client, Method::DELETE, &pod, None).await?;
        }
    }
    Ok(())
}

/// Takes finalizers off all objects of a kind, in a namespace or in all of them.
async fn release_all(client: &Client, kind: &Made, whose: Whose) -> Result<(), Error> {
    let (_, list) = send(client, Method::GET, kind.path().trim_end_matches('/'), None).await?;
    for item in list["items"].as_array().into_iter().flatten() {
        let text = |field: &str| item["metadata"][field].as_str().map(ToOwned::to_owned);
        let (namespace, name) = (text("namespace"), text("name").unwrap_or_default());
        release_one(client, &Made { namespace, name, ..kind.clone() }, item, whose).await?;
    }
    Ok(())
}

async fn release_one(client: &Client, made: &Made, object: &Value, whose: Whose) -> Result<(), Error> {
    let held: Vec<&str> =
        object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let stay = |finalizer: &&str| whose == Whose::TheTests && is_the_clusters(finalizer);
    let kept: Vec<&str> = held.iter().copied().filter(stay).collect();
    if kept.len() < held.len() {
        send(client, Method::PATCH, &made.path(), Some(json!({"metadata": {"finalizers": kept}}))).await?;
    }
    Ok(())
}

/// Whether a finalizer is one of Kubernetes' own.
fn is_the_clusters(finalizer: &str) -> bool {
    let Some((domain, _)) = finalizer.split_once('/') else { return true };
    ["kubernetes.io", "k8s.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_kubernetes_are_known_by_their_domain() {
        for own in ["foregroundDeletion", "kubernetes.io/pvc-protection", "service.kubernetes.io/load-balancer-cleanup"]
        {
            assert!(is_the_clusters(own), "{own}");
        }
        for other in ["orchard.example/roots", "notkubernetes.io/x"] {
            assert!(!is_the_clusters(other), "{other}");
        }
    }
}

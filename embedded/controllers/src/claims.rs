//! What belongs to whom: orphans that a selector selects are adopted, what it no longer selects is released.

use std::collections::HashSet;
use std::sync::Arc;

use futures::Stream;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{ObjectMeta, Selector, SelectorExt, Status};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::is_gone;
use crate::owners::{self, controlled_by, controller, controller_ref, is_going};
use crate::watched::{Change, Kind, Namespaced, Watched, live};

/// Objects, by what their owner is to do with them. Those of others are left out.
#[derive(Debug)]
pub(crate) struct Claims<K> {
    pub(crate) mine: Vec<K>,
    pub(crate) adopt: Vec<K>,
    pub(crate) release: Vec<K>,
}

/// Sorts what an owner could claim. One that is on its way out claims and releases nothing more.
pub(crate) fn sort<K: Kind>(owner: &ObjectMeta, selector: &Selector, objects: Vec<K>) -> Claims<K> {
    let mut claims = Claims { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    let uid = owner.uid.as_deref().unwrap_or_default();
    for object in objects {
        let meta = object.meta();
        let selected = selector.matches(object.labels());
        match controller(meta) {
            Some(owner) if owner.uid != uid => {}
            Some(_) if selected => claims.mine.push(object),
            Some(_) if !is_going(owner) => claims.release.push(object),
            None if selected && !is_going(owner) && !is_going(meta) => claims.adopt.push(object),
            _ => {}
        }
    }
    claims
}

/// Fails unless an owner may adopt what was just seen to be orphaned: it is there, and it is not being deleted.
///
/// What the controller read of the owner before it listed the orphans does not tell. If the owner was deleted in between
/// with propagation policy Orphan, these are its own dependents, which the garbage collector has just set free. Adopted
/// again, they would be deleted as soon as their owner is gone.
pub(crate) async fn may_adopt<O: Namespaced>(client: &Client, owner: &O) -> Result<(), kube::Error> {
    if live(client, owner).await?.is_some_and(|now| !is_going(now.meta())) {
        return Ok(());
    }
    let message = format!("{} {:?} is being deleted and adopts nothing", O::kind(&()), owner.name_any());
    Err(kube::Error::Api(Box::new(Status::failure(&message, "Conflict").with_code(409))))
}

/// Adopts and releases, and returns what the owner has then.
pub(crate) async fn settle<O: Namespaced, K: Namespaced>(
    client: &Client,
    owner: &O,
    claims: Claims<K>,
) -> Result<Vec<K>, kube::Error> {
    let mut mine = claims.mine;
    if !claims.adopt.is_empty() {
        may_adopt(client, owner).await?;
    }
    for orphan in claims.adopt {
        let reference = json!({"metadata": {"uid": orphan.uid(), "ownerReferences": [owners::reference(owner)]}});
        mine.extend(claim(client, &orphan, reference).await?);
    }
    for other in claims.release {
        let reference = json!({"$patch": "delete", "uid": owner.uid()});
        claim(client, &other, json!({"metadata": {"uid": other.uid(), "ownerReferences": [reference]}})).await?;
    }
    Ok(mine)
}

/// Changes who owns an object. None: it is gone, or another has its name.
async fn claim<K: Namespaced>(
    client: &Client,
    object: &K,
    change: serde_json::Value,
) -> Result<Option<K>, kube::Error> {
    let patch = Patch::Strategic(change);
    match object.api(client).patch(&object.name_any(), &PatchParams::default(), &patch).await {
        Ok(changed) => Ok(Some(changed)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(None),
        Err(error) => Err(error),
    }
}

/// What an owner has of a kind, of that what `counts` says counts, after adopting and releasing.
///
/// What it has is listed now. What it must release is looked for among what is known: if that is late, so is the release.
pub(crate) async fn claimed<O: Namespaced, K: Namespaced>(
    client: &Client,
    watched: &Watched<K>,
    owner: &O,
    selector: &Selector,
    counts: impl Fn(&K) -> bool,
) -> Result<Vec<K>, kube::Error> {
    let api = Api::<K>::namespaced(client.clone(), &owner.namespace().unwrap_or_default());
    let mut found = api.list(&ListParams::default().labels_from(selector)).await?.items;
    let uid = owner.uid().unwrap_or_default();
    let strays = watched.store().state_filter(|object| {
        object.meta().namespace == owner.meta().namespace
            && controlled_by(object.meta(), &uid)
            && !selector.matches(object.labels())
            // One that is selected by now was only known to be otherwise.
            && !found.iter().any(|live| live.meta().uid == object.meta().uid)
    });
    found.extend(strays.into_iter().map(Arc::unwrap_or_clone));
    found.retain(counts);
    settle(client, owner, sort(owner.meta(), selector, found)).await
}

/// Whom a change of an object concerns: its owner as it was and as it is, and if it has none, all that would adopt it.
pub(crate) fn concerned<C: Kind, O: Kind>(
    children: &Watched<C>,
    owners: Store<O>,
    selector: impl Fn(&O) -> Option<Selector> + Send + 'static,
) -> impl Stream<Item = ObjectRef<O>> + Send + 'static {
    children.concerning(move |change: &Change<C>| {
        let mut concerned: HashSet<ObjectRef<O>> =
            change.versions().filter_map(|version| controller_ref(version.meta())).collect();
        if let Some(orphan) = change.now.as_ref().filter(|now| controller(now.meta()).is_none()) {
            let selects = |owner: &O| {
                owner.meta().namespace == orphan.meta().namespace
                    && selector(owner).is_some_and(|selector| selector.matches(orphan.labels()))
            };
            let adopters = owners.state_filter(selects);
            concerned.extend(adopters.iter().map(|owner| ObjectRef::from_obj(owner.as_ref())));
        }
        concerned
    })
}

#[cfg(test)]
mod tests {
    use c5c3_harness::TestCluster;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{DeleteParams, PostParams};
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, labels: &Value, owner: Option<&str>, going: bool) -> Pod {
        let owners = owner.map(
            |uid| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}]),
        );
        serde_json::from_value(json!({"metadata": {
            "name": name, "labels": labels, "ownerReferences": owners,
            "deletionTimestamp": going.then_some("2026-01-01T00:00:00Z"),
        }}))
        .unwrap()
    }

    #[test]
    fn orphans_are_adopted_and_what_no_longer_matches_is_released() {
        let (fits, differs) = (json!({"app": "pear"}), json!({"app": "plum"}));
        let pods = || {
            vec![
                pod("mine", &fits, Some("me"), false),
                pod("mine and going", &fits, Some("me"), true),
                pod("orphan", &fits, None, false),
                pod("orphan and going", &fits, None, true),
                pod("of another", &fits, Some("other"), false),
                pod("relabelled", &differs, Some("me"), false),
                pod("stranger", &differs, None, false),
            ]
        };
        let selector: Selector = kube::core::Expression::Equal("app".into(), "pear".into()).into();
        let names = |pods: &[Pod]| pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ");
        let owner = ObjectMeta { uid: Some("me".into()), ..ObjectMeta::default() };
        let claims = sort(&owner, &selector, pods());
        let sorted = [&claims.mine, &claims.adopt, &claims.release].map(|pods| names(pods));
        assert_eq!(sorted, ["mine, mine and going", "orphan", "relabelled"]);
        let going = ObjectMeta {
            deletion_timestamp: Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()),
            ..owner
        };
        let claims = sort(&going, &selector, pods());
        let sorted = [&claims.mine, &claims.adopt, &claims.release].map(|pods| names(pods));
        assert_eq!(sorted, ["mine, mine and going", "", ""]);
    }

    #[tokio::test]
    async fn an_owner_that_was_deleted_since_it_was_read_adopts_nothing() {
        let cluster = TestCluster::in_process().await.unwrap();
        let client = cluster.client();
        let (sets, pods) =
            (Api::<ReplicaSet>::default_namespaced(client.clone()), Api::<Pod>::default_namespaced(client.clone()));
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let template = json!({"metadata": {"labels": {"app": "pear"}}, "spec": spec});
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "pear", "finalizers": ["river.example/held"]},
            "spec": {"selector": {"matchLabels": {"app": "pear"}}, "template": template},
        }))
        .unwrap();
        let read_before = sets.create(&PostParams::default(), &set).await.unwrap();
        let orphan: Pod =
            serde_json::from_value(json!({"metadata": {"name": "free", "labels": {"app": "pear"}}, "spec": spec}))
                .unwrap();
        let orphan = pods.create(&PostParams::default(), &orphan).await.unwrap();
        let claims = || Claims { mine: Vec::new(), adopt: vec![orphan.clone()], release: Vec::new() };

        sets.delete("pear", &DeleteParams::orphan()).await.unwrap();
        let refused = settle(&client, &read_before, claims()).await.unwrap_err();
        assert!(crate::error::Error::from(refused).is_conflict());
        assert_eq!(pods.get("free").await.unwrap().metadata.owner_references, None);
    }
}

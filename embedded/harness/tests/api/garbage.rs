//! What is owned goes with its owner, before it, or is set free.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::fixtures::{PATIENCE, Tested, basket, cluster, eventually, gone, of};

async fn owned(api: &Api<ConfigMap>, name: &str, owners: &[&ConfigMap]) -> Result<ConfigMap, kube::Error> {
    let mut map = basket(name);
    map.metadata.owner_references = Some(owners.iter().map(|owner| blocking(owner)).collect());
    api.create(&PostParams::default(), &map).await
}

fn blocking(owner: &ConfigMap) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    let mut reference = owner.owner_ref(&()).expect("an owner that is there");
    reference.block_owner_deletion = Some(true);
    reference
}

#[tokio::test]
async fn dependents_go_after_their_owner() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let owner = api.create(&PostParams::default(), &basket("owner")).await?;
    let child = owned(&api, "child", &[&owner]).await?;
    owned(&api, "grandchild", &[&child]).await?;
    assert!(api.delete("owner", &DeleteParams::background()).await?.is_right(), "gone at once");
    gone(&api, "child").await;
    gone(&api, "grandchild").await;
    Ok(())
}

#[tokio::test]
async fn dependents_go_before_an_owner_that_waits_for_them() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let owner = api.create(&PostParams::default(), &basket("owner")).await?;
    let child = owned(&api, "child", &[&owner]).await?;
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["orchard.example/held"]}}));
    api.patch("child", &PatchParams::default(), &held).await?;
    let going = api.delete("owner", &DeleteParams::foreground()).await?.left().expect("it waits");
    assert_eq!(going.finalizers(), ["foregroundDeletion"]);
    eventually(&api, "child", |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.metadata.deletion_timestamp.is_some())
    })
    .await;
    assert!(api.get_opt("owner").await?.is_some());
    api.patch("child", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    gone(&api, "owner").await;
    assert!(api.get_opt(&child.name_any()).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn orphans_stay_without_their_owner() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let owner = api.create(&PostParams::default(), &basket("owner")).await?;
    owned(&api, "child", &[&owner]).await?;
    api.delete("owner", &DeleteParams::orphan()).await?;
    gone(&api, "owner").await;
    assert!(api.get("child").await?.owner_references().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_second_owner_keeps_what_the_first_one_leaves() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let (one, two) = (
        api.create(&PostParams::default(), &basket("one")).await?,
        api.create(&PostParams::default(), &basket("two")).await?,
    );
    owned(&api, "child", &[&one, &two]).await?;
    api.delete("one", &DeleteParams::foreground()).await?;
    gone(&api, "one").await;
    let child = api.get("child").await?;
    assert_eq!(child.owner_references().iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["two"]);
    Ok(())
}

#[tokio::test]
async fn a_circle_of_owners_goes_all_the_same() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut circle = Vec::new();
    for name in ["a", "b", "c"] {
        circle.push(api.create(&PostParams::default(), &basket(name)).await?);
    }
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let owner = blocking(&circle[(index + 2) % 3]);
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
        api.patch(name, &PatchParams::default(), &patch).await?;
    }
    api.delete("a", &DeleteParams::foreground()).await?;
    for name in ["a", "b", "c"] {
        gone(&api, name).await;
    }
    Ok(())
}

#[tokio::test]
async fn an_object_whose_owner_never_was_goes() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut owner = api.create(&PostParams::default(), &basket("owner")).await?;
    owner.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    owned(&api, "child", &[&owner]).await?;
    gone(&api, "child").await;
    assert!(api.get_opt("owner").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_owns_built_in_objects() -> Tested {
    let (cluster, client) = cluster().await;
    let trees = crate::fixtures::orchard(&cluster).await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let tree = trees.create(&PostParams::default(), &crate::fixtures::tree("t")).await?;
    let mut map = basket("fruit");
    map.metadata.owner_references =
        tree.owner_ref(&crate::fixtures::tree_kind(crate::fixtures::ORCHARD, "v1")).map(|owner| vec![owner]);
    api.create(&PostParams::default(), &map).await?;
    trees.delete("t", &DeleteParams::default()).await?;
    gone(&api, "fruit").await;
    Ok(())
}

#[tokio::test]
async fn an_object_in_no_namespace_outlives_an_owner_in_one_and_says_why() -> Tested {
    let (cluster, client) = cluster().await;
    let (maps, roles) = (Api::<ConfigMap>::default_namespaced(client.clone()), Api::<ClusterRole>::all(client.clone()));
    let owner = maps.create(&PostParams::default(), &basket("owner")).await?;
    let name = cluster.name("misplaced");
    let mut role: ClusterRole = of(json!({"metadata": {"name": name}, "rules": []}));
    role.metadata.owner_references = Some(vec![blocking(&owner)]);
    let role = roles.create(&PostParams::default(), &role).await?;
    let uid = role.metadata.uid.clone().unwrap_or_default();
    let events = Api::<Event>::namespaced(client, "default");
    let about = format!("involvedObject.uid={uid},reason=OwnerRefInvalidNamespace");
    let told =
        async || events.list(&ListParams::default().fields(&about)).await.is_ok_and(|found| !found.items.is_empty());
    let asked = async {
        while !told().await {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("an event about the reference");
    // Neither an owner that is deleted first nor one that goes at once takes it along.
    maps.delete("owner", &DeleteParams::foreground()).await?;
    gone(&maps, "owner").await;
    let other = maps.create(&PostParams::default(), &basket("other")).await?;
    owned(&maps, "child", &[&other]).await?;
    maps.delete("other", &DeleteParams::background()).await?;
    // The collector works in order: it has looked at the role when the child is gone.
    gone(&maps, "child").await;
    assert_eq!(roles.get(&name).await?.metadata.uid, Some(uid));
    roles.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

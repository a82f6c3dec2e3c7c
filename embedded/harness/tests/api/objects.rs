//! Creating, reading, changing and deleting single objects.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::metadata::PartialObjectMetaExt;
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::fixtures::{
    Tested, basket, cluster, gone, labelled, of, orchard, press, refusal, tree, without_controllers,
};

fn post() -> PostParams {
    PostParams::default()
}

#[tokio::test]
async fn a_config_map_lives_and_dies() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let created = api.create(&post(), &basket("a")).await?;
    assert!(created.uid().is_some() && created.creation_timestamp().is_some() && created.resource_version().is_some());
    assert_eq!(created.namespace().as_deref(), Some(cluster.namespace()));
    let mut changed = created.clone();
    changed.data.get_or_insert_default().insert("fruit".into(), "plum".into());
    let replaced = api.replace("a", &post(), &changed).await?;
    assert_ne!(replaced.resource_version(), created.resource_version());
    assert_eq!(api.get("a").await?.data, changed.data);
    assert!(api.delete("a", &DeleteParams::default()).await?.is_right());
    let missing = refusal(api.get("a").await);
    assert_eq!((missing.code, missing.message.as_str()), (404, "configmaps \"a\" not found"));
    assert_eq!(missing.details.map(|details| details.kind), Some("configmaps".into()));
    Ok(())
}

#[tokio::test]
async fn a_secret_keeps_its_text_as_data() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Secret>::default_namespaced(client);
    let secret: Secret = of(json!({"metadata": {"name": "s"}, "stringData": {"key": "word"}}));
    let created = api.create(&post(), &secret).await?;
    assert!(created.string_data.is_none());
    assert_eq!(
        created.data.as_ref().and_then(|data| data.get("key")).map(|value| value.0.as_slice()),
        Some(&b"word"[..])
    );
    assert_eq!(created.type_.as_deref(), Some("Opaque"));
    let mut other = created;
    other.type_ = Some("kubernetes.io/tls".into());
    assert_eq!(refusal(api.replace("s", &post(), &other).await).code, 422);
    Ok(())
}

#[tokio::test]
async fn an_immutable_config_map_stays_as_it_is() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut map = basket("a");
    map.immutable = Some(true);
    api.create(&post(), &map).await?;
    let patch = Patch::Merge(json!({"data": {"fruit": "plum"}}));
    let refused = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert!(refused.message.contains("field is immutable when `immutable` is set"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn a_name_is_generated_from_its_prefix() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let nameless: ConfigMap = of(json!({"metadata": {"generateName": "basket-"}}));
    let (one, other) = (api.create(&post(), &nameless).await?, api.create(&post(), &nameless).await?);
    assert_ne!(one.name_any(), other.name_any());
    assert!(one.name_any().starts_with("basket-") && one.name_any().len() == "basket-".len() + 5);
    let refused = refusal(api.create(&post(), &of(json!({"metadata": {}}))).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(refused.message.contains("name or generateName is required"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn what_exists_is_not_created_again() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let created = api.create(&post(), &basket("a")).await?;
    let refused = refusal(api.create(&post(), &basket("a")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(refused.message, "configmaps \"a\" already exists");
    let mut versioned = created;
    versioned.metadata.name = Some("b".into());
    let refused = refusal(api.create(&post(), &versioned).await);
    assert_eq!(refused.message, "resourceVersion should not be set on objects to be created");
    Ok(())
}

#[tokio::test]
async fn a_stale_update_conflicts_and_one_without_version_wins() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let stale = api.create(&post(), &basket("a")).await?;
    let patch = Patch::Merge(json!({"data": {"fruit": "plum"}}));
    api.patch("a", &PatchParams::default(), &patch).await?;
    let refused = refusal(api.replace("a", &post(), &stale).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        refused.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    let won = api.replace("a", &post(), &basket("a")).await?;
    assert_eq!(won.data, basket("a").data);
    assert_eq!(won.uid(), stale.uid());
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_is_not_updated_without_its_version() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    api.create(&post(), &tree("a")).await?;
    let refused = refusal(api.replace("a", &post(), &tree("a")).await);
    assert_eq!(refused.code, 422);
    assert!(
        refused.message.contains("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"),
        "{}",
        refused.message
    );
    Ok(())
}

#[tokio::test]
async fn an_update_of_another_object_with_the_same_name_conflicts() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut first = api.create(&post(), &basket("a")).await?;
    api.delete("a", &DeleteParams::default()).await?;
    api.create(&post(), &basket("a")).await?;
    first.metadata.resource_version = None;
    let refused = refusal(api.replace("a", &post(), &first).await);
    assert_eq!(refused.code, 409);
    assert!(refused.message.contains("Precondition failed: UID in precondition"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn three_kinds_of_patch_change_a_deployment() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Deployment>::default_namespaced(client);
    api.create(&post(), &press("p")).await?;
    let params = PatchParams::default();
    let images = |press: &Deployment| -> Vec<String> {
        let pod = press.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).expect("a pod");
        pod.containers.iter().filter_map(|container| container.image.clone()).collect()
    };
    let containers = json!([{"name": "sieve", "image": "sieve:1"}]);
    let pods = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let merged = api.patch("p", &params, &Patch::Strategic(&pods)).await?;
    assert_eq!(images(&merged), ["sieve:1", "press:1"], "a strategic patch merges containers by name");
    let merged = api.patch("p", &params, &Patch::Merge(&pods)).await?;
    assert_eq!(images(&merged), ["sieve:1"], "a merge patch replaces lists");
    let json_patch = of(json!([
        {"op": "test", "path": "/spec/replicas", "value": 2},
        {"op": "replace", "path": "/spec/replicas", "value": 5}]));
    let patched = api.patch("p", &params, &Patch::<()>::Json(json_patch)).await?;
    assert_eq!(patched.spec.as_ref().and_then(|spec| spec.replicas), Some(5));
    let failing = of(json!([{"op": "test", "path": "/spec/replicas", "value": 2}]));
    assert_eq!(refusal(api.patch("p", &params, &Patch::<()>::Json(failing)).await).code, 422);
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_takes_no_strategic_patch() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    api.create(&post(), &tree("a")).await?;
    let refused = refusal(api.patch("a", &PatchParams::default(), &Patch::Strategic(json!({}))).await);
    assert_eq!((refused.code, refused.reason.as_str()), (415, "UnsupportedMediaType"));
    let patched = api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"branches": 7}}))).await?;
    assert_eq!(patched.data["spec"]["branches"], 7);
    Ok(())
}

#[tokio::test]
async fn a_patch_for_a_stale_version_conflicts() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let stale = api.create(&post(), &basket("a")).await?;
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "1"}}))).await?;
    let patch = json!({"metadata": {"resourceVersion": stale.resource_version()}, "data": {"x": "2"}});
    assert_eq!(refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await).code, 409);
    assert_eq!(refusal(api.patch("b", &PatchParams::default(), &Patch::Merge(json!({}))).await).code, 404);
    Ok(())
}

#[tokio::test]
async fn writing_what_is_there_already_changes_nothing() -> Tested {
    let Some((_cluster, client)) = without_controllers("a controller would write the status in between").await else {
        return Ok(());
    };
    let api = Api::<Deployment>::default_namespaced(client);
    let created = api.create(&post(), &press("p")).await?;
    let same = api.replace("p", &post(), &created).await?;
    assert_eq!(same.resource_version(), created.resource_version());
    let same = api.patch("p", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await?;
    assert_eq!(same.resource_version(), created.resource_version());
    Ok(())
}

#[tokio::test]
async fn generations_count_changes_of_the_spec_alone() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Deployment>::default_namespaced(client);
    let created = api.create(&post(), &press("p")).await?;
    assert_eq!(created.meta().generation, Some(1));
    let patch = |value| Patch::Merge(value);
    let params = PatchParams::default();
    let labelled = api.patch("p", &params, &patch(json!({"metadata": {"labels": {"a": "b"}}}))).await?;
    assert_eq!(labelled.meta().generation, Some(1));
    let reported = api.patch_status("p", &params, &patch(json!({"status": {"replicas": 1}}))).await?;
    assert_eq!(reported.meta().generation, Some(1));
    let scaled = api.patch("p", &params, &patch(json!({"spec": {"replicas": 3}}))).await?;
    assert_eq!(scaled.meta().generation, Some(2));
    let forged = api.patch("p", &params, &patch(json!({"metadata": {"generation": 9, "uid": null}}))).await?;
    assert_eq!((forged.meta().generation, forged.uid()), (Some(2), created.uid()));
    Ok(())
}

#[tokio::test]
async fn a_dry_run_stores_nothing() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let dry = PostParams { dry_run: true, ..post() };
    let shown = api.create(&dry, &basket("a")).await?;
    assert!(shown.uid().is_some());
    assert!(api.get_opt("a").await?.is_none());
    let created = api.create(&post(), &basket("a")).await?;
    assert_eq!(refusal(api.create(&dry, &basket("a")).await).code, 409);
    let mut changed = created.clone();
    changed.data = None;
    assert!(api.replace("a", &dry, &changed).await?.data.is_none());
    let params = PatchParams { dry_run: true, ..PatchParams::apply("dry") };
    api.patch("a", &params, &Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"new": "1"}})))
        .await?;
    api.patch("b", &params, &Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap"}))).await?;
    api.delete("a", &DeleteParams::default().dry_run()).await?;
    api.delete_collection(&DeleteParams::default().dry_run(), &ListParams::default()).await?;
    assert_eq!(api.get("a").await?.resource_version(), created.resource_version());
    assert!(api.get_opt("b").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    let mut held = tree("a");
    held.metadata.finalizers = Some(vec!["orchard.example/roots".into()]);
    api.create(&post(), &held).await?;
    let going = api.delete("a", &DeleteParams::default()).await?.left().expect("the object, as it is still there");
    assert!(going.meta().deletion_timestamp.is_some());
    assert_eq!(going.meta().generation, Some(2));
    let again = api.delete("a", &DeleteParams::default()).await?.left().expect("the object");
    assert_eq!(again.resource_version(), going.resource_version());
    let params = PatchParams::default();
    let add = Patch::Merge(json!({"metadata": {"finalizers": ["orchard.example/roots", "orchard.example/more"]}}));
    let refused = refusal(api.patch("a", &params, &add).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(
        refused.message.contains("no new finalizers can be added if the object is being deleted"),
        "{}",
        refused.message
    );
    api.patch("a", &params, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    gone(&api, "a").await;
    Ok(())
}

#[tokio::test]
async fn a_deletion_keeps_to_its_preconditions() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let created = api.create(&post(), &basket("a")).await?;
    let only = |uid: Option<&str>, version: Option<&str>| {
        let (uid, resource_version) = (uid.map(Into::into), version.map(Into::into));
        DeleteParams::default().preconditions(Preconditions { resource_version, uid })
    };
    let refused = refusal(api.delete("a", &only(Some("other"), None)).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert!(
        refused.message.contains("Precondition failed: UID in precondition: other, UID in object meta: "),
        "{}",
        refused.message
    );
    assert_eq!(refusal(api.delete("a", &only(None, Some("1"))).await).code, 409);
    let (uid, version) = (created.uid(), created.resource_version());
    assert!(api.delete("a", &only(uid.as_deref(), version.as_deref())).await?.is_right());
    Ok(())
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    for (name, colour) in [("a", "red"), ("b", "green"), ("c", "red")] {
        api.create(&post(), &labelled(name, ("colour", colour))).await?;
    }
    let red = ListParams::default().labels("colour=red");
    let answer = api.delete_collection(&DeleteParams::default(), &red).await?;
    if let Some(deleted) = answer.left() {
        assert_eq!(deleted.items.len(), 2);
    }
    let left = api.list(&ListParams::default().labels("colour")).await?;
    assert_eq!(left.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
    api.delete_collection(&DeleteParams::default(), &ListParams::default().fields("metadata.name=b")).await?;
    assert!(api.get_opt("b").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn metadata_alone_is_read_and_patched() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(&post(), &basket("a")).await?;
    let metadata = kube::core::ObjectMeta { labels: Some([("a".into(), "b".into())].into()), ..Default::default() };
    let patch = Patch::Merge(metadata.into_request_partial::<ConfigMap>());
    let patched = api.patch_metadata("a", &PatchParams::default(), &patch).await?;
    assert_eq!(patched.labels().get("a").map(String::as_str), Some("b"));
    assert_eq!(api.get("a").await?.data, basket("a").data);
    let listed = api.list_metadata(&ListParams::default().labels("a=b")).await?;
    assert_eq!(listed.items.len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_object_of_another_kind_or_namespace_is_refused() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let elsewhere: ConfigMap = of(json!({"metadata": {"name": "a", "namespace": "kube-system"}}));
    assert_eq!(refusal(api.create(&post(), &elsewhere).await).code, 400);
    let misnamed: ConfigMap = of(json!({"metadata": {"name": "A_b"}}));
    let refused = refusal(api.create(&post(), &misnamed).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(
        refused.message.starts_with("ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\""),
        "{}",
        refused.message
    );
    Ok(())
}

#[tokio::test]
async fn some_kinds_answer_a_deletion_with_what_was_deleted() -> Tested {
    let (_cluster, client) = cluster().await;
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    accounts.create(&PostParams::default(), &of(json!({"metadata": {"name": "a"}}))).await?;
    let gone = accounts.delete("a", &DeleteParams::default()).await?.left().expect("the account");
    assert_eq!(gone.name_any(), "a");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    maps.create(&PostParams::default(), &basket("a")).await?;
    assert!(maps.delete("a", &DeleteParams::default()).await?.is_right(), "others say that it is done");
    Ok(())
}

#[tokio::test]
async fn some_kinds_come_by_an_update() -> Tested {
    let (_cluster, client) = cluster().await;
    let leases = Api::<Lease>::default_namespaced(client.clone());
    let lease: Lease = of(json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}));
    let came = leases.replace("a", &post(), &lease).await?;
    assert!(came.uid().is_some());
    let again = refusal(leases.replace("a", &post(), &lease).await);
    assert_eq!(again.code, 422, "a lease that is there is updated by those who have seen it");
    let mut another = came.clone();
    another.metadata.name = Some("b".into());
    assert_eq!(refusal(leases.replace("b", &PostParams::default(), &another).await).code, 409, "it is another one");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    assert_eq!(refusal(maps.replace("a", &PostParams::default(), &basket("a")).await).code, 404);
    Ok(())
}

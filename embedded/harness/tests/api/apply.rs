//! Server-side apply: who owns what, and what becomes of what is given up.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, apply, cluster, orchard, press, refusal, without_controllers};

#[allow(clippy::needless_pass_by_value)] // Written in place by each caller.
fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[allow(clippy::needless_pass_by_value)] // Written in place by each caller.
fn tree(spec: Value) -> Value {
    json!({"apiVersion": "orchard.example/v1", "kind": "Tree", "metadata": {"name": "t"}, "spec": spec})
}

fn data(map: &ConfigMap) -> Value {
    json!(map.data)
}

#[tokio::test]
async fn an_apply_creates_and_a_second_one_changes_nothing() -> Tested {
    let Some((_cluster, client)) = without_controllers("a controller would write the status in between").await else {
        return Ok(());
    };
    let api = Api::<Deployment>::default_namespaced(client);
    let mut wanted = serde_json::to_value(press("p"))?;
    wanted["metadata"] = json!({"name": "p", "labels": {"a": "b"}});
    let created = apply(&api, "one", wanted.clone()).await?;
    let again = apply(&api, "one", wanted).await?;
    assert_eq!(again, created);
    let entries = created.managed_fields();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].manager.as_deref(), entries[0].operation.as_deref()), (Some("one"), Some("Apply")));
    Ok(())
}

#[tokio::test]
async fn a_conflict_names_the_other_manager_and_the_field() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    apply(&api, "one", map(json!({"fruit": "pear"}))).await?;
    let refused = refusal(apply(&api, "two", map(json!({"fruit": "plum"}))).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"one\": .data.fruit");
    let causes = refused.details.expect("details").causes;
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".data.fruit"));
    assert_eq!(causes[0].message, "conflict with \"one\"");
    Ok(())
}

#[tokio::test]
async fn a_conflict_with_an_update_names_its_version() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Deployment>::default_namespaced(client);
    let post = PostParams { field_manager: Some("hand".into()), ..PostParams::default() };
    api.create(&post, &press("p")).await?;
    let wanted =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": {"replicas": 4}});
    let refused = refusal(apply(&api, "one", wanted).await);
    assert!(
        refused.message.starts_with("Apply failed with 1 conflict: conflict with \"hand\" using apps/v1"),
        "{}",
        refused.message
    );
    assert!(refused.message.ends_with(".spec.replicas"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn force_takes_a_field_from_its_owner() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    apply(&api, "one", map(json!({"fruit": "pear", "nut": "hazel"}))).await?;
    let forced =
        api.patch("a", &PatchParams::apply("two").force(), &Patch::Apply(map(json!({"fruit": "plum"})))).await?;
    assert_eq!(data(&forced), json!({"fruit": "plum", "nut": "hazel"}));
    let refused = refusal(apply(&api, "one", map(json!({"fruit": "pear", "nut": "hazel"}))).await);
    assert!(refused.message.contains("conflict with \"two\""), "{}", refused.message);
    let given_up = apply(&api, "one", map(json!({"nut": "hazel"}))).await?;
    assert_eq!(data(&given_up), json!({"fruit": "plum", "nut": "hazel"}), "what another owns stays");
    Ok(())
}

#[tokio::test]
async fn what_no_one_applies_any_more_goes() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    apply(&api, "one", map(json!({"fruit": "pear", "nut": "hazel"}))).await?;
    let shared = apply(&api, "two", map(json!({"fruit": "pear"}))).await?;
    assert_eq!(shared.managed_fields().len(), 2);
    let after = apply(&api, "one", map(json!({}))).await?;
    assert_eq!(data(&after), json!({"fruit": "pear"}), "shared fields stay with the other owner");
    let after = apply(&api, "two", map(json!({}))).await?;
    assert!(after.data.is_none_or(|data| data.is_empty()));
    Ok(())
}

#[tokio::test]
async fn lists_merge_by_key_and_sets_by_value() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    apply(&api, "one", tree(json!({"sort": "quince", "tags": ["old"], "grafts": [{"name": "a", "year": 1}]}))).await?;
    let both =
        apply(&api, "two", tree(json!({"sort": "quince", "tags": ["tall"], "grafts": [{"name": "b", "year": 2}]})))
            .await?;
    assert_eq!(both.data["spec"]["tags"], json!(["old", "tall"]));
    assert_eq!(both.data["spec"]["grafts"], json!([{"name": "a", "year": 1}, {"name": "b", "year": 2}]));
    let refused =
        refusal(apply(&api, "two", tree(json!({"sort": "quince", "grafts": [{"name": "a", "year": 9}]}))).await);
    assert!(refused.message.contains(".spec.grafts[name=\"a\"].year"), "{}", refused.message);
    let left = apply(&api, "one", tree(json!({"sort": "quince"}))).await?;
    assert_eq!(
        (&left.data["spec"]["tags"], &left.data["spec"]["grafts"]),
        (&json!(["tall"]), &json!([{"name": "b", "year": 2}]))
    );
    Ok(())
}

#[tokio::test]
async fn ports_of_a_service_merge_by_number_and_protocol() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Service>::default_namespaced(client);
    let service = |name: &str, port: u16| {
        json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"name": name, "port": port, "protocol": "TCP"}]}})
    };
    apply(&api, "one", service("http", 80)).await?;
    let both = apply(&api, "two", service("https", 443)).await?;
    assert_eq!(both.spec.and_then(|spec| spec.ports).map(|ports| ports.len()), Some(2));
    Ok(())
}

#[tokio::test]
async fn the_status_has_owners_of_its_own() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    let created = apply(&api, "gardener", tree(json!({"sort": "quince"}))).await?;
    let status = json!({"apiVersion": "orchard.example/v1", "kind": "Tree", "metadata": {"name": "t"},
                        "spec": {"sort": "ignored"}, "status": {"ripe": true}});
    let params = PatchParams::apply("sun");
    let ripe = api.patch_status("t", &params, &Patch::Apply(&status)).await?;
    assert_eq!((&ripe.data["spec"]["sort"], &ripe.data["status"]["ripe"]), (&json!("quince"), &json!(true)));
    let entry = ripe.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some("sun")).expect("an entry");
    assert_eq!(entry.subresource.as_deref(), Some("status"));
    assert_eq!(json!(entry.fields_v1.as_ref().map(|fields| &fields.0)), json!({"f:status": {"f:ripe": {}}}));
    let again = api.patch_status("t", &params, &Patch::Apply(&status)).await?;
    assert_eq!(again.resource_version(), ripe.resource_version());
    let kept = apply(&api, "gardener", tree(json!({"sort": "quince"}))).await?;
    assert_eq!(kept.data["status"]["ripe"], true, "an apply of the spec leaves the status");
    assert_ne!(created.resource_version(), ripe.resource_version());
    Ok(())
}

#[tokio::test]
async fn an_apply_needs_a_manager_and_takes_no_managed_fields() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let refused = refusal(api.patch("a", &PatchParams::default(), &Patch::Apply(map(json!({})))).await);
    assert!(
        refused.message.contains("fieldManager: Required value: is required for apply patch"),
        "{}",
        refused.message
    );
    let created = apply(&api, "one", map(json!({"fruit": "pear"}))).await?;
    let mut owned = serde_json::to_value(&created)?;
    owned["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let refused = refusal(apply(&api, "one", owned).await);
    assert!(refused.message.contains("metadata.managedFields must be nil"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn an_apply_of_an_unknown_field_is_refused_whatever_the_client_says() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    for params in [PatchParams::apply("one"), PatchParams::apply("one").validation_strict()] {
        let refused = refusal(api.patch("t", &params, &Patch::Apply(tree(json!({"sort": "quince", "hue": 1})))).await);
        assert!(refused.message.contains(".spec.hue: field not declared in schema"), "{}", refused.message);
    }
    Ok(())
}

#[tokio::test]
async fn an_apply_is_for_the_object_that_it_names() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut with_uid = map(json!({}));
    with_uid["metadata"]["uid"] = "9b9c".into();
    assert_eq!(refusal(apply(&api, "one", with_uid.clone()).await).code, 409, "it would have to be created");
    let created = apply(&api, "one", map(json!({}))).await?;
    assert_eq!(refusal(apply(&api, "one", with_uid).await).code, 409);
    let mut stale = map(json!({"x": "y"}));
    stale["metadata"]["resourceVersion"] = "1".into();
    assert_eq!(refusal(apply(&api, "one", stale).await).code, 409);
    assert_eq!(api.get("a").await?.resource_version(), created.resource_version());
    Ok(())
}

#[tokio::test]
async fn an_update_takes_fields_over_from_an_apply() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    apply(&api, "one", map(json!({"fruit": "pear"}))).await?;
    let params = PatchParams { field_manager: Some("hand".into()), ..PatchParams::default() };
    api.patch("a", &params, &Patch::Merge(json!({"data": {"fruit": "plum"}}))).await?;
    let refused = refusal(apply(&api, "one", map(json!({"fruit": "pear"}))).await);
    assert!(refused.message.contains("conflict with \"hand\" using v1"), "{}", refused.message);
    Ok(())
}

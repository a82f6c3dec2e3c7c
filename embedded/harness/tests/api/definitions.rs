//! CustomResourceDefinitions and their objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixtures::{
    ORCHARD, Tested, cluster, establish, eventually, gone, of, own_orchard, refusal, soon, tree_kind, tree_of,
    tree_version, trees,
};

fn definitions(client: &Client) -> Api<CustomResourceDefinition> {
    Api::all(client.clone())
}

async fn change(client: &Client, name: &str, spec: serde_json::Value) -> Result<CustomResourceDefinition, kube::Error> {
    definitions(client).patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
}

#[tokio::test]
async fn a_definition_is_established() -> Tested {
    let (cluster, client) = cluster().await;
    let (group, _) = own_orchard(&cluster).await;
    let status = definitions(&client).get(&format!("trees.{group}")).await?.status.expect("a status");
    assert_eq!(status.accepted_names.map(|names| names.kind).as_deref(), Some("Tree"));
    assert_eq!(status.stored_versions, Some(vec!["v1".to_owned()]));
    let conditions: Vec<_> = status.conditions.unwrap_or_default().into_iter().map(|c| (c.type_, c.status)).collect();
    for wanted in ["NamesAccepted", "Established"] {
        assert!(conditions.contains(&(wanted.to_owned(), "True".to_owned())), "{conditions:?}");
    }
    Ok(())
}

#[tokio::test]
async fn objects_are_pruned_and_defaulted() -> Tested {
    let (cluster, _) = cluster().await;
    let (group, api) = own_orchard(&cluster).await;
    let mut odd = tree_of(&group, "a");
    odd.data["spec"]["hue"] = "blue".into();
    let created = api.create(&PostParams::default(), &odd).await?;
    assert_eq!(created.data["spec"], json!({"sort": "quince", "branches": 3}));
    Ok(())
}

#[tokio::test]
async fn a_schema_refuses_in_the_words_of_its_rules() -> Tested {
    let (cluster, _) = cluster().await;
    let (group, api) = own_orchard(&cluster).await;
    let with = |spec| {
        of::<DynamicObject>(
            json!({"apiVersion": format!("{group}/v1"), "kind": "Tree", "metadata": {"name": "a"}, "spec": spec}),
        )
    };
    for (spec, words) in [
        (json!({"sort": "plum", "branches": 101}), "spec: Invalid value: \"object\": a tree has at most 100 branches"),
        (json!({"branches": 1}), "spec.sort: Required value"),
        (
            json!({"sort": 7}),
            "spec.sort: Invalid value: \"integer\": spec.sort in body must be of type string: \"integer\"",
        ),
        (json!({"sort": "plum", "tags": ["a", "a"]}), "spec.tags[1]: Duplicate value: \"a\""),
    ] {
        let refused = refusal(api.create(&PostParams::default(), &with(spec)).await);
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
        let start = format!("Tree.{group} \"a\" is invalid: {words}");
        assert!(refused.message.starts_with(&start), "{}", refused.message);
    }
    Ok(())
}

#[tokio::test]
async fn a_transition_rule_keeps_a_field_as_it_is() -> Tested {
    let (cluster, _) = cluster().await;
    let (group, api) = own_orchard(&cluster).await;
    api.create(&PostParams::default(), &tree_of(&group, "a")).await?;
    let refused =
        refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"sort": "plum"}}))).await);
    assert!(
        refused.message.contains("spec.sort: Invalid value: \"string\": a tree keeps its sort"),
        "{}",
        refused.message
    );
    Ok(())
}

#[tokio::test]
async fn each_served_version_shows_the_same_objects() -> Tested {
    let (cluster, client) = cluster().await;
    let group = cluster.group(ORCHARD);
    let mut definition = serde_json::to_value(trees(&group))?;
    definition["spec"]["versions"] = json!([tree_version("v1", true), tree_version("v2", false)]);
    establish(&client, &of(definition)).await;
    let in_version =
        |version: &str| Api::<DynamicObject>::default_namespaced_with(client.clone(), &tree_kind(&group, version));
    in_version("v1").create(&PostParams::default(), &tree_of(&group, "a")).await?;
    let other = in_version("v2").get("a").await?;
    assert_eq!(other.types.map(|types| types.api_version), Some(format!("{group}/v2")));
    in_version("v2").patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"branches": 8}}))).await?;
    assert_eq!(in_version("v1").get("a").await?.data["spec"]["branches"], 8);
    assert_eq!(in_version("v2").list(&ListParams::default()).await?.items.len(), 1);
    change(&client, &format!("trees.{group}"), json!({"versions": [tree_version("v1", true), {"name": "v2", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]})).await?;
    soon("it is served no longer", async || in_version("v2").get("a").await.is_err()).await;
    assert_eq!(refusal(in_version("v2").get("a").await).code, 404);
    Ok(())
}

#[tokio::test]
async fn a_changed_schema_counts_at_once() -> Tested {
    let (cluster, client) = cluster().await;
    let (group, api) = own_orchard(&cluster).await;
    api.create(&PostParams::default(), &tree_of(&group, "a")).await?;
    let mut version = tree_version("v1", true);
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    properties["soil"] = json!({"type": "string", "enum": ["clay", "sand"], "default": "clay"});
    let generation =
        change(&client, &format!("trees.{group}"), json!({"versions": [version]})).await?.metadata.generation;
    assert_eq!(generation, Some(2));
    soon("stored objects get new defaults when they are read", async || {
        api.get("a").await.is_ok_and(|tree| tree.data["spec"]["soil"] == "clay")
    })
    .await;
    let bad = Patch::Merge(json!({"spec": {"soil": "rock"}}));
    let refused = refusal(api.patch("a", &PatchParams::default(), &bad).await);
    assert!(
        refused.message.contains("spec.soil: Unsupported value: \"rock\": supported values: \"clay\", \"sand\""),
        "{}",
        refused.message
    );
    Ok(())
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() -> Tested {
    let (cluster, client) = cluster().await;
    let (group, api) = own_orchard(&cluster).await;
    let mut held = tree_of(&group, "held");
    held.metadata.finalizers = Some(vec!["orchard.example/roots".into()]);
    api.create(&PostParams::default(), &held).await?;
    api.create(&PostParams::default(), &tree_of(&group, "free")).await?;
    let going = definitions(&client).delete(&format!("trees.{group}"), &DeleteParams::default()).await?;
    assert!(going.is_left(), "it waits for its objects");
    eventually(&api, "held", |tree: Option<&DynamicObject>| {
        tree.is_some_and(|tree| tree.metadata.deletion_timestamp.is_some())
    })
    .await;
    gone(&api, "free").await;
    let refused = refusal(api.create(&PostParams::default(), &tree_of(&group, "late")).await);
    assert_eq!(refused.code, 405, "{}", refused.message);
    api.patch("held", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    gone(&definitions(&client), &format!("trees.{group}")).await;
    soon("it is served no longer", async || api.list(&ListParams::default()).await.is_err()).await;
    own_orchard(&cluster).await;
    assert!(api.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn names_that_are_taken_are_not_accepted() -> Tested {
    let (cluster, client) = cluster().await;
    let (group, _) = own_orchard(&cluster).await;
    let mut rival = serde_json::to_value(trees(&group))?;
    let saplings = format!("saplings.{group}");
    rival["metadata"]["name"] = saplings.as_str().into();
    rival["spec"]["names"] = json!({"kind": "Sapling", "plural": "saplings", "shortNames": ["tr"]});
    definitions(&client).create(&PostParams::default(), &of(rival)).await?;
    let refused = |definition: Option<&CustomResourceDefinition>| {
        let conditions = definition.and_then(|definition| definition.status.as_ref()?.conditions.clone());
        conditions.into_iter().flatten().any(|c| c.type_ == "NamesAccepted" && c.status == "False")
    };
    eventually(&definitions(&client), &saplings, refused).await;
    definitions(&client).delete(&format!("trees.{group}"), &DeleteParams::default()).await?;
    eventually(&definitions(&client), &saplings, kube::runtime::conditions::is_crd_established()).await;
    Ok(())
}

#[tokio::test]
async fn the_status_of_a_definition_is_read_and_written() -> Tested {
    let (cluster, client) = cluster().await;
    let (group, _) = own_orchard(&cluster).await;
    let condition = json!({"type": "Tested", "status": "True", "reason": "E", "message": "m", "lastTransitionTime": "2026-01-31T12:00:00Z"});
    let mut definition = definitions(&client).get_status(&format!("trees.{group}")).await?;
    let status = definition.status.get_or_insert_default();
    status.conditions.get_or_insert_default().push(of(condition));
    let updated =
        definitions(&client).replace_status(&format!("trees.{group}"), &PostParams::default(), &definition).await?;
    let has = |definition: &CustomResourceDefinition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.clone());
        conditions.into_iter().flatten().any(|condition| condition.type_ == "Tested")
    };
    assert!(has(&updated));
    Ok(())
}

#[tokio::test]
async fn a_definition_that_makes_no_sense_is_refused() -> Tested {
    let (cluster, client) = cluster().await;
    let group = cluster.group(ORCHARD);
    for (pointer, value) in [
        ("/metadata/name", json!(format!("bushes.{group}"))),
        ("/spec/versions/0/storage", json!(false)),
        ("/spec/versions/0/schema/openAPIV3Schema", json!({"properties": {"a": {"type": "string"}}})),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule",
            json!("self.nothing > 1"),
        ),
    ] {
        let mut definition = serde_json::to_value(trees(&group))?;
        *definition.pointer_mut(pointer).expect("a part of the definition") = value;
        let refused = refusal(definitions(&client).create(&PostParams::default(), &of(definition)).await);
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{pointer}: {}", refused.message);
    }
    Ok(())
}

#[tokio::test]
async fn preserved_fields_stay() -> Tested {
    let (cluster, client) = cluster().await;
    let group = cluster.group(ORCHARD);
    let open = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("heaps.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"kind": "Heap", "plural": "heaps"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    establish(&client, &of(open)).await;
    let kind =
        kube::api::ApiResource::from_gvk_with_plural(&kube::api::GroupVersionKind::gvk(&group, "v1", "Heap"), "heaps");
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let heap: DynamicObject = of(
        json!({"apiVersion": format!("{group}/v1"), "kind": "Heap", "metadata": {"name": "h"}, "any": {"thing": [1]}}),
    );
    let created = api.create(&PostParams::default(), &heap).await?;
    assert_eq!((&created.data["any"], created.metadata.generation), (&json!({"thing": [1]}), Some(1)));
    Ok(())
}

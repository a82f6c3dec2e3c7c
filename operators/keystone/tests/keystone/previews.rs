//! What a changed Keystone leads to, told before it is changed.

use c5c3_kit::preview::{Assumed, Fate, Preview};
use c5c3_operator_keystone::operator;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::life::versions;
use crate::world::{Stage, keystone, stage};

fn of_release(tag: &str) -> Value {
    json!({"image": {"repository": "ghcr.io/c5c3/keystone", "tag": tag}})
}

/// What the object `gate` leads to with other fields of its spec.
async fn preview(stage: &Stage, spec: &Value) -> Preview {
    let mut object: DynamicObject = stage.api(&keystone(&json!({}))).get("gate").await.unwrap();
    for (field, value) in spec.as_object().unwrap() {
        object.data["spec"][field] = value.clone();
    }
    operator(false).preview(&stage.client, &object, &Assumed::default()).await.unwrap().unwrap()
}

/// The children that change, as `+ kind/name` and `~ kind/name`, without the hashes in their names.
fn changes(preview: &Preview) -> Vec<String> {
    let children = preview.steps.iter().flat_map(|step| &step.children);
    let told = children.filter_map(|child| {
        let sign = match child.fate {
            Fate::Created => '+',
            Fate::Changed(_) => '~',
            Fate::Unchanged | Fate::Refused(_) => return None,
        };
        let name = child.object.short();
        let name = match name.rsplit_once('-') {
            Some((base, hash)) if hash.len() > 6 && hash.chars().any(|letter| letter.is_ascii_digit()) => {
                base.to_owned()
            }
            _ => name,
        };
        Some(format!("{sign} {name}"))
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_told_with_its_migrations_and_the_point_of_no_return_and_nothing_is_written() {
    let stage = stage().await;
    let running = stage.operate();
    stage.create(&keystone(&of_release("27.0.0"))).await;
    stage.until_ready().await;
    drop(running);
    let before = versions(&stage).await;

    let same = preview(&stage, &json!({})).await;
    assert!(changes(&same).is_empty() && same.deleted.is_empty() && same.ahead.is_empty(), "{same:#?}");

    let upgrade = preview(&stage, &of_release("28.0.0")).await;
    let changed = changes(&upgrade);
    for expected in ["+ job/gate-db-expand", "~ deployment/gate"] {
        assert!(changed.iter().any(|one| one.starts_with(expected)), "{expected} is not in {changed:?}");
    }
    let restarted =
        upgrade.steps.iter().flat_map(|step| &step.children).find(|child| child.object.resource.kind == "Deployment");
    let Fate::Changed(fields) = &restarted.unwrap().fate else { panic!("{restarted:?}") };
    assert!(
        fields.iter().any(|field| {
            field.path.starts_with("spec.template.") && field.path.rsplit('.').next() == Some("image")
        }),
        "{fields:?}"
    );
    let contract = upgrade.ahead.iter().find(|ahead| ahead.irreversible).unwrap();
    assert!(contract.job.as_ref().unwrap().reference().name.starts_with("gate-db-contract-"), "{contract:?}");

    let backwards = preview(&stage, &of_release("26.0.0")).await;
    assert!(backwards.problems.to_string().contains("older"), "{:?}", backwards.problems);
    assert_eq!(versions(&stage).await, before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_what_happens_and_no_secret_is_among_it() {
    let stage = stage().await;
    let running = stage.operate();
    stage.create(&keystone(&json!({}))).await;
    stage.until_ready().await;
    drop(running);
    let spec = json!({"extraConfig": {"token": {"expiration": "7200"}}});
    let told = preview(&stage, &spec).await;
    let text = format!("{told:?}");
    assert!(!text.contains("db$ecret") && !text.contains("adm1n"), "{text}");
    let created: Vec<String> = told
        .steps
        .iter()
        .flat_map(|step| &step.children)
        .filter(|child| child.fate == Fate::Created)
        .map(|child| format!("{}/{}", child.object.resource.kind, child.object.name))
        .collect();
    assert!(created.iter().any(|one| one.starts_with("Secret/gate-config-")), "{created:?}");
    let before = versions(&stage).await;
    let api = stage.api(&keystone(&json!({})));
    api.patch("gate", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    let _running = stage.operate();
    let generation = api.get("gate").await.unwrap().metadata.generation;
    stage
        .until(move |object: Option<&c5c3_api::openstack::Keystone>| {
            let status = object.and_then(|object| object.status.as_ref()).map(|status| &status.service);
            let is_ready =
                |one: &c5c3_api::blocks::Condition| one.r#type == "Ready" && format!("{:?}", one.status) == "True";
            status.is_some_and(|status| {
                status.observed_generation == generation && status.conditions.iter().any(is_ready)
            })
        })
        .await;
    let new: Vec<String> = versions(&stage).await.into_keys().filter(|name| !before.contains_key(name)).collect();
    for name in &new {
        assert!(created.contains(name), "{name} was not told: {created:?}");
    }
    assert!(!new.is_empty());
}

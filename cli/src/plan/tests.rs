use std::collections::BTreeMap;

use c5c3_kit::preview::{Ahead, Change, Fate, FieldChange, Preview, StepPreview};
use c5c3_kit::{Child, Ref, Wait};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::follow::Planned;
use super::shown;
use super::summary::Summary;

fn object<K: kube::Resource<DynamicType = ()>>(name: &str, data: Value) -> (Ref, DynamicObject) {
    let mut object = DynamicObject::new(name, &ApiResource::erase::<K>(&())).within("cloud");
    object.data = data;
    (Ref::namespaced::<K>("cloud", name), object)
}

fn change<K: kube::Resource<DynamicType = ()>>(name: &str, fate: Fate, data: Value) -> Change {
    let (reference, after) = object::<K>(name, data);
    let before = matches!(fate, Fate::Changed(_)).then(|| Box::new(after.clone()));
    Change { object: reference, fate, wait: None, after, before }
}

fn field(path: &str, before: &str, after: &str) -> FieldChange {
    FieldChange { path: path.into(), before: Some(before.into()), after: Some(after.into()), confidential: false }
}

fn job(name: &str, command: &str) -> DynamicObject {
    let container = json!({"command": command.split(' ').collect::<Vec<_>>()});
    let (_, mut job) = object::<Job>(name, json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    job.metadata.labels = Some([("c5c3.io/job-group".to_owned(), "schema".to_owned())].into());
    job
}

/// A Keystone from one release to the next.
fn upgrade() -> Planned {
    let expand = job("keystone-db-expand-1a", "keystone-manage db_sync --expand");
    let contract = Child::dynamic(
        ApiResource::erase::<Job>(&()),
        job("keystone-db-contract-2b", "keystone-manage db_sync --contract"),
    );
    let secret = FieldChange { path: "data.password".into(), before: None, after: None, confidential: true };
    let pods = field("spec.template.spec.containers[api].image", "keystone:28.0.0", "keystone:29.0.0");
    let step = |name: &str, needs: &[&str], children| StepPreview {
        name: name.into(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        undecided: false,
        waits: Vec::new(),
        children,
        calls: Vec::new(),
    };
    let made = Change { after: expand.clone(), ..change::<Job>("keystone-db-expand-1a", Fate::Created, json!({})) };
    let preview = Preview {
        about: Ref::namespaced::<Service>("cloud", "keystone"),
        paused: false,
        problems: c5c3_api::Problems::default(),
        waits: vec![Wait::on(&Ref::namespaced::<Secret>("cloud", "keystone-db-credentials")).absent()],
        steps: vec![
            step("schema", &["database"], vec![made]),
            step(
                "api",
                &["schema"],
                vec![
                    change::<Deployment>("keystone-api", Fate::Changed(vec![pods]), json!({"status": {"replicas": 3}})),
                    change::<Secret>(
                        "keystone-key",
                        Fate::Changed(vec![secret]),
                        json!({"data": {"password": "cmlkZGxl"}}),
                    ),
                ],
            ),
            StepPreview { undecided: true, ..step("auth", &[], Vec::new()) },
        ],
        deleted: vec![Ref::namespaced::<Service>("cloud", "keystone-old")],
        ahead: vec![
            Ahead::new("the contract migrations, once all pods are of the new release").job(contract).irreversible(),
        ],
    };
    Planned {
        object: Ref::namespaced::<Service>("cloud", "keystone"),
        exists: true,
        fields: vec![
            field("spec.image.tag", "28.0.0", "29.0.0"),
            field("spec.url", "http://a:riddle@b", "http://a:owl@b"),
        ],
        preview: Some(preview),
        below: BTreeMap::new(),
    }
}

#[test]
fn a_plan_is_a_tree_that_ends_with_what_it_comes_to() {
    let plans = [upgrade()];
    insta::assert_snapshot!(shown::text(&plans, &Summary::of(&plans)));
}

#[test]
fn a_plan_as_a_value_has_the_same_and_no_secret() {
    let plans = [upgrade()];
    let value = shown::json(&plans, &Summary::of(&plans));
    assert_eq!(value["summary"]["restarts"][0], json!({"object": "deployment/cloud/keystone-api", "pods": 3}));
    assert_eq!(value["summary"]["migrations"][1]["pointOfNoReturn"], true);
    assert_eq!(value["summary"]["migrations"][0]["runs"], json!(["keystone-manage db_sync --expand"]));
    let text = value.to_string() + &shown::text(&plans, &Summary::of(&plans));
    for secret in ["riddle", "owl", "cmlkZGxl"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_plan_without_a_change_says_so() {
    let mut same = upgrade();
    same.fields.clear();
    same.preview = None;
    let plans = [same];
    let summary = Summary::of(&plans);
    assert!(!summary.is_change());
    assert!(shown::text(&plans, &summary).ends_with("nothing changes\n"));
}

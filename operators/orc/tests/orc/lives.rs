//! What happens to a managed object of each kind while nothing fails.

use serde_json::{Value, json};

use crate::site::Site;

/// A kind: its collection in Keystone, a spec, and for each field that can change a new value and what Keystone holds then.
struct Row {
    kind: &'static str,
    plural: &'static str,
    spec: Value,
    created: Value,
    changes: Vec<(Value, Value)>,
    /// Changes that the API server refuses, with its message.
    immutable: Vec<(Value, &'static str)>,
    status: Value,
}

fn rows() -> Vec<Row> {
    let named = |kind, plural| Row {
        kind,
        plural,
        spec: json!({"description": "old trees"}),
        created: json!({"name": "pear", "description": "old trees"}),
        changes: vec![
            (json!({"name": "plum"}), json!({"name": "plum"})),
            (json!({"description": "young trees"}), json!({"description": "young trees"})),
            (json!({"description": null}), json!({"description": ""})),
        ],
        immutable: vec![],
        status: json!({"name": "pear", "description": "old trees"}),
    };
    let enabled = |mut row: Row| {
        row.changes.push((json!({"enabled": false}), json!({"enabled": false})));
        row.changes.push((json!({"enabled": null}), json!({"enabled": true})));
        row
    };
    let in_domain = |mut row: Row| {
        row.spec["domainRef"] = "east".into();
        row.immutable.push((json!({"domainRef": "west"}), "domainRef is immutable"));
        row
    };
    let mut project = in_domain(enabled(named("Project", "projects")));
    project.spec["tags"] = json!(["b", "a"]);
    project.created["tags"] = json!(["a", "b"]);
    project.changes.push((json!({"tags": ["c"]}), json!({"tags": ["c"]})));
    project.changes.push((json!({"tags": null}), json!({"tags": []})));
    let mut service = enabled(named("Service", "services"));
    service.spec["type"] = "fruit".into();
    service.created["type"] = "fruit".into();
    service.changes[2].1 = json!({"description": null});
    service.changes.push((json!({"type": "nuts"}), json!({"type": "nuts"})));
    let mut user = in_domain(enabled(named("User", "users")));
    user.spec["defaultProjectRef"] = "acre".into();
    user.immutable.push((json!({"defaultProjectRef": "field"}), "defaultProjectRef is immutable"));
    let endpoint = Row {
        kind: "Endpoint",
        plural: "endpoints",
        spec: json!({"serviceRef": "shop", "interface": "public", "url": "http://a", "description": "the gate"}),
        created: json!({"interface": "public", "url": "http://a", "description": "the gate"}),
        changes: vec![
            (json!({"url": "http://b"}), json!({"url": "http://b"})),
            (json!({"interface": "internal"}), json!({"interface": "internal"})),
            (json!({"enabled": false}), json!({"enabled": false})),
            // As upstream: an endpoint that names it no longer stays as it is, and other kinds are enabled again.
            (json!({"enabled": null}), json!({"enabled": false})),
        ],
        immutable: vec![
            (json!({"serviceRef": "market"}), "serviceRef is immutable"),
            (json!({"description": "another gate"}), "description is immutable"),
        ],
        status: json!({"interface": "public", "url": "http://a", "description": "the gate", "enabled": true}),
    };
    vec![
        enabled(named("Domain", "domains")),
        project,
        in_domain(named("Role", "roles")),
        in_domain(named("Group", "groups")),
        service,
        endpoint,
        user,
    ]
}

/// Everything that the rows refer to.
async fn prepare(site: &Site) {
    site.managed("Domain", "east", json!({})).await;
    site.managed("Project", "acre", json!({})).await;
    site.managed("Service", "shop", json!({"type": "shop"})).await;
    for (kind, name) in [("Domain", "east"), ("Project", "acre"), ("Service", "shop")] {
        site.done(kind, name).await;
    }
}

fn is_part(part: &Value, whole: &Value) -> bool {
    part.as_object().unwrap().iter().all(|(field, value)| whole[field] == *value)
}

#[tokio::test]
async fn each_kind_is_created_updated_field_by_field_and_its_immutable_fields_are_refused() {
    let site = Site::open().await;
    prepare(&site).await;
    for row in rows() {
        site.managed(row.kind, "pear", row.spec.clone()).await;
        let status = site.done(row.kind, "pear").await;
        let id = status["id"].as_str().unwrap().to_owned();
        let live = || site.keystone.all(row.plural).into_iter().find(|live| live["id"] == id.as_str()).unwrap();
        assert!(is_part(&row.created, &live()), "{}: {} is not in {}", row.kind, row.created, live());
        assert!(is_part(&row.status, &status["resource"]), "{}: {status}", row.kind);
        assert!(status["lastSyncTime"].is_string(), "{}: {status}", row.kind);
        for (change, remote) in row.changes {
            site.patch(row.kind, "pear", json!({"spec": {"resource": change}})).await.unwrap();
            site.done(row.kind, "pear").await;
            assert!(is_part(&remote, &live()), "{}: {change}: {}", row.kind, live());
        }
        for (change, message) in row.immutable {
            let refused = site.patch(row.kind, "pear", json!({"spec": {"resource": change}})).await.unwrap_err();
            assert!(refused.to_string().contains(message), "{}: {refused}", row.kind);
        }
    }
}

#[tokio::test]
async fn references_become_ids_and_are_shown_in_the_status() {
    let site = Site::open().await;
    site.managed("User", "ada", json!({"domainRef": "east", "defaultProjectRef": "acre"})).await;
    let message = "Waiting for Domain/east to be created\nWaiting for Project/acre to be created";
    site.said("User", "ada", "Progressing", "True", "Progressing", message).await;
    site.said("User", "ada", "Available", "False", "Progressing", message).await;
    prepare(&site).await;
    let status = site.done("User", "ada").await;
    let (domain, project) = (site.status("Domain", "east").await, site.status("Project", "acre").await);
    assert_eq!(
        (&status["resource"]["domainID"], &status["resource"]["defaultProjectID"]),
        (&domain["id"], &project["id"])
    );
    site.managed("Role", "reader", json!({})).await;
    assert_eq!(site.done("Role", "reader").await["resource"]["domainID"], "");
    site.managed("Group", "gardeners", json!({})).await;
    assert_eq!(site.done("Group", "gardeners").await["resource"]["domainID"], "default");
}

#[tokio::test]
async fn drift_is_put_back_and_the_event_names_the_field() {
    let site = Site::open().await;
    let spec = json!({"resource": {"description": "trees"}, "resyncPeriod": "50ms"});
    site.create("Role", "reader", spec).await.unwrap();
    let status = site.done("Role", "reader").await;
    let mut role = site.keystone.all("roles").remove(0);
    role["description"] = "weeds".into();
    site.keystone.put("roles", role);
    let note = site.event("reader", "RemoteUpdated").await;
    let id = status["id"].as_str().unwrap();
    assert_eq!(
        note,
        format!("update role {id} with description=\"trees\": description is \"weeds\" and should be \"trees\"")
    );
}

#[tokio::test]
async fn what_was_deleted_in_keystone_is_created_again_with_a_new_id() {
    let site = Site::open().await;
    site.create("Role", "reader", json!({"resource": {}, "resyncPeriod": "50ms"})).await.unwrap();
    let old = site.done("Role", "reader").await["id"].as_str().unwrap().to_owned();
    site.keystone.remove("roles", &old);
    let is_new = |object: Option<&kube::api::DynamicObject>| {
        object.and_then(|object| object.data["status"]["id"].as_str()).is_some_and(|id| id != old)
    };
    site.until("Role", "reader", "has a new id", is_new).await;
    site.done("Role", "reader").await;
    assert_eq!(site.keystone.all("roles").len(), 1);
}

#[tokio::test]
async fn a_password_is_set_when_its_secret_has_another_name_or_content() {
    let site = Site::open().await;
    site.managed("User", "ada", json!({"passwordRef": "first"})).await;
    site.said("User", "ada", "Progressing", "True", "Progressing", "Waiting for Secret/first to be created").await;
    site.secret("first", "wrong", "plum").await;
    let lacks = "Password secret does not contain \"password\" key";
    site.said("User", "ada", "Progressing", "True", "Progressing", lacks).await;
    site.secret("first", "password", "plum").await;
    assert_eq!(site.done("User", "ada").await["resource"]["appliedPasswordRef"], "first");
    let password = || site.keystone.all("users")[0]["password"].clone();
    assert_eq!((password(), site.keystone.count("PATCH /users")), (json!("plum"), 0), "its creation has set it");
    site.secret("first", "password", "cherry").await;
    site.event("ada", "RemoteUpdated").await;
    site.done("User", "ada").await;
    assert_eq!(password(), "cherry");
    site.secret("second", "password", "quince").await;
    site.patch("User", "ada", json!({"spec": {"resource": {"passwordRef": "second"}}})).await.unwrap();
    assert_eq!(site.done("User", "ada").await["resource"]["appliedPasswordRef"], "second");
    assert_eq!(password(), "quince");
    let note = site.event("ada", "RemoteUpdated").await;
    assert!(note.contains("password=(secret): password is not the one of Secret/"), "{note}");
}

#[tokio::test]
async fn an_adopted_user_gets_the_password_of_its_secret() {
    let site = Site::open().await;
    site.keystone
        .put("users", json!({"id": "f1", "name": "ada", "domain_id": "default", "enabled": true, "password": "?"}));
    site.secret("first", "password", "plum").await;
    site.managed("User", "ada", json!({"passwordRef": "first"})).await;
    assert_eq!(site.done("User", "ada").await["id"], "f1");
    assert_eq!(site.keystone.all("users")[0]["password"], "plum");
}

#[tokio::test]
async fn hundreds_of_objects_share_tokens_and_lists() {
    let mut site = Site::open().await;
    site.kill().await;
    site.restart_sharing(c5c3_operator_orc::SHARED);
    let count = 60;
    for number in 0..count {
        site.create("Role", &format!("r{number}"), json!({"resource": {}, "resyncPeriod": "1s"})).await.unwrap();
    }
    for number in 0..count {
        site.done("Role", &format!("r{number}")).await;
    }
    assert_eq!(site.keystone.count("POST /auth/tokens"), 1);
    assert_eq!(site.keystone.count("POST /roles"), count);
    let single = site.keystone.count("GET /roles/");
    assert!(single < count, "{single} single requests for {count} objects");
}

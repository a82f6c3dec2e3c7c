//! What objects refer to: it is waited for, guarded while they need it, and not guarded where only an import looks it up.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::kinds::{KINDS, fields, finalizer, prepared, references, referring};
use crate::site::Site;

/// The field of a spec that refers to an object, and the kind and the name of the object.
type Reference = (&'static str, &'static str, String);

/// Each kind with all that its spec can refer to, as often as it takes to refer to everything.
fn rows() -> Vec<(&'static str, Vec<Reference>)> {
    let mut rows = Vec::new();
    for (kind, _) in KINDS {
        for (number, set) in references(kind).into_iter().enumerate() {
            let name = |field: &str| format!("{}-{number}-{}", kind.to_lowercase(), field.to_lowercase());
            rows.push((kind, set.into_iter().map(|(field, of)| (field, of, name(field))).collect()));
        }
    }
    rows
}

fn waiting_for(referred: &[Reference], what: &str) -> String {
    let lines = referred.iter().map(|(_, kind, name)| format!("Waiting for {kind}/{name} to be {what}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn finalizers(object: Option<&DynamicObject>) -> Vec<String> {
    object.and_then(|object| object.metadata.finalizers.clone()).unwrap_or_default()
}

/// Creates what a spec refers to, with a Secret that is not there yet.
async fn create_without_secret(site: &Site, referred: &[Reference], secret: &str) {
    for (_, kind, name) in referred {
        let credentials = json!({"secretName": secret, "cloudName": "orchard"});
        let spec = json!({"resource": fields(kind), "cloudCredentialsRef": credentials});
        site.create(kind, name, spec).await.unwrap();
    }
}

#[tokio::test]
async fn each_kind_waits_for_all_that_it_refers_to_guards_it_and_goes_before_it() {
    let site = prepared().await;
    for (number, (kind, referred)) in rows().into_iter().enumerate() {
        let (pear, secret, guard) = (format!("pear-{number}"), format!("late-{number}"), finalizer(kind));
        let named: Vec<(&str, String)> = referred.iter().map(|(field, _, name)| (*field, name.clone())).collect();
        site.managed(kind, &pear, referring(kind, &named)).await;
        for what in ["created", "ready"] {
            let message = waiting_for(&referred, what);
            site.said(kind, &pear, "Progressing", "True", "Progressing", &message).await;
            site.said(kind, &pear, "Available", "False", "Progressing", &message).await;
            match what {
                "created" => create_without_secret(&site, &referred, &secret).await,
                _ => site.secret(&secret, "clouds.yaml", &site.keystone.clouds(crate::keystone::PASSWORD)).await,
            }
        }
        site.done(kind, &pear).await;
        for (field, of, name) in &referred {
            let is_guarded = |object: Option<&DynamicObject>| {
                let held = finalizers(object);
                held.contains(&guard) && held.contains(&finalizer(of))
            };
            site.until(of, name, "is guarded", is_guarded).await;
            // A guard that was lost comes back.
            site.replace(of, name).await;
            site.until(of, name, "is guarded again", is_guarded).await;
            site.done(of, name).await;
            site.delete(of, name).await;
            let message = format!("Waiting for finalizer {guard} to be removed");
            site.said(of, name, "Progressing", "True", "Progressing", &message).await;
            assert!(site.api(of).get_opt(name).await.unwrap().is_some(), "{kind} {field} still needs it");
        }
        site.delete(kind, &pear).await;
        site.gone(kind, &pear).await;
        for (_, of, name) in &referred {
            site.gone(of, name).await;
        }
    }
}

#[tokio::test]
async fn what_only_an_import_looks_up_is_waited_for_and_not_guarded() {
    let site = prepared().await;
    for (number, (kind, mut referred)) in rows().into_iter().enumerate() {
        // The filters of these have fewer references than their resources.
        referred.retain(|(field, ..)| !["defaultProjectRef", "roleRefs", "accessRules"].contains(field));
        let mut filter = json!({});
        for (field, _, name) in &referred {
            filter[*field] = json!(name);
        }
        if kind == "ApplicationCredential" {
            filter["name"] = "nobody".into();
        }
        let pear = format!("pear-{number}");
        site.import(kind, &pear, json!({ "filter": filter })).await;
        let message = waiting_for(&referred, "created");
        site.said(kind, &pear, "Progressing", "True", "Progressing", &message).await;
        for (_, of, name) in &referred {
            site.managed(of, name, fields(of)).await;
        }
        let message = "Waiting for OpenStack resource to be created externally";
        site.said(kind, &pear, "Progressing", "True", "Progressing", message).await;
        for (_, of, name) in &referred {
            let object = site.api(of).get(name).await.unwrap();
            assert_eq!(finalizers(Some(&object)), [finalizer(of)], "{kind}: {of} {name}");
            site.delete(of, name).await;
            site.gone(of, name).await;
        }
    }
}

#[tokio::test]
async fn nothing_of_the_same_name_is_adopted_while_the_domain_is_not_known() {
    let site = prepared().await;
    let kinds = [("Project", "projects"), ("Role", "roles"), ("Group", "groups"), ("User", "users")];
    for (kind, plural) in kinds {
        let domain = if kind == "Role" { Value::Null } else { "default".into() };
        let same = json!({"id": "f1", "name": "pear", "domain_id": domain, "enabled": true, "description": ""});
        site.keystone.put(plural, same);
        site.managed(kind, "pear", json!({"domainRef": "east"})).await;
        site.said(kind, "pear", "Progressing", "True", "Progressing", "Waiting for Domain/east to be created").await;
    }
    site.managed("Domain", "east", json!({})).await;
    let east = site.done("Domain", "east").await["id"].clone();
    for (kind, plural) in kinds {
        let status = site.done(kind, "pear").await;
        assert_ne!(status["id"], "f1", "{kind}");
        assert_eq!(status["resource"]["domainID"], east, "{kind}");
        assert_eq!(site.keystone.all(plural).iter().filter(|one| one["name"] == "pear").count(), 2, "{kind}");
    }
}

//! Role assignments, which have no id: their references are their identity.

use kube::api::DeleteParams;
use serde_json::json;

use crate::site::Site;

async fn prepare(site: &Site) {
    for (kind, name) in
        [("Role", "reader"), ("User", "ada"), ("Group", "staff"), ("Project", "acre"), ("Domain", "east")]
    {
        site.managed(kind, name, json!({})).await;
        site.done(kind, name).await;
    }
}

#[tokio::test]
async fn a_role_is_granted_to_users_and_groups_on_projects_and_domains_and_revoked_again() {
    let site = Site::open().await;
    prepare(&site).await;
    for (name, actor, target) in [
        ("one", "user", "project"),
        ("two", "user", "domain"),
        ("three", "group", "project"),
        ("four", "group", "domain"),
    ] {
        let names = [("user", "ada"), ("group", "staff"), ("project", "acre"), ("domain", "east")];
        let mut spec = json!({"roleRef": "reader"});
        for (what, referred) in names.into_iter().filter(|(what, _)| [actor, target].contains(what)) {
            spec[format!("{what}Ref")] = referred.into();
        }
        site.managed("RoleAssignment", name, spec).await;
        let status = site.done("RoleAssignment", name).await;
        assert!(status["id"].is_null() && status["resource"]["roleID"].is_string(), "{status}");
        assert!(status["resource"][format!("{actor}ID")].is_string(), "{status}");
        assert!(status["resource"][format!("{target}ID")].is_string(), "{status}");
        assert_eq!(site.keystone.all("role_assignments").len(), 1, "{name}");
        site.api("RoleAssignment").delete(name, &DeleteParams::default()).await.unwrap();
        site.gone("RoleAssignment", name).await;
        assert!(site.keystone.all("role_assignments").is_empty(), "{name}");
    }
}

#[tokio::test]
async fn an_assignment_waits_for_everything_that_it_refers_to_and_cannot_change() {
    let site = Site::open().await;
    site.managed("RoleAssignment", "one", json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"})).await;
    let message = "Waiting for Role/reader to be created\nWaiting for User/ada to be created\nWaiting for Project/acre to be created";
    site.said("RoleAssignment", "one", "Progressing", "True", "Progressing", message).await;
    prepare(&site).await;
    site.done("RoleAssignment", "one").await;
    let patch = json!({"spec": {"resource": {"roleRef": "writer"}}});
    let refused = site.patch("RoleAssignment", "one", patch).await.unwrap_err();
    assert!(refused.to_string().contains("RoleAssignmentResourceSpec is immutable"), "{refused}");
}

#[tokio::test]
async fn an_assignment_is_imported_by_its_parts_and_reported_when_it_is_gone() {
    let site = Site::open().await;
    prepare(&site).await;
    let spec = json!({"managementPolicy": "unmanaged", "resyncPeriod": "50ms",
        "import": {"filter": {"roleRef": "reader", "userRef": "ada"}}});
    site.create("RoleAssignment", "one", spec).await.unwrap();
    let message = "Waiting for OpenStack resource to be created externally";
    site.said("RoleAssignment", "one", "Progressing", "True", "Progressing", message).await;
    site.managed("RoleAssignment", "real", json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"})).await;
    site.done("RoleAssignment", "real").await;
    // An import looks again after 15 s; a change of the object makes it look at once.
    let filter = json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"});
    site.patch("RoleAssignment", "one", json!({"spec": {"import": {"filter": filter}}})).await.unwrap();
    site.done("RoleAssignment", "one").await;
    site.api("RoleAssignment").delete("real", &DeleteParams::default()).await.unwrap();
    site.gone("RoleAssignment", "real").await;
    let message = "role assignment has been deleted from OpenStack";
    site.said("RoleAssignment", "one", "Progressing", "False", "UnrecoverableError", message).await;
}

#[tokio::test]
async fn a_grant_that_keystone_refuses_is_terminal_for_a_conflict() {
    let site = Site::open().await;
    prepare(&site).await;
    site.keystone.fail("PUT /", 409, 1);
    site.managed("RoleAssignment", "one", json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"})).await;
    let message = "invalid configuration creating role assignment: conflict: PUT /v3/projects/";
    site.said("RoleAssignment", "one", "Progressing", "False", "InvalidConfiguration", message).await;
}

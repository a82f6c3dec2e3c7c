//! What each of the nine kinds does when its change is refused: by the API server because the field is immutable, or by Keystone.

use serde_json::{Value, json};

use crate::kinds::{KINDS, another, deletion, fields, import, plural, prepared};

/// Changes of a spec that the API server refuses, from a resource with everything that cannot change, and the message.
fn immutable(kind: &str) -> (Value, Vec<(Value, &'static str)>) {
    let mut spec = fields(kind);
    let mut set = |field: &str, value: Value| spec[field] = value;
    let changes = match kind {
        "Project" | "Role" | "Group" => {
            set("domainRef", json!("east"));
            vec![(json!({"domainRef": "west"}), "domainRef is immutable")]
        }
        "User" => {
            set("domainRef", json!("east"));
            set("defaultProjectRef", json!("acre"));
            set("passwordRef", json!("code"));
            vec![
                (json!({"domainRef": "west"}), "domainRef is immutable"),
                (json!({"defaultProjectRef": "field"}), "defaultProjectRef is immutable"),
                (json!({"passwordRef": null}), "passwordRef may not be removed once set"),
            ]
        }
        "Endpoint" => {
            set("description", json!("the gate"));
            vec![
                (json!({"serviceRef": "market"}), "serviceRef is immutable"),
                (json!({"description": "another gate"}), "description is immutable"),
            ]
        }
        "RoleAssignment" => {
            let changes = [
                json!({"roleRef": "writer"}),
                json!({"userRef": "bob"}),
                json!({"userRef": null, "groupRef": "staff"}),
                json!({"projectRef": "field"}),
                json!({"projectRef": null, "domainRef": "east"}),
            ];
            changes.into_iter().map(|change| (change, "RoleAssignmentResourceSpec is immutable")).collect()
        }
        "ApplicationCredential" => {
            let changes = [
                json!({"name": "plum"}),
                json!({"description": "cuts"}),
                json!({"userRef": "bob"}),
                json!({"secretRef": "other"}),
                json!({"unrestricted": true}),
                json!({"roleRefs": ["reader"]}),
                json!({"accessRules": [{"path": "/a"}]}),
                json!({"expiresAt": "2031-01-02T03:04:05Z"}),
            ];
            changes.into_iter().map(|change| (change, "ApplicationCredentialResourceSpec is immutable")).collect()
        }
        _ => vec![],
    };
    (spec, changes)
}

#[tokio::test]
async fn each_immutable_field_of_each_kind_is_refused() {
    let site = prepared().await;
    for (kind, _) in KINDS {
        let (spec, changes) = immutable(kind);
        site.managed(kind, "pear", spec).await;
        for (change, message) in changes {
            let refused = site.patch(kind, "pear", json!({"spec": {"resource": change}})).await.unwrap_err();
            assert!(refused.to_string().contains(message), "{kind} {change}: {refused}");
        }
        let unmanaged = json!({"spec": {"managementPolicy": "unmanaged", "resource": null, "import": import(kind)}});
        let refused = site.patch(kind, "pear", unmanaged).await.unwrap_err();
        assert!(refused.to_string().contains("managementPolicy is immutable"), "{kind}: {refused}");
    }
}

#[tokio::test]
async fn a_creation_that_keystone_does_not_know_is_terminal_and_one_over_a_quota_is_not_for_each_kind() {
    let site = prepared().await;
    for (kind, call) in KINDS {
        let spec = another(&site, kind, "plum").await;
        site.keystone.fail(call, 501, usize::MAX);
        site.managed(kind, "plum", spec).await;
        let message = "invalid configuration creating";
        site.said(kind, "plum", "Progressing", "False", "InvalidConfiguration", message).await;
        site.said(kind, "plum", "Available", "False", "InvalidConfiguration", message).await;
        site.keystone.heal();

        let spec = another(&site, kind, "fig").await;
        site.keystone.refuse(call, 409, "OverQuota: there are enough of them.");
        site.managed(kind, "fig", spec).await;
        site.said(kind, "fig", "Progressing", "True", "TransientError", "conflict: ").await;
        site.keystone.heal();
        site.done(kind, "fig").await;
        // Keystone works again, and nothing but a change of the other one brings it back, or of what it refers to.
        if !matches!(kind, "Endpoint" | "RoleAssignment" | "ApplicationCredential") {
            let message = "invalid configuration creating";
            site.said(kind, "plum", "Progressing", "False", "InvalidConfiguration", message).await;
        }
    }
}

#[tokio::test]
async fn an_update_that_fails_is_tried_again_and_a_conflict_is_terminal_for_each_kind_that_can_change() {
    let site = prepared().await;
    let change = |kind: &str, to: &str| match kind {
        "Endpoint" => json!({"spec": {"resource": {"url": format!("http://{to}")}}}),
        _ => json!({"spec": {"resource": {"name": to}}}),
    };
    let kinds: Vec<&str> = KINDS.into_iter().map(|(kind, _)| kind).filter(|kind| can_change(kind)).collect();
    for kind in &kinds {
        site.managed(kind, "pear", fields(kind)).await;
        site.done(kind, "pear").await;
    }
    for (status, is_terminal) in [(400, false), (403, false), (500, false), (503, false), (409, true), (501, true)] {
        let to = format!("name-{status}");
        for kind in &kinds {
            site.keystone.fail(&format!("PATCH /{}", plural(kind)), status, usize::MAX);
            site.patch(kind, "pear", change(kind, &to)).await.unwrap();
        }
        for kind in &kinds {
            let (progressing, reason, message) = if is_terminal {
                ("False", "InvalidConfiguration", "invalid configuration updating resource: ")
            } else {
                ("True", "TransientError", "")
            };
            site.said(kind, "pear", "Progressing", progressing, reason, message).await;
            let message = "OpenStack resource is available";
            site.said(kind, "pear", "Available", "True", "Success", message).await;
        }
        site.keystone.heal();
        for kind in &kinds {
            if is_terminal {
                site.patch(kind, "pear", change(kind, &format!("{to}-again"))).await.unwrap();
            }
            site.done(kind, "pear").await;
        }
    }
}

fn can_change(kind: &str) -> bool {
    !["RoleAssignment", "ApplicationCredential"].contains(&kind)
}

#[tokio::test]
async fn a_deletion_that_fails_is_tried_again_whatever_keystone_says_for_each_kind() {
    let site = prepared().await;
    for status in [403, 409, 500, 501, 503] {
        let before: Vec<usize> = KINDS.iter().map(|(kind, _)| site.keystone.all(&plural(kind)).len()).collect();
        for (kind, _) in KINDS {
            site.managed(kind, "pear", fields(kind)).await;
        }
        for (kind, _) in KINDS {
            site.done(kind, "pear").await;
            site.keystone.fail(&deletion(kind), status, usize::MAX);
            site.delete(kind, "pear").await;
        }
        for (kind, _) in KINDS {
            site.said(kind, "pear", "Progressing", "True", "TransientError", "").await;
        }
        let now: Vec<usize> = KINDS.iter().map(|(kind, _)| site.keystone.all(&plural(kind)).len()).collect();
        assert!(now.iter().zip(&before).all(|(now, before)| *now == before + 1), "{status}: {before:?} {now:?}");
        site.keystone.heal();
        for (kind, _) in KINDS {
            site.gone(kind, "pear").await;
        }
        let now: Vec<usize> = KINDS.iter().map(|(kind, _)| site.keystone.all(&plural(kind)).len()).collect();
        assert_eq!(now, before, "{status}");
    }
}

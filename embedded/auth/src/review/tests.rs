//! Questions as kubectl and webhooks put them, and their answers.

use super::*;
use crate::pki::Pki;
use crate::rbac::bootstrap;
use crate::token::tests::{now, shop};
use crate::user::AUTHENTICATED;

fn policy() -> Policy {
    Policy::from_objects(&bootstrap::objects()).unwrap()
}

fn authenticator() -> Authenticator {
    Authenticator::new(&Pki::in_memory(&[], now()).unwrap())
        .with_token(&"sesame".into(), UserInfo::new("ali", ["thieves"]))
}

#[test]
fn a_token_review_names_the_holder() {
    let authenticator = authenticator();
    let ask = |token: &str, audiences: Value| {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, "audiences": audiences}});
        token_review(&review, &authenticator, &shop(), now()).unwrap()["status"].clone()
    };
    let api = json!([crate::ISSUER]);
    assert_eq!(
        ask("sesame", Value::Null),
        json!({"authenticated": true, "audiences": api, "user": {"username": "ali", "groups": ["thieves", AUTHENTICATED]}})
    );
    let issued = authenticator.service_accounts().token_request(
        &json!({"spec": {"audiences": ["vault"]}}),
        "shop",
        "till",
        &shop(),
        now(),
    );
    let token = issued.unwrap()["status"]["token"].as_str().unwrap().to_owned();
    let accepted = ask(&token, json!(["vault", "other"]));
    assert_eq!((&accepted["authenticated"], &accepted["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(accepted["user"]["username"], "system:serviceaccount:shop:till");
    let refused = ask(&token, Value::Null);
    assert_eq!(refused["user"], json!({}));
    assert_eq!(
        refused["error"],
        format!(
            "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"{}\"]]",
            crate::ISSUER
        )
    );
    assert!(ask("nonsense", Value::Null)["authenticated"].is_null());
}

#[test]
fn who_am_i() {
    let answer = self_subject_review(&json!({"kind": "SelfSubjectReview"}), &UserInfo::new("jane", ["dev"]));
    assert_eq!(answer["status"], json!({"userInfo": {"username": "jane", "groups": ["dev"]}}));
    assert_eq!(answer["apiVersion"], "authentication.k8s.io/v1");
}

#[test]
fn access_reviews_answer_for_oneself_for_others_and_for_a_namespace() {
    let policy = policy();
    let pods = json!({"verb": "list", "resource": "pods", "namespace": "shop"});
    let review = |spec: Value| json!({"spec": spec});
    let mine = self_subject_access_review(
        &review(json!({"resourceAttributes": pods})),
        &policy,
        &UserInfo::new("jane", [AUTHENTICATED]),
    );
    assert_eq!(mine.unwrap()["status"], json!({"allowed": false}));
    let admin = json!({"resourceAttributes": pods, "user": "x", "groups": ["system:masters"]});
    assert_eq!(subject_access_review(&review(admin.clone()), &policy).unwrap()["status"]["allowed"], true);
    let path =
        json!({"nonResourceAttributes": {"verb": "get", "path": "/healthz"}, "groups": ["system:unauthenticated"]});
    assert_eq!(
        subject_access_review(&review(path), &policy).unwrap()["status"],
        json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \
               \"system:public-info-viewer\" to Group \"system:unauthenticated\""})
    );
    let local = local_subject_access_review(&review(admin.clone()), "shop", &policy).unwrap();
    assert_eq!((&local["status"]["allowed"], &local["metadata"]["namespace"]), (&json!(true), &json!("shop")));
    let elsewhere = local_subject_access_review(&review(admin), "other", &policy).unwrap_err().to_string();
    assert!(
        elsewhere
            .contains(r#"spec.resourceAttributes.namespace: Invalid value: "shop": must match metadata.namespace"#),
        "{elsewhere}"
    );
}

#[test]
fn questions_that_are_none_are_refused() {
    let policy = policy();
    let jane = UserInfo::new("jane", [AUTHENTICATED]);
    let refused = |review: Value| subject_access_review(&review, &policy).unwrap_err();
    assert_eq!(
        self_subject_access_review(&json!({"spec": {}}), &policy, &jane).unwrap_err().to_string(),
        "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: \"null\": \
         exactly one of nonResourceAttributes or resourceAttributes must be specified"
    );
    let nobody = refused(json!({"spec": {"resourceAttributes": {}}}));
    assert_eq!((nobody.code(), nobody.status()["details"]["causes"][0]["field"].as_str()), (422, Some("spec.user")));
    let named = refused(json!({"metadata": {"name": "x"}, "spec": {"user": "x", "resourceAttributes": {}}}));
    assert!(named.to_string().ends_with("must be empty"), "{named}");
    let both = json!({"spec": {"user": "x", "resourceAttributes": {}, "nonResourceAttributes": {}}});
    assert!(refused(both).to_string().contains("cannot be specified in combination with resourceAttributes"));
    for odd in [json!([]), json!("x"), json!({"spec": ["x"]}), json!({"metadata": "x"}), json!({"spec": {"user": 7}})] {
        assert_eq!(refused(odd.clone()).code(), 400, "{odd}");
        assert_eq!(local_subject_access_review(&odd, "shop", &policy).unwrap_err().code(), 400, "{odd}");
        assert_eq!(token_review(&odd, &authenticator(), &shop(), now()).unwrap_err().code(), 400, "{odd}");
        assert_eq!(self_subject_rules_review(&odd, &policy, &jane).unwrap_err().code(), 400, "{odd}");
    }
}

#[test]
fn the_rules_review_lists_what_a_user_holds() {
    let review = json!({"spec": {"namespace": "shop"}});
    let answer = self_subject_rules_review(&review, &policy(), &UserInfo::new("jane", [AUTHENTICATED])).unwrap();
    let status = &answer["status"];
    assert_eq!(status["incomplete"], false);
    assert_eq!(
        status["resourceRules"][0],
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]})
    );
    let paths: Vec<_> =
        status["nonResourceRules"].as_array().unwrap().iter().map(|rule| rule["nonResourceURLs"][0].as_str()).collect();
    assert_eq!(paths, [Some("/api"), Some("/healthz")]);
}

//! Who may do what, and who someone is.

use c5c3_auth::UserInfo;
use c5c3_harness::TestCluster;
use http::Method;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{
    Tested, basket, cluster, embedded, eventually, of, own_orchard, read, refusal, send, soon, tree_kind,
};

fn post() -> PostParams {
    PostParams::default()
}

async fn allow(client: &Client, rules: Value) -> Result<(), kube::Error> {
    let role: Role = of(json!({"metadata": {"name": "r"}, "rules": rules}));
    Api::default_namespaced(client.clone()).create(&post(), &role).await?;
    let binding: RoleBinding = of(json!({
        "metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "picker", "namespace": client.default_namespace()}]}));
    Api::default_namespaced(client.clone()).create(&post(), &binding).await.map(drop)
}

fn picker(cluster: &TestCluster) -> UserInfo {
    UserInfo::service_account(cluster.namespace(), "picker")
}

#[tokio::test]
async fn strangers_see_health_and_version_alone() -> Tested {
    let (cluster, _) = cluster().await;
    let client = cluster.client_as(UserInfo::anonymous());
    let refused = refusal(Api::<ConfigMap>::default_namespaced(client.clone()).list(&ListParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    let home = cluster.namespace();
    assert_eq!(
        refused.message,
        format!(
            "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" \
             in the namespace \"{home}\""
        )
    );
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/api", 403),
        ("/metrics", 403),
        ("/openapi/v3", 403),
    ] {
        assert_eq!(read(&client, path, "application/json").await.code, code, "{path}");
    }
    let refused = read(&client, "/metrics", "application/json").await;
    assert_eq!(refused.body["message"], "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
    Ok(())
}

#[tokio::test]
async fn a_binding_allows_what_its_role_says() -> Tested {
    let (cluster, client) = cluster().await;
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client_as(picker(&cluster)));
    let refused = refusal(maps.get("a").await);
    let home = cluster.namespace();
    assert_eq!(
        refused.message,
        format!(
            "configmaps \"a\" is forbidden: User \"system:serviceaccount:{home}:picker\" cannot get resource \
             \"configmaps\" in API group \"\" in the namespace \"{home}\""
        )
    );
    allow(
        &client,
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list"]}]),
    )
    .await?;
    Api::<ConfigMap>::default_namespaced(client).create(&post(), &basket("a")).await?;
    soon("the binding counts", async || maps.get("a").await.is_ok()).await;
    assert_eq!(refusal(maps.get("b").await).code, 403);
    assert_eq!(refusal(maps.list(&ListParams::default()).await).code, 403);
    assert!(maps.list(&ListParams::default().fields("metadata.name=a")).await.is_ok(), "a list of one name");
    assert_eq!(refusal(maps.create(&post(), &basket("c")).await).code, 403);
    Ok(())
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() -> Tested {
    let (cluster, client) = cluster().await;
    allow(&client, json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "get", "update"]}])).await?;
    let climber = cluster.client_as(picker(&cluster));
    let roles = Api::<Role>::default_namespaced(climber.clone());
    soon("the binding counts", async || roles.get("r").await.is_ok()).await;
    let greedy: Role = of(
        json!({"metadata": {"name": "g"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    );
    let refused = refusal(Api::default_namespaced(climber.clone()).create(&post(), &greedy).await);
    assert_eq!(refused.code, 403);
    assert!(
        refused.message.contains("is attempting to grant RBAC permissions not currently held"),
        "{}",
        refused.message
    );
    let binding: RoleBinding = of(json!({
        "metadata": {"name": "admin"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "picker", "namespace": cluster.namespace()}]}));
    assert_eq!(refusal(Api::default_namespaced(climber).create(&post(), &binding).await).code, 403);
    Ok(())
}

#[tokio::test]
async fn roles_are_aggregated_by_label() -> Tested {
    let (cluster, client) = cluster().await;
    let vera = cluster.name("vera");
    let binding: ClusterRoleBinding = of(json!({
        "metadata": {"name": cluster.name("v")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": vera}]}));
    Api::all(client.clone()).create(&post(), &binding).await?;
    let (group, _) = own_orchard(&cluster).await;
    let hers = Api::<kube::api::DynamicObject>::default_namespaced_with(
        cluster.client_as(UserInfo::new(vera, ["system:authenticated"])),
        &tree_kind(&group, "v1"),
    );
    assert_eq!(refusal(hers.list(&ListParams::default()).await).code, 403);
    let role: ClusterRole = of(json!({
        "metadata": {
            "name": cluster.name("trees-view"), "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": [group], "resources": ["trees"], "verbs": ["get", "list", "watch"]}]}));
    let roles = Api::<ClusterRole>::all(client);
    roles.create(&post(), &role).await?;
    let of_trees = |rule: &PolicyRule| rule.api_groups.as_ref().is_some_and(|groups| groups.contains(&group));
    let made_of = |role: Option<&ClusterRole>| role.is_some_and(|role| role.rules.iter().flatten().any(of_trees));
    eventually(&roles, "view", made_of).await;
    soon("the role counts", async || hers.list(&ListParams::default()).await.is_ok()).await;
    Ok(())
}

#[tokio::test]
async fn a_user_asks_what_they_may_do_and_who_they_are() -> Tested {
    let (cluster, client) = cluster().await;
    allow(&client, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])).await?;
    let own = cluster.client_as(picker(&cluster));
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let review: SelfSubjectAccessReview = of(
            json!({"metadata": {}, "spec": {"resourceAttributes": {"verb": verb, "resource": "configmaps", "namespace": cluster.namespace()}}}),
        );
        let reviews = Api::<SelfSubjectAccessReview>::all(own.clone());
        soon(verb, async || {
            let answer = reviews.create(&post(), &review).await;
            answer.is_ok_and(|answer| answer.status.is_some_and(|status| status.allowed == allowed))
        })
        .await;
    }
    let who = Api::<SelfSubjectReview>::all(own).create(&post(), &SelfSubjectReview::default()).await?;
    let user = who.status.and_then(|status| status.user_info).expect("a user");
    let home = cluster.namespace();
    assert_eq!(user.username, Some(format!("system:serviceaccount:{home}:picker")));
    assert!(user.groups.unwrap_or_default().contains(&format!("system:serviceaccounts:{home}")));
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_asked_for_authenticates() -> Tested {
    let (cluster, client) = cluster().await;
    let account: ServiceAccount = of(json!({"metadata": {"name": "picker"}}));
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    accounts.create(&post(), &account).await?;
    let request: TokenRequest = of(json!({"metadata": {}, "spec": {"audiences": [], "expirationSeconds": 3600}}));
    let answer: TokenRequest = accounts.create_subresource("token", "picker", &post(), &request).await?;
    let token = answer.status.expect("a status").token;
    let review = |token: String| TokenReview {
        spec: k8s_openapi::api::authentication::v1::TokenReviewSpec { token: Some(token), ..Default::default() },
        ..Default::default()
    };
    let reviews = Api::<TokenReview>::all(client);
    let known = reviews.create(&post(), &review(token.clone())).await?.status.expect("a status");
    assert_eq!(known.authenticated, Some(true));
    let name = format!("system:serviceaccount:{}:picker", cluster.namespace());
    assert_eq!(known.user.and_then(|user| user.username), Some(name));
    let forged = reviews.create(&post(), &review(format!("{token}x"))).await?.status.expect("a status");
    assert_ne!(forged.authenticated, Some(true));
    accounts.delete("picker", &DeleteParams::default()).await?;
    soon("a token goes with its account", async || {
        let late = reviews.create(&post(), &review(token.clone())).await;
        late.is_ok_and(|late| late.status.is_none_or(|status| status.authenticated != Some(true)))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn whoever_may_act_as_another_is_bound_by_the_other() -> Tested {
    let (_cluster, client) = cluster().await;
    let request = http::Request::get(format!("/api/v1/namespaces/{}/secrets", client.default_namespace()))
        .header("Impersonate-User", "vera");
    let answer = client.send(request.body(Vec::new().into())?).await?;
    assert_eq!(answer.status(), 403);
    Ok(())
}

#[tokio::test]
async fn names_that_a_role_lists_bind_no_creation_whatever_is_selected() -> Tested {
    let (cluster, client) = cluster().await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
        "verbs": ["create", "get", "list", "update", "patch", "delete"]});
    allow(&client, json!([rule])).await?;
    let limited = cluster.client_as(picker(&cluster));
    let maps = Api::<ConfigMap>::default_namespaced(limited.clone());
    Api::<ConfigMap>::default_namespaced(client).create(&post(), &basket("a")).await?;
    soon("the binding counts", async || maps.get("a").await.is_ok()).await;
    let path = format!("/api/v1/namespaces/{}/configmaps?fieldSelector=metadata.name%3Da", cluster.namespace());
    let body = json!(basket("b")).to_string();
    let answer = send(&limited, Method::POST, &path, ("application/json", &body), "application/json").await;
    assert_eq!(answer.code, 403, "{}", answer.body);
    assert!(
        maps.list(&ListParams::default().fields("metadata.name=a")).await.is_ok(),
        "a list of that name is allowed"
    );
    Ok(())
}

#[tokio::test]
async fn a_node_gets_tokens_for_the_pods_that_it_runs_and_no_others() -> Tested {
    let Some((cluster, client)) = embedded("it acts as nodes that it makes up").await else { return Ok(()) };
    let home = cluster.namespace();
    let place = |name: &str, node: &str| -> Pod {
        of(json!({"metadata": {"name": name}, "spec": {"nodeName": node, "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "i"}]}}))
    };
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let (own, other) =
        (pods.create(&post(), &place("own", "oak")).await?, pods.create(&post(), &place("other", "elm")).await?);
    let oak = cluster.client_as(UserInfo::new("system:node:oak", ["system:nodes", "system:authenticated"]));
    let accounts = Api::<ServiceAccount>::namespaced(oak, home);
    let ask = async |bound: Value| {
        let request: TokenRequest = of(json!({"metadata": {}, "spec": {"audiences": [], "boundObjectRef": bound}}));
        accounts.create_token_request("default", &post(), &request).await
    };
    let bound =
        |pod: &Pod| json!({"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid});
    ask(bound(&own)).await?;
    let why = async |bound: Value| refusal(ask(bound).await).message;
    let start = "serviceaccounts \"default\" is forbidden: node requested token";
    assert_eq!(why(bound(&other)).await, format!("{start} bound to a pod scheduled on a different node"));
    assert_eq!(why(Value::Null).await, format!("{start} not bound to a pod"));
    let nameless = json!({"apiVersion": "v1", "kind": "Pod", "name": "own"});
    assert_eq!(why(nameless).await, format!("{start} with a pod binding without a uid"));
    Ok(())
}

//! The semantics of rules, bindings and their limits, as tables.

use serde_json::{Value, json};

use super::*;
use crate::user::UserInfo;

fn rule(value: Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

fn role(kind: &str, namespace: &str, name: &str, rules: impl Into<Value>) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules.into()})
}

fn binding(kind: &str, namespace: &str, name: &str, role: (&str, &str), subjects: impl Into<Value>) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "subjects": subjects.into(),
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1}})
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo::new(name, groups.iter().copied())
}

#[test]
fn a_rule_allows_what_it_names_and_nothing_else() {
    let on = Attributes::resource;
    let pods = json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]});
    let named = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"], "resourceNames": ["mine"]});
    let scale = json!({"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["update"]});
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let star_sub = json!({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]});
    let urls = json!({"nonResourceURLs": ["/healthz", "/logs/*"], "verbs": ["get"]});
    let every_url = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let cases = [
        (&pods, on("get", "", "pods"), true),
        (&pods, on("get", "", "pods").named("a"), true),
        (&pods, on("delete", "", "pods"), false),
        (&pods, on("get", "apps", "pods"), false),
        (&pods, on("get", "", "pods").with_subresource("log"), true),
        (&pods, on("get", "", "pods").with_subresource("exec"), false),
        (&pods, on("get", "", "services").with_subresource("log"), false),
        (&pods, Attributes::path("get", "/pods"), false),
        (&named, on("get", "", "secrets").named("mine"), true),
        (&named, on("get", "", "secrets").named("yours"), false),
        (&named, on("list", "", "secrets"), false),
        (&named, on("list", "", "secrets").named("mine"), true),
        (&named, on("create", "", "secrets"), false),
        (&named, on("deletecollection", "", "secrets"), false),
        (&scale, on("update", "apps", "deployments").with_subresource("scale"), true),
        (&scale, on("update", "acme.com", "shops").with_subresource("scale"), true),
        (&scale, on("update", "apps", "deployments"), false),
        (&scale, on("update", "apps", "deployments").with_subresource("status"), false),
        (&scale, on("update", "apps", "scale"), false),
        (&all, on("anything", "acme.com", "shops").with_subresource("x").named("y"), true),
        (&all, Attributes::path("get", "/healthz"), false),
        (&star_sub, on("get", "", "pods").with_subresource("log"), false),
        (&urls, Attributes::path("get", "/healthz"), true),
        (&urls, Attributes::path("get", "/healthz/etcd"), false),
        (&urls, Attributes::path("get", "/logs/a/b"), true),
        (&urls, Attributes::path("get", "/logs"), false),
        (&urls, Attributes::path("post", "/healthz"), false),
        (&urls, on("get", "", "pods"), false),
        (&every_url, Attributes::path("post", "/anything"), true),
    ];
    for (given, wanted, expected) in cases {
        assert_eq!(rule(given.clone()).allows(&wanted), expected, "{given} for {wanted:?}");
    }
}

/// A reader cluster-wide, a writer in `shop`, a role bound but missing.
fn policy() -> Policy {
    let read = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
    let write = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]);
    Policy::from_objects(&[
        role("ClusterRole", "", "reader", read),
        role("ClusterRole", "", "health", json!([{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}])),
        role("ClusterRole", "", "empty", Value::Null),
        role("Role", "shop", "writer", write),
        binding(
            "ClusterRoleBinding",
            "",
            "readers",
            ("ClusterRole", "reader"),
            json!([{"kind": "Group", "name": "dev"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "writers",
            ("Role", "writer"),
            json!([
            {"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "till"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "local-readers",
            ("ClusterRole", "reader"),
            json!([
            {"kind": "ServiceAccount", "name": "robot", "namespace": "tools"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "local-health",
            ("ClusterRole", "health"),
            json!([{"kind": "User", "name": "jane"}]),
        ),
        binding("ClusterRoleBinding", "", "lost", ("ClusterRole", "missing"), json!([{"kind": "User", "name": "bob"}])),
        binding("ClusterRoleBinding", "", "void", ("ClusterRole", "empty"), Value::Null),
        binding(
            "ClusterRoleBinding",
            "",
            "homeless",
            ("ClusterRole", "reader"),
            json!([{"kind": "ServiceAccount", "name": "x"}]),
        ),
    ])
    .unwrap()
}

#[test]
fn bindings_reach_their_subjects_in_their_scope() {
    let policy = policy();
    let (list, create) = (Attributes::resource("list", "", "pods"), Attributes::resource("create", "", "pods"));
    let till = UserInfo::service_account("shop", "till");
    let robot = UserInfo::service_account("tools", "robot");
    let cases = [
        (user("ann", &["dev"]), list, true),
        (user("ann", &["dev"]), list.in_namespace("anywhere"), true),
        (user("dev", &[]), list, false),
        (user("jane", &[]), create.in_namespace("shop"), true),
        (user("jane", &[]), create.in_namespace("other"), false),
        (user("jane", &[]), create, false),
        (user("x", &["jane"]), create.in_namespace("shop"), false),
        (till.clone(), create.in_namespace("shop"), true),
        (UserInfo::service_account("other", "till"), create.in_namespace("shop"), false),
        (robot.clone(), list.in_namespace("shop"), true),
        (robot.clone(), list.in_namespace("tools"), false),
        (UserInfo::service_account("", "x"), list, false),
        (user("jane", &[]), Attributes::path("get", "/healthz"), false),
        (user("root", &["system:masters"]), Attributes::resource("anything", "x", "y"), true),
    ];
    for (who, wanted, expected) in cases {
        assert_eq!(policy.authorize(&who, &wanted).allowed, expected, "{who:?} {wanted:?}");
    }
    let reason = |who: &UserInfo, wanted| policy.authorize(who, &wanted).reason;
    let by = "RBAC: allowed by";
    assert_eq!(
        reason(&user("ann", &["dev"]), list),
        format!(r#"{by} ClusterRoleBinding "readers" of ClusterRole "reader" to Group "dev""#)
    );
    assert_eq!(
        reason(&till, create.in_namespace("shop")),
        format!(r#"{by} RoleBinding "writers/shop" of Role "writer" to ServiceAccount "till/shop""#)
    );
    assert_eq!(
        reason(&robot, list.in_namespace("shop")),
        format!(r#"{by} RoleBinding "local-readers/shop" of ClusterRole "reader" to ServiceAccount "robot/tools""#)
    );
    assert_eq!(reason(&user("bob", &[]), list), r#"RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found"#);
}

#[test]
fn changes_take_effect_and_leave_nothing_behind() {
    let mut policy = policy();
    let (ann, list) = (user("ann", &["dev"]), Attributes::resource("list", "", "pods"));
    let subjects = json!([{"kind": "User", "name": "zoe"}, {"kind": "User", "name": "zoe"}]);
    policy.set(&binding("ClusterRoleBinding", "", "readers", ("ClusterRole", "reader"), subjects)).unwrap();
    assert!(!policy.authorize(&ann, &list).allowed && policy.authorize(&user("zoe", &[]), &list).allowed);
    policy.set(&role("ClusterRole", "", "reader", json!([]))).unwrap();
    assert!(!policy.authorize(&user("zoe", &[]), &list).allowed);
    policy.remove("ClusterRoleBinding", "", "readers");
    policy.remove("RoleBinding", "shop", "writers");
    policy.remove("RoleBinding", "nowhere", "nothing");
    let jane = user("jane", &[]);
    assert!(!policy.authorize(&jane, &Attributes::resource("create", "", "pods").in_namespace("shop")).allowed);
    assert!(policy.set(&json!({"kind": "Pod", "metadata": {"name": "x"}})).is_err());
    assert!(policy.set(&json!({"kind": "RoleBinding", "metadata": {"name": "x"}, "subjects": []})).is_err());
}

#[test]
fn refusals_read_like_the_real_ones() {
    let jane = user("jane", &[]);
    let pods = Attributes::resource("list", "", "pods");
    let cases = [
        (
            pods.in_namespace("default"),
            "",
            r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            pods,
            "",
            r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            Attributes::resource("patch", "apps", "deployments")
                .with_subresource("scale")
                .named("web")
                .in_namespace("shop"),
            "RBAC: broken",
            r#"deployments.apps "web" is forbidden: User "jane" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop": RBAC: broken"#,
        ),
        (Attributes::path("get", "/metrics"), "", r#"forbidden: User "jane" cannot get path "/metrics""#),
        (Attributes::path("get", "/<b>"), "", r#"forbidden: User "jane" cannot get path "/&lt;b&gt;""#),
    ];
    for (wanted, reason, expected) in cases {
        let refusal = wanted.forbidden(&jane, reason);
        assert_eq!(refusal.to_string(), expected);
        assert_eq!((refusal.code(), &refusal.status()["reason"]), (403, &json!("Forbidden")));
    }
    let status = Attributes::resource("get", "apps", "deployments").named("web").forbidden(&jane, "").status();
    assert_eq!(status["details"], json!({"group": "apps", "kind": "deployments", "name": "web"}));
}

#[test]
fn rules_cover_others_piece_by_piece() {
    let on = |groups: Value, resources: Value, verbs: Value| {
        rule(json!({"apiGroups": groups, "resources": resources, "verbs": verbs}))
    };
    let named = |names: Value| {
        rule(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": names}))
    };
    let urls = |urls: Value, verbs: Value| rule(json!({"nonResourceURLs": urls, "verbs": verbs}));
    let all = || on(json!(["*"]), json!(["*"]), json!(["*"]));
    let cases: Vec<(Vec<Rule>, Rule, usize)> = vec![
        (vec![all()], on(json!(["a", "b"]), json!(["x/y", "z"]), json!(["get"])), 0),
        (vec![all()], urls(json!(["/x"]), json!(["get"])), 1),
        (
            vec![on(json!([""]), json!(["pods"]), json!(["get"])), on(json!([""]), json!(["pods"]), json!(["list"]))],
            on(json!([""]), json!(["pods"]), json!(["get", "list"])),
            0,
        ),
        (
            vec![on(json!([""]), json!(["pods"]), json!(["get"]))],
            on(json!([""]), json!(["pods", "nodes"]), json!(["get", "list"])),
            3,
        ),
        (vec![on(json!([""]), json!(["pods"]), json!(["get"]))], on(json!([""]), json!(["*"]), json!(["get"])), 1),
        (
            vec![on(json!([""]), json!(["*/scale"]), json!(["get"]))],
            on(json!([""]), json!(["a/scale", "b/scale"]), json!(["get"])),
            0,
        ),
        (
            vec![on(json!([""]), json!(["pods"]), json!(["get"]))],
            on(json!([""]), json!(["pods/log"]), json!(["get"])),
            1,
        ),
        (vec![named(json!(["a"])), named(json!(["b"]))], named(json!(["a", "b"])), 0),
        (vec![named(json!(["a"]))], named(json!([])), 1),
        (vec![named(json!([]))], named(json!(["a"])), 0),
        (vec![urls(json!(["/logs/*"]), json!(["*"]))], urls(json!(["/logs/a", "/logs/b*"]), json!(["get"])), 0),
        (vec![urls(json!(["/logs"]), json!(["*"]))], urls(json!(["/logs/*"]), json!(["get"])), 1),
        (vec![], on(json!([]), json!([]), json!([])), 0),
    ];
    for (held, wanted, missing) in cases {
        let found = covers(&held, std::slice::from_ref(&wanted)).map_or_else(|rules| rules.len(), |()| 0);
        assert_eq!(found, missing, "{held:?} for {wanted:?}");
    }
}

#[test]
fn a_rule_with_a_billion_pieces_is_judged_at_once() {
    let thousand: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
    let bomb = Rule { verbs: thousand.clone(), api_groups: thousand.clone(), resources: thousand, ..Rule::default() };
    assert_eq!(covers(&[], std::slice::from_ref(&bomb)).unwrap_err().len(), 1);
    let all = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
    assert!(covers(&[all], &[bomb]).is_ok());
}

#[test]
fn nobody_grants_what_they_do_not_hold() {
    let policy = policy();
    let jane = user("jane", &["dev", "ops"]);
    let new = role(
        "Role",
        "shop",
        "big",
        json!([
        {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "create", "delete"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], "resourceNames": ["n1"]}]),
    );
    let refusal = check_role(&policy, &jane, None, &new).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "roles.rbac.authorization.k8s.io \"big\" is forbidden: user \"jane\" (groups=[\"dev\" \"ops\"]) is attempting to \
         grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"n1\"], Verbs:[\"get\"]}\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"create\" \"delete\"]}"
    );
    let held =
        role("Role", "shop", "small", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"]}]));
    assert_eq!(check_role(&policy, &jane, None, &held), Ok(()));
    assert_eq!(check_role(&policy, &user("root", &["system:masters"]), None, &new), Ok(()));
    let mut collected = new.clone();
    collected["metadata"]["finalizers"] = json!(["x"]);
    assert_eq!(check_role(&policy, &jane, Some(&new), &collected), Ok(()), "the garbage collector's own fields");
    let mut labelled = new.clone();
    labelled["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    assert!(check_role(&policy, &jane, Some(&new), &labelled).is_err(), "labels make a role part of others");
}

#[test]
fn the_verbs_escalate_and_bind_open_the_door() {
    let mut policy = policy();
    let doors = json!([
        {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["big"]},
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["reader"]}]);
    policy.set(&role("Role", "shop", "doors", doors)).unwrap();
    policy
        .set(&binding("RoleBinding", "shop", "doors", ("Role", "doors"), json!([{"kind": "User", "name": "bob"}])))
        .unwrap();
    let bob = user("bob", &[]);
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]);
    assert_eq!(check_role(&policy, &bob, None, &role("Role", "shop", "big", rules.clone())), Ok(()));
    assert!(check_role(&policy, &bob, None, &role("Role", "shop", "other", rules)).is_err());
    let bind = |kind: &str, namespace: &str, target| {
        check_binding(&policy, &bob, None, &binding(kind, namespace, "b", target, json!([])))
    };
    assert_eq!(bind("RoleBinding", "shop", ("ClusterRole", "reader")), Ok(()));
    assert!(bind("ClusterRoleBinding", "", ("ClusterRole", "reader")).is_err(), "only in the namespace");
    assert!(
        bind("RoleBinding", "shop", ("Role", "writer"))
            .unwrap_err()
            .to_string()
            .starts_with("rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"bob\"")
    );
    let missing = bind("RoleBinding", "shop", ("ClusterRole", "nothing")).unwrap_err();
    assert_eq!(
        (missing.code(), missing.to_string().as_str()),
        (404, r#"clusterroles.rbac.authorization.k8s.io "nothing" not found"#)
    );
    let jane = user("jane", &[]);
    let own = binding("RoleBinding", "shop", "b", ("Role", "writer"), json!([]));
    assert_eq!(check_binding(&policy, &jane, None, &own), Ok(()), "what one holds one may hand on");
}

#[test]
fn only_a_cluster_administrator_makes_roles_of_others() {
    let mut policy = policy();
    let mut new = role("ClusterRole", "", "sum", json!([]));
    new["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let jane = user("jane", &[]);
    assert_eq!(
        check_role(&policy, &jane, None, &new).unwrap_err().to_string(),
        "clusterroles.rbac.authorization.k8s.io \"sum\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
    );
    let all =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    policy.set(&role("ClusterRole", "", "cluster-admin", all)).unwrap();
    policy
        .set(&binding(
            "ClusterRoleBinding",
            "",
            "a",
            ("ClusterRole", "cluster-admin"),
            json!([{"kind": "User", "name": "jane"}]),
        ))
        .unwrap();
    assert_eq!(check_role(&policy, &jane, None, &new), Ok(()));
}

#[test]
fn an_aggregated_role_has_the_rules_of_those_it_selects() {
    let part = |name: &str, labels: Value, verb: &str| {
        let mut role =
            role("ClusterRole", "", name, json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]));
        role["metadata"]["labels"] = labels;
        role
    };
    let all = [
        part("z", json!({"tier": "a"}), "get"),
        part("b", json!({"tier": "b"}), "list"),
        part("c", json!({"tier": "b"}), "list"),
        part("d", json!({}), "watch"),
        part("sum", json!({"tier": "a"}), "delete"),
    ];
    let sum = |selectors: Value| {
        let mut role = all[4].clone();
        role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        aggregate(&role, &all).unwrap().into_iter().map(|rule| rule.verbs[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(sum(json!([{"matchLabels": {"tier": "a"}}])), ["get"], "not itself");
    assert_eq!(sum(json!([{"matchLabels": {"tier": "a"}}, {"matchLabels": {"tier": "b"}}])), ["get", "list"]);
    let expression = |operator: &str, values: Value| json!([{"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}]);
    assert_eq!(sum(expression("In", json!(["a", "b"]))), ["list", "get"]);
    assert_eq!(sum(expression("NotIn", json!(["a"]))), ["list", "watch"]);
    assert_eq!(sum(expression("Exists", Value::Null)), ["list", "get"]);
    assert_eq!(sum(expression("DoesNotExist", Value::Null)), ["watch"]);
    assert_eq!(aggregate(&all[0], &all), None);
}

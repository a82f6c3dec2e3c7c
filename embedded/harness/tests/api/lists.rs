//! Lists: selectors, pages, versions.

use c5c3_harness::TestCluster;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, ObjectList, PostParams, VersionMatch};

use crate::fixtures::{Tested, cluster, labelled, orchard, picker, read, refusal, tree, without_controllers};

async fn baskets(cluster: &TestCluster, count: usize) -> Result<Api<ConfigMap>, Box<dyn std::error::Error>> {
    let shed = cluster.namespace_named("shed").await?;
    let api = Api::<ConfigMap>::namespaced(cluster.client(), &shed);
    for number in 0..count {
        let label = if number % 2 == 0 { "even" } else { "odd" };
        api.create(&PostParams::default(), &labelled(&format!("b{number:02}"), ("parity", label))).await?;
    }
    Ok(api)
}

fn names<K: kube::Resource + Clone>(list: &ObjectList<K>) -> Vec<String> {
    list.items.iter().filter_map(|item| item.meta().name.clone()).filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test]
async fn label_selectors_choose() -> Tested {
    let (cluster, _) = cluster().await;
    let api = baskets(&cluster, 4).await?;
    for (selector, expected) in [
        ("parity=even", vec!["b00", "b02"]),
        ("parity!=even", vec!["b01", "b03"]),
        ("parity in (even,odd),parity notin (odd)", vec!["b00", "b02"]),
        ("!parity", vec![]),
    ] {
        assert_eq!(names(&api.list(&ListParams::default().labels(selector)).await?), expected, "{selector}");
    }
    let refused = refusal(api.list(&ListParams::default().labels("a in b")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (400, "BadRequest"));
    Ok(())
}

#[tokio::test]
async fn field_selectors_choose() -> Tested {
    let (cluster, client) = cluster().await;
    let api = baskets(&cluster, 3).await?;
    assert_eq!(names(&api.list(&ListParams::default().fields("metadata.name=b01")).await?), ["b01"]);
    assert_eq!(names(&api.list(&ListParams::default().fields("metadata.name!=b01")).await?), ["b00", "b02"]);
    let everywhere = Api::<ConfigMap>::all(client);
    let shed = format!("metadata.namespace={}", cluster.name("shed"));
    assert_eq!(names(&everywhere.list(&ListParams::default().fields(&shed)).await?).len(), 3);
    let refused = refusal(api.list(&ListParams::default().fields("data.fruit=pear")).await);
    assert_eq!(refused.message, "field label not supported: data.fruit");
    Ok(())
}

#[tokio::test]
async fn pods_are_chosen_by_their_node_and_phase() -> Tested {
    let Some((_cluster, client)) = without_controllers("the pod must stay without a node").await else { return Ok(()) };
    let pods = Api::<Pod>::default_namespaced(client);
    let mut bound = picker("bound");
    bound.spec.as_mut().expect("a spec").node_name = Some("n1".into());
    pods.create(&PostParams::default(), &picker("free")).await?;
    pods.create(&PostParams::default(), &bound).await?;
    assert_eq!(
        names(&pods.list(&ListParams::default().fields("spec.nodeName=n1,status.phase=Pending")).await?),
        ["bound"]
    );
    assert_eq!(names(&pods.list(&ListParams::default().fields("spec.nodeName=")).await?), ["free"]);
    // Its node would have to say that it stopped, and is not there.
    pods.delete("bound", &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

#[tokio::test]
async fn selectable_fields_of_a_definition_choose() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    let mut plum = tree("p");
    plum.data["spec"]["sort"] = "plum".into();
    api.create(&PostParams::default(), &tree("q")).await?;
    api.create(&PostParams::default(), &plum).await?;
    assert_eq!(names(&api.list(&ListParams::default().fields("spec.sort=plum")).await?), ["p"]);
    assert_eq!(refusal(api.list(&ListParams::default().fields("spec.branches=3")).await).code, 400);
    Ok(())
}

#[tokio::test]
async fn pages_show_one_moment_while_objects_come_and_go() -> Tested {
    let (cluster, _) = cluster().await;
    let api = baskets(&cluster, 7).await?;
    let page = ListParams::default().labels("parity").limit(3);
    let first = api.list(&page).await?;
    assert_eq!(names(&first), ["b00", "b01", "b02"]);
    api.delete("b04", &DeleteParams::default()).await?;
    api.create(&PostParams::default(), &labelled("b99", ("parity", "odd"))).await?;
    let second = api.list(&page.clone().continue_token(first.metadata.continue_.as_deref().expect("more"))).await?;
    assert_eq!(names(&second), ["b03", "b04", "b05"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let third = api.list(&page.continue_token(second.metadata.continue_.as_deref().expect("more"))).await?;
    assert_eq!(names(&third), ["b06"]);
    assert!(third.metadata.continue_.is_none());
    Ok(())
}

#[tokio::test]
async fn a_page_says_how_many_remain() -> Tested {
    let (cluster, _) = cluster().await;
    let api = baskets(&cluster, 5).await?;
    let first = api.list(&ListParams::default().limit(2)).await?;
    assert_eq!(first.metadata.remaining_item_count, Some(4), "three, and the authority's certificate");
    let all = api.list(&ListParams::default().limit(6)).await?;
    assert_eq!((all.metadata.remaining_item_count, all.metadata.continue_), (None, None));
    let refused = refusal(api.list(&ListParams::default().limit(2).continue_token("nonsense")).await);
    assert_eq!(refused.code, 400);
    Ok(())
}

#[tokio::test]
async fn a_list_is_of_the_version_that_is_asked_for() -> Tested {
    let (cluster, _) = cluster().await;
    let api = baskets(&cluster, 2).await?;
    let before = api.list(&ListParams::default()).await?.metadata.resource_version.expect("a version");
    api.create(&PostParams::default(), &labelled("new", ("parity", "odd"))).await?;
    let exact = ListParams::default().at(&before).matching(VersionMatch::Exact);
    assert_eq!(names(&api.list(&exact).await?), ["b00", "b01"]);
    let recent = ListParams::default().at(&before).matching(VersionMatch::NotOlderThan);
    assert_eq!(names(&api.list(&recent).await?), ["b00", "b01", "new"]);
    assert_eq!(names(&api.list(&ListParams::default().match_any()).await?), ["b00", "b01", "new"]);
    Ok(())
}

#[tokio::test]
async fn a_version_that_has_not_happened_times_out() -> Tested {
    let (cluster, _) = cluster().await;
    let api = baskets(&cluster, 1).await?;
    let refused =
        refusal(api.list(&ListParams::default().at("999999999999").matching(VersionMatch::NotOlderThan)).await);
    assert_eq!((refused.code, refused.reason.as_str()), (504, "Timeout"));
    assert!(refused.message.contains("Too large resource version: 999999999999"), "{}", refused.message);
    let causes = refused.details.expect("details").causes;
    assert_eq!(causes[0].reason, "ResourceVersionTooLarge", "what clients recognise it by");
    Ok(())
}

#[tokio::test]
async fn versions_and_pages_that_do_not_go_together_are_refused() -> Tested {
    let (cluster, client) = cluster().await;
    let api = baskets(&cluster, 3).await?;
    let token = api.list(&ListParams::default().limit(1)).await?.metadata.continue_.expect("more");
    for query in [
        "resourceVersionMatch=Exact".to_owned(),
        "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
        "resourceVersion=1&resourceVersionMatch=Sometimes".to_owned(),
        format!("limit=1&continue={token}&resourceVersion=2"),
        format!("limit=1&continue={token}&resourceVersionMatch=NotOlderThan"),
    ] {
        let uri = format!("/api/v1/namespaces/{}/configmaps?{query}", cluster.name("shed"));
        let answer = read(&client, &uri, "application/json").await;
        assert!(answer.code.is_client_error(), "{query}: {}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn a_list_across_namespaces_has_them_all() -> Tested {
    let (cluster, client) = cluster().await;
    baskets(&cluster, 1).await?;
    let elsewhere = Api::<ConfigMap>::default_namespaced(client.clone());
    elsewhere.create(&PostParams::default(), &labelled("c", ("parity", "odd"))).await?;
    let all = Api::<ConfigMap>::all(client).list(&ListParams::default().labels("parity")).await?;
    let mut namespaces: Vec<_> = all.items.iter().map(|map| map.namespace().unwrap_or_default()).collect();
    namespaces.sort();
    assert_eq!(namespaces, [cluster.namespace().to_owned(), cluster.name("shed")]);
    Ok(())
}

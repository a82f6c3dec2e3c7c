//! Quotas: what a namespace uses is counted, and more is refused.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, basket, cluster, eventually, of, picker, refusal, without_controllers};

fn quota(hard: &Value) -> ResourceQuota {
    of(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}))
}

/// A condition: so much is used of that.
fn uses(name: &'static str, amount: &'static str) -> impl Fn(Option<&ResourceQuota>) -> bool {
    move |quota| {
        let used = quota.and_then(|quota| quota.status.as_ref()?.used.clone()).unwrap_or_default();
        used.get(name).is_some_and(|used| used.0 == amount)
    }
}

#[tokio::test]
async fn what_is_used_is_counted_from_creation_to_deletion() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let quotas = Api::<ResourceQuota>::namespaced(client.clone(), &shed);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &shed);
    let services = Api::<Service>::namespaced(client, &shed);
    let hard = json!({"configmaps": "2", "services": "5", "services.nodeports": "1", "count/deployments.apps": "3"});
    quotas.create(&PostParams::default(), &quota(&hard)).await?;
    eventually(&quotas, "q", uses("configmaps", "1")).await;
    maps.create(&PostParams::default(), &basket("a")).await?;
    eventually(&quotas, "q", uses("configmaps", "2")).await;
    let refused = refusal(maps.create(&PostParams::default(), &basket("b")).await);
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, \
         limited: configmaps=2"
    );
    maps.delete("a", &DeleteParams::default()).await?;
    eventually(&quotas, "q", uses("configmaps", "1")).await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let service: Service = of(json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}));
    services.create(&PostParams::default(), &service).await?;
    eventually(&quotas, "q", uses("services", "1")).await;
    let open = Patch::Merge(json!({"spec": {"type": "NodePort"}}));
    let refused = refusal(services.patch("s", &PatchParams::default(), &open).await);
    assert!(
        refused
            .message
            .ends_with("requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1")
    );
    let more = Patch::Merge(json!({"spec": {"hard": {"configmaps": "9"}}}));
    quotas.patch("q", &PatchParams::default(), &more).await?;
    let hard = |quota: Option<&ResourceQuota>| {
        quota.and_then(|quota| quota.status.as_ref()?.hard.clone()).is_some_and(|hard| hard["configmaps"].0 == "9")
    };
    eventually(&quotas, "q", hard).await;
    Ok(())
}

#[tokio::test]
async fn no_two_pods_that_are_created_at_once_share_what_is_left() -> Tested {
    let Some((cluster, client)) = without_controllers("nobody may start or end its pods").await else { return Ok(()) };
    let shed = cluster.namespace_named("shed").await?;
    let quotas = Api::<ResourceQuota>::namespaced(client.clone(), &shed);
    let pods = Api::<Pod>::namespaced(client, &shed);
    quotas.create(&PostParams::default(), &quota(&json!({"cpu": "1", "pods": "5"}))).await?;
    let silent = refusal(pods.create(&PostParams::default(), &picker("silent")).await);
    assert!(silent.message.ends_with("failed quota: q: must specify cpu for: pick"), "{}", silent.message);
    let tried = futures::future::join_all((0..6).map(|number| {
        let mut pod = picker(&format!("p{number}"));
        let container = &mut pod.spec.get_or_insert_default().containers[0];
        container.resources = Some(of(json!({"requests": {"cpu": "400m"}})));
        let pods = pods.clone();
        tokio::spawn(async move { pods.create(&PostParams::default(), &pod).await })
    }));
    let mut created = 0;
    for one in tried.await {
        match one? {
            Ok(_) => created += 1,
            refused => {
                assert!(refusal(refused).message.ends_with("requested: cpu=400m, used: cpu=800m, limited: cpu=1"));
            }
        }
    }
    assert_eq!(created, 2);
    eventually(&quotas, "q", uses("cpu", "800m")).await;
    Ok(())
}

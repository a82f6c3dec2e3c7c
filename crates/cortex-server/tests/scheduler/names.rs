//! The names of servers, which Nova is asked for after a decision.

use c5c3_api::cortex::Decision;
use c5c3_cortex_server::NAME_ANNOTATION;
use c5c3_harness::TestCluster;
use kube::{Api, ResourceExt};

use crate::descheduling::credential;
use crate::nova::Nova;
use crate::{Running, cluster, until};

async fn decision(cluster: &TestCluster, name: &str) -> Option<Decision> {
    let api: Api<Decision> = Api::default_namespaced(cluster.client());
    api.get_opt(name).await.unwrap().filter(|one| one.status.is_some())
}

async fn name(cluster: &TestCluster, decision_name: &str) -> Option<String> {
    decision(cluster, decision_name).await?.annotations().get(NAME_ANNOTATION).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_has_the_name_of_its_server_and_a_new_one_after_the_next_decision() {
    let Some(cluster) = cluster(&[("hv-1", 4096)]).await else { return };
    let nova = Nova::start().await;
    credential(&cluster, &nova).await;
    nova.add("s-1", "hv-1", 100);
    let scheduler = Running::start(&cluster, 100).await;
    // Nova does not know `gone` any more, which keeps no other back.
    scheduler.ask("gone", 100, &["hv-1"]).await;
    scheduler.ask("s-1", 100, &["hv-1"]).await;
    until("it has the name", async || name(&cluster, "nova-s-1").await.as_deref() == Some("web-s-1")).await;
    assert_eq!(name(&cluster, "nova-gone").await, None);

    nova.world().servers.get_mut("s-1").unwrap()["name"] = "shop".into();
    scheduler.ask("s-1", 200, &["hv-1"]).await;
    until("it has the new name", async || name(&cluster, "nova-s-1").await.as_deref() == Some("shop")).await;
    let status = decision(&cluster, "nova-s-1").await.unwrap().status.unwrap();
    assert_eq!(status.history.len(), 1, "what the scheduler writes later leaves the name");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_could_not_be_asked_for_is_found_by_the_next_leader() {
    let Some(cluster) = cluster(&[("hv-1", 4096)]).await else { return };
    let nova = Nova::start().await;
    nova.add("s-1", "hv-1", 100);
    let scheduler = Running::start(&cluster, 100).await;
    scheduler.ask("s-1", 100, &["hv-1"]).await;
    until("it is written", async || decision(&cluster, "nova-s-1").await.is_some()).await;
    scheduler.stop().await;
    assert_eq!(name(&cluster, "nova-s-1").await, None, "there is no credential for Nova");

    credential(&cluster, &nova).await;
    let scheduler = Running::start(&cluster, 100).await;
    until("it has the name", async || name(&cluster, "nova-s-1").await.as_deref() == Some("web-s-1")).await;
    scheduler.stop().await;
}

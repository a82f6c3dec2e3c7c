//! The same tests on another cluster: here an embedded server behind a port, which for them is a cluster like any other.
//!
//! A cluster that is dropped holds up its thread until nothing is left; what serves it must have another one.

use std::path::Path;
use std::process::Command;

use c5c3_harness::{Error, Fault, KUBECONFIG, TestCluster, leftovers};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::fixtures::{ORCHARD, Tested, basket, embedded, establish, of, orchard, tree, trees};

const WHY: &str = "it makes its own other cluster";

async fn connect(kubeconfig: &Path) -> Result<Client, Box<dyn std::error::Error>> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?)
}

/// What there is that tests could have left: names of all that is in no namespace and could be made by one.
async fn inventory(client: &Client) -> Result<Vec<String>, kube::Error> {
    let all = ListParams::default();
    let namespaces = Api::<Namespace>::all(client.clone()).list(&all).await?;
    let roles = Api::<ClusterRole>::all(client.clone()).list(&all).await?;
    let definitions = Api::<CustomResourceDefinition>::all(client.clone()).list(&all).await?;
    let names = namespaces.items.iter().map(ResourceExt::name_any);
    let names = names.chain(roles.items.iter().map(ResourceExt::name_any));
    Ok(names.chain(definitions.items.iter().map(ResourceExt::name_any)).collect())
}

/// All other tests of this binary, on another cluster, in a process of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_tests_pass_on_another_cluster_and_leave_nothing_behind() -> Tested {
    let Some((cluster, client)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let before = inventory(&client).await?;
    let mut tests = Command::new(std::env::current_exe()?);
    // The genuine definitions are many and large: once, in this process, is enough for a machine that does much else.
    tests.args(["--skip", "another::", "--skip", "genuine::", "--test-threads", "4", "--nocapture"]);
    tests.env(KUBECONFIG, port.kubeconfig());
    let ended = tokio::task::spawn_blocking(move || tests.output()).await??;
    let told = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    assert!(told.contains("skipped with C5C3_TEST_KUBECONFIG: it is about the embedded API server: "), "{told}");
    assert_eq!(leftovers(&client).await?, []);
    assert_eq!(inventory(&client).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_leaves_nothing_behind() -> Tested {
    let Some((cluster, client)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let kubeconfig = port.kubeconfig();
    let before = inventory(&client).await?;
    let ended = tokio::spawn(async move {
        let part = TestCluster::on(&kubeconfig).await.expect("a part of the cluster");
        let mut held = tree("held");
        held.metadata.finalizers = Some(vec!["orchard.example/roots".into()]);
        orchard(&part).await.create(&PostParams::default(), &held).await.expect("a tree");
        establish(&part.client(), &trees(&part.group(ORCHARD))).await;
        let role: ClusterRole = of(json!({"metadata": {"name": "of-a-test-that-took-a-plain-name"}}));
        Api::all(part.client()).create(&PostParams::default(), &role).await.expect("a role");
        let elsewhere = Api::<ConfigMap>::namespaced(part.client(), "default");
        elsewhere.create(&PostParams::default(), &basket("elsewhere")).await.expect("a map");
        let there = leftovers(&part.client()).await.expect("a list").len();
        assert_eq!(there, 3, "a namespace, a definition of its own, and a shared one");
        panic!("as tests do");
    });
    let panic = ended.await.expect_err("it panics").into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as tests do"));
    assert_eq!(inventory(&client).await?, before);
    let elsewhere = Api::<ConfigMap>::namespaced(client, "default");
    assert!(elsewhere.get_opt("elsewhere").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_a_definition_removes_it_last() -> Tested {
    let Some((cluster, client)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let (one, other) = (TestCluster::on(&port.kubeconfig()).await?, TestCluster::on(&port.kubeconfig()).await?);
    orchard(&one).await;
    let trees = orchard(&other).await;
    drop(one);
    trees.create(&PostParams::default(), &tree("oak")).await?;
    drop(other);
    assert!(definitions.get_opt("trees.orchard.example").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_of_somebody_elses_is_used_and_stays() -> Tested {
    let Some((cluster, client)) = embedded(WHY).await else { return Ok(()) };
    establish(&client, &trees(ORCHARD)).await;
    let port = cluster.listen()?;
    let part = TestCluster::on(&port.kubeconfig()).await?;
    orchard(&part).await.create(&PostParams::default(), &tree("oak")).await?;
    drop(part);
    let kept = Api::<CustomResourceDefinition>::all(client).get("trees.orchard.example").await?;
    assert!(kept.annotations().is_empty() && kept.labels().is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_is_not_restarted() -> Tested {
    let Some((cluster, _)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let part = TestCluster::on(&port.kubeconfig()).await?;
    let refused = part.restart().await.expect_err("it is not ours");
    assert!(matches!(refused, Error::NotOurs(_)), "{refused}");
    assert!(refused.to_string().contains(&port.url()), "{refused}");
    Ok(())
}

#[tokio::test]
async fn faults_strike_who_comes_by_a_port() -> Tested {
    let Some((cluster, _)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let guest = Api::<ConfigMap>::default_namespaced(connect(&port.kubeconfig()).await?);
    cluster.inject(Fault::answer(409).to("create", "/configmaps"));
    assert!(guest.create(&PostParams::default(), &basket("a")).await.is_err());
    guest.create(&PostParams::default(), &basket("a")).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_comes_by_a_port_without_its_token() -> Tested {
    let Some((cluster, _)) = embedded(WHY).await else { return Ok(()) };
    let port = cluster.listen()?;
    let mut config = Kubeconfig::read_from(port.kubeconfig())?;
    config.auth_infos.clear();
    for context in config.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
        context.user = None;
    }
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let stranger = Api::<ConfigMap>::default_namespaced(Client::try_from(config)?);
    let refused = crate::fixtures::refusal(stranger.list(&ListParams::default()).await);
    assert_eq!(refused.code, 401);
    Ok(())
}

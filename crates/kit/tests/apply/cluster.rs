//! What depends on the managed fields that an API server keeps book of.

use c5c3_harness::{Fault, TestCluster};
use c5c3_kit::apply::{Applied, Executor};
use c5c3_kit::apply_cache::ApplyCache;
use c5c3_kit::ownership::Owner;
use c5c3_kit::{Child, Plan, Ref};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::ground::step;

/// An owner in a cluster.
struct Site {
    cluster: TestCluster,
    owner: Owner,
    apply_cache: ApplyCache,
}

impl Site {
    async fn new() -> Option<Self> {
        let cluster = TestCluster::without_controllers("it plays the Deployment controller").await.unwrap()?;
        let owners: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let metadata = ObjectMeta { name: Some("north".into()), ..ObjectMeta::default() };
        let made =
            owners.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
        let reference = Ref::namespaced::<ConfigMap>(cluster.namespace(), "north");
        let owner = Owner { reference, uid: made.metadata.uid.unwrap(), manager: "miller" };
        Some(Self { cluster, owner, apply_cache: ApplyCache::default() })
    }

    /// Carries out a plan of one child.
    async fn apply(&self, child: Child) -> Applied {
        let client = self.cluster.client();
        let reference = child.reference();
        let found = reference.api(client.clone()).get_opt(&reference.name).await.unwrap();
        let ours = found.map(|found| found.metadata).filter(|found| self.owner.owns(found));
        let existing: Vec<_> = ours.map(|found| (reference, found)).into_iter().collect();
        let (owner, apply_cache) = (&self.owner, Some(&self.apply_cache));
        let executor = Executor {
            client: &client,
            owner,
            existing: &existing,
            now: Timestamp::now(),
            write_limit: None,
            apply_cache,
        };
        executor.apply(&Plan::new().step(step("mill", &[]).child(child))).await.unwrap()
    }

    fn deployment(&self) -> Child {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "mill", "namespace": self.cluster.namespace()},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"part": "mill"}}, "template": {
                "metadata": {"labels": {"part": "mill"}}, "spec": {"containers": [{"name": "main", "image": "mill:1"}]}}},
        }))
        .unwrap();
        Child::new(&deployment)
    }

    fn service(&self) -> Child {
        let metadata = json!({"name": "mill", "namespace": self.cluster.namespace()});
        let spec = json!({"selector": {"part": "mill"}, "ports": [{"name": "api", "port": 5000, "protocol": "TCP"}]});
        Child::new(&serde_json::from_value::<Service>(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn keys(&self, keys: &[&str]) -> Child {
        let data: serde_json::Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!("b25l"))).collect();
        let metadata = json!({"name": "keys", "namespace": self.cluster.namespace()});
        Child::new(&serde_json::from_value::<Secret>(json!({"metadata": metadata, "data": data})).unwrap())
    }
}

#[tokio::test]
async fn a_key_that_came_with_the_creation_can_be_removed() {
    let Some(site) = Site::new().await else { return };
    let secrets: Api<Secret> = Api::default_namespaced(site.cluster.client());
    site.apply(site.keys(&["0", "1"]).based_on(None)).await;
    let made = secrets.get("keys").await.unwrap();
    site.apply(site.keys(&["1", "2"]).based_on(made.metadata.resource_version)).await;
    let keys: Vec<String> = secrets.get("keys").await.unwrap().data.unwrap().into_keys().collect();
    assert_eq!(keys, ["1", "2"]);
}

#[tokio::test]
async fn a_status_is_read_and_only_a_change_of_more_than_the_status_is_written_over() {
    let Some(site) = Site::new().await else { return };
    let deployments: Api<Deployment> = Api::default_namespaced(site.cluster.client());
    assert!(!site.apply(site.deployment()).await.is_done());
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}});
    let controller = PatchParams { field_manager: Some("controller".into()), ..PatchParams::default() };
    deployments.patch_status("mill", &controller, &Patch::Merge(status)).await.unwrap();
    site.cluster.inject(Fault::answer(500).to("patch", "/deployments").always());
    assert!(site.apply(site.deployment()).await.is_done(), "no write was needed");
    site.cluster.heal();

    let meddled = Patch::Merge(json!({"spec": {"replicas": 7}}));
    let meddler = PatchParams { field_manager: Some("meddler".into()), ..PatchParams::default() };
    deployments.patch("mill", &meddler, &meddled).await.unwrap();
    site.apply(site.deployment()).await;
    assert_eq!(deployments.get("mill").await.unwrap().spec.unwrap().replicas, Some(1));
}

#[tokio::test]
async fn a_port_of_a_service_that_another_client_changed_is_put_back() {
    let Some(site) = Site::new().await else { return };
    let services: Api<Service> = Api::default_namespaced(site.cluster.client());
    let ports = async || {
        let spec = services.get("mill").await.unwrap().spec.unwrap();
        spec.ports.unwrap().into_iter().map(|port| (port.name.unwrap_or_default(), port.port)).collect::<Vec<_>>()
    };
    site.apply(site.service()).await;
    let address = services.get("mill").await.unwrap().spec.unwrap().cluster_ip;
    let other = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let change = json!({"spec": {"ports": [{"name": "api", "port": 5001, "protocol": "TCP"}]}});
    services.patch("mill", &other, &Patch::Merge(change)).await.unwrap();
    let applied = site.apply(site.service()).await;
    assert!(applied.refused.is_none(), "{:?}", applied.refused);
    assert_eq!(ports().await, [("api".to_owned(), 5000)]);
    assert_eq!(services.get("mill").await.unwrap().spec.unwrap().cluster_ip, address);

    // All of its fields are ours again: a port that is no longer wanted goes.
    let mut moved = site.service();
    moved.object.data["spec"]["ports"][0]["port"] = json!(6000);
    site.apply(moved).await;
    assert_eq!(ports().await, [("api".to_owned(), 6000)]);
}

#[tokio::test]
async fn a_child_that_lost_its_labels_or_its_owner_reference_gets_them_back() {
    let Some(site) = Site::new().await else { return };
    let deployments: Api<Deployment> = Api::default_namespaced(site.cluster.client());
    site.apply(site.deployment()).await;
    let labels = json!({"app.kubernetes.io/managed-by": null, "c5c3.io/owner-uid": null});
    for loss in [json!({"labels": labels}), json!({"ownerReferences": null})] {
        let other = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
        deployments.patch("mill", &other, &Patch::Merge(json!({"metadata": loss}))).await.unwrap();
        assert!(!site.owner.owns(&deployments.get("mill").await.unwrap().metadata));
        site.apply(site.deployment()).await;
        assert!(site.owner.owns(&deployments.get("mill").await.unwrap().metadata), "{loss}");
    }
}

#[tokio::test]
async fn an_object_of_another_operator_with_copies_of_our_labels_stays_foreign() {
    let Some(site) = Site::new().await else { return };
    let deployments: Api<Deployment> = Api::default_namespaced(site.cluster.client());
    let mut copy = site.deployment().object;
    site.owner.mark(&mut copy, true);
    deployments.patch("mill", &PatchParams::apply("another"), &Patch::Apply(copy)).await.unwrap();
    let applied = site.apply(site.deployment()).await;
    assert_eq!(applied.outcomes[0].waits[0].reason(), "ForeignObject");
}

#[tokio::test]
async fn the_child_of_another_owner_of_the_same_kind_is_never_to_be_deleted() {
    let Some(site) = Site::new().await else { return };
    let deployments: Api<Deployment> = Api::default_namespaced(site.cluster.client());
    let mut child = site.deployment().object;
    let reference = Ref { name: "south".into(), ..site.owner.reference.clone() };
    Owner { reference, uid: "south-1".into(), ..site.owner.clone() }.mark(&mut child, true);
    deployments.patch("mill", &PatchParams::apply("miller"), &Patch::Apply(child)).await.unwrap();
    let message = site.apply(site.deployment()).await.outcomes[0].waits[0].message(Some(site.cluster.namespace()));
    assert!(
        message.ends_with(
            "keep it, for configmap/south needs it: delete configmap/north, or create it in another namespace"
        ),
        "{message}"
    );
}

//! What a pod gets from the cluster that it is created in.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, cluster, embedded, of, picker, refusal};

fn spec(pod: &Pod) -> Value {
    json!(pod.spec)
}

#[tokio::test]
async fn a_pod_runs_as_the_default_service_account_and_finds_its_token() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Pod>::default_namespaced(client);
    let pod = api.create(&PostParams::default(), &picker("a")).await?;
    let spec = spec(&pod);
    assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
    let volume = spec["volumes"][0]["name"].as_str().expect("a volume");
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    let mount = json!({"name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    let sources = &spec["volumes"][0]["projected"]["sources"];
    assert_eq!(sources[0]["serviceAccountToken"], json!({"expirationSeconds": 3607, "path": "token"}));
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    let owned = json!(pod.managed_fields()).to_string();
    assert!(owned.contains("f:containers") && !owned.contains("f:volumes"), "the cluster's own part has no owner");
    Ok(())
}

#[tokio::test]
async fn a_pod_of_a_service_account_that_is_not_there_is_refused() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<Pod>::default_namespaced(client.clone());
    let mut pod = picker("a");
    pod.spec.get_or_insert_default().service_account_name = Some("nobody".into());
    let refused = refusal(api.create(&PostParams::default(), &pod).await);
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        format!(
            "pods \"a\" is forbidden: error looking up service account {}/nobody: serviceaccount \"nobody\" not found",
            cluster.namespace()
        )
    );
    let account: ServiceAccount = of(json!({"metadata": {"name": "nobody"}, "automountServiceAccountToken": false}));
    Api::<ServiceAccount>::default_namespaced(client).create(&PostParams::default(), &account).await?;
    let pod = api.create(&PostParams::default(), &pod).await?;
    assert!(spec(&pod).get("volumes").is_none(), "the account wants no token in pods");
    Ok(())
}

#[tokio::test]
async fn a_pod_tolerates_that_its_node_is_away_for_five_minutes() -> Tested {
    let (_cluster, client) = cluster().await;
    let pod = Api::<Pod>::default_namespaced(client).create(&PostParams::default(), &picker("a")).await?;
    let tolerations = spec(&pod)["tolerations"].clone();
    for (index, key) in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].iter().enumerate() {
        let wanted = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        assert_eq!(tolerations[index], wanted);
    }
    Ok(())
}

#[tokio::test]
async fn the_priority_of_a_pod_is_that_of_its_class() -> Tested {
    let Some((_cluster, client)) = embedded("a default class is for all that a cluster is used for").await else {
        return Ok(());
    };
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let classes = Api::<PriorityClass>::all(client);
    let plain = spec(&pods.create(&PostParams::default(), &picker("a")).await?);
    assert_eq!((&plain["priority"], &plain["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    let of_class = |name: &str, class: &str| {
        let mut pod = picker(name);
        pod.spec.get_or_insert_default().priority_class_name = Some(class.into());
        pod
    };
    let critical = spec(&pods.create(&PostParams::default(), &of_class("b", "system-node-critical")).await?);
    assert_eq!(critical["priority"], 2_000_001_000);
    let refused = refusal(pods.create(&PostParams::default(), &of_class("c", "none")).await);
    assert_eq!(refused.message, "pods \"c\" is forbidden: no PriorityClass with name none was found");
    let usual =
        |name: &str| of::<PriorityClass>(json!({"metadata": {"name": name}, "value": 7, "globalDefault": true}));
    classes.create(&PostParams::default(), &usual("usual")).await?;
    assert_eq!(spec(&pods.create(&PostParams::default(), &picker("d")).await?)["priorityClassName"], "usual");
    let refused = refusal(classes.create(&PostParams::default(), &usual("second")).await);
    assert!(refused.message.ends_with("PriorityClass usual is already marked as default. Only one default can exist"));
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(spec(&pods.patch("a", &PatchParams::default(), &label).await?)["priority"], 0, "a pod keeps its own");
    Ok(())
}

#[tokio::test]
async fn claims_and_ingresses_get_the_default_class() -> Tested {
    let Some((_cluster, client)) = embedded("a default class is for all that a cluster is used for").await else {
        return Ok(());
    };
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(client.clone());
    let claim = |name: &str, class: Value| -> PersistentVolumeClaim {
        of(json!({"metadata": {"name": name}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
    };
    let class_of = |claim: PersistentVolumeClaim| claim.spec.and_then(|spec| spec.storage_class_name);
    assert_eq!(class_of(claims.create(&PostParams::default(), &claim("a", Value::Null)).await?), None);
    let class: StorageClass = of(json!({"provisioner": "p", "metadata": {"name": "fast",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}));
    Api::<StorageClass>::all(client.clone()).create(&PostParams::default(), &class).await?;
    assert_eq!(
        class_of(claims.create(&PostParams::default(), &claim("b", Value::Null)).await?).as_deref(),
        Some("fast")
    );
    assert_eq!(class_of(claims.create(&PostParams::default(), &claim("c", json!(""))).await?).as_deref(), Some(""));
    let class: IngressClass = of(json!({"spec": {"controller": "c.example/c"}, "metadata": {"name": "edge",
        "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}}));
    Api::<IngressClass>::all(client.clone()).create(&PostParams::default(), &class).await?;
    let ingress: Ingress = of(json!({"metadata": {"name": "i"}, "spec": {
        "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}));
    let ingress = Api::<Ingress>::default_namespaced(client).create(&PostParams::default(), &ingress).await?;
    assert_eq!(ingress.spec.and_then(|spec| spec.ingress_class_name).as_deref(), Some("edge"));
    Ok(())
}

//! Services: the addresses and ports that they are given.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, cluster, embedded, of, refusal};

fn stand(name: &str, spec: Value) -> Service {
    let mut spec = spec;
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    of(json!({"metadata": {"name": name}, "spec": spec}))
}

fn spec(service: &Service) -> Value {
    json!(service.spec)
}

#[tokio::test]
async fn a_service_gets_an_address_of_its_own_and_loses_it_when_it_goes() -> Tested {
    let Some((_cluster, client)) = embedded("its addresses are known, and nobody else takes them").await else {
        return Ok(());
    };
    let api = Api::<Service>::default_namespaced(client);
    let create = |name: &str, spec: Value| {
        let (api, service) = (api.clone(), stand(name, spec));
        async move { api.create(&PostParams::default(), &service).await }
    };
    let first = spec(&create("a", json!({})).await?);
    let address = first["clusterIP"].as_str().expect("an address").to_owned();
    assert!(address.starts_with("10.125."), "{address}");
    assert_eq!(first["clusterIPs"], json!([address]));
    assert_eq!((&first["ipFamilies"], &first["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    let refused = refusal(create("b", json!({"clusterIP": address})).await);
    assert_eq!(refused.code, 422);
    assert!(refused.message.ends_with(&format!("failed to allocate IP {address}: provided IP is already allocated")));
    let outside = refusal(create("b", json!({"clusterIP": "192.0.2.1"})).await);
    assert!(outside.message.ends_with("The range of valid IPs is 10.125.0.0/16"), "{}", outside.message);
    api.delete("a", &DeleteParams::default()).await?;
    assert_eq!(spec(&create("b", json!({"clusterIP": address})).await?)["clusterIP"], *address);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let tried = spec(&api.create(&dry, &stand("c", json!({"clusterIP": "10.125.0.77"}))).await?);
    assert_eq!(tried["clusterIP"], "10.125.0.77");
    create("c", json!({"clusterIP": "10.125.0.77"})).await?;
    Ok(())
}

#[tokio::test]
async fn no_two_services_that_are_created_at_once_share_an_address_or_a_port() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Service>::default_namespaced(client);
    let created = futures::future::join_all((0..50).map(|number| {
        let (api, service) = (api.clone(), stand(&format!("s{number}"), json!({"type": "NodePort"})));
        tokio::spawn(async move { api.create(&PostParams::default(), &service).await })
    }));
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    for service in created.await {
        let spec = spec(&service??);
        addresses.insert(spec["clusterIP"].to_string());
        let port = spec["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((30000..32768).contains(&port), "{port}");
        ports.insert(port);
    }
    assert_eq!((addresses.len(), ports.len()), (50, 50));
    Ok(())
}

#[tokio::test]
async fn some_services_have_no_address() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Service>::default_namespaced(client);
    let headless = stand("a", json!({"clusterIP": "None", "selector": {"a": "b"}}));
    let headless = spec(&api.create(&PostParams::default(), &headless).await?);
    assert_eq!((&headless["clusterIP"], &headless["clusterIPs"]), (&json!("None"), &json!(["None"])));
    let name = stand("b", json!({"type": "ExternalName", "externalName": "orchard.example"}));
    let name = spec(&api.create(&PostParams::default(), &name).await?);
    assert!(name.get("clusterIP").is_none() && name.get("ipFamilies").is_none(), "{name}");
    let addressed = Patch::Merge(json!({"spec": {"type": "ClusterIP", "externalName": null}}));
    let addressed = spec(&api.patch("b", &PatchParams::default(), &addressed).await?);
    let address = addressed["clusterIP"].as_str().and_then(|address| address.parse::<std::net::IpAddr>().ok());
    assert!(address.is_some(), "{addressed}");
    let named = Patch::Merge(json!({"spec": {"type": "ExternalName", "externalName": "orchard.example"}}));
    let named = spec(&api.patch("b", &PatchParams::default(), &named).await?);
    assert!(named.get("clusterIP").is_none(), "{named}");
    Ok(())
}

#[tokio::test]
async fn a_port_of_the_nodes_is_kept_asked_for_and_given_back() -> Tested {
    let Some((_cluster, client)) = embedded("nobody else takes its ports").await else { return Ok(()) };
    let api = Api::<Service>::default_namespaced(client);
    let wanted = stand("a", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}));
    api.create(&PostParams::default(), &wanted).await?;
    let taken = refusal(api.create(&PostParams::default(), &stand("b", spec(&wanted))).await);
    assert!(
        taken.message.ends_with("spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated")
    );
    let far = stand("b", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}));
    let far = refusal(api.create(&PostParams::default(), &far).await);
    assert!(far.message.ends_with("The range of valid ports is 30000-32767"), "{}", far.message);
    let mut again = api.get("a").await?;
    again.spec = stand("a", json!({"type": "NodePort"})).spec;
    let kept = spec(&api.replace("a", &PostParams::default(), &again).await?);
    assert_eq!(kept["ports"][0]["nodePort"], 30080, "{kept}");
    let inner = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
    let inner = spec(&api.patch("a", &PatchParams::default(), &inner).await?);
    assert!(inner["ports"][0].get("nodePort").is_none(), "{inner}");
    assert_eq!(inner["clusterIP"], kept["clusterIP"]);
    api.create(&PostParams::default(), &stand("b", spec(&wanted))).await?;
    Ok(())
}

#[tokio::test]
async fn the_server_is_a_service_itself() -> Tested {
    let Some((_cluster, client)) = embedded("its address is known").await else { return Ok(()) };
    let own = Api::<Service>::default_namespaced(client).get("kubernetes").await?;
    let own = spec(&own);
    assert_eq!((&own["clusterIP"], &own["ports"][0]["port"]), (&json!("10.125.0.1"), &json!(443)));
    Ok(())
}

//! ServiceCIDRs and IPAddresses.

use serde_json::{Value, json};

use super::Api;

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn ready(range: &Value) -> &Value {
    &range["status"]["conditions"][0]["status"]
}

#[tokio::test]
async fn each_address_of_a_service_is_an_object_for_as_long_as_the_service_has_it() {
    let api = Api::start().await;
    let (_, own) = api.get("/api/v1/namespaces/default/services/kubernetes").await;
    let own = own["spec"]["clusterIP"].as_str().unwrap();
    api.until(&format!("{ADDRESSES}/{own}"), |(code, _)| *code == 200).await;

    let services = "/api/v1/namespaces/default/services";
    let web = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let (_, web) = api.post(services, &web).await;
    let path = format!("{ADDRESSES}/{}", web["spec"]["clusterIP"].as_str().unwrap());
    let address = api.until(&path, |(code, _)| *code == 200).await;
    let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
    assert_eq!(address["spec"]["parentRef"], parent);
    let labels = &address["metadata"]["labels"];
    assert_eq!(labels["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    assert_eq!(labels["ipaddress.kubernetes.io/ip-family"], "IPv4");

    assert_eq!(api.delete(&path).await, 200);
    api.until(&path, |(code, _)| *code == 200).await;
    assert_eq!(api.delete(&format!("{services}/web")).await, 200);
    api.until(&path, |(code, _)| *code == 404).await;

    let other = json!({"metadata": {"name": "fe80::1"}, "spec": {"parentRef": {"resource": "networks", "name": "n"}}});
    assert_eq!(api.post(ADDRESSES, &other).await.0, 201);
    api.0.stop().await;
}

#[tokio::test]
async fn a_request_to_a_service_is_not_passed_on_to_this_machine() {
    let api = Api::start().await;
    let services = "/api/v1/namespaces/default/services";
    let web = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(api.post(services, &web).await.0, 201);
    let slice = json!({"metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"port": 1}], "endpoints": [{"addresses": ["127.0.0.1"]}]});
    assert_eq!(api.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await.0, 201);
    let (code, said) = api.get(&format!("{services}/web/proxy/")).await;
    assert_eq!((code, &said["message"]), (400, &json!("address not allowed")));
    api.0.stop().await;
}

#[tokio::test]
async fn the_range_of_the_cluster_is_ready_and_another_says_that_it_is_not_used() {
    let api = Api::start().await;
    let default = format!("{RANGES}/kubernetes");
    let range = api.until(&default, |(_, range)| ready(range) == "True").await;
    assert_eq!(range["spec"]["cidrs"].as_array().unwrap().len(), 1);
    assert_eq!(api.delete(&default).await, 200);
    api.until(&default, |(_, range)| ready(range) == "True").await;

    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["192.0.2.0/24"]}});
    assert_eq!(api.post(RANGES, &more).await.0, 201);
    let more = api.until(&format!("{RANGES}/more"), |(_, range)| ready(range) == "False").await;
    assert_eq!(more["status"]["conditions"][0]["reason"], "NotUsed");
    api.0.stop().await;
}

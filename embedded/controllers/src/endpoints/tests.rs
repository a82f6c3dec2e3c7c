//! Which endpoints are found, and how they are spread over slices.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::desired::{self, Zones};
use super::slices::{Changes, changes};
use super::{frame, legacy};
use crate::testing::{of, with};

fn service(spec: Value) -> Service {
    let mut service = json!({"metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"team": "a"}}});
    service["spec"] = with(json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}), spec);
    of(service)
}

/// A pod with an address; what is said of it makes it ready, going, over, or gives it another port.
fn pod(number: usize, said: &str) -> Pod {
    let (mut meta, mut conditions, mut phase, mut port) = (json!({}), json!([]), "Running", 8080);
    for word in said.split_whitespace() {
        match word {
            "ready" => conditions = json!([{"type": "Ready", "status": "True"}]),
            "going" => meta = json!({"deletionTimestamp": "2024-05-01T10:00:00Z"}),
            "over" => phase = "Failed",
            "other" => port = 9090,
            other => panic!("{other}"),
        }
    }
    let name = format!("p{number}");
    of(json!({
        "metadata": with(json!({"name": name, "namespace": "n", "uid": name}), meta),
        "spec": {"nodeName": "n1", "hostname": name, "subdomain": "web", "containers": [
            {"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
        "status": {"phase": phase, "podIP": format!("10.0.{}.{}", number / 200, number % 200), "conditions": conditions},
    }))
}

fn told(slice: &EndpointSlice) -> String {
    let ports: Vec<String> = slice.ports.iter().flatten().map(|port| port.port.unwrap().to_string()).collect();
    format!("{}:{}x{}", slice.name_any(), ports.join("+"), slice.endpoints.len())
}

fn slices(service: &Service, pods: &[Pod], existing: Vec<EndpointSlice>) -> Changes {
    let found = desired::endpoints(service, pods, "IPv4", &Zones::from([("n1".into(), "z1".into())]));
    changes(&frame(service, "IPv4".into()), found, existing)
}

/// What the changes make of what is there: new slices get names.
fn after(existing: &[EndpointSlice], changes: Changes) -> Vec<EndpointSlice> {
    let touched = |slice: &EndpointSlice| {
        changes.delete.iter().chain(&changes.update).any(|changed| changed.name_any() == slice.name_any())
    };
    let mut now: Vec<EndpointSlice> = existing.iter().filter(|slice| !touched(slice)).cloned().collect();
    let count = existing.len();
    now.extend(changes.update);
    now.extend(changes.create.into_iter().enumerate().map(|(number, mut slice)| {
        slice.metadata.name = Some(format!("s{}", count + number));
        slice.metadata.generate_name = None;
        slice
    }));
    now
}

#[test]
fn an_endpoint_is_ready_serving_or_on_its_way_out() {
    let table = [
        ("ready", false, Some((true, true, false))),
        ("", false, Some((false, false, false))),
        ("", true, Some((true, false, false))),
        ("ready going", false, Some((false, true, true))),
        ("ready going", true, Some((true, true, true))),
        ("over", true, None),
    ];
    for (said, publish, expected) in table {
        let service = service(json!({"publishNotReadyAddresses": publish}));
        let found = desired::endpoints(&service, &[pod(1, said)], "IPv4", &Zones::new());
        let conditions = found.first().map(|(_, endpoints)| endpoints[0].conditions.clone().unwrap());
        let told = conditions.map(|is| (is.ready.unwrap(), is.serving.unwrap(), is.terminating.unwrap()));
        assert_eq!(told, expected, "{said} {publish}");
    }
}

#[test]
fn an_endpoint_says_where_it_is_and_what_for() {
    let made = slices(&service(json!({})), &[pod(1, "ready")], Vec::new()).create.remove(0);
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "generateName": "web-", "namespace": "n",
                "labels": {"team": "a", "kubernetes.io/service-name": "web",
                           "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                                     "controller": true, "blockOwnerDeletion": true}],
            },
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{
                "addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "p1", "nodeName": "n1", "zone": "z1",
                "targetRef": {"kind": "Pod", "namespace": "n", "name": "p1", "uid": "p1"},
            }],
        })
    );
}

#[test]
fn slices_change_as_little_as_possible() {
    let service = service(json!({}));
    let pods = |numbers: std::ops::Range<usize>| numbers.map(|number| pod(number, "ready")).collect::<Vec<_>>();
    let tell = |slices: &[EndpointSlice]| slices.iter().map(told).collect::<Vec<_>>().join(" ");
    let none = after(&[], slices(&service, &[], Vec::new()));
    assert_eq!(tell(&none), "s0:x0", "a Service without endpoints has a slice that says so");
    assert_eq!(slices(&service, &[], none.clone()), Changes::default());
    let many = after(&[], slices(&service, &pods(0..250), Vec::new()));
    assert_eq!(tell(&many), "s0:8080x100 s1:8080x100 s2:8080x50");
    assert_eq!(slices(&service, &pods(0..250), many.clone()), Changes::default());
    let changed = slices(&service, &pods(5..253), many.clone());
    assert_eq!(
        (tell(&changed.update), changed.create.len(), changed.delete.len()),
        ("s0:8080x98".into(), 0, 0),
        "one slice takes in what is new"
    );
    let few = slices(&service, &pods(120..130), many.clone());
    assert_eq!((tell(&few.update), tell(&few.delete)), ("s1:8080x10".into(), "s0:8080x100 s2:8080x50".into()));
    let moved = after(&many, slices(&service, &[pod(0, "ready other"), pod(1, "ready")], many.clone()));
    assert_eq!(tell(&moved), "s0:8080x1 s3:9090x1");
    let ended = slices(&service, &[], many);
    assert_eq!((tell(&ended.update), ended.delete.len()), ("s2:x0".into(), 2));
}

#[test]
fn endpoints_are_the_same_in_one_object() {
    let pods =
        [pod(2, "ready"), pod(1, "ready"), pod(3, ""), pod(4, "ready going"), pod(5, "over"), pod(6, "ready other")];
    let text = |service: &Service| {
        let (subsets, _) = legacy::subsets(service, &pods);
        let ips = |list: Option<&Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
            list.into_iter().flatten().map(|address| address.ip.clone()).collect::<Vec<_>>().join(" ")
        };
        let told = subsets.iter().map(|subset| {
            let ports: Vec<_> = subset.ports.iter().flatten().map(|port| port.port.to_string()).collect();
            let (ready, waiting) = (ips(subset.addresses.as_ref()), ips(subset.not_ready_addresses.as_ref()));
            format!("{}: {ready} ({waiting})", ports.join("+"))
        });
        told.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(text(&service(json!({}))), "8080: 10.0.0.1 10.0.0.2 (10.0.0.3), 9090: 10.0.0.6 ()");
    assert_eq!(
        text(&service(json!({"publishNotReadyAddresses": true}))),
        "8080: 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 (), 9090: 10.0.0.6 ()"
    );
    assert_eq!(
        text(&service(json!({"clusterIP": "None", "ports": []}))),
        ": 10.0.0.1 10.0.0.2 10.0.0.6 (10.0.0.3)",
        "a Service without ports still has addresses"
    );
    assert_eq!(text(&service(json!({"ports": [{"port": 1, "targetPort": "none"}]}))), "");
}

//! A cluster whose domain is not `cluster.local`. The domain is a setting of the process, so this test has a process of its own.

use c5c3_kit::cluster_domain;
use c5c3_service::Instance;
use c5c3_service::instance::host;

#[test]
fn host_names_of_services_end_in_the_domain_of_the_cluster() {
    assert_eq!(cluster_domain::get(), "cluster.local");
    cluster_domain::set("clouds.example.").unwrap();
    let instance = Instance { service: "keystone", name: "gate".into(), namespace: "cloud".into() };
    assert_eq!(instance.host(), "gate.cloud.svc.clouds.example");
    assert_eq!(host("mariadb", "cloud"), "mariadb.cloud.svc.clouds.example");
    assert!(cluster_domain::set("clouds.example").is_ok(), "it is the same one");
    assert!(cluster_domain::set("other.example").unwrap_err().contains("clouds.example"));
}

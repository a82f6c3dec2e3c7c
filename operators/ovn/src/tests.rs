//! Plans, and what members are told to do, from what they say.

mod chassis;

use c5c3_api::ovn::OVNCluster;
use c5c3_kit::inputs::Found;
use c5c3_kit::{Controller, Inputs, Verdict};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::cluster::Clusters;
use crate::daemons::{CONFIGURE, OVSDB, VSWITCHD};
use crate::database::{CONTROL, MEMBER};
use crate::layout::{Database, Layout};
use crate::raft::{Decision, Situation};
use crate::remote::{Ask, Members, NodeSeen, Nodes, Row, Seen, Server, State, Told, What};

fn cluster(spec: &Value, status: &Value) -> OVNCluster {
    serde_json::from_value(json!({
        "apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNCluster", "metadata": {"name": "weave", "namespace": "loom"},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// A member that takes part, with the others that it knows.
fn member(layout: &Layout, ordinal: usize, leader: usize, others: &[usize]) -> Seen {
    let address = |ordinal| layout.raft_address(Database::Northbound, ordinal);
    let is_leader = ordinal == leader;
    Seen::State(State {
        data: true,
        cid: Some("cid-1".into()),
        sid: Some(format!("s{ordinal}")),
        address: address(ordinal),
        status: "cluster member".into(),
        role: if is_leader { "leader" } else { "follower" }.into(),
        leader: if is_leader { "self".into() } else { format!("s{leader}") },
        servers: others.iter().map(|other| Server { sid: format!("s{other}"), address: address(*other) }).collect(),
        ..State::default()
    })
}

fn empty() -> Seen {
    Seen::State(State::default())
}

fn decide(replicas: i32, cluster_id: Option<&str>, live: Option<usize>, members: Vec<Seen>) -> Decision {
    let layout = layout(replicas);
    Situation { layout: &layout, database: Database::Northbound, cluster_id, live, members }.decide()
}

fn layout(replicas: i32) -> Layout {
    Layout::of(&cluster(&json!({"northbound": {"replicas": replicas}}), &Value::Null))
}

/// The orders in words.
fn orders(decision: &Decision) -> Vec<String> {
    let words = |(pod, what, _): &(String, What, String)| match what {
        What::Create => format!("{pod} creates"),
        What::Join { replace, .. } => format!("{pod} joins{}", if *replace { " anew" } else { "" }),
        What::Leave => format!("{pod} leaves"),
        What::Kick { sid, .. } => format!("{pod} kicks {sid}"),
        What::DeleteChassis { name } => format!("{pod} deletes {name}"),
    };
    decision.orders.iter().map(words).collect()
}

#[test]
fn a_cluster_is_founded_once_and_only_while_nobody_can_have_data() {
    let first = decide(3, None, Some(1), vec![empty()]);
    assert_eq!((orders(&first), first.replicas), (vec!["weave-nb-0 creates".to_owned()], 1));
    let starting = decide(3, None, None, vec![Seen::Absent]);
    assert_eq!((orders(&starting).len(), starting.replicas, starting.waits.len()), (0, 1, 1));
    // The status was lost, and a member that may have data does not answer.
    let silent = decide(3, None, Some(3), vec![empty(), Seen::Silent("no route".into()), empty()]);
    assert_eq!((orders(&silent).len(), silent.replicas), (0, 3));
    // The status was lost, and another member has data: its cluster is the one.
    let layout = layout(3);
    let other = decide(3, None, Some(3), vec![empty(), member(&layout, 1, 1, &[0, 1]), empty()]);
    assert_eq!((orders(&other).len(), other.cluster_id.as_deref()), (0, Some("cid-1")));
}

#[test]
fn nobody_joins_before_the_status_has_the_id() {
    let layout = layout(3);
    let found = decide(3, None, Some(1), vec![member(&layout, 0, 0, &[0])]);
    assert_eq!((orders(&found).len(), found.replicas, found.cluster_id.as_deref()), (0, 1, Some("cid-1")));
    let known = decide(3, Some("cid-1"), Some(1), vec![member(&layout, 0, 0, &[0]), Seen::Absent, Seen::Absent]);
    assert_eq!((orders(&known).len(), known.replicas), (0, 3));
    let joins = decide(3, Some("cid-1"), Some(3), vec![member(&layout, 0, 0, &[0]), empty(), empty()]);
    assert_eq!(orders(&joins), ["weave-nb-1 joins", "weave-nb-2 joins"]);
}

#[test]
fn a_lost_disk_is_removed_by_the_leader_before_the_member_joins() {
    let layout = layout(3);
    let lost = |known: &[usize]| vec![empty(), member(&layout, 1, 1, known), member(&layout, 2, 1, known)];
    assert_eq!(orders(&decide(3, Some("cid-1"), Some(3), lost(&[0, 1, 2]))), ["weave-nb-1 kicks s0"]);
    assert_eq!(orders(&decide(3, Some("cid-1"), Some(3), lost(&[1, 2]))), ["weave-nb-0 joins"]);
    let all = decide(1, Some("cid-1"), Some(1), vec![empty()]);
    assert_eq!((orders(&all).len(), all.waits[0].reason().as_str()), (0, "DataLost"));
}

#[test]
fn a_member_that_was_removed_while_it_was_away_joins_anew() {
    let layout = layout(3);
    let known = [1, 2];
    let back = vec![member(&layout, 0, 9, &[0, 1, 2]), member(&layout, 1, 1, &known), member(&layout, 2, 1, &known)];
    assert_eq!(orders(&decide(3, Some("cid-1"), Some(3), back)), ["weave-nb-0 joins anew"]);
}

#[test]
fn the_last_member_leaves_before_its_pod_goes_and_is_removed_if_it_is_silent() {
    let layout = layout(1);
    let known = [0, 1, 2];
    let mut members: Vec<Seen> = known.iter().map(|ordinal| member(&layout, *ordinal, 0, &known)).collect();
    let first = decide(1, Some("cid-1"), Some(3), members.clone());
    assert_eq!((orders(&first), first.replicas), (vec!["weave-nb-2 leaves".to_owned()], 3));
    members[2] = Seen::Silent("no route".into());
    assert_eq!(orders(&decide(1, Some("cid-1"), Some(3), members.clone())), ["weave-nb-0 kicks s2"]);
    let known = [0, 1];
    let left: Vec<Seen> = known.iter().map(|ordinal| member(&layout, *ordinal, 0, &known)).collect();
    let left = decide(1, Some("cid-1"), Some(3), [left, vec![empty()]].concat());
    assert_eq!((orders(&left).len(), left.replicas), (0, 2));
}

#[test]
fn data_of_another_cluster_is_told_and_not_touched() {
    let layout = layout(3);
    let mut members: Vec<Seen> = (0..3).map(|ordinal| member(&layout, ordinal, 0, &[0, 1, 2])).collect();
    if let Seen::State(state) = &mut members[2] {
        state.cid = Some("cid-2".into());
    }
    let decision = decide(3, Some("cid-1"), Some(3), members);
    assert_eq!((orders(&decision).len(), decision.waits[0].reason().as_str()), (0, "SeveralClusters"));
}

#[test]
fn members_take_their_new_address_one_by_one_when_tls_is_switched() {
    let plain = layout(3);
    let spec = json!({"northbound": {"replicas": 3}, "tls": {"enabled": true, "certSecretRef": {"name": "yarn"}}});
    let layout = Layout::of(&cluster(&spec, &Value::Null));
    let members = (0..3).map(|ordinal| member(&plain, ordinal, 0, &[0, 1, 2])).collect();
    let database = Database::Northbound;
    let decision = Situation { layout: &layout, database, cluster_id: Some("cid-1"), live: Some(3), members }.decide();
    assert_eq!(orders(&decision), ["weave-nb-0 leaves"]);
}

/// The plan for an object with these Secrets, StatefulSets and answers.
fn plan(spec: &Value, status: &Value, replicas: Option<i32>, seen: impl Fn(&Layout, usize) -> Seen) -> String {
    let mut inputs = Inputs::new(cluster(spec, status), "2026-01-01T00:00:00Z".parse().unwrap());
    for reference in Clusters.needs(&inputs) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": reference.name},
            "data": {"token": "dG9rZW4=", "tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA=="}});
        inputs.insert(reference, Found::Object(Box::new(serde_json::from_value(secret).unwrap())));
    }
    let layout = Layout::of(&inputs.object);
    for (database, count) in [(Database::Northbound, replicas), (Database::Southbound, replicas)] {
        let Some(count) = count else { continue };
        let mut set =
            kube::api::DynamicObject::new(&layout.named(database.short()), &ApiResource::erase::<StatefulSet>(&()))
                .within("loom");
        set.data = json!({"spec": {"replicas": count}, "status": {"observedGeneration": 1, "updatedReplicas": count, "availableReplicas": count}});
        inputs.insert_own(set);
    }
    for database in [Database::Northbound, Database::Southbound] {
        for ordinal in 0..3 {
            let seen = match seen(&layout, ordinal) {
                Seen::State(mut state) => {
                    let other = |address: &str| {
                        if database == Database::Southbound {
                            address.replace("-nb", "-sb").replace("6643", "6644")
                        } else {
                            address.to_owned()
                        }
                    };
                    state.address = other(&state.address);
                    for server in &mut state.servers {
                        server.address = other(&server.address);
                    }
                    Seen::State(state)
                }
                other => other,
            };
            inputs.insert_reply::<Members>(
                Ask::Member(layout.door(database, &layout.pod(database, ordinal))),
                Ok(Told::Member(seen)),
            );
        }
    }
    let node =
        NodeSeen { name: "hv-1".into(), uid: "11".into(), address: Some("10.0.1.1".parse().unwrap()), has_tun: true };
    let nodes = Nodes { nodes: vec![node], ..Nodes::default() };
    let labels = layout.spec.controller.node_selector.clone();
    inputs.insert_reply::<Members>(Ask::Nodes { namespace: "loom".into(), labels }, Ok(Told::Nodes(nodes)));
    let rows = vec![Row { name: "hv-1".into(), datapath: "netdev".into(), heartbeat: 1_767_225_590_000 }];
    inputs.insert_reply::<Members>(
        Ask::Chassis(layout.door(Database::Southbound, "weave-sb-0"), None),
        Ok(Told::Chassis(rows)),
    );
    let Verdict::Valid(valid) = Clusters.validate(&inputs) else { panic!("not valid") };
    let scripts = [
        ("member.sh", MEMBER),
        ("control.py", CONTROL),
        ("ovsdb.sh", OVSDB),
        ("vswitchd.sh", VSWITCHD),
        ("configure.sh", CONFIGURE),
    ];
    scripts.iter().fold(Clusters.plan(&valid, &inputs).golden(), |text, (name, script)| {
        text.replace(&json!(script).to_string(), &format!("<{name}>"))
    })
}

#[test]
fn the_plan_of_a_new_cluster() {
    insta::assert_snapshot!(plan(&json!({}), &Value::Null, Some(1), |_, _| empty()));
}

#[test]
fn the_plan_of_a_cluster_that_runs_with_tls() {
    let spec = json!({"tls": {"enabled": true, "issuerRef": {"name": "weavers"}},
        "southbound": {"service": {"type": "LoadBalancer", "annotations": {"pool": "a"}}}});
    let status = json!({"northbound": {"clusterId": "cid-1"}, "southbound": {"clusterId": "cid-1"}});
    insta::assert_snapshot!(plan(&spec, &status, Some(3), |layout, ordinal| member(layout, ordinal, 0, &[0, 1, 2])));
}

#[test]
fn a_node_has_its_own_bridge_mappings_or_those_of_all_nodes() {
    let spec = json!({"bridgeMappings": [{"physicalNetwork": "outside", "bridge": "br-ex", "interface": "eth7"}]});
    let layout = Layout::of(&cluster(&spec, &Value::Null));
    let node = |name: &str| NodeSeen {
        name: name.into(),
        uid: "11".into(),
        address: Some("10.0.1.1".parse().unwrap()),
        has_tun: true,
    };
    let own = json!({"hostname": "hv-2", "systemId": "hv-2", "encapsulation": {"ip": "10.0.1.2"},
        "bridgeMappings": [{"physicalNetwork": "a", "bridge": "br-a"}, {"physicalNetwork": "b", "bridge": "br-b", "interface": "eth1"}]});
    let chassis = [("hv-2".to_owned(), serde_json::from_value(own).unwrap())].into();
    let nodes = Nodes { nodes: vec![node("hv-1"), node("hv-2")], chassis };
    let children = layout.chassis_children(&nodes);
    let file = |name: &str| children[0].object.data["data"][name].as_str().unwrap().to_owned();
    assert!(file("hv-1").ends_with("\nmappings outside:br-ex\nuplinks br-ex:eth7\n"), "{}", file("hv-1"));
    assert!(file("hv-2").ends_with("\nmappings a:br-a,b:br-b\nuplinks br-b:eth1\n"), "{}", file("hv-2"));
    // What a person writes into the OVNChassis of a node is not taken away.
    assert!(children.iter().skip(1).all(|child| child.object.data["spec"].get("bridgeMappings").is_none()));
}

#[test]
fn clients_are_given_all_members_unless_a_service_is_named() {
    let layout = layout(3);
    let all = layout.published(Database::Northbound);
    assert_eq!(all.split(',').count(), 3);
    assert!(all.starts_with("tcp:weave-nb-0.weave-nb-raft.loom.svc.cluster.local:6641,"), "{all}");
    let named = json!({"neutronIntegration": {"nbConnection": {"service": {"port": 7000}}}});
    let layout = Layout::of(&cluster(&named, &Value::Null));
    assert_eq!(layout.published(Database::Northbound), "tcp:weave-nb.loom.svc.cluster.local:7000");
}

#[test]
fn tls_is_not_switched_off() {
    let status = json!({"endpoints": {"northbound": "ssl:ovn-nb.loom.svc.cluster.local:6641"}});
    let inputs = Inputs::new(cluster(&json!({}), &status), "2026-01-01T00:00:00Z".parse().unwrap());
    let Verdict::Invalid(problems) = Clusters.validate(&inputs) else { panic!("members would lose each other") };
    assert!(problems.to_string().starts_with("spec.tls.enabled: switches TLS off"), "{problems}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let spec = json!({"tls": {"enabled": true, "certSecretRef": {"name": "yarn", "key": "x"}}, "neutronIntegration": {"sbConnection": {"service": {"name": "weave-nb"}}}});
    let inputs = Inputs::new(cluster(&spec, &Value::Null), "2026-01-01T00:00:00Z".parse().unwrap());
    let Verdict::Invalid(problems) = Clusters.validate(&inputs) else { panic!("it is wrong") };
    insta::assert_snapshot!(problems.to_string());
}

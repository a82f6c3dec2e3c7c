//! The controller of OVNCluster.
//!
//! ```text
//! control ─► northbound ─► its Raft ─► southbound ─► its Raft ─► northd ─► chassis ─► ovs ─► controllers
//! ```
//!
//! Versions change in this order too, but for Open vSwitch, whose new image waits for ovn-controller's.

use std::time::Duration;

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::ovn::{OVNChassis, OVNCluster, RaftStatus};
use c5c3_api::problem;
use c5c3_kit::remote::Call;
use c5c3_kit::{
    Controller, Inputs, KindRef, Plan, Question, Ref, RemoteHandle, Step, Verdict, Wait, random_secret, readiness,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::daemons::{CONTROLLER, OVS, SWITCH};
use crate::database::{SERVER, claim_size};
use crate::layout::{Database, Layout, known, live_image};
use crate::northd;
use crate::raft::{Decision, Situation};
use crate::remote::{self, Ask, Members, Nodes, Order, Row, Seen, TUN, Told};
use crate::tls;

/// How long after its last heartbeat a chassis counts as lost: three of them.
pub(crate) const LOST_AFTER: Duration = Duration::from_mins(3);

/// How soon members are asked again while they change, and when they do not.
const SOON: Duration = Duration::from_secs(1);
const RESYNC: Duration = Duration::from_mins(1);

/// The longest name: what is made of it has to fit the name of a Service with an ordinal behind it.
const LONGEST_NAME: usize = 40;

/// The controller.
pub(crate) struct Clusters;

impl Controller for Clusters {
    type Kind = OVNCluster;
    type Valid = Layout;
    const NAME: &'static str = "ovncluster";
    const CONDITIONS: &'static [&'static str] =
        &["NorthboundReady", "SouthboundReady", "NorthdReady", "ControllersReady"];

    fn children(&self) -> Vec<KindRef> {
        vec![
            KindRef::of::<Secret>(),
            KindRef::of::<ConfigMap>(),
            KindRef::of::<Service>(),
            KindRef::of::<StatefulSet>(),
            KindRef::of::<Deployment>(),
            KindRef::of::<DaemonSet>(),
            KindRef::of::<PodDisruptionBudget>(),
            KindRef::of::<NetworkPolicy>(),
            KindRef::of::<Certificate>(),
            KindRef::of::<OVNChassis>(),
        ]
    }

    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<StatefulSet>(), KindRef::of::<Deployment>(), KindRef::of::<DaemonSet>()]
    }

    fn needs(&self, inputs: &Inputs<OVNCluster>) -> Vec<Ref> {
        let layout = Layout::of(&inputs.object);
        std::iter::once(layout.token()).chain(layout.tls).collect()
    }

    fn remote_in(&self, client: &Client) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(Arc::new(Members::new(client.clone()))))
    }

    fn rights(&self) -> Vec<(KindRef, &'static str, &'static [&'static str])> {
        remote::rights()
    }

    fn questions(&self, inputs: &Inputs<OVNCluster>) -> Vec<Question> {
        let layout = Layout::of(&inputs.object);
        let members = |database| {
            let doors = (0..member_count(&layout, database, inputs)).map(|ordinal| {
                let door = layout.door(database, &layout.pod(database, ordinal));
                Question::to::<Members>(Ask::Member(door))
            });
            doors.collect::<Vec<_>>()
        };
        let mut questions = [members(Database::Northbound), members(Database::Southbound)].concat();
        questions.extend(nodes_question(&layout).map(Question::to::<Members>));
        questions.extend(chassis_question(&layout, inputs).map(Question::to::<Members>));
        questions
    }

    fn validate(&self, inputs: &Inputs<OVNCluster>) -> Verdict<Layout> {
        let layout = Layout::of(&inputs.object);
        let mut problems = tls::problems(layout.spec.tls.as_ref());
        if layout.tls.is_none() && speaks_tls(&inputs.object) {
            // Without keys a member no longer reaches the others, whose Raft addresses say ssl.
            let what = "switches TLS off, and the members of the databases know each other by addresses with TLS";
            let remedy =
                "switch it on again; or, if the networks may be lost, delete the OVNCluster and create it again";
            problems.push(problem("spec.tls.enabled", what, remedy));
        }
        if layout.name.len() > LONGEST_NAME {
            let what = format!("is longer than {LONGEST_NAME} characters, and pods and Services are named after it");
            problems.push(problem("metadata.name", what, "choose a shorter name"));
        }
        let [(north, _), (south, _)] =
            [Database::Northbound, Database::Southbound].map(|database| layout.client_service(database));
        if north == south {
            let what = format!("is {south}, which is the Service of the northbound database");
            problems.push(problem(
                "spec.neutronIntegration.sbConnection.service.name",
                what,
                "give each database a Service of its own",
            ));
        }
        if problems.is_empty() { Verdict::Valid(layout) } else { Verdict::Invalid(problems.into()) }
    }

    fn plan(&self, layout: &Layout, inputs: &Inputs<OVNCluster>) -> Plan {
        let north = decide(layout, Database::Northbound, inputs);
        let south = decide(layout, Database::Southbound, inputs);
        let is_settled = [&north, &south].iter().all(|it| it.orders.is_empty() && it.waits.is_empty());
        let mut plan = Plan::new().step(control(layout, inputs));
        plan = database(plan, layout, Database::Northbound, &north, "control", inputs);
        plan = database(plan, layout, Database::Southbound, &south, "northbound-raft", inputs);
        let step = Step::new("NorthdReady").node("northd", ["southbound-raft"]).children(layout.northd_children());
        plan = plan.step(step.done("northd is connected to both databases"));
        plan = hypervisors(plan, layout, inputs);
        plan = told(plan, layout, inputs, &north, &south).resync(Some(RESYNC));
        let is_stuck = north.waits.iter().chain(&south.waits).any(|wait| wait.failed);
        plan.requeue_after = (!is_settled).then_some(if is_stuck { RESYNC / 4 } else { SOON });
        plan.upgrading(is_upgrading(layout, inputs))
    }
}

/// Whether TLS has been on.
fn speaks_tls(cluster: &OVNCluster) -> bool {
    let endpoints = cluster.status.as_ref().and_then(|status| status.endpoints.as_ref());
    endpoints.and_then(|endpoints| endpoints.northbound.as_ref()).is_some_and(|endpoint| endpoint.starts_with("ssl:"))
}

/// How many members are asked: all that are wanted or live. Before a cluster is known, only those that exist.
fn member_count(layout: &Layout, database: Database, inputs: &Inputs<OVNCluster>) -> usize {
    let live = live_replicas(layout, database, inputs).unwrap_or(1);
    let wanted = usize::try_from(layout.database(database).replicas.get()).unwrap_or(1);
    if cluster_id(database, inputs).is_some() { live.max(wanted) } else { live.max(1) }
}

fn live_set<'a>(layout: &Layout, database: Database, inputs: &'a Inputs<OVNCluster>) -> Option<&'a DynamicObject> {
    inputs.own_named::<StatefulSet>(&layout.named(database.short()))
}

fn live_replicas(layout: &Layout, database: Database, inputs: &Inputs<OVNCluster>) -> Option<usize> {
    usize::try_from(live_set(layout, database, inputs)?.data["spec"]["replicas"].as_u64()?).ok()
}

fn raft_status(database: Database, cluster: &OVNCluster) -> Option<&RaftStatus> {
    let status = cluster.status.as_ref()?;
    match database {
        Database::Northbound => status.northbound.as_ref(),
        Database::Southbound => status.southbound.as_ref(),
    }
}

fn cluster_id(database: Database, inputs: &Inputs<OVNCluster>) -> Option<&str> {
    raft_status(database, &inputs.object)?.cluster_id.as_deref()
}

fn decide(layout: &Layout, database: Database, inputs: &Inputs<OVNCluster>) -> Decision {
    let members = (0..member_count(layout, database, inputs)).map(|ordinal| {
        let door = layout.door(database, &layout.pod(database, ordinal));
        match inputs.reply::<Members>(&Ask::Member(door)) {
            Some(Ok(Told::Member(seen))) => seen.clone(),
            Some(Err(failure)) => Seen::Silent(failure.message.clone()),
            Some(Ok(_)) | None => Seen::Silent("it was not asked".to_owned()),
        }
    });
    let (cluster_id, live) = (cluster_id(database, inputs), live_replicas(layout, database, inputs));
    Situation { layout, database, cluster_id, live, members: members.collect() }.decide()
}

/// The token of orders and the certificate: every pod mounts them.
fn control(layout: &Layout, inputs: &Inputs<OVNCluster>) -> Step {
    let token = random_secret::child(&layout.namespace, &layout.token().name, &[], &["token"]);
    let step = Step::new("NorthboundReady").node("control", []).child(token).children(layout.certificate());
    let step =
        step.done(if layout.tls.is_some() { "connections are encrypted" } else { "connections are not encrypted" });
    // The Secret of a Certificate is filled after that is made.
    let waits = if layout.certificate().is_none() { layout.tls_waits(inputs) } else { Vec::new() };
    waits.into_iter().fold(step, Step::wait)
}

/// The objects of a database, and then its members.
fn database(
    mut plan: Plan,
    layout: &Layout,
    database: Database,
    decision: &Decision,
    after: &'static str,
    inputs: &Inputs<OVNCluster>,
) -> Plan {
    let (objects, raft) = match database {
        Database::Northbound => ("northbound", "northbound-raft"),
        Database::Southbound => ("southbound", "southbound-raft"),
    };
    let live = live_set(layout, database, inputs);
    let mut step = Step::new(database.condition()).node(objects, [after]).done("Services and StatefulSet exist");
    if layout.certificate().is_some() {
        step = layout.tls_waits(inputs).into_iter().fold(step, Step::wait);
    }
    plan = plan.step(step.children(layout.database_children(database, decision.replicas, live)));
    let (written, templated) = (json!(layout.database(database).storage.size), claim_size(live));
    if let Some(size) = templated.filter(|size| *size != written) {
        let (set, namespace) = (layout.named(database.short()), &layout.namespace);
        let note = format!(
            "the claims of statefulset/{set} were made with {size}, and spec.{}.storage.size is {written}; Kubernetes does not change \
             them: kubectl -n {namespace} patch pvc data-{set}-0, and so on for each member",
            database.component()
        );
        plan = plan.failed_event("VolumeNotGrown", note);
    }
    let step = Step::new(database.condition()).node(raft, [objects]);
    let token = inputs.secret(&layout.token(), "token");
    let step = match token {
        Err(wait) if !decision.orders.is_empty() => step.undecided([wait]),
        Ok(token) if !decision.orders.is_empty() => decision.orders.iter().fold(step, |step, (pod, what, why)| {
            let order = Order { door: layout.door(database, pod), token: token.clone(), what: what.clone() };
            step.call(Call::to::<Members>(order, why.clone()))
        }),
        _ => decision.waits.iter().cloned().chain(rollout(layout, database, live)).fold(step.childless(), Step::wait),
    };
    let leader = decision.leader.as_deref().unwrap_or("none");
    plan.step(step.done(format!("{} members, {leader} leads", decision.ready)))
}

/// What the StatefulSet lacks, such as pods of its new version. It was read before this pass changes it: a set that still has the old
/// image is complete only in its old version.
fn rollout(layout: &Layout, database: Database, live: Option<&DynamicObject>) -> Option<Wait> {
    let set = Ref::namespaced::<StatefulSet>(&layout.namespace, layout.named(database.short()));
    let Some(found) = live else { return Some(Wait::on(&set).absent()) };
    let wanted = layout.ovn_image();
    match live_image(live, SERVER) {
        Some(image) if *image != wanted => {
            let wait = Wait::on(&set).condition(format!("runs {wanted}")).now(format!("runs {image} still"));
            let why = "what comes after it is replaced when all of its members run the new version";
            Some(
                wait.because(why).look_at(format!("kubectl describe statefulset {} -n {}", set.name, layout.namespace)),
            )
        }
        _ => readiness::wait(&set, found),
    }
}

fn nodes_question(layout: &Layout) -> Option<Ask> {
    let labels = layout.spec.controller.node_selector.clone();
    let is_here = layout.spec.hypervisor_cluster.is_none();
    is_here.then(|| Ask::Nodes { namespace: layout.namespace.clone(), labels })
}

fn chassis_question(layout: &Layout, inputs: &Inputs<OVNCluster>) -> Option<Ask> {
    let leader = decide(layout, Database::Southbound, inputs).leader?;
    Some(Ask::Chassis(layout.door(Database::Southbound, &leader), None))
}

/// The daemons on hypervisors, which are nodes of this cluster or of another one.
fn hypervisors(plan: Plan, layout: &Layout, inputs: &Inputs<OVNCluster>) -> Plan {
    let Some(question) = nodes_question(layout) else {
        let done = "the hypervisors are in another cluster, where its own tools run ovn-controller and Open vSwitch";
        return plan
            .without_step("chassis")
            .without_step("ovs")
            .step(Step::new("ControllersReady").node("controllers", ["northd"]).childless().done(done));
    };
    let chassis = Step::new("ControllersReady").node("chassis", ["northd"]);
    let nodes = match inputs.answered::<Members>(&question) {
        Ok(Told::Nodes(nodes)) => nodes,
        Ok(_) => return plan,
        Err(wait) => {
            let waits = |step: Step| step.undecided([wait.clone()]);
            return plan
                .step(waits(chassis))
                .step(waits(Step::new("ControllersReady").node("ovs", ["chassis"])))
                .step(waits(Step::new("ControllersReady").node("controllers", ["northd", "ovs"])));
        }
    };
    let nameless = nodes.nodes.iter().filter(|node| node.address.is_none()).map(|node| {
        Wait::on(&Ref::cluster::<Node>(&node.name))
            .condition("has an InternalIP")
            .now("has no address of type InternalIP yet")
    });
    let live = inputs.own_named::<DaemonSet>(&layout.named(OVS));
    let ovs = layout.ovs_child(&ovs_image(layout, inputs), asks_for_tun(nodes, live));
    let addresses = Step::new("ControllersReady").node("addresses", ["chassis"]).childless();
    let addresses = addresses.done("every node has an address");
    plan.step(chassis.children(layout.chassis_children(nodes)).done("every node has an OVNChassis"))
        .step(nameless.fold(addresses, Step::wait))
        .step(
            Step::new("ControllersReady")
                .node("ovs", ["chassis"])
                .child(ovs)
                .done("Open vSwitch runs on every hypervisor"),
        )
        .step(
            Step::new("ControllersReady")
                .node("controllers", ["northd", "ovs"])
                .child(layout.controller_child())
                .done("ovn-controller runs on every hypervisor"),
        )
}

/// A new version of Open vSwitch comes after the one of ovn-controller, and its creation does not.
fn ovs_image(layout: &Layout, inputs: &Inputs<OVNCluster>) -> String {
    let controllers = inputs.own_named::<DaemonSet>(&layout.named(CONTROLLER));
    let reference = Ref::namespaced::<DaemonSet>(&layout.namespace, layout.named(CONTROLLER));
    let is_current = live_image(controllers, CONTROLLER) == Some(&layout.ovn_image())
        && controllers.is_some_and(|live| readiness::wait(&reference, live).is_none());
    let running = live_image(inputs.own_named::<DaemonSet>(&layout.named(OVS)), SWITCH);
    running.filter(|_| !is_current).map_or_else(|| layout.ovs_image(), ToOwned::to_owned)
}

/// The userspace datapath opens `/dev/net/tun`, which a device plugin gives out. Without one on every node none is asked for, lest
/// pods stay pending. The question is decided once: a node whose plugin is late must not restart the others' switches.
fn asks_for_tun(nodes: &Nodes, live: Option<&DynamicObject>) -> bool {
    let containers = live.and_then(|live| live.data["spec"]["template"]["spec"]["containers"].as_array());
    let is_asked = containers.into_iter().flatten().any(|container| !container["resources"]["limits"][TUN].is_null());
    is_asked || (!nodes.nodes.is_empty() && nodes.nodes.iter().all(|node| node.has_tun))
}

/// The fields of the status.
fn told(plan: Plan, layout: &Layout, inputs: &Inputs<OVNCluster>, north: &Decision, south: &Decision) -> Plan {
    let endpoints = known(&[
        ("northbound", json!(layout.published(Database::Northbound))),
        ("southbound", json!(layout.published(Database::Southbound))),
    ]);
    let before = inputs.object.status.as_ref();
    let question = chassis_question(layout, inputs);
    let (count, active) = match question.and_then(|question| inputs.reply::<Members>(&question)) {
        Some(Ok(Told::Chassis(rows))) => {
            let active = rows.iter().filter(|row| is_alive(row, inputs.now)).count();
            (json!(rows.len()), json!(active))
        }
        _ => (json!(before.and_then(|it| it.chassis_count)), json!(before.and_then(|it| it.active_controllers))),
    };
    let fields = [
        ("endpoints", endpoints),
        ("northbound", north.status()),
        ("southbound", south.status()),
        ("chassisCount", count),
        ("activeControllers", active),
    ];
    fields
        .into_iter()
        .filter(|(_, value)| *value != Value::Null)
        .fold(plan, |plan, (name, value)| plan.status(name, value))
}

/// Whether a chassis has caught up with the database lately.
pub(crate) fn is_alive(row: &Row, now: jiff::Timestamp) -> bool {
    lost_in(row, now).is_some()
}

/// How long it takes until a chassis counts as lost, if it does not catch up again. `None` if it does already.
pub(crate) fn lost_in(row: &Row, now: jiff::Timestamp) -> Option<Duration> {
    let lost = row.heartbeat.saturating_add(i64::try_from(LOST_AFTER.as_millis()).unwrap_or(i64::MAX));
    let left = u64::try_from(lost.saturating_sub(now.as_millisecond())).ok();
    left.filter(|left| row.heartbeat > 0 && *left > 0).map(Duration::from_millis)
}

/// Whether something runs another image than the one that is asked for.
fn is_upgrading(layout: &Layout, inputs: &Inputs<OVNCluster>) -> bool {
    let (ovn, ovs) = (layout.ovn_image(), layout.ovs_image());
    let live = [
        (live_image(live_set(layout, Database::Northbound, inputs), SERVER), &ovn),
        (live_image(live_set(layout, Database::Southbound, inputs), SERVER), &ovn),
        (live_image(inputs.own_named::<Deployment>(&layout.named(northd::COMPONENT)), northd::COMPONENT), &ovn),
        (live_image(inputs.own_named::<DaemonSet>(&layout.named(CONTROLLER)), CONTROLLER), &ovn),
        (live_image(inputs.own_named::<DaemonSet>(&layout.named(OVS)), SWITCH), &ovs),
    ];
    live.iter().any(|(live, wanted)| live.is_some_and(|live| live != *wanted))
}

//! The controller of OVNChassis: what the southbound database knows of a node, and that it is forgotten there with the node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::ovn::{OVNChassis, OVNCluster};
use c5c3_kit::ownership;
use c5c3_kit::remote::{Call, Farewell};
use c5c3_kit::{Controller, Inputs, KindRef, Plan, Question, Ref, RemoteHandle, Step, Verdict, Wait};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::lost_in;
use crate::daemons::CONTROLLER;
use crate::layout::{Database, Layout};
use crate::remote::{self, Ask, Members, Order, Row, Told, What};

/// The OVNCluster of a chassis that none was made for.
const USUAL_CLUSTER: &str = "ovn";

/// How soon the database is asked again about a chassis that is missed, and about one that is well.
const SOON: Duration = Duration::from_secs(5);
const RESYNC: Duration = Duration::from_mins(1);

/// The controller.
pub(crate) struct AllChassis;

impl Controller for AllChassis {
    type Kind = OVNChassis;
    type Valid = Layout;
    const NAME: &'static str = "ovnchassis";
    const CONDITIONS: &'static [&'static str] = &["OVSConnected"];
    const FINALIZER: Option<&'static str> = Some("ovn.c5c3.io/chassis-cleanup");
    /// Longer than it takes to elect a leader and to end a pod.
    const FAREWELL_PATIENCE: Option<Duration> = Some(Duration::from_mins(10));

    fn children(&self) -> Vec<KindRef> {
        Vec::new()
    }

    fn reads(&self) -> Vec<KindRef> {
        vec![KindRef::of::<OVNCluster>(), KindRef::of::<Node>(), KindRef::of::<Secret>()]
    }

    fn needs(&self, inputs: &Inputs<OVNChassis>) -> Vec<Ref> {
        let token = layout(inputs).ok().map(|layout| layout.token());
        [cluster(&inputs.object), node(&inputs.object)].into_iter().chain(token).collect()
    }

    fn remote_in(&self, client: &Client) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(Arc::new(Members::new(client.clone()))))
    }

    fn rights(&self) -> Vec<(KindRef, &'static str, &'static [&'static str])> {
        remote::rights()
    }

    fn questions(&self, inputs: &Inputs<OVNChassis>) -> Vec<Question> {
        let Ok(layout) = layout(inputs) else { return Vec::new() };
        let daemon = is_terminating(inputs).then(|| daemon_question(&layout, &inputs.object));
        let questions = row_question(&layout, inputs).into_iter().chain(daemon);
        questions.map(Question::to::<Members>).collect()
    }

    fn validate(&self, inputs: &Inputs<OVNChassis>) -> Verdict<Layout> {
        match layout(inputs) {
            Ok(layout) => Verdict::Valid(layout),
            Err(wait) => Verdict::Wait(vec![wait]),
        }
    }

    fn plan(&self, layout: &Layout, inputs: &Inputs<OVNChassis>) -> Plan {
        let step = Step::new("OVSConnected").childless();
        let plan = Plan::new().resync(Some(RESYNC));
        let plan = remembered(plan, inputs);
        let row = row(layout, inputs);
        // A chassis that is well is asked about again no later than it would count as lost.
        let lost_in = row.as_ref().ok().and_then(|row| lost_in((*row)?, inputs.now));
        let mut plan = match row {
            Err(wait) => plan.step(step.undecided([wait])),
            Ok(None) => plan.step(step.wait(unregistered(layout, inputs))),
            Ok(Some(row)) => {
                let plan = plan.status("registeredAt", registered_at(inputs));
                let plan = match Timestamp::from_millisecond(row.heartbeat) {
                    Ok(beat) if row.heartbeat > 0 => plan.status("lastHeartbeat", time(beat)),
                    _ => plan,
                };
                if lost_in.is_some() {
                    plan.step(step.done(format!("follows the southbound database, on the {} datapath", datapath(row))))
                } else {
                    plan.step(step.wait(lost(layout, inputs, row)))
                }
            }
        };
        plan.requeue_after = Some(lost_in.unwrap_or(SOON));
        plan
    }

    fn farewell(&self, inputs: &Inputs<OVNChassis>) -> Farewell {
        // With the OVNCluster its databases go, and there is nothing to delete from. On a hypervisor that stays one,
        // ovn-controller would register the chassis again, and the OVNCluster makes the object again.
        let Some(layout) = layout(inputs).ok().filter(|layout| !is_hypervisor(layout, inputs)) else {
            return Farewell::new();
        };
        let Some(name) =
            inputs.get(&cluster(&inputs.object)).filter(|found| found.metadata.deletion_timestamp.is_none())
        else {
            return Farewell::new();
        };
        let system_id = &inputs.object.spec.system_id;
        let leaves = format!("the chassis {system_id} of OVNCluster {}", name.name_any());
        match (row(&layout, inputs), inputs.secret(&layout.token(), "token")) {
            (Ok(None), _) => Farewell::new(),
            (Err(wait), _) | (_, Err(wait)) => Farewell::new().wait(wait).leaves(leaves),
            (Ok(Some(_)), Ok(token)) => {
                if let Some(wait) = still_running(&layout, inputs) {
                    return Farewell::new().wait(wait).leaves(leaves);
                }
                let leader = leader(&layout, inputs).unwrap_or_default();
                let door = layout.door(Database::Southbound, &leader);
                let order = Order { door, token, what: What::DeleteChassis { name: system_id.clone() } };
                Farewell::new().call(Call::to::<Members>(order, "its OVNChassis is deleted")).leaves(leaves)
            }
        }
    }
}

/// The OVNCluster that made the object, or the usual one.
fn cluster(chassis: &OVNChassis) -> Ref {
    let kind = ApiResource::erase::<OVNCluster>(&());
    ownership::owner_of(&chassis.metadata, &kind)
        .unwrap_or_else(|| Ref::namespaced::<OVNCluster>(chassis.namespace().unwrap_or_default(), USUAL_CLUSTER))
}

/// The node of the same name.
fn node(chassis: &OVNChassis) -> Ref {
    Ref::cluster::<Node>(chassis.name_any())
}

fn layout(inputs: &Inputs<OVNChassis>) -> Result<Layout, Wait> {
    let reference = cluster(&inputs.object);
    let cluster: OVNCluster = inputs.typed(&reference).map_err(|wait| {
        wait.because("it has the databases that the chassis registers in")
            .look_at("create an OVNCluster, or delete the OVNChassis")
    })?;
    Ok(Layout::of(&cluster))
}

fn is_terminating(inputs: &Inputs<OVNChassis>) -> bool {
    inputs.object.metadata.deletion_timestamp.is_some()
}

/// The pod that leads the southbound database, as the OVNCluster says.
fn leader(layout: &Layout, inputs: &Inputs<OVNChassis>) -> Option<String> {
    let cluster: OVNCluster = inputs.typed(&cluster(&inputs.object)).ok()?;
    let leader = cluster.status?.southbound?.leader?;
    // A pod of this name, and no other text of a status.
    leader.starts_with(&layout.named("sb")).then_some(leader)
}

fn row_question(layout: &Layout, inputs: &Inputs<OVNChassis>) -> Option<Ask> {
    let door = layout.door(Database::Southbound, &leader(layout, inputs)?);
    Some(Ask::Chassis(door, Some(inputs.object.spec.system_id.clone())))
}

fn daemon_question(layout: &Layout, chassis: &OVNChassis) -> Ask {
    let labels: BTreeMap<String, String> = serde_json::from_value(layout.labels(CONTROLLER)).unwrap_or_default();
    Ask::Daemon { namespace: layout.namespace.clone(), labels, node: chassis.name_any() }
}

/// The chassis in the database; none if it is not there.
fn row<'a>(layout: &Layout, inputs: &'a Inputs<OVNChassis>) -> Result<Option<&'a Row>, Wait> {
    let Some(question) = row_question(layout, inputs) else {
        let wait = Wait::on(&cluster(&inputs.object))
            .condition("SouthboundReady")
            .now("its southbound database has no leader");
        return Err(wait.look_at(format!("kubectl describe ovncluster {} -n {}", layout.name, layout.namespace)));
    };
    match inputs.answered::<Members>(&question)? {
        Told::Chassis(rows) => Ok(rows.iter().find(|row| row.name == inputs.object.spec.system_id)),
        Told::Member(_) | Told::Nodes(_) | Told::Daemon(_) => Ok(None),
    }
}

/// Whether the node of the chassis exists and is one of the OVNCluster's.
fn is_hypervisor(layout: &Layout, inputs: &Inputs<OVNChassis>) -> bool {
    inputs.get(&node(&inputs.object)).is_some_and(|node| {
        let labels = node.labels();
        layout.spec.controller.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// ovn-controller registers its chassis for as long as it runs, so that it must have ended before the chassis is deleted.
fn still_running(layout: &Layout, inputs: &Inputs<OVNChassis>) -> Option<Wait> {
    let question = daemon_question(layout, &inputs.object);
    let runs = matches!(inputs.reply::<Members>(&question), Some(Ok(Told::Daemon(true))));
    let name = inputs.object.name_any();
    runs.then(|| {
        Wait::on(&Ref::namespaced::<Pod>(&layout.namespace, layout.named(CONTROLLER)))
            .condition("is deleted")
            .now(format!("still exists on node {name}"))
            .because("it would register the chassis again")
            .look_at(format!("kubectl get pods -n {} --field-selector spec.nodeName={name}", layout.namespace))
    })
}

fn unregistered(layout: &Layout, inputs: &Inputs<OVNChassis>) -> Wait {
    let (name, id) = (inputs.object.name_any(), &inputs.object.spec.system_id);
    Wait::on(&Ref::namespaced::<OVNChassis>(&layout.namespace, &name))
        .condition("is registered")
        .now(format!("is not in the southbound database as {id}"))
        .look_at(daemon_logs(layout, &name))
        .with_reason("NotRegistered")
}

fn lost(layout: &Layout, inputs: &Inputs<OVNChassis>, row: &Row) -> Wait {
    let name = inputs.object.name_any();
    let wait = Wait::on(&Ref::namespaced::<OVNChassis>(&layout.namespace, &name)).condition("has a heartbeat");
    if row.heartbeat == 0 {
        return wait
            .now("has not confirmed anything yet")
            .look_at(daemon_logs(layout, &name))
            .with_reason("NoHeartbeat");
    }
    let age = (inputs.now.as_millisecond() - row.heartbeat) / 60_000;
    wait.now(format!("its ovn-controller has not followed the southbound database for {age} minutes"))
        .because("instances on the node get no changes of their networks")
        .look_at(daemon_logs(layout, &name))
        .failed("HeartbeatLost")
}

fn daemon_logs(layout: &Layout, node: &str) -> String {
    format!(
        "kubectl get pods -n {} -l app.kubernetes.io/name=ovn --field-selector spec.nodeName={node}, and their logs",
        layout.namespace
    )
}

/// What was known before stays until it is known otherwise.
fn remembered(plan: Plan, inputs: &Inputs<OVNChassis>) -> Plan {
    let Some(status) = &inputs.object.status else { return plan };
    let fields = [("registeredAt", &status.registered_at), ("lastHeartbeat", &status.last_heartbeat)];
    let known = fields.into_iter().filter_map(|(name, time)| Some((name, json!(time.as_ref()?))));
    known.fold(plan, |plan, (name, time)| plan.status(name, time))
}

fn registered_at(inputs: &Inputs<OVNChassis>) -> Value {
    let before = inputs.object.status.as_ref().and_then(|status| status.registered_at.as_ref());
    before.map_or_else(|| time(inputs.now), |before| json!(before))
}

fn datapath(row: &Row) -> &str {
    match row.datapath.as_str() {
        "netdev" => "userspace",
        "" | "system" => "kernel",
        other => other,
    }
}

/// To the second, as every time in a status.
fn time(time: Timestamp) -> Value {
    json!(Time(time))
}

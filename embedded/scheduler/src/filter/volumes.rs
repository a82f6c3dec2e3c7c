//! The claims of a pod: whether they can be had on a node.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use crate::model::Key;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::reason::Reason;
use crate::snapshot::{ClaimStep, Snapshot};
use crate::volumes as read;

/// The claims of a pod, by what they have.
pub(super) struct Wanted<'a> {
    /// Volumes of claims that are bound; None if the volume is not there.
    bound: Vec<Option<&'a PersistentVolume>>,
    /// Claims that wait for this pod.
    waiting: Vec<(Key, &'a PersistentVolumeClaim)>,
    /// Whether another pod has one of them for itself.
    in_use: bool,
}

impl<'a> Wanted<'a> {
    /// Looks the claims up. A claim that is missing, lost, going or not bound in time keeps the pod from all nodes.
    pub(super) fn of(snapshot: &'a Snapshot, pod: &Pod) -> Result<Self, Reason> {
        let mut wanted = Self { bound: Vec::new(), waiting: Vec::new(), in_use: false };
        let mut claims = Vec::new();
        for mounted in &pod.wants.claims {
            let key = pod.claim_key(mounted);
            let name = mounted.name.clone();
            let Some(claim) = snapshot.claims.get(&key) else {
                return Err(Reason::ClaimMissing { claim: name, is_ephemeral: mounted.is_ephemeral });
            };
            if read::phase(claim) == "Lost" {
                let volume = read::volume_of(claim).unwrap_or_default().to_owned();
                return Err(Reason::ClaimLost { claim: name, volume });
            }
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(Reason::ClaimDeleting { claim: name });
            }
            wanted.in_use |= read::is_for_one_pod(claim) && is_mounted(snapshot, pod, &key);
            claims.push((key, claim));
        }
        for (key, claim) in claims {
            match read::volume_of(claim) {
                Some(volume) if read::is_bound(claim) => wanted.bound.push(snapshot.volumes.get(volume)),
                None if waits(snapshot, claim) => wanted.waiting.push((key, claim)),
                _ => return Err(Reason::ClaimUnbound),
            }
        }
        Ok(wanted)
    }

    /// What must happen for the claims on a node, or why they cannot be had there.
    pub(super) fn on(&self, snapshot: &Snapshot, node: &Node) -> Result<Vec<ClaimStep>, Vec<Reason>> {
        if self.in_use {
            return Err(vec![Reason::ClaimInUse]);
        }
        let mut reasons: Vec<Reason> = Vec::new();
        let mut note = |reason: Reason| {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        };
        for volume in &self.bound {
            match volume {
                None => note(Reason::VolumeMissing),
                Some(volume) if !read::is_reachable(volume, node) => note(Reason::VolumeElsewhere),
                Some(_) => {}
            }
        }
        let mut steps: Vec<ClaimStep> = Vec::new();
        for (key, claim) in &self.waiting {
            match step(snapshot, key, claim, node, &steps) {
                Some(step) => steps.push(step),
                None => note(Reason::NoVolume),
            }
        }
        if reasons.is_empty() && !self.bound.iter().flatten().all(|volume| read::is_in_zone(volume, node)) {
            reasons.push(Reason::VolumeZone);
        }
        if reasons.is_empty() { Ok(steps) } else { Err(reasons) }
    }
}

/// How a claim that waits for its pod gets a volume on this node: the one it has been promised, the smallest of those that
/// are there, or a new one.
fn step(
    snapshot: &Snapshot,
    key: &Key,
    claim: &PersistentVolumeClaim,
    node: &Node,
    so_far: &[ClaimStep],
) -> Option<ClaimStep> {
    let provision = || ClaimStep::Provision { claim: key.clone(), node: node.name.clone() };
    let selected = read::selected_node(claim).or(match snapshot.promised(key) {
        Some(ClaimStep::Provision { node, .. }) => Some(node),
        _ => None,
    });
    if let Some(selected) = selected {
        return (selected == node.name).then(provision);
    }
    let bind = |volume: &str| ClaimStep::Bind { claim: key.clone(), volume: volume.to_owned() };
    if let Some(ClaimStep::Bind { volume, .. }) = snapshot.promised(key) {
        let volume = snapshot.volumes.get_key_value(volume)?;
        return read::is_reachable(volume.1, node).then(|| bind(volume.0));
    }
    let is_spoken_for = |name: &str| {
        let taken_here = so_far.iter().any(|step| matches!(step, ClaimStep::Bind { volume, .. } if volume == name));
        taken_here || snapshot.is_promised(name)
    };
    let suitable = snapshot
        .volumes
        .iter()
        .filter(|(name, volume)| !is_spoken_for(name) && read::suits(volume, claim, node))
        // One that is kept for this claim before all others, then the smallest.
        .min_by_key(|(_, volume)| {
            (volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none()), read::size(volume))
        });
    if let Some((volume, _)) = suitable {
        return Some(bind(volume));
    }
    let class = snapshot.classes.get(read::class_of(claim))?;
    read::can_be_made(class, node).then(provision)
}

fn waits(snapshot: &Snapshot, claim: &PersistentVolumeClaim) -> bool {
    snapshot.classes.get(read::class_of(claim)).is_some_and(read::waits_for_pod)
}

fn is_mounted(snapshot: &Snapshot, pod: &Pod, claim: &Key) -> bool {
    snapshot.neighbours().any(|(_, other)| {
        other.uid != pod.uid && other.wants.claims.iter().any(|mounted| other.claim_key(mounted) == *claim)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Cluster, pod};

    fn mounting(claims: &[&str]) -> Value {
        let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
        json!({"spec": {"volumes": claims.iter().map(volume).collect::<Vec<_>>()}})
    }

    fn on(node: &str) -> Value {
        let here = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]);
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}})
    }

    fn bound(volume: &str) -> Value {
        json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
    }

    fn local(node: &str, size: &str) -> Value {
        json!({"spec": {
            "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "nodeAffinity": on(node),
        }})
    }

    fn wish(class: &str) -> Value {
        json!({"spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }})
    }

    /// Classes that wait for the pod: `made` makes volumes, `local` has only those that are there.
    fn classes() -> Cluster {
        let waits = "WaitForFirstConsumer";
        Cluster::of(&["ash", "oak"])
            .class("made", json!({"volumeBindingMode": waits}))
            .class("local", json!({"volumeBindingMode": waits, "provisioner": "kubernetes.io/no-provisioner"}))
            .class("at-once", json!({"volumeBindingMode": "Immediate"}))
    }

    fn key(claim: &str) -> Key {
        ("grove".into(), claim.into())
    }

    #[test]
    fn a_claim_that_is_not_fit_to_be_mounted_is_named() {
        let lost = json!({"spec": {"volumeName": "v-9"}, "status": {"phase": "Lost"}});
        let cluster = classes()
            .claim("lost", lost)
            .claim("going", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
            .claim("slow", wish("at-once"));
        let cases = [
            ("none", "persistentvolumeclaim \"none\" not found"),
            ("lost", "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v-9\""),
            ("going", "persistentvolumeclaim \"going\" is being deleted"),
            ("slow", "pod has unbound immediate PersistentVolumeClaims"),
        ];
        for (claim, wanted) in cases {
            let preemption = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
            let said = cluster.says(mounting(&[claim]));
            assert_eq!(said, format!("0/2 nodes are available: {wanted}. {preemption}"));
        }
        let ephemeral = json!({"spec": {"volumes": [{"name": "scratch", "ephemeral": {}}]}});
        let said = cluster.says_first(ephemeral);
        let wanted = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"new-scratch\"";
        assert_eq!(said, format!("0/2 nodes are available: {wanted}."));
    }

    #[test]
    fn a_pod_goes_where_its_volume_is() {
        let cluster = classes().claim("data", bound("v-1")).volume("v-1", local("oak", "1Gi"));
        assert_eq!(cluster.suitable(mounting(&["data"])), "oak");
        let cluster = cluster.node("oak", json!({}), json!({"unschedulable": true}));
        assert_eq!(
            cluster.says_first(mounting(&["data"])),
            "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) were unschedulable."
        );
        let gone = classes().claim("data", bound("v-1"));
        assert_eq!(
            gone.says_first(mounting(&["data"])),
            "0/2 nodes are available: 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
        );
    }

    #[test]
    fn a_claim_that_waits_for_its_pod_gets_a_volume_where_the_pod_goes() {
        let cluster = classes().claim("data", wish("made"));
        let made = ClaimStep::Provision { claim: key("data"), node: "ash".into() };
        assert_eq!(cluster.steps(mounting(&["data"])), [made]);
        let begun = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "oak"}}});
        let begun = cluster.claim("data", {
            let mut claim = wish("made");
            claim["metadata"] = begun["metadata"].clone();
            claim
        });
        assert_eq!(begun.suitable(mounting(&["data"])), "oak", "its volume is being made there");
    }

    #[test]
    fn volumes_that_are_there_are_taken_first_and_the_smallest_of_them() {
        let cluster = classes()
            .claim("data", wish("local"))
            .volume("huge", local("oak", "100Gi"))
            .volume("right", local("oak", "1Gi"))
            .volume("small", local("ash", "1Mi"));
        assert_eq!(cluster.suitable(mounting(&["data"])), "oak");
        assert_eq!(
            cluster.steps(mounting(&["data"])),
            [ClaimStep::Bind { claim: key("data"), volume: "right".into() }]
        );
        let nothing = classes().claim("data", wish("local"));
        let wanted = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
        assert_eq!(nothing.says_first(mounting(&["data"])), wanted);
    }

    #[test]
    fn two_pods_do_not_take_one_volume() {
        let mut cluster =
            classes().claim("one", wish("local")).claim("two", wish("local")).volume("only", local("oak", "1Gi"));
        let steps = cluster.steps(mounting(&["one"]));
        assert_eq!(cluster.suitable(mounting(&["one", "two"])), "", "nor does one pod take it twice");
        cluster.0.assume(&pod("first", mounting(&["one"])), "oak", &steps);
        assert_eq!(cluster.suitable(mounting(&["two"])), "");
        assert_eq!(cluster.suitable(mounting(&["one"])), "oak", "the claim has been promised it");
        cluster.0.forget("first");
        assert_eq!(cluster.suitable(mounting(&["two"])), "oak");
    }

    #[test]
    fn a_second_pod_of_a_claim_follows_the_first_before_the_api_shows_where() {
        let mut cluster = classes().claim("data", wish("made"));
        let step = ClaimStep::Provision { claim: key("data"), node: "oak".into() };
        cluster.0.assume(&pod("first", mounting(&["data"])), "oak", &[step]);
        assert_eq!(cluster.suitable(mounting(&["data"])), "oak");
    }

    #[test]
    fn a_claim_for_one_pod_is_mounted_by_one() {
        let mut claim = bound("v-1");
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        let cluster = classes().claim("data", claim).volume("v-1", json!({})).pod("ash", "first", mounting(&["data"]));
        let wanted = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
        assert_eq!(cluster.says_first(mounting(&["data"])), format!("0/2 nodes are available: 2 {wanted}."));
    }

    #[test]
    fn a_class_is_made_only_in_its_topologies_and_a_volume_reached_only_from_its_zone() {
        let zone = "topology.kubernetes.io/zone";
        let topologies = json!([{"matchLabelExpressions": [{"key": zone, "values": ["north"]}]}]);
        let cluster = Cluster::default()
            .node("ash", json!({zone: "south"}), json!({}))
            .node("oak", json!({zone: "north"}), json!({}))
            .class("made", json!({"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies}))
            .claim("new", wish("made"))
            .claim("old", bound("v-1"))
            .volume("v-1", json!({"metadata": {"labels": {zone: "south__east"}}}));
        assert_eq!(cluster.suitable(mounting(&["new"])), "oak");
        assert_eq!(cluster.suitable(mounting(&["old"])), "ash");
    }
}

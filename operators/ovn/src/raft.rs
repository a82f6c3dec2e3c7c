//! What the members of a database do next, from what they say. Nothing here talks to anything.
//!
//! A Raft cluster is founded once: by member 0, while the status knows no cluster id and no member that may have data is silent.
//! The id is written to the status before any other member is started. From then on a member without data only ever joins the
//! cluster with that id, through members that have data, after the leader has removed what it was known as before.

use c5c3_kit::{Ref, Wait};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::layout::{Database, Layout, known};
use crate::remote::{Seen, Server, State, What};

/// What is known of a database.
pub(crate) struct Situation<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) database: Database,
    /// The id in the status.
    pub(crate) cluster_id: Option<&'a str>,
    /// The replicas of the StatefulSet, if there is one.
    pub(crate) live: Option<usize>,
    /// The members by ordinal: those that are wanted and those that are live.
    pub(crate) members: Vec<Seen>,
}

/// What is to happen.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The replicas of the StatefulSet.
    pub(crate) replicas: usize,
    /// The id for the status.
    pub(crate) cluster_id: Option<String>,
    /// The pod that leads.
    pub(crate) leader: Option<String>,
    /// How many members the leader knows, and how many take part.
    pub(crate) members: Option<usize>,
    pub(crate) ready: usize,
    /// Orders: the pod, what it is told, and why.
    pub(crate) orders: Vec<(String, What, String)>,
    /// What is waited for while there are no orders.
    pub(crate) waits: Vec<Wait>,
}

impl Decision {
    /// The status of the database.
    pub(crate) fn status(&self) -> Value {
        known(&[
            ("clusterId", json!(self.cluster_id)),
            ("leader", json!(self.leader)),
            ("members", json!(self.members)),
            ("readyMembers", json!(self.ready)),
        ])
    }
}

impl Situation<'_> {
    fn pod(&self, ordinal: usize) -> String {
        self.layout.pod(self.database, ordinal)
    }

    fn address(&self, ordinal: usize) -> String {
        self.layout.raft_address(self.database, ordinal)
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.layout.database(self.database).replicas.get()).unwrap_or(1)
    }

    fn state(&self, ordinal: usize) -> Option<&State> {
        match self.members.get(ordinal)? {
            Seen::State(state) => Some(state),
            Seen::Absent | Seen::Silent(_) => None,
        }
    }

    /// What is waited for of a pod.
    fn wait(&self, ordinal: usize, condition: &str) -> Wait {
        let (pod, namespace) = (self.pod(ordinal), &self.layout.namespace);
        let now = match self.members.get(ordinal) {
            None | Some(Seen::Absent) => "does not exist".to_owned(),
            Some(Seen::Silent(why)) => format!("does not answer: {why}"),
            Some(Seen::State(state)) if !state.data => "has no data yet".to_owned(),
            Some(Seen::State(state)) if state.status.is_empty() => {
                "has data, and its server does not answer".to_owned()
            }
            Some(Seen::State(state)) => format!("is {}, its leader is {}", state.status, state.leader),
        };
        Wait::on(&Ref::namespaced::<Pod>(namespace, &pod)).condition(condition).now(now).look_at(format!(
            "kubectl describe pod {pod} -n {namespace}; kubectl logs {pod} -n {namespace} --all-containers"
        ))
    }

    fn stuck(&self, now: String, remedy: &str, reason: &'static str) -> Wait {
        let set = Ref::namespaced::<StatefulSet>(&self.layout.namespace, self.layout.named(self.database.short()));
        Wait::on(&set).condition("is one Raft cluster").now(now).look_at(remedy).failed(reason)
    }

    /// What is to happen next.
    pub(crate) fn decide(&self) -> Decision {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for ordinal in 0..self.members.len() {
            let state = self.state(ordinal).filter(|state| state.data && !state.left);
            if let Some(cid) = state.and_then(|state| state.cid.as_deref()) {
                found.push((ordinal, cid));
            }
        }
        let Some(id) = self.cluster_id.or(found.first().map(|(_, cid)| *cid)) else { return self.found() };
        let ready =
            (0..self.members.len()).filter(|ordinal| self.state(*ordinal).is_some_and(State::is_member)).count();
        let decision = Decision { cluster_id: Some(id.to_owned()), ready, ..Decision::default() };
        if let Some((ordinal, other)) = found.iter().find(|(_, cid)| *cid != id) {
            let now = format!("{} has data of another Raft cluster, {other} instead of {id}", self.pod(*ordinal));
            let remedy = "find out which of the two has the networks; delete the claim and the pod of a member that has not, and it \
                          joins";
            let waits = vec![self.stuck(now, remedy, "SeveralClusters")];
            return Decision { replicas: self.live.unwrap_or(1), waits, ..decision };
        }
        if self.cluster_id.is_none() {
            // The next reconcile reads it from the status. Until then nobody joins.
            let recorded = self
                .wait(0, "has its cluster id in the status")
                .now("has founded a Raft cluster, whose id is being recorded");
            return Decision { replicas: self.live.unwrap_or(1), waits: vec![recorded], ..decision };
        }
        self.lead(id, decision)
    }

    /// No cluster is known: one is founded, unless a member that may have data does not say so.
    fn found(&self) -> Decision {
        let replicas = self.live.unwrap_or(1).max(1);
        let decision = Decision { replicas, ..Decision::default() };
        let unknown = (0..replicas).filter(|ordinal| self.state(*ordinal).is_none());
        let waits: Vec<Wait> = unknown.map(|ordinal| self.wait(ordinal, "says whether it has data")).collect();
        if !waits.is_empty() {
            return Decision { waits, ..decision };
        }
        if self.state(0).is_some_and(|state| state.data) {
            // It has left, or its data is not readable yet.
            return Decision { waits: vec![self.wait(0, "knows its cluster")], ..decision };
        }
        let orders = vec![(self.pod(0), What::Create, "no cluster id is known, and no member has data".to_owned())];
        Decision { orders, ..decision }
    }

    /// The cluster is known: members join, leave, and are removed by the leader.
    fn lead(&self, id: &str, decision: Decision) -> Decision {
        let live = self.live.unwrap_or_else(|| self.wanted());
        let leader = (0..self.members.len()).find(|ordinal| self.state(*ordinal).is_some_and(State::is_leader));
        let Some((leader, state)) = leader.and_then(|leader| Some((leader, self.state(leader)?))) else {
            return Decision { replicas: live.max(self.wanted()), waits: self.leaderless(id), ..decision };
        };
        let decision = Decision { leader: Some(self.pod(leader)), members: Some(state.servers.len()), ..decision };
        if live > self.wanted() {
            return self.shrink(live, leader, state, decision);
        }
        let replicas = self.wanted();
        let by_leader = |server: &Server, why: String| {
            let what = What::Kick { sid: server.sid.clone(), address: server.address.clone() };
            (self.pod(leader), what, why)
        };
        // One at a time: each is a change of who votes.
        let stale = state.servers.iter().find_map(|server| Some(by_leader(server, self.stale(server, replicas)?)));
        if let Some(order) = stale {
            return Decision { replicas, orders: vec![order], ..decision };
        }
        let orders: Vec<_> = (0..replicas).filter_map(|ordinal| self.join(id, ordinal, leader, state)).collect();
        if !orders.is_empty() {
            return Decision { replicas, orders, ..decision };
        }
        let taking_part = |ordinal: &usize| self.state(*ordinal).is_some_and(State::is_member);
        let waits: Vec<Wait> = (0..replicas)
            .filter(|ordinal| !taking_part(ordinal))
            .map(|ordinal| self.wait(ordinal, "is in the Raft cluster"))
            .collect();
        // Raft addresses name the protocol: after TLS was switched, members leave and join again one by one.
        let moved = (0..replicas)
            .find(|ordinal| self.state(*ordinal).is_some_and(|state| state.address != self.address(*ordinal)));
        if let (Some(ordinal), true, true) = (moved, waits.is_empty(), replicas > 1) {
            let why = format!(
                "it is known as {}, and joins again as {}",
                self.state(ordinal).map_or("", |state| state.address.as_str()),
                self.address(ordinal)
            );
            return Decision { replicas, orders: vec![(self.pod(ordinal), What::Leave, why)], ..decision };
        }
        Decision { replicas, waits, ..decision }
    }

    fn leaderless(&self, id: &str) -> Vec<Wait> {
        let all_empty = !self.members.is_empty()
            && (0..self.members.len()).all(|ordinal| self.state(ordinal).is_some_and(|state| !state.data));
        if all_empty {
            let now = format!("no member has data of the Raft cluster {id}");
            let remedy = "restore the claim of one member from a backup; or, if the networks may be lost, delete the OVNCluster and \
                          create it again";
            return vec![self.stuck(now, remedy, "DataLost")];
        }
        let taking_part = |ordinal: &usize| self.state(*ordinal).is_some_and(State::is_member);
        let waits: Vec<Wait> = (0..self.members.len())
            .filter(|ordinal| !taking_part(ordinal))
            .map(|ordinal| self.wait(ordinal, "is in the Raft cluster"))
            .collect();
        if waits.is_empty() { vec![self.wait(0, "knows the leader").now("does not say who leads")] } else { waits }
    }

    /// Why the leader must remove a member that it knows; none if it is as it should be.
    fn stale(&self, server: &Server, replicas: usize) -> Option<String> {
        let same_host = |ordinal: &usize| host(&self.address(*ordinal)) == host(&server.address);
        let Some(ordinal) = (0..self.members.len().max(replicas)).find(same_host) else {
            return Some("no pod has that name any more".to_owned());
        };
        if ordinal >= replicas {
            return matches!(self.members.get(ordinal), Some(Seen::Absent))
                .then(|| format!("there is no pod {}", self.pod(ordinal)));
        }
        let state = self.state(ordinal)?;
        match &state.sid {
            _ if !state.data || state.left => {
                Some(format!("{} has lost its data, and joins as a new member", self.pod(ordinal)))
            }
            Some(sid) if *sid != server.sid => Some(format!("{} is the member {sid} now", self.pod(ordinal))),
            _ => None,
        }
    }

    /// The order to join, for a member that the leader does not know.
    fn join(&self, id: &str, ordinal: usize, leader: usize, leading: &State) -> Option<(String, What, String)> {
        let state = self.state(ordinal).filter(|state| ordinal != leader && !state.joining)?;
        let is_known = state.sid.as_ref().is_some_and(|sid| leading.servers.iter().any(|server| server.sid == *sid));
        if state.data && !state.left && is_known {
            return None;
        }
        let remotes = leading.servers.iter().map(|server| server.address.clone()).collect();
        let replace = state.data && !state.left;
        let why = if replace { "the cluster has removed it" } else { "it has no data" }.to_owned();
        Some((self.pod(ordinal), What::Join { cid: id.to_owned(), remotes, replace }, why))
    }

    /// The last member leaves before its pod goes.
    fn shrink(&self, live: usize, leader: usize, leading: &State, decision: Decision) -> Decision {
        let last = live - 1;
        let known = leading.servers.iter().find(|server| host(&server.address) == host(&self.address(last)));
        let why = format!("{} members are wanted", self.wanted());
        let Some(server) = known else {
            return Decision { replicas: last, waits: vec![self.leaving(last)], ..decision };
        };
        let order = match self.state(last) {
            Some(state) if state.left => {
                return Decision { replicas: live, waits: vec![self.leaving(last)], ..decision };
            }
            Some(state) if !state.status.is_empty() => (self.pod(last), What::Leave, why),
            _ => {
                let what = What::Kick { sid: server.sid.clone(), address: server.address.clone() };
                (self.pod(leader), what, format!("{why}, and {} does not answer", self.pod(last)))
            }
        };
        Decision { replicas: live, orders: vec![order], ..decision }
    }

    fn leaving(&self, ordinal: usize) -> Wait {
        self.wait(ordinal, "is deleted")
            .now("is on its way out")
            .because(format!("{} members are wanted", self.wanted()))
    }
}

/// The host of an address such as `tcp:host:6643`.
fn host(address: &str) -> &str {
    address.split_once(':').map_or(address, |(_, rest)| rest)
}

//! What all workers of a node share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use c5c3_cri::Runtime;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::reflector::Store;

use crate::admission::{self, HostPort, Room};
use crate::config::NodeConfig;
use crate::cri_config::resources::{Amounts, requests};
use crate::directory::Directory;
use crate::environment::fields::NodeFacts;
use crate::folders::Folders;
use crate::machine::Machine;
use crate::memory::Verdict;
use crate::pod::Pod;
use crate::references::References;
use crate::upkeep::archives::Archives;
use crate::voice::Voice;

pub(crate) struct Node {
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    pub(crate) config: NodeConfig,
    pub(crate) machine: Machine,
    pub(crate) facts: NodeFacts,
    pub(crate) folders: Folders,
    pub(crate) references: References,
    pub(crate) services: Store<Service>,
    pub(crate) voice: Voice,
    pub(crate) directory: Directory,
    pub(crate) archives: Archives,
    /// What the pods that run here have, by uid.
    admitted: Mutex<HashMap<String, Taken>>,
}

/// What a pod has of a node.
struct Taken {
    amounts: Amounts,
    ports: Vec<HostPort>,
}

impl Node {
    pub(crate) fn new(
        client: Client,
        runtime: Runtime,
        config: NodeConfig,
        services: Store<Service>,
        voice: Voice,
    ) -> Self {
        let machine = Machine::read(config.site.data(), config.capacity);
        let facts = NodeFacts {
            name: config.name().to_owned(),
            address: config.address.to_string(),
            milli_cpu: machine.milli_cpu,
            memory: machine.allocatable_memory(),
            storage: machine.storage,
        };
        Self {
            folders: Folders::new(config.site.data()),
            references: References::new(client.clone()),
            directory: Directory::default(),
            archives: Archives::default(),
            admitted: Mutex::default(),
            client,
            runtime,
            config,
            machine,
            facts,
            services,
            voice,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.config.name()
    }

    /// Makes room for a pod, or says why there is none. A pod that has started before is not asked again.
    pub(crate) fn admit(&self, pod: &Pod) -> Option<Verdict> {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || admitted.iter().filter(|(uid, _)| *uid != pod.uid()).map(|(_, taken)| taken);
        let add = |sum: Amounts, one: &Taken| sum.combine(one.amounts, i64::saturating_add);
        let room = Room {
            capacity: Amounts { cpu: Some(self.facts.milli_cpu), memory: Some(self.facts.memory) },
            used: others().fold(Amounts::default(), add),
            ports: others().flat_map(|taken| taken.ports.iter().cloned()).collect(),
            pods: others().count(),
            max_pods: usize::try_from(self.config.max_pods).unwrap_or(usize::MAX),
        };
        let has_started = pod.status().is_some_and(|status| status.start_time.is_some());
        let refusal = admission::refusal(pod, &room, &self.config.unsafe_sysctls).filter(|_| !has_started);
        if refusal.is_none() {
            let taken = Taken { amounts: requests(pod), ports: admission::host_ports(pod) };
            admitted.insert(pod.uid().to_owned(), taken);
        }
        refusal
    }

    /// A pod that is over needs no room.
    pub(crate) fn discharge(&self, uid: &str) {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

//! Nova and Placement, and the nodes of the cluster, as a remote: what can be asked, and what can be told.

mod asking;
mod deed;
mod lists;
mod nodes;
pub(crate) mod nova;
mod performing;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use c5c3_kit::KindRef;
use c5c3_kit::remote::{Class, Failure};
use c5c3_openstack::{Client, Clients, Error};
use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use deed::{Deed, Order};
use lists::{Aggregates, Lists};
use nova::{Compute, Migration, Server, Service, Traits};

use crate::settings::Settings;
use c5c3_openstack::Access;

/// A question, and the credential it is asked with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) access: Access,
    pub(crate) ask: Ask,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// The service, the hypervisor and the aggregates of a host.
    Host(String),
    /// The servers on a host, the migrations from and to it, and where they could go; with what Nova did not accept of the drain
    /// with that uid.
    Guests { host: String, drain: String },
    /// The traits of a resource provider.
    Traits(String),
    /// What holds resources of a provider, and is no server any more.
    Consumers(String),
    /// The smoke servers of that name, and what is on their consoles.
    Smoke(String),
    /// The pods of agents on a node that do not tolerate the taint.
    Agents(String),
    /// The bridges of Open vSwitch on a node.
    Bridges(String),
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ask {
            Ask::Host(host) => write!(f, "the compute service of {host}"),
            Ask::Guests { host, .. } => write!(f, "the servers on {host}"),
            Ask::Traits(id) => write!(f, "the traits of resource provider {id}"),
            Ask::Consumers(id) => write!(f, "the allocations of resource provider {id}"),
            Ask::Smoke(name) => write!(f, "the server {name}"),
            Ask::Agents(node) => write!(f, "the agents' pods on node {node}"),
            Ask::Bridges(node) => write!(f, "the bridges of Open vSwitch on node {node}"),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Host(HostSeen),
    Guests(Guests),
    /// None if there is no such provider.
    Traits(Option<Traits>),
    /// None if there is no such provider.
    Consumers(Option<Consumers>),
    Smoke(Vec<Booted>),
    Agents(Agents),
    /// None if no agent has reported.
    Bridges(Option<Vec<String>>),
}

/// A host in Nova.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSeen {
    pub(crate) service: Option<Service>,
    pub(crate) compute: Option<Compute>,
    pub(crate) aggregates: Aggregates,
}

/// The servers on a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guests {
    pub(crate) servers: Vec<Server>,
    /// From and to the host.
    pub(crate) migrations: Vec<Migration>,
    /// Why the last migration of a server failed, by the id of the server.
    pub(crate) errors: HashMap<String, String>,
    /// What Nova did not accept, by the id of the server.
    pub(crate) rejections: HashMap<String, Rejection>,
    /// How many other hosts take servers.
    pub(crate) destinations: usize,
}

/// Calls that Nova did not accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) times: i32,
    pub(crate) message: String,
}

/// Who holds resources of a provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumers {
    /// Servers that exist.
    pub(crate) servers: Vec<String>,
    /// Those of which Nova knows no server.
    pub(crate) orphans: Vec<String>,
}

/// A node, and the pods of agents on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents {
    /// Those that do not tolerate the taint, and have not ended.
    pub(crate) pods: Vec<String>,
    /// Whether the node has the taint.
    pub(crate) tainted: bool,
    /// Whether there is no such node.
    pub(crate) gone: bool,
}

/// A smoke server.
#[derive(Clone, Debug)]
pub(crate) struct Booted {
    pub(crate) server: Server,
    /// The end of its console, if it is active.
    pub(crate) console: Option<String>,
}

/// The remote.
pub(crate) struct Cloud {
    clients: Clients,
    lists: Lists,
    settings: Settings,
    cluster: Mutex<Option<kube::Client>>,
    /// By the uid of the drain and the id of the server. Nova keeps no record of what it did not accept.
    rejections: Mutex<HashMap<(String, String), Rejection>>,
}

/// What is done with the cluster's API.
pub(crate) fn rights() -> Vec<(KindRef, &'static str, &'static [&'static str])> {
    // Granted in all namespaces: these are in that of their agent, whichever namespace the operator looks after.
    let switches = KindRef { namespaced: false, ..KindRef::of::<c5c3_api::ovs::OVSNode>() };
    vec![
        (KindRef::of::<Node>(), "", &["get", "patch"]),
        (KindRef::of::<Pod>(), "", &["list"]),
        (switches, "", &["get"]),
    ]
}

impl Cloud {
    pub(crate) fn new(clients: Clients, settings: Settings) -> Self {
        let lists = Lists::new(settings.shared);
        Self { clients, lists, settings, cluster: Mutex::default(), rejections: Mutex::default() }
    }

    /// Takes this client for what is asked of the cluster.
    pub(crate) fn connect(&self, client: &kube::Client) {
        *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
    }

    fn cluster(&self) -> Result<kube::Client, Failure> {
        let client = self.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.ok_or_else(|| Failure::new(Class::Unreachable, "NotConnected", "the operator has not started yet"))
    }

    fn client(&self, access: &Access) -> Result<Client, Failure> {
        let client = self.clients.client(access);
        client.map_err(|error| Failure::new(Class::Refused, "InvalidCloud", error.to_string()))
    }
}

/// What is to be done about an error of Nova or Placement. A conflict passes: another request works on the same thing.
fn failed(error: &Error) -> Failure {
    let class = match error {
        Error::Unavailable(_) | Error::TooManyRequests(_) | Error::NoEndpoint(_) => Class::Unreachable,
        Error::Unauthorized(_) | Error::Forbidden(_) => Class::Unauthorized,
        _ => Class::Refused,
    };
    Failure::new(class, error.reason(), error.to_string()).retry_after(error.failure().retry_after)
}

impl c5c3_kit::Remote for Cloud {
    type Question = Question;
    type Answer = Answer;
    type Action = Order;
    const NAME: &'static str = "nova";

    async fn ask(&self, question: &Question) -> Result<Answer, Failure> {
        let Question { access, ask } = question;
        match ask {
            Ask::Agents(node) => return self.agents(node).await.map(Answer::Agents),
            Ask::Bridges(node) => return self.bridges(node).await.map(Answer::Bridges),
            _ => {}
        }
        let client = self.client(access)?;
        let answered = match ask {
            Ask::Host(host) => self.host(access, &client, host).await.map(Answer::Host),
            Ask::Guests { host, drain } => self.guests(access, &client, host, drain).await.map(Answer::Guests),
            Ask::Traits(id) => asking::traits(&client, id).await.map(Answer::Traits),
            Ask::Consumers(id) => asking::consumers(&client, id).await.map(Answer::Consumers),
            Ask::Smoke(name) => asking::smoke(&client, name).await.map(Answer::Smoke),
            Ask::Agents(_) | Ask::Bridges(_) => unreachable!("answered above"),
        };
        answered.map_err(|error| failed(&error))
    }

    async fn perform(&self, order: &Order) -> Result<(), Failure> {
        self.carry_out(order).await
    }
}

//! The members of databases, reached through the API server: what they are asked, and what they are told to do.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use c5c3_api::ovn::{OVNChassis, OVNChassisSpec};
use c5c3_kit::KindRef;
use c5c3_kit::remote::{Action, Class, Failure, Remote, Verb};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a member may take to answer; one that takes longer is silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// The header that an order's token is in. `Authorization` is the API server's.
const TOKEN: &str = "X-Ovn-Token";

/// The resource of nodes that may open `/dev/net/tun`.
pub(crate) const TUN: &str = "devices.kubevirt.io/tun";

/// Where a member takes questions and orders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Door {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) port: i32,
    pub(crate) tls: bool,
}

impl Door {
    fn url(&self, path: &str) -> String {
        let Self { namespace, pod, port, tls } = self;
        let scheme = if *tls { "https:" } else { "" };
        format!("/api/v1/namespaces/{namespace}/pods/{scheme}{pod}:{port}/proxy{path}")
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// How a member is.
    Member(Door),
    /// The chassis that a southbound member knows: the one of that name, or all.
    Chassis(Door, Option<String>),
    /// The nodes with these labels, and the OVNChassis of the namespace.
    Nodes { namespace: String, labels: BTreeMap<String, String> },
    /// Whether a pod with these labels is on a node.
    Daemon { namespace: String, labels: BTreeMap<String, String>, node: String },
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(door) => write!(f, "the state of {}", door.pod),
            Self::Chassis(door, Some(name)) => write!(f, "the chassis {name} in {}", door.pod),
            Self::Chassis(door, None) => write!(f, "all chassis in {}", door.pod),
            Self::Nodes { labels, .. } => write!(f, "the nodes with the labels {}", selector(labels)),
            Self::Daemon { node, .. } => write!(f, "the ovn-controller on node {node}"),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Member(Seen),
    Chassis(Vec<Row>),
    Nodes(Nodes),
    Daemon(bool),
}

/// What is known of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There is no such pod.
    Absent,
    /// The pod does not answer, and this is why.
    Silent(String),
    /// What it says.
    State(State),
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// Whether it has data.
    pub(crate) data: bool,
    /// Whether it has left its cluster, with which its data is of no use any more.
    pub(crate) left: bool,
    /// Whether it was told to join a moment ago.
    pub(crate) joining: bool,
    /// Id of its cluster.
    pub(crate) cid: Option<String>,
    /// The first digits of its own id.
    pub(crate) sid: Option<String>,
    /// What it is known by.
    pub(crate) address: String,
    pub(crate) status: String,
    pub(crate) role: String,
    pub(crate) leader: String,
    pub(crate) servers: Vec<Server>,
}

/// A member as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Server {
    pub(crate) sid: String,
    pub(crate) address: String,
}

impl State {
    /// Whether it takes part, and knows a leader.
    pub(crate) fn is_member(&self) -> bool {
        self.status == "cluster member" && !matches!(self.leader.as_str(), "" | "unknown")
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.is_member() && self.role == "leader"
    }
}

/// A chassis in the southbound database.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Its datapath, `system` or `netdev`.
    #[serde(default)]
    pub(crate) datapath: String,
    /// When it last caught up with the database, in milliseconds since 1970; 0 if never.
    #[serde(default)]
    pub(crate) heartbeat: i64,
}

/// Nodes for hypervisors, and what is known of their chassis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<NodeSeen>,
    /// All OVNChassis of the namespace.
    pub(crate) chassis: BTreeMap<String, OVNChassisSpec>,
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct NodeSeen {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Its address; none before its kubelet has told it.
    pub(crate) address: Option<IpAddr>,
    /// Whether pods on it may ask for `/dev/net/tun`.
    pub(crate) has_tun: bool,
}

/// An order to a member.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) door: Door,
    pub(crate) token: SecretString,
    pub(crate) what: What,
}

/// What a member is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Found a Raft cluster.
    Create,
    /// Join the cluster with this id through these members. With `replace` in the place of data that it has.
    Join { cid: String, remotes: Vec<String>, replace: bool },
    /// Leave the cluster.
    Leave,
    /// Remove another member, as the leader.
    Kick { sid: String, address: String },
    /// Delete a chassis from the southbound database.
    DeleteChassis { name: String },
}

impl What {
    fn path(&self) -> &'static str {
        match self {
            Self::Create => "/create",
            Self::Join { .. } => "/join",
            Self::Leave => "/leave",
            Self::Kick { .. } => "/kick",
            Self::DeleteChassis { .. } => "/delete-chassis",
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::Create | Self::Leave => json!({}),
            Self::Join { cid, remotes, replace } => json!({"cid": cid, "remotes": remotes, "replace": replace}),
            Self::Kick { sid, .. } => json!({ "sid": sid }),
            Self::DeleteChassis { name } => json!({ "name": name }),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pod = &self.door.pod;
        match &self.what {
            What::Create => write!(f, "found a Raft cluster on {pod}"),
            What::Join { cid, replace: false, .. } => write!(f, "join {pod} to the Raft cluster {cid}"),
            What::Join { cid, replace: true, .. } => {
                write!(f, "discard the data of {pod} and join it to the Raft cluster {cid}")
            }
            What::Leave => write!(f, "remove {pod} from its Raft cluster"),
            What::Kick { sid, address } => write!(f, "remove the Raft member {sid} ({address}) by the leader {pod}"),
            What::DeleteChassis { name } => write!(f, "delete the chassis {name}"),
        }
    }
}

impl Action for Order {
    fn verb(&self) -> Verb {
        match self.what {
            What::Create | What::Join { .. } => Verb::Create,
            What::Leave | What::Kick { .. } | What::DeleteChassis { .. } => Verb::Delete,
        }
    }
}

/// The members of all databases, and the nodes of the cluster.
pub(crate) struct Members {
    client: Client,
}

/// What is done with the client.
pub(crate) fn rights() -> Vec<(KindRef, &'static str, &'static [&'static str])> {
    vec![
        (KindRef::of::<Pod>(), "/proxy", &["get", "create"]),
        (KindRef::of::<Pod>(), "", &["list"]),
        (KindRef::of::<Node>(), "", &["list"]),
        (KindRef::of::<OVNChassis>(), "", &["list"]),
    ]
}

impl Members {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    async fn get<T: DeserializeOwned>(&self, door: &Door, path: &str) -> Result<T, kube::Error> {
        let request = http::Request::get(door.url(path)).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let text = self.client.request_text(request).await?;
        serde_json::from_str(&text).map_err(kube::Error::SerdeError)
    }

    async fn member(&self, door: &Door) -> Result<Seen, Failure> {
        match tokio::time::timeout(PATIENCE, self.get(door, "/state")).await {
            Ok(Ok(state)) => Ok(Seen::State(state)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(Seen::Absent),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(Failure::new(Class::Unauthorized, "Forbidden", status.message))
            }
            Ok(Err(kube::Error::Api(status))) => Ok(Seen::Silent(status.message)),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Ok(Seen::Silent(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    async fn chassis(&self, door: &Door, name: Option<&str>) -> Result<Vec<Row>, Failure> {
        let path = name.map_or_else(|| "/chassis".to_owned(), |name| format!("/chassis?name={name}"));
        self.get(door, &path).await.map_err(|error| failure(&error))
    }

    async fn nodes(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Result<Nodes, Failure> {
        let listed = Api::<Node>::all(self.client.clone()).list(&ListParams::default().labels(&selector(labels))).await;
        let nodes = listed.map_err(|error| failure(&error))?.into_iter().map(|node| {
            let has_tun = node
                .status
                .iter()
                .flat_map(|status| status.allocatable.iter())
                .any(|all| all.get(TUN).is_some_and(|count| count.0 != "0"));
            NodeSeen {
                name: node.name_any(),
                uid: node.uid().unwrap_or_default(),
                address: internal_address(&node),
                has_tun,
            }
        });
        let all = Api::<OVNChassis>::namespaced(self.client.clone(), namespace).list(&ListParams::default()).await;
        let chassis = all.map_err(|error| failure(&error))?.into_iter();
        let chassis = chassis.filter(|chassis| chassis.metadata.deletion_timestamp.is_none());
        Ok(Nodes {
            nodes: nodes.collect(),
            chassis: chassis.map(|chassis| (chassis.name_any(), chassis.spec)).collect(),
        })
    }

    async fn daemon(&self, namespace: &str, labels: &BTreeMap<String, String>, node: &str) -> Result<bool, Failure> {
        let params = ListParams::default().labels(&selector(labels)).fields(&format!("spec.nodeName={node}"));
        let listed = Api::<Pod>::namespaced(self.client.clone(), namespace).list(&params).await;
        Ok(!listed.map_err(|error| failure(&error))?.items.is_empty())
    }
}

impl Remote for Members {
    type Question = Ask;
    type Answer = Told;
    type Action = Order;
    const NAME: &'static str = "ovn";

    async fn ask(&self, question: &Ask) -> Result<Told, Failure> {
        match question {
            Ask::Member(door) => self.member(door).await.map(Told::Member),
            Ask::Chassis(door, name) => self.chassis(door, name.as_deref()).await.map(Told::Chassis),
            Ask::Nodes { namespace, labels } => self.nodes(namespace, labels).await.map(Told::Nodes),
            Ask::Daemon { namespace, labels, node } => self.daemon(namespace, labels, node).await.map(Told::Daemon),
        }
    }

    async fn perform(&self, order: &Order) -> Result<(), Failure> {
        let request = http::Request::post(order.door.url(order.what.path()))
            .header(TOKEN, order.token.expose_secret())
            .header("Content-Type", "application/json")
            .body(order.what.body().to_string().into_bytes());
        let request = request.map_err(|error| Failure::new(Class::Terminal, "Malformed", error.to_string()))?;
        self.client.request_text(request).await.map(drop).map_err(|error| failure(&error))
    }
}

fn internal_address(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.filter(|address| address.type_ == "InternalIP").find_map(|address| address.address.parse().ok())
}

/// Labels as a selector.
pub(crate) fn selector(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn failure(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => {
            let class = match status.code {
                401 | 403 => Class::Unauthorized,
                409 => Class::Refused,
                _ => Class::Unreachable,
            };
            Failure::new(class, "Answered", status.message.clone())
        }
        other => Failure::new(Class::Unreachable, "Unreachable", other.to_string()),
    }
}

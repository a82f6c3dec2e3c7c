//! Arguments of the commands that operators, their kinds and an API server by itself have.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use c5c3_operator_labels_injector::Labels;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use ipnet::IpNet;

use super::TargetArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct CrdsArgs {
    /// Leave out the kinds of an API group, such as openstack.k-orc.cloud; may be repeated
    #[arg(long, value_name = "GROUP", value_parser = clap::builder::PossibleValuesParser::new(crate::crds::groups()))]
    pub(crate) without: Vec<String>,
    /// Write a file per kind into this folder instead of printing; files of kinds that are gone are removed
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManifestsArgs {
    /// Write a file per operator into this folder instead of printing; files of operators that are gone are removed
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// The namespace that is looked after, which must be there
    #[arg(long, default_value = "openstack", conflicts_with = "all_namespaces")]
    pub(crate) namespace: String,
    /// Look after all namespaces; the operators may then read every Secret of the cluster
    #[arg(long)]
    pub(crate) all_namespaces: bool,
    /// Let the API server ask the operators about their objects: needs cert-manager
    #[arg(long)]
    pub(crate) webhooks: bool,
    /// Add a ServiceMonitor for each operator: needs the Prometheus operator
    #[arg(long)]
    pub(crate) monitoring: bool,
    #[command(flatten)]
    pub(crate) places: super::hypervisor::PlaceArgs,
}

/// Where generated files are written
#[derive(Debug, ClapArgs)]
pub(crate) struct FolderArgs {
    /// The folder; what an earlier version generated there and this one does not is removed
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReferenceArgs {
    /// The folder; pages of kinds that are gone are removed
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ValidateArgs {
    /// A file, a folder (all .yaml, .yml and .json files below it), or - for standard input; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required_unless_present = "paths")]
    pub(crate) files: Vec<PathBuf>,
    /// The same, without -f
    #[arg(value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// The objects as they are now: also checks that they may be changed into the new ones
    #[arg(long, value_name = "FILE")]
    pub(crate) old: Option<PathBuf>,
    /// Skip kinds of other projects instead of refusing them
    #[arg(long)]
    pub(crate) ignore_foreign: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApiserverArgs {
    /// Where objects, keys and certificates are kept
    #[arg(long, value_name = "DIR", required_unless_present = "in_memory", conflicts_with = "in_memory")]
    pub(crate) data: Option<PathBuf>,
    /// Keep everything in memory, and lose it at the end
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    /// The address at which pods reach the server, if it is not the one that it listens on
    #[arg(long, value_name = "IP")]
    pub(crate) advertise: Option<IpAddr>,
    /// The addresses that Services get
    #[arg(long, value_name = "CIDR", default_value = "10.125.0.0/16")]
    pub(crate) service_range: IpNet,
    /// Where an administrator's kubeconfig is written
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// What is logged, such as info or info,c5c3_apiserver=debug
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// Which providers do not run
#[derive(Debug, ClapArgs)]
pub(crate) struct WithoutArgs {
    /// Do not run a provider, nor install its kinds: for the genuine operator in its place. May be repeated
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(c5c3_providers::names()))]
    pub(crate) without_provider: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProvidersArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) without: WithoutArgs,
    /// What is logged
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// How log lines look
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OperatorArgs {
    /// Which operators
    #[arg(required = true, value_parser = clap::builder::PossibleValuesParser::new(crate::operator::names()))]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Look after one namespace only; all of them when absent
    #[arg(long, env = "C5C3_NAMESPACE")]
    namespace: Vec<String>,
    /// How many objects of a kind are reconciled at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    /// Work without asking for the lease: only where no other copy runs
    #[arg(long)]
    no_leader_election: bool,
    /// Namespace of the leases
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub(crate) lease_namespace: String,
    /// Where /healthz, /readyz and /metrics are served; in a pod: its own address
    #[arg(long, default_value = "127.0.0.1:8080")]
    metrics_address: SocketAddr,
    /// Where admission webhooks are served; they are off without certificates
    #[arg(long, default_value = "127.0.0.1:9443", requires = "webhook_certificates")]
    pub(crate) webhook_address: SocketAddr,
    /// Folder with tls.crt and tls.key for the webhooks, as a mounted Secret has them
    #[arg(long, value_name = "DIR")]
    pub(crate) webhook_certificates: Option<PathBuf>,
    /// DNS domain of the cluster, which the host names of Services end in
    #[arg(long, env = "C5C3_CLUSTER_DOMAIN", value_name = "DOMAIN", default_value = c5c3_kit::cluster_domain::DEFAULT,
        value_parser = c5c3_kit::cluster_domain::parse)]
    pub(crate) cluster_domain: String,
    /// Let SecretAggregates read and write Secrets in other namespaces than their own
    #[arg(long, conflicts_with = "namespace")]
    pub(crate) allow_cross_namespace: bool,
    /// Keys of the labels that the labels injector copies from nodes to pods, separated by commas
    #[arg(long, env = "C5C3_INJECT_LABELS", value_name = "KEYS", value_parser = Labels::parse,
        default_value_t = Labels::default())]
    pub(crate) inject_labels: Labels,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged, such as info or info,c5c3_kit=debug
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
    #[command(flatten)]
    pub(crate) hypervisor: super::hypervisor::HypervisorOperatorArgs,
    #[command(flatten)]
    pub(crate) orc: super::orc::OrcOperatorArgs,
}

impl OperatorArgs {
    /// The namespace that is looked after; `None` for all.
    pub(crate) fn only_namespace(&self) -> Result<Option<String>, String> {
        match &self.namespace[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            several => Err(format!(
                "--namespace names {}, and an operator looks after one namespace or all; start one operator for each of them, or \
                 one without the flag",
                several.join(", ")
            )),
        }
    }

    /// Whether the operators ask for their leases.
    pub(crate) fn is_elected(&self) -> bool {
        !self.no_leader_election && !self.orc.upstream.goes_without_lease()
    }

    /// Where /healthz, /readyz and /metrics are served.
    pub(crate) fn serving(&self) -> Vec<SocketAddr> {
        let named = self.orc.upstream.addresses();
        if named.is_empty() { vec![self.metrics_address] } else { named }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) kind: AgentKind,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentKind {
    /// Publish what libvirt says in the node's Hypervisor, and follow migrations in Migration objects
    Node(NodeOptions),
    /// Publish bridges, bonds, flows and what is wrong with them in the node's OVSNode
    Ovs(OvsOptions),
    /// Say where a packet would go through the bridges of this node, without sending one
    #[command(
        after_help = "On a cluster, in the agent's pod of a node; who may, says the right pods/exec in its namespace:\n  \
        kubectl -n ovn-system exec c5c3-agent-ovs-x7k2p -- c5c3 agent trace br-int in_port=1,icmp,nw_dst=10.20.0.5\n\n\
        Exit code 0: it is said. 2: Open vSwitch does not answer, or the packet or the bridge is not known."
    )]
    Trace(TraceOptions),
    /// Write packets of a bridge or a port of this node to standard output, as a pcap file, within bounds
    #[command(
        after_help = "On a cluster, in the agent's pod of a node; who may, says the right pods/exec in its namespace:\n  \
        kubectl -n ovn-system exec c5c3-agent-ovs-x7k2p -- c5c3 agent capture tap0 > tap0.pcap\n  \
        kubectl -n ovn-system exec c5c3-agent-ovs-x7k2p -- c5c3 agent capture br-int --seconds 60 | tcpdump -n -r -\n\n\
        The first bound that is reached ends it. Beyond 5000 packets a second packets are left out; how many there were is said \
        at the end.\n\
        Exit code 0: it ended. 2: Open vSwitch does not answer, there is no such bridge or port, or another capture runs on \
        this node."
    )]
    Capture(CaptureArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CaptureArgs {
    /// The bridge or the port
    #[arg(value_name = "BRIDGE-OR-PORT")]
    pub(crate) target: String,
    /// How many packets at most
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) packets: u32,
    /// How many bytes of packets at most
    #[arg(long, value_name = "COUNT", default_value_t = 10 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) bytes: u64,
    /// How long at most
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    /// How many bytes of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 65535, value_parser = clap::value_parser!(u32).range(14..=65535))]
    pub(crate) snap_length: u32,
    /// The folder of Open vSwitch's sockets
    #[arg(long, value_name = "DIR", default_value = "/run/openvswitch")]
    pub(crate) ovs_run: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceOptions {
    /// The bridge that the packet comes to
    #[arg(value_name = "BRIDGE")]
    pub(crate) bridge: String,
    /// The packet as fields of a flow (ovs-fields(7)), such as in_port=1,tcp,nw_dst=10.20.0.5
    #[arg(value_name = "FLOW")]
    pub(crate) flow: String,
    /// The folder of Open vSwitch's sockets
    #[arg(long, value_name = "DIR", default_value = "/run/openvswitch")]
    pub(crate) ovs_run: PathBuf,
}

/// What all agents take
#[derive(Debug, ClapArgs)]
pub(crate) struct AgentOptions {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The node that the agent is on
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node: String,
    /// Where /healthz, /readyz and /metrics are served; in a pod: its own address
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub(crate) metrics_address: SocketAddr,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged, such as info or info,c5c3_agent_ovs=debug
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NodeOptions {
    #[command(flatten)]
    pub(crate) common: AgentOptions,
    /// The namespace of Migrations
    #[arg(long, default_value = "openstack")]
    pub(crate) namespace: String,
    /// libvirt's socket. Over libvirt-sock-ro domain capabilities are not known
    #[arg(long, value_name = "FILE", default_value = "/run/libvirt/libvirt-sock")]
    pub(crate) libvirt_socket: PathBuf,
    /// The driver of libvirt
    #[arg(long, default_value = "qemu:///system")]
    pub(crate) libvirt_uri: String,
    /// The file in which libvirt's pod says whether instances run with kvm or qemu
    #[arg(long, value_name = "FILE", default_value = "/run/libvirt/c5c3/virt-type")]
    pub(crate) virt_type_file: PathBuf,
    /// The host's os-release
    #[arg(long, value_name = "FILE", default_value = "/etc/os-release")]
    pub(crate) os_release: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OvsOptions {
    #[command(flatten)]
    pub(crate) common: AgentOptions,
    /// The namespace of OVSNodes
    #[arg(long, default_value = "ovn-system")]
    pub(crate) namespace: String,
    /// The folder of Open vSwitch's sockets
    #[arg(long, value_name = "DIR", default_value = "/run/openvswitch")]
    pub(crate) ovs_run: PathBuf,
    /// The control socket of ovn-controller
    #[arg(long, value_name = "FILE", default_value = "/run/ovn/controller.ctl")]
    pub(crate) controller_socket: PathBuf,
}

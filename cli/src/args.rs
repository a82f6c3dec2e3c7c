//! What the command line takes. The help texts teach: each says what a command is for and shows how it is called.

mod cluster;
mod hypervisor;
mod operators;
mod orc;
#[cfg(test)]
mod tests;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use cluster::{CODES, WHICH};
pub(crate) use cluster::{ClusterArgs, Listing, LogsArgs, Output, StatusArgs, TargetArgs, WhyArgs, seconds};
pub(crate) use operators::{
    AgentArgs, AgentKind, AgentOptions, ApiserverArgs, CaptureArgs, CrdsArgs, FolderArgs, LogFormat, ManifestsArgs,
    NodeOptions, OperatorArgs, OvsOptions, ProvidersArgs, ReferenceArgs, TraceOptions, ValidateArgs, WithoutArgs,
};

/// CobaltCore: OpenStack on Kubernetes, in one binary
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, after_help = EXIT)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the exit codes of all commands mean.
const EXIT: &str = "Exit codes, of every command: 0: it is done, or all is as it should be. 1: it was looked, and something is not: \
    not ready, wrong, different, failed. 2: it could not be done: used wrongly, no cluster, not allowed, an error.\n\n\
    Each command that looks at a cluster takes --kubeconfig, --context and -n, and -o where it prints a result. As kubectl-c5c3 in \
    the PATH it is `kubectl c5c3`: ln -s $(command -v c5c3) ~/.local/bin/kubectl-c5c3";

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Command {
    /// Start a cloud on this machine: Kubernetes with real containers, the operators, and a ControlPlane that they bring up
    #[command(after_help = "Try it:\n  c5c3 up --detach\n  eval \"$(c5c3 env)\"\n  openstack token issue\n\n\
        Images are built the first time, and kept. With --bare there is an empty Kubernetes cluster in a second.\n\n\
        In the foreground, Ctrl-C ends the cluster as `c5c3 down` does; its data stays. A cluster whose process was \
        killed is taken over by the next `c5c3 up`, and its containers go on running meanwhile.\n\
        Image archives (OCI or Docker) that are put into DIR/images are imported by every node.")]
    Up(UpArgs),
    /// Stop the cluster, and remove everything that it made on this machine outside its data folder
    #[command(
        after_help = "Examples:\n  c5c3 down            # the data stays: c5c3 up goes on with it\n  c5c3 down --wipe     # nothing stays"
    )]
    Down(DownArgs),
    /// Write the stopped cluster to one file: objects, keys, secrets and volumes, without images
    #[command(after_help = crate::backup::BACKUP_HELP)]
    Backup(crate::backup::BackupArgs),
    /// Bring a cluster back from the file that `c5c3 backup` wrote
    #[command(after_help = crate::backup::RESTORE_HELP)]
    Restore(crate::backup::RestoreArgs),
    /// Print what a shell needs to use the cluster
    #[command(
        after_help = "For sh, bash and zsh:\n  eval \"$(c5c3 env)\"\n\nFor fish:\n  c5c3 env --shell fish | source"
    )]
    Env(EnvArgs),
    /// Show what is running, ready and waited for: every ControlPlane and its parts, on any cluster
    #[command(after_help = format!("Reads lists and nothing else: the ClusterRole `view` is enough.\n\n{WHICH}\n\n{CODES}"))]
    Status(StatusArgs),
    /// Follow what is waited for to its root cause, and say what to do about it
    #[command(after_help = "Examples:\n  c5c3 why                     # every ControlPlane\n  \
        c5c3 why keystone/keystone   # one object\n  c5c3 why ks/keystone         # short names are those of kubectl\n  \
        c5c3 why server/NAME         # why Cortex put a server where it is, by its name or id; volume/ and share/ as well\n\n"
        .to_owned() + WHICH + "\n\n" + CODES)]
    Why(WhyArgs),
    /// Show what the pods of a service write
    #[command(after_help = "Examples:\n  c5c3 logs keystone\n  c5c3 logs mariadb --follow\n  \
        c5c3 logs keystone -c api --since 10m")]
    Logs(LogsArgs),
    /// List every credential of a cloud: whose it is, where it is used, its age, when it rotates and expires
    #[command(after_help = format!("{}\n\n{WHICH}\n\n{}", crate::credentials::LIST_HELP, crate::credentials::LIST_CODES))]
    Credentials(crate::credentials::CredentialsArgs),
    /// Replace application credentials now, without waiting for their schedule
    #[command(after_help = format!("{}\n\n{WHICH}\n\n{}", crate::credentials::ROTATE_HELP, crate::credentials::ROTATE_CODES))]
    Rotate(crate::credentials::RotateArgs),
    /// List the compute hosts: which take servers, which do not, and why
    #[command(after_help = format!("{}\n\n{}", crate::hypervisors::LIST_HELP, crate::hypervisors::LIST_CODES))]
    Hypervisors(crate::hypervisors::HypervisorsArgs),
    /// Move every server off a compute host, and say what cannot leave and why
    #[command(after_help = format!("{}\n\n{}", crate::hypervisors::DRAIN_HELP, crate::hypervisors::DRAIN_CODES))]
    Drain(crate::hypervisors::DrainArgs),
    /// Test a cloud with Tempest now: every service it has, or one of them
    #[command(after_help = format!("{}\n\n{WHICH}\n\n{}", crate::tempest::HELP, crate::tempest::CODES))]
    Test(crate::tempest::TestArgs),
    /// Say what changed objects would do, before they are changed: objects, restarts, migrations, the point of no return
    #[command(after_help = format!("{}\n\n{WHICH}\n\n{}", crate::plan::HELP, crate::plan::CODES))]
    Plan(crate::plan::PlanArgs),
    /// Gather what is needed to help: objects, events, logs, versions, without secrets
    #[command(after_help = format!("{}\n\n{WHICH}\n\n{}", crate::support::HELP, crate::support::CODES))]
    Support(crate::support::SupportArgs),
    /// Check whether this machine can run a cluster, and say what to do if not; changes nothing
    #[command(after_help = "Exit code 0: a cluster can run. 1: it cannot, and what to do is said. 2: could not look.")]
    Doctor(DoctorArgs),
    /// Take the power or the network from a node, and give it back
    #[command(after_help = "Examples:\n  c5c3 node stop node-2     # as if its power had failed\n  \
        c5c3 node cut node-2      # as if its cable had been pulled\n  c5c3 node start node-2    # well again")]
    Node(NodeArgs),
    #[command(hide = true)]
    NodeAgent(NodeAgentArgs),
    /// Print or write the CRDs of every kind
    #[command(after_help = "Install them:\n  c5c3 crds | kubectl apply --server-side -f -\n\n\
        Where the genuine K-ORC runs, its own definitions stay:\n  c5c3 crds --without openstack.k-orc.cloud | kubectl apply --server-side -f -")]
    Crds(CrdsArgs),
    /// Print or write what runs the operators on a cluster: accounts, least rights, Deployments
    #[command(
        after_help = "Install them:\n  c5c3 crds | kubectl apply --server-side -f -\n  c5c3 manifests | kubectl apply -f -\n\n\
        Each operator may do in one namespace what it needs there, and nothing elsewhere but read a few kinds that are in \
        no namespace. Bind its ClusterRole, such as keystone-operator-objects, in a second namespace to let another copy look after that."
    )]
    Manifests(ManifestsArgs),
    /// Write a Helm chart for each operator, and one for all of them
    #[command(after_help = "Example:\n  c5c3 charts --output charts\n  \
        helm upgrade --install keystone-operator charts/keystone-operator -n openstack --create-namespace\n\n\
        They install what `c5c3 manifests` prints. See docs/installation.md.")]
    Charts(FolderArgs),
    /// Write what Flux installs everything from: sources, releases, the order of both, a ControlPlane
    #[command(after_help = "Example:\n  c5c3 flux --output my-gitops-repository\n\nSee docs/installation.md.")]
    Flux(FolderArgs),
    /// Write what Prometheus and Grafana need: monitors, alert rules, dashboards
    #[command(
        after_help = "Example:\n  c5c3 monitoring --output monitoring\n  kubectl apply -f monitoring\n\nSee docs/monitoring.md."
    )]
    Monitoring(FolderArgs),
    /// Run one or more operators against the cluster of your kubeconfig, or the one this pod is in
    #[command(
        after_help = "Try one on your own machine:\n  c5c3 operator controlplane --no-leader-election --log debug"
    )]
    Operator(OperatorArgs),
    /// Run an agent of a hypervisor: what libvirt or Open vSwitch of this node says, in objects
    #[command(after_help = "Try one on a hypervisor:\n  c5c3 agent node --node hv-1\n  c5c3 agent ovs --node hv-1\n\n\
        On a cluster they are DaemonSets, which `c5c3 manifests` prints.")]
    Agent(AgentArgs),
    /// Run Cortex's scheduler: Nova, Cinder and Manila ask it where things go, and it says why
    #[command(after_help = crate::scheduler::HELP)]
    Scheduler(crate::scheduler::SchedulerArgs),
    /// Stand in for the operators of MariaDB, RabbitMQ, Valkey, Ceph, cert-manager, External Secrets and Flux, on a cluster without them
    #[command(after_help = "Examples:\n  c5c3 providers --kubeconfig lab.kubeconfig\n  \
        c5c3 providers --kubeconfig lab.kubeconfig --without-provider rook    # where the genuine Rook runs\n\n\
        For development and tests, never for production. It installs the kinds that are missing, and runs until Ctrl-C. \
        Genuine operators of the same kinds must not run beside it. Its servers need the images of `c5c3 image build`.")]
    Providers(ProvidersArgs),
    /// Check objects in files, by the same rules as the API server, the webhooks and the operators
    #[command(
        after_help = "Examples:\n  c5c3 validate -f controlplane.yaml\n  c5c3 validate -f clusters/ --ignore-foreign\n  \
        kustomize build . | c5c3 validate -f -\n  c5c3 validate -f new.yaml --old old.yaml    # may it be changed like this?\n\n\
        Exit code 0: no problems. 1: problems, one line each: where, what is wrong, how to fix it. 2: could not look."
    )]
    Validate(ValidateArgs),
    /// Run the embedded Kubernetes API by itself: for development and tests, never for production
    #[command(
        after_help = "Try it:\n  c5c3 apiserver --in-memory --kubeconfig /tmp/kc &\n  kubectl --kubeconfig /tmp/kc get namespaces"
    )]
    Apiserver(ApiserverArgs),
    /// Build container images, and look after those that were built
    Image(crate::image::ImageArgs),
    /// Speak TLS for a service of the same pod that cannot itself
    #[command(hide = true)]
    Tls(TlsArgs),
    /// Write the API reference as Markdown, one page per kind
    Reference(ReferenceArgs),
    /// Print the version and how many kinds it knows
    Version(VersionArgs),
    /// Print completions for a shell
    #[command(after_help = "For bash:\n  source <(c5c3 completions bash)")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Which cluster
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct DataArgs {
    /// The cluster's data folder: one cluster for each
    #[arg(long, value_name = "DIR", env = "C5C3_DATA", default_value_os_t = c5c3_cluster::Folder::default_path())]
    pub(crate) data: PathBuf,
}

#[derive(Debug, ClapArgs)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches of a command, and go with each other in any way")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// How many nodes; as many as the cluster has, or 1 when it is new
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(c5c3_cluster::MOST_NODES)))]
    pub(crate) nodes: Option<u8>,
    /// A label for a node; may be repeated
    #[arg(long, value_name = "NODE:KEY=VALUE", value_parser = c5c3_cluster::Mark::label)]
    pub(crate) label: Vec<c5c3_cluster::Mark>,
    /// A taint for a node; may be repeated
    #[arg(long, value_name = "NODE:KEY=VALUE:EFFECT", value_parser = c5c3_cluster::Mark::taint)]
    pub(crate) taint: Vec<c5c3_cluster::Mark>,
    /// How many nodes are hypervisors: the last ones, labelled node-role.kubernetes.io/hypervisor and, beside other
    /// nodes, tainted so. Without --nodes there is one node more, for everything else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..i64::from(c5c3_cluster::MOST_NODES)))]
    pub(crate) hypervisors: Option<u8>,
    /// Move a network card of this machine into a node, for provider networks; `c5c3 down` moves it back. May be repeated
    #[arg(long, value_name = "NODE:LINK", value_parser = c5c3_cluster::Mark::nic)]
    pub(crate) nic: Vec<c5c3_cluster::Mark>,
    /// Serve Services of type LoadBalancer and NodePorts at this IPv4 address of the machine, where its neighbours reach
    /// them; `none` ends that. As before when absent; at first only this machine reaches them
    #[arg(long, value_name = "ADDRESS|none")]
    pub(crate) expose: Option<c5c3_cluster::Exposure>,
    /// Kernel settings that pods may change beside the safe ones, such as net.ipv4.ip_forward or net.*, separated by
    /// commas; as before when absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) allow_unsafe_sysctls: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) without: WithoutArgs,
    /// Return when the cluster is ready, and leave it running
    #[arg(long)]
    pub(crate) detach: bool,
    /// The ControlPlane to bring up, and what belongs to it. When absent: a whole cloud with one hypervisor, from Keystone to
    /// volumes on Ceph, with one of everything
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["bare", "no_operators"])]
    pub(crate) file: Option<PathBuf>,
    /// Bring up a Keystone and what it stands on, and no hypervisor, where the whole cloud is too much
    #[arg(long, conflicts_with_all = ["file", "bare", "no_operators"])]
    pub(crate) minimal: bool,
    /// Bring up no ControlPlane: the cluster alone, with the operators
    #[arg(long)]
    pub(crate) bare: bool,
    /// Start no operators, and bring up no ControlPlane
    #[arg(long)]
    pub(crate) no_operators: bool,
    /// How many seconds a ControlPlane may take before it is called late. It goes on coming up
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub(crate) timeout: u64,
    /// What is logged, such as info or info,c5c3_node=debug; warn in the foreground, info when detached
    #[arg(long, env = "C5C3_LOG")]
    pub(crate) log: Option<String>,
}

/// The shells whose syntax is known
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// sh, bash, zsh
    #[default]
    Sh,
    Fish,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// The shell that reads it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// How the findings are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct VersionArgs {
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Remove the data folder too: every object, volume and image of the cluster
    #[arg(long)]
    pub(crate) wipe: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    pub(crate) change: NodeChange,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeChange {
    /// Kill a node: its agent and all its containers, at once
    Stop(NodeName),
    /// Start a node that was stopped, connect one that was cut
    Start(NodeName),
    /// Take a node off the network; what runs on it goes on
    Cut(NodeName),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NodeName {
    /// Which node, by the name that `kubectl get nodes` shows
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NodeAgentArgs {
    /// What the agent is told, as the main process wrote it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// What is logged
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TlsArgs {
    /// Where to speak TLS
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Where the service listens
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: SocketAddr,
    /// Folder with tls.crt and tls.key, as a mounted Secret has them; a new certificate is used when it is there
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: PathBuf,
    /// What is logged
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    pub(crate) log: String,
}

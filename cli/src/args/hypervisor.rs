//! What the operator of hypervisors may be told.

use std::time::Duration;

use c5c3_operator_hypervisor::{CloudSecret, Hold, Issuer, Settings, Smoke};
use clap::Args as ClapArgs;

use crate::manifests::Places;

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Of the hypervisor operator")]
pub(crate) struct HypervisorOperatorArgs {
    /// The Secret with the clouds.yaml that Nova and Placement are called with
    #[arg(long, value_name = "NAMESPACE/SECRET[/CLOUD]", default_value = "openstack/hypervisor-operator-clouds-yaml",
        value_parser = CloudSecret::parse)]
    hypervisor_cloud: CloudSecret,
    /// The image of a server that must boot on each new host; no server is booted without it
    #[arg(long, value_name = "NAME", requires = "smoke_flavor")]
    smoke_image: Option<String>,
    /// The flavor of that server
    #[arg(long, value_name = "NAME", requires = "smoke_image")]
    smoke_flavor: Option<String>,
    /// The network of that server; none when absent
    #[arg(long, value_name = "NAME", requires = "smoke_image")]
    smoke_network: Option<String>,
    /// The Secret of the project of that server; --hypervisor-cloud when absent
    #[arg(long, value_name = "NAMESPACE/SECRET[/CLOUD]", requires = "smoke_image", value_parser = CloudSecret::parse)]
    smoke_cloud: Option<CloudSecret>,
    /// How many seconds that server has to write its name to its console
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    smoke_timeout: u64,
    /// The Nova aggregate that a host is in while it is tested
    #[arg(long, value_name = "NAME")]
    test_aggregate: Option<String>,
    /// A bridge that Open vSwitch must have before a host is taken; may be repeated
    #[arg(long, value_name = "NAME")]
    require_bridge: Vec<String>,
    /// The namespace of OVSNodes, in which the agents of Open vSwitch report the bridges
    #[arg(long, value_name = "NAMESPACE", default_value = "ovn-system")]
    ovs_namespace: String,
    /// The oldest version of libvirt that is taken
    #[arg(long, value_name = "VERSION")]
    minimum_libvirt: Option<String>,
    /// A namespace whose pods must have left a node before its host leaves Nova; may be repeated
    #[arg(long, value_name = "NAMESPACE", default_value = "openstack")]
    agent_namespace: Vec<String>,
    #[command(flatten)]
    places: PlaceArgs,
    /// How many instances of one host move at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    drain_parallel: u16,
    /// How often an instance is tried before a person has to decide
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=100))]
    drain_attempts: i32,
    /// How many minutes a live migration may take, and one more for each GiB of memory
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    drain_deadline: u64,
}

/// What is made in namespaces that these flags name, with rights that are bound there
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Of the hypervisor operator")]
pub(crate) struct PlaceArgs {
    /// Hold the machines of hosts with a pod and a PodDisruptionBudget in this namespace
    #[arg(long, value_name = "NAMESPACE")]
    hold_namespace: Option<String>,
    /// The image of that pod, which does nothing
    #[arg(long, value_name = "IMAGE", default_value = "registry.k8s.io/pause:3.10")]
    hold_image: String,
    /// The issuer of libvirt's certificates, which are made in that namespace
    #[arg(long, value_name = "NAMESPACE/KIND/NAME", value_parser = issuer)]
    certificate_issuer: Option<Issuer>,
}

impl PlaceArgs {
    pub(crate) fn places(&self) -> Places {
        let hold = self.hold_namespace.clone().map(|namespace| Hold { namespace, image: self.hold_image.clone() });
        Places { hold, issuer: self.certificate_issuer.clone() }
    }
}

fn issuer(text: &str) -> Result<Issuer, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [namespace, kind @ ("Issuer" | "ClusterIssuer"), name] if !namespace.is_empty() && !name.is_empty() => {
            Ok(Issuer { namespace: namespace.into(), kind: kind.into(), name: name.into() })
        }
        _ => Err(format!("{text:?} is not NAMESPACE/Issuer/NAME or NAMESPACE/ClusterIssuer/NAME")),
    }
}

impl HypervisorOperatorArgs {
    pub(crate) fn settings(&self) -> Settings {
        let defaults = Settings::default();
        let mut drain = defaults.drain.clone();
        drain.parallel = self.drain_parallel.into();
        drain.attempts = self.drain_attempts;
        drain.deadline = Duration::from_mins(self.drain_deadline);
        let smoke = self.smoke_image.clone().zip(self.smoke_flavor.clone()).map(|(image, flavor)| Smoke {
            image,
            flavor,
            network: self.smoke_network.clone(),
            cloud: self.smoke_cloud.clone(),
            patience: Duration::from_secs(self.smoke_timeout),
        });
        let Places { hold, issuer } = self.places.places();
        Settings {
            cloud: self.hypervisor_cloud.clone(),
            smoke,
            test_aggregate: self.test_aggregate.clone(),
            bridges: self.require_bridge.clone(),
            ovs_namespace: self.ovs_namespace.clone(),
            minimum_libvirt: self.minimum_libvirt.clone(),
            agent_namespaces: self.agent_namespace.clone(),
            hold,
            issuer,
            drain,
            ..defaults
        }
    }
}

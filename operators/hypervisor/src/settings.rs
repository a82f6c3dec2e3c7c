//! What the operator may be told by its flags: names in OpenStack, limits of a drain, and what it makes on nodes.

use std::sync::OnceLock;
use std::time::Duration;

/// A Secret with a `clouds.yaml`, and the cloud in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudSecret {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// The cloud in its `clouds.yaml`.
    pub cloud: String,
}

/// The server that proves that a host can run guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smoke {
    /// Name of the image.
    pub image: String,
    /// Name of the flavor.
    pub flavor: String,
    /// Name of the network; none for a server without one.
    pub network: Option<String>,
    /// The credential of the project that it is created in; the operator's own when absent.
    pub cloud: Option<CloudSecret>,
    /// How long it may take until its name is on its console.
    pub patience: Duration,
}

/// How a drain is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How many instances of one host move at a time.
    pub parallel: usize,
    /// How often an instance is tried before a person has to decide.
    pub attempts: i32,
    /// How often Nova is asked while instances move.
    pub poll: Duration,
    /// How long a live migration may take, whatever the size of the instance.
    pub deadline: Duration,
    /// What is added for each GiB of the instance's memory.
    pub deadline_per_gib: Duration,
}

/// A pod and a PodDisruptionBudget on each node, which hold its machine until it has left Nova.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Where they are.
    pub namespace: String,
    /// An image that does nothing, such as `registry.k8s.io/pause`.
    pub image: String,
}

/// Who signs the certificates of libvirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Where the Certificates and their Secrets are.
    pub namespace: String,
    /// `Issuer` or `ClusterIssuer`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The operator's own credential, which a ControlPlane with Nova makes. It needs the role admin in a project, for Nova and
    /// Placement.
    pub cloud: CloudSecret,
    /// The smoke server; without it hosts are onboarded by the other tests alone.
    pub smoke: Option<Smoke>,
    /// The aggregate that a host is in while it is tested, which keeps other servers away from it.
    pub test_aggregate: Option<String>,
    /// Bridges that Open vSwitch must have, as its agent reports them.
    pub bridges: Vec<String>,
    /// The namespace in which that agent reports.
    pub ovs_namespace: String,
    /// The oldest version of libvirt that is good enough.
    pub minimum_libvirt: Option<String>,
    /// The namespaces of pods that must have left a node before its service is deleted.
    pub agent_namespaces: Vec<String>,
    /// Whether and how machines are held.
    pub hold: Option<Hold>,
    /// Who signs the certificates of libvirt; none are made when absent.
    pub issuer: Option<Issuer>,
    /// How a drain is carried out.
    pub drain: Drain,
    /// How long lists of Nova answer for all hosts.
    pub shared: Duration,
    /// How soon is looked again at what no watch tells.
    pub wait: Duration,
    /// How often is looked whether the state of a host in Nova was changed by others.
    pub resync: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let namespace = "openstack".to_owned();
        Self {
            cloud: CloudSecret {
                namespace: namespace.clone(),
                name: "hypervisor-operator-clouds-yaml".into(),
                cloud: "openstack".into(),
            },
            smoke: None,
            test_aggregate: None,
            bridges: Vec::new(),
            ovs_namespace: "ovn-system".into(),
            minimum_libvirt: None,
            agent_namespaces: vec![namespace],
            hold: None,
            issuer: None,
            drain: Drain {
                parallel: 2,
                attempts: 3,
                poll: Duration::from_secs(10),
                deadline: Duration::from_mins(10),
                deadline_per_gib: Duration::from_mins(1),
            },
            shared: Duration::from_secs(10),
            wait: Duration::from_secs(15),
            resync: Duration::from_mins(10),
        }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

impl Settings {
    /// Sets what the operator of this process is made with. Only the first call has an effect.
    pub fn set(self) {
        let _ = SETTINGS.set(self);
    }

    pub(crate) fn get() -> Self {
        SETTINGS.get().cloned().unwrap_or_default()
    }
}

impl CloudSecret {
    /// From `NAMESPACE/SECRET` or `NAMESPACE/SECRET/CLOUD`; the cloud is `openstack` when absent.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/').map(ToOwned::to_owned);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(namespace), Some(name), cloud, None) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace, name, cloud: cloud.unwrap_or_else(|| "openstack".into()) })
            }
            _ => Err(format!("{text:?} is not NAMESPACE/SECRET or NAMESPACE/SECRET/CLOUD")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_named_by_its_secret() {
        let parsed = CloudSecret::parse("orchard/clouds").unwrap();
        assert_eq!((parsed.namespace.as_str(), parsed.cloud.as_str()), ("orchard", "openstack"));
        assert_eq!(CloudSecret::parse("orchard/clouds/north").unwrap().cloud, "north");
        assert!(CloudSecret::parse("clouds").is_err() && CloudSecret::parse("a/b/c/d").is_err());
    }
}

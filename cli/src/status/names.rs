//! The short names of kinds, as kubectl takes them.

use c5c3_api::all;

/// Those of Kubernetes' own kinds that are looked at.
const BUILT_IN: &[(&str, &str)] = &[
    ("po", "Pod"),
    ("deploy", "Deployment"),
    ("sts", "StatefulSet"),
    ("ds", "DaemonSet"),
    ("rs", "ReplicaSet"),
    ("pvc", "PersistentVolumeClaim"),
    ("sc", "StorageClass"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("cert", "Certificate"),
    ("es", "ExternalSecret"),
    ("ps", "PushSecret"),
    ("css", "ClusterSecretStore"),
    ("mdb", "MariaDB"),
    ("dmdb", "Database"),
    ("umdb", "User"),
    ("gmdb", "Grant"),
    ("rmq", "RabbitmqCluster"),
];

/// Whether kubectl takes a name for a kind.
pub(super) fn is_short(name: &str, kind: &str) -> bool {
    let ours = all().iter().filter(|known| known.name() == kind);
    let mut of_ours = ours.filter_map(|known| known.crd().spec.names.short_names).flatten();
    BUILT_IN.contains(&(name, kind)) || of_ours.any(|short| short == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_those_of_kubectl() {
        for (name, kind) in [("ks", "Keystone"), ("cp", "ControlPlane"), ("sag", "SecretAggregate"), ("no", "Node")] {
            assert!(is_short(name, kind), "{name}");
        }
        assert!(!is_short("ks", "Nova") && !is_short("", "Pod"));
    }
}

//! The fields about hypervisors among the nodes of the cluster.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::Row;

const COMPUTE: &str = r#"{"compute": {}}"#;
const IMAGES: &str = r#"{"compute": {"libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3.0"},
    "probeImage": {"repository": "ghcr.io/c5c3/guest", "tag": "6.12.117"}}}"#;
const TCP: &str = r#"{"compute": {"liveMigration": {"transport": "tcp"}}}"#;
const TLS: &str = r#"{"compute": {"liveMigration": {"transport": "tls", "certSecretRef": {"name": "hypervisors"}}}}"#;
const FAKE: &str = r#"{"compute": {"fake": {"replicas": 2}}}"#;

/// One row for each.
pub const ROWS: &[Row] = &[
    ("compute.nodeSelector", COMPUTE, r#"{"compute": {"nodeSelector": {"example.net/guests": "yes"}}}"#, Effect),
    (
        "compute.tolerations",
        COMPUTE,
        r#"{"compute": {"tolerations": [{"key": "guests", "operator": "Exists"}]}}"#,
        Effect,
    ),
    ("compute.virtType", COMPUTE, r#"{"compute": {"virtType": "kvm"}}"#, Effect),
    ("compute.resources.requests", COMPUTE, r#"{"compute": {"resources": {"requests": {"cpu": "1"}}}}"#, Effect),
    (
        "compute.resources.limits",
        r#"{"compute": {"resources": {"requests": {"memory": "2Gi"}}}}"#,
        r#"{"compute": {"resources": {"limits": {"memory": "1Gi"}}}}"#,
        Refused("spec.compute.resources.requests.memory"),
    ),
    (
        "compute.libvirtResources.requests",
        COMPUTE,
        r#"{"compute": {"libvirtResources": {"requests": {"cpu": "1"}}}}"#,
        Effect,
    ),
    (
        "compute.libvirtResources.limits",
        COMPUTE,
        r#"{"compute": {"libvirtResources": {"limits": {"memory": "1Gi"}}}}"#,
        Effect,
    ),
    (
        "compute.libvirtImage.repository",
        IMAGES,
        r#"{"compute": {"libvirtImage": {"repository": "mirror.example.net/libvirt"}}}"#,
        Effect,
    ),
    ("compute.libvirtImage.tag", IMAGES, r#"{"compute": {"libvirtImage": {"tag": "11.4.0"}}}"#, Effect),
    (
        "compute.libvirtImage.digest",
        IMAGES,
        r#"{"compute": {"libvirtImage": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}}"#,
        Effect,
    ),
    (
        "compute.probeImage.repository",
        IMAGES,
        r#"{"compute": {"probeImage": {"repository": "mirror.example.net/guest"}}}"#,
        Effect,
    ),
    ("compute.probeImage.tag", IMAGES, r#"{"compute": {"probeImage": {"tag": "7.0.0"}}}"#, Effect),
    (
        "compute.probeImage.digest",
        IMAGES,
        r#"{"compute": {"probeImage": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}}"#,
        Effect,
    ),
    ("compute.liveMigration.transport", COMPUTE, TCP, Effect),
    (
        "compute.liveMigration.transport",
        TCP,
        r#"{"compute": {"liveMigration": {"transport": "tls"}}}"#,
        Refused("certSecretRef"),
    ),
    (
        "compute.liveMigration.certSecretRef.name",
        TLS,
        r#"{"compute": {"liveMigration": {"certSecretRef": {"name": "others"}}}}"#,
        Effect,
    ),
    (
        "compute.liveMigration.certSecretRef.name",
        TCP,
        r#"{"compute": {"liveMigration": {"certSecretRef": {"name": "hypervisors"}}}}"#,
        Refused("transport is tcp"),
    ),
    (
        "compute.liveMigration.certSecretRef.key",
        TLS,
        r#"{"compute": {"liveMigration": {"certSecretRef": {"key": "tls.crt"}}}}"#,
        Refused("certSecretRef.key"),
    ),
    (
        "compute.volumePools",
        COMPUTE,
        r#"{"compute": {"volumePools": [{"user": "cinder", "cephSecretRef": {"name": "nova-ceph-credentials"}}]}}"#,
        Effect,
    ),
    ("compute.fake.replicas", FAKE, r#"{"compute": {"fake": {"replicas": 3}}}"#, Effect),
    ("compute.nodeSelector", FAKE, r#"{"compute": {"nodeSelector": {"example.net/tests": "yes"}}}"#, Effect),
    ("compute.tolerations", FAKE, r#"{"compute": {"tolerations": [{"key": "tests", "operator": "Exists"}]}}"#, Effect),
    ("compute.resources.requests", FAKE, r#"{"compute": {"resources": {"requests": {"cpu": "1"}}}}"#, Effect),
    ("compute.virtType", FAKE, r#"{"compute": {"virtType": "kvm"}}"#, Refused("which run without libvirt")),
    (
        "compute.libvirtResources.requests",
        FAKE,
        r#"{"compute": {"libvirtResources": {"requests": {"cpu": "1"}}}}"#,
        Refused("which run without libvirt"),
    ),
    (
        "compute.libvirtImage.tag",
        FAKE,
        r#"{"compute": {"libvirtImage": {"repository": "mirror.example.net/libvirt", "tag": "11.4.0"}}}"#,
        Refused("which run without libvirt"),
    ),
    (
        "compute.probeImage.tag",
        FAKE,
        r#"{"compute": {"probeImage": {"repository": "mirror.example.net/guest", "tag": "7.0.0"}}}"#,
        Refused("which run without libvirt"),
    ),
    ("compute.liveMigration.transport", FAKE, TCP, Refused("which run without libvirt")),
    (
        "compute.volumePools",
        FAKE,
        r#"{"compute": {"volumePools": [{"user": "cinder", "cephSecretRef": {"name": "nova-ceph-credentials"}}]}}"#,
        Refused("which run without libvirt"),
    ),
    (
        "extraConfig",
        FAKE,
        r#"{"extraConfig": {"DEFAULT": {"compute_driver": "ironic.IronicDriver"}}}"#,
        Refused("spec.extraConfig.DEFAULT.compute_driver"),
    ),
    (
        "cells",
        r#"{"compute": {}, "cells": [{"name": "cell1"}]}"#,
        r#"{"cells": [{"name": "cell1", "nodeSelector": {"example.net/cell": "1"}}]}"#,
        Effect,
    ),
    (
        "cells",
        r#"{"compute": {}, "cells": [{"name": "cell1"}]}"#,
        r#"{"cells": [{"name": "cell1"}, {"name": "cell2"}]}"#,
        Refused("nodeSelector of the cells"),
    ),
    (
        "cells",
        "{}",
        r#"{"cells": [{"name": "cell1", "nodeSelector": {"example.net/cell": "1"}}]}"#,
        Refused("spec.compute is absent"),
    ),
    (
        "cells",
        r#"{"compute": {}, "cells": [{"name": "cell1"}]}"#,
        r#"{"cells": [{"name": "cell1", "computeRef": {"name": "far"}, "nodeSelector": {"example.net/cell": "1"}}]}"#,
        Refused("remove computeRef"),
    ),
];

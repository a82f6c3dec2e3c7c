//! The table of built-in resources, in the order in which a real API server lists its groups.

use std::sync::LazyLock;

use super::{NameRule, Origin, Resource, Subresource, VERBS, Verb};

const CREATE: &[Verb] = &[Verb::Create];
const GET: &[Verb] = &[Verb::Get];
const READ: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch];
const CHANGE: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];
const STREAM: &[Verb] = &[Verb::Create, Verb::Get];
const PROXY: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];
/// Namespaces cannot be deleted by the dozen.
const ONE_BY_ONE: &[Verb] =
    &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

/// Every built-in resource.
pub fn builtin() -> &'static [Resource] {
    static TABLE: LazyLock<Vec<Resource>> = LazyLock::new(|| {
        [core(), groups(), rbac_and_storage(), extensions()].into_iter().flatten().map(|row| row.0).collect()
    });
    &TABLE
}

/// A row under construction.
struct Row(Resource);

fn row(group: &str, version: &str, kind: &str, plural: &str) -> Row {
    Row(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: VERBS,
        subresources: Vec::new(),
        name_rule: NameRule::DnsSubdomain,
        storage_prefix: if group.is_empty() { plural.to_owned() } else { format!("{group}/{plural}") },
        storage_version: super::api_version(group, version),
        generation: false,
        origin: Origin::BuiltIn,
    })
}

impl Row {
    fn short(mut self, names: &[&str]) -> Self {
        self.0.short_names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    fn category(mut self, category: &str) -> Self {
        self.0.categories.push(category.to_owned());
        self
    }

    fn cluster(mut self) -> Self {
        self.0.namespaced = false;
        self
    }

    fn verbs(mut self, verbs: &'static [Verb]) -> Self {
        self.0.verbs = verbs;
        if !verbs.contains(&Verb::List) {
            self.0.list_kind.clear();
        }
        self
    }

    fn named(mut self, rule: NameRule) -> Self {
        self.0.name_rule = rule;
        self
    }

    fn generation(mut self) -> Self {
        self.0.generation = true;
        self
    }

    /// The same objects as another resource, in another shape.
    fn view_of(mut self, prefix: &str, api_version: &str) -> Self {
        prefix.clone_into(&mut self.0.storage_prefix);
        api_version.clone_into(&mut self.0.storage_version);
        self
    }

    fn sub(mut self, name: &str, group: &str, version: &str, kind: &str, verbs: &'static [Verb]) -> Self {
        self.0.subresources.push(Subresource {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            verbs,
        });
        self
    }

    /// A subresource that speaks the kind itself.
    fn own(self, name: &str, verbs: &'static [Verb]) -> Self {
        let (group, version, kind) = (self.0.group.clone(), self.0.version.clone(), self.0.kind.clone());
        self.sub(name, &group, &version, &kind, verbs)
    }

    fn status(self) -> Self {
        self.own("status", CHANGE)
    }

    fn scale(self) -> Self {
        self.sub("scale", "autoscaling", "v1", "Scale", CHANGE)
    }
}

fn core() -> Vec<Row> {
    let row = |kind: &str, plural: &str| row("", "v1", kind, plural);
    vec![
        row("Binding", "bindings").verbs(CREATE),
        row("ConfigMap", "configmaps").short(&["cm"]),
        row("Endpoints", "endpoints").short(&["ep"]),
        row("Event", "events").short(&["ev"]),
        row("LimitRange", "limitranges").short(&["limits"]),
        row("Namespace", "namespaces")
            .cluster()
            .short(&["ns"])
            .verbs(ONE_BY_ONE)
            .named(NameRule::DnsLabel)
            .own("finalize", &[Verb::Update])
            .status(),
        row("Node", "nodes").cluster().short(&["no"]).sub("proxy", "", "v1", "NodeProxyOptions", PROXY).status(),
        row("PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).status(),
        row("PersistentVolume", "persistentvolumes").cluster().short(&["pv"]).status(),
        row("Pod", "pods")
            .short(&["po"])
            .category("all")
            .generation()
            .sub("attach", "", "v1", "PodAttachOptions", STREAM)
            .sub("binding", "", "v1", "Binding", CREATE)
            .own("ephemeralcontainers", CHANGE)
            .sub("eviction", "policy", "v1", "Eviction", CREATE)
            .sub("exec", "", "v1", "PodExecOptions", STREAM)
            .own("log", GET)
            .sub("portforward", "", "v1", "PodPortForwardOptions", STREAM)
            .sub("proxy", "", "v1", "PodProxyOptions", PROXY)
            .status(),
        row("PodTemplate", "podtemplates").generation(),
        row("ReplicationController", "replicationcontrollers")
            .short(&["rc"])
            .category("all")
            .generation()
            .scale()
            .status(),
        row("ResourceQuota", "resourcequotas").short(&["quota"]).status(),
        row("Secret", "secrets"),
        row("ServiceAccount", "serviceaccounts").short(&["sa"]).sub(
            "token",
            "authentication.k8s.io",
            "v1",
            "TokenRequest",
            CREATE,
        ),
        row("Service", "services")
            .short(&["svc"])
            .category("all")
            .named(NameRule::Dns1035Label)
            .sub("proxy", "", "v1", "ServiceProxyOptions", PROXY)
            .status(),
    ]
}

fn groups() -> Vec<Row> {
    let apps = |kind: &str, plural: &str| row("apps", "v1", kind, plural);
    let reviews = |group: &str, kind: &str, plural: &str| row(group, "v1", kind, plural).cluster().verbs(CREATE);
    let hpa = |version: &str| {
        row("autoscaling", version, "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short(&["hpa"])
            .category("all")
            .status()
    };
    vec![
        row("apiregistration.k8s.io", "v1", "APIService", "apiservices")
            .cluster()
            .category("api-extensions")
            .verbs(READ)
            .own("status", GET),
        apps("ControllerRevision", "controllerrevisions"),
        apps("DaemonSet", "daemonsets").short(&["ds"]).category("all").generation().status(),
        apps("Deployment", "deployments").short(&["deploy"]).category("all").generation().scale().status(),
        apps("ReplicaSet", "replicasets").short(&["rs"]).category("all").generation().scale().status(),
        apps("StatefulSet", "statefulsets").short(&["sts"]).category("all").generation().scale().status(),
        row("events.k8s.io", "v1", "Event", "events").short(&["ev"]).view_of("events", "v1"),
        reviews("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
        reviews("authentication.k8s.io", "TokenReview", "tokenreviews"),
        row("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews").verbs(CREATE),
        reviews("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        reviews("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
        reviews("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
        hpa("v2"),
        hpa("v1").view_of("autoscaling/horizontalpodautoscalers", "autoscaling/v2"),
        row("batch", "v1", "CronJob", "cronjobs").short(&["cj"]).category("all").generation().status(),
        row("batch", "v1", "Job", "jobs").category("all").generation().status(),
        row("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
            .cluster()
            .short(&["csr"])
            .named(NameRule::PathSegment)
            .own("approval", CHANGE)
            .status(),
    ]
}

fn rbac_and_storage() -> Vec<Row> {
    let network = |kind: &str, plural: &str| row("networking.k8s.io", "v1", kind, plural).generation();
    let rbac =
        |kind: &str, plural: &str| row("rbac.authorization.k8s.io", "v1", kind, plural).named(NameRule::PathSegment);
    let storage = |kind: &str, plural: &str| row("storage.k8s.io", "v1", kind, plural);
    vec![
        network("IngressClass", "ingressclasses").cluster(),
        network("Ingress", "ingresses").short(&["ing"]).status(),
        network("IPAddress", "ipaddresses").cluster().short(&["ip"]).named(NameRule::IpAddress),
        network("NetworkPolicy", "networkpolicies").short(&["netpol"]),
        network("ServiceCIDR", "servicecidrs").cluster().status(),
        row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).generation().status(),
        rbac("ClusterRoleBinding", "clusterrolebindings").cluster(),
        rbac("ClusterRole", "clusterroles").cluster(),
        rbac("RoleBinding", "rolebindings"),
        rbac("Role", "roles"),
        storage("CSIDriver", "csidrivers").cluster(),
        storage("CSINode", "csinodes").cluster(),
        storage("CSIStorageCapacity", "csistoragecapacities"),
        storage("StorageClass", "storageclasses").cluster().short(&["sc"]),
        storage("VolumeAttachment", "volumeattachments").cluster().status(),
        storage("VolumeAttributesClass", "volumeattributesclasses").cluster().short(&["vac"]),
    ]
}

fn extensions() -> Vec<Row> {
    let hooks = |kind: &str, plural: &str| {
        row("admissionregistration.k8s.io", "v1", kind, plural).cluster().category("api-extensions").generation()
    };
    let flow = |kind: &str, plural: &str| {
        row("flowcontrol.apiserver.k8s.io", "v1", kind, plural)
            .cluster()
            .named(NameRule::PathSegment)
            .generation()
            .status()
    };
    vec![
        hooks("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        hooks("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
        hooks("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        hooks("ValidatingAdmissionPolicy", "validatingadmissionpolicies").status(),
        hooks("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        hooks("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        row("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
            .cluster()
            .short(&["crd", "crds"])
            .category("api-extensions")
            .generation()
            .status(),
        row("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").cluster().short(&["pc"]).generation(),
        row("coordination.k8s.io", "v1", "Lease", "leases"),
        row("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses").cluster(),
        row("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").generation(),
        flow("FlowSchema", "flowschemas"),
        flow("PriorityLevelConfiguration", "prioritylevelconfigurations"),
    ]
}

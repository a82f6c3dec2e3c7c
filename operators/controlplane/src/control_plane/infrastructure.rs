//! The objects that other operators make servers of: MariaDB, RabbitmqCluster, Valkey.
//!
//! No image is named in them unless there is a registry for all images: each operator has one of its own that it knows how to
//! start. What such an operator adds to the pods itself, such as an agent or an exporter, comes from where its own installation
//! says.

use c5c3_api::blocks::{IssuerKind, ObjectName, Quantity, Quorum, Resources, Size};
use c5c3_api::c5c3::ControlPlane;
use c5c3_api::ext::cert_manager::{Certificate, CertificateSpec, ClusterIssuer, Issuer, Usage};
use c5c3_api::ext::mariadb::{
    Galera, GaleraPrimary, GaleraRecovery, GeneratedSecretKey, MariaDB, MariaDBSpec, MariaDBTls, PvcRetention,
    PvcRetentionPolicy, Storage,
};
use c5c3_api::ext::rabbitmq::{
    BrokerResources, Configuration, Persistence, RabbitmqCluster, RabbitmqClusterSpec, RabbitmqTls,
};
use c5c3_api::ext::valkey::{Valkey, ValkeyCertManager, ValkeyMetrics, ValkeySpec, ValkeyTls};
use c5c3_api::ext::{IssuerRef, Toggle};
use c5c3_kit::{Child, Inputs, Ref, Step, Wait, cluster_domain, random_secret, readiness};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::cloud::Cloud;
use super::part::Part;
use super::parts::{MARIADB, RABBITMQ};
use super::{bundle, images, ovn, own, reference};

/// The Secret with the password of MariaDB's root, key `password`.
pub(super) const ROOT_SECRET: &str = "mariadb-root-credentials";

/// The Certificate of the brokers, and the Secret that it is in.
const QUEUE_CERTIFICATE: &str = "rabbitmq-tls";

/// The size of volumes when none is asked for, of MariaDB and of RabbitMQ.
pub(super) const DATABASE_SIZE: &str = "100Gi";
pub(super) const QUEUE_SIZE: &str = "20Gi";

/// Lines of `my.cnf`. The default of 151 connections is less than the pools of a few services hold open.
const MY_CNF: &str = "[mariadb]\nmax_connections = 4096\n";

/// What the ControlPlane's infrastructure refers to. Root's Secret is watched from the start: when a user restores it,
/// it need not carry labels of ours.
pub(super) fn needs(cloud: &Cloud) -> Vec<Ref> {
    let classes = [database_class(cloud), queue_class(cloud)].into_iter().flatten().map(|(_, class)| class);
    let root = (cloud.has(&MARIADB) && cloud.existing(&MARIADB).is_none()).then(|| root_secret(cloud));
    classes.chain(ovn::needs(cloud)).chain(issuer(cloud)).chain(root).collect()
}

pub(super) fn mariadb(step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    if cloud.existing(&MARIADB).is_some() {
        return existing(step, &MARIADB, cloud, inputs);
    }
    let step = no_class(step, &MARIADB, database_class(cloud), cloud, inputs);
    let step = no_issuer(step, cloud, inputs);
    let mut mariadb =
        Child::new(&MariaDB { metadata: named(MARIADB.name, cloud), spec: database(cloud), status: None });
    pulled_with(&mut mariadb, "/spec", cloud);
    if cloud.is_monitored() && !cloud.pull_secrets().is_empty() {
        mariadb.object.data["spec"]["metrics"]["exporter"] = json!({"imagePullSecrets": cloud.pull_secrets()});
    }
    step.child(root(cloud, inputs)).child(mariadb).children(bundle::child(cloud, inputs))
}

/// Passes on the Secrets that images are pulled with, to an object of another project that has a field for them there.
fn pulled_with(child: &mut Child, place: &str, cloud: &Cloud) {
    if let Some(Value::Object(fields)) = child.object.data.pointer_mut(place)
        && !cloud.pull_secrets().is_empty()
    {
        fields.insert("imagePullSecrets".into(), json!(cloud.pull_secrets()));
    }
}

fn root_secret(cloud: &Cloud) -> Ref {
    Ref::namespaced::<Secret>(&cloud.namespace, ROOT_SECRET)
}

/// The password of MariaDB's root. Servers take it once, when they are initialised, and it cannot be read from them: another one in
/// its place would open nothing, and hide that the right one is lost. It is made before the MariaDB is, so that where there
/// is a MariaDB there was a password.
fn root(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Child {
    let secret = random_secret::child(&cloud.namespace, ROOT_SECRET, &[], &["password"]).kept(cloud.keeps_data());
    if own(cloud, &MARIADB, inputs).is_none() {
        return secret;
    }
    secret.irreplaceable(
        Wait::on(&root_secret(cloud))
            .condition("has the password of MariaDB's root under the key password")
            .now("is lost")
            .because("servers keep the password that they were initialised with, so no new one is generated")
            .look_at(format!("restore secret/{ROOT_SECRET} from a backup, with the value that it had"))
            .failed("RootPasswordLost"),
    )
}

fn database(cloud: &Cloud) -> MariaDBSpec {
    let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
    let replicas = written.replicas.map_or(3, Quorum::get);
    let retention = PvcRetentionPolicy { when_deleted: Some(PvcRetention::Delete), when_scaled: None };
    let issuer = cloud.issuer().map(IssuerRef::from);
    MariaDBSpec {
        replicas: Some(replicas),
        image: cloud.mirrored(images::MARIADB),
        galera: Some(Galera {
            enabled: true,
            primary: Some(GaleraPrimary { auto_failover: Some(true) }),
            recovery: Some(GaleraRecovery { enabled: true, min_cluster_size: None }),
        }),
        root_password_secret_key_ref: Some(GeneratedSecretKey {
            name: ROOT_SECRET.into(),
            key: "password".into(),
            generate: None,
        }),
        storage: Some(Storage {
            size: Some(size(written.storage_size.as_ref(), DATABASE_SIZE)),
            storage_class_name: written.storage_class.as_ref().map(ToString::to_string),
            ephemeral: None,
            // Kubernetes keeps volumes unless it is told otherwise.
            pvc_retention_policy: (!cloud.keeps_data()).then_some(retention),
        }),
        my_cnf: Some(MY_CNF.into()),
        tls: issuer.map(|issuer| MariaDBTls {
            enabled: true,
            required: Some(true),
            server_cert_issuer_ref: Some(issuer.clone()),
            client_cert_issuer_ref: Some(issuer),
            ..MariaDBTls::default()
        }),
        metrics: cloud.is_monitored().then_some(Toggle { enabled: true }),
        resources: written.resources,
        ..MariaDBSpec::default()
    }
}

pub(super) fn rabbitmq(step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    if cloud.existing(&RABBITMQ).is_some() {
        return existing(step, &RABBITMQ, cloud, inputs);
    }
    let written = cloud.infrastructure.rabbitmq.clone().unwrap_or_default();
    let spec = RabbitmqClusterSpec {
        replicas: Some(written.replicas.map_or(3, Quorum::get)),
        image: cloud.mirrored(images::RABBITMQ),
        persistence: Some(Persistence {
            storage_class_name: written.storage_class.as_ref().map(ToString::to_string),
            storage: Some(size(written.storage_size.as_ref(), QUEUE_SIZE)),
        }),
        resources: Some(BrokerResources::new(written.resources.unwrap_or_else(broker_resources))),
        rabbitmq: Some(Configuration {
            additional_config: Some("cluster_partition_handling = pause_minority\n".into()),
            ..Configuration::default()
        }),
        tls: cloud.issuer().map(|_| RabbitmqTls {
            secret_name: Some(QUEUE_CERTIFICATE.into()),
            ca_secret_name: None,
            disable_non_tls_listeners: Some(true),
        }),
        ..RabbitmqClusterSpec::default()
    };
    let step = no_class(step, &RABBITMQ, queue_class(cloud), cloud, inputs);
    let step = no_issuer(step, cloud, inputs).children(queue_certificate(cloud));
    let mut cluster = Child::new(&RabbitmqCluster { metadata: named(RABBITMQ.name, cloud), spec, status: None });
    pulled_with(&mut cluster, "/spec", cloud);
    step.child(cluster)
}

/// The certificate of the brokers, whose operator makes none. It holds for the Service and for each of them.
fn queue_certificate(cloud: &Cloud) -> Option<Child> {
    let names = ["rabbitmq", "*.rabbitmq-nodes"].into_iter().flat_map(|name| {
        let short = format!("{name}.{}", cloud.namespace);
        [cluster_domain::service_host(name, &cloud.namespace), format!("{short}.svc"), short]
    });
    let spec = CertificateSpec {
        secret_name: QUEUE_CERTIFICATE.into(),
        issuer_ref: cloud.issuer()?.into(),
        dns_names: names.chain(["rabbitmq".to_owned()]).collect(),
        usages: vec![Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ServerAuth],
        ..CertificateSpec::default()
    };
    let metadata = named(QUEUE_CERTIFICATE, cloud);
    Some(Child::new(&Certificate { metadata, spec, status: None }))
}

/// The operator of Valkey takes neither an image nor the Secret to pull it with from the object.
pub(super) fn valkey(step: Step, cloud: &Cloud, _: &Inputs<ControlPlane>) -> Step {
    let written = cloud.infrastructure.valkey.clone().unwrap_or_default();
    let sentinel = written.sentinel.is_none_or(|sentinel| sentinel.enabled);
    let spec = ValkeySpec {
        replicas: Some(written.replicas.map_or(3, Quorum::get)),
        sentinel: Some(Toggle { enabled: sentinel }),
        tls: cloud.issuer().map(|issuer| ValkeyTls {
            enabled: true,
            cert_manager: Some(ValkeyCertManager { issuer: Some(issuer.into()) }),
        }),
        metrics: cloud.is_monitored().then_some(ValkeyMetrics {
            enabled: true,
            monitor: Some(Toggle { enabled: true }),
            prometheus_rule: None,
        }),
        resources: written.resources,
        ..ValkeySpec::default()
    };
    step.child(Child::new(&Valkey { metadata: named("valkey", cloud), spec, status: None }))
}

pub(super) fn named(name: &str, cloud: &Cloud) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), namespace: Some(cloud.namespace.clone()), ..ObjectMeta::default() }
}

fn size(written: Option<&Size>, default: &str) -> Quantity {
    let text = written.map_or_else(|| default.to_owned(), ToString::to_string);
    Quantity::new(text).expect("a size is a quantity")
}

/// What a broker of a whole cloud needs.
fn broker_resources() -> Resources {
    let quantity = |text: &str| Quantity::new(text).expect("it is a quantity");
    let requests = [("cpu".to_owned(), quantity("1")), ("memory".to_owned(), quantity("2Gi"))].into();
    Resources { requests, limits: [("memory".to_owned(), quantity("2Gi"))].into() }
}

/// Waits for an object that exists already, and makes none.
pub(super) fn existing(step: Step, part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let step = step.childless();
    let Some(object) = reference(cloud, part) else { return step };
    let wait = match inputs.get(&object) {
        Some(found) => readiness::wait(&object, found),
        None => Some(inputs.missing(&object)),
    };
    match wait {
        Some(wait) => step.wait(wait.because(format!("{}.clusterRef names it", part.field))),
        None => step,
    }
}

pub(super) type Class = (&'static str, Ref);

fn database_class(cloud: &Cloud) -> Option<Class> {
    class("spec.infrastructure.mariadb.storageClass", cloud.infrastructure.mariadb.as_ref()?.storage_class.as_ref())
}

fn queue_class(cloud: &Cloud) -> Option<Class> {
    class("spec.infrastructure.rabbitmq.storageClass", cloud.infrastructure.rabbitmq.as_ref()?.storage_class.as_ref())
}

pub(super) fn class(field: &'static str, name: Option<&ObjectName>) -> Option<Class> {
    Some((field, Ref::cluster::<StorageClass>(name?.to_string())))
}

/// Says so if a storage class is not there, before volumes are asked of it: they could never move to another.
pub(super) fn no_class(
    step: Step,
    part: &Part,
    class: Option<Class>,
    cloud: &Cloud,
    inputs: &Inputs<ControlPlane>,
) -> Step {
    let made = reference(cloud, part).is_some_and(|object| inputs.get(&object).is_some());
    let missing = class.filter(|(_, class)| !made && inputs.get(class).is_none());
    match missing {
        Some((field, class)) => step.wait(
            inputs
                .missing(&class)
                .because(format!("{field} names it"))
                .look_at("kubectl get storageclasses; change the field to one of them, or create this one")
                .failed("StorageClassMissing"),
        ),
        None => step,
    }
}

fn issuer(cloud: &Cloud) -> Option<Ref> {
    let issuer = cloud.issuer()?;
    Some(match issuer.kind {
        IssuerKind::ClusterIssuer => Ref::cluster::<ClusterIssuer>(issuer.name.to_string()),
        IssuerKind::Issuer => Ref::namespaced::<Issuer>(&cloud.namespace, issuer.name.to_string()),
    })
}

pub(super) fn no_issuer(step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let Some(issuer) = issuer(cloud) else { return step };
    let wait: Option<Wait> = match inputs.get(&issuer) {
        Some(found) => readiness::wait(&issuer, found),
        None => Some(inputs.missing(&issuer).look_at("create it, or set spec.global.tls.enabled to false")),
    };
    match wait {
        Some(wait) => step.wait(wait.because("spec.global.tls.issuerRef names it")),
        None => step,
    }
}

//! A service's message broker: a virtual host and an account on a RabbitmqCluster, or external brokers.

use c5c3_api::blocks::{self, HostPort};
use c5c3_api::ext::NamedRef;
use c5c3_api::ext::rabbitmq::{
    Permission, PermissionSpec, Permissions, QueueType, RabbitmqCluster, RabbitmqClusterRef, User, UserSpec, Vhost,
    VhostSpec,
};
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait, hash, readiness};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::health::Check;
use crate::instance::{Instance, host};
use crate::network::Egress;
use crate::pod::Mount;
use crate::rotated_account::{RotatedAccount, RotatedAccounts};
use crate::url::escaped;

/// The ports of a broker, plain and with TLS.
const PORT: i32 = 5672;
const TLS_PORT: i32 = 5671;

/// A message broker, and a service's account and virtual host on it.
#[derive(Clone, Debug)]
pub struct Bus {
    instance: Instance,
    /// What its volumes and folders are called: `messaging`.
    name: String,
    place: Place,
    vhost: String,
    secret: Ref,
    /// The Secret of the CA certificate, and its key.
    ca: Option<(Ref, String)>,
}

#[derive(Clone, Debug)]
enum Place {
    Managed(Ref),
    External(Vec<(String, i32)>),
}

/// A broker whose account and addresses are known.
#[derive(Clone, Debug)]
pub struct BusConnection {
    bus: Bus,
    username: String,
    password: SecretString,
    addresses: Vec<(String, i32)>,
    /// Whether connections are encrypted, and the CA that the broker's certificate is from.
    tls: bool,
    ca: Option<(Ref, String)>,
}

impl Bus {
    /// The broker of a spec, or the conventional one: the RabbitmqCluster `rabbitmq`, with a virtual host of the instance's name.
    pub fn new(instance: &Instance, spec: Option<&blocks::Messaging>) -> Self {
        let secret = |name: String| Ref::namespaced::<Secret>(&instance.namespace, name);
        let place = if let Some(hosts) = spec.and_then(|spec| spec.hosts.as_ref()) {
            Place::External(hosts.iter().map(split).collect())
        } else {
            let reference = spec.and_then(|spec| spec.cluster_ref.as_ref());
            let namespace = reference.and_then(|reference| reference.namespace.as_ref()).map(ToString::to_string);
            let name = reference.map_or_else(|| "rabbitmq".to_owned(), |reference| reference.name.to_string());
            Place::Managed(Ref::namespaced::<RabbitmqCluster>(
                namespace.unwrap_or_else(|| instance.namespace.clone()),
                name,
            ))
        };
        let given = spec.and_then(|spec| spec.secret_ref.as_ref()).map(|secret| secret.name.to_string());
        let ca = spec.and_then(|spec| spec.tls.as_ref()).map(|tls| &tls.ca_secret_ref);
        let key = |key: Option<String>| key.unwrap_or_else(|| "ca.crt".into());
        Self {
            name: "messaging".into(),
            vhost: instance.name.clone(),
            secret: secret(given.unwrap_or_else(|| format!("{}-rabbitmq-credentials", instance.service))),
            ca: ca.map(|ca| (secret(ca.name.to_string()), key(ca.key.as_ref().map(ToString::to_string)))),
            instance: instance.clone(),
            place,
        }
    }

    /// What is wrong with a spec that no schema finds.
    pub fn problems(spec: Option<&blocks::Messaging>) -> Option<Problem> {
        let secret = spec.and_then(|spec| spec.secret_ref.as_ref()).filter(|secret| secret.key.is_some());
        secret.map(|_| {
            let what = "names a key, but RabbitMQ takes the account from the keys username and password";
            problem("spec.messaging.secretRef.key", what, "leave it out, and name these keys so in the Secret")
        })
    }

    /// Calls a further broker by a name of its own, which its virtual host has too.
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), vhost: self.instance.named(name), ..self }
    }

    /// What its volumes and folders are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kinds of its objects.
    pub fn children() -> [KindRef; 3] {
        [KindRef::of::<Vhost>(), KindRef::of::<User>(), KindRef::of::<Permission>()]
    }

    /// The kinds that [`Self::needs`] names.
    pub fn reads() -> [KindRef; 1] {
        [KindRef::of::<RabbitmqCluster>()]
    }

    /// What has to be read.
    pub fn needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        let cluster = match &self.place {
            Place::Managed(cluster) => Some(cluster.clone()),
            Place::External(_) => None,
        };
        let ca = self.authority(inputs).map(|(ca, _)| ca);
        let own = [Some(self.secret.clone()), cluster, ca].into_iter().flatten();
        own.chain(RotatedAccounts::needs(inputs, &self.secret)).collect()
    }

    /// The Secret of the CA that the broker's certificate is from: the spec's, or the one that its certificate came with.
    fn authority<K: Resource>(&self, inputs: &Inputs<K>) -> Option<(Ref, String)> {
        let own = || {
            let Place::Managed(reference) = &self.place else { return None };
            let secret = tls_secret(inputs.get(reference)?)?;
            // A Secret of another namespace cannot be mounted.
            let near = reference.namespace.as_deref() == Some(self.instance.namespace.as_str());
            near.then(|| (Ref::namespaced::<Secret>(&self.instance.namespace, secret), "ca.crt".to_owned()))
        };
        self.ca.clone().or_else(own)
    }

    /// The account and the addresses, or the waits for both: those for Secrets, and those for the broker.
    pub fn connect<K: Resource>(
        &self,
        inputs: &Inputs<K>,
        at_once: bool,
    ) -> Result<BusConnection, (Vec<Wait>, Vec<Wait>)> {
        let because = "the service signs in to its message broker with it";
        let value = |key: &str| {
            let wait = inputs.secret(&self.secret, key);
            wait.map_err(|wait| wait.because(because).with_reason("WaitingForMQCredentials"))
        };
        let ca = self.authority(inputs);
        let trusted = ca.as_ref().map(|(ca, key)| {
            let because = "the broker's certificate is verified with it";
            inputs.secret(ca, key).map_err(|wait| wait.because(because).with_reason("WaitingForMQCertificate"))
        });
        let rotated = RotatedAccounts::find(inputs, &self.secret).err();
        match (value("username"), value("password"), self.addresses(inputs, at_once), trusted.transpose()) {
            (Ok(username), Ok(password), Ok((addresses, tls)), Ok(_)) if rotated.is_none() => Ok(BusConnection {
                bus: self.clone(),
                username: username.expose_secret().to_owned(),
                password,
                addresses,
                tls: tls || ca.is_some(),
                ca,
            }),
            (username, password, addresses, trusted) => {
                let mut secrets: Vec<Wait> =
                    [username.err(), password.err(), trusted.err(), rotated].into_iter().flatten().collect();
                secrets.dedup();
                Err((secrets, addresses.err().into_iter().collect()))
            }
        }
    }

    fn addresses<K: Resource>(&self, inputs: &Inputs<K>, at_once: bool) -> Result<(Vec<(String, i32)>, bool), Wait> {
        let reference = match &self.place {
            Place::External(hosts) => return Ok((hosts.clone(), hosts.iter().any(|(_, port)| *port == TLS_PORT))),
            Place::Managed(reference) => reference,
        };
        let because = format!("it holds the virtual host {}", self.vhost);
        let missing = || inputs.missing(reference).because(because.clone()).with_reason("WaitingForRabbitMQ");
        let cluster = inputs.get(reference).ok_or_else(missing)?;
        if let Some(wait) = readiness::wait(reference, cluster).filter(|_| !at_once) {
            return Err(wait.because(because).with_reason("WaitingForRabbitMQ"));
        }
        let tls = tls_secret(cluster).is_some();
        let namespace = reference.namespace.as_deref().unwrap_or(&self.instance.namespace);
        let nodes = cluster.data["spec"]["replicas"].as_i64().unwrap_or(1);
        let port = if tls { TLS_PORT } else { PORT };
        let node = |index: i64| {
            let name = format!("{0}-server-{index}.{0}-nodes", reference.name);
            (host(&name, namespace), port)
        };
        // Each node by its own name, so that a client finds another one when its node is gone.
        Ok(((0..nodes).map(node).collect(), tls))
    }

    /// Virtual host, users and permissions on a RabbitmqCluster; nothing on external brokers, where they must exist.
    pub fn objects(&self, rotated: &RotatedAccounts) -> Vec<Child> {
        let (Some(base), Some(reference)) = (self.base(), self.reference()) else { return Vec::new() };
        let mut vhost = Vhost::new(
            &base,
            VhostSpec {
                rabbitmq_cluster_reference: reference,
                name: self.vhost.clone(),
                default_queue_type: Some(QueueType::Quorum),
                ..VhostSpec::default()
            },
        );
        vhost.metadata = self.instance.meta(&base, "messaging");
        let mut children = vec![Child::new(&vhost)];
        if rotated.kept.is_empty() {
            let usual = self.secret.name == format!("{}-rabbitmq-credentials", self.instance.service);
            children.extend(self.account_objects(usual, &self.secret.name, &self.secret.name));
        }
        for account in &rotated.kept {
            children.extend(self.account_of(account));
        }
        children
    }

    fn reference(&self) -> Option<RabbitmqClusterRef> {
        let Place::Managed(cluster) = &self.place else { return None };
        let namespace = cluster.namespace.clone().filter(|other| *other != self.instance.namespace);
        Some(RabbitmqClusterRef { namespace, ..RabbitmqClusterRef::new(&cluster.name) })
    }

    /// What the objects are called; none on external brokers. None of them can be moved or renamed: another broker or account is
    /// another object.
    fn base(&self) -> Option<String> {
        let (Place::Managed(cluster), reference) = (&self.place, self.reference()?) else { return None };
        let usual = cluster.name == "rabbitmq" && reference.namespace.is_none();
        Some(moved(usual, &self.vhost, &cluster.to_string()))
    }

    /// What objects are called that all virtual hosts of one broker share: whoever deletes a User deletes the account.
    fn shared_base(&self) -> Option<String> {
        Self { vhost: self.instance.name.clone(), ..self.clone() }.base()
    }

    fn account_of(&self, account: &RotatedAccount) -> Vec<Child> {
        self.account_objects(account.username == self.instance.service, &account.username, &account.secret)
    }

    /// The user of an account, which `what` is the name of unless it is the usual one, and its permission for the virtual host.
    fn account_objects(&self, usual: bool, what: &str, secret: &str) -> Vec<Child> {
        let (Some(reference), Some(base), Some(shared)) = (self.reference(), self.base(), self.shared_base()) else {
            return Vec::new();
        };
        let (user, permitted) = (moved(usual, &shared, what), moved(usual, &base, what));
        let secret = Some(NamedRef { name: secret.to_owned() });
        let mut account = User::new(
            &user,
            UserSpec {
                rabbitmq_cluster_reference: reference.clone(),
                import_credentials_secret: secret,
                ..UserSpec::default()
            },
        );
        account.metadata = self.instance.meta(&user, "messaging");
        let mut permission = Permission::new(
            &permitted,
            PermissionSpec {
                rabbitmq_cluster_reference: reference,
                vhost: self.vhost.clone(),
                user_reference: Some(NamedRef { name: user.clone() }),
                permissions: Permissions::all(),
                ..PermissionSpec::default()
            },
        );
        permission.metadata = self.instance.meta(&permitted, "messaging");
        vec![Child::new(&account), Child::new(&permission)]
    }

    /// The Secret that the service reads its account from.
    pub(crate) fn secret(&self) -> &Ref {
        &self.secret
    }

    /// The user and the permission of an account.
    pub(crate) fn objects_of(&self, account: &RotatedAccount) -> Vec<Ref> {
        self.account_of(account).iter().map(Child::reference).collect()
    }

    fn folder(&self) -> String {
        format!("/etc/{}-tls", self.name)
    }
}

impl BusConnection {
    /// `transport_url`: every node, with the account.
    pub fn url(&self) -> SecretString {
        let (user, password) = (escaped(&self.username), escaped(self.password.expose_secret()));
        let bracketed = |host: &String| if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let nodes = self.addresses.iter().map(|(host, port)| format!("{user}:{password}@{}:{port}", bracketed(host)));
        let nodes: Vec<String> = nodes.collect();
        format!("rabbit://{}/{}", nodes.join(","), escaped(&self.bus.vhost)).into()
    }

    /// The nodes, and the virtual host as it is in a URL.
    pub fn place(&self) -> (&[(String, i32)], String) {
        (&self.addresses, escaped(&self.bus.vhost))
    }

    /// `transport_url` and `[oslo_messaging_rabbit]`: replicated queues, and TLS if the broker speaks it.
    pub fn configure(&self, conf: &mut Ini) -> Result<(), IniError> {
        const SECTION: &str = "oslo_messaging_rabbit";
        conf.set("DEFAULT", "transport_url", self.url())?;
        conf.set(SECTION, "rabbit_quorum_queue", true)?;
        conf.set(SECTION, "rabbit_transient_quorum_queue", true)?;
        // A thread of its own answers heartbeats while the service computes.
        conf.set(SECTION, "heartbeat_in_pthread", true)?;
        if self.tls {
            conf.set(SECTION, "ssl", true)?;
            if let Some((_, key)) = &self.ca {
                conf.set(SECTION, "ssl_ca_file", format!("{}/{key}", self.bus.folder()))?;
            }
        }
        Ok(())
    }

    /// What `accounts.py` tries another account with.
    pub(crate) fn connection_of(&self, account: &RotatedAccount) -> Value {
        json!({
            "addresses": self.addresses, "userid": account.username, "password": account.password.expose_secret(),
            "virtual_host": self.bus.vhost, "ssl": self.tls,
            "ca": self.ca.as_ref().map(|(_, key)| format!("{}/{key}", self.bus.folder())),
        })
    }

    /// The name of the account in use.
    pub(crate) fn username(&self) -> &str {
        &self.username
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The certificate that pods mount.
    pub fn mounts(&self) -> Vec<Mount> {
        let name = format!("{}-ca", self.bus.name);
        let mount =
            |(secret, key): &(Ref, String)| Mount::secret_items(&name, &secret.name, &self.bus.folder(), &[(key, key)]);
        self.ca.iter().map(mount).collect()
    }

    /// What a pod checks to be ready.
    pub fn check(&self) -> Check {
        Check::AnyOf(self.addresses.clone())
    }

    /// What pods have to reach.
    pub fn egress(&self) -> Vec<Egress> {
        let namespace = match &self.bus.place {
            Place::Managed(cluster) => cluster.namespace.clone(),
            Place::External(_) => None,
        };
        self.addresses.iter().map(|(_, port)| Egress::new(namespace.clone(), *port)).collect()
    }
}

fn moved(usual: bool, base: &str, what: &str) -> String {
    if usual { base.to_owned() } else { hash::named(base, &hash::short(what.as_bytes())) }
}

fn tls_secret(cluster: &kube::api::DynamicObject) -> Option<String> {
    cluster.data["spec"]["tls"]["secretName"].as_str().map(ToOwned::to_owned)
}

fn split(address: &HostPort) -> (String, i32) {
    let text = address.to_string();
    let (host, port) = text.rsplit_once(':').unwrap_or((&text, ""));
    (host.trim_matches(['[', ']']).to_owned(), port.parse().unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_kit::inputs::Found;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn bus(spec: &Value) -> Bus {
        let instance = Instance { service: "kestrel", name: "gate".into(), namespace: "cloud".into() };
        Bus::new(&instance, Some(&serde_json::from_value(spec.clone()).unwrap()))
    }

    fn inputs(bus: &Bus, cluster: Option<&Value>) -> Inputs<ConfigMap> {
        let mut inputs = Inputs::new(ConfigMap::default(), jiff::Timestamp::UNIX_EPOCH);
        let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "any", "namespace": "cloud"}, "data": data});
        let all = secret(json!({"username": "Z2F0ZQ==", "password": "YS9i", "ca.crt": "Q0E="}));
        let mut found: Vec<Value> = cluster.cloned().into_iter().collect();
        found.push(all);
        for object in &found {
            for need in bus.needs(&inputs).into_iter().filter(|need| object["kind"] == need.resource.kind.as_str()) {
                if !inputs.has_read(&need) {
                    inputs.insert(need, Found::Object(Box::new(serde_json::from_value(object.clone()).unwrap())));
                }
            }
        }
        inputs
    }

    fn cluster(tls: bool) -> Value {
        let mut cluster = json!({"apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster",
            "metadata": {"name": "rabbitmq", "namespace": "cloud", "generation": 1}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 1, "conditions": [
                {"type": "AllReplicasReady", "status": "True"}, {"type": "ClusterAvailable", "status": "True"},
                {"type": "ReconcileSuccess", "status": "True"}]}});
        if tls {
            cluster["spec"]["tls"] = json!({"secretName": "rabbitmq-tls"});
        }
        cluster
    }

    #[test]
    fn every_node_of_a_cluster_is_in_the_url_with_the_account_escaped() {
        let bus = bus(&json!({}));
        let connected = bus.connect(&inputs(&bus, Some(&cluster(false))), false).unwrap();
        assert_eq!(
            connected.url().expose_secret(),
            "rabbit://gate:a%2Fb@rabbitmq-server-0.rabbitmq-nodes.cloud.svc.cluster.local:5672,\
             gate:a%2Fb@rabbitmq-server-1.rabbitmq-nodes.cloud.svc.cluster.local:5672/gate"
        );
        let names: Vec<String> =
            bus.objects(&RotatedAccounts::default()).iter().map(|child| child.reference().short()).collect();
        assert_eq!(names, ["vhost/gate", "user/gate", "permission/gate"]);
    }

    #[test]
    fn virtual_hosts_of_one_broker_share_the_account_and_have_a_permission_each() {
        let bus = bus(&json!({})).named("cell2");
        let names: Vec<String> =
            bus.objects(&RotatedAccounts::default()).iter().map(|child| child.reference().short()).collect();
        assert_eq!(names, ["vhost/gate-cell2", "user/gate", "permission/gate-cell2"]);
    }

    #[test]
    fn a_broker_with_tls_is_trusted_by_the_ca_of_its_certificate() {
        let bus = bus(&json!({}));
        let connected = bus.connect(&inputs(&bus, Some(&cluster(true))), false).unwrap();
        let mut conf = Ini::new();
        connected.configure(&mut conf).unwrap();
        let text = conf.render();
        let text = text.expose_secret();
        assert!(text.contains("ssl_ca_file = /etc/messaging-tls/ca.crt") && text.contains(":5671"), "{text}");
        assert_eq!(connected.mounts().len(), 1);
    }

    #[test]
    fn external_brokers_have_no_objects_and_a_ca_of_the_spec() {
        let spec =
            json!({"hosts": ["mq1.example.net:5671", "[2001:db8::1]:5671"], "tls": {"caSecretRef": {"name": "mq-ca"}}});
        let bus = bus(&spec);
        assert!(bus.objects(&RotatedAccounts::default()).is_empty());
        let connected = bus.connect(&inputs(&bus, None), false).unwrap();
        assert!(connected.tls);
        assert_eq!(connected.egress()[0], Egress::new(None, 5671));
        assert_eq!(connected.addresses[1].0, "2001:db8::1");
    }

    #[test]
    fn what_is_missing_is_said_of_the_account_and_of_the_broker() {
        let bus = bus(&json!({}));
        let nothing = Inputs::new(ConfigMap::default(), jiff::Timestamp::UNIX_EPOCH);
        let (secrets, broker) = bus.connect(&nothing, false).unwrap_err();
        assert_eq!((secrets.len(), broker.len()), (1, 1));
        assert_eq!(broker[0].reason(), "WaitingForRabbitMQ");
    }
}

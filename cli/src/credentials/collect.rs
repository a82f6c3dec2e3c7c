//! Finds the credentials among the objects of a cluster.

use std::collections::BTreeSet;

use c5c3_api::ext::{rabbitmq, valkey};
use c5c3_api::openstack::Keystone;
use c5c3_cortex_server::DeschedulingSettings;
use c5c3_operator_hypervisor::Settings as Hypervisors;
use jiff::Timestamp;
use serde_json::Value;

use super::secrets::Secrets;
use super::{Credential, Rotation, What};
use crate::status::delivery::{keystone_name, keystone_user, secrets_of};
use crate::status::{Object, World};

/// The annotation of Keystone's keys that says since when which one is the primary: `<key>=<time>`.
const PRIMARY_SINCE: &str = "keystone.openstack.c5c3.io/primary-since";

const ORC: &str = "openstack.k-orc.cloud";

/// Every credential, by namespace and owner.
pub(super) fn all(world: &World, secrets: &Secrets) -> Vec<Credential> {
    let search = Search { world, secrets };
    let mut found = Vec::new();
    for object in &world.objects {
        let group = object.reference.resource.group.as_str();
        match (group, object.kind()) {
            ("c5c3.io", "CredentialRotation") => found.push(search.rotation(object)),
            (ORC, "ApplicationCredential") => found.extend(search.application_credential(object)),
            (ORC, "User") => found.extend(search.user(object)),
            ("keystone.openstack.c5c3.io", "Keystone") => found.extend(search.keystone(object)),
            ("k8s.mariadb.com", "MariaDB") => found.extend(search.root(object)),
            ("k8s.mariadb.com", "User") => found.extend(search.database(object)),
            ("rabbitmq.com", "RabbitmqCluster") => found.push(search.default_user(object)),
            ("rabbitmq.com", "User") => found.extend(search.broker(object)),
            (_, "Valkey") => found.push(search.cache(object)),
            ("cert-manager.io", "Certificate") => found.push(search.certificate(object)),
            _ => {}
        }
    }
    found.sort_by_key(|one| (one.namespace.clone(), one.owner.clone(), one.what, one.object.clone()));
    found
}

struct Search<'a> {
    world: &'a World,
    secrets: &'a Secrets,
}

impl Search<'_> {
    /// A credential that is a Secret's whole content, and that nothing replaces.
    fn held(&self, what: What, object: &Object, owner: impl Into<String>, secret: Option<&str>) -> Credential {
        let namespace = object.namespace().unwrap_or_default().to_owned();
        let used_by = secret.map(|secret| self.users(&namespace, secret)).unwrap_or_default();
        let created = secret.and_then(|secret| self.secrets.since(&namespace, secret));
        let missing = secret.filter(|secret| self.secrets.lacks(&namespace, secret));
        let says = object.wait.as_ref().map(|wait| wait.now.clone().unwrap_or_else(|| wait.condition.clone()));
        Credential {
            what,
            owner: owner.into(),
            object: object.reference.short(),
            secret: secret.map(str::to_owned),
            used_by,
            created,
            rotation: Rotation::ByHand,
            expires: None,
            says: says.or_else(|| missing.map(|secret| format!("the Secret {secret} does not exist"))),
            namespace,
        }
    }

    /// The credential that a CredentialRotation keeps young.
    fn rotation(&self, object: &Object) -> Credential {
        let names = secrets_of(self.world, object);
        let user = object.text("/spec/targetServiceUser").unwrap_or_default();
        let what = match object.text("/spec/rotationType") {
            Some("databaseAccount") => What::Database,
            Some("brokerAccount") => What::Broker,
            Some("cephUser") => What::Ceph,
            _ => What::ApplicationCredential,
        };
        let owner = if what == What::ApplicationCredential {
            keystone_user(self.world, user, object.namespace()).map_or_else(|| user.to_owned(), keystone_name)
        } else {
            object.text("/status/currentCredential/id").unwrap_or(user).to_owned()
        };
        let mut credential = self.held(what, object, owner, names.first().map(String::as_str));
        let consumers = object.list("/spec/consumers").iter().filter_map(|consumer| {
            Some(format!("{}/{}", consumer["kind"].as_str()?.to_lowercase(), consumer["name"].as_str()?))
        });
        let consumers: Vec<String> = consumers.collect();
        if !consumers.is_empty() {
            credential.used_by = consumers;
        } else if credential.used_by.is_empty() {
            credential.used_by.extend(names.first().and_then(|secret| reader(secret)).map(str::to_owned));
        }
        let made = time(object, "/status/currentCredential/createdAt").or_else(|| time(object, "/status/lastRotation"));
        credential.created = made.or(credential.created);
        credential.expires = time(object, "/status/currentCredential/expiresAt");
        let next = time(object, "/status/nextRotation").map_or(Rotation::ByHand, Rotation::At);
        credential.rotation = match object.text("/status/phase") {
            Some("Creating" | "Delivering" | "Verifying") => Rotation::Now,
            _ => next,
        };
        credential
    }

    /// One that no rotation looks after, or that a rotation is about to revoke.
    fn application_credential(&self, object: &Object) -> Option<Credential> {
        let name = Some(object.reference.name.as_str());
        let here = |rotation: &&Object| rotation.namespace() == object.namespace();
        let rotations = || self.world.of_kind("CredentialRotation").filter(here);
        if rotations().any(|rotation| rotation.text("/status/currentCredentialRef/name") == name) {
            return None;
        }
        let former = rotations().find(|rotation| rotation.text("/status/previousCredentialRef/name") == name);
        let user = object.text("/spec/resource/userRef").unwrap_or_default();
        let owner = keystone_user(self.world, user, object.namespace()).map_or_else(|| user.to_owned(), keystone_name);
        let secret = object.text("/spec/resource/secretRef");
        let mut credential = self.held(What::ApplicationCredential, object, owner, secret);
        credential.created = credential.created.or_else(|| time(object, "/metadata/creationTimestamp"));
        credential.expires = time(object, "/spec/resource/expiresAt");
        if let Some(rotation) = former {
            credential.used_by = vec!["nothing: it is replaced".to_owned()];
            credential.rotation = Rotation::WithIts;
            let revoked = time(rotation, "/status/previousCredential/revokeAt");
            credential.expires = revoked.or(credential.expires);
        }
        Some(credential)
    }

    /// An account on a server. The one in use is listed with its rotation, if it has one; the one before it is about to go.
    fn account(&self, credential: Credential, object: &Object) -> Option<Credential> {
        let secret = credential.secret.clone();
        let here = |rotation: &&Object| rotation.namespace() == object.namespace();
        let rotations = || self.world.of_kind("CredentialRotation").filter(here);
        let is = |rotation: &Object, place: &str| secret.is_some() && rotation.text(place) == secret.as_deref();
        if rotations().any(|rotation| is(rotation, "/status/currentCredentialRef/name")) {
            return None;
        }
        let mut credential = self.of_owner(credential, object);
        if let Some(rotation) = rotations().find(|rotation| is(rotation, "/status/previousCredentialRef/name")) {
            credential.used_by = vec!["nothing: it is replaced".to_owned()];
            credential.rotation = Rotation::WithIts;
            credential.expires = time(rotation, "/status/previousCredential/revokeAt");
        }
        Some(credential)
    }

    /// The password of a user of Keystone: it makes application credentials, and no service signs in with it.
    fn user(&self, object: &Object) -> Option<Credential> {
        let secret = object.text("/spec/resource/passwordRef")?;
        let mut credential = self.held(What::UserPassword, object, keystone_name(object), Some(secret));
        let name = object.reference.name.as_str();
        let rotations = self.world.of_kind("CredentialRotation").filter(|rotation| {
            rotation.namespace() == object.namespace() && rotation.text("/spec/targetServiceUser") == Some(name)
        });
        credential.used_by.extend(rotations.map(|rotation| rotation.reference.short()));
        Some(credential)
    }

    fn keystone(&self, object: &Object) -> Vec<Credential> {
        let (name, namespace) = (object.reference.name.as_str(), object.namespace().unwrap_or_default());
        let admin = object.text("/spec/bootstrap/adminPasswordSecretRef/name").unwrap_or("keystone-admin-credentials");
        let user = object.text("/spec/bootstrap/adminUser").unwrap_or("admin");
        let typed = serde_json::from_value::<Keystone>(object.value.clone()).ok();
        let schedules = typed.map(|keystone| {
            let stored = keystone.spec.credential_keys.unwrap_or_default();
            [keystone.spec.fernet.rotation_schedule, stored.rotation_schedule]
        });
        let purposes = [("fernet", What::FernetKeys), ("credential", What::CredentialKeys)];
        let keys = purposes.into_iter().enumerate().map(|(index, (purpose, what))| {
            let secret = format!("{name}-{purpose}-keys");
            let mut keys = self.held(what, object, name, Some(&secret));
            let since = self.secrets.annotation(namespace, &secret, PRIMARY_SINCE);
            let since = since.and_then(|since| since.split_once('=')?.1.parse().ok());
            keys.created = since.or(keys.created);
            let next = schedules.as_ref().and_then(|schedules| schedules[index].next_after(self.world.now));
            keys.rotation = next.map_or(Rotation::ByHand, Rotation::At);
            keys
        });
        let mut all: Vec<Credential> = keys.collect();
        all.insert(0, self.held(What::Administrator, object, user, Some(admin)));
        // How Keystone itself is, is not the credentials' concern.
        for credential in &mut all {
            let secret = credential.secret.as_deref().unwrap_or_default();
            let is_gone = self.secrets.lacks(namespace, secret);
            credential.says = is_gone.then(|| format!("the Secret {secret} does not exist"));
            if credential.used_by.is_empty() {
                credential.used_by = vec![object.reference.short()];
            }
        }
        all
    }

    fn root(&self, object: &Object) -> Option<Credential> {
        let secret = object.text("/spec/rootPasswordSecretKeyRef/name")?;
        Some(self.of_server(self.held(What::Database, object, "root", Some(secret)), object))
    }

    fn database(&self, object: &Object) -> Option<Credential> {
        let secret = object.text("/spec/passwordSecretKeyRef/name")?;
        let account = object.text("/spec/name").unwrap_or(&object.reference.name);
        self.account(self.held(What::Database, object, account, Some(secret)), object)
    }

    fn default_user(&self, object: &Object) -> Credential {
        let named = object.text("/status/defaultUser/secretReference/name").map(str::to_owned);
        let secret = named.unwrap_or_else(|| rabbitmq::default_user_secret(&object.reference.name));
        self.of_server(self.held(What::Broker, object, "default user", Some(&secret)), object)
    }

    fn broker(&self, object: &Object) -> Option<Credential> {
        let named =
            object.text("/status/credentials/name").or_else(|| object.text("/spec/importCredentialsSecret/name"));
        let secret = named.map_or_else(|| rabbitmq::user_credentials_secret(&object.reference.name), str::to_owned);
        let account = object.text("/status/username").unwrap_or(&object.reference.name);
        self.account(self.held(What::Broker, object, account, Some(&secret)), object)
    }

    fn cache(&self, object: &Object) -> Credential {
        let named = object.text("/spec/binding/secretName").map(str::to_owned);
        let secret = named.unwrap_or_else(|| valkey::binding_secret(&object.reference.name));
        self.of_server(self.held(What::Cache, object, object.reference.name.as_str(), Some(&secret)), object)
    }

    fn certificate(&self, object: &Object) -> Credential {
        let host = object.list("/spec/dnsNames").first().and_then(Value::as_str);
        let owner = object.text("/spec/commonName").or(host).unwrap_or(&object.reference.name);
        let mut credential = self.held(What::Certificate, object, owner, object.text("/spec/secretName"));
        credential.created = time(object, "/status/notBefore").or(credential.created);
        credential.expires = time(object, "/status/notAfter");
        credential.rotation = time(object, "/status/renewalTime").map_or(Rotation::Now, Rotation::At);
        self.of_owner(credential, object)
    }

    /// How a server is, is not its credential's concern.
    fn of_server(&self, credential: Credential, object: &Object) -> Credential {
        let secret = credential.secret.clone().unwrap_or_default();
        let is_gone = self.secrets.lacks(&credential.namespace, &secret);
        let says = is_gone.then(|| format!("the Secret {secret} does not exist"));
        let used_by =
            if credential.used_by.is_empty() { vec![object.reference.short()] } else { credential.used_by.clone() };
        Credential { used_by, says, ..credential }
    }

    /// What has it made uses it, where no pod mounts it itself: services have it in their configuration.
    fn of_owner(&self, credential: Credential, object: &Object) -> Credential {
        if !credential.used_by.is_empty() {
            return credential;
        }
        let uids: BTreeSet<&str> =
            object.list("/metadata/ownerReferences").iter().filter_map(|owner| owner["uid"].as_str()).collect();
        let owners = self.world.objects.iter().filter(|owner| owner.uid().is_some_and(|uid| uids.contains(uid)));
        Credential { used_by: owners.map(|owner| owner.reference.short()).collect(), ..credential }
    }

    /// The workloads whose pods have a Secret.
    fn users(&self, namespace: &str, secret: &str) -> Vec<String> {
        let kinds = ["Deployment", "StatefulSet", "DaemonSet"];
        let workloads = kinds.iter().flat_map(|kind| self.world.of_kind(kind));
        let has = |workload: &&Object| {
            workload.namespace() == Some(namespace) && mentions(&workload.value["spec"]["template"]["spec"], secret)
        };
        workloads.filter(has).map(|workload| workload.reference.short()).collect()
    }
}

/// What reads a Secret by its name from the API, so that no pod mounts it.
fn reader(secret: &str) -> Option<&'static str> {
    let readers = [
        (Hypervisors::default().cloud.name, "operator hypervisor"),
        (c5c3_operator_ha::CLOUDS_SECRET.to_owned(), "operator ha"),
        (DeschedulingSettings::default().clouds_secret, "scheduler of Cortex"),
    ];
    readers.into_iter().find(|(name, _)| name == secret).map(|(_, reader)| reader)
}

/// Whether a pod has a Secret, as a volume or in its environment.
fn mentions(value: &Value, secret: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(field, value)| match field.as_str() {
            "secretName" => value == secret,
            "secret" | "secretKeyRef" | "secretRef" => value["name"] == secret || mentions(value, secret),
            _ => mentions(value, secret),
        }),
        Value::Array(items) => items.iter().any(|item| mentions(item, secret)),
        _ => false,
    }
}

fn time(object: &Object, pointer: &str) -> Option<Timestamp> {
    object.text(pointer)?.parse().ok()
}

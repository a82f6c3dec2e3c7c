//! The users that services sign in as, their roles, and the rotation of their application credentials.

use c5c3_api::blocks::{AppCredentialRef, SecretKeyRef};
use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, CredentialRotation, ServiceUser};
use c5c3_api::orc::{RoleAssignment, User};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Inputs, Ref, Step, Wait, random_secret, readiness};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::cloud::Cloud;
use super::super::part::{Asked, Part};
use super::super::parts::{CREDENTIALS_KORC, KORC};
use super::super::services;
use super::access::KORC_USER;
use super::catalog::ENTRIES;
use super::object::{As, child, detached, managed, slug};
use super::programs::{self, CREDENTIAL, PROGRAMS};
use super::{foreign, imports};

/// What the name of a part with credentials begins with. The user's name in Keystone comes after it.
pub(super) const PART: &str = "credentials-";

/// The part of the users that belong to no service of the ControlPlane.
const OTHERS: &str = "credentials-others";

/// The roles of a user that names none.
pub(super) const ROLES: [&str; 2] = ["admin", "service"];

/// How long a credential lives, when it is replaced, and how long the old one is still good.
const INTERVAL_DAYS: i32 = 90;
const PRE_ROTATION_DAYS: i32 = 7;
const GRACE_DAYS: i32 = 1;

/// A user, and how its service signs in.
pub(super) struct Account {
    /// The name in Keystone.
    pub(super) name: String,
    /// The service whose user it is.
    service: Option<&'static Part>,
    pub(super) project: String,
    pub(super) roles: Vec<String>,
    /// The roles of its credential, if they are not all of its own.
    pub(super) credential_roles: Vec<String>,
    password: Option<SecretKeyRef>,
    /// Whether it has an application credential.
    is_credential_made: bool,
    /// The Secret that its credential is delivered in, if that is not the usual one of services.
    secret: Option<&'static str>,
    /// Whether nothing of the ControlPlane signs in as this user.
    is_other: bool,
}

/// All users of a cloud.
pub(super) fn accounts(cloud: &Cloud) -> Vec<Account> {
    let given = service_users(&cloud.spec);
    let of = |name: &str| given.iter().find(|user| user.name == name);
    let services = ENTRIES.iter().map(|entry| entry.part).filter(|part| cloud.has(part));
    let services =
        services.map(|part| Account { service: Some(part), ..Account::new(part.name, &ROLES, of(part.name)) });
    let own = cloud.has(&CREDENTIALS_KORC).then(|| Account::new(KORC_USER, &ROLES, of(KORC_USER)));
    let programs = PROGRAMS.iter().filter(|program| cloud.has(program.part));
    let programs = programs.map(|program| program.account(of(program.name())));
    let others = others(&cloud.spec);
    let others = others.map(|user| Account { is_other: true, ..Account::new(&user.name, &ROLES, Some(user)) });
    services.chain(own).chain(programs).chain(others).collect()
}

fn service_users(spec: &ControlPlaneSpec) -> &[ServiceUser] {
    let keystone = spec.identity.as_ref().and_then(|identity| identity.keystone.as_ref());
    let bootstrap = keystone.and_then(|keystone| keystone.bootstrap.as_ref());
    bootstrap.map(|bootstrap| bootstrap.service_users.as_slice()).unwrap_or_default()
}

/// The users that belong to no service of the ControlPlane.
fn others(spec: &ControlPlaneSpec) -> impl Iterator<Item = &ServiceUser> {
    let is_asked = |part: &Part| (part.asked)(spec) == Asked::Yes;
    let known = || {
        let services = ENTRIES.iter().map(|entry| (entry.part.name, entry.part));
        services.chain(PROGRAMS.iter().map(|program| (program.name(), program.part)))
    };
    let is_known = move |name: &str| known().any(|(known, part)| known == name && is_asked(part));
    service_users(spec).iter().filter(move |user| user.name != KORC_USER && !is_known(&user.name))
}

/// Whether a ControlPlane asks for users that belong to no service.
pub(crate) fn has_others(spec: &ControlPlaneSpec) -> bool {
    others(spec).next().is_some()
}

impl Account {
    /// A user with these roles, unless the ControlPlane says otherwise.
    pub(super) fn new(name: &str, usual: &[&str], given: Option<&ServiceUser>) -> Self {
        let credential = given.and_then(|user| user.application_credential.as_ref());
        let roles = given.map(|user| user.roles.clone()).filter(|roles| !roles.is_empty());
        Self {
            name: name.to_owned(),
            service: None,
            project: given.map_or_else(|| "service".into(), |user| user.project.clone()),
            roles: roles.unwrap_or_else(|| usual.iter().copied().map(Into::into).collect()),
            credential_roles: credential.map(|credential| credential.roles.clone()).unwrap_or_default(),
            password: given.and_then(|user| user.password_secret_ref.clone()),
            is_credential_made: credential.is_none_or(|credential| credential.enabled),
            secret: None,
            is_other: false,
        }
    }

    /// The same, with its credential in this Secret.
    pub(super) fn delivered_in(self, secret: &'static str) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// The name of its User.
    pub(super) fn user(&self) -> String {
        format!("{}-service-user", slug(&self.name))
    }

    /// The name of its CredentialRotation.
    pub(super) fn rotation(&self) -> String {
        format!("{}-rotation", slug(&self.name))
    }

    fn password_secret(&self) -> String {
        format!("{}-service-password", slug(&self.name))
    }

    /// The Secret with its password: random, or a copy under the key that K-ORC reads.
    fn password(&self, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Child, Wait> {
        let name = self.password_secret();
        let Some(given) = &self.password else {
            return Ok(random_secret::child(&cloud.namespace, &name, &[], &["password"]));
        };
        let source = Ref::namespaced::<Secret>(&cloud.namespace, given.name.to_string());
        let password = inputs.secret(&source, given.key.as_str()).map_err(|wait| {
            let field = "spec.identity.keystone.bootstrap.serviceUsers";
            wait.because(format!("passwordSecretRef of {} in {field} names it", self.name)).failed("SecretMissing")
        })?;
        let metadata =
            ObjectMeta { name: Some(name), namespace: Some(cloud.namespace.clone()), ..ObjectMeta::default() };
        let value = ByteString(password.expose_secret().as_bytes().to_vec());
        let data = Some([("password".to_owned(), value)].into());
        Ok(Child::new(&Secret { metadata, data, type_: Some("Opaque".into()), ..Secret::default() }))
    }

    /// With which Secret the user is kept: K-ORC could not delete its own with the credential of that very user.
    fn kept_as(&self) -> As {
        if self.name == KORC_USER { As::Administrator } else { As::Korc }
    }

    /// Has what belongs to K-ORC's own user deleted after all other users, which are deleted with its credential.
    fn in_turn(&self, child: Child) -> Child {
        if self.name == KORC_USER { child.last_of_its_kind() } else { child }
    }

    fn user_child(&self, cloud: &Cloud, description: &str) -> Child {
        let mut fields = json!({
            "name": self.name,
            "description": description,
            "defaultProjectRef": imports::project(&self.project),
            "passwordRef": self.password_secret(),
        });
        if let Some(domain) = imports::domain(cloud) {
            fields["domainRef"] = domain.into();
        }
        self.in_turn(managed::<User>(cloud, self.kept_as(), &self.user(), &fields))
    }

    /// The role that goes with the user: without a role it could not sign in to revoke its own credential.
    fn last_role(&self) -> Option<&String> {
        self.roles.iter().find(|role| *role == "service").or(self.roles.last())
    }

    fn assignments(&self, cloud: &Cloud) -> impl Iterator<Item = Child> {
        self.roles.iter().map(|role| {
            let name = format!("{}-{}", self.user(), slug(role));
            let fields = json!({"userRef": self.user(), "projectRef": imports::project(&self.project),
                "roleRef": imports::role(role)});
            self.in_turn(if Some(role) == self.last_role() {
                detached::<RoleAssignment>(cloud, self.kept_as(), &name, &fields)
            } else {
                managed::<RoleAssignment>(cloud, self.kept_as(), &name, &fields)
            })
        })
    }

    fn rotation_child(&self, cloud: &Cloud) -> Option<Child> {
        let mut spec = rotation(&self.user(), "applicationCredential");
        if let Some(kind) = self.service.and_then(Part::kind) {
            let name = self.service.map(|part| part.name);
            spec["consumers"] =
                json!([{"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}]);
        }
        if self.name == KORC_USER {
            // A restricted credential cannot create or delete credentials and trusts.
            spec["unrestricted"] = true.into();
        }
        if let Some(secret) = self.secret {
            spec["targetSecretRef"] = json!({ "name": secret });
        }
        // A credential has the roles that its user has when it is made, and gets none that is assigned later. So they are named, and
        // there by then; another one in the list is a reason to replace the credential.
        let roles = if self.credential_roles.is_empty() { &self.roles } else { &self.credential_roles };
        spec["roles"] = roles.iter().map(|role| imports::role(role)).collect();
        let child = self.is_credential_made.then(|| child::<CredentialRotation>(cloud, &self.rotation(), &spec));
        child.map(|child| self.in_turn(child).in_order())
    }

    fn add(&self, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
        let step = match foreign::check(self, cloud, inputs) {
            Ok(()) => step,
            Err(wait) => step.wait(wait),
        };
        let step = match self.password(cloud, inputs) {
            Ok(secret) => step.child(secret),
            Err(wait) => step.wait(wait),
        };
        step.child(self.user_child(cloud, &foreign::description(cloud, &inputs.object.name_any())))
            .children(self.assignments(cloud))
            .children(self.rotation_child(cloud))
    }
}

/// The spec of a rotation, without its consumers.
pub(crate) fn rotation(of: &str, kind: &str) -> Value {
    json!({
        "targetServiceUser": of,
        "rotationType": kind,
        "schedule": {"intervalDays": INTERVAL_DAYS, "preRotationDays": PRE_ROTATION_DAYS},
        "gracePeriodDays": GRACE_DAYS,
    })
}

/// Names of credentials that cannot be kept: a rotation numbers them, and writes the Secret that services know.
pub(super) fn problems(cloud: &Cloud) -> Vec<Problem> {
    let mut problems = Vec::new();
    for user in service_users(&cloud.spec) {
        let Some(credential) = &user.application_credential else { continue };
        let usual = format!("{}-app-credential", slug(&user.name));
        let place = format!("spec.identity.keystone.bootstrap.serviceUsers[{}].applicationCredential", user.name);
        let mut refuse = |field: &str, is: &str| {
            let what = format!("is {is}, and a rotation writes {usual}");
            problems.push(problem(format!("{place}.{field}"), what, "remove it"));
        };
        if let Some(name) = credential.name.as_ref().filter(|name| **name != usual) {
            refuse("name", name);
        }
        let Some(target) = &credential.target_secret_ref else { continue };
        let namespace = target.namespace.as_ref().map(ToString::to_string);
        if target.name.to_string() != usual {
            refuse("targetSecretRef.name", &target.name.to_string());
        } else if let Some(namespace) = namespace.filter(|namespace| *namespace != cloud.namespace) {
            refuse("targetSecretRef.namespace", &namespace);
        }
    }
    problems
}

/// The users of a part.
fn of(part: &Part, cloud: &Cloud) -> Vec<Account> {
    let name = part.name.strip_prefix(PART).unwrap_or_default();
    let is_others = part.name == OTHERS;
    let is_its = |account: &Account| account.is_other == is_others && (is_others || account.name == name);
    accounts(cloud).into_iter().filter(is_its).collect()
}

/// A credential that a user provides.
struct Provided {
    secret: Ref,
    /// What is read of it.
    keys: &'static [&'static str],
    /// Why it is not made.
    why: &'static str,
}

/// The credential of a part that a user provides; none if it is made.
fn provided(part: &Part, cloud: &Cloud) -> Option<Provided> {
    let name = part.name.strip_prefix(PART)?;
    let mut services = ENTRIES.iter().map(|entry| entry.part);
    let (usual, keys, own) = match (programs::of(part), services.find(|service| service.name == name)) {
        // No object names the Secret of a program.
        (Some(program), _) => (program.secret.to_owned(), program.keys, None),
        (None, Some(service)) => (format!("{name}-keystone-credentials"), CREDENTIAL, named(service, cloud)),
        (None, None) => return None,
    };
    let is_made = of(part, cloud).iter().all(|account| account.is_credential_made);
    let why = match (&own, cloud.has(&KORC)) {
        (_, false) => "spec.korc.enabled is false",
        (Some(_), true) => "it names its own credential",
        (None, true) if is_made => return None,
        (None, true) => "applicationCredential.enabled of its user is false",
    };
    Some(Provided { secret: Ref::namespaced::<Secret>(&cloud.namespace, own.unwrap_or(usual)), keys, why })
}

/// The Secret that the object of a service names.
fn named(service: &Part, cloud: &Cloud) -> Option<String> {
    let own = services::object(service, cloud)["keystone"]["appCredentialRef"].clone();
    let own = serde_json::from_value::<AppCredentialRef>(own).ok()?;
    own.secret().map(ToString::to_string)
}

pub(super) fn needs(cloud: &Cloud) -> Vec<Ref> {
    let passwords = accounts(cloud).into_iter().filter_map(|account| account.password);
    let passwords = passwords.map(|given| Ref::namespaced::<Secret>(&cloud.namespace, given.name.to_string()));
    let provided = cloud.parts().filter_map(|part| provided(part, cloud)).map(|provided| provided.secret);
    passwords.filter(|_| cloud.has(&KORC)).chain(provided).collect()
}

pub(crate) fn step(part: &'static Part, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let missing = provided(part, cloud).and_then(|provided| wait_for(&provided, part, cloud, inputs));
    let step = missing.into_iter().fold(step, Step::wait);
    let accounts = if cloud.has(&KORC) { of(part, cloud) } else { Vec::new() };
    let step = accounts.iter().fold(step, |step, account| account.add(step, cloud, inputs));
    let step = step.done(format!("{} is ready", part.name));
    if step.children.is_empty() { step.childless() } else { step }
}

/// The wait for a credential that a user provides; none when it is there.
fn wait_for(provided: &Provided, part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Wait> {
    let Provided { secret, keys, why } = provided;
    let wait = keys.iter().find_map(|key| inputs.secret(secret, key).err())?;
    let program = part.name.strip_prefix(PART).unwrap_or_default();
    let is_file = |key: &str| key.contains('.');
    let value =
        |key: &&str| if is_file(key) { format!("--from-file={key}") } else { format!("--from-literal={key}=...") };
    let values: Vec<String> = keys.iter().map(value).collect();
    let create = format!("create it: kubectl create secret generic {} -n {}", secret.name, cloud.namespace);
    Some(
        wait.because(format!("{program} signs in to Keystone with it, and {why}"))
            .look_at(format!("{create} {}", values.join(" ")))
            .failed("SecretMissing"),
    )
}

/// What is not there yet.
pub(crate) fn missing(part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    if let Some(provided) = provided(part, cloud) {
        let wait = wait_for(&provided, part, cloud, inputs);
        return wait.map(|wait| format!("{}: {}", provided.secret.short(), wait.now.unwrap_or(wait.condition)));
    }
    of(part, cloud).iter().filter(|account| account.is_credential_made).find_map(|account| {
        let name = account.rotation();
        let Some(found) = inputs.own_named::<CredentialRotation>(&name) else {
            return Some("does not exist yet".into());
        };
        let reference = Ref::namespaced::<CredentialRotation>(&cloud.namespace, name);
        let wait = readiness::wait(&reference, found)?;
        Some(wait.now.unwrap_or(wait.condition))
    })
}

/// What the status says of a user.
pub(super) fn status(account: &Account, inputs: &Inputs<ControlPlane>) -> Value {
    let user = inputs.own_named::<User>(&account.user());
    let rotation = inputs.own_named::<CredentialRotation>(&account.rotation());
    let is = |ready: bool| if ready { "Ready" } else { "Pending" };
    let is_available = |object: &kube::api::DynamicObject| {
        c5c3_kit::object::condition(object, "Available").is_some_and(|found| found["status"] == "True")
    };
    let mut status = json!({"name": account.name, "status": is(user.is_some_and(is_available))});
    if let Some(id) = user.and_then(|user| user.data["status"]["id"].as_str()) {
        status["userID"] = id.into();
    }
    if let Some(rotation) = rotation {
        let is_ready = c5c3_kit::object::condition(rotation, "Ready").is_some_and(|found| found["status"] == "True");
        let current = &rotation.data["status"]["currentCredential"];
        let mut credential = json!({"status": is(is_ready)});
        for (from, to) in [("id", "credentialID"), ("expiresAt", "expiresAt")] {
            if current[from].is_string() {
                credential[to] = current[from].clone();
            }
        }
        status["applicationCredential"] = credential;
    }
    status
}

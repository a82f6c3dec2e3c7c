//! The user whose credentials are rotated: who it is in Keystone, and how it signs in with its password.

use c5c3_api::blocks::ObjectName;
use c5c3_api::c5c3::{CredentialRotation, RotationType};
use c5c3_api::orc::{Project, User};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Inputs, Ref, Wait};
use c5c3_openstack::{Cloud, clouds};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use secrecy::{ExposeSecret, SecretString};

/// Why the User and what it refers to are needed.
const BECAUSE: &str = "application credentials are made by the user itself, with its password";

/// What the objects of a user's or an account's credentials are called.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The user's name in Keystone, or the name of the first account.
    pub(crate) service: String,
    /// The namespace of everything.
    pub(crate) namespace: String,
    /// What is rotated.
    pub(crate) kind: RotationType,
}

impl Names {
    /// The Secret with the clouds.yaml by which the user signs in with its password.
    pub(crate) fn user_clouds(&self) -> String {
        format!("{}-user-clouds-yaml", self.service)
    }

    /// The Secret with the credential in use, and what pushes it to a store.
    pub(crate) fn delivered(&self) -> String {
        format!("{}-app-credential", self.service)
    }

    /// The ApplicationCredential of a version, and the Secret with its secret; the Secret of an account.
    pub(crate) fn version(&self, version: i64) -> String {
        format!("{}{version}", self.prefix())
    }

    /// What the names of all versions begin with.
    pub(crate) fn prefix(&self) -> String {
        let what = match self.kind {
            RotationType::ApplicationCredential => "app-credential",
            RotationType::DatabaseAccount => "db-account",
            RotationType::BrokerAccount => "rabbitmq-account",
            RotationType::CephUser => "ceph-user",
        };
        format!("{}-{what}-v", self.service)
    }

    /// The Secret that services read.
    pub(crate) fn target(&self, rotation: &CredentialRotation) -> String {
        let given = rotation.spec.target_secret_ref.as_ref().map(|target| target.name.to_string());
        let what = match self.kind {
            RotationType::ApplicationCredential => "keystone",
            RotationType::DatabaseAccount => "db",
            RotationType::BrokerAccount => "rabbitmq",
            RotationType::CephUser => "ceph",
        };
        given.unwrap_or_else(|| format!("{}-{what}-credentials", self.service))
    }

    /// Where the credential is in a store.
    pub(crate) fn remote(&self) -> String {
        format!("openstack/{}/app-credential", self.service)
    }

    /// A Secret of the namespace.
    pub(crate) fn secret(&self, name: impl Into<String>) -> Ref {
        Ref::namespaced::<Secret>(&self.namespace, name)
    }
}

/// A user that can sign in.
#[derive(Debug)]
pub(crate) struct Account {
    /// What its objects are called.
    pub(crate) names: Names,
    /// Where its Keystone is.
    pub(crate) cloud: Cloud,
    /// Its id.
    pub(crate) user: String,
    /// The id of its project.
    pub(crate) project: String,
    /// Its password.
    pub(crate) password: SecretString,
}

/// What has to be read to know the user.
pub(crate) fn needs(inputs: &Inputs<CredentialRotation>) -> Vec<Ref> {
    let reference = user_ref(inputs);
    let mut needs = vec![reference.clone()];
    if let Ok(user) = inputs.typed::<User>(&reference) {
        let namespace = namespace(inputs);
        let resource = user.spec.resource.as_ref();
        needs.push(Ref::namespaced::<Secret>(&namespace, &user.spec.cloud_credentials_ref.secret_name));
        let password = resource.and_then(|resource| resource.password_ref.as_ref());
        needs.extend(password.map(|name| Ref::namespaced::<Secret>(&namespace, name.as_str())));
        let project = resource.and_then(|resource| resource.default_project_ref.as_ref());
        needs.extend(project.map(|name| Ref::namespaced::<Project>(&namespace, name.as_str())));
    }
    needs
}

/// What its objects are called, as soon as the User is known.
pub(crate) fn names(inputs: &Inputs<CredentialRotation>) -> Option<Names> {
    let user: User = inputs.typed(&user_ref(inputs)).ok()?;
    Some(Names { service: service(&user), namespace: namespace(inputs), kind: RotationType::ApplicationCredential })
}

/// What is wrong with the user's name.
pub(crate) fn problem_of(names: &Names) -> Option<Problem> {
    let name = names.version(1);
    let wrong = ObjectName::new(name.as_str()).err()?;
    let fix = "rotate a user whose name in Keystone has lower-case letters, digits and dashes only";
    Some(problem("spec.targetServiceUser", format!("leads to objects with an invalid name: {wrong}"), fix))
}

impl Account {
    /// The user, or the waits for everything about it.
    pub(crate) fn find(inputs: &Inputs<CredentialRotation>) -> Result<Self, Vec<Wait>> {
        let reference = user_ref(inputs);
        let user: User =
            inputs.typed(&reference).map_err(|wait| vec![wait.because("spec.targetServiceUser names it")])?;
        let namespace = namespace(inputs);
        let kind = RotationType::ApplicationCredential;
        let names = Names { service: service(&user), namespace: namespace.clone(), kind };
        let mut waits = Vec::new();
        let resource = user.spec.resource.as_ref();
        let id = user.status.as_ref().and_then(|status| status.id.clone());
        if id.is_none() {
            waits.push(not_made(&reference));
        }
        let password = match resource.and_then(|resource| resource.password_ref.as_ref()) {
            Some(name) => inputs.secret(&names.secret(name.as_str()), "password").map_err(|wait| wait.because(BECAUSE)),
            None => Err(lacks(&reference, "passwordRef")),
        };
        let project = match resource.and_then(|resource| resource.default_project_ref.as_ref()) {
            Some(name) => project(inputs, &Ref::namespaced::<Project>(&namespace, name.as_str())),
            None => Err(lacks(&reference, "defaultProjectRef")),
        };
        let cloud = cloud(inputs, &user, &names);
        match (id, password, project, cloud) {
            (Some(user), Ok(password), Ok(project), Ok(cloud)) => Ok(Self { names, cloud, user, project, password }),
            (_, password, project, cloud) => {
                waits.extend([password.err(), project.err(), cloud.err()].into_iter().flatten());
                Err(waits)
            }
        }
    }
}

pub(crate) fn namespace(inputs: &Inputs<CredentialRotation>) -> String {
    inputs.object.namespace().unwrap_or_default()
}

fn user_ref(inputs: &Inputs<CredentialRotation>) -> Ref {
    Ref::namespaced::<User>(namespace(inputs), inputs.object.spec.target_service_user.to_string())
}

/// The user's name in Keystone.
fn service(user: &User) -> String {
    let asked = user.spec.resource.as_ref().and_then(|resource| resource.name.as_ref()).map(ToString::to_string);
    let observed = || user.status.as_ref()?.resource.as_ref()?.name.clone();
    asked.or_else(observed).unwrap_or_else(|| user.name_any())
}

fn project(inputs: &Inputs<CredentialRotation>, reference: &Ref) -> Result<String, Wait> {
    let project: Project = inputs.typed(reference).map_err(|wait| wait.because(BECAUSE))?;
    project.status.and_then(|status| status.id).ok_or_else(|| not_made(reference))
}

/// The Keystone of the user: the one of the credential that its User object is made with.
fn cloud(inputs: &Inputs<CredentialRotation>, user: &User, names: &Names) -> Result<Cloud, Wait> {
    let credentials = &user.spec.cloud_credentials_ref;
    let secret = names.secret(&credentials.secret_name);
    let because = "it says where Keystone is";
    let text = inputs.secret(&secret, "clouds.yaml").map_err(|wait| wait.because(because))?;
    let ca = inputs.secret(&secret, "cacert").ok();
    let ca = ca.as_ref().map(ExposeSecret::expose_secret);
    let parsed = clouds::parse(text.expose_secret(), &credentials.cloud_name, ca);
    parsed.map(|(cloud, _)| cloud).map_err(|error| {
        let wait = Wait::on(&secret).condition("is well formed").now(format!("is malformed: {error}"));
        wait.because(because).failed("Malformed")
    })
}

fn not_made(reference: &Ref) -> Wait {
    let look_at = format!(
        "kubectl describe {}.openstack.k-orc.cloud {} -n {}",
        reference.resource.plural,
        reference.name,
        reference.namespace.as_deref().unwrap_or_default()
    );
    Wait::on(reference).condition("Available").now("it has no id in Keystone yet").because(BECAUSE).look_at(look_at)
}

fn lacks(reference: &Ref, field: &str) -> Wait {
    Wait::on(reference)
        .condition(format!("has spec.resource.{field}"))
        .now(format!("has no spec.resource.{field}"))
        .because(BECAUSE)
        .look_at(format!("set spec.resource.{field} of the User"))
        .failed("UserIncomplete")
}

//! The catalog and the identities of a cloud, as objects of K-ORC with nothing that upstream's controller lacks:
//!
//! | part | objects |
//! |---|---|
//! | `korc` | the credential of K-ORC, the imported domain, projects and roles |
//! | `catalog` | a Service and its Endpoints for each service |
//! | `credentials-<user>` | a User, its RoleAssignments and the CredentialRotation of its application credential |

mod access;
mod catalog;
mod foreign;
mod imports;
mod keystone;
mod leaving;
mod object;
mod programs;
mod status;
mod users;

use c5c3_api::c5c3::{ControlPlane, CredentialRotation};
use c5c3_api::orc::{Domain, Endpoint, Project, Role, RoleAssignment, Service, User};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Inputs, KindRef, Question, Ref, readiness};
use kube::Resource;

use super::cloud::Cloud;
use super::parts::{KEYSTONE, KORC};
use super::reference;

pub(crate) use catalog::{missing as missing_catalog, step as catalog};
pub(crate) use imports::{missing as missing_imports, step as imports};
pub(crate) use keystone::Keystone;
pub(crate) use leaving::step as leaving;
pub(super) use object::child;
pub(super) use status::of as status;
pub(crate) use users::{has_others, missing as missing_credentials, rotation, step as credentials};

/// The kinds of children, all of which are inputs, too.
pub(super) fn kinds() -> Vec<KindRef> {
    vec![
        KindRef::of::<Domain>(),
        KindRef::of::<Project>(),
        KindRef::of::<Role>(),
        KindRef::of::<Service>(),
        KindRef::of::<Endpoint>(),
        KindRef::of::<User>(),
        KindRef::of::<RoleAssignment>(),
        KindRef::of::<CredentialRotation>(),
    ]
}

/// What goes while Keystone still runs, in this order. Endpoints, services and users are deleted with K-ORC's application
/// credential, so they go before it. Its own rotation and user are the last of their kinds. The controller of K-ORC deletes what
/// refers to something before that.
pub(super) fn teardown() -> Vec<Vec<KindRef>> {
    let users = [KindRef::of::<RoleAssignment>(), KindRef::of::<User>()];
    vec![
        vec![KindRef::of::<Endpoint>(), KindRef::of::<Service>()],
        vec![KindRef::of::<CredentialRotation>()],
        users.clone().into(),
        vec![KindRef::of::<CredentialRotation>()],
        users.into(),
        vec![KindRef::of::<Role>(), KindRef::of::<Project>(), KindRef::of::<Domain>()],
    ]
}

/// What has to be read.
pub(super) fn needs(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
    let mut needs = users::needs(cloud);
    if cloud.has(&KORC) {
        needs.extend(access::needs(cloud, inputs));
        needs.extend(leaving::needs(cloud, inputs));
    }
    needs
}

/// What Keystone is asked: nothing before it is ready.
pub(super) fn questions(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Question> {
    let is_ready = reference(cloud, &KEYSTONE)
        .and_then(|keystone| inputs.get(&keystone).map(|found| readiness::wait(&keystone, found).is_none()))
        .unwrap_or(false);
    let Ok(access) = access::access(cloud, inputs) else { return Vec::new() };
    if !is_ready || !cloud.has(&KORC) || inputs.object.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut questions = foreign::questions(cloud, inputs, &access);
    questions.extend(catalog::questions(inputs, &access));
    questions.into_iter().map(Question::to::<Keystone>).collect()
}

/// What is wrong with the identities.
pub(super) fn problems(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Problem> {
    users::problems(cloud).into_iter().chain(switched_off(cloud, inputs)).collect()
}

/// That K-ORC's kinds are switched off while services sign in as users that they keep.
fn switched_off(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Problem> {
    let user = inputs.own::<User>().next().filter(|_| !cloud.has(&KORC))?;
    let name = user.metadata.name.as_deref().unwrap_or_default();
    Some(problem(
        "spec.korc.enabled",
        format!("would delete user.openstack.k-orc.cloud/{name} and all others, which services sign in as"),
        "set it to true",
    ))
}

/// What the first object of these lacks that is not ready.
fn unready<T: Resource<DynamicType = ()>>(inputs: &Inputs<ControlPlane>, cloud: &Cloud) -> Option<String> {
    inputs.own::<T>().find_map(|object| {
        let name = object.metadata.name.clone().unwrap_or_default();
        let reference = Ref::namespaced::<T>(&cloud.namespace, name);
        let wait = readiness::wait(&reference, object)?;
        Some(format!("{}: {}", reference.short(), wait.now.unwrap_or(wait.condition)))
    })
}

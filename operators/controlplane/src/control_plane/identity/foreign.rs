//! Users of Keystone that have the name of a service user and were not created for this ControlPlane. K-ORC would adopt such a user
//! by its name and set its password, so Keystone is asked before the User object is created.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::openstack::Keystone as KeystoneObject;
use c5c3_api::orc::User;
use c5c3_kit::{Inputs, Ref, Wait};
use c5c3_openstack::Access;
use kube::ResourceExt;

use super::super::cloud::Cloud;
use super::access;
use super::keystone::{Answer, Keystone, Question};
use super::users::{Account, accounts};

/// The annotation of a ControlPlane that lists users to adopt, with commas between them.
const ADOPT: &str = "c5c3.io/adopt-users";

/// What the description of each user says. A user with it was created for this ControlPlane, also if its object is gone.
pub(super) fn description(cloud: &Cloud, name: &str) -> String {
    format!("Service user of controlplane/{name} in {}", cloud.namespace)
}

fn has_object(account: &Account, inputs: &Inputs<ControlPlane>) -> bool {
    inputs.own_named::<User>(&account.user()).is_some()
}

/// Who has the names of the users that have no object yet.
pub(super) fn questions(cloud: &Cloud, inputs: &Inputs<ControlPlane>, access: &Access) -> Vec<Question> {
    let new = accounts(cloud).into_iter().filter(|account| !has_object(account, inputs));
    new.map(|account| Question::User(access.clone(), account.name)).collect()
}

/// Whether the User may be created.
pub(super) fn check(account: &Account, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<(), Wait> {
    if has_object(account, inputs) {
        return Ok(());
    }
    let name = &account.name;
    let question = Question::User(access::access(cloud, inputs)?, name.clone());
    let Answer::User(Some(found)) = inputs.answered::<Keystone>(&question)? else { return Ok(()) };
    let (object, namespace) = (inputs.object.name_any(), &cloud.namespace);
    let adopts = inputs.object.annotations().get(ADOPT);
    let is_adopted = adopts.is_some_and(|all| all.split(',').any(|one| one.trim() == name));
    if is_adopted || found.description.as_deref() == Some(description(cloud, &object).as_str()) {
        return Ok(());
    }
    Err(Wait::on(&Ref::namespaced::<KeystoneObject>(namespace, "keystone"))
        .condition(format!("has no user {name} of another owner"))
        .now(format!("already has a user {name} (id {}) that was not created for this ControlPlane", found.id))
        .because("its password would be replaced")
        .look_at(format!(
            "delete or rename it, or let the ControlPlane adopt it: \
             kubectl annotate controlplane {object} -n {namespace} {ADOPT}={name}"
        ))
        .failed("ForeignUser"))
}

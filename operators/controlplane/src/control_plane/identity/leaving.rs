//! The order in which a service leaves Keystone when it is switched off and its cloud stays: its pods and its entry in the catalog
//! go first, then its credential, and its user last.

use c5c3_api::c5c3::{ControlPlane, CredentialRotation};
use c5c3_api::orc::User;
use c5c3_kit::{Inputs, Ref, Step, Wait};

use super::super::cloud::Cloud;
use super::super::part::Part;
use super::super::parts::KORC;
use super::super::{PARTS, own, reference};
use super::catalog::{self, ENTRIES};
use super::programs;
use super::users::{Account, PART, accounts};

/// The user of a part that is not in the cloud any more, while something of it is left; none of a part without a user, and of a
/// user that the ControlPlane names.
fn account(part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Account> {
    let name = part.name.strip_prefix(PART).filter(|_| cloud.has(&KORC) && !cloud.has(part))?;
    let account = Account::new(name, &[], None);
    let is_left = inputs.own_named::<User>(&account.user()).is_some() || rotation(&account, cloud, inputs).is_some();
    let is_wanted = || accounts(cloud).iter().any(|account| account.name == name);
    (is_left && !is_wanted()).then_some(account)
}

/// What signs in as the user of a part, or is what that user acts in.
fn consumer(part: &Part) -> Option<&'static Part> {
    let name = part.name.strip_prefix(PART)?;
    let service = ENTRIES.iter().map(|entry| entry.part).find(|service| service.name == name);
    service.or_else(|| programs::of(part).map(|program| program.consumer))
}

/// The rotation of a user, if there is one.
fn rotation(account: &Account, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Ref> {
    let name = account.rotation();
    inputs.own_named::<CredentialRotation>(&name)?;
    Some(Ref::namespaced::<CredentialRotation>(&cloud.namespace, name))
}

/// The objects whose pods may still sign in as a user that is to go.
pub(super) fn needs(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
    let leaving = PARTS.iter().filter(|part| account(part, cloud, inputs).is_some());
    leaving.filter_map(|part| reference(cloud, consumer(part)?)).collect()
}

/// The step of a user that is to go and may not go yet. It has no children, and keeps those of before for as long as it is in the
/// plan.
pub(crate) fn step(part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Step> {
    let consumer = consumer(part)?;
    let account = account(part, cloud, inputs)?;
    let step = Step::new(part.condition).childless();
    if let Some(wait) = in_use(consumer, cloud, inputs) {
        return Some(step.wait(wait));
    }
    let rotation = rotation(&account, cloud, inputs)?;
    let wait = gone(&rotation, "the user goes after its credential, which is revoked in its name");
    Some(step.released([rotation]).wait(wait))
}

/// The wait for what is left of a service.
fn in_use(consumer: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Wait> {
    let object = own(cloud, consumer, inputs).and_then(|_| reference(cloud, consumer));
    let object = object.map(|object| gone(&object, "its pods sign in to Keystone until then"));
    let listed = || catalog::remaining(consumer, cloud, inputs);
    object.or_else(|| listed().map(|entry| gone(&entry, "a service leaves the catalog before its user goes")))
}

fn gone(object: &Ref, because: &str) -> Wait {
    Wait::on(object).condition("is deleted").now("is still being deleted").because(because)
}

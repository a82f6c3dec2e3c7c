//! The operator of K-ORC's identity kinds (`openstack.k-orc.cloud/v1alpha1`): what an object describes is found or created in
//! Keystone, kept as described, and deleted with the object. Conditions, messages and finalizers are those of upstream's
//! controller.
//!
//! One generic controller, [`Actuator`], acts by a table for each of the nine kinds.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod actuator;
mod condition;
mod conditions;
mod keystone;
mod table;
mod view;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::orc::{ApplicationCredential, Domain, Endpoint, Group, Project, Role, RoleAssignment, Service, User};
use c5c3_kit::Operator;
use c5c3_openstack::{Clients, Options};

pub use actuator::Actuator;
pub use keystone::{Keystone, SHARED};
pub use table::{Kind, Table};

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "orc-operator";

/// The operator. Objects refer to their own namespace only, so `cross_namespace` changes nothing.
pub fn operator(_cross_namespace: bool) -> Operator {
    let options = Options::default();
    let metrics = options.metrics.clone();
    with(Clients::new(options), SHARED).metrics(move |registry| metrics.register(registry))
}

/// The operator with these clients, and lists that answer for all objects for this long.
pub fn with(clients: Clients, period: Duration) -> Operator {
    fn add<K: Kind>(operator: Operator, keystone: &Arc<Keystone>) -> Operator {
        let keystone = keystone.clone();
        operator.controller(move || Actuator::<K>::new(keystone.clone()))
    }
    let keystone = Arc::new(Keystone::new(clients, period));
    // Upstream's controller, where its manifests put it.
    let operator = Operator::new(NAME).rival("orc-system", "orc-controller-manager");
    let operator = add::<Domain>(operator, &keystone);
    let operator = add::<Project>(operator, &keystone);
    let operator = add::<Role>(operator, &keystone);
    let operator = add::<Group>(operator, &keystone);
    let operator = add::<User>(operator, &keystone);
    let operator = add::<Service>(operator, &keystone);
    let operator = add::<Endpoint>(operator, &keystone);
    let operator = add::<RoleAssignment>(operator, &keystone);
    add::<ApplicationCredential>(operator, &keystone)
}

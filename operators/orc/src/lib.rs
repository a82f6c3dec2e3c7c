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

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use c5c3_api::orc::{ApplicationCredential, Domain, Endpoint, Group, Project, Role, RoleAssignment, Service, User};
use c5c3_kit::Operator;
use c5c3_openstack::{Clients, Options};

pub use actuator::Actuator;
pub use keystone::{Keystone, SHARED};
pub use table::{Kind, Table};

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "orc-operator";

/// The namespace and the name of upstream's Deployment, as upstream's manifests have them.
pub const UPSTREAM: (&str, &str) = ("orc-system", "orc-controller-manager");

/// The Lease that upstream's controller holds in its namespace while it works.
pub const UPSTREAM_LEASE: &str = "f35396c5.k-orc.cloud";

/// The settings of the operator of this process: two that upstream's controller has as flags, the interval of imports, and the
/// takeover from upstream.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How often the resource of an object without `resyncPeriod` is compared with its spec; zero is never. The kit's period
    /// when absent.
    pub resync: Option<Duration>,
    /// How soon an import without a match is looked for again; 15 s when absent.
    pub import_interval: Option<Duration>,
    /// The certificates, as PEM, that are trusted where the Secret of a credential has no `cacert`.
    pub authority: Option<String>,
    /// Whether this process runs in upstream's Deployment, with our image in place of upstream's. The Deployment is no rival
    /// then. Whoever starts the process uses [`UPSTREAM_LEASE`], so that an old pod and a new one never work at the same time.
    pub takes_over: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets how the operator of this process works, once and before [`operator`] is called for it.
pub fn set(settings: Settings) -> Result<(), String> {
    SETTINGS.set(settings).map_err(|_| "the settings of the operator orc are set twice".to_owned())
}

/// The operator. Objects refer to their own namespace only, so `cross_namespace` changes nothing.
pub fn operator(_cross_namespace: bool) -> Operator {
    let options = Options::default();
    let metrics = options.metrics.clone();
    let settings = SETTINGS.get().cloned().unwrap_or_default();
    with_settings(Clients::new(options), SHARED, settings).metrics(move |registry| metrics.register(registry))
}

/// The operator with these clients, and lists that answer for all objects for this long.
pub fn with(clients: Clients, period: Duration) -> Operator {
    with_settings(clients, period, Settings::default())
}

/// The same, with these settings.
pub fn with_settings(clients: Clients, period: Duration, settings: Settings) -> Operator {
    fn add<K: Kind>(operator: Operator, keystone: &Arc<Keystone>, settings: &Arc<Settings>) -> Operator {
        let (keystone, settings) = (keystone.clone(), settings.clone());
        operator.controller(move || Actuator::<K>::new(keystone.clone(), settings.clone()))
    }
    let (keystone, settings) = (Arc::new(Keystone::new(clients, period)), Arc::new(settings));
    let mut operator = Operator::new(NAME);
    if !settings.takes_over {
        let (namespace, name) = UPSTREAM;
        operator = operator.rival(namespace, name);
    }
    let operator = add::<Domain>(operator, &keystone, &settings);
    let operator = add::<Project>(operator, &keystone, &settings);
    let operator = add::<Role>(operator, &keystone, &settings);
    let operator = add::<Group>(operator, &keystone, &settings);
    let operator = add::<User>(operator, &keystone, &settings);
    let operator = add::<Service>(operator, &keystone, &settings);
    let operator = add::<Endpoint>(operator, &keystone, &settings);
    let operator = add::<RoleAssignment>(operator, &keystone, &settings);
    add::<ApplicationCredential>(operator, &keystone, &settings)
}

//! The parts of a ControlPlane. A new part is one more value here, in [`PARTS`], and the function that makes its objects.

use c5c3_api::c5c3::{ControlPlaneSpec, CortexDomain, Services};
use c5c3_api::cortex::Cortex;
use c5c3_api::ext::mariadb::MariaDB;
use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use c5c3_api::ext::valkey::Valkey;
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use c5c3_api::ovn::OVNCluster;
use c5c3_kit::KindRef;
use k8s_openapi::api::apps::v1::StatefulSet;

use super::accounts::Account;
use super::part::{
    Asked, CREDENTIALS, INFRASTRUCTURE, KEYSTONE as KEYSTONE_READY, KORC as KORC_READY, Makes, Need, Part, SERVICES,
};
use super::{ceph, identity, immutable, infrastructure, keystone, memcached, ovn, retention, services};

/// Every part, each after those that it needs. Keystone waits for no RabbitMQ, and no part for Valkey.
pub static PARTS: &[&Part] = &[
    &MARIADB,
    &RABBITMQ,
    &VALKEY,
    &MEMCACHED,
    &OVN,
    &CEPH,
    &CREDENTIALS_CEPH,
    &KEYSTONE,
    &KORC,
    &CATALOG,
    &CREDENTIALS_GLANCE,
    &CREDENTIALS_PLACEMENT,
    &CREDENTIALS_NOVA,
    &CREDENTIALS_NEUTRON,
    &CREDENTIALS_CINDER,
    &CREDENTIALS_KORC,
    &CREDENTIALS_TEMPEST,
    &CREDENTIALS_HYPERVISOR,
    &CREDENTIALS_HA,
    &CREDENTIALS_CORTEX,
    &CREDENTIALS_OTHERS,
    &GLANCE,
    &PLACEMENT,
    &NOVA,
    &NEUTRON,
    &CINDER,
    &CORTEX,
    &TEMPEST,
];

pub(crate) static MARIADB: Part = Part {
    name: "mariadb",
    condition: INFRASTRUCTURE,
    needs: &[],
    field: "spec.infrastructure.mariadb",
    operated: true,
    holds_data: true,
    accounts: &[],
    asked: |spec| {
        let mariadb = spec.infrastructure.as_ref().and_then(|parts| parts.mariadb.as_ref());
        mariadb.map_or(Asked::IfNeeded, |mariadb| mariadb.host.is_none().into())
    },
    makes: Makes::Servers {
        kind: KindRef::of::<MariaDB>,
        existing: |parts| parts.mariadb.as_ref()?.cluster_ref.as_ref(),
        step: infrastructure::mariadb,
    },
    retention: retention::mariadb,
    immutable: immutable::mariadb,
};

pub(crate) static RABBITMQ: Part = Part {
    name: "rabbitmq",
    condition: INFRASTRUCTURE,
    needs: &[],
    field: "spec.infrastructure.rabbitmq",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: |spec| {
        let rabbitmq = spec.infrastructure.as_ref().and_then(|parts| parts.rabbitmq.as_ref());
        rabbitmq.map_or(Asked::IfNeeded, |rabbitmq| rabbitmq.hosts.is_none().into())
    },
    makes: Makes::Servers {
        kind: KindRef::of::<RabbitmqCluster>,
        existing: |parts| parts.rabbitmq.as_ref()?.cluster_ref.as_ref(),
        step: infrastructure::rabbitmq,
    },
    retention: retention::nothing,
    immutable: immutable::rabbitmq,
};

pub(crate) static VALKEY: Part = Part {
    name: "valkey",
    condition: INFRASTRUCTURE,
    needs: &[],
    field: "spec.infrastructure.valkey",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: |spec| spec.infrastructure.as_ref().is_some_and(|parts| parts.valkey.is_some()).into(),
    makes: Makes::Servers { kind: KindRef::of::<Valkey>, existing: |_| None, step: infrastructure::valkey },
    retention: retention::nothing,
    immutable: immutable::valkey,
};

pub(crate) static MEMCACHED: Part = Part {
    name: "memcached",
    condition: INFRASTRUCTURE,
    needs: &[],
    field: "spec.infrastructure.memcached",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: |spec| {
        let memcached = spec.infrastructure.as_ref().and_then(|parts| parts.memcached.as_ref());
        memcached.map_or(Asked::IfNeeded, |memcached| memcached.servers.is_none().into())
    },
    makes: Makes::Servers { kind: KindRef::of::<StatefulSet>, existing: |_| None, step: memcached::step },
    retention: retention::nothing,
    immutable: immutable::nothing,
};

/// The networks of a cloud. What is in its databases is made of Neutron's, so that nothing is lost with it.
pub(crate) static OVN: Part = Part {
    name: "ovn",
    condition: INFRASTRUCTURE,
    needs: &[],
    field: "spec.infrastructure.ovn",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: ovn::asked,
    makes: Makes::Servers {
        kind: KindRef::of::<OVNCluster>,
        existing: |parts| parts.ovn.as_ref()?.cluster_ref.as_ref(),
        step: ovn::cluster,
    },
    retention: retention::nothing,
    immutable: immutable::ovn,
};

/// Users of a Ceph that Rook runs.
pub(crate) static CEPH: Part = identity(
    "ceph",
    INFRASTRUCTURE,
    &[],
    "spec.storage",
    |spec| (!ceph::users(spec).is_empty()).into(),
    Makes::Identity { step: ceph::clients, missing: ceph::missing_clients },
);

/// Their keys, for the services.
pub(crate) static CREDENTIALS_CEPH: Part = identity(
    "credentials-ceph",
    CREDENTIALS,
    &[Need::Ready(&CEPH)],
    "spec.storage",
    |spec| (CEPH.asked)(spec),
    Makes::Identity { step: ceph::keys, missing: ceph::missing_keys },
);

pub(crate) static KEYSTONE: Part = Part {
    name: "keystone",
    condition: KEYSTONE_READY,
    needs: &[Need::Ready(&MARIADB), Need::Ready(&MEMCACHED)],
    field: "spec.services.keystone",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database, Account::Administrator],
    asked: |spec| asked(spec, |services| services.keystone.as_ref().map(|keystone| keystone.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Keystone>,
        project: keystone::project,
        template: |services| services.keystone.as_ref().map(|keystone| &keystone.template),
    },
    retention: retention::keystone,
    immutable: immutable::keystone,
};

pub(crate) static KORC: Part = identity(
    "korc",
    KORC_READY,
    &[Need::Ready(&KEYSTONE)],
    "spec.korc",
    |spec| spec.has_korc().into(),
    Makes::Identity { step: identity::imports, missing: identity::missing_imports },
);

pub(crate) static CATALOG: Part = identity(
    "catalog",
    KORC_READY,
    &[Need::Ready(&KORC)],
    "spec.korc",
    |spec| (spec.has_korc() && SERVICE_USERS.iter().any(|part| (part.asked)(spec) == Asked::Yes)).into(),
    Makes::Identity { step: identity::catalog, missing: identity::missing_catalog },
);

/// The services that sign in to Keystone.
static SERVICE_USERS: &[&Part] = &[&GLANCE, &PLACEMENT, &NOVA, &NEUTRON, &CINDER];

/// What a credential waits for: with K-ORC's kinds it is made, without them a user provides it.
const USER_NEEDS: &[Need] = &[Need::Ready(&KEYSTONE), Need::Ready(&KORC)];

pub(crate) static CREDENTIALS_GLANCE: Part =
    credentials("credentials-glance", "spec.services.glance", |spec| (GLANCE.asked)(spec));
pub(crate) static CREDENTIALS_PLACEMENT: Part =
    credentials("credentials-placement", "spec.services.placement", |spec| (PLACEMENT.asked)(spec));
pub(crate) static CREDENTIALS_NOVA: Part =
    credentials("credentials-nova", "spec.services.nova", |spec| (NOVA.asked)(spec));
pub(crate) static CREDENTIALS_NEUTRON: Part =
    credentials("credentials-neutron", "spec.services.neutron", |spec| (NEUTRON.asked)(spec));
pub(crate) static CREDENTIALS_CINDER: Part =
    credentials("credentials-cinder", "spec.services.cinder", |spec| (CINDER.asked)(spec));
pub(crate) static CREDENTIALS_KORC: Part = credentials("credentials-k-orc", "spec.korc", |spec| spec.has_korc().into());
pub(crate) static CREDENTIALS_TEMPEST: Part =
    credentials("credentials-tempest", "spec.tempest", |spec| (TEMPEST.asked)(spec));
/// The credentials of programs that find out by themselves when they can sign in. Without K-ORC's kinds none is made and none is
/// waited for: not every cloud runs these programs.
pub(crate) static CREDENTIALS_HYPERVISOR: Part =
    credentials("credentials-hypervisor-operator", "spec.services.nova", |spec| with_korc(spec, &NOVA));
pub(crate) static CREDENTIALS_HA: Part =
    credentials("credentials-ha-operator", "spec.services.nova", |spec| with_korc(spec, &NOVA));
pub(crate) static CREDENTIALS_CORTEX: Part =
    credentials("credentials-cortex", "spec.cortex", |spec| with_korc(spec, &CORTEX));
pub(crate) static CREDENTIALS_OTHERS: Part =
    credentials("credentials-others", "spec.identity.keystone.bootstrap.serviceUsers", |spec| {
        (spec.has_korc() && identity::has_others(spec)).into()
    });

/// The user of a service, and the credential that it signs in with.
const fn credentials(name: &'static str, field: &'static str, asked: fn(&ControlPlaneSpec) -> Asked) -> Part {
    let makes = Makes::Identity { step: identity::credentials, missing: identity::missing_credentials };
    identity(name, CREDENTIALS, USER_NEEDS, field, asked, makes)
}

/// Whether K-ORC's kinds are used, and a part is asked for.
fn with_korc(spec: &ControlPlaneSpec, part: &Part) -> Asked {
    (spec.has_korc() && (part.asked)(spec) == Asked::Yes).into()
}

/// A part of objects in Keystone.
const fn identity(
    name: &'static str,
    condition: &'static str,
    needs: &'static [Need],
    field: &'static str,
    asked: fn(&ControlPlaneSpec) -> Asked,
    makes: Makes,
) -> Part {
    Part {
        name,
        condition,
        needs,
        field,
        operated: true,
        holds_data: false,
        accounts: &[],
        asked,
        makes,
        retention: retention::nothing,
        immutable: immutable::nothing,
    }
}

pub(crate) static GLANCE: Part = Part {
    name: "glance",
    condition: SERVICES,
    needs: &[
        Need::Ready(&MARIADB),
        Need::Soft(&MEMCACHED),
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_GLANCE),
        Need::Ready(&CREDENTIALS_CEPH),
    ],
    field: "spec.services.glance",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database],
    asked: |spec| asked(spec, |services| services.glance.as_ref().map(|glance| glance.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Glance>,
        project: services::glance,
        template: |services| services.glance.as_ref().map(|glance| &glance.template),
    },
    retention: retention::service,
    immutable: immutable::service,
};

pub(crate) static PLACEMENT: Part = Part {
    name: "placement",
    condition: SERVICES,
    needs: &[
        Need::Ready(&MARIADB),
        Need::Soft(&MEMCACHED),
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_PLACEMENT),
    ],
    field: "spec.services.placement",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database],
    asked: |spec| asked(spec, |services| services.placement.as_ref().map(|placement| placement.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Placement>,
        project: services::placement,
        template: |services| services.placement.as_ref().map(|placement| &placement.template),
    },
    retention: retention::service,
    immutable: immutable::service,
};

pub(crate) static NOVA: Part = Part {
    name: "nova",
    condition: SERVICES,
    needs: &[
        Need::Ready(&MARIADB),
        Need::Ready(&RABBITMQ),
        Need::Soft(&MEMCACHED),
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_NOVA),
        Need::Ready(&CREDENTIALS_CEPH),
        Need::Ready(&PLACEMENT),
        Need::Ready(&GLANCE),
    ],
    field: "spec.services.nova",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database, Account::Queue],
    asked: |spec| asked(spec, |services| services.nova.as_ref().map(|nova| nova.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Nova>,
        project: services::nova,
        template: |services| services.nova.as_ref().map(|nova| &nova.template),
    },
    retention: retention::service,
    immutable: immutable::service,
};

pub(crate) static NEUTRON: Part = Part {
    name: "neutron",
    condition: SERVICES,
    needs: &[
        Need::Ready(&MARIADB),
        Need::Ready(&RABBITMQ),
        Need::Soft(&MEMCACHED),
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_NEUTRON),
        Need::Ready(&OVN),
    ],
    field: "spec.services.neutron",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database, Account::Queue],
    asked: |spec| asked(spec, |services| services.neutron.as_ref().map(|neutron| neutron.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Neutron>,
        project: services::neutron,
        template: |services| services.neutron.as_ref().map(|neutron| &neutron.template),
    },
    retention: retention::service,
    immutable: immutable::service,
};

pub(crate) static CINDER: Part = Part {
    name: "cinder",
    condition: SERVICES,
    needs: &[
        Need::Ready(&MARIADB),
        Need::Ready(&RABBITMQ),
        Need::Soft(&MEMCACHED),
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_CINDER),
        Need::Ready(&CREDENTIALS_CEPH),
    ],
    field: "spec.services.cinder",
    operated: true,
    holds_data: true,
    accounts: &[Account::Database, Account::Queue],
    asked: |spec| asked(spec, |services| services.cinder.as_ref().map(|cinder| cinder.enabled)),
    makes: Makes::Service {
        kind: KindRef::of::<Cinder>,
        project: services::cinder,
        template: |services| services.cinder.as_ref().map(|cinder| &cinder.template),
    },
    retention: retention::service,
    immutable: immutable::service,
};

pub(crate) static CORTEX: Part = Part {
    name: "cortex",
    condition: SERVICES,
    needs: &[
        Need::When(&NOVA, |spec| spec.cortex_pipelines().contains(&CortexDomain::Nova)),
        Need::When(&CINDER, |spec| spec.cortex_pipelines().contains(&CortexDomain::Cinder)),
    ],
    field: "spec.cortex",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: |spec| spec.cortex.as_ref().is_some_and(|cortex| cortex.enabled).into(),
    makes: Makes::Service { kind: KindRef::of::<Cortex>, project: services::cortex, template: |_| None },
    retention: retention::nothing,
    immutable: immutable::service,
};

pub(crate) static TEMPEST: Part = Part {
    name: "tempest",
    condition: SERVICES,
    // What is not there is not tested.
    needs: &[
        Need::Ready(&KEYSTONE),
        Need::Ready(&CREDENTIALS_TEMPEST),
        Need::When(&CATALOG, |spec| (CATALOG.asked)(spec) == Asked::Yes),
        Need::When(&GLANCE, |spec| (GLANCE.asked)(spec) == Asked::Yes),
        Need::When(&NOVA, |spec| (NOVA.asked)(spec) == Asked::Yes),
        Need::When(&NEUTRON, |spec| (NEUTRON.asked)(spec) == Asked::Yes),
        Need::When(&CINDER, |spec| (CINDER.asked)(spec) == Asked::Yes),
    ],
    field: "spec.tempest",
    operated: true,
    holds_data: false,
    accounts: &[],
    asked: |spec| spec.tempest.as_ref().is_some_and(|tempest| tempest.enabled).into(),
    makes: Makes::Service { kind: KindRef::of::<Tempest>, project: services::tempest, template: |_| None },
    retention: retention::nothing,
    immutable: immutable::service,
};

/// Whether a service is switched on.
fn asked(spec: &ControlPlaneSpec, enabled: fn(&Services) -> Option<bool>) -> Asked {
    spec.services.as_ref().and_then(enabled).unwrap_or(false).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of everything that waits for a part, directly or not.
    fn waiting_for(part: &Part) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = Vec::new();
        for other in PARTS {
            let hard = other.needs.iter().filter(|need| !matches!(need, Need::Soft(_)));
            if hard.map(Need::part).any(|need| need == part || found.contains(&need.name)) {
                found.push(other.name);
            }
        }
        found
    }

    #[test]
    fn the_parts_as_they_are_printed() {
        let lines: Vec<String> = PARTS.iter().map(|part| part.to_string().trim_end().to_owned()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn every_part_comes_after_what_it_needs_and_has_a_name_of_its_own() {
        for (index, part) in PARTS.iter().enumerate() {
            assert!(!PARTS[..index].contains(part), "{part:?} is there twice");
            for need in part.needs {
                assert!(PARTS[..index].contains(&need.part()), "{part:?} needs {:?}", need.part());
            }
        }
    }

    #[test]
    fn a_part_with_an_account_needs_the_server_of_it() {
        for part in PARTS {
            let needs = |server: &'static Part| part.needs.iter().any(|need| need.part() == server);
            assert_eq!(part.accounts.contains(&Account::Database), needs(&MARIADB), "{part:?}");
            assert_eq!(part.accounts.contains(&Account::Queue), needs(&RABBITMQ), "{part:?}");
        }
    }

    #[test]
    fn keystone_waits_for_mariadb_and_not_for_rabbitmq_and_memcached_holds_up_keystone_alone() {
        assert!(waiting_for(&MARIADB).contains(&"keystone"));
        assert_eq!(waiting_for(&RABBITMQ), ["nova", "neutron", "cinder", "cortex", "tempest"]);
        assert!(waiting_for(&VALKEY).is_empty());
        let directly = PARTS
            .iter()
            .filter(|part| part.needs.iter().any(|need| matches!(need, Need::Ready(other) if **other == MEMCACHED)));
        assert_eq!(directly.map(|part| part.name).collect::<Vec<_>>(), ["keystone"]);
    }
}

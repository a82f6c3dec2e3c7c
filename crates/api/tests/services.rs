//! What the OpenStack services and Cortex accept, and what they say about what they refuse.

use c5c3_api::cortex::Cortex;
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An object of `kind` named `kestrel` with a spec in YAML.
fn object(kind: &str, spec: &str) -> Value {
    let group = match kind {
        "Cortex" => "cortex.c5c3.io".to_owned(),
        service => format!("{}.openstack.c5c3.io", service.to_lowercase()),
    };
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": "kestrel", "namespace": "aviary"}, "spec": spec})
}

fn check(new: &Value, old: Option<&Value>) -> Vec<String> {
    let kind = c5c3_api::find(new["apiVersion"].as_str().unwrap(), new["kind"].as_str().unwrap()).unwrap();
    kind.check(new, old).iter().map(ToString::to_string).collect()
}

fn create(kind: &str, spec: &str) -> Vec<String> {
    check(&object(kind, spec), None)
}

fn change(kind: &str, from: &str, to: &str) -> Vec<String> {
    check(&object(kind, to), Some(&object(kind, from)))
}

/// The spec as an operator sees it: second spellings moved, defaults in.
fn read<K: DeserializeOwned>(kind: &str, spec: &str) -> K {
    let mut object = object(kind, spec);
    assert_eq!(check(&object, None), [""; 0]);
    let known = c5c3_api::find(object["apiVersion"].as_str().unwrap(), kind).unwrap();
    assert!(known.normalize(&mut object).is_empty());
    known.schema().default(&mut object);
    serde_json::from_value(object).unwrap()
}

const NONE: [&str; 0] = [];
const KINDS: [&str; 8] = ["Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder", "Tempest", "Cortex"];

#[test]
fn every_field_of_every_service_may_be_left_out() {
    for kind in KINDS {
        assert_eq!(create(kind, "{}"), NONE, "{kind}");
    }
}

#[test]
fn what_is_written_comes_back() {
    fn round<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
    }
    let returns: [fn(&Value) -> Value; 8] = [
        round::<Keystone>,
        round::<Glance>,
        round::<Placement>,
        round::<Nova>,
        round::<Neutron>,
        round::<Cinder>,
        round::<Tempest>,
        round::<Cortex>,
    ];
    for (kind, round) in KINDS.iter().zip(returns) {
        let name = kind.to_lowercase();
        let path = format!("{}/../../examples/{name}/{name}-full.yaml", env!("CARGO_MANIFEST_DIR"));
        let full: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(check(&full, None), NONE, "{kind}");
        assert_eq!(round(&full), full, "{kind}");
    }
}

#[test]
fn an_image_has_a_tag_or_a_digest_and_the_tag_is_one() {
    for kind in KINDS {
        assert_eq!(
            create(kind, "image: {repository: ghcr.io/c5c3/kestrel, tag: 'v1:2'}"),
            [
                "spec.image.tag: is not an image tag; use letters, digits, '_', '.' and '-', not starting with '.' or '-', such as 28.0.0"
            ],
            "{kind}"
        );
        assert_eq!(
            create(kind, "image: {repository: ghcr.io/c5c3/kestrel}"),
            ["spec.image: needs exactly one of tag and digest; set one of them"],
            "{kind}"
        );
    }
}

#[test]
fn a_dependency_is_of_a_kind_that_can_become_ready_and_not_the_object_itself() {
    for kind in KINDS {
        let problems = create(kind, "dependsOn: [{kind: Keystoned, name: keystone}]");
        assert!(problems.len() == 1 && problems[0].starts_with("spec.dependsOn[0].kind: "), "{kind}: {problems:?}");
        assert!(problems[0].contains("Keystone"), "{kind}: {problems:?}");
        assert_eq!(
            create(kind, &format!("dependsOn: [{{kind: {kind}, name: kestrel}}]")),
            ["spec.dependsOn[0]: is the object itself, which would wait forever; remove this entry"],
            "{kind}"
        );
    }
}

#[test]
fn resources_are_quantities() {
    for (kind, at) in [
        ("Glance", "resources"),
        ("Nova", "api.resources"),
        ("Nova", "scheduler.resources"),
        ("Cinder", "volume.resources"),
    ] {
        let spec = |memory: &str| {
            let resources = format!("{{requests: {{memory: {memory}}}}}");
            match at.split_once('.') {
                Some((outer, inner)) => format!("{outer}: {{{inner}: {resources}}}"),
                None => format!("{at}: {resources}"),
            }
        };
        assert_eq!(create(kind, &spec("512Mi")), NONE);
        let problems = create(kind, &spec("512MB"));
        assert!(
            problems.len() == 1 && problems[0].starts_with(&format!("spec.{at}.requests.memory: ")),
            "{problems:?}"
        );
    }
}

#[test]
fn raw_options_cannot_smuggle_in_other_options() {
    assert_eq!(create("Nova", "extraConfig: {DEFAULT: {debug: 'true'}}"), NONE);
    assert_eq!(
        create("Nova", r#"extraConfig: {"a]": {x: "1"}, b: {"x=y": "1", z: "1\n[database]\nconnection = sqlite://"}}"#),
        [
            "spec.extraConfig.a]: is not a section's name; name the section without brackets, such as DEFAULT",
            "spec.extraConfig.b.x=y: is not an option's name; name one option, such as debug, and put its value behind it",
            "spec.extraConfig.b.z: has a line break, after which another option would start; write the value on one line",
        ]
    );
}

#[test]
fn a_database_is_managed_or_external_and_so_is_a_queue() {
    let databases = ["Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder"];
    for kind in databases {
        assert_eq!(
            create(kind, "database: {clusterRef: {name: mariadb}, host: db.example.net}"),
            [
                "spec.database: has both clusterRef and host; set clusterRef for a MariaDB object, or host for a server of yours"
            ],
            "{kind}"
        );
    }
    for kind in ["Nova", "Neutron", "Cinder"] {
        assert_eq!(
            create(kind, "messaging: {clusterRef: {name: rabbitmq}, hosts: ['mq:5672']}"),
            [
                "spec.messaging: has both clusterRef and hosts; set clusterRef for a RabbitmqCluster object, or hosts for brokers of yours"
            ],
            "{kind}"
        );
    }
}

#[test]
fn a_schema_keeps_its_name_in_every_spelling() {
    for kind in ["Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder", "Cortex"] {
        let name = kind.to_lowercase();
        let refused = [format!(
            "spec.database: changes the database's name ({name} when absent), and with it all data; keep the old name, or create a new object and migrate"
        )];
        assert_eq!(change(kind, "{}", "database: {database: other}"), refused, "{kind}");
        assert_eq!(change(kind, "database: {name: other}", "{}"), refused, "{kind}");
        assert_eq!(change(kind, "database: {name: other}", "database: {name: another}"), refused, "{kind}");
        assert!(!change(kind, "database: {database: other}", "database: {database: another}").is_empty(), "{kind}");
        assert_eq!(change(kind, "{}", &format!("database: {{database: {name}}}")), NONE, "{kind}");
        assert_eq!(change(kind, "database: {name: other}", "database: {database: other}"), NONE, "{kind}");
    }
}

#[test]
fn keystone_is_spelled_in_several_ways_that_mean_the_same() {
    for auth in [
        "keystone: {authUrl: 'https://id.example.net/v3', region: North, appCredentialRef: {secretName: own}}",
        "keystone: {authUrl: 'https://id.example.net/v3', region: North, appCredentialRef: {name: own}}",
        "keystoneAuth: {authUrl: 'https://id.example.net/v3', region: North, applicationCredentialRef: {name: own}}",
        "{keystone: {authUrl: 'https://id.example.net/v3'}, keystoneAuth: {region: North, applicationCredentialRef: {name: own}}}",
    ] {
        for kind in &KINDS[1..] {
            let object: Value = read(kind, auth);
            let expected = json!({"authUrl": "https://id.example.net/v3", "region": "North", "appCredentialRef": {"secretName": "own"}});
            assert_eq!(object["spec"]["keystone"], expected, "{kind}: {auth}");
        }
    }
    assert_eq!(
        create("Glance", "{keystone: {region: North}, keystoneAuth: {region: South}}"),
        [
            r#"spec.keystoneAuth.region: is "South", but spec.keystone.region is "North", and both mean the same; remove spec.keystoneAuth.region"#
        ]
    );
    assert_eq!(
        create("Glance", "keystone: {appCredentialRef: {secretName: a, name: b}}"),
        ["spec.keystone.appCredentialRef: names two different Secrets; set only one of secretName and name"]
    );
}

#[test]
fn glance_keeps_images_in_a_pool_or_on_a_volume() {
    let rbd = "rbd: {pool: images, cephSecretRef: {name: glance-ceph-credentials}}";
    assert_eq!(create("Glance", &format!("storage: {{backend: rbd, {rbd}}}")), NONE);
    assert_eq!(
        create("Glance", "storage: {backend: rbd}"),
        [
            "spec.storage: has backend rbd without a pool; set rbd with pool and cephSecretRef, or set backend to file or s3"
        ]
    );
    assert_eq!(
        create("Glance", &format!("{{replicas: 1, storage: {{backend: file, {rbd}}}}}")),
        [
            "spec.storage: sets rbd, but backend is another; remove rbd, set backend to rbd, or put the pool among stores"
        ]
    );
    assert_eq!(
        create("Glance", &format!("storage: {{{rbd}, file: {{size: 5Gi}}}}")),
        [
            "spec.storage: sets file, but backend is another; remove file, set backend to file, or put the volume among stores"
        ]
    );
    let bucket = "{endpoint: 'https://s3.example.net', bucket: images, secretRef: {name: glance-s3}}";
    assert_eq!(create("Glance", &format!("storage: {{backend: s3, s3: {bucket}}}")), NONE);
    assert_eq!(create("Glance", &format!("storage: {{{rbd}, stores: [{{name: archive, s3: {bucket}}}]}}")), NONE);
    assert_eq!(
        create("Glance", &format!("storage: {{{rbd}, stores: [{{name: archive, s3: {bucket}, file: {{}}}}]}}"))[0],
        "spec.storage.stores[0]: is not exactly one kind of store; set one of rbd, file and s3"
    );
    assert_eq!(
        create("Glance", &format!("storage: {{{rbd}, stores: [{{name: shelf, file: {{}}}}]}}")),
        [
            "spec.storage.stores[shelf].file: is a volume that one node at a time can mount, and there are several replicas; set accessMode to ReadWriteMany, or replicas to 1"
        ]
    );
    assert!(create("Glance", "storage: {backend: swift}")[0].starts_with("spec.storage.backend: "));
}

#[test]
fn glance_on_a_volume_has_one_pod_or_a_volume_that_all_can_mount() {
    assert_eq!(create("Glance", "{replicas: 1, storage: {backend: file}}"), NONE);
    assert_eq!(create("Glance", "{replicas: 3, storage: {backend: file, file: {accessMode: ReadWriteMany}}}"), NONE);
    assert_eq!(
        create("Glance", "storage: {backend: file}"),
        [
            "spec.replicas: has several replicas on a volume that one node at a time can mount; set replicas to 1, or storage.file.accessMode to ReadWriteMany"
        ]
    );
    let volume = |file: &str| format!("{{replicas: 1, storage: {{backend: file, file: {file}}}}}");
    assert_eq!(change("Glance", &volume("{size: 5Gi}"), &volume("{size: 8Gi}")), NONE);
    assert_eq!(
        change("Glance", &volume("{size: 8Gi}"), &volume("{size: 5Gi, storageClass: fast}")),
        [
            "spec.storage.file.size: shrinks the volume, which Kubernetes cannot; keep the old size or a larger one",
            "spec.storage.file.storageClass: changes the storage class of a volume that exists; keep the old one",
        ]
    );
}

#[test]
fn nova_has_replicas_per_component_in_two_spellings() {
    let nova: Nova = read("Nova", "{}");
    assert_eq!((nova.spec.api_replicas(), nova.spec.scheduler_replicas(), nova.spec.conductor_replicas()), (3, 2, 2));
    let nova: Nova = read("Nova", "{replicas: {api: 5, scheduler: 1}, conductor: {replicas: 4}}");
    assert_eq!((nova.spec.api_replicas(), nova.spec.scheduler_replicas(), nova.spec.conductor_replicas()), (5, 1, 4));
    assert_eq!(
        create("Nova", "{replicas: {api: 5}, api: {replicas: 4}}"),
        ["spec.replicas.api: is 5, but spec.api.replicas is 4, and both mean the same; remove spec.replicas.api"]
    );
}

#[test]
fn nova_has_its_api_database_in_one_place_and_keeps_its_name() {
    assert_eq!(
        create("Nova", "{database: {apiDatabase: nova_api}, apiDatabase: {host: db.example.net}}"),
        [
            "spec.apiDatabase: sets both apiDatabase and database.apiDatabase; set apiDatabase for a server or account of its own, or database.apiDatabase for a schema beside the others"
        ]
    );
    assert_eq!(change("Nova", "database: {apiDatabase: api}", "apiDatabase: {database: api}"), NONE);
    assert_eq!(
        change("Nova", "{}", "apiDatabase: {name: api}"),
        [
            "spec.apiDatabase: changes the API database's name (nova_api when absent), and with it all cells and quotas; keep the old name, or create a new object and migrate"
        ]
    );
    assert_eq!(
        change("Nova", "database: {cellDatabase: zero}", "database: {cellDatabase: nought}"),
        [
            "spec.database.cellDatabase: changes cellDatabase, which holds the data; keep the old name, or create a new object and migrate"
        ]
    );
}

#[test]
fn nova_gives_each_purpose_a_database() {
    let nova: Nova = read("Nova", "{database: {host: db.example.net}, cells: [{name: far-away}, {name: cell1}]}");
    let name = |database: c5c3_api::blocks::Database| database.database.unwrap().to_string();
    assert_eq!(name(nova.spec.main_database()), "nova");
    assert_eq!(name(nova.spec.api_database()), "nova_api");
    assert_eq!(name(nova.spec.cell0_database()), "nova_cell0");
    assert_eq!(name(nova.spec.cell_database(&nova.spec.cells[0])), "nova_far_away");
    assert_eq!(name(nova.spec.cell_database(&nova.spec.cells[1])), "nova");
    assert_eq!(nova.spec.cell_database(&nova.spec.cells[0]).host, nova.spec.main_database().host);
    assert_eq!(
        create(
            "Nova",
            "{database: {cellDatabase: nova}, cells: [{name: cell1}, {name: b, database: {clusterRef: {name: mariadb}, database: nova_api}}]}"
        ),
        [
            "spec.database.cellDatabase: is nova on mariadb, as spec.database is; give each its own database",
            "spec.cells[1].database: is nova_api on mariadb, as spec.database.apiDatabase is; give each its own database",
        ]
    );
}

#[test]
fn nova_has_distinct_cells_and_leaves_cell0_alone() {
    assert_eq!(
        create("Nova", "cells: [{name: cell0}]"),
        [
            "spec.cells[0].name: is reserved for servers that no host was found for; name the cell otherwise, such as cell1"
        ]
    );
    assert!(create("Nova", "cells: [{name: cell1}, {name: cell1}]")[0].starts_with("spec.cells[1]"));
}

#[test]
fn nova_storage_takes_flat_and_nested_spellings() {
    let nova: Nova =
        read("Nova", "storage: {backend: rbd, rbdPool: vms, rbdUser: nova, cephSecretRef: {name: nova-ceph}}");
    let rbd = nova.spec.storage.unwrap().rbd.unwrap();
    assert_eq!((rbd.pool.as_deref(), rbd.ceph_secret_ref.name.as_str()), (Some("vms"), "nova-ceph"));
    assert_eq!(
        create("Nova", "storage: {rbdPool: vms}"),
        ["spec.storage: has backend rbd without keys for Ceph; set rbd.cephSecretRef, or set backend to local"]
    );
    assert_eq!(
        create("Nova", "storage: {backend: local, rbdPool: vms}"),
        ["spec.storage: names a Ceph pool, but backend is local; remove rbd, or set backend to rbd"]
    );
}

#[test]
fn neutron_has_drivers_for_the_types_it_offers() {
    assert_eq!(
        create("Neutron", "ml2: {typeDrivers: [vlan], tenantNetworkTypes: [vlan]}"),
        [
            "spec.ml2.typeDrivers: has the mechanism driver ovn without geneve, which OVN's tunnels are; add geneve to typeDrivers"
        ]
    );
    assert_eq!(
        create("Neutron", "ml2: {typeDrivers: [geneve], tenantNetworkTypes: [geneve, vlan]}"),
        [
            "spec.ml2.tenantNetworkTypes: has a type without a driver; add the type to typeDrivers, or remove it from tenantNetworkTypes"
        ]
    );
    assert!(create("Neutron", "ml2: {typeDrivers: [geneve, token-ring]}")[0].starts_with("spec.ml2.typeDrivers[1]: "));
    assert_eq!(
        create("Neutron", "ovn: {enabled: false}"),
        [
            "spec.ovn: switches OVN off, but ml2.mechanismDrivers has ovn; set ovn.enabled to true, or ml2.mechanismDrivers without ovn"
        ]
    );
}

#[test]
fn neutron_finds_ovn_by_reference_or_by_addresses_in_two_spellings() {
    let neutron: Neutron =
        read("Neutron", "{replicas: 2, ml2: {ovn: {ovnNbConnection: 'ssl:nb:6641', ovnSbConnection: 'ssl:sb:6642'}}}");
    assert_eq!(neutron.spec.api_replicas(), 2);
    let ovn = neutron.spec.ovn.unwrap();
    assert!(ovn.enabled);
    assert_eq!(ovn.nb_connection.unwrap().as_str(), "ssl:nb:6641");
    assert_eq!(
        create("Neutron", "ovn: {clusterRef: {name: ovn}, nbConnection: 'tcp:nb:6641', sbConnection: 'tcp:sb:6642'}"),
        NONE
    );
    assert_eq!(
        create("Neutron", "ovn: {nbConnection: 'tcp:nb:6641'}"),
        [
            "spec.ovn: has nbConnection without sbConnection; set sbConnection too, or clusterRef, from which what is left out is taken"
        ]
    );
    assert!(
        create("Neutron", "ovn: {nbConnection: 'nb:6641'}")[0]
            .starts_with("spec.ovn.nbConnection: is not an OVSDB connection")
    );
}

#[test]
fn cinder_backends_take_flat_and_nested_spellings() {
    let cinder: Cinder = read(
        "Cinder",
        "{replicas: {api: 3, volume: 2}, coordination: {secretRef: {name: v}}, backends: [{name: fast, backend: rbd, rbdPool: nvme, rbdUser: cinder, cephSecretRef: {name: c}}]}",
    );
    assert_eq!(
        (cinder.spec.api_replicas(), cinder.spec.scheduler_replicas(), cinder.spec.volume_replicas()),
        (3, 2, 2)
    );
    assert_eq!(cinder.spec.default_volume_type(), Some("fast"));
    let backend = &cinder.spec.backends[0];
    assert_eq!(backend.driver(), "cinder.volume.drivers.rbd.RBDDriver");
    assert_eq!(backend.rbd.as_ref().unwrap().pool.as_deref(), Some("nvme"));
}

#[test]
fn cinder_backends_are_named_once_and_match_their_driver() {
    let rbd = "rbd: {pool: volumes, cephSecretRef: {name: c}}";
    assert_eq!(
        create("Cinder", "backends: [{name: fast, rbdPool: nvme}]"),
        [
            "spec.backends[0]: has the RBD driver without keys for Ceph; set rbd with pool and cephSecretRef, or set driver to another driver"
        ]
    );
    assert_eq!(create("Cinder", "backends: [{name: nfs, driver: cinder.volume.drivers.nfs.NfsDriver}]"), NONE);
    assert_eq!(
        create("Cinder", &format!("backends: [{{name: nfs, driver: cinder.volume.drivers.nfs.NfsDriver, {rbd}}}]")),
        [
            "spec.backends[0]: is set up for Ceph, but driver is not the RBD driver; remove driver, or remove backend and rbd and set the driver's options in extraConfig, section of the backend's name"
        ]
    );
    assert!(
        create("Cinder", &format!("backends: [{{name: a, {rbd}}}, {{name: a, {rbd}}}]"))[0]
            .starts_with("spec.backends[1]")
    );
    assert_eq!(
        create("Cinder", &format!("backends: [{{name: database, {rbd}}}]")),
        [
            "spec.backends[0].name: is a section of cinder.conf with another meaning; name the backend after its storage, such as ceph-rbd"
        ]
    );
    assert_eq!(
        create("Cinder", &format!("{{backends: [{{name: a, {rbd}}}], defaultVolumeType: b}}")),
        [
            "spec.defaultVolumeType: is not the name of a backend; name one of spec.backends, each of which has a volume type of its name"
        ]
    );
}

#[test]
fn tempest_runs_tests_that_can_be_named() {
    assert!(create("Tempest", "tests: {concurrency: 0}")[0].starts_with("spec.tests.concurrency: "));
    assert!(create("Tempest", "tests: {services: [telepathy]}")[0].starts_with("spec.tests.services[0]: "));
    assert!(create("Tempest", "schedule: nightly")[0].starts_with("spec.schedule: is not a cron expression"));
    for good in [r"tempest\.(api|scenario)", r"[](]", r"\(", r"(?!x)[^]a]b", r"[\]]"] {
        assert_eq!(create("Tempest", &format!("tests: {{includeRegex: '{good}'}}")), NONE, "{good}");
    }
    for (bad, what) in [
        ("(a", "does not close a group, (...)"),
        ("a)", "closes a group that is not open"),
        ("[a", "does not close a set, [...]"),
    ] {
        assert_eq!(
            create("Tempest", &format!("tests: {{excludeRegex: '{bad}'}}")),
            [format!("spec.tests.excludeRegex: {what}; balance the brackets, or write a literal one with a backslash")]
        );
    }
}

#[test]
fn cortex_has_known_domains_and_reachable_datasources() {
    assert!(create("Cortex", "pipelines: {manila: {enabled: true}}")[0].starts_with("spec.pipelines.manila: "));
    assert!(
        create("Cortex", "pipelines: {nova: {filters: [{name: A}, {name: A}]}}")[0]
            .starts_with("spec.pipelines.nova.filters[1]")
    );
    assert_eq!(create("Cortex", "datasources: {prometheus: {enabled: false}}"), NONE);
    assert_eq!(
        create("Cortex", "datasources: {prometheus: {enabled: true}}"),
        [
            "spec.datasources.prometheus: is enabled without an endpoint; set endpoint to its address, or enabled to false"
        ]
    );
    assert_eq!(
        create("Cortex", "database: {clusterRef: {name: pg}, host: pg.example.net}"),
        [
            "spec.database: has both clusterRef and host; set clusterRef for a CloudNativePG cluster, or host for a server of yours"
        ]
    );
    assert_eq!(
        create(
            "Cortex",
            "pipelines: {nova: {filters: [{name: AvailabilityZoneFiltr}], weighers: [{name: RAMWeigher}]}}"
        ),
        [
            "spec.pipelines.nova.filters[0].name: no filter is called AvailabilityZoneFiltr; did you mean AvailabilityZoneFilter?"
        ]
    );
    let cortex: Cortex =
        read("Cortex", "pipelines: {cinder: {weighers: [{name: CapacityWeigher}, {name: DiskWeigher, weight: -0.5}]}}");
    let cinder = cortex.spec.pipelines.unwrap().cinder.unwrap();
    assert!(cinder.enabled);
    assert_eq!(cinder.weighers.iter().map(|weigher| weigher.weight).collect::<Vec<_>>(), [1.0, -0.5]);
}

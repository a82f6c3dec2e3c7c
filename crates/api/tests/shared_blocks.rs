//! What the six OpenStack services have in common: fields, columns, and what is refused on each of them.

use c5c3_api::Kind;
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, ServiceObject};
use serde_json::{Value, json};

const SERVICES: [&str; 6] = ["Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder"];

fn kind(name: &str) -> &'static Kind {
    c5c3_api::find(&format!("{}.openstack.c5c3.io/v1alpha1", name.to_lowercase()), name).unwrap()
}

/// An object of `kind` with a spec in YAML.
fn named(kind_name: &str, name: &str, spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    let meta = json!({"name": name, "namespace": "aviary"});
    json!({"apiVersion": kind(kind_name).api_version(), "kind": kind_name, "metadata": meta, "spec": spec})
}

fn problems(object: &Value) -> Vec<String> {
    kind(object["kind"].as_str().unwrap()).check(object, None).iter().map(ToString::to_string).collect()
}

fn create(kind: &str, spec: &str) -> Vec<String> {
    problems(&named(kind, "kestrel", spec))
}

const NONE: [&str; 0] = [];

#[test]
fn every_service_has_the_same_columns() {
    for service in SERVICES {
        let columns = kind(service).crd().spec.versions[0].additional_printer_columns.clone().unwrap();
        let names: Vec<(String, i32)> =
            columns.into_iter().map(|column| (column.name, column.priority.unwrap_or_default())).collect();
        let expected =
            [("Ready", 0), ("Reason", 0), ("Release", 0), ("Replicas", 0), ("Endpoint", 0), ("Age", 0), ("Message", 1)];
        assert_eq!(names, expected.map(|(name, priority)| (name.to_owned(), priority)), "{service}");
    }
}

#[test]
fn every_service_has_the_shared_fields() {
    let spec = [
        "autoscaling",
        "caBundleRef",
        "deletionPolicy",
        "extraConfigFrom",
        "extraFiles",
        "gateway",
        "imagePullSecrets",
        "jobResources",
        "logging",
        "networkPolicy",
        "uwsgi",
    ];
    let status = [
        "conditions",
        "endpoint",
        "installedRelease",
        "observedGeneration",
        "replicas",
        "selector",
        "targetRelease",
        "upgradePhase",
        "waitingFor",
    ];
    for service in SERVICES {
        let schema = kind(service).schema();
        assert_eq!(spec.into_iter().filter(|field| !schema.has_field(&["spec", field])).collect::<Vec<_>>(), NONE);
        assert_eq!(status.into_iter().filter(|field| !schema.has_field(&["status", field])).collect::<Vec<_>>(), NONE);
        assert_eq!(schema.has_field(&["spec", "publicEndpoint"]), service != "Keystone", "{service}");
    }
}

#[test]
fn generic_code_reads_the_shared_parts_of_any_service() {
    fn read<S: ServiceObject>(more: &str) -> S {
        let spec = format!(
            "{{logging: {{format: json}}, autoscaling: {{maxReplicas: 5, targetCPUUtilization: 50}}, deletionPolicy: Delete, \
             extraConfig: {{DEFAULT: {{debug: 'true'}}}}, {more}}}"
        );
        let mut object = named(&S::kind(&()), "kestrel", &spec);
        assert_eq!(problems(&object), NONE);
        let kind = kind(&S::kind(&()));
        kind.normalize(&mut object);
        kind.schema().default(&mut object);
        object["status"] = json!({"endpoint": "http://kestrel.aviary.svc", "replicas": 2});
        serde_json::from_value(object).unwrap()
    }
    fn check<S: ServiceObject>(object: &S, replicas: i32) {
        let service = S::SERVICE;
        assert_eq!(format!("{:?}", S::KIND).to_lowercase(), service);
        assert_eq!(object.replicas(), replicas, "{service}");
        assert_eq!(object.exposure().autoscaling.as_ref().unwrap().max_replicas.get(), 5, "{service}");
        assert_eq!(object.operations().logging.unwrap().format, c5c3_api::blocks::LogFormat::Json, "{service}");
        assert_eq!(object.deletion_policy(), c5c3_api::blocks::DeletionPolicy::Delete, "{service}");
        assert!(object.resources().unwrap().requests.contains_key("cpu"), "{service}");
        assert!(object.extra_config().contains_key("DEFAULT"), "{service}");
        assert_eq!(object.public_endpoint().unwrap().as_str(), "https://kestrel.example.net", "{service}");
        assert_eq!(object.status().unwrap().endpoint.as_deref(), Some("http://kestrel.aviary.svc"), "{service}");
        assert_eq!(object.status().unwrap().replicas, Some(2), "{service}");
    }
    let public = "publicEndpoint: 'https://kestrel.example.net'";
    let flat = format!("resources: {{requests: {{cpu: 1}}}}, {public}");
    let nested = format!("api: {{replicas: 4, resources: {{requests: {{cpu: 1}}}}}}, {public}");
    let keystone = format!("resources: {{requests: {{cpu: 1}}}}, bootstrap: {{{public}}}");
    check::<Keystone>(&read(&keystone), 3);
    check::<Glance>(&read(&flat), 2);
    check::<Placement>(&read(&flat), 2);
    check::<Nova>(&read(&nested), 4);
    check::<Neutron>(&read(&nested), 4);
    check::<Cinder>(&read(&nested), 4);
}

#[test]
fn extra_files_come_from_one_place_and_go_to_a_folder_of_their_own() {
    let file = |more: &str| format!("extraFiles: [{{name: ldap, {more}}}]");
    for service in SERVICES {
        assert_eq!(create(service, &file("mountPath: /etc/ldap, secretRef: {name: ldap}")), NONE, "{service}");
        for neither in ["mountPath: /etc/ldap", "mountPath: /etc/ldap, secretRef: {name: a}, configMapRef: {name: b}"] {
            assert_eq!(
                create(service, &file(neither)),
                ["spec.extraFiles[0]: needs exactly one of secretRef and configMapRef; set one of them"],
                "{service}"
            );
        }
        for (path, what) in [
            ("/etc/", "is not an absolute folder"),
            ("etc/ldap", "is not an absolute folder"),
            ("/etc/../opt", "is not an absolute folder"),
            ("/etc", "is a folder that the service or its container needs"),
            ("/proc/self", "is a folder that the service or its container needs"),
            ("/var/run/secrets/kubernetes.io", "is a folder that the service or its container needs"),
            (&format!("/etc/{}", service.to_lowercase()), "is a folder that the service or its container needs"),
        ] {
            let found = create(service, &file(&format!("mountPath: {path}, secretRef: {{name: ldap}}")));
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("spec.extraFiles[0].mountPath: {what}")),
                "{service} {path}: {found:?}"
            );
        }
        let twice = "extraFiles: [{name: a, mountPath: /srv/x, secretRef: {name: a}}, {name: b, mountPath: /srv/x, secretRef: {name: b}}]";
        assert_eq!(
            create(service, twice),
            [
                "spec.extraFiles: has two entries with the same mountPath, of which a pod takes one; give each entry a folder of its own"
            ],
            "{service}"
        );
    }
}

#[test]
fn operations_have_bounds_and_known_words() {
    for service in SERVICES {
        for (field, spec) in [
            ("spec.logging.level", "logging: {level: LOUD}"),
            ("spec.logging.format", "logging: {format: xml}"),
            ("spec.uwsgi.processes", "uwsgi: {processes: 0}"),
            ("spec.uwsgi.threads", "uwsgi: {threads: 65}"),
            ("spec.uwsgi.harakiri", "uwsgi: {harakiri: 86401}"),
            ("spec.caBundleRef", "caBundleRef: {}"),
            ("spec.imagePullSecrets[0].name", "imagePullSecrets: [{name: Not a name}]"),
            ("spec.jobResources.limits.memory", "jobResources: {limits: {memory: 1GB}}"),
        ] {
            let found = create(service, spec);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{field}: ")), "{service} {spec}: {found:?}");
        }
    }
}

#[test]
fn a_fragment_of_configuration_has_the_usual_key() {
    for service in SERVICES {
        let mut object =
            named(service, "kestrel", "{extraConfigFrom: [{name: hidden}], caBundleRef: {secretRef: {name: ca}}}");
        assert_eq!(problems(&object), NONE);
        kind(service).schema().default(&mut object);
        assert_eq!(object["spec"]["extraConfigFrom"], json!([{"name": "hidden", "key": "config"}]), "{service}");
        assert_eq!(object["spec"]["caBundleRef"]["secretRef"]["key"], "ca.crt", "{service}");
    }
}

#[test]
fn exposure_that_cannot_work_is_refused_on_every_service() {
    for service in SERVICES {
        let api = if ["Nova", "Neutron", "Cinder"].contains(&service) { "spec.api" } else { "spec" };
        assert_eq!(
            create(service, "autoscaling: {maxReplicas: 5, targetCPUUtilization: 50}"),
            [format!(
                "spec.autoscaling.targetCPUUtilization: is a share of the cpu that a pod requests, and it requests none; set {api}.resources.requests.cpu, such as 500m, or remove it"
            )],
            "{service}"
        );
        let route = "gateway: {parentRef: {name: public}, hostname: kestrel.example.net}";
        assert_eq!(create(service, route), NONE, "{service}");
        let tls = "tls: {enabled: true, issuerRef: {name: ca}}";
        let found = create(service, &format!("{{{route}, {tls}}}"));
        assert!(found.len() == 1 && found[0].starts_with("spec.gateway: leads to pods that speak TLS"), "{found:?}");
    }
}

#[test]
fn glance_on_a_volume_of_one_node_does_not_grow() {
    let spec = |most: u8, mode: &str| {
        format!(
            "{{replicas: 1, storage: {{backend: file, file: {{accessMode: {mode}}}}}, resources: {{requests: {{cpu: 1}}}}, \
             autoscaling: {{maxReplicas: {most}, targetCPUUtilization: 50}}}}"
        )
    };
    assert_eq!(create("Glance", &spec(3, "ReadWriteMany")), NONE);
    assert_eq!(create("Glance", &spec(1, "ReadWriteOnce")), NONE);
    assert_eq!(
        create("Glance", &spec(3, "ReadWriteOnce")),
        [
            "spec.autoscaling: adds replicas on a volume that one node at a time can mount; remove autoscaling, or set storage.file.accessMode to ReadWriteMany"
        ]
    );
}

#[test]
fn a_name_leaves_room_for_what_is_named_after_it() {
    for (service, longest) in [
        ("Keystone", 34),
        ("Glance", 52),
        ("Placement", 52),
        ("Nova", 52),
        ("Neutron", 52),
        ("Cinder", 52),
        ("Tempest", 52),
    ] {
        assert_eq!(problems(&named(service, &"k".repeat(longest), "{}")), NONE, "{service}");
        assert_eq!(
            problems(&named(service, &"k".repeat(longest + 1), "{}")),
            [format!(
                "metadata.name: has {} characters, and what is named after it would exceed the limits of Kubernetes; use at most {longest} characters; names cannot be changed: create the object with another name",
                longest + 1
            )],
            "{service}"
        );
        for wrong in ["1st", "a.b"] {
            assert_eq!(
                problems(&named(service, wrong, "{}")),
                [
                    "metadata.name: is not a name that a Service can have; use lower case letters, digits and '-', starting with a letter; names cannot be changed: create the object with another name"
                ],
                "{service} {wrong}"
            );
        }
    }
}

#[test]
fn a_dependency_of_the_same_name_may_be_in_another_namespace() {
    let depends = |namespace: &str| format!("dependsOn: [{{kind: Keystone, name: kestrel, namespace: {namespace}}}]");
    assert_eq!(create("Keystone", &depends("elsewhere")), NONE);
    assert_eq!(
        create("Keystone", &depends("aviary")),
        ["spec.dependsOn[0]: is the object itself, which would wait forever; remove this entry"]
    );
}

#[test]
fn federation_is_refused_until_it_is_implemented() {
    assert_eq!(create("Keystone", "federation: {enabled: false}"), NONE);
    assert_eq!(
        create("Keystone", "federation: {enabled: true}"),
        [
            "spec.federation.enabled: is not supported: there is no front end for OpenID Connect or SAML yet, so federated sign-in would fail; set it to false"
        ]
    );
    assert_eq!(
        create("Keystone", "federation: {trustedDashboards: ['https://d.example.net/auth/websso/']}"),
        ["spec.federation.trustedDashboards: has no effect while federation is off; remove the list"]
    );
}

#[test]
fn only_kinds_with_a_container_that_speaks_tls_take_its_image() {
    let takes = |kind: &&Kind| {
        let schema = kind.open_api();
        !schema["properties"]["spec"]["properties"]["tls"]["properties"]["image"].is_null()
    };
    let found: Vec<String> = c5c3_api::all().iter().filter(takes).map(|kind| kind.name().to_owned()).collect();
    let mut services = SERVICES.map(str::to_owned).to_vec();
    services.retain(|service| !found.contains(service));
    assert!(services.is_empty(), "{services:?} do not take it");
    assert_eq!(found.len(), SERVICES.len(), "{found:?}");
}

//! Migrations as data, the Jobs that run them, and the record of how far a service is.

use c5c3_kit::ini::Ini;
use c5c3_kit::inputs::Found;
use c5c3_kit::{Child, Inputs};
use c5c3_service::Instance;
use c5c3_service::job::{Command, Run};
use c5c3_service::migrations::{Migrations, Schemas, once};
use c5c3_service::pod::{Mount, Shared};
use c5c3_service::record;
use c5c3_service::release::{self, Release};
use c5c3_service::upgrade::{MigrationPhase, Progress};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

fn instance() -> Instance {
    Instance { service: "kestrel", name: "gate".into(), namespace: "cloud".into() }
}

fn manage(what: &str) -> Command {
    Command::new(&["kestrel-manage", what])
}

fn migrations() -> Migrations {
    Migrations::sync(manage("sync"))
        .online(manage("online"))
        .check(manage("check"))
        .sections(&["database"])
        .env(&[("PLUMAGE", "grey")])
}

fn conf() -> Ini {
    let mut conf = Ini::new();
    conf.set("database", "connection", "mysql://nest").unwrap();
    conf.set("api", "workers", 2).unwrap();
    conf
}

/// What `look` sees of the Jobs of an instance whose schemas are on that host.
fn seen<T>(migrations: &Migrations, host: &str, look: impl FnOnce(&Schemas<'_>) -> T) -> T {
    let (instance, shared, conf) = (instance(), Shared::default(), conf());
    let run = Run {
        instance: &instance,
        what: "",
        image: "kestrel:1",
        commands: &[],
        servers: Vec::new(),
        env: &[],
        mounts: vec![Mount::secret("ca", "kestrel-ca", "/etc/ca")],
        shared: &shared,
        resources: None,
        scheduling: None,
        identity: Value::Null,
        group: None,
    };
    look(&Schemas {
        migrations,
        conf: ("kestrel.conf", &conf),
        identity: json!(host),
        more: Vec::new(),
        run,
        folder: "/etc/kestrel",
    })
}

/// The last argument of each container, in the order that they run in.
fn commands(job: &Child) -> Vec<String> {
    let pod = &job.object.data["spec"]["template"]["spec"];
    let containers = ["initContainers", "containers"].into_iter().filter_map(|field| pod[field].as_array()).flatten();
    let last = |container: &Value| {
        let words = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
        words.last().and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    containers.map(last).collect()
}

fn base(job: &Child) -> String {
    job.object.metadata.labels.as_ref().unwrap()["c5c3.io/base"].clone()
}

#[test]
fn an_installation_runs_all_commands_and_an_upgrade_some_before_and_some_after_the_new_pods() {
    let migrations = migrations();
    assert_eq!(migrations.install, [manage("sync"), manage("online"), manage("check")]);
    assert_eq!(migrations.before, [manage("sync")]);
    assert_eq!(migrations.after, [manage("online"), manage("check")]);
    assert_eq!((migrations.sections, migrations.env), (&["database"][..], &[("PLUMAGE", "grey")][..]));
}

#[test]
fn each_phase_has_a_job_with_its_own_name_and_commands() {
    seen(&migrations(), "nest", |schemas| {
        let sync = schemas.before(MigrationPhase::Sync).unwrap();
        assert_eq!((base(&sync).as_str(), commands(&sync)), ("gate-db-sync", words(&["sync", "online", "check"])));
        for phase in [MigrationPhase::Expand, MigrationPhase::Contract] {
            let expand = schemas.before(phase).unwrap();
            assert_eq!((base(&expand).as_str(), commands(&expand)), ("gate-db-expand", words(&["sync"])));
        }
        let contract = schemas.after().unwrap();
        let expected = words(&["online", "check"]);
        assert_eq!((base(&contract).as_str(), commands(&contract)), ("gate-db-contract", expected));
    });
    assert!(seen(&Migrations::sync(manage("sync")), "nest", |schemas| schemas.after().is_none()));
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_job_of_schemas_has_their_configuration_certificates_and_variables_and_no_deadline() {
    let (job, secret) =
        seen(&migrations(), "nest", |schemas| (schemas.before(MigrationPhase::Sync).unwrap(), schemas.files().name()));
    assert_eq!(job.object.metadata.labels.as_ref().unwrap()["c5c3.io/job-group"], "schema");
    let spec = &job.object.data["spec"];
    assert_eq!(spec["activeDeadlineSeconds"], Value::Null, "what changes a schema is not cut short");
    let pod = &spec["template"]["spec"];
    let volumes: Vec<_> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["secret"]["secretName"]).collect();
    assert!(volumes.contains(&&json!(secret)) && volumes.contains(&&json!("kestrel-ca")), "{volumes:?}");
    let env = pod["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "PLUMAGE", "value": "grey"})), "{env:?}");
}

#[test]
fn a_job_runs_again_for_schemas_on_another_server() {
    let name = |host: &str| {
        seen(&migrations(), host, |schemas| schemas.before(MigrationPhase::Sync).unwrap().reference().name)
    };
    assert_eq!(name("nest"), name("nest"));
    assert_ne!(name("nest"), name("barn"));
}

#[test]
fn a_job_reads_only_the_sections_that_it_needs_and_gives_up_after_some_tries() {
    let file = once(&conf(), &["database"]);
    let text = file.expose_secret();
    assert!(text.contains("connection = mysql://nest") && text.contains("max_retries = 12"), "{text}");
    assert!(!text.contains("workers"), "{text}");
    let child = seen(&migrations(), "nest", |schemas| schemas.files().child());
    assert!(child.object.data["data"]["kestrel.conf"].is_string());
    assert!(child.reference().name.starts_with("gate-schema-"));
}

fn progress(installed: Option<&str>, target: Option<&str>, phase: Option<&str>) -> Progress {
    let text = |text: Option<&str>| text.map(ToOwned::to_owned);
    Progress { installed: text(installed), target: text(target), phase: text(phase) }
}

#[test]
fn a_record_has_what_is_known_of_an_upgrade_and_stays_with_the_data() {
    let child = record::child(&instance(), &progress(Some("28.0.0"), Some("29.0.0"), None), true);
    assert_eq!(child.reference(), record::reference(&instance()));
    assert_eq!((child.reference().name.as_str(), child.kept), ("gate-release", Some(true)));
    assert_eq!(child.object.data["data"], json!({"installed": "28.0.0", "target": "29.0.0"}));
}

/// What is read of a record with this data, beside a status that names release 27.
fn read(data: Option<&Value>) -> Progress {
    let mut inputs = Inputs::new(ConfigMap::default(), Timestamp::UNIX_EPOCH);
    if let Some(data) = data {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate-release"}, "data": data});
        let found = Found::Object(Box::new(serde_json::from_value(map).unwrap()));
        inputs.insert(record::reference(&instance()), found);
    }
    record::read(&inputs, &instance(), progress(Some("27.0.0"), None, None))
}

#[test]
fn a_record_that_names_a_release_counts_and_otherwise_the_status_does() {
    let recorded = json!({"installed": "28.0.0", "target": "29.0.0", "phase": "Expanding"});
    assert_eq!(read(Some(&recorded)), progress(Some("28.0.0"), Some("29.0.0"), Some("Expanding")));
    assert_eq!(read(Some(&json!({"installed": "28.0.0"}))), progress(Some("28.0.0"), None, None));
    assert_eq!(read(Some(&json!({"target": "29.0.0"}))), progress(None, Some("29.0.0"), None));
    assert_eq!(read(Some(&json!({"phase": "Expanding"}))), progress(Some("27.0.0"), None, None));
    assert_eq!(read(None), progress(Some("27.0.0"), None, None));
}

#[test]
fn a_release_is_found_by_its_name_and_names_the_versions_in_it() {
    assert_eq!(Release::of("2026.1").map(|release| release.name), Some("2026.1"));
    assert!(Release::of("2025.1").is_none(), "no images are built for it");
    let release = Release::of("2025.2").unwrap();
    assert_eq!(release.version("keystone"), Some("28.0.0"));
    assert_eq!(release.version("cortex"), None, "its image is that of the operators");
    assert_eq!(release.version("kestrel"), None);
    assert_eq!(release::known(), "2025.2, 2026.1");
}

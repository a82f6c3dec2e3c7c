//! Our CRDs of K-ORC's kinds beside the contracts with upstream's own: the same names and columns, structurally the same
//! schemas. Where the genuine CRDs are at hand, their rules are the same, too, and so is the verdict on documents at the edges.

#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use c5c3_api::orc::{self, Project};
use c5c3_api::{Kind, Problems};
use c5c3_contracts::{Contract, Genuine, compared_with_genuine};
use c5c3_schema::Schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Where our schemas may differ from the genuine ones, and why that changes no verdict.
const TOLERATED: [(&str, &str); 3] = [
    ("properties.apiVersion", "every object has it; an API server adds it to each schema"),
    ("properties.kind", "every object has it; an API server adds it to each schema"),
    ("properties.metadata", "every object has it; an API server adds it to each schema"),
];

const GROUP: &str = "openstack.k-orc.cloud";

/// The definitions of K-ORC's kinds by the contracts.
fn contracts() -> Vec<Value> {
    let contracts = Contract::all().into_iter().filter(|contract| contract.group == GROUP);
    contracts.map(|contract| contract.definition()).collect()
}

/// The same, as the project ships them, where they are at hand.
fn genuine() -> Vec<Value> {
    let all = Genuine::all(false).into_iter().map(|genuine| genuine.definition);
    all.filter(|definition| definition["spec"]["group"] == GROUP).collect()
}

/// The YAML files of a folder, by path.
fn documents(folder: &str) -> BTreeMap<PathBuf, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.map(|path| (path.clone(), serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap())).collect()
}

fn ours(kind: &str) -> &'static Kind {
    let found = c5c3_api::find("openstack.k-orc.cloud/v1alpha1", kind);
    found.unwrap_or_else(|| panic!("{kind} is not among our kinds"))
}

/// Each CRD of theirs with ours, both as JSON.
fn pairs(theirs: Vec<Value>) -> Vec<(String, Value, Value)> {
    let pairs = theirs.into_iter().map(|theirs| {
        let kind = theirs["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let ours = serde_json::to_value(ours(&kind).crd()).unwrap();
        (kind, theirs, ours)
    });
    pairs.collect()
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn every_genuine_kind_is_among_ours_and_no_other() {
    let ours = c5c3_api::all().iter().filter(|k| k.crd().spec.group == GROUP);
    // All of their fields belong into the contracts.
    for kind in ours.clone() {
        c5c3_contracts::record(&serde_json::to_value(kind.crd()).unwrap());
    }
    if c5c3_contracts::is_recording() {
        return;
    }
    let ours = ours.map(Kind::name);
    let pairs = pairs(contracts());
    assert_eq!(ours.collect::<BTreeSet<_>>(), pairs.iter().map(|(kind, ..)| kind.as_str()).collect());
    assert_eq!(pairs.len(), 9);
}

#[test]
fn names_scope_and_versions_are_the_same() {
    for (kind, mut theirs, ours) in pairs(contracts().into_iter().chain(genuine()).collect()) {
        // An API server fills this one in.
        theirs["spec"]["names"].as_object_mut().unwrap().remove("listKind");
        // Ours are in `kubectl get c5c3`, too.
        theirs["spec"]["names"]["categories"].as_array_mut().unwrap().push("c5c3".into());
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"], "{kind}");
        for field in ["group", "names", "scope"] {
            let (ours, theirs) = (without_empty(&ours["spec"][field]), without_empty(&theirs["spec"][field]));
            assert_eq!(ours, theirs, "{kind} {field}");
        }
        let (ours, theirs) = (&ours["spec"]["versions"], &theirs["spec"]["versions"]);
        assert_eq!(ours.as_array().unwrap().len(), theirs.as_array().unwrap().len(), "{kind}");
        for field in ["name", "served", "storage", "subresources"] {
            assert_eq!(without_empty(&ours[0][field]), without_empty(&theirs[0][field]), "{kind} {field}");
        }
    }
}

/// Without fields of an empty list, which a CRD may have or not: `shortNames: []`.
fn without_empty(value: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    object.iter().filter(|(_, v)| **v != json!([])).map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[test]
fn columns_are_the_same() {
    let columns = |crd: &Value| {
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().clone();
        let columns = columns.into_iter().map(|column| {
            ["name", "type", "jsonPath", "priority"].map(|field| column.get(field).cloned().unwrap_or_default())
        });
        columns.collect::<Vec<_>>()
    };
    for (kind, theirs, ours) in pairs(contracts().into_iter().chain(genuine()).collect()) {
        assert_eq!(columns(&ours), columns(&theirs), "{kind}");
    }
}

#[test]
fn schemas_are_structurally_the_same() {
    // Contracts have no rules.
    let without_rules = pairs(contracts()).into_iter().map(|(kind, theirs, mut ours)| {
        drop_rules(&mut ours);
        (kind, theirs, ours)
    });
    assert_same(without_rules.collect());
    if compared_with_genuine("whether the rules of K-ORC's kinds are upstream's") {
        assert_same(pairs(genuine()));
    }
}

fn drop_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(drop_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_rules),
        _ => {}
    }
}

fn assert_same(pairs: Vec<(String, Value, Value)>) {
    let mut differences = Vec::new();
    for (kind, theirs, ours) in pairs {
        let mut found = Vec::new();
        compare("", schema(&ours), schema(&theirs), &mut found);
        found.retain(|(path, _)| !TOLERATED.iter().any(|(tolerated, _)| tolerated == path));
        differences.extend(found.into_iter().map(|(path, what)| format!("{kind} {path}: {what}")));
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Every difference between two schemas but for descriptions, and the order where it means nothing.
fn compare(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<(String, String)>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                // As a keyword it is text; as the name of a property it is a schema.
                let text = |v: Option<&Value>| v.is_none_or(Value::is_string);
                if key == "description" && text(a.get(key)) && text(b.get(key)) {
                    continue;
                }
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() || !a.iter().all(|item| b.contains(item)) {
                found.push((path.into(), format!("ours {ours}, theirs {theirs}")));
            }
        }
        // `minimum` is a float in our type of a CRD.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ if ours == theirs => {}
        _ => found.push((path.into(), format!("ours {ours}, theirs {theirs}"))),
    }
}

static GENUINE: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    pairs(genuine()).into_iter().map(|(kind, theirs, _)| (kind, Schema::compile(schema(&theirs)).unwrap())).collect()
});

/// Whether our CRD accepts the object. The genuine one, if at hand, must agree on what is wrong and where; only the hint how
/// to fix it, which comes from descriptions, may differ.
fn accepted(object: &Value, old: Option<&Value>) -> bool {
    let kind = object["kind"].as_str().unwrap();
    let verdict = |problems: Problems| {
        let problems = problems.sorted().into_iter().map(|p| (p.path, p.kind, p.what));
        problems.collect::<Vec<_>>()
    };
    let ours = verdict(ours(kind).check(object, old));
    if compared_with_genuine("whether upstream's CRDs give the same verdicts") {
        assert_eq!(ours, verdict(GENUINE[kind].check(object, old)), "{object}");
    }
    ours.is_empty()
}

fn object(kind: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind,
        "metadata": {"name": "heron", "namespace": "marsh"}, "spec": spec});
    object["spec"]["cloudCredentialsRef"] = json!({"secretName": "marsh-clouds", "cloudName": "marsh"});
    object
}

fn managed(kind: &str, resource: &Value) -> Value {
    object(kind, &json!({"resource": resource}))
}

fn import(kind: &str, import: &Value) -> Value {
    object(kind, &json!({"managementPolicy": "unmanaged", "import": import}))
}

fn assert_verdicts(accept: &[Value], refuse: &[Value]) {
    for object in accept {
        assert!(accepted(object, None), "refused: {object}");
    }
    for object in refuse {
        assert!(!accepted(object, None), "accepted: {object}");
    }
}

#[test]
fn the_policy_decides_between_resource_and_import() {
    let by_name = json!({"filter": {"name": "reed"}});
    for kind in ["Domain", "Project", "Role", "Group", "User"] {
        let no_credentials =
            json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind, "spec": {"resource": {}}});
        assert_verdicts(
            &[
                managed(kind, &json!({})),
                object(
                    kind,
                    &json!({"managementPolicy": "managed", "resource": {}, "managedOptions": {"onDelete": "detach"}}),
                ),
                object(kind, &json!({"resource": {}, "managedOptions": {}, "resyncPeriod": "any text"})),
                import(kind, &by_name),
            ],
            &[
                no_credentials,
                object(kind, &json!({})),
                object(kind, &json!({"managementPolicy": "unmanaged"})),
                object(kind, &json!({"managementPolicy": "detached", "resource": {}})),
                object(kind, &json!({"resource": {}, "import": by_name})),
                object(kind, &json!({"managementPolicy": "unmanaged", "resource": {}})),
                object(kind, &json!({"managementPolicy": "unmanaged", "resource": {}, "import": by_name})),
                object(kind, &json!({"managementPolicy": "unmanaged", "import": by_name, "managedOptions": {}})),
                object(kind, &json!({"resource": {}, "managedOptions": {"onDelete": "keep"}})),
            ],
        );
    }
}

#[test]
fn an_import_has_one_member_and_a_uuid() {
    let id = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    assert_verdicts(
        &[import("Project", &json!({"id": id})), import("Project", &json!({"id": id.replace('-', "")}))],
        &[
            import("Project", &json!({})),
            import("Project", &json!({"filter": {}})),
            import("Project", &json!({"id": id, "filter": {"name": "reed"}})),
            import("Domain", &json!({"id": "default"})),
            import("Project", &json!({"id": "7".repeat(64)})),
            import("RoleAssignment", &json!({"id": id})),
            import("RoleAssignment", &json!({"filter": {}})),
        ],
    );
}

#[test]
fn names_and_tags_have_bounds() {
    let tags = |count: usize| (0..count).map(|n| format!("tag-{n}")).collect::<Vec<_>>();
    assert_verdicts(
        &[
            managed(
                "Project",
                &json!({"tags": tags(80), "name": "\u{e9}".repeat(64), "description": "d".repeat(65535)}),
            ),
            managed("Project", &json!({"name": "a,b"})),
            managed("Service", &json!({"type": "compute", "name": "n".repeat(255)})),
            managed("Endpoint", &json!({"interface": "public", "url": "", "serviceRef": "nova"})),
            import("Service", &json!({"filter": {"type": "compute"}})),
            import("Project", &json!({"filter": {"notTagsAny": tags(80)}})),
            import("Endpoint", &json!({"filter": {"interface": "admin"}})),
        ],
        &[
            managed("Project", &json!({"tags": tags(81)})),
            managed("Project", &json!({"tags": ["twice", "twice"]})),
            managed("Project", &json!({"tags": [""]})),
            managed("Project", &json!({"name": "n".repeat(65)})),
            managed("Project", &json!({"description": ""})),
            managed("Domain", &json!({"description": "d".repeat(256)})),
            managed("Domain", &json!({"enabled": "yes"})),
            managed("User", &json!({"name": "a,b"})),
            managed("Service", &json!({"name": "nova"})),
            managed("Service", &json!({"type": "compute", "name": "a,b"})),
            managed("Endpoint", &json!({"interface": "private", "url": "http://nova", "serviceRef": "nova"})),
            managed("Endpoint", &json!({"interface": "public", "url": "u".repeat(1025), "serviceRef": "nova"})),
            import("Project", &json!({"filter": {"tagsAny": tags(81)}})),
            import("Group", &json!({"filter": {"domainRef": "d".repeat(254)}})),
        ],
    );
}

#[test]
fn fields_that_only_our_documents_have_are_unknown() {
    assert_verdicts(
        &[],
        &[
            managed(
                "Endpoint",
                &json!({"interface": "public", "url": "http://nova", "serviceRef": "nova", "region": "RegionOne"}),
            ),
            managed("User", &json!({"passwordSecretRef": {"name": "nova"}})),
            managed("User", &json!({"roles": ["admin"]})),
            managed("Project", &json!({"parentRef": "root"})),
        ],
    );
}

#[test]
fn a_role_assignment_has_one_actor_and_one_scope() {
    let assignment = |refs: &[&str]| {
        let refs = ["roleRef"].iter().chain(refs).map(|field| ((*field).to_owned(), json!("heron")));
        managed("RoleAssignment", &Value::Object(refs.collect()))
    };
    assert_verdicts(
        &[
            assignment(&["userRef", "projectRef"]),
            assignment(&["groupRef", "domainRef"]),
            import("RoleAssignment", &json!({"filter": {"userRef": "heron"}})),
            import("RoleAssignment", &json!({"filter": {"userRef": "heron", "groupRef": "herons"}})),
        ],
        &[
            assignment(&["userRef", "groupRef", "projectRef"]),
            assignment(&["userRef", "projectRef", "domainRef"]),
            assignment(&["userRef"]),
            assignment(&["projectRef"]),
            managed("RoleAssignment", &json!({"userRef": "heron", "projectRef": "marsh"})),
        ],
    );
}

#[test]
fn an_application_credential_is_found_by_more_than_its_user() {
    let rules = |rules: &Value| {
        managed("ApplicationCredential", &json!({"userRef": "nova", "secretRef": "nova", "accessRules": rules}))
    };
    assert_verdicts(
        &[
            import("ApplicationCredential", &json!({"filter": {"userRef": "nova", "name": "nova"}})),
            import("ApplicationCredential", &json!({"filter": {"userRef": "nova", "description": ""}})),
            rules(&json!([{"path": "/v2.1/servers", "method": "GET", "serviceRef": "nova"}, {"path": ""}])),
            managed(
                "ApplicationCredential",
                &json!({"userRef": "nova", "secretRef": "nova", "expiresAt": "2030-01-02T03:04:05Z"}),
            ),
        ],
        &[
            import("ApplicationCredential", &json!({"filter": {"userRef": "nova"}})),
            import("ApplicationCredential", &json!({"filter": {"name": "nova", "description": "nova"}})),
            managed("ApplicationCredential", &json!({"userRef": "nova"})),
            managed("ApplicationCredential", &json!({"userRef": "nova", "secretRef": "nova", "expiresAt": "tomorrow"})),
            rules(&json!([{}])),
            rules(&json!([{"method": "FETCH"}])),
        ],
    );
}

#[test]
fn the_same_changes_are_refused() {
    let endpoint = |field: &str, value: &str| {
        let mut resource =
            json!({"interface": "public", "url": "http://nova", "serviceRef": "nova", "description": "old"});
        resource[field] = value.into();
        managed("Endpoint", &resource)
    };
    let credential =
        |name: &str| managed("ApplicationCredential", &json!({"userRef": "nova", "secretRef": "nova", "name": name}));
    let assignment =
        |role: &str| managed("RoleAssignment", &json!({"roleRef": role, "userRef": "nova", "projectRef": "service"}));
    let user = |resource: Value| managed("User", &resource);
    let before = endpoint("url", "http://nova");
    let change = |old: &Value, new: &Value| accepted(new, Some(old));

    assert!(change(&before, &endpoint("url", "https://nova")));
    assert!(change(&before, &endpoint("interface", "internal")));
    assert!(!change(&before, &endpoint("serviceRef", "placement")));
    assert!(!change(&before, &endpoint("description", "new")));
    assert!(change(&credential("a"), &credential("a")));
    assert!(!change(&credential("a"), &credential("b")));
    assert!(!change(&assignment("reader"), &assignment("admin")));
    assert!(!change(&managed("Role", &json!({})), &import("Role", &json!({"filter": {"name": "reader"}}))));
    assert!(!change(&managed("Group", &json!({"domainRef": "a"})), &managed("Group", &json!({"domainRef": "b"}))));
    // Upstream's rule sees a change of a value only; a reference may still come and go.
    assert!(change(&managed("Group", &json!({"domainRef": "a"})), &managed("Group", &json!({}))));
    assert!(change(&user(json!({})), &user(json!({"passwordRef": "one"}))));
    assert!(change(&user(json!({"passwordRef": "one"})), &user(json!({"passwordRef": "two"}))));
    assert!(!change(&user(json!({"passwordRef": "one"})), &user(json!({}))));
    assert!(!change(&user(json!({"defaultProjectRef": "a"})), &user(json!({"defaultProjectRef": "b"}))));
}

fn condition(r#type: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2030-01-02T03:04:05Z"})
}

#[test]
fn a_status_is_judged_alike() {
    let with = |conditions: Value| {
        let mut project = managed("Project", &json!({}));
        project["status"] = json!({"id": "7", "conditions": conditions, "lastSyncTime": "2030-01-02T03:04:05Z",
            "resource": {"name": "reed", "domainID": "", "enabled": true, "tags": ["a"]}});
        project
    };
    let without = |field: &str| {
        let mut condition = condition("Available", "True", "Success", 1);
        condition.as_object_mut().unwrap().remove(field);
        with(json!([condition]))
    };
    assert_verdicts(
        &[
            with(json!([
                condition("Available", "True", "Success", 1),
                condition("Progressing", "False", "Success", 1)
            ])),
            without("observedGeneration"),
        ],
        &[
            without("reason"),
            without("message"),
            without("lastTransitionTime"),
            with(json!([condition("Available", "Yes", "Success", 1)])),
            with(json!([condition("Available", "True", "no spaces", 1)])),
            with(json!([condition("not a type", "True", "Success", 1)])),
            with(json!([condition("Available", "True", "Success", -1)])),
            with(json!([condition("Available", "True", "Success", 1), condition("Available", "False", "Success", 1)])),
        ],
    );
}

#[test]
fn the_project_of_the_documents_is_accepted_and_comes_back_as_written() {
    let written: Value = serde_saphyr::from_str(
        r#"
apiVersion: openstack.k-orc.cloud/v1alpha1
kind: Project
metadata:
  name: customer-project
spec:
  cloudCredentialsRef:
    cloudName: openstack
    secretName: k-orc-clouds-yaml
  managementPolicy: managed
  resource:
    description: "Customer project"
    enabled: true
    tags: ["customer-a", "production"]
"#,
    )
    .unwrap();
    assert!(accepted(&written, None));
    let project: Project = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(project.spec.resource.as_ref().unwrap().tags.len(), 2);
    assert_eq!(serde_json::to_value(project).unwrap(), written);
}

/// A value with every field of a schema set.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    match (schema["type"].as_str().unwrap(), schema.get("format").and_then(Value::as_str)) {
        ("object", _) => {
            let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            fields.map(|(name, schema)| (name.clone(), sample(schema))).collect()
        }
        ("array", _) => json!([sample(&schema["items"])]),
        ("string", Some("date-time")) => json!("2030-01-02T03:04:05Z"),
        ("string", _) => json!("heron"),
        ("boolean", _) => json!(false),
        ("integer", _) => json!(7),
        other => panic!("no sample for {other:?}"),
    }
}

fn comes_back<K: DeserializeOwned + Serialize>(kind: &str) {
    let (_, theirs, _) = pairs(contracts()).into_iter().find(|(name, ..)| name == kind).unwrap();
    let mut object = sample(schema(&theirs));
    object["apiVersion"] = "openstack.k-orc.cloud/v1alpha1".into();
    object["kind"] = kind.into();
    object["metadata"] = json!({});
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), object);
}

#[test]
fn every_field_of_the_contracts_comes_back_as_written() {
    comes_back::<orc::Domain>("Domain");
    comes_back::<orc::Project>("Project");
    comes_back::<orc::Role>("Role");
    comes_back::<orc::Group>("Group");
    comes_back::<orc::Service>("Service");
    comes_back::<orc::Endpoint>("Endpoint");
    comes_back::<orc::User>("User");
    comes_back::<orc::ApplicationCredential>("ApplicationCredential");
    comes_back::<orc::RoleAssignment>("RoleAssignment");
}

#[test]
fn every_kind_has_a_small_and_a_full_example_that_is_accepted() {
    let examples = documents("../../examples/orc");
    for (path, example) in &examples {
        assert!(accepted(example, None), "{}", path.display());
    }
    let names: BTreeSet<_> =
        examples.keys().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let kinds = contracts().into_iter().map(|crd| crd["spec"]["names"]["singular"].as_str().unwrap().to_owned());
    assert_eq!(names, kinds.flat_map(|kind| [format!("{kind}-full"), format!("{kind}-small")]).collect());
}

//! Sessions with an unmodified kubectl against `c5c3 apiserver`: what a user types, and what is printed.

mod rollouts;
mod server;
mod terminal;

use terminal::Terminal;

const KEYSTONE: &str = "keystone.keystone.openstack.c5c3.io/identity";

#[test]
fn what_is_applied_twice_is_unchanged() {
    let it = Terminal::with_keystone();
    for (file, name) in
        [("web.yaml", "deployment.apps/web"), ("settings.yaml", "configmap/settings"), ("identity.yaml", KEYSTONE)]
    {
        it.says(&format!("kubectl apply -f {file}"), &format!("{name} created"));
        it.says(&format!("kubectl apply -f {file}"), &format!("{name} unchanged"));
        it.says(&format!("kubectl diff -f {file}"), "");
        it.says(&format!("kubectl apply -f {file} --dry-run=server"), &format!("{name} unchanged (server dry run)"));
    }
    it.says("sed s/nginx:1/nginx:2/ web.yaml | kubectl apply -f -", "deployment.apps/web configured");
    it.says("kubectl get deploy web -o jsonpath='{.metadata.generation}'", "2");
    it.says("kubectl apply view-last-applied cm settings -o json | grep colour | tr -d ' '", "\"colour\":\"blue\"");
}

#[test]
fn a_list_is_applied_and_a_field_that_no_one_knows_is_refused_in_it() {
    let it = Terminal::open();
    let item =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}, "data": {"colour": "blue"}}"#;
    it.ok(&format!(r#"echo '{{"apiVersion": "v1", "kind": "List", "items": [{item}]}}' > list.json"#));
    it.fails("sed 's/\"data\"/\"dates\"/' list.json | kubectl apply -f -", "unknown field \"dates\"");
    it.says("kubectl apply -f list.json", "configmap/listed created");
    it.says("kubectl apply --server-side -f list.json", "configmap/listed serverside-applied");
    it.says("kubectl get cm listed -o jsonpath='{.data.colour}'", "blue");
}

#[test]
fn server_side_apply_knows_whose_a_field_is() {
    let it = Terminal::with_keystone();
    for (file, name) in [("settings.yaml", "configmap/settings"), ("identity.yaml", KEYSTONE)] {
        it.says(&format!("kubectl apply --server-side -f {file}"), &format!("{name} serverside-applied"));
        let version = format!("kubectl get -f {file} -o jsonpath='{{.metadata.resourceVersion}}'");
        let before = it.ok(&version);
        it.says(&format!("kubectl apply --server-side -f {file}"), &format!("{name} serverside-applied"));
        assert_eq!(it.ok(&version), before, "applying the same again writes nothing");
    }
    it.fails(
        "kubectl apply --server-side --field-manager=other -f red.yaml",
        "Apply failed with 1 conflict: conflict with \"kubectl\": .data.colour",
    );
    it.ok("kubectl apply --server-side --field-manager=other --force-conflicts -f red.yaml");
    it.says("kubectl get cm settings -o jsonpath='{.data.colour}'", "red");
    it.says(
        "kubectl get cm settings --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}' | tr ' ' '\\n' | sort",
        "kubectl\nother",
    );
    it.says(
        "kubectl get cm settings --show-managed-fields -o jsonpath='{.metadata.managedFields[?(@.manager==\"other\")].operation}'",
        "Apply",
    );
}

#[test]
fn objects_are_created_compared_and_replaced() {
    let it = Terminal::open();
    it.says("kubectl create -f settings.yaml --save-config", "configmap/settings created");
    it.fails("kubectl create -f settings.yaml", "configmaps \"settings\" already exists");
    it.fails("kubectl diff -f red.yaml", "-  colour: blue\n+  colour: red");
    it.says("kubectl replace -f red.yaml", "configmap/settings replaced");
    it.says("kubectl diff -f red.yaml", "");
    it.says("kubectl replace --force -f settings.yaml", "configmap \"settings\" deleted\nconfigmap/settings replaced");
    it.fails("kubectl replace -f web.yaml", "deployments.apps \"web\" not found");
    it.fails("kubectl create -f web.yaml -n nowhere", "namespaces \"nowhere\" not found");
    let stale =
        "kubectl get cm settings -o yaml > old.yaml && kubectl label cm settings a=b && kubectl replace -f old.yaml";
    it.fails(stale, "the object has been modified; please apply your changes to the latest version and try again");
    it.fails("sed s/replicas/replcas/ web.yaml | kubectl create -f -", "unknown field \"spec.replcas\"");
}

#[test]
fn patches_of_every_type_are_taken() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f web.yaml -f settings.yaml -f identity.yaml");
    it.says(
        r#"kubectl patch cm settings --type=json -p '[{"op":"replace","path":"/data/colour","value":"green"}]'"#,
        "configmap/settings patched",
    );
    it.fails(
        r#"kubectl patch cm settings --type=json -p '[{"op":"test","path":"/data/colour","value":"pink"}]'"#,
        "test",
    );
    it.ok(r#"kubectl patch cm settings --type=merge -p '{"data":{"colour":null,"shape":"round"}}'"#);
    it.says("kubectl get cm settings -o jsonpath='{.data}'", r#"{"shape":"round"}"#);
    it.says(
        r#"kubectl patch cm settings --type=merge -p '{"data":{"shape":"round"}}'"#,
        "configmap/settings patched (no change)",
    );
    // By name, as only a strategic patch can.
    it.ok(
        r#"kubectl patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"a"}]}}}}'"#,
    );
    it.says("kubectl get deploy web -o jsonpath='{.spec.template.spec.containers[*].name}'", "side nginx");
    it.ok(
        r#"kubectl patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'"#,
    );
    it.says("kubectl get deploy web -o jsonpath='{.spec.template.spec.containers[*].name}'", "nginx");
    it.ok(r#"kubectl patch keystone identity --type=merge -p '{"spec":{"replicas":5}}'"#);
    it.says("kubectl get keystone identity -o jsonpath='{.spec.replicas} {.metadata.generation}'", "5 2");
    it.fails(r#"kubectl patch keystone identity -p '{"spec":{}}'"#, "strategic-merge-patch+json is not supported");
    it.fails(
        r#"kubectl patch keystone identity --type=merge -p '{"spec":{"replicas":-5}}'"#,
        "The Keystone \"identity\" is invalid: spec.replicas:",
    );
    it.ok(r#"kubectl patch keystone identity --subresource=status --type=merge -p '{"status":{"replicas":4}}'"#);
    it.says("kubectl get keystone identity -o jsonpath='{.status.replicas} {.metadata.generation}'", "4 2");
}

#[test]
fn objects_are_printed_in_every_form() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f web.yaml -f settings.yaml -f identity.yaml");
    it.tells("kubectl get deploy", &["NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/2     0            0 "]);
    it.tells("kubectl get deploy -o wide", &["CONTAINERS   IMAGES    SELECTOR", "nginx        nginx:1   app=web"]);
    it.tells("kubectl get ks", &["NAME       READY   REASON   RELEASE   REPLICAS   ENDPOINT   AGE\nidentity "]);
    it.tells("kubectl get deploy,keystone", &["deployment.apps/web ", KEYSTONE]);
    it.tells("kubectl get c5c3", &["identity"]);
    it.says("kubectl get deploy,keystone -o name", &format!("deployment.apps/web\n{KEYSTONE}"));
    it.tells("kubectl get cm settings -o yaml", &["apiVersion: v1\ndata:\n  colour: blue\nkind: ConfigMap\n"]);
    it.tells("kubectl get cm -o json", &["\"kind\": \"List\"", "\"colour\": \"blue\""]);
    it.says("kubectl get deploy web -o jsonpath='{.spec.template.spec.containers[0].image}'", "nginx:1");
    it.says("kubectl get deploy -o custom-columns=N:.metadata.name,R:.spec.replicas", "N     R\nweb   2");
    it.says("kubectl get keystone -o go-template='{{range .items}}{{.metadata.name}}{{end}}'", "identity");
    assert_eq!(it.rows("kubectl get cm settings --show-labels")[0].last().unwrap(), "tier=front");
    assert_eq!(it.rows("kubectl get cm -L tier settings")[0].last().unwrap(), "front");
    assert_eq!(it.rows("kubectl get deploy -A")[0][..2], ["default", "web"]);
    it.says("kubectl get pods", "No resources found in default namespace.");
    it.fails("kubectl get cm nothing", "Error from server (NotFound): configmaps \"nothing\" not found");
    it.fails("kubectl get zebras", "the server doesn't have a resource type \"zebras\"");
}

#[test]
fn labels_and_annotations_are_set_and_selected_by() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f web.yaml -f settings.yaml -f identity.yaml");
    it.says("kubectl label keystone identity tier=back", &format!("{KEYSTONE} labeled"));
    it.fails("kubectl label cm settings tier=back", "already has a value (front), and --overwrite is false");
    it.says("kubectl annotate deploy web note=hello", "deployment.apps/web annotated");
    it.says("kubectl get deploy web -o jsonpath='{.metadata.annotations.note}'", "hello");
    it.says("kubectl get cm -l tier=front -o name", "configmap/settings");
    it.says("kubectl get cm -l 'tier in (front,middle)' -o name", "configmap/settings");
    it.says("kubectl get cm -l '!tier' -o name", "configmap/kube-root-ca.crt");
    it.says("kubectl get cm,deploy,keystone -l tier -o name", &format!("configmap/settings\n{KEYSTONE}"));
    it.says("kubectl get cm --field-selector metadata.name=settings -o name", "configmap/settings");
    it.says("kubectl get keystone --field-selector metadata.name!=identity -o name", "");
    it.fails("kubectl get cm --field-selector spec.colour=blue", "field label not supported: spec.colour");
    it.says("kubectl label keystone identity tier-", &format!("{KEYSTONE} unlabeled"));
    it.says("kubectl get cm -A --chunk-size=1 -o name | sort -u | wc -l | tr -d ' '", "2");
}

#[test]
fn a_watch_tells_what_happens_while_it_lasts() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f settings.yaml -f identity.yaml");
    let watch = "kubectl get cm --output-watch-events --field-selector metadata.name=settings";
    let (all, only) = (it.watching(&format!("{watch} --watch")), it.watching(&format!("{watch} --watch-only")));
    it.ok("kubectl label cm settings a=b; kubectl delete cm settings; kubectl create -f settings.yaml");
    let text = all.until(|text| events(text).len() == 4);
    assert_eq!(events(&text), ["ADDED", "MODIFIED", "DELETED", "ADDED"], "{text}");
    let text = only.until(|text| events(text).len() == 3);
    assert_eq!(events(&text), ["MODIFIED", "DELETED", "ADDED"], "{text}");
    let watch = it.watching("kubectl get ks -w -o jsonpath='{.spec.replicas} '");
    it.ok("kubectl scale ks identity --replicas=3");
    assert_eq!(watch.until(|text| text.ends_with("3 ")), "1 3 ");
}

/// What a watch with its header told, line by line.
fn events(text: &str) -> Vec<&str> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn objects_are_described_with_their_events() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f web.yaml -f settings.yaml -f identity.yaml");
    it.tells("kubectl describe deploy web", &["2 desired | 0 updated", " nginx:1\n", "25% max unavailable"]);
    it.tells("kubectl describe cm settings", &["colour:\n----\nblue"]);
    it.tells("kubectl describe ns default", &["Status:       Active"]);
    it.tells("kubectl describe crd keystones", &["Keystone", "Established"]);
    let uid = it.ok("kubectl get keystone identity -o jsonpath='{.metadata.uid}'");
    it.write(
        "event.yaml",
        &format!(
            "apiVersion: v1
kind: Event
metadata: {{name: identity.1}}
involvedObject: {{apiVersion: keystone.openstack.c5c3.io/v1alpha1, kind: Keystone, name: identity, namespace: default, uid: {uid}}}
type: Warning
reason: DatabaseWaits
message: The database is not ready.
lastTimestamp: 2026-01-01T00:00:00Z
source: {{component: test}}
"
        ),
    );
    it.ok("kubectl create -f event.yaml");
    it.tells(
        "kubectl describe keystone identity",
        &["Replicas:", "Warning  DatabaseWaits", "The database is not ready."],
    );
    it.tells("kubectl get events", &["Warning   DatabaseWaits   keystone/identity   The database is not ready."]);
    it.tells("kubectl get events --field-selector involvedObject.name=identity,type=Warning", &["DatabaseWaits"]);
    it.says("kubectl get events --field-selector involvedObject.name=other -o name", "");
}

#[test]
fn fields_are_explained() {
    let it = Terminal::with_keystone();
    it.tells("kubectl explain deployment.spec.replicas", &["FIELD: replicas <integer>", "Number of desired pods"]);
    it.tells(
        "kubectl explain deployment --recursive",
        &["GROUP:      apps", "        terminationGracePeriodSeconds\t<integer>"],
    );
    it.tells("kubectl explain keystones", &["KIND:       Keystone", "the identity API", "  spec\t<Object> -required-"]);
    it.tells("kubectl explain ks.spec.replicas", &["FIELD: replicas <integer>"]);
    it.tells(
        "kubectl explain keystones --recursive",
        &["    fernet\t<Object>", "      rotationSchedule\t<string>", "    conditions\t<[]Object>"],
    );
    it.fails("kubectl explain keystone.spec.zebra", "field \"zebra\" does not exist");
}

#[test]
fn what_is_waited_for_arrives() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f settings.yaml -f identity.yaml");
    let wait = it.watching("kubectl wait cm/settings --for=jsonpath='{.data.colour}'=red --timeout=60s");
    it.ok(r#"kubectl patch cm settings --type=merge -p '{"data":{"colour":"red"}}'"#);
    wait.ends("configmap/settings condition met");
    let condition = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}]}}"#;
    let wait = it.watching("kubectl wait ks/identity --for=condition=Ready --timeout=60s");
    it.ok(&format!("kubectl patch ks identity --subresource=status --type=merge -p '{condition}'"));
    wait.ends(&format!("{KEYSTONE} condition met"));
    let wait = it.watching("kubectl wait ks/identity --for=delete --timeout=60s");
    it.ok("kubectl delete ks identity");
    wait.ends(&format!("{KEYSTONE} condition met"));
    it.fails("kubectl wait cm/settings --for=delete --timeout=300ms", "timed out waiting for the condition");
}

#[test]
fn deployments_and_keystones_are_scaled() {
    let it = Terminal::with_keystone();
    it.ok("kubectl apply -f web.yaml -f identity.yaml");
    for (object, name, before) in [("deploy/web", "deployment.apps/web", 2), ("ks/identity", KEYSTONE, 1)] {
        it.says(&format!("kubectl scale {object} --current-replicas={before} --replicas=7"), &format!("{name} scaled"));
        it.fails(
            &format!("kubectl scale {object} --current-replicas=2 --replicas=1"),
            "Expected replicas to be 2, was 7",
        );
        it.says(&format!("kubectl get {object} -o jsonpath='{{.spec.replicas}} {{.metadata.generation}}'"), "7 2");
    }
    it.tells(
        "kubectl get --raw /apis/keystone.openstack.c5c3.io/v1alpha1/namespaces/default/keystones/identity/scale",
        &["\"kind\":\"Scale\"", "\"spec\":{\"replicas\":7}"],
    );
}

#[test]
fn a_deletion_takes_along_what_its_cascade_says() {
    let it = Terminal::with_keystone();
    for (cascade, stays) in [("background", false), ("foreground", false), ("orphan", true)] {
        for (owner, file) in [("deploy/web", "web.yaml"), ("ks/identity", "identity.yaml")] {
            it.ok(&format!("kubectl apply -f {file} -f settings.yaml"));
            let kind = it.ok(&format!(
                "kubectl get {owner} -o jsonpath='{{.apiVersion}} {{.kind}} {{.metadata.name}} {{.metadata.uid}}'"
            ));
            let [version, kind, name, uid] = kind.split(' ').collect::<Vec<_>>()[..] else { panic!("{kind}") };
            let reference = serde_json::json!({"metadata": {"ownerReferences": [
                {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]}});
            it.ok(&format!("kubectl patch cm settings --type=merge -p '{reference}'"));
            it.tells(&format!("kubectl delete {owner} --cascade={cascade} --timeout=60s"), &["deleted"]);
            it.fails(&format!("kubectl get {owner}"), "NotFound");
            if stays {
                it.says("kubectl get cm settings -o jsonpath='{.metadata.ownerReferences}'", "");
                it.ok("kubectl delete cm settings");
            } else if cascade == "foreground" {
                // The owner is gone, so what it owned went before it.
                it.fails("kubectl get cm settings", "NotFound");
            } else {
                it.ok("kubectl wait cm/settings --for=delete --timeout=60s");
            }
        }
    }
}

#[test]
fn a_namespace_goes_with_everything_in_it_and_a_definition_with_its_objects() {
    let it = Terminal::with_keystone();
    it.write("shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    it.ok("kubectl apply -f shop.yaml");
    it.ok("kubectl apply -n shop -f web.yaml -f settings.yaml -f identity.yaml");
    it.says("kubectl delete ns shop --timeout=60s", "namespace \"shop\" deleted");
    it.says("kubectl get deploy,ks,cm -n shop -o name", "");
    it.fails("kubectl delete ns default", "forbidden");
    it.ok("kubectl apply -f identity.yaml");
    it.ok("kubectl delete crd keystones.keystone.openstack.c5c3.io --timeout=60s");
    // kubectl remembers for hours what it discovered.
    it.fails("rm -r .kube && kubectl get keystones", "the server doesn't have a resource type \"keystones\"");
}

#[test]
fn all_our_kinds_are_installed_and_discovered() {
    let it = Terminal::open();
    let applied = it.ok("\"$C5C3\" crds | kubectl apply --server-side -f -");
    let count = applied.lines().filter(|line| line.ends_with("serverside-applied")).count();
    assert!(count >= 28, "{applied}");
    let waited = it.ok("kubectl wait --for=condition=Established crd --all --timeout=60s");
    assert_eq!(waited.lines().count(), count);
    assert_eq!(it.rows("kubectl get crd").len(), count);
    it.tells("kubectl api-versions", &["apps/v1", "c5c3.io/v1alpha1", "\nv1"]);
    let kinds = it.rows("kubectl api-resources --categories=c5c3");
    assert!(kinds.iter().any(|row| row[0] == "keystones" && row[1] == "ks" && row[3] == "true"), "{kinds:?}");
    assert!(kinds.iter().any(|row| row[0] == "hypervisors" && row[1] == "hv" && row[3] == "false"), "{kinds:?}");
    it.tells(
        "kubectl api-resources --namespaced=false -o name",
        &["namespaces", "nodes", "hypervisors.hypervisor.c5c3.io"],
    );
    it.tells("kubectl cluster-info", &["Kubernetes control plane", "is running at", "https://127.0.0.1:"]);
    it.tells("kubectl version", &["Server Version: v1."]);
    it.says("kubectl get --raw '/readyz'", "ok");
}

#[test]
fn what_installs_the_operators_is_taken_and_holds_up_nobody_before_they_run() {
    let it = Terminal::with_keystone();
    for plural in ["issuers", "certificates"] {
        let contract = c5c3_contracts::Contract::find("cert-manager.io", plural).unwrap();
        it.write(&format!("{plural}.json"), &contract.definition().to_string());
    }
    it.ok("kubectl apply --server-side -f issuers.json -f certificates.json");
    it.ok("kubectl create ns openstack && kubectl wait --for=condition=Established crd --all --timeout=60s");
    let applied = it.ok("\"$C5C3\" manifests --webhooks | kubectl apply --server-side -f -");
    for name in ["deployment.apps", "service", "validatingwebhookconfiguration.admissionregistration.k8s.io"] {
        assert!(applied.contains(&format!("{name}/keystone-operator serverside-applied")), "{applied}");
    }
    it.ok("\"$C5C3\" manifests --webhooks | kubectl diff --server-side -f -");
    it.ok("kubectl apply -n openstack -f identity.yaml");
}

#[test]
fn typed_commands_that_speak_protobuf() {
    let it = Terminal::open();
    it.says("kubectl create ns shop", "namespace/shop created");
    it.says("kubectl create cm colours -n shop --from-literal=a=blue", "configmap/colours created");
    it.says("kubectl get cm colours -n shop -o jsonpath='{.data.a}'", "blue");
    it.says("kubectl create secret generic key --from-literal=k=v", "secret/key created");
    it.says("kubectl get secret key -o jsonpath='{.data.k} {.type}'", "dg== Opaque");
    it.says("kubectl create deployment web --image=nginx --replicas=3 --port=80", "deployment.apps/web created");
    it.says("kubectl get deploy web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].ports[0].containerPort}'", "3 80");
    it.says("kubectl expose deploy web --port=80 --target-port=8080", "service/web exposed");
    it.says("kubectl get svc web -o jsonpath='{.spec.ports[0].targetPort}'", "8080");
    it.says("kubectl create job once --image=busybox -- true", "job.batch/once created");
    it.says(
        "kubectl create cronjob often --image=busybox --schedule='*/5 * * * *' -- true",
        "cronjob.batch/often created",
    );
    it.says("kubectl create quota small --hard=pods=2", "resourcequota/small created");
    it.says("kubectl create sa reader", "serviceaccount/reader created");
    it.says(
        "kubectl create role look --verb=get,list --resource=pods,configmaps",
        "role.rbac.authorization.k8s.io/look created",
    );
    it.says(
        "kubectl create rolebinding look --role=look --serviceaccount=default:reader",
        "rolebinding.rbac.authorization.k8s.io/look created",
    );
    it.says("kubectl auth can-i delete secrets", "yes");
    it.says("kubectl auth can-i list pods --as=system:serviceaccount:default:reader", "yes");
    it.fails("kubectl auth can-i delete pods --as=system:serviceaccount:default:reader", "no");
    it.fails("kubectl auth can-i list pods -n shop --as=system:serviceaccount:default:reader", "no");
    it.tells("kubectl auth can-i --list --as=system:serviceaccount:default:reader", &["configmaps"]);
    it.tells("kubectl auth whoami", &["kubernetes-admin", "system:masters"]);
    it.tells("kubectl auth whoami --as=jo --as-group=staff", &["jo", "staff"]);
    let token = it.ok("kubectl create token reader --duration=1h");
    assert_eq!(token.split('.').count(), 3, "{token}");
    // Without the administrator's certificate.
    let alone = "kubectl --kubeconfig=/dev/null --insecure-skip-tls-verify --server=$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}') --token=";
    it.says(&format!("{alone}{token} get cm -o name"), "configmap/kube-root-ca.crt");
    it.fails(
        &format!("{alone}{token} get secrets"),
        "User \"system:serviceaccount:default:reader\" cannot list resource \"secrets\"",
    );
    it.fails(&format!("{alone}{token}x get cm"), "Unauthorized");
}

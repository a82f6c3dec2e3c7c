//! The links of a credential's way, each broken once: `c5c3 why` names it, what has the credential already goes on answering, and
//! everything heals when the link does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::cloud::accounts::value;
use crate::cloud::load::Load;
use crate::cloud::rotation::{PLACEMENT, requests};
use crate::outage;

/// The store, and the policy by which External Secrets writes to it.
const STORE: &str = "clustersecretstore/openbao-cluster-store";
const POLICY: &str = "sys/policies/acl/push-app-credentials";

/// What writes Placement's credential to the store, and what reads it from there into a Secret of the same name.
const PUSH: &str = "pushsecret/placement-app-credential";
const EXTERNAL: &str = "externalsecret/placement-keystone-credentials";

/// Asks the store as its administrator, `store.sh METHOD PATH [FILE]`. The token is in no argument.
const ASK_STORE: &str = r#"
eval "$($C5C3 env --data "$PWD/data")"
printf 'X-Vault-Token: %s' "$(cat data/store/root-token)" > token.txt
curl -sf -m 20 --cacert "$VAULT_CACERT" -H @token.txt -X "$1" "$VAULT_ADDR/v1/$2" ${3:+--data-binary "@$3"}
"#;

/// Waits until `c5c3 why` names a link of what holds an object back, with these words, and none beyond it.
fn is_named(cloud: &Cloud, object: &str, link: &str, says: &str, beyond: &str) {
    let why = format!("$C5C3 why {object} -n cloud --data $PWD/data");
    let only = format!("! grep -qE '─ .*({beyond})/' why.txt");
    cloud.machine.eventually(
        &format!(
            "if {why} >why.txt; then echo ready; \
             elif grep -qF '{link}' why.txt && grep -qF '{says}' why.txt && {only}; then echo named; \
             else cat why.txt; fi"
        ),
        "named",
    );
    eprintln!("{}", cloud.machine.ok("cat why.txt"));
}

fn is_ready(cloud: &Cloud, object: &str) {
    let why = format!("$C5C3 why {object} -n cloud --data $PWD/data");
    cloud.machine.eventually(&format!("if {why} >why.txt; then echo ready; else cat why.txt; fi"), "ready");
}

/// Removes the Secret that Placement reads: it is missing until every link works.
fn lose_the_secret(cloud: &Cloud) {
    cloud.machine.ok("kubectl -n cloud delete secret placement-keystone-credentials");
}

/// Has External Secrets synchronise now what it synchronises each hour.
fn synchronise(cloud: &Cloud) {
    let look = "look=$(date +%s%N) --overwrite > annotated.txt";
    cloud.machine.ok(&format!("kubectl -n cloud annotate {PUSH} {EXTERNAL} {look}"));
}

/// Waits until the Secret is back.
fn is_delivered(cloud: &Cloud) {
    synchronise(cloud);
    is_ready(cloud, "placement/placement");
    let secret = value(cloud, "placement-keystone-credentials", "application_credential_secret");
    assert!(!secret.is_empty(), "the Secret is back without a credential");
}

fn pause(cloud: &Cloud, object: &str, is_paused: bool) {
    let annotation = if is_paused { "c5c3.io/paused=true" } else { "c5c3.io/paused-" };
    cloud.machine.ok(&format!("kubectl -n cloud annotate {object} {annotation}"));
}

/// Placement waits for a Secret that does not come, and answers all the time.
pub fn of_placements_credential_are_named_and_heal(cloud: &Cloud) {
    let (pods, token) = (cloud.pods("placement"), cloud.identity.sign_in().unwrap());
    let load = Load::start("placement without its Secret", 5, requests(cloud, PLACEMENT, &token));
    a_store_that_is_away(cloud);
    a_role_that_may_not_push(cloud);
    a_key_that_is_not_in_the_store(cloud);
    let failures = load.end();
    assert!(failures.is_empty(), "{failures:#?}");
    cloud.settle();
    assert_eq!(cloud.pods("placement"), pods, "pods were replaced");
}

/// Nothing writes the store's object but the start of the cluster.
fn a_store_that_is_away(cloud: &Cloud) {
    let it = &cloud.machine;
    let server = it.ok(&format!("kubectl get {STORE} -o jsonpath='{{.spec.provider.vault.server}}'"));
    let set = |server: &str| {
        let patch = json!({"spec": {"provider": {"vault": {"server": server}}}});
        it.ok(&format!("kubectl patch {STORE} --type=merge -p '{patch}'"));
    };
    set("https://127.0.0.1:9");
    lose_the_secret(cloud);
    is_named(cloud, "placement/placement", STORE, "secret/placement-keystone-credentials", "pushsecret");
    set(&server);
    is_delivered(cloud);
}

fn a_role_that_may_not_push(cloud: &Cloud) {
    let it = &cloud.machine;
    it.write("store.sh", ASK_STORE);
    let before: Value = serde_json::from_str(&it.ok(&format!("sh store.sh GET {POLICY}"))).unwrap();
    let before = before["data"]["policy"].as_str().unwrap();
    let set = |policy: &str| {
        it.write("policy.json", &json!({ "policy": policy }).to_string());
        it.ok(&format!("sh store.sh PUT {POLICY} policy.json"));
    };
    // The most specific path decides, so that the policies of the role allow nothing of it any more.
    let denied = "path \"kv-v2/data/openstack/placement/app-credential\" { capabilities = [\"deny\"] }";
    set(&format!("{before}\n{denied}\n"));
    lose_the_secret(cloud);
    synchronise(cloud);
    is_named(cloud, "placement/placement", PUSH, EXTERNAL, "clustersecretstore");
    set(before);
    is_delivered(cloud);
}

/// The rotation would put the key right at once, so it is paused.
fn a_key_that_is_not_in_the_store(cloud: &Cloud) {
    pause(cloud, "credentialrotation/placement-rotation", true);
    let patch = json!({"spec": {"dataFrom": [{"extract": {"key": "openstack/placement/elsewhere"}}]}});
    cloud.machine.ok(&format!("kubectl -n cloud patch {EXTERNAL} --type=merge -p '{patch}'"));
    lose_the_secret(cloud);
    let says = "openstack/placement/elsewhere";
    is_named(cloud, "placement/placement", EXTERNAL, says, "pushsecret|clustersecretstore");
    pause(cloud, "credentialrotation/placement-rotation", false);
    is_delivered(cloud);
    let key = "{.spec.dataFrom[0].extract.key}";
    cloud
        .machine
        .eventually(&format!("kubectl -n cloud get {EXTERNAL} -o jsonpath='{key}' | grep -c elsewhere || true"), "0");
}

/// The credential that K-ORC signs in with is wrong, so a rotation cannot begin. The customer of the outage and its rotation are
/// there. The ControlPlane would put the Secret right at once, so it is paused.
pub fn korcs_own_credential_is_named_and_heals(cloud: &Cloud) {
    let it = &cloud.machine;
    let rotation = "credentialrotation/customer-rotation";
    pause(cloud, "controlplane/lab", true);
    let mut clouds: Value = serde_json::from_str(&value(cloud, "k-orc-clouds-yaml", r"clouds\.yaml")).unwrap();
    let secret = &mut clouds["clouds"]["openstack"]["auth"]["application_credential_secret"];
    assert!(secret.is_string(), "K-ORC does not sign in with an application credential");
    *secret = "no-longer-good".into();
    it.write("wrong.json", &json!({"data": {"clouds.yaml": STANDARD.encode(clouds.to_string())}}).to_string());
    it.ok("kubectl -n cloud patch secret k-orc-clouds-yaml --type=merge --patch-file wrong.json");
    let reason = "{.status.conditions[?(@.type==\"Progressing\")].reason}";
    let user = "kubectl -n cloud get users.openstack.k-orc.cloud customer -o";
    it.eventually(&format!("{user} jsonpath='{reason}'"), "TransientError");
    it.ok(&format!("$C5C3 rotate {rotation} -n cloud --data $PWD/data"));
    is_named(cloud, rotation, "user/customer", "the credential is not accepted", "pushsecret|externalsecret");
    pause(cloud, "controlplane/lab", false);
    it.eventually(&crate::available("applicationcredentials", "customer-app-credential-v2"), "True");
    is_ready(cloud, rotation);
    it.eventually(&format!("{} | grep -v ' Success$'", outage::progress()), "");
    cloud.settle();
}

//! Hundreds of objects of K-ORC, made by one apply: how soon they are in Keystone, and how much Keystone is asked for them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::cloud::Cloud;

/// Kinds whose objects need no other.
const KINDS: [&str; 4] = ["Project", "User", "Group", "Role"];

/// How many there are of each.
const EACH: usize = 125;

/// How soon all of them are available once they are applied. kubectl sends one after the other, and how long that takes says
/// more of the machine than of K-ORC: it is printed.
const SOON: Duration = Duration::from_mins(1);

/// How many requests a second Keystone may get while all of them are looked at again.
const MOST_REQUESTS: f64 = 20.0;

/// All of them in one file.
fn list() -> String {
    let one = |kind: &str, number: usize| {
        json!({
            "apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": format!("many-{number:03}"), "namespace": "cloud", "labels": {"many": "true"}},
            "spec": {
                "cloudCredentialsRef": {"cloudName": "openstack", "secretName": "k-orc-clouds-yaml"},
                "resource": {"description": "One of many"},
            },
        })
    };
    let items: Vec<_> = KINDS.iter().flat_map(|kind| (0..EACH).map(move |number| one(kind, number))).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// `kubectl` for all of them.
fn kubectl(verb: &str) -> String {
    let kinds = KINDS.map(|kind| format!("{}s.openstack.k-orc.cloud", kind.to_lowercase())).join(",");
    format!("kubectl -n cloud {verb} {kinds} -l many=true")
}

fn number(text: &str) -> usize {
    text.trim().parse().unwrap()
}

pub fn are_available_soon_and_ask_little(cloud: &Cloud) {
    are_available_soon(cloud);
    ask_little(cloud);
}

fn are_available_soon(cloud: &Cloud) {
    let (it, all) = (&cloud.machine, KINDS.len() * EACH);
    it.write("many.json", &list());
    let begun = Instant::now();
    it.ok("kubectl apply --server-side -f many.json > applied.txt");
    let applied = begun.elapsed();
    let status = "{range .items[*]}{.status.conditions[?(@.type==\"Available\")].status}{\"\\n\"}{end}";
    let available = format!("{} -o jsonpath='{status}' | grep -c '^True$' || true", kubectl("get"));
    loop {
        let found = number(&it.ok(&available));
        if found == all {
            break;
        }
        let waited = begun.elapsed().saturating_sub(applied);
        assert!(waited < SOON, "{found} of {all} are available after {waited:.1?}; the apply took {applied:.1?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    let took = begun.elapsed();
    eprintln!("{all} objects of {} kinds: applied after {applied:.1?}, available after {took:.1?}", KINDS.len());
}

/// All of them are looked at again because they change.
fn ask_little(cloud: &Cloud) {
    let (it, all) = (&cloud.machine, KINDS.len() * EACH);
    let api = "app.kubernetes.io/name=keystone,app.kubernetes.io/component=api";
    let requests = format!("kubectl -n cloud logs -l {api} -c api --tail=-1 | grep -c ' /v3/' || true");
    let pods = format!("kubectl -n cloud get pods -l {api} -o name");
    let serving = it.ok(&pods);
    let before = number(&it.ok(&requests));
    let (begun, time) = (Instant::now(), it.ok("date -u +%Y-%m-%dT%H:%M:%SZ"));
    it.ok(&format!("{} look=again > annotated.txt", kubectl("annotate")));
    let times = "{range .items[*]}{.status.lastSyncTime}{\"\\n\"}{end}";
    let time = time.trim();
    let synced = format!("{} -o jsonpath='{times}' | awk '$1 >= \"{time}\"' | wc -l", kubectl("get"));
    it.eventually(&synced, &all.to_string());
    let asked = number(&it.ok(&requests)).saturating_sub(before);
    let seconds = begun.elapsed().as_secs_f64();
    it.says(&pods, &serving);
    assert!(asked > 0, "Keystone was not asked, or its log was begun again");
    let rate = f64::from(u32::try_from(asked).unwrap()) / seconds;
    eprintln!("a resync of {all} objects: {asked} requests in {seconds:.1} s, {rate:.1} a second");
    assert!(rate < MOST_REQUESTS, "{asked} requests in {seconds:.1} s");
}

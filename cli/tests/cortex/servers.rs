//! Servers without networks, for which no Neutron is needed: where Nova put them, and what Cortex said of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::computes::in_api;

/// Asks the databases of cells, with the account of Nova's configuration.
const ASK: &str = r#"
import configparser, json, sys, urllib.parse
import pymysql
conf = configparser.RawConfigParser(strict=False)
conf.read("/etc/nova/nova.conf")
url = urllib.parse.urlsplit(conf.get("database", "connection"))
options = {key: values[0] for key, values in urllib.parse.parse_qs(url.query).items() if key.startswith("ssl_")}
with pymysql.connect(host=url.hostname, port=url.port, user=url.username, password=urllib.parse.unquote(url.password),
                     autocommit=True, **options) as connection, connection.cursor() as cursor:
    cursor.execute(sys.argv[1])
    print(json.dumps(cursor.fetchall()))
"#;

/// The line that asks.
fn query(text: &str) -> String {
    format!("{} /opt/nova/bin/python - \"{text}\" < ask.py", in_api())
}

fn select(cloud: &Cloud, text: &str) -> Value {
    serde_json::from_str(&cloud.machine.ok(&query(text))).unwrap()
}

/// An image of nothing, a flavor that is small, and what asks Nova for servers: the usual client would also ask for their ports.
pub fn prepare(cloud: &Cloud) {
    let it = &cloud.machine;
    it.write("ask.py", ASK);
    it.ok("head -c 4096 /dev/zero > nothing.raw");
    cloud.openstack("image create nothing --disk-format raw --container-format bare --file nothing.raw");
    cloud.openstack("flavor create --id 1 --vcpus 1 --ram 64 --disk 1 tiny");
}

/// Asks for servers, and says their ids.
pub fn create(cloud: &Cloud, name: &str, count: usize) -> Vec<String> {
    let it = &cloud.machine;
    let image = cloud.openstack("image show nothing -f value -c id");
    let server = json!({"name": name, "imageRef": image.trim(), "flavorRef": "1", "networks": "none",
        "min_count": count, "max_count": count});
    it.write("server.json", &json!({ "server": server }).to_string());
    let token = cloud.identity.sign_in().unwrap();
    it.write(
        "headers",
        &format!("X-Auth-Token: {token}\nContent-Type: application/json\nX-OpenStack-Nova-API-Version: 2.74\n"),
    );
    let address = it.ok("kubectl -n cloud get service nova -o jsonpath='{.spec.clusterIP}'");
    let said =
        it.ok(&format!("curl -sS --fail-with-body -H @headers -d @server.json http://{address}:8774/v2.1/servers"));
    assert!(said.contains("\"server\""), "{said}");
    let of_cell =
        |cell: &str, what: &str| format!("SELECT {what} FROM {cell}.instances WHERE display_name LIKE '{name}%'");
    let counted = format!("SELECT ({}) + ({})", of_cell("nova", "COUNT(*)"), of_cell("nova_cell0", "COUNT(*)"));
    it.eventually(&query(&counted), &format!("[[{count}]]"));
    let found = select(cloud, &format!("{} UNION {}", of_cell("nova", "uuid"), of_cell("nova_cell0", "uuid")));
    found.as_array().unwrap().iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

pub fn is_active(cloud: &Cloud, server: &str) {
    let state = format!("SELECT vm_state FROM nova.instances WHERE uuid = '{server}'");
    cloud.machine.eventually(&query(&state), r#"[["active"]]"#);
}

pub fn finds_no_host(cloud: &Cloud, server: &str) {
    let state = format!("SELECT vm_state FROM nova_cell0.instances WHERE uuid = '{server}'");
    cloud.machine.eventually(&query(&state), r#"[["error"]]"#);
    let fault = format!("SELECT message FROM nova_cell0.instance_faults WHERE instance_uuid = '{server}'");
    let said = select(cloud, &fault).to_string();
    assert!(said.contains("No valid host"), "{said}");
}

/// The Decision about each workload.
fn decisions(cloud: &Cloud) -> BTreeMap<String, Value> {
    let listed = cloud.machine.ok("kubectl -n cloud get decisions.cortex.c5c3.io -o json");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let all = listed["items"].as_array().unwrap().iter();
    all.map(|one| (one["spec"]["resourceID"].as_str().unwrap().to_owned(), one["status"].clone())).collect()
}

pub fn each_is_on_the_first_host_of_its_decision(cloud: &Cloud, batches: usize, size: usize) {
    for batch in 0..batches {
        let made = create(cloud, &format!("batch-{batch}"), size);
        assert_eq!(made.len(), size);
        let active = format!(
            "SELECT COUNT(*) FROM nova.instances WHERE vm_state = 'active' AND display_name LIKE 'batch-{batch}%'"
        );
        cloud.machine.eventually(&query(&active), &format!("[[{size}]]"));
    }
    let placed = select(cloud, "SELECT uuid, host FROM nova.instances WHERE deleted = 0");
    let placed = placed.as_array().unwrap();
    assert_eq!(placed.len(), batches * size);
    let count = "kubectl -n cloud get decisions.cortex.c5c3.io -o name | wc -l";
    cloud.machine.eventually(count, &placed.len().to_string());
    let decisions = decisions(cloud);
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for row in placed {
        let (server, host) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let decision = &decisions[server];
        assert_eq!(decision["orderedHosts"][0]["host"], host, "{server}: {decision}");
        assert_eq!((&decision["targetHost"], &decision["offeredHosts"]), (&host.into(), &3.into()), "{decision}");
        let why = decision["explanation"].as_str().unwrap();
        assert!(why.contains(host), "{why}");
        *used.entry(host).or_default() += 1;
    }
    eprintln!("{} servers: {used:?}", placed.len());
}

//! Cells of a real Nova: how it knows them, and when they go.

use serde_json::{Value, json};

use crate::cloud::{Cloud, client};
use crate::{SERVICES, in_api};

/// Asks a database of Nova's with the account of its configuration: `-` SECTION QUERY.
const ASK: &str = r#"
import configparser, json, sys, urllib.parse
import pymysql
conf = configparser.RawConfigParser(strict=False)
conf.read("/etc/nova/nova.conf")
url = urllib.parse.urlsplit(conf.get(sys.argv[1], "connection"))
with pymysql.connect(host=url.hostname, port=url.port, user=url.username, password=urllib.parse.unquote(url.password),
                     database=url.path[1:], autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute(sys.argv[2])
    print(json.dumps(cursor.fetchall()))
"#;

/// What a database of Nova's answers, as JSON.
pub fn select(cloud: &Cloud, section: &str, query: &str) -> String {
    cloud.machine.write("ask.py", ASK);
    cloud.machine.write("query", query);
    let ask = format!("{} /opt/nova/bin/python - {section} \"$(cat query)\" < ask.py", in_api());
    cloud.machine.ok(&ask).trim().to_owned()
}

pub fn status(cell: &str) -> String {
    let status = format!("{{.status.cells[?(@.name==\"{cell}\")].status}}");
    format!("kubectl -n cloud get nova nova -o jsonpath='{status}' | cut -d: -f1")
}

fn condition(name: &str, field: &str) -> String {
    format!("kubectl -n cloud get nova nova -o jsonpath='{{.status.conditions[?(@.type==\"{name}\")].{field}}}'")
}

fn set_cells(cloud: &Cloud, cells: &Value) {
    let patch = json!({"spec": {"services": {"nova": {"template": {"cells": cells}}}}});
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

pub fn hold_no_password(cloud: &Cloud) {
    let stored = select(cloud, "api_database", "SELECT name, database_connection, transport_url FROM cell_mappings");
    assert!(stored.contains("cell0") && stored.contains("cell1"), "{stored}");
    for secret in ["nova-db-credentials", "nova-rabbitmq-credentials"] {
        let get = format!("kubectl -n cloud get secret {secret} -o jsonpath='{{.data.password}}' | base64 -d");
        assert!(!stored.contains(&cloud.machine.ok(&get)), "{secret} is in Nova's database");
    }
    let list = "/opt/nova/bin/nova-manage --config-file=/etc/nova/nova.conf cell_v2 list_cells";
    let listed = cloud.machine.ok(&format!("{} {list}", in_api()));
    assert!(listed.contains("/nova_cell0") && listed.contains("/nova-cell1"), "{listed}");
}

/// A second cell is added, is not removed as long as a host is in it, and leaves nothing.
pub fn come_and_go(cloud: &Cloud) {
    let it = &cloud.machine;
    // Of several cells one has to say which nodes are its hypervisors.
    let first = json!({"name": "cell1", "nodeSelector": {"node-role.kubernetes.io/hypervisor": ""}});
    set_cells(cloud, &json!([first, {"name": "cell2"}]));
    it.eventually(&status("cell2"), "Ready");
    let is_up = format!("{SERVICES} | grep -o 'nova-conductor-cell2-0 up'");
    it.eventually(&client(&is_up), "nova-conductor-cell2-0 up");
    let host = "INSERT INTO host_mappings (cell_id, host) SELECT id, 'kite' FROM cell_mappings WHERE name = 'cell2'";
    select(cloud, "api_database", host);
    it.eventually(
        "kubectl -n cloud get nova nova -o jsonpath='{.status.cells[?(@.name==\"cell2\")].computeNodes}'",
        "1",
    );
    set_cells(cloud, &json!([{"name": "cell1"}]));
    it.eventually(&condition("CellsReady", "reason"), "CellNotEmpty");
    let said = it.ok(&condition("CellsReady", "message"));
    assert!(said.contains("cell2") && said.contains("the host kite"), "{said}");
    it.says(&client(&is_up), "nova-conductor-cell2-0 up");
    select(cloud, "api_database", "DELETE FROM host_mappings WHERE host = 'kite'");
    it.eventually("kubectl -n cloud get statefulset nova-conductor-cell2 --ignore-not-found -o name", "");
    it.eventually(&status("cell2"), "");
    let left = select(cloud, "api_database", "SELECT name FROM cell_mappings ORDER BY name");
    assert_eq!(left, r#"[["cell0"], ["cell1"]]"#);
    // What the other cells use is still there.
    let user =
        "kubectl -n cloud get users.rabbitmq.com nova -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'";
    it.eventually(user, "True");
    let all = "nova-conductor nova-conductor-0 up nova-conductor nova-conductor-cell1-0 up nova-scheduler nova-scheduler-0 up";
    it.eventually(&client(SERVICES), all);
    it.eventually(&condition("Ready", "status"), "True");
}

"""Whether OVN's databases answer, as this pod sees it, in JSON: report.py SETTINGS. It changes only when something has changed."""

import concurrent.futures
import configparser
import json
import os
import re
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WRONG_CA = re.compile("certificate verify failed|unknown ca|bad certificate|certificate required", re.IGNORECASE)

conf = configparser.RawConfigParser(strict=False)
conf.read(os.path.join(HERE, "ml2_conf.ini"))


class Fault(Exception):
    pass


def numeric(remote):
    """The connection with an address in the place of a name: ovsdb-client has a resolver of its own, without search domains."""
    scheme, _, rest = remote.partition(":")
    host, _, port = rest.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise Fault(f"Unreachable: the name {host} has no address: {error.strerror}")
    return f"{scheme}:[{found}]:{port}" if ":" in found else f"{scheme}:{found}:{port}"


def fault(said):
    if WRONG_CA.search(said):
        return "WrongCA: its certificate and Neutron's are not of one CA; look at spec.ovn.certSecretRef"
    own = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("ovsdb-client: ")]
    return f"Unreachable: {own[-1] if own else 'it does not answer'}"


def rows(database, transaction):
    side = "nb" if database == "OVN_Northbound" else "sb"
    option = lambda name: conf.get("ovn", f"ovn_{side}_{name}", fallback="")
    remotes = ",".join(map(numeric, option("connection").split(",")))
    command = ["ovsdb-client", "--timeout=4", "--no-leader-only"]
    if option("private_key"):
        command += [f"--private-key={option('private_key')}", f"--certificate={option('certificate')}"]
        command += [f"--ca-cert={option('ca_cert')}"]
    command += ["query", remotes, json.dumps(transaction)]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        raise Fault("Unreachable: it does not answer")
    if asked.returncode:
        raise Fault(fault(asked.stderr))
    return json.loads(asked.stdout)[0]["rows"]


def select(table, where, *columns):
    return {"op": "select", "table": table, "where": where, "columns": list(columns)}


def state(database, question):
    """How a database is, and what it says to a question."""
    try:
        found = rows(database, ["_Server", select("Database", [["name", "==", database]], "connected")])
        if not found or not found[0]["connected"]:
            return "Unreachable: it has no quorum", []
        return "Connected", rows(database, [database, question])
    except Fault as error:
        return str(error), []


def value(row, column, key):
    return dict(row[column][1]).get(key, "")


if not conf.has_section("ovn"):
    sys.exit("OVN is switched off")
with concurrent.futures.ThreadPoolExecutor() as pool:
    ports = select("Logical_Switch_Port", [["type", "==", "localnet"]], "options")
    asked = pool.submit(state, "OVN_Northbound", ports)
    southbound, chassis = state("OVN_Southbound", select("Chassis", [], "other_config"))
    northbound, ports = asked.result()
mappings = ",".join(value(one, "other_config", "ovn-bridge-mappings") for one in chassis)
mapped = {mapping.rpartition(":")[0] for mapping in mappings.split(",")}
wanted = {value(port, "options", "network_name") for port in ports} - {""}
unmapped = sorted(wanted - mapped) if southbound == "Connected" else []
print(json.dumps({"northbound": northbound, "southbound": southbound, "unmapped": unmapped}))

"""Tells the operator how a member of a Raft cluster is, and does what the operator orders.

It decides nothing about a cluster: whether a member founds one, joins one or leaves one is ordered by POST, with the token
that only the operator and the members have. GET tells nothing that is secret.
"""

import hmac
import json
import os
import re
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from urllib.parse import parse_qs, urlsplit

KIND = os.environ["DATABASE"]
NAME = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}[KIND]
ADDRESS = os.environ["RAFT_ADDRESS"]
PORT = int(os.environ["CONTROL_PORT"])
IS_TLS = ADDRESS.startswith("ssl:")
DATA = os.environ.get("DATA", "/var/lib/ovn")
RUN = os.environ.get("RUN", "/run/ovn")
TLS = os.environ.get("TLS", "/etc/ovn-tls")
TOKEN = os.environ.get("TOKEN", "/etc/ovn-control/token")
SCHEMA = f"/usr/share/ovn/ovn-{KIND}.ovsschema"
FILE = f"{DATA}/{KIND}.db"
# The data is of a member that has left: it cannot come back with it.
LEFT = f"{FILE}.left"
# It was told to leave, or to join, and that has not come to its end.
LEAVING = f"{FILE}.leaving"
JOINING = f"{FILE}.joining"
SOCKET = f"unix:{RUN}/db.sock"
# How often the northbound leader raises nb_cfg, which every ovn-controller confirms: the heartbeat of chassis.
HEARTBEAT = float(os.environ.get("HEARTBEAT", "60"))
# Under load a member misses heartbeats of one second, which is the usual time, and an election is an outage of its own.
ELECTION_TIMER = "2000"
# How long a member that has not joined yet is left alone, in seconds.
LONGEST_JOINING = 60

changing = threading.Lock()


class Refused(Exception):
    """What is ordered contradicts the state of this member."""


def run(*command, seconds=10):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout.strip()


def appctl(*command):
    return run("ovs-appctl", "-T", "5", "-t", f"{RUN}/db.ctl", *command)


def cluster_status():
    """What the server says of its cluster; nothing while it does not run."""
    try:
        text = appctl("cluster/status", NAME)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    field = lambda name: (re.search(rf"^{name}: (.*)$", text, re.M) or [None, ""])[1].strip()
    servers = re.findall(r"^\s+(\w{4}) \((?:\w{4} )?at ([^)\s]+)\)", text, re.M)
    return {
        "status": field("Status"),
        "role": field("Role"),
        "leader": field("Leader"),
        "address": field("Address"),
        "servers": [{"sid": sid, "address": address} for sid, address in servers],
    }


def identity(what):
    try:
        return run("ovsdb-tool", f"db-{what}", FILE)
    except (OSError, subprocess.TimeoutExpired):
        return None


def state():
    if not os.path.exists(FILE):
        return {"data": False, "left": False, "joining": False}
    sid = identity("sid")
    return {
        **cluster_status(),
        "data": True,
        "left": os.path.exists(LEFT),
        "joining": os.path.exists(JOINING) and time.time() - os.path.getmtime(JOINING) < LONGEST_JOINING,
        "cid": identity("cid"),
        "sid": sid and sid[:4],
    }


def is_member(said):
    return said.get("status") == "cluster member" and said.get("leader") not in ("", "unknown", None)


def is_leader():
    said = cluster_status()
    return is_member(said) and said.get("role") == "leader"


def forget(*marks):
    for mark in marks:
        if os.path.exists(mark):
            os.remove(mark)


def settle(made):
    """Puts new data into its place, in one step. A server that runs on the old data starts again on the new."""
    with open(made, "rb") as data:
        os.fsync(data.fileno())
    os.replace(made, FILE)
    forget(LEFT, LEAVING)
    folder = os.open(DATA, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    try:
        appctl("exit")
    except (OSError, subprocess.TimeoutExpired):
        pass  # It waits for data.


def scratch():
    made = f"{FILE}.new"
    forget(made, f"{DATA}/.{KIND}.db.new.~lock~")
    return made


def create(_):
    if os.path.exists(FILE):
        raise Refused("there is data already, so no cluster is founded")
    made = scratch()
    run("ovsdb-tool", f"--election-timer={ELECTION_TIMER}", "create-cluster", made, SCHEMA, ADDRESS)
    settle(made)


def join(order):
    has_left = os.path.exists(LEFT)
    if os.path.exists(FILE) and not has_left and not order.get("replace"):
        raise Refused("there is data already; only data of a member that has left the cluster is replaced")
    if cluster_status().get("role") == "leader" and not has_left:
        raise Refused("this member leads the cluster")
    made = scratch()
    others = [remote for remote in order["remotes"] if remote != ADDRESS]
    run("ovsdb-tool", f"--cid={order['cid']}", "join-cluster", made, NAME, ADDRESS, *others)
    open(JOINING, "w", encoding="ascii").close()
    settle(made)


def has_left():
    """Marks the data of a member that has left. Its server does not know the database any more from then on."""
    if os.path.exists(LEAVING) and not cluster_status() and appctl("version"):
        open(LEFT, "w", encoding="ascii").close()
        forget(LEAVING, JOINING)


def leave(_):
    if not os.path.exists(FILE) or os.path.exists(LEFT):
        return
    if cluster_status().get("status") not in (None, "leaving cluster"):
        open(LEAVING, "w", encoding="ascii").close()
        appctl("cluster/leave", NAME)
    has_left()


def kick(order):
    if not is_leader():
        raise Refused("this member does not lead the cluster")
    appctl("cluster/kick", NAME, order["sid"])


def delete_chassis(order):
    run("ovn-sbctl", f"--db={SOCKET}", "--no-leader-only", "--timeout=10", "--if-exists", "chassis-del", order["name"])


ORDERS = {"/create": create, "/join": join, "/leave": leave, "/kick": kick}
if KIND == "sb":
    ORDERS["/delete-chassis"] = delete_chassis


def query(*operations):
    return json.loads(run("ovsdb-client", "--timeout=10", "query", SOCKET, json.dumps([NAME, *operations])))


def chassis(name):
    where = [["name", "==", name]] if name else []
    select = lambda table, columns: {"op": "select", "table": table, "where": where, "columns": columns}
    rows, private = query(
        select("Chassis", ["name", "hostname", "other_config"]), select("Chassis_Private", ["name", "nb_cfg_timestamp"])
    )
    beats = {row["name"]: row["nb_cfg_timestamp"] for row in private["rows"]}
    return [
        {
            "name": row["name"],
            "hostname": row["hostname"],
            "datapath": dict(row["other_config"][1]).get("datapath-type", ""),
            "heartbeat": beats.get(row["name"], 0),
        }
        for row in rows["rows"]
    ]


def version(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def convert():
    """The leader brings the tables up to the newest schema. An older member, which leads in the middle of an upgrade, must
    not bring them back."""
    ours = run("ovsdb-tool", "schema-version", SCHEMA)
    live = run("ovsdb-client", "--timeout=10", "get-schema-version", SOCKET, NAME)
    if version(ours) > version(live):
        run("ovsdb-client", "--timeout=60", "convert", SOCKET, SCHEMA, seconds=70)


def beat():
    """Raises nb_cfg. False before northd has made the row that has it."""
    raised = {"op": "mutate", "table": "NB_Global", "where": [], "mutations": [["nb_cfg", "+=", 1]]}
    done = run("ovsdb-client", "--timeout=10", "transact", SOCKET, json.dumps([NAME, raised]))
    return json.loads(done)[0].get("count") == 1


def keep():
    """What a leader does by itself, and the mark of data that is of no use any more."""
    next_beat = 0
    while True:
        time.sleep(1)
        try:
            said = cluster_status()
            if os.path.exists(LEAVING):
                with changing:
                    has_left()
            if is_member(said) and os.path.exists(JOINING):
                forget(JOINING)
            if said.get("role") == "leader" and time.monotonic() >= next_beat:
                next_beat = time.monotonic() + HEARTBEAT
                convert()
                if KIND == "nb" and not beat():
                    next_beat = 0
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"not done: {error}", flush=True)


class Handler(BaseHTTPRequestHandler):
    timeout = 15

    def log_message(self, *_):
        pass

    def answer(self, code, what):
        if code >= 400:
            # As Kubernetes says it, which passes it on.
            what = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, **what}
        body = json.dumps(what).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tried(self, work):
        try:
            self.answer(*work())
        except Refused as why:
            self.answer(409, {"message": str(why)})
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            self.answer(503, {"message": str(error)})

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/state":
            return self.tried(lambda: (200, state()))
        if url.path == "/ready":
            return self.tried(lambda: (200, {}) if is_member(cluster_status()) else (503, {"message": "no leader is known"}))
        if url.path == "/chassis" and KIND == "sb":
            return self.tried(lambda: (200, chassis(parse_qs(url.query).get("name", [None])[0])))
        return self.answer(404, {"message": "there is no such path"})

    def do_POST(self):
        with open(TOKEN, encoding="ascii") as file:
            is_allowed = hmac.compare_digest(file.read().strip(), self.headers.get("X-Ovn-Token", ""))
        if not is_allowed:
            return self.answer(403, {"message": "the token is wrong"})
        order = ORDERS.get(self.path)
        if order is None:
            return self.answer(404, {"message": "there is no such order"})
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

        def obey():
            with changing:
                order(body)
            print(f"done: {self.path} {body}", flush=True)
            return 200, {}

        return self.tried(obey)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    address_family = AF_INET6 if ":" in os.environ.get("POD_IP", "") else AF_INET

    def get_request(self):
        plain, address = super().get_request()
        plain.settimeout(15)
        if not IS_TLS:
            return plain, address
        # For each connection, so that a renewed certificate is used. The handshake is left to the thread that reads.
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(f"{TLS}/tls.crt", f"{TLS}/tls.key")
        return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address


if __name__ == "__main__":
    threading.Thread(target=keep, daemon=True).start()
    Server(("", PORT), Handler).serve_forever()

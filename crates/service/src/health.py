"""Says whether the servers that the service cannot do without answer.

It runs beside the service, because a service that is busy is not out of order: as a web server (`/`: may the pod serve, `/alive`:
does the application listen, `/pools`: can the Ceph pools be used, `/report`: what the service's own program says), or once, for a pod without a port, with the answer as exit status: health.py once SETTINGS.
"""

import http.server
import json
import os
import socket
import subprocess
import sys

# A process of uWSGI has no arguments of ours.
ONCE = len(sys.argv) == 3 and sys.argv[1] == "once"
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, sys.argv[2] if ONCE else "health.json")) as file:
    SETTINGS = json.load(file)


def database(connection):
    import pymysql

    try:
        patience = {"connect_timeout": 5, "read_timeout": 5, "write_timeout": 5}
        with pymysql.connect(**connection, **patience) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return None
    except (pymysql.Error, OSError):
        return "the database does not answer"


def any_of(addresses):
    for host, port in addresses:
        if accepts(host, port):
            return None
    return "no message broker answers"


def accepts(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
        return True
    except OSError:
        return False


CHECKS = {"database": database, "anyOf": any_of}


def wrong():
    """The first thing that is wrong, or None."""
    found = (CHECKS[name](argument) for check in SETTINGS["checks"] for name, argument in check.items())
    return next((what for what in found if what), None)


def not_alive():
    return None if accepts("127.0.0.1", SETTINGS["application"]) else "the application does not listen"


def run(program):
    """Exit status and output of a program of ours, in a process of its own, which ends with what it has opened."""
    command = [SETTINGS["python"], os.path.join(HERE, program), os.path.join(HERE, "health.json")]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=8)
    except subprocess.TimeoutExpired:
        return 1, "", ""
    return asked.returncode, asked.stdout, asked.stderr.strip()


def useless_pools():
    """What is wrong with the Ceph pools."""
    status, _, wrong = run("pools.py")
    return wrong or "Unreachable: Ceph does not answer" if status else None


QUESTIONS = {"/alive": not_alive, "/pools": useless_pools}


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = "ready"
        if self.path == "/report":
            status, said, what = run("report.py")
            what = (what or "the report takes too long") if status else None
        else:
            what = QUESTIONS.get(self.path, wrong)()
        self.send_response(503 if what else 200)
        self.end_headers()
        self.wfile.write(f"{what or said}\n".encode())

    def log_message(self, *_):
        pass


if ONCE:
    sys.exit(wrong())
http.server.ThreadingHTTPServer(("", SETTINGS["port"]), Answer).serve_forever()

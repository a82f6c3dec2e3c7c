"""What Nova says of its cells and services, as JSON: report.py SETTINGS.

Which host is in which cell is in the API's database alone: no request of the API says it.
"""

import collections
import configparser
import json
import os
import sys
import urllib.parse

import pymysql
from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3

CELL0 = "00000000-0000-0000-0000-000000000000"
HOSTS = "SELECT c.name, h.host FROM cell_mappings c LEFT JOIN host_mappings h ON h.cell_id = c.id WHERE c.uuid <> %s"
SERVERS = (
    "SELECT c.name, COUNT(*) FROM cell_mappings c JOIN instance_mappings i ON i.cell_id = c.id "
    "WHERE c.uuid <> %s AND COALESCE(i.queued_for_delete, 0) = 0 GROUP BY c.name"
)


def database():
    conf = configparser.RawConfigParser(strict=False)
    conf.read(os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "nova.conf"))
    url = urllib.parse.urlsplit(conf.get("api_database", "connection"))
    tls = {key: value for key, value in urllib.parse.parse_qsl(url.query) if key.startswith("ssl_")}
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=urllib.parse.unquote(url.username),
        password=urllib.parse.unquote(url.password),
        database=url.path.lstrip("/"),
        connect_timeout=3,
        read_timeout=5,
        **tls,
    )


def cells():
    found = collections.defaultdict(lambda: {"hosts": [], "servers": 0})
    with database() as connection, connection.cursor() as cursor:
        cursor.execute(HOSTS, (CELL0,))
        for name, host in cursor.fetchall():
            found[name]["hosts"].extend([host] if host else [])
        cursor.execute(SERVERS, (CELL0,))
        for name, servers in cursor.fetchall():
            found[name]["servers"] = servers
    return {name: {**cell, "hosts": sorted(cell["hosts"])} for name, cell in found.items()}


def services(settings):
    """Whether each service is up and enabled, by its binary and host."""
    verify = settings["auth"].pop("verify") or True
    nova = session.Session(auth=v3.ApplicationCredential(**settings["auth"]), verify=verify, timeout=6)
    listed = nova.get(f"{settings['url']}/os-services").json()["services"]
    return {f"{one['binary']} {one['host']}": one["state"] == "up" for one in listed}


with open(sys.argv[1]) as file:
    settings = json.load(file)["report"]
try:
    print(json.dumps({"cells": cells(), "services": services(settings)}, sort_keys=True))
except pymysql.MySQLError as error:
    sys.exit(f"the API's database does not answer: {error.args[-1]}")
except exceptions.ClientException as error:
    sys.exit(f"Nova does not answer: {error}")

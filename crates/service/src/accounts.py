"""Tries accounts on databases, message brokers and Ceph. Those in use must be accepted, deleted ones refused: accounts.py SETTINGS."""

import json
import sys

# What MariaDB answers to an account that does not exist, has another password, or is locked.
REFUSALS = (1045, 1698, 4151)


def database(connection):
    import pymysql

    try:
        pymysql.connect(**connection, connect_timeout=10).close()
        return True
    except pymysql.err.OperationalError as error:
        if error.args[0] in REFUSALS:
            return False
        raise


def broker(connection):
    import amqp

    unreachable = None
    for host, port in connection.pop("addresses"):
        tls = connection.get("ssl") and {"ca_certs": connection["ca"], "server_hostname": host}
        account = {key: connection[key] for key in ("userid", "password", "virtual_host")}
        try:
            with amqp.Connection(f"{host}:{port}", ssl=tls or False, connect_timeout=10, **account):
                return True
        except amqp.AccessRefused:
            return False
        except OSError as error:
            unreachable = error
    raise unreachable


def ceph(connection):
    import rados

    conf = {"mon_host": connection["mon_host"], "key": connection["key"], "client_mount_timeout": "30"}
    cluster = rados.Rados(rados_id=connection["user"], conf=conf)
    try:
        cluster.connect(timeout=30)
        return True
    except (rados.PermissionError, rados.PermissionDeniedError):
        return False
    finally:
        cluster.shutdown()


TRY = {"database": database, "broker": broker, "ceph": ceph}

with open(sys.argv[1]) as file:
    settings = json.load(file)
wrong = []
for account in settings:
    try:
        accepted = TRY[account["on"]](account["connection"])
    except Exception as error:
        wrong.append(f"the {account['on']} cannot be asked about {account['secret']}: {error}")
        continue
    if accepted != account["accepted"]:
        said = "accepts" if accepted else "refuses"
        wrong.append(f"the {account['on']} {said} the account of {account['secret']}")
sys.exit("; ".join(wrong) or 0)

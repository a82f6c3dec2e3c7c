"""What Cinder says of its backends, as JSON: report.py SETTINGS."""

import collections
import json
import sys

from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3

with open(sys.argv[1]) as file:
    settings = json.load(file)["report"]
verify = settings["auth"].pop("verify") or True
cinder = session.Session(auth=v3.ApplicationCredential(**settings["auth"]), verify=verify, timeout=6)


def get(path):
    return cinder.get(f"{settings['url']}/{cinder.get_project_id()}/{path}").json()


def backend(host):
    return host.partition("@")[2].partition("#")[0]


try:
    up, free = {}, collections.defaultdict(int)
    for service in get("os-services?binary=cinder-volume")["services"]:
        name = backend(service["host"])
        up[name] = up.get(name, False) or (service["state"] == "up" and service["status"] == "enabled")
    for pool in get("scheduler-stats/get_pools?detail=True")["pools"]:
        room = pool["capabilities"].get("free_capacity_gb")
        # It may also be "infinite" or "unknown".
        if isinstance(room, (int, float)):
            free[backend(pool["name"])] += int(room)
    types = {one["name"]: one["description"] for one in get("types?is_public=None")["volume_types"]}
except exceptions.ClientException as error:
    sys.exit(f"Cinder does not answer: {error}")
print(json.dumps({"up": up, "free": free, "types": types}, sort_keys=True))

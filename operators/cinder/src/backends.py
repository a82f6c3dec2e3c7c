"""Makes a volume type for each backend, and removes types and services of backends that are gone: backends.py SETTINGS CONF.

A type that volumes use stays, and so does one that a user has made. A service that still runs would come back, so it is waited for.
"""

import json
import sys
import time

from oslo_config import cfg

from cinder import context, db, exception, objects
from cinder.common import config  # noqa: F401 (registers options)
from cinder.volume import volume_types

KEY = "volume_backend_name"
PATIENCE = 300

with open(sys.argv[1]) as file:
    settings = json.load(file)
objects.register_all()
cfg.CONF(["--config-file", sys.argv[2]], project="cinder")
admin = context.get_admin_context()

types = volume_types.get_all_types(admin)
for name in settings["backends"]:
    if name not in types:
        volume_types.create(admin, name, extra_specs={KEY: name}, description=settings["description"])
        print(f"created the volume type {name}")
    elif types[name]["extra_specs"].get(KEY) != name:
        db.volume_type_extra_specs_update_or_create(admin, types[name]["id"], {KEY: name})
        print(f"set {KEY} of the volume type {name}")
for name, found in types.items():
    if found["description"] == settings["description"] and name not in settings["backends"]:
        try:
            volume_types.destroy(admin, found["id"])
            print(f"removed the volume type {name}")
        except (exception.VolumeTypeInUse, exception.VolumeTypeDefaultDeletionError) as error:
            print(f"the volume type {name} stays: {error}")

begun = time.monotonic()
while True:
    known = objects.ServiceList.get_all(admin)
    gone = [one for one in known if one.host.startswith(settings["prefix"]) and one.host not in settings["hosts"]]
    for service in gone:
        if not service.is_up:
            service.destroy()
            print(f"removed {service.binary} on {service.host}")
    running = [service.host for service in gone if service.is_up]
    if not running:
        break
    if time.monotonic() - begun > PATIENCE:
        sys.exit(f"still running: {', '.join(running)}")
    time.sleep(5)

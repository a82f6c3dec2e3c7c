"""Removes the rows of schedulers and conductors that are gone for good: services.py SETTINGS CONF.

One that still runs would come back, so it is waited for.
"""

import json
import sys
import time

import nova.cmd  # noqa: F401 (what every program of Nova begins with)

from nova import config, context, objects, servicegroup

BINARIES = ("nova-conductor", "nova-scheduler")
PATIENCE = 300

with open(sys.argv[1]) as file:
    settings = json.load(file)
config.parse_args(["nova-services", "--config-file", sys.argv[2]])
objects.register_all()
admin = context.get_admin_context()
group = servicegroup.API()


def is_gone(service):
    is_ours = service.binary in BINARIES and service.host.startswith(settings["prefix"])
    return is_ours and service.host not in settings["hosts"]


begun = time.monotonic()
while True:
    running = []
    for cell in objects.CellMappingList.get_all(admin):
        with context.target_cell(admin, cell) as within:
            for service in filter(is_gone, objects.ServiceList.get_all(within)):
                if group.service_is_up(service):
                    running.append(service.host)
                    continue
                service.destroy()
                print(f"removed {service.binary} on {service.host}")
    if not running:
        break
    if time.monotonic() - begun > PATIENCE:
        sys.exit(f"still running: {', '.join(running)}")
    time.sleep(5)

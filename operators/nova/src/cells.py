"""Makes Nova's cells what the settings say: cells.py SETTINGS CONF.

Mappings are templates that Nova completes from its own configuration, so that none of them holds a password. Each cell's schema is
brought to the version of this image. A cell is removed only without hosts and servers.
"""

import json
import sys

import nova.cmd  # noqa: F401 (what every program of Nova begins with)
from oslo_utils import uuidutils

from nova import config, context, objects
from nova.db import migration

NOT_EMPTY = 77

with open(sys.argv[1]) as file:
    settings = json.load(file)
config.parse_args(["nova-cells", "--config-file", sys.argv[2]])
objects.register_all()
admin = context.get_admin_context()
ZERO = objects.CellMapping.CELL0_UUID


def known():
    return {"cell0" if cell.uuid == ZERO else cell.name: cell for cell in objects.CellMappingList.get_all(admin)}


def wanted():
    """The cells of the settings, each with its mapping."""
    existing = known()
    for name, urls in settings["cells"].items():
        cell = existing.get(name)
        if cell is None:
            uuid = ZERO if name == "cell0" else uuidutils.generate_uuid()
            cell = objects.CellMapping(admin, uuid=uuid, name=name, **urls)
            cell.create()
            print(f"created {name}")
        else:
            cell.database_connection, cell.transport_url = urls["database_connection"], urls["transport_url"]
            cell.save()
        # Once more, for what is written is a template and what is read is not.
        yield name, objects.CellMapping.get_by_uuid(admin, cell.uuid)


def remove(name, cell):
    hosts = [mapping.host for mapping in objects.HostMappingList.get_by_cell_id(admin, cell.id)]
    with context.target_cell(admin, cell) as within:
        servers = objects.InstanceList.get_by_filters(within, {"deleted": False}, limit=1)
    if hosts or servers:
        sys.stderr.write(f"{name} is not empty: it has {'the hosts ' + ', '.join(hosts) if hosts else 'servers'}\n")
        sys.exit(NOT_EMPTY)
    # What is left belongs to servers that are deleted.
    for mapping in objects.InstanceMappingList.get_by_cell_id(admin, cell.id):
        mapping.destroy()
    cell.destroy()
    print(f"removed {name}")


for name, cell in wanted():
    with context.target_cell(admin, cell) as within:
        migration.db_sync(context=within)
    print(f"{name} is at the version of this image")
for name, cell in known().items():
    if name in settings["remove"]:
        remove(name, cell)

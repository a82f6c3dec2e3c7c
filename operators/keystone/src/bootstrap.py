"""Creates what a cloud begins with: the administrator, the region, the identity endpoints, and the project of services.

Run again it changes what differs. The password comes from a file: arguments and environments can be listed.
"""

import json
import os
import pathlib
import sys
import uuid

from keystone import exception
from keystone.cmd import cli
from keystone.common import provider_api

HERE = pathlib.Path(__file__).parent
settings = json.loads((HERE / "bootstrap.json").read_text())
# Set within the process, after it has started, it is in no listing.
os.environ["OS_BOOTSTRAP_PASSWORD"] = settings["password"]
sys.argv = ["keystone-manage", "--config-file", str(HERE / "keystone.conf"), "bootstrap"]
for name in ("username", "region-id", "public-url", "internal-url", "admin-url"):
    sys.argv += [f"--bootstrap-{name}", settings[name]]
cli.main(argv=sys.argv, developer_config_file=None)

project = {
    "id": uuid.uuid4().hex,
    "name": "service",
    "domain_id": "default",
    "description": "The users of the OpenStack services.",
    "enabled": True,
}
try:
    provider_api.ProviderAPIs.resource_api.create_project(project["id"], project)
    print("created the project service")
except exception.Conflict:
    print("the project service is there")

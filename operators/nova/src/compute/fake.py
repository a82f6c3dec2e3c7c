"""Starts nova-compute with Nova's fake driver, for scale tests: fake.py ARGUMENTS.

Of itself the driver belongs to tests in one process: a node gets another identity in each process, and a new process knows none of
the servers of before. Nova refuses the first, and reports the second as errors.
"""

import pathlib
import socket
import sys
import uuid

import compute

STATE = pathlib.Path("/var/lib/nova")
# The pods of a StatefulSet keep their host names, and Nova knows a fake hypervisor by its host name.
IDENTITY = str(uuid.uuid5(uuid.NAMESPACE_DNS, socket.gethostname()))


def keep_identity():
    from nova.virt.fake import FakeDriver

    resources = FakeDriver.get_available_resource

    def get_nodenames_by_uuid(self, refresh=False):
        return {IDENTITY: name for name in self.get_available_nodes()}

    def get_available_resource(self, nodename):
        return {**resources(self, nodename), "uuid": IDENTITY}

    FakeDriver.get_nodenames_by_uuid = get_nodenames_by_uuid
    FakeDriver.get_available_resource = get_available_resource


def keep_servers():
    """A server of before is in the state that Nova saw it in last."""
    from nova.virt.fake import FakeDriver, FakeInstance

    info = FakeDriver.get_info

    def get_info(self, instance, use_cache=True):
        if instance.uuid not in self.instances:
            self.instances[instance.uuid] = FakeInstance(instance.name, instance.power_state, instance.uuid)
        return info(self, instance, use_cache)

    FakeDriver.get_info = get_info


def start(arguments):
    compute.STARTED.touch()
    compute.HEARD.unlink(missing_ok=True)
    for folder in ("instances", "lock"):
        (STATE / folder).mkdir(exist_ok=True)
    # Nova refuses a hypervisor that it knows and whose identity is not there.
    (STATE / "compute_id").write_text(IDENTITY)
    # First, for it patches the standard library.
    from nova.cmd.compute import main as nova_compute

    keep_identity()
    keep_servers()
    compute.listen()
    sys.argv = ["nova-compute", *arguments]
    nova_compute()


if __name__ == "__main__":
    start(sys.argv[1:])

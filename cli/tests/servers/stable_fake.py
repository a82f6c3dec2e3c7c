"""Nova's fake driver as a hypervisor that stays itself: its identity follows from its host name, and a start finds the servers of before.

Nova loads no driver outside `nova.virt`, so that this file has to be there.
"""

import os
import uuid

import nova.conf
from nova.virt import fake, node

CONF = nova.conf.CONF


class StableFakeDriver(fake.FakeDriver):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.own = str(uuid.uuid5(uuid.NAMESPACE_DNS, CONF.host))
        if not os.path.exists(os.path.join(CONF.state_path, node.COMPUTE_ID_FILE)):
            node.write_local_node_uuid(self.own)

    def get_nodenames_by_uuid(self, refresh=False):
        return {self.own: name for name in self.get_available_nodes()}

    def get_available_resource(self, nodename):
        return {**super().get_available_resource(nodename), "uuid": self.own}

    def get_info(self, instance, use_cache=True):
        if instance.uuid not in self.instances:
            self.instances[instance.uuid] = fake.FakeInstance(instance.name, instance.power_state, instance.uuid)
        return super().get_info(instance, use_cache)

"""Starts the volume or the backup service as a user without privileges: launch.py PROGRAM ARGUMENTS.

Cinder runs commands such as qemu-img by sudo, which is not in the image: they need nothing that the pod may not do. os-brick
looks for keys of Ceph in /etc/ceph, whatever file they are in. And a volume service whose storage does not answer at its start
tries a few times and never again: it ends in its place, and is started again. A volume that was copied from another one is deleted
together with what Cinder keeps of that one: the driver of Ceph forgets it, and its data would stay for ever, and its image with it.
"""

import importlib
import os
import pathlib
import re
import sys

program = sys.argv.pop(1)
sys.argv[0] = f"cinder-{program}"
# First, for it patches the standard library.
main = importlib.import_module(f"cinder.cmd.{program}").main

from cinder import objects, utils  # noqa: E402

utils.get_root_helper = lambda: "env"
for keyring in sorted(pathlib.Path(__file__).parent.glob("ceph-*.keyring")):
    user = re.match(r"\[(client\.[^]]+)\]", keyring.read_text())[1]
    link = pathlib.Path("/etc/ceph", f"ceph.{user}.keyring")
    if not link.is_symlink():
        link.symlink_to(keyring)
if program == "volume":
    objects.register_all()
    from cinder.volume.manager import VolumeManager

    begin = VolumeManager.init_host

    def begin_or_end(self, *args, **options):
        begin(self, *args, **options)
        if not self.driver.initialized:
            os._exit(1)

    VolumeManager.init_host = begin_or_end
    from cinder.volume.drivers.rbd import RBDDriver, RBDVolumeProxy

    delete = RBDDriver._delete_volume

    def delete_with_parents(self, volume, client):
        parent = None
        try:
            with RBDVolumeProxy(self, volume.name, ioctx=client.ioctx, read_only=True) as image:
                # A volume that has copies itself stays under another name until they are gone.
                if self._find_clone_snap(image) is None:
                    _pool, parent, snapshot = self._get_clone_info(image, volume.name)
        except self.rbd.ImageNotFound:
            pass
        delete(self, volume, client)
        try:
            if parent is not None:
                self._delete_clone_parent_refs(client, parent, snapshot)
        except self.rbd.ImageNotFound:
            # The driver has done it: it forgets parents only of volumes that go at its first attempt.
            pass

    RBDDriver._delete_volume = delete_with_parents
main()

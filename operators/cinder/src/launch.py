"""Starts the volume or the backup service as a user without privileges: launch.py PROGRAM ARGUMENTS.

Cinder runs commands such as qemu-img by sudo, which is not in the image: they need nothing that the pod may not do. os-brick
looks for keys of Ceph in /etc/ceph, whatever file they are in. And a volume service whose storage does not answer at its start
tries a few times and never again: it ends in its place, and is started again.
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
main()

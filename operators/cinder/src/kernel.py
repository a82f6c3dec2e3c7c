"""Says which backends cannot run on this node, and why: kernel.py SETTINGS. Modules that exist and are not loaded count as missing:
a pod cannot load them."""

import json
import os
import shutil
import sys

SYS_ADMIN = 1 << 21


def text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def is_there(module):
    if module == "dm_mod" and "device-mapper" in text("/proc/misc"):
        return True
    return os.path.exists(f"/sys/module/{module}") or module in text("/proc/filesystems").split()


def capabilities():
    line = next(line for line in text("/proc/self/status").splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def fault(backend):
    module, program = backend["module"], backend["program"]
    if not is_there(module):
        return f"the kernel of this node has no {module}"
    if not shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"):
        return f"the image has no {program}"
    if not capabilities() & SYS_ADMIN:
        return "pods of volume services have no capability SYS_ADMIN"
    return None


with open(sys.argv[1]) as file:
    found = [(backend, fault(backend)) for backend in json.load(file)]
wrong = [f"backend {backend['name']}: {backend['driver']} cannot run: {why}" for backend, why in found if why]
if wrong:
    sys.stderr.write("; ".join(wrong) + "\n")
    sys.exit(77)

"""Says whether each Ceph pool can be used: pools.py SETTINGS. The first word of a fault is the reason of a condition."""

import json
import sys

import rados

SECONDS = "5"


def fault(pool):
    """What is wrong with a pool, or None."""
    where = f"pool {pool['pool']} as client.{pool['user']}"
    limits = {name: SECONDS for name in ("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout")}
    try:
        with rados.Rados(conffile=pool["conf"], rados_id=pool["user"], conf=limits) as cluster:
            with cluster.open_ioctx(pool["pool"]) as objects:
                try:
                    objects.stat("rbd_directory")
                except rados.ObjectNotFound:
                    # Nothing was ever stored there.
                    pass
        return None
    except rados.ObjectNotFound as error:
        # Without a key in its file a client finds nothing either, and says so in the same way.
        reason = "PoolNotFound" if "pool" in str(error).lower() else "AccessDenied"
        return f"{reason}: {where}: {error}"
    except (rados.PermissionError, rados.PermissionDeniedError) as error:
        return f"AccessDenied: {where}: {error}"
    except rados.Error as error:
        return f"Unreachable: {where}: {error}"


with open(sys.argv[1]) as file:
    found = [what for what in map(fault, json.load(file)["pools"]) if what]
if found:
    sys.exit("; ".join(found))

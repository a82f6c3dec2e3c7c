"""Says which Ceph pools cannot be used, and why: pools.py SETTINGS.

Each has a line `NAME: REASON: what is wrong`, with the name that the service calls it by and the reason of a condition.
"""

import concurrent.futures
import json
import os
import sys

import rados

SECONDS = "5"
# All are asked at the same time, so that one that does not answer hides nothing that is wrong with another.
PATIENCE = 5.5
AT_ONCE = 8


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
    pools = json.load(file)["pools"]
executor = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
asked = [executor.submit(fault, pool) for pool in pools]
answered, _ = concurrent.futures.wait(asked, timeout=PATIENCE)
found = 0
for pool, question in zip(pools, asked):
    late = f"Unreachable: pool {pool['pool']} as client.{pool['user']}: no answer within {PATIENCE} s"
    what = question.result() if question in answered else late
    if what:
        found += 1
        print(f"{pool['name']}: {' '.join(what.split())}", file=sys.stderr, flush=True)
# What does not answer is not waited for.
os._exit(min(found, 1))

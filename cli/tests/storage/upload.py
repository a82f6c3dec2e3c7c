"""Uploads an image in pieces, slowly: upload.py NAME MIB SECONDS [STORE]. Prints the image's id and the SHA-256 of what was sent."""

import hashlib
import os
import sys
import time

import openstack

name, mib, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
store = sys.argv[4:5]
cloud = openstack.connect()
image = cloud.image.post("/images", json={"name": name, "disk_format": "raw", "container_format": "bare"}).json()
digest = hashlib.sha256()


def pieces():
    begun = time.monotonic()
    for number in range(mib):
        piece = os.urandom(1 << 20)
        digest.update(piece)
        yield piece
        # Never faster than the whole is to take.
        time.sleep(max(0, begun + seconds * (number + 1) / mib - time.monotonic()))


headers = {"Content-Type": "application/octet-stream"}
if store:
    headers["X-Image-Meta-Store"] = store[0]
answer = cloud.image.put(f"/images/{image['id']}/file", data=pieces(), headers=headers)
if answer.status_code != 204:
    sys.exit(f"{answer.status_code}: {answer.text}")
print(image["id"], digest.hexdigest())

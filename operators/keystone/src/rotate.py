"""Proposes the next set of keys: the staged key becomes the primary, and a new one is staged.

The proposal goes to a Secret that nothing else uses. The operator looks at it, and it alone changes the keys that are used.
"""

import base64
import json
import os
import pathlib
import ssl
import sys
import urllib.request

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
keys = {int(path.name): path.read_text().strip() for path in pathlib.Path("/keys").iterdir() if path.name.isdigit()}
keys[max(keys) + 1] = keys[0]
keys[0] = base64.urlsafe_b64encode(os.urandom(32)).decode()

data = {str(number): base64.b64encode(key.encode()).decode() for number, key in keys.items()}
namespace, proposal = sys.argv[1:]
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
request = urllib.request.Request(
    f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/namespaces/{namespace}/secrets/{proposal}",
    data=json.dumps([{"op": "add", "path": "/data", "value": data}]).encode(),
    method="PATCH",
    headers={
        "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
        "Content-Type": "application/json-patch+json",
    },
)
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ACCOUNT / "ca.crt"), timeout=30):
    print(f"proposed a set of {len(keys)} keys with the primary {max(keys)}")

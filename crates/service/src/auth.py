"""Gets a token with the service's credential, and says in Keystone's own words why there is none: auth.py SETTINGS."""

import json
import sys

from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3

with open(sys.argv[1]) as file:
    settings = json.load(file)
verify = settings.pop("verify") or True
try:
    auth = v3.ApplicationCredential(**settings)
    session.Session(auth=auth, verify=verify, timeout=30).get_token()
except exceptions.ClientException as error:
    sys.stderr.write(f"Keystone at {settings['auth_url']} gives no token for this credential: {error}\n")
    # What Keystone refuses, it refuses at the next attempt as well. One that does not answer may do so then.
    sys.exit(77 if isinstance(error, (exceptions.Unauthorized, exceptions.NotFound)) else 1)

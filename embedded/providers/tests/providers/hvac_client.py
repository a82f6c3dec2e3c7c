"""Uses a store as people use OpenBao: by the hvac client. Run as: hvac_client.py URL, with VAULT_TOKEN set."""

import os
import sys

import hvac
from hvac.exceptions import Forbidden, InvalidPath, InvalidRequest

client = hvac.Client(url=sys.argv[1], token=os.environ["VAULT_TOKEN"])
kv = client.secrets.kv.v2


def fails(kind, call, **arguments):
    try:
        call(**arguments)
    except kind:
        return
    raise AssertionError(f"{call.__name__}{arguments} did not fail with {kind.__name__}")


def read(path, **arguments):
    answer = kv.read_secret_version(path=path, mount_point="kv-v2", raise_on_deleted_version=True, **arguments)
    return answer["data"]["data"]


assert client.is_authenticated()
assert client.sys.is_initialized() and not client.sys.is_sealed()
assert client.sys.read_health_status(method="HEAD").status_code == 200
assert "kv-v2/" in client.sys.list_mounted_secrets_engines()["data"]

# Versions, check-and-set, patch.
riddle = {"path": "openstack/riddle", "mount_point": "kv-v2"}
assert kv.create_or_update_secret(**riddle, secret={"word": "owl"}, cas=0)["data"]["version"] == 1
fails(InvalidRequest, kv.create_or_update_secret, **riddle, secret={"word": "x"}, cas=0)
kv.create_or_update_secret(**riddle, secret={"word": "cat", "number": 7})
assert read("openstack/riddle") == {"word": "cat", "number": 7}
assert read("openstack/riddle", version=1) == {"word": "owl"}
kv.patch(**riddle, secret={"word": "dog"})
assert read("openstack/riddle") == {"word": "dog", "number": 7}

# Metadata and lists.
metadata = kv.read_secret_metadata(**riddle)["data"]
assert metadata["current_version"] == 3 and sorted(metadata["versions"]) == ["1", "2", "3"]
kv.update_metadata(**riddle, custom_metadata={"colour": "red"}, max_versions=5)
assert kv.read_secret_metadata(**riddle)["data"]["custom_metadata"] == {"colour": "red"}
kv.create_or_update_secret(path="openstack/nova/db", mount_point="kv-v2", secret={"a": "b"})
assert kv.list_secrets(path="openstack", mount_point="kv-v2")["data"]["keys"] == ["nova/", "riddle"]
fails(InvalidPath, kv.list_secrets, path="nowhere", mount_point="kv-v2")

# Deleted, restored, destroyed, forgotten.
kv.delete_latest_version_of_secret(**riddle)
fails(InvalidPath, read, path="openstack/riddle")
assert read("openstack/riddle", version=2) == {"word": "cat", "number": 7}
kv.undelete_secret_versions(**riddle, versions=[3])
assert read("openstack/riddle")["word"] == "dog"
kv.delete_secret_versions(**riddle, versions=[1, 2])
fails(InvalidPath, read, path="openstack/riddle", version=2)
kv.destroy_secret_versions(**riddle, versions=[2])
assert kv.read_secret_metadata(**riddle)["data"]["versions"]["2"]["destroyed"]
kv.delete_metadata_and_all_versions(**riddle)
fails(InvalidPath, kv.read_secret_metadata, **riddle)

# Engines, policies, tokens.
client.sys.enable_secrets_engine("kv", path="team/kv", options={"version": "2"})
kv.create_or_update_secret(path="x", mount_point="team/kv", secret={"a": "b"})
policy = 'path "team/kv/data/*" { capabilities = ["read"] }'
client.sys.create_or_update_acl_policy("reader", policy)
token = client.auth.token.create(policies=["reader"], ttl="1h")["auth"]["client_token"]
reader = hvac.Client(url=sys.argv[1], token=token)
assert reader.auth.token.lookup_self()["data"]["policies"] == ["reader"]
read_x = {"path": "x", "mount_point": "team/kv", "raise_on_deleted_version": True}
assert reader.secrets.kv.v2.read_secret_version(**read_x)["data"]["data"] == {"a": "b"}
fails(Forbidden, reader.secrets.kv.v2.create_or_update_secret, path="x", mount_point="team/kv", secret={"a": "c"})
reader.auth.token.revoke_self()
assert not reader.is_authenticated()
client.sys.disable_secrets_engine("team/kv")
fails(InvalidPath, kv.read_secret_metadata, path="x", mount_point="team/kv")

# Roles of logins with service accounts.
client.auth.kubernetes.create_role(
    "weaver", bound_service_account_names=["spider"], bound_service_account_namespaces=["web"], policies=["reader"]
)
assert client.auth.kubernetes.read_role("weaver")["bound_service_account_names"] == ["spider"]
fails(Forbidden, client.auth.kubernetes.login, role="weaver", jwt="not.a.token")
print("ok")

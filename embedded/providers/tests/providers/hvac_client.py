"""Uses a store as people use OpenBao: by the hvac client. Run as: hvac_client.py URL, with VAULT_TOKEN set."""

import os
import subprocess
import sys
import tempfile

import hvac
from hvac.exceptions import Forbidden, InvalidPath, InvalidRequest

client = hvac.Client(url=sys.argv[1], token=os.environ["VAULT_TOKEN"])
kv = client.secrets.kv.v2


def fails(kind, call, *values, **arguments):
    try:
        call(*values, **arguments)
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

# Logins with service accounts: a mount for each cluster, with roles of its own.
assert "kubernetes/control-plane/" in client.sys.list_auth_methods()["data"]
client.sys.enable_auth_method("kubernetes", path="kubernetes/attic")
attic = {"mount_point": "kubernetes/attic"}
client.auth.kubernetes.configure(kubernetes_host="https://attic.example", **attic)
client.auth.kubernetes.create_role(
    "weaver",
    bound_service_account_names=["spider"],
    bound_service_account_namespaces=["web"],
    policies=["reader"],
    ttl="10m",
    **attic,
)
role = client.auth.kubernetes.read_role("weaver", **attic)
assert role["bound_service_account_names"] == ["spider"] and role["token_ttl"] == 600, role
assert client.auth.kubernetes.list_roles(**attic)["keys"] == ["weaver"]
fails(Forbidden, client.auth.kubernetes.login, role="weaver", jwt="not.a.token", use_token=False, **attic)
fails(InvalidPath, client.auth.kubernetes.read_role, "weaver", mount_point="kubernetes/control-plane")

# Policies as they are shipped: the hypervisors' does not let anybody read what bootstraps a cloud.
assert "eso-hypervisor" in client.sys.list_acl_policies()["data"]["keys"]
token = client.auth.token.create(policies=["eso-hypervisor"])["auth"]["client_token"]
hypervisor = hvac.Client(url=sys.argv[1], token=token).secrets.kv.v2
for path in ("bootstrap/keystone-admin", "openstack/nova/compute-config"):
    kv.create_or_update_secret(path=path, mount_point="kv-v2", secret={"a": "b"})
at = {"mount_point": "kv-v2", "raise_on_deleted_version": True}
assert hypervisor.read_secret_version(path="openstack/nova/compute-config", **at)["data"]["data"] == {"a": "b"}
fails(Forbidden, hypervisor.read_secret_version, path="bootstrap/keystone-admin", **at)

# An authority: the one that is there, and another one.
pki = client.secrets.pki
assert "BEGIN CERTIFICATE" in pki.read_ca_certificate()
assert "openstack-internal" in pki.list_roles()["data"]["keys"]
issued = pki.generate_certificate("openstack-internal", common_name="nova.openstack.svc")["data"]
assert "PRIVATE KEY" in issued["private_key"] and issued["issuing_ca"].strip() == pki.read_ca_certificate().strip()
assert pki.read_certificate(issued["serial_number"])["data"]["certificate"] == issued["certificate"]
assert issued["serial_number"] in pki.list_certificates()["data"]["keys"]
fails(InvalidRequest, pki.generate_certificate, "openstack-internal", common_name="nova.example.com")
client.sys.enable_secrets_engine("pki", path="attic/pki")
client.sys.tune_mount_configuration(path="attic/pki", max_lease_ttl="8760h")
there = {"mount_point": "attic/pki"}
root = pki.generate_root("exported", "Attic CA", extra_params={"ttl": "8760h"}, **there)["data"]
assert "PRIVATE KEY" in root["private_key"]
web = {"allowed_domains": "web.example", "allow_subdomains": True, "allow_bare_domains": True, "max_ttl": "72h", "key_type": "any"}
pki.create_or_update_role("web", extra_params=web, **there)
assert pki.read_role("web", **there)["data"]["max_ttl"] == 72 * 3600
anonymous = hvac.Client(url=sys.argv[1])
assert anonymous.secrets.pki.read_ca_certificate(**there).strip() == root["certificate"].strip()


def openssl(*arguments):
    return subprocess.run(("openssl", *arguments), check=True, capture_output=True, text=True).stdout


# openssl makes a request for a key of its own, and believes the certificate.
with tempfile.TemporaryDirectory() as folder:
    ca, key, request, certificate = (os.path.join(folder, name) for name in ("ca.pem", "key.pem", "request.pem", "crt.pem"))
    for algorithm in ("rsa:2048", "ed25519"):
        openssl(
            "req", "-new", "-newkey", algorithm, "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=spider.web.example",
            "-addext", "subjectAltName=DNS:fly.web.example",
        )
        with open(request) as file:
            signed = pki.sign_certificate("web", csr=file.read(), common_name="spider.web.example", **there)["data"]
        assert "private_key" not in signed
        for path, text in ((ca, root["certificate"]), (certificate, signed["certificate"])):
            with open(path, "w") as file:
                file.write(text)
        for name in ("spider.web.example", "fly.web.example"):
            openssl("verify", "-x509_strict", "-CAfile", ca, "-verify_hostname", name, certificate)
        assert openssl("x509", "-in", certificate, "-noout", "-pubkey") == openssl("pkey", "-in", key, "-pubout")
print("ok")

# PushSecrets of application credentials. External Secrets reads data and metadata before it writes: it writes only what has
# changed, and only what its own mark in the metadata says is its own. It deletes the credential of a service that is gone.
path "kv-v2/data/openstack/+/app-credential" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/metadata/openstack/+/app-credential" {
  capabilities = ["create", "read", "update", "delete"]
}

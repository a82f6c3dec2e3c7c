# Backups of Keystone's keys, by namespace and name of the Keystone. They are deleted with spec.deletionPolicy: Delete alone.
path "kv-v2/data/openstack/keystone/+/+/fernet-keys" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/metadata/openstack/keystone/+/+/fernet-keys" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/data/openstack/keystone/+/+/credential-keys" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/metadata/openstack/keystone/+/+/credential-keys" {
  capabilities = ["create", "read", "update", "delete"]
}

# PushSecrets of Ceph's keys, from the storage cluster. The keys are Rook's: they are replaced and never deleted.
path "kv-v2/data/ceph/*" {
  capabilities = ["create", "read", "update"]
}
path "kv-v2/metadata/ceph/*" {
  capabilities = ["create", "read", "update"]
}

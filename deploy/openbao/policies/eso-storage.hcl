# External Secrets of a storage cluster: reads Ceph's keys. push-ceph-keys.hcl writes them.
path "kv-v2/data/ceph/*" {
  capabilities = ["read"]
}

# External Secrets of the control plane cluster: reads what OpenStack's services need. What it writes is in push-*.hcl.
path "kv-v2/data/bootstrap/*" {
  capabilities = ["read"]
}
path "kv-v2/data/openstack/*" {
  capabilities = ["read"]
}
path "kv-v2/data/infrastructure/*" {
  capabilities = ["read"]
}
path "kv-v2/data/ceph/*" {
  capabilities = ["read"]
}
path "kv-v2/data/brownfield/*" {
  capabilities = ["read"]
}

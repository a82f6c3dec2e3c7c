# What the control plane hands to hypervisor clusters.
path "kv-v2/data/openstack/nova/compute-config" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/metadata/openstack/nova/compute-config" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/data/openstack/ovn/config" {
  capabilities = ["create", "read", "update", "delete"]
}
path "kv-v2/metadata/openstack/ovn/config" {
  capabilities = ["create", "read", "update", "delete"]
}

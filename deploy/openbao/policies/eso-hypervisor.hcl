# External Secrets of a hypervisor cluster: reads what nova-compute and ovn-controller need, and nothing of the control plane.
path "kv-v2/data/ceph/client-nova" {
  capabilities = ["read"]
}
path "kv-v2/data/openstack/nova/compute-*" {
  capabilities = ["read"]
}
path "kv-v2/data/openstack/ovn/config" {
  capabilities = ["read"]
}

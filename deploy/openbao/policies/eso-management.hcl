# External Secrets of the management cluster: reads what bootstraps a cloud, and the kubeconfigs of its clusters.
path "kv-v2/data/bootstrap/*" {
  capabilities = ["read"]
}
path "kv-v2/data/infrastructure/*" {
  capabilities = ["read"]
}

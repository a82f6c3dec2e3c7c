# The pipeline that provisions a cloud: writes every secret, sees which there are, and deletes none.
path "kv-v2/data/*" {
  capabilities = ["create", "read", "update"]
}
path "kv-v2/metadata/*" {
  capabilities = ["read", "list"]
}

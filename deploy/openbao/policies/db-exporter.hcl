# The exporter of MariaDB: short-lived accounts that may only read. A pattern has `*` at its end or not at all, so that
# `creds/*-ro` cannot be written: the accounts are named.
path "database/mariadb/creds/keystone-ro" {
  capabilities = ["read"]
}
path "database/mariadb/creds/glance-ro" {
  capabilities = ["read"]
}
path "database/mariadb/creds/placement-ro" {
  capabilities = ["read"]
}
path "database/mariadb/creds/nova-ro" {
  capabilities = ["read"]
}
path "database/mariadb/creds/neutron-ro" {
  capabilities = ["read"]
}
path "database/mariadb/creds/cinder-ro" {
  capabilities = ["read"]
}

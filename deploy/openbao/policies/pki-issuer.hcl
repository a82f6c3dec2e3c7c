# cert-manager: has certificates made (issue) or signed (sign) by the roles of the PKI engine, and changes no role.
path "pki/issue/+" {
  capabilities = ["create", "update"]
}
path "pki/sign/+" {
  capabilities = ["create", "update"]
}

#!/bin/sh
# Starts a server: as the primary, or as a replica of it.
set -eu
umask 077
me="$POD_NAME.$DOMAIN"
primary=$(sh /conf/primary.sh)
{
  cat /conf/valkey.conf
  printf 'requirepass %s\n' "$(cat /secret/valkey-password)"
  printf 'primaryauth %s\n' "$(cat /secret/valkey-password)"
  printf 'replica-announce-ip %s\n' "$me"
  [ "$primary" = "$me" ] || printf 'replicaof %s 6379\n' "$primary"
} >/tmp/valkey.conf
exec valkey-server /tmp/valkey.conf

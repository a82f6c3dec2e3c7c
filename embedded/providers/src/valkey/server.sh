#!/bin/sh
# Starts a server: as the primary, or as a replica of it.
set -eu
umask 077
password=$(sh /conf/password.sh)
me="$POD_NAME.$DOMAIN"
primary=$(sh /conf/primary.sh)
{
  cat /conf/valkey.conf
  printf 'requirepass %s\n' "$password"
  printf 'primaryauth %s\n' "$password"
  printf 'replica-announce-ip %s\n' "$me"
  [ "$primary" = "$me" ] || printf 'replicaof %s 6379\n' "$primary"
} >/tmp/valkey.conf
exec valkey-server /tmp/valkey.conf

#!/bin/sh
# Starts a sentinel. It keeps what it knows in its own configuration file, which therefore is written only once.
set -eu
umask 077
file=/data/sentinel.conf
if [ ! -s $file ]; then
  primary=$(sh /conf/primary.sh)
  # A sentinel ends at once if the name of what it watches means nothing yet.
  for _ in $(seq 120); do getent hosts "$primary" >/dev/null && break; sleep 0.5; done
  {
    printf 'requirepass %s\n' "$(cat /secret/valkey-password)"
    printf 'sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n'
    printf 'sentinel announce-ip %s\n' "$POD_NAME.$DOMAIN"
    printf 'sentinel monitor myprimary %s 6379 %s\n' "$primary" "$QUORUM"
    printf 'sentinel auth-pass myprimary %s\n' "$(cat /secret/valkey-password)"
    printf 'sentinel sentinel-pass %s\n' "$(cat /secret/valkey-password)"
    cat /conf/sentinel.conf
  } >$file.new
  mv $file.new $file
fi
exec valkey-sentinel $file

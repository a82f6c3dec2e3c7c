#!/bin/sh
# Starts a sentinel. What it has found out it keeps in its own configuration file; all else is written anew at each start.
set -eu
umask 077
password=$(sh /conf/password.sh)
file=/data/sentinel.conf
found='myid|monitor|current-epoch|config-epoch|leader-epoch|known-replica|known-sentinel'
known=$(grep -E "^sentinel ($found) " $file 2>/dev/null) || known=
if [ -z "$known" ]; then
  primary=$(sh /conf/primary.sh)
  # A sentinel ends at once if the name of what it watches means nothing yet.
  for _ in $(seq 120); do getent hosts "$primary" >/dev/null && break; sleep 0.5; done
  known="sentinel monitor myprimary $primary 6379 $QUORUM"
fi
# All sentinels lose their connections to a primary that dies at the same moment. If all called it dead at the same moment, each
# would vote for itself, and none would be elected until they try again. They ask each other once a second, so that the
# differences must not be whole seconds.
ordinal=${POD_NAME##*-}
down_after=$((3000 + ordinal % 3 * 1200))
{
  printf 'requirepass %s\n' "$password"
  printf 'sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n'
  printf 'sentinel announce-ip %s\n' "$POD_NAME.$DOMAIN"
  printf '%s\n' "$known"
  printf 'sentinel auth-pass myprimary %s\n' "$password"
  printf 'sentinel sentinel-pass %s\n' "$password"
  printf 'sentinel down-after-milliseconds myprimary %s\n' "$down_after"
  cat /conf/sentinel.conf
} >$file.new
mv $file.new $file
exec valkey-sentinel $file

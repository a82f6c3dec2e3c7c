#!/bin/sh
# Whether this member's sentinel can replace the primary, were it to go now: sentinels hear of each other and of replicas from
# the primary alone, within seconds of its start. What a sentinel has heard it writes down, and knows at its next start.
set -eu
file=/data/sentinel.conf
# The probe runs before the sentinel has written its file, and a comparison with no number at all would let it pass.
[ -e $file ] || { echo "the sentinel has not started" >&2; exit 1; }
others=$(($(wc -l </conf/peers) - 1))
sentinels=$QUORUM
[ "$sentinels" -le "$others" ] || sentinels=$others
heard() { grep -c "^sentinel known-$1 " $file || true; }
if [ "$(heard sentinel)" -lt "$sentinels" ]; then
  echo "has heard of $(heard sentinel) other sentinels, and needs $sentinels to replace the primary" >&2
  exit 1
fi
if [ "$others" -gt 0 ] && [ "$(heard replica)" -eq 0 ]; then
  echo "has heard of no replica that could be the primary" >&2
  exit 1
fi

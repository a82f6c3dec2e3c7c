#!/bin/sh
# Says which member is the primary: as the sentinels know it, else as this member's own sentinel knew it last, else the
# first.
set -eu
first=$(head -n 1 /conf/peers)
if [ -n "$QUORUM" ]; then
  while read -r peer; do
    known=$(sh /conf/ask.sh 26379 "$peer" 'SENTINEL get-primary-addr-by-name myprimary' 2>/dev/null | head -n 1) || known=
    case $known in *"$DOMAIN") echo "$known"; exit ;; esac
  done </conf/peers
  known=$(sed -n 's/^sentinel monitor myprimary \([^ ]*\) .*/\1/p' /data/sentinel.conf 2>/dev/null) || known=
  case $known in *"$DOMAIN") echo "$known"; exit ;; esac
fi
echo "$first"

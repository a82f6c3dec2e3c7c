#!/bin/sh
# ask.sh PORT HOST COMMAND: what a server answers to a command. The password goes through a pipe and is in no argument.
set -eu
tls=
[ ! -e /tls/ca.crt ] || tls='--tls --cacert /tls/ca.crt'
{ printf 'AUTH %s\n' "$(sh /conf/password.sh)"; printf '%s\n' "$3"; } |
  timeout 3 valkey-cli $tls -h "$2" -p "$1" | tail -n +2

#!/bin/sh
# ask.sh PORT HOST COMMAND: what a server answers to a command. The password goes through a pipe and is in no argument.
set -eu
tls=
[ ! -e /tls/ca.crt ] || tls='--tls --cacert /tls/ca.crt'
{ printf 'AUTH '; cat /secret/valkey-password; printf '\n%s\n' "$3"; } |
  timeout 3 valkey-cli $tls -h "$2" -p "$1" | tail -n +2

#!/bin/sh
# The password as one word of a configuration file or of a command, whatever is in it: each byte is written as \xHH.
set -eu
printf '"%s"' "$(od -An -v -tx1 "${PASSWORD:-/secret/valkey-password}" | tr -d ' \n' | sed 's/../\\x&/g')"

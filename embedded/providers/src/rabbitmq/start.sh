#!/bin/sh
# Starts a broker. Everything that it is told is in its environment and below /conf.
set -eu
# Erlang wants the cookie in a file of the user's own that nobody else can read.
install -m 400 /cookie/.erlang.cookie "$HOME/.erlang.cookie.new"
mv -f "$HOME/.erlang.cookie.new" "$HOME/.erlang.cookie"
# Members that start for the first time agree whom to join by asking each other, so all of them need an address by then.
if [ ! -d "$RABBITMQ_MNESIA_BASE" ]; then
  while read -r peer; do
    for _ in $(seq 120); do getent hosts "$peer" >/dev/null && break; sleep 0.5; done
  done </conf/peers
fi
exec /usr/lib/rabbitmq/bin/rabbitmq-server

#!/bin/bash
# by-hand.sh ARCHIVES WORK: from the archives of our images to a token, with nobody who orchestrates anything.
#
# ARCHIVES holds mariadb.tar, rabbitmq.tar, valkey.tar, memcached.tar and keystone.tar; WORK is an empty folder. The steps are
# those that the cluster and the operators do, in the same order and as much at once: images are imported into a containerd
# of its own, the schema waits for the database, the API and the first administrator for the schema, and nobody for the rest.
# All of it happens in namespaces of its own and ends with this script.
# Prints a line for each step, with its seconds, and fails unless a token is issued in the end.
set -euo pipefail
archives=$1 work=$2
roots=$work/roots
if [ "${3:-}" != inside ]; then
    exec unshare --net --mount --pid --fork --kill-child --mount-proc bash "$0" "$archives" "$work" inside
fi

now() { echo "${EPOCHREALTIME/[.,]/}"; }
# took STEP SINCE
took() {
    local milliseconds=$((($(now) - $2) / 1000))
    printf '%s %d.%03d\n' "$1" $((milliseconds / 1000)) $((milliseconds % 1000))
}

# within IMAGE COMMAND...: runs as the user of our images.
within() { chroot --userspec=42424:42424 "$roots/$1" /usr/bin/env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"; }

# until_ok COMMAND...: waits for it to succeed.
until_ok() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || { echo "by-hand.sh: never true: $*" >&2; exit 1; }
        sleep 0.05
    done
}

ctr() { command ctr --address "$work/containerd.sock" "$@"; }

containerd() {
    local since; since=$(now)
    ip link set lo up
    cat >"$work/containerd.toml" <<CONF
version = 2
root = "$work/root"
state = "$work/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "$work/containerd.sock"
[ttrpc]
  address = "$work/containerd.sock.ttrpc"
CONF
    command containerd --config "$work/containerd.toml" --log-level error >/dev/null 2>&1 &
    until_ok ctr version
    took containerd "$since"
}

# image NAME: imports and unpacks it, and makes a root of it that can be written to.
image() {
    local since root=$roots/$1; since=$(now)
    ctr images import "$archives/$1.tar" >/dev/null
    mkdir -p "$root"
    ctr images mount --rw "$(ctr images ls -q | grep "/$1:" | head -n 1)" "$root" >/dev/null
    mount --bind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    for folder in run tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
    cp /etc/hosts "$root/etc/hosts"
    grep -qw "$HOSTNAME" "$root/etc/hosts" || echo "127.0.0.1 $HOSTNAME" >>"$root/etc/hosts"
    took "$1: image" "$since"
}

# folder PATH: an empty one below the roots that the services may write to.
folder() {
    rm -rf "${roots:?}/$1"
    install -d -o 42424 -g 42424 "$roots/$1"
}

memcached() {
    local since; since=$(now)
    within memcached memcached -l 127.0.0.1 -m 64 >/dev/null 2>&1 &
    until_ok bash -c 'echo version > /dev/tcp/127.0.0.1/11211'
    took memcached "$since"
}

valkey() {
    folder valkey/var/lib/valkey
    local since; since=$(now)
    within valkey valkey-server --bind 127.0.0.1 --dir /var/lib/valkey --appendonly yes >/dev/null 2>&1 &
    until_ok within valkey valkey-cli ping
    took valkey "$since"
}

rabbitmq() {
    folder rabbitmq/var/lib/rabbitmq
    local since; since=$(now)
    within rabbitmq env HOME=/var/lib/rabbitmq RABBITMQ_MNESIA_BASE=/var/lib/rabbitmq/mnesia RABBITMQ_LOGS=- \
        RABBITMQ_NODENAME=rabbit@localhost /usr/lib/rabbitmq/bin/rabbitmq-server >/dev/null 2>&1 &
    until_ok bash -c 'exec 3<>/dev/tcp/127.0.0.1/5672'
    took rabbitmq "$since"
}

mariadb() {
    folder mariadb/var/lib/mysql
    local since; since=$(now)
    within mariadb mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db \
        --datadir=/var/lib/mysql >/dev/null
    took "mariadb: data" "$since"
    since=$(now)
    within mariadb mariadbd --no-defaults --datadir=/var/lib/mysql --bind-address=127.0.0.1 --socket=/run/mysqld.sock \
        --tmpdir=/tmp >/dev/null 2>&1 &
    until_ok within mariadb mariadb -u root -S /run/mysqld.sock -e "SELECT 1"
    within mariadb mariadb -u root -S /run/mysqld.sock -e "CREATE DATABASE keystone CHARACTER SET utf8;
        CREATE USER keystone@127.0.0.1 IDENTIFIED BY 'by-hand'; GRANT ALL ON keystone.* TO keystone@127.0.0.1"
    took "mariadb: server, database and user" "$since"
}

configure() {
    local etc=$roots/keystone/etc/keystone
    folder keystone/etc/keystone/keys
    for repository in fernet credential; do
        install -d -m 700 -o 42424 -g 42424 "$etc/keys/$repository"
        for key in 0 1; do
            head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' >"$etc/keys/$repository/$key"
        done
    done
    chown -R 42424:42424 "$etc/keys"
    chmod -R go= "$etc/keys"
    cat >"$etc/keystone.conf" <<CONF
[DEFAULT]
use_stderr = true
[cache]
backend = dogpile.cache.pymemcache
enabled = true
memcache_servers = 127.0.0.1:11211
[credential]
key_repository = /etc/keystone/keys/credential
[database]
connection = mysql+pymysql://keystone:by-hand@127.0.0.1:3306/keystone?charset=utf8
[fernet_tokens]
key_repository = /etc/keystone/keys/fernet
[fernet_receipts]
key_repository = /etc/keystone/keys/fernet
[oslo_policy]
enforce_new_defaults = true
enforce_scope = true
[token]
provider = fernet
CONF
    echo "from keystone.wsgi.api import application" >"$etc/entry.py"
    cat >"$etc/uwsgi.ini" <<CONF
[uwsgi]
http-socket = 127.0.0.1:5000
wsgi-file = /etc/keystone/entry.py
master = true
processes = 2
threads = 4
enable-threads = true
lazy-apps = true
need-app = true
single-interpreter = true
buffer-size = 65535
disable-logging = true
CONF
}

schema() {
    local since; since=$(now)
    within keystone /opt/keystone/bin/keystone-manage --config-file=/etc/keystone/keystone.conf db_sync >/dev/null 2>&1
    took "keystone: schema" "$since"
}

bootstrap() {
    local since; since=$(now)
    within keystone env OS_BOOTSTRAP_PASSWORD=by-hand /opt/keystone/bin/keystone-manage \
        --config-file=/etc/keystone/keystone.conf bootstrap --bootstrap-region-id RegionOne \
        --bootstrap-public-url http://127.0.0.1:5000/v3 >/dev/null 2>&1
    took "keystone: administrator" "$since"
}

api() {
    local since; since=$(now)
    within keystone env OS_KEYSTONE_CONFIG_DIR=/etc/keystone /opt/keystone/bin/uwsgi --ini /etc/keystone/uwsgi.ini \
        >/dev/null 2>&1 &
    until_ok curl -sf http://127.0.0.1:5000/v3
    took "keystone: first answer" "$since"
}

token() {
    curl -sfi http://127.0.0.1:5000/v3/auth/tokens -H 'Content-Type: application/json' -d '{"auth": {
        "identity": {"methods": ["password"], "password": {"user":
            {"name": "admin", "domain": {"id": "default"}, "password": "by-hand"}}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}}' | grep -qi '^x-subject-token:'
}

begun=$(now)
containerd
# The base goes with the first one; then two at a time, as a machine with two processors likes it.
image mariadb
waited=()
mariadb & database=$!
{ image memcached; memcached; image rabbitmq; rabbitmq; image valkey; valkey; } & waited+=($!)
image keystone
configure
wait "$database"
schema
bootstrap & waited+=($!)
api
for one in "${waited[@]}"; do wait "$one"; done
took "all of it" "$begun"
token

# Whether clients may use this server. A donor serves on while it copies: without it, bringing one member back would take
# another away. With a number of seconds, it is waited for that long: probes come by the second.
set -eu
. /etc/mariadb/conf/cluster.env
# A server that comes up may take a client and never answer it; the next one it answers.
ask() { timeout 3 mariadb --no-defaults -u openstack -S /run/mysqld/mysqld.sock -Nse "$1"; }
is_ready() {
  if [ "$GALERA" != 1 ]; then
    ask "SELECT 1" > /dev/null
    return
  fi
  said=$(ask "SHOW STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state_comment')" \
    | awk '{ print $2 }' | sort | paste -sd ' ' -)
  case $said in "ON Primary Synced" | "Donor/Desynced ON Primary") return 0 ;; esac
  echo "$said" >&2
  return 1
}
end=$(($(date +%s) + ${1:-0}))
while ! said=$(is_ready 2>&1); do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "$said" >&2
    exit 1
  fi
  sleep 0.1
done

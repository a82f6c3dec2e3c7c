# Whether clients may use this server. A donor serves on while it copies: without it, bringing one member back would take
# another away.
set -eu
. /etc/mariadb/conf/cluster.env
ask() { mariadb --no-defaults -u openstack -S /run/mysqld/mysqld.sock -Nse "$1"; }
if [ "$GALERA" = 1 ]; then
  said=$(ask "SHOW STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state_comment')" \
    | awk '{ print $2 }' | sort | paste -sd ' ' -)
  case $said in "ON Primary Synced" | "Donor/Desynced ON Primary") exit 0 ;; esac
  echo "$said" >&2
  exit 1
fi
ask "SELECT 1" > /dev/null

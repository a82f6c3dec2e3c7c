# Starts one MariaDB server: makes its data directory when there is none, and finds out how its cluster is to be joined.
#
# Every member of a Galera cluster says on a port of its own what it has and what it does, in one line:
#
#   ORDINAL PHASE UUID SEQNO SAFE DATA
#
# PHASE is waiting (no server runs here), bootstrapping, joining, primary, or lost (it runs, and has lost the others).
# That port answers and takes nothing, so nobody can tell a member what to do. A member that starts reads what the others
# say and decides: all members decide by the same rule, on the same lines. A cluster is only made anew when every one of
# its members is there and waits; a member that is lost for good is replaced by an empty one, which counts too. A server
# that is up and can never be part of the cluster again is ended, so that its member waits with the others.
set -eu

DATA=/var/lib/mysql
RUN=/run/mysqld
CONF=/etc/mariadb/conf
STATE=$RUN/state
MAKING=$DATA/.being-made
# There while mariabackup copies from another member: what was there before is gone, and what comes is not complete.
COPYING=$DATA/sst_in_progress
NOWHERE=00000000-0000-0000-0000-000000000000

say() { echo "entry: $*" >&2; }

# Says what this member has and does from now on.
publish() {
  echo "$ORDINAL $1 $UUID $SEQNO $SAFE $HAS_DATA" > "$STATE.new"
  mv "$STATE.new" "$STATE"
}

# What to do, from the lines of all members that answer, and the number of members there should be.
#   join ORDINALS | wait WHY | bootstrap ORDINAL | person WHY
# Who joins copies from those that it saw in the primary component, and from nobody else. One that joins at the same time
# may learn of the newcomer by its own copy; Galera 4.23 does not count it in then, and as donor sends less than asked for.
decide() {
  awk -v members="$1" -v nowhere="$NOWHERE" '
    NF < 6 { next }
    $1 + 0 < members { answered++ }
    $2 == "primary" { up = up " " $1 }
    $2 == "lost" { lost = lost " " $1 }
    $2 != "waiting" { busy = busy " " $1 }
    $3 != nowhere {
      known++
      if (uuid != "" && uuid != $3) differs = differs " " $1 ":" $3
      if (uuid == "") { uuid = $3; first = $1 ":" $3 }
      better = best == "" || $4 + 0 > seqno || ($4 + 0 == seqno && $5 > safe)
      better = better || ($4 + 0 == seqno && $5 == safe && $1 + 0 < best)
      if (better) { best = $1 + 0; seqno = $4 + 0; safe = $5 }
    }
    $3 == nowhere && $6 == 1 { with_data = with_data " " $1; only = $1; filled++ }
    END {
      if (up != "") print "join" up
      else if (lost != "") print "wait for member" lost ", which looks for the others"
      else if (busy != "") print "wait for member" busy ", which starts"
      else if (answered < members) print "wait until all " members " members answer; " answered + 0 " do"
      else if (differs != "") print "person members are of different clusters: " first differs
      else if (known) print "bootstrap " best
      else if (filled > 1) print "person several members have data without a position:" with_data
      else if (filled) print "bootstrap " only
      else print "bootstrap 0"
    }'
}

sql_text() { sed -e 's/\\/\\\\/g' -e "s/'/''/g"; }

# Accounts of a new server: root from everywhere, instead of those without a password; and who this container is, for
# probes and transfers, by the socket alone.
accounts() {
  password=$(sql_text < /etc/mariadb/root/password)
  cat <<SQL
DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost');
FLUSH PRIVILEGES;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
CREATE USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;
CREATE USER 'openstack'@'localhost' IDENTIFIED VIA unix_socket;
GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, REPLICA MONITOR, CONNECTION ADMIN ON *.* TO 'openstack'@'localhost';
SQL
}

# Makes the data directory. One that was begun and not finished holds nothing of anybody, and is made anew.
make_data() {
  say "making a new data directory"
  if [ -e "$MAKING" ]; then find "$DATA" -mindepth 1 ! -path "$MAKING" -delete; fi
  touch "$MAKING"
  # A pipe is refused, and a server started for this alone takes a second.
  (umask 077 && accounts > "$RUN/accounts.sql")
  mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --datadir="$DATA" \
    --extra-file="$RUN/accounts.sql" > /dev/null
  rm "$RUN/accounts.sql" "$MAKING"
}

has_data() { [ -d "$DATA/mysql" ] && [ ! -e "$MAKING" ]; }

# Where this member's data stands: UUID, SEQNO, SAFE, HAS_DATA. After a clean stop it says so itself; after a crash the
# server is asked. Data that was being copied when this member was killed has no position. Neither that nor data whose
# position the server does not know is anything to start a cluster from (UNREADABLE): it is replaced by a copy when others
# are up, and is never removed before.
find_position() {
  UUID=$NOWHERE SEQNO=-1 SAFE=0 HAS_DATA=0 UNREADABLE=0
  if [ -e "$MAKING" ]; then return; fi
  if [ -e "$COPYING" ]; then say "has a part of a copy"; HAS_DATA=1 UNREADABLE=1; return; fi
  if has_data; then HAS_DATA=1; fi
  if [ -f "$DATA/grastate.dat" ]; then
    UUID=$(sed -n 's/^uuid: *//p' "$DATA/grastate.dat")
    SEQNO=$(sed -n 's/^seqno: *//p' "$DATA/grastate.dat")
    SAFE=$(sed -n 's/^safe_to_bootstrap: *//p' "$DATA/grastate.dat")
  fi
  if [ "$HAS_DATA" = 1 ] && [ "$SEQNO" -lt 0 ]; then
    # The server wants an address, and connects to none.
    log=$(mariadbd --defaults-file="$CONF/server.cnf" --wsrep-recover --wsrep-cluster-address=gcomm:// \
      --skip-networking 2>&1) || true
    position=$(printf '%s\n' "$log" | sed -n 's/.*WSREP: Recovered position: *\([^, ]*\).*/\1/p' | tail -n 1)
    if [ -z "$position" ]; then
      printf '%s\n' "$log" >&2
      say "the position in the data is not known"
      UUID=$NOWHERE SEQNO=-1 SAFE=0 UNREADABLE=1
      return
    fi
    UUID=${position%:*} SEQNO=${position##*:}
  fi
  say "has position $UUID:$SEQNO"
}

# The members' addresses, as far as there are any.
addresses() {
  n=0
  while [ "$n" -lt "$MEMBERS" ]; do
    getent ahostsv4 "$NAME-$n.$SERVICE" | awk 'NR == 1 { print $1 }'
    n=$((n + 1))
  done
  # Those beyond the number, which go while the cluster shrinks, are asked too.
  getent ahostsv4 "$SERVICE" | awk '{ print $1 }'
}

# What all members that answer say, this one among them.
ask_all() {
  cat "$STATE"
  addresses | sort -u | while read -r address; do
    [ "$address" = "$POD_IP" ] || socat -u -T 2 "TCP4:$address:$STATE_PORT,connect-timeout=2" - 2> /dev/null || true
  done
}

# Waits until it is known how to start, and sets HOW, and DONORS when others are joined.
find_way() {
  told=
  while :; do
    . "$CONF/cluster.env"
    lines=$(ask_all)
    verdict=$(echo "$lines" | decide "$MEMBERS")
    case $verdict in
      join*) HOW=join DONORS=${verdict#join }; return ;;
      "bootstrap $ORDINAL")
        if [ "$UNREADABLE" = 0 ]; then HOW=bootstrap; return; fi
        verdict="person the position in the data of this member, which would start the cluster, is not known" ;;
      bootstrap*) verdict="wait for member ${verdict#bootstrap }, which is ahead" ;;
    esac
    if [ "$verdict" != "$told" ]; then say "$verdict"; told=$verdict; fi
    sleep 0.5
  done
}

# Whether a server that is not in the primary component never will be, from the lines of all members that answer, the
# number of members there should be, and its phase. One that joins needs somebody to join; one that has lost the others
# finds them again by itself, unless all of them were started anew.
is_stuck() {
  awk -v members="$1" -v phase="$2" '
    NF < 6 { next }
    $1 + 0 < members { answered++ }
    $2 == "primary" || $2 == "bootstrapping" { up = 1 }
    END { exit up || (phase == "lost" && answered < members) }'
}

# What a server says of itself; nothing while it does not answer.
ask_server() {
  timeout 10 mariadb --no-defaults -u openstack -S "$RUN/mysqld.sock" -Nse \
    "SHOW STATUS WHERE Variable_name IN ('wsrep_gcomm_uuid', 'wsrep_provider_name')" 2> /dev/null || true
}

# Whether a server has left its group for good, from what it says: it is up, and nobody in the group. Galera does that to
# a server that got less than it needs, or that differs from the others, and counts on somebody to start it anew.
has_left() {
  awk '{ said[$1] = $2 } END { exit !said["wsrep_provider_name"] || said["wsrep_gcomm_uuid"] }'
}

# Ends a server that will never be in the cluster again: it would wait for ever, and others for it. What joins or has left
# has nothing to lose.
watch_member() {
  misses=0
  while kill -0 "$1" 2> /dev/null; do
    read -r _ phase _ < "$STATE"
    signal=KILL pause=1 is_out=0
    if ask_server | has_left; then
      is_out=1
    else
      case $phase in
        joining) ;;
        lost) signal=TERM ;;
        *) pause=5 ;;
      esac
      if [ "$pause" = 1 ] && ask_all | is_stuck "$MEMBERS" "$phase"; then is_out=1; fi
    fi
    misses=$(((misses + 1) * is_out))
    if [ "$misses" -ge 5 ]; then touch "$RUN/stuck"; kill -"$signal" "$1"; return; fi
    sleep "$pause"
  done
}

# Runs a server until it ends, and passes on what it ends with; returns if it was stuck.
run_galera() {
  rm -f "$RUN/stuck"
  mariadbd "$@" &
  server=$!
  trap 'kill -TERM "$server" 2> /dev/null || :' TERM INT
  watch_member "$server" &
  # A signal ends the wait, not the server.
  while kill -0 "$server" 2> /dev/null; do
    code=0
    wait "$server" || code=$?
  done
  [ -e "$RUN/stuck" ] || exit "$code"
  # From now on nobody is there to pass a signal on to.
  trap - TERM INT
  say "was not in the cluster any more"
}

start_galera() {
  ORDINAL=${POD_NAME##*-}
  find_position
  publish waiting
  socat -U "TCP4-LISTEN:$STATE_PORT,fork,reuseaddr" "OPEN:$STATE,rdonly" &
  # Read by the bash scripts of state transfer.
  export BASH_ENV="$CONF/transfer.sh"
  while :; do
    find_way
    start_member
    find_position
    publish waiting
  done
}

start_member() {
  peers=$(addresses | sort -u | paste -sd, -)
  set -- --defaults-file="$CONF/server.cnf" --wsrep-node-name="$POD_NAME" --wsrep-node-address="$POD_IP" \
    --wsrep-cluster-address="gcomm://$peers" --wsrep-notify-cmd="sh $CONF/notify.sh"
  if [ "$HOW" = bootstrap ]; then
    publish bootstrapping
    has_data || make_data
    if [ -f "$DATA/grastate.dat" ]; then
      sed -i 's/^safe_to_bootstrap: 0/safe_to_bootstrap: 1/' "$DATA/grastate.dat"
    fi
    set -- "$@" --wsrep-new-cluster
  else
    publish joining
    set -- "$@" --wsrep-sst-donor="$(echo "$DONORS" | sed "s/[0-9][0-9]*/$NAME-&/g; s/ /,/g")"
  fi
  if [ "$UUID" != "$NOWHERE" ]; then set -- "$@" --wsrep-start-position="$UUID:$SEQNO"; fi
  say "starts: $HOW"
  run_galera "$@"
}

start_single() {
  has_data || make_data
  exec mariadbd --defaults-file="$CONF/server.cnf"
}

main() {
  mkdir -p "$RUN"
  . "$CONF/cluster.env"
  if [ "$GALERA" = 1 ]; then start_galera; else start_single; fi
}

# The rules alone, for tests.
case ${1:-} in
  decide) decide "$2" ;;
  position)
    DATA=$2 MAKING=$2/.being-made COPYING=$2/sst_in_progress
    find_position
    echo "$UUID $SEQNO $SAFE $HAS_DATA $UNREADABLE"
    ;;
  is_stuck) if is_stuck "$2" "$3"; then echo stuck; fi ;;
  has_left) if has_left; then echo left; fi ;;
  *) main ;;
esac

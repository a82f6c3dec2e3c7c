# Writes the databases of a server into one file of SQL on a volume, and removes files that are too old.
#
#   HOST PORT     the server; TLS are options of the connection
#   DATABASES     which databases, one on each line; all but the server's own when empty
#   ACCOUNTS      1: accounts and their rights as well
#   COMPRESSION   none or gzip
#   MINUTES       how old a file gets
#   VERBOSE       --verbose: each table is told
#
# A file has its name only once it is complete and on the disk. Times are UTC.
set -eu

FOLDER=${FOLDER:-/backup}
DONE=${DONE:-/tmp/done}
MYSQL_PWD=$(cat "${PASSWORD:-/etc/mariadb/root/password}")
export MYSQL_PWD

say() { echo "backup: $*" >&2; }

# Runs a program of MariaDB on the server. The password comes by the environment: arguments are seen by others.
call() {
  program=$1
  shift
  # shellcheck disable=SC2086 # options are several words
  "$program" --no-defaults --protocol=tcp --host="$HOST" --port="$PORT" --user=root $TLS "$@"
}

ask() { call mariadb --batch --skip-column-names --raw --execute "$1" < /dev/null; }

databases() {
  if [ -n "$DATABASES" ]; then printf '%s\n' "$DATABASES"; return; fi
  ask "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN
       ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY schema_name"
}

# Accounts as SQL that makes them as they are, whatever was there before. Those that belong to a server stay out: root has
# the password of the server that this is loaded into, and its container's account is made with the server.
accounts() {
  # Where one database alone is loaded, restore.sh ends at this line.
  printf '\n-- c5c3: accounts\nUSE mysql;\n'
  roles=$(ask "SELECT QUOTE(User) FROM mysql.user WHERE is_role = 'Y' ORDER BY User")
  users=$(ask "SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.user WHERE is_role = 'N'
       AND User NOT IN ('', 'root', 'mariadb.sys') AND NOT (User = 'openstack' AND Host = 'localhost') ORDER BY User, Host")
  printf '%s\n' "$roles" | while IFS= read -r role; do
    [ -z "$role" ] || printf 'CREATE ROLE IF NOT EXISTS %s;\n' "$role"
  done
  printf '%s\n' "$users" | while IFS= read -r user; do
    [ -n "$user" ] || continue
    made=$(ask "SHOW CREATE USER $user")
    printf '%s\n' "$made" | sed -e '1s/^CREATE USER/CREATE OR REPLACE USER/' -e 's/$/;/'
  done
  printf '%s\n%s\n' "$roles" "$users" | while IFS= read -r who; do
    [ -n "$who" ] || continue
    rights=$(ask "SHOW GRANTS FOR $who")
    printf '%s\n' "$rights" | sed 's/$/;/'
  done
}

dump() {
  found=$(databases)
  set -f
  IFS='
'
  # shellcheck disable=SC2086 # a name on each line
  set -- $found
  unset IFS
  set +f
  if [ $# -eq 0 ]; then
    say "the server has no databases"
  else
    say "$# databases"
    # Of the tables of InnoDB all are of the same moment, and nothing is locked.
    call mariadb-dump --single-transaction --quick --routines --events --triggers --hex-blob --skip-add-locks \
      --default-character-set=utf8mb4 ${VERBOSE:+"$VERBOSE"} --databases "$@"
  fi
  [ "$ACCOUNTS" != 1 ] || accounts
}

time=$(date -u +%Y-%m-%dT%H:%M:%SZ)
case $COMPRESSION in
  gzip) name=backup.$time.gzip.sql pack='gzip -c' ;;
  *) name=backup.$time.sql pack=cat ;;
esac
part=$FOLDER/.$name.part

# What a container left behind that was killed.
find "$FOLDER" -maxdepth 1 -name '.backup.*.part' -type f -mmin +1440 -delete
say "writing $name"
rm -f "$DONE"
# What fails in front of a pipe is not seen behind it.
{ dump; : > "$DONE"; } | $pack > "$part"
if [ ! -e "$DONE" ]; then
  rm -f "$part"
  say "the databases could not be read"
  exit 1
fi
sync "$part"
mv "$part" "$FOLDER/$name"
sync "$FOLDER"
say "wrote $name, $(wc -c < "$FOLDER/$name") bytes"
find "$FOLDER" -maxdepth 1 -name 'backup.*.sql' ! -name "$name" -type f -mmin "+$MINUTES" -print -delete | sed 's/^/backup: too old: /' >&2

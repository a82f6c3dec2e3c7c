# Loads a file of SQL from a volume into a server.
#
#   HOST PORT     the server; TLS are options of the connection
#   DATABASE      the one database that is loaded; all of the file when empty
#   TARGET        the file whose time is closest to this one is taken, in seconds since 1970; the latest when empty
set -eu

FOLDER=${FOLDER:-/backup}
MYSQL_PWD=$(cat "${PASSWORD:-/etc/mariadb/root/password}")
export MYSQL_PWD

say() { echo "restore: $*" >&2; }

call() {
  program=$1
  shift
  # shellcheck disable=SC2086 # options are several words
  "$program" --no-defaults --protocol=tcp --host="$HOST" --port="$PORT" --user=root $TLS "$@"
}

# The file that is loaded: by the times that are in their names.
choose() {
  for file in "$FOLDER"/backup.*.sql; do
    time=${file##*/backup.}
    seconds=$(date -u -d "${time%%.*}" +%s 2> /dev/null) || continue
    echo "$seconds $file"
  done | awk -v target="$TARGET" '
    { far = target == "" ? -$1 : ($1 > target ? $1 - target : target - $1) }
    NR == 1 || far < least { least = far; file = substr($0, length($1) + 2) }
    END { print file }'
}

file=$(choose)
if [ -z "$file" ]; then
  say "there is no file backup.TIME.sql in the volume"
  exit 1
fi
case $file in
  *.gzip.sql) unpack='gzip -dc' ;;
  *.bzip2.sql) say "${file##*/} is compressed by bzip2, which this image does not have"; exit 1 ;;
  *) unpack=cat ;;
esac
# A damaged file is found before anything is changed.
if [ "$unpack" != cat ] && ! gzip -t "$file"; then
  say "${file##*/} is damaged"
  exit 1
fi
say "loading ${file##*/} ${DATABASE:+of which $DATABASE alone}"
if [ -n "$DATABASE" ]; then
  # Accounts are of no database, and of those the client would still carry out a part.
  $unpack "$file" | sed '/^-- c5c3: accounts$/,$d' |
    call mariadb --default-character-set=utf8mb4 --one-database "$DATABASE"
else
  $unpack "$file" | call mariadb --default-character-set=utf8mb4
fi
# A file that another program made may hold the tables of accounts themselves.
call mariadb --execute 'FLUSH PRIVILEGES' < /dev/null
say "done"

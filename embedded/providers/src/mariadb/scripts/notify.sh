# Called by the server when its membership changes: says on the member's port whether it is in the primary component.
set -eu
STATE=${STATE:-/run/mysqld/state}
primary= index=
while [ $# -gt 0 ]; do
  case $1 in
    --primary) primary=$2 ;;
    --index) index=$2 ;;
  esac
  shift
done
[ -n "$primary" ] || exit 0
# Who copies what it lacks is told of the components of that time, too, which it was no part of.
case $primary$index in yes-*) exit 0 ;; esac
read -r ordinal phase rest < "$STATE"
case $primary-$phase in
  yes-*) phase=primary ;;
  # Who was never part of the primary component has lost nothing, and cannot be joined.
  no-primary) phase=lost ;;
esac
echo "$ordinal $phase $rest" > "$STATE.new"
mv "$STATE.new" "$STATE"

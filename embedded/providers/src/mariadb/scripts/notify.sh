# Called by the server when its membership changes: says on the member's port whether it is in the primary component.
set -eu
STATE=/run/mysqld/state
primary=
while [ $# -gt 0 ]; do
  case $1 in --primary) primary=$2 ;; esac
  shift
done
[ -n "$primary" ] || exit 0
read -r ordinal phase rest < "$STATE"
case $primary-$phase in
  yes-*) phase=primary ;;
  # Who was never part of the primary component has lost nothing, and cannot be joined.
  no-primary) phase=lost ;;
esac
echo "$ordinal $phase $rest" > "$STATE.new"
mv "$STATE.new" "$STATE"

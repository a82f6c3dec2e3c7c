# Before it sends, wsrep_sst_mariabackup sleeps ten seconds, so that the receiver surely listens by then. Here it connects
# again and again until that is so (sockopt in server.cnf), and one second will do.
sleep() {
  if [ "$1" = 10 ]; then command sleep 1; else command sleep "$@"; fi
}

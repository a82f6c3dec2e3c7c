"""Waits a little for a server to answer, and says what is wrong if it does not: ask.py HOST PORT."""

import socket
import sys
import time

host, port = sys.argv[1], int(sys.argv[2])
deadline = time.monotonic() + 10
while True:
    try:
        socket.create_connection((host, port), timeout=5).close()
        break
    except OSError as error:
        if time.monotonic() > deadline:
            sys.stderr.write(f"cannot reach {host}:{port}: {error.strerror or error}\n")
            sys.exit(69)
    time.sleep(1)

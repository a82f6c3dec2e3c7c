"""Waits until nobody connects any more, before a pod that is to go is told to end.

A pod leaves its Service when it is deleted, and it takes everybody a while to hear of that, a long one on a busy machine.
Who has not heard goes on connecting, and who has connected waits for a turn. Neither may find the door closed, so this watches
the connections to the ports that it is given, and ends when there has been none for a while, or when the time is up.
"""

import sys
import time

LEAST, QUIET, MOST = 5, 3, 35
LISTENING, TIME_WAIT = "0A", "06"


def connections(ports):
    """Every connection to a port of this pod, with its state; also those that nobody has accepted yet."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            local, remote, state = line.split()[1:4]
            if state != LISTENING and int(local.rpartition(":")[2], 16) in ports:
                found[(local, remote)] = state
    return found


def drain(ports, now=time.monotonic, look=connections, pause=time.sleep):
    begun = last = now()
    known = look(ports)
    while now() - begun < MOST:
        present = look(ports)
        # One that came and went between two looks has left its end behind.
        if any(state != TIME_WAIT or one not in known for one, state in present.items()):
            last = now()
        known.update(present)
        if now() - begun >= LEAST and now() - last >= QUIET:
            return
        pause(0.1)


if __name__ == "__main__":
    drain({int(port) for port in sys.argv[1:]})

"""Starts a program of Neutron: launch.py PROGRAM ARGUMENTS. The API, which uWSGI starts, calls `resolve_names` alone.

OVN's client in Python finds the addresses of names by libunbound, which is not in the image, and knows no name without it. The
system's resolver takes its place. It is asked at each connection, so that a Service with another address is found again.
"""

import array
import fcntl
import importlib.metadata
import os
import random
import socket
import struct
import sys
import threading

from ovs import dns_resolve

SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17


def address(name):
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    # A client that needs the leader tries others until it has found it.
    return random.choice(found)[4][0]


def resolve_names():
    dns_resolve.resolve = address


def fill_in_checksums(namespace):
    """Has the kernel finish the checksums of what leaves a namespace. Open vSwitch in userspace passes packets on as they are,
    and instances would drop them. Neutron has iptables do it, which neither the image nor every kernel has."""
    with open(f"/run/netns/{namespace}") as there:
        # It is the namespace of this thread alone, which ends.
        os.setns(there.fileno(), os.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        for _, device in socket.if_nameindex():
            off = array.array("I", [ETHTOOL_STXCSUM, 0])
            if device != "lo":
                fcntl.ioctl(asks, SIOCETHTOOL, struct.pack("16sP", device.encode(), off.buffer_info()[0]))


def in_thread(_, namespace):
    thread = threading.Thread(target=fill_in_checksums, args=(namespace,))
    thread.start()
    thread.join()


# Here, for processes that the program starts anew import this file and do not run it.
resolve_names()
if __name__ == "__main__":
    program = sys.argv.pop(1)
    sys.argv[0] = program
    (script,) = importlib.metadata.entry_points(group="console_scripts", name=program)
    main = script.load()
    if program == "neutron-ovn-metadata-agent":
        from neutron.agent.ovn.metadata import agent

        agent.MetadataAgent._ensure_datapath_checksum = in_thread
    sys.exit(main())

"""Starts nova-compute on a node: compute.py start ARGUMENTS. Says whether it hears others: compute.py ready SECONDS, or compute.py
alive SECONDS, for which the time since its start counts, too.

What differs from node to node is in the environment, by which oslo.config has it override files. Programs that need privileges
are run as they are: there is no sudo in the image, and the container has the capabilities.
"""

import configparser
import os
import pathlib
import sys
import time

LIBVIRT = pathlib.Path("/run/libvirt")
SWITCH = pathlib.Path("/run/openvswitch/db.sock")
INSTANCES = pathlib.Path("/var/lib/nova/instances")
# How long guests of before wait for the switch of a node that boots. A hypervisor may have none.
SWITCH_SECONDS = 120
# When nova-compute was started, and when it last heard an answer: the times of these files.
STARTED = pathlib.Path("/run/nova-compute-started")
HEARD = pathlib.Path("/run/nova-compute-heard")
# How often it listens for itself, and how long it waits for the answer.
LISTEN_SECONDS = 30


def check(files, seconds):
    times = [file.stat().st_mtime for file in files if file.exists()]
    if not times:
        sys.exit("nova-compute has not heard nova-conductor and itself yet")
    age = time.time() - max(times)
    if age > seconds:
        sys.exit(f"nova-compute has not heard nova-conductor and itself for {age:.0f} s")


def say(text):
    print(f"nova-compute: {text}", flush=True)


def wait_for_libvirt():
    """Without libvirt nova-compute would disable itself in Nova, or end; and the type of guests is not known yet."""
    files = [LIBVIRT / "libvirt-sock", LIBVIRT / "c5c3" / "virt-type"]
    begun = said = time.monotonic()
    while missing := [file for file in files if not file.exists()]:
        if time.monotonic() - said >= 10:
            said = time.monotonic()
            say(f"waits for the node's libvirt pod since {said - begun:.0f} s: there is no {missing[0]}")
        time.sleep(1)
    return files[1].read_text().strip()


def wait_for_switch():
    """Nova starts the guests of a node that has booted, and puts those into ERROR whose ports it cannot plug."""
    begun = time.monotonic()
    while any(INSTANCES.glob("????????-????-????-????-????????????")) and not SWITCH.exists():
        if time.monotonic() - begun > SWITCH_SECONDS:
            say(f"goes on without the node's switch: there is no {SWITCH}")
            return
        time.sleep(1)


def environment(virt_type, conf):
    """What is different on each node."""
    node, address = os.environ["NODE_NAME"], os.environ["NODE_IP"]
    env = {
        ("DEFAULT", "host"): node,
        ("DEFAULT", "my_ip"): address,
        ("libvirt", "virt_type"): virt_type,
        ("libvirt", "live_migration_inbound_addr"): address,
        ("vnc", "server_listen"): address,
        ("vnc", "server_proxyclient_address"): address,
    }
    if virt_type == "qemu" and not conf.has_option("libvirt", "cpu_mode"):
        # The model of the host's CPU is of no use to a CPU in software.
        env["libvirt", "cpu_mode"] = "none"
    return {f"OS_{section.upper()}__{option.upper()}": value for (section, option), value in env.items()}


def configuration(arguments):
    conf = configparser.ConfigParser(strict=False, interpolation=None)
    conf.read([argument.partition("=")[2] for argument in arguments if argument.startswith("--config-file=")])
    return conf


def run_without_sudo():
    from nova import utils

    utils.get_root_helper = lambda: "env"


def listen():
    """Notes when nova-compute hears: nova-conductor's answer to its report, and its own answer to a call of its own. A queue of
    answers that has expired makes it deaf, while its connections look well."""
    import oslo_messaging
    from nova import context, rpc
    from nova.servicegroup.drivers.db import DbDriver

    report = DbDriver._report_state
    heard = [-LISTEN_SECONDS]

    def report_and_listen(self, service):
        report(self, service)
        if getattr(service, "model_disconnected", False) or time.monotonic() - heard[0] < LISTEN_SECONDS:
            return
        target = oslo_messaging.Target(topic=service.topic, server=service.host, namespace="baseapi", version="1.0")
        try:
            client = rpc.get_client(target).prepare(timeout=LISTEN_SECONDS)
            client.call(context.get_admin_context(), "ping", arg="")
        except oslo_messaging.MessagingException as error:
            say(f"does not hear its own call: {error}")
            return
        heard[0] = time.monotonic()
        HEARD.touch()

    DbDriver._report_state = report_and_listen


def keep_bridges():
    """os-vif would set the datapath of a bridge that exists to that of a port's details, or to the kernel's."""
    from vif_plug_ovs.ovsdb.ovsdb_lib import BaseOVS

    ensure = BaseOVS.ensure_ovs_bridge

    def ensure_if_missing(self, bridge, datapath_type):
        if not self.ovsdb.br_exists(bridge).execute():
            ensure(self, bridge, datapath_type)

    BaseOVS.ensure_ovs_bridge = ensure_if_missing


def read_consoles():
    """The terminal of a guest is in libvirt's container. What it prints is in a file beside its disk, too, and that is here."""
    from nova.virt.libvirt.driver import LibvirtDriver

    def get_console_output(self, context, instance):
        # Raises what Nova expects of a guest that is not there.
        self._host.get_guest(instance)
        return self._get_console_output_file(instance, self._get_console_log_path(instance))

    LibvirtDriver.get_console_output = get_console_output


def start(arguments):
    STARTED.touch()
    HEARD.unlink(missing_ok=True)
    os.environ.update(environment(wait_for_libvirt(), configuration(arguments)))
    for folder in (INSTANCES, "/var/lib/nova/lock"):
        os.makedirs(folder, exist_ok=True)
    wait_for_switch()
    # First, for it patches the standard library.
    from nova.cmd.compute import main as compute

    run_without_sudo()
    keep_bridges()
    read_consoles()
    listen()
    sys.argv = ["nova-compute", *arguments]
    compute()


if __name__ == "__main__":
    match sys.argv[1]:
        case "start":
            start(sys.argv[2:])
        case "ready":
            check([HEARD], float(sys.argv[2]))
        case "alive":
            check([STARTED, HEARD], float(sys.argv[2]))

"""Starts libvirtd on a node such that guests outlive this pod: libvirt.py SETTINGS.

A container runtime kills what is in the cgroup of a container that ends. So libvirtd, and with it every QEMU that it starts, runs in
a cgroup of its own beside those of pods. libvirtd itself ends with its parent. A new one finds the guests by what is in /run/libvirt.

What is found out about the node is in /run/libvirt/c5c3, for nova-compute.
"""

import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

NODE, ADDRESS, POD = (os.environ[name] for name in ("NODE_NAME", "NODE_IP", "POD_UID"))
CGROUPS = pathlib.Path("/sys/fs/cgroup")
GUESTS = "c5c3-guests"
FACTS = pathlib.Path("/run/libvirt/c5c3")
PIDFILE = "/run/libvirt/libvirtd.pid"
INSTANCES = "/var/lib/nova/instances"
# How long a guest's kernel may take to say that it runs. With KVM it takes about one second.
PROBE_SECONDS = 15
# How large the log of a console may become, twice: this one and the one before it. virtlogd has the same numbers.
CONSOLE_BYTES = 2 << 20
PR_SET_PDEATHSIG = 1


def say(text):
    print(f"libvirt: {text}", flush=True)


def probe():
    """Whether KVM runs a guest. That /dev/kvm exists, or even that firmware runs, proves nothing."""
    if not os.path.exists("/dev/kvm"):
        return "qemu", "the node has no /dev/kvm"
    command = "qemu-system-x86_64 -accel kvm -cpu host -m 128 -nodefaults -display none -serial stdio -no-reboot"
    guest = ["-kernel", "/guest/vmlinuz", "-initrd", "/guest/initramfs.gz", "-append", "console=ttyS0 quiet panic=-1"]
    qemu = subprocess.Popen(
        [*command.split(), *guest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    signal.signal(signal.SIGALRM, lambda *_: qemu.kill())
    signal.alarm(PROBE_SECONDS)
    last = "it said nothing"
    try:
        for line in qemu.stdout:
            last = line.decode(errors="replace").strip() or last
            if "GUEST-UP" in last:
                return "kvm", "a guest has booted with KVM"
        return "qemu", f"a guest does not boot with KVM in {PROBE_SECONDS} s: {last[:200]}"
    finally:
        signal.alarm(0)
        qemu.kill()
        qemu.wait()


def virt_type(wanted):
    """What guests run with. The answer stays the same until the node boots: /run is empty then."""
    file = FACTS / "virt-type"
    if wanted != "auto":
        found, why = wanted, "the spec says so"
    elif file.exists():
        found, why = file.read_text(), "it was found when the node had booted"
    else:
        found, why = probe()
    say(f"virt_type is {found}: {why}")
    write(file, found)


def write(path, text, mode=0o644):
    """Writes a file at once: a reader sees the old one or the new one."""
    new = path.with_name(f".{path.name}")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT, mode), "w") as file:
        file.write(text)
    new.rename(path)


def configure(settings):
    """Fills /etc/libvirt: configuration, and the keys of Ceph users, which libvirtd reads from files of these names."""
    conf = pathlib.Path(sys.argv[1]).parent
    etc = pathlib.Path("/etc/libvirt")
    shutil.copy(conf / "qemu.conf", etc / "qemu.conf")
    # Two hosts with one UUID would refuse to migrate a guest to each other, and many boards have the same one.
    own = {"host_uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, NODE)), "listen_addr": ADDRESS}
    lines = [f'{name} = "{value}"\n' for name, value in own.items()]
    (etc / "libvirtd.conf").write_text((conf / "libvirtd.conf").read_text() + "".join(lines))
    secrets = etc / "secrets"
    secrets.mkdir(exist_ok=True, mode=0o700)
    for file in sorted(conf.glob("secret-*")):
        write(secrets / file.name.removeprefix("secret-"), file.read_text(), 0o600)
    return ["--listen"] if settings["listen"] else []


def folders():
    for path in [FACTS, "/var/log/libvirt/qemu", "/var/cache/libvirt/qemu", "/var/lib/libvirt/qemu", INSTANCES]:
        os.makedirs(path, exist_ok=True)


def own_cgroups():
    """The hierarchies, each with the cgroup of this pod or one below it, as the node names it."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = CGROUPS / controllers.removeprefix("name=")
        if not controllers and not (CGROUPS / "cgroup.controllers").exists():
            root = CGROUPS / "unified"
        if root.is_dir():
            yield root, path if beside_pods(path) else named_after_pod(root)


def leave_cgroup_namespace():
    """The kernel lets no process out of the cgroups of a namespace. Privileged containers usually have none of their own."""
    try:
        with open("/proc/1/ns/cgroup") as namespace:
            os.setns(namespace.fileno(), os.CLONE_NEWCGROUP)
    except PermissionError:
        pass


def named_after_pod(root):
    """A container with a cgroup namespace of its own does not know where it is."""
    for folder, below, _ in os.walk(root):
        found = [name for name in below if POD in name or POD.replace("-", "_") in name]
        if found:
            return os.path.relpath(os.path.join(folder, found[0]), root)
    sys.exit(f"libvirt: guests would end with this pod: no cgroup below {root} has its UID {POD} in its name")


def beside_pods(path):
    """The cgroup of guests, above everything that belongs to pods; nothing if the path belongs to no pod."""
    parts = [part for part in path.split("/") if part]
    uids = (POD, POD.replace("-", "_"))
    levels = ("kubepods", "besteffort", "burstable", "guaranteed")
    of_pods = (
        place
        for place, part in enumerate(parts)
        if part in levels or "kubepods" in part or any(uid in part for uid in uids)
    )
    place = next(of_pods, None)
    return None if place is None else "/".join([*parts[:place], GUESTS])


def leave_pod():
    """Moves this process, and so all that it will start, out of the pod's cgroups."""
    leave_cgroup_namespace()
    for root, path in list(own_cgroups()):
        cgroup = root / beside_pods(path)
        cgroup.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = cgroup / name
            # Version 1 takes no process into a cgroup without CPUs.
            if (cgroup / "tasks").exists() and file.exists() and not file.read_text().strip():
                file.write_text((cgroup.parent / name).read_text())
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))


def end_old_one():
    """Ends a libvirtd that has outlived its pod, such as one whose pod was deleted by force."""
    try:
        pid = int(pathlib.Path(PIDFILE).read_text())
        if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() not in ("libvirtd", "daemon-init"):
            return
        for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            os.kill(pid, number)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                os.kill(pid, 0)
                time.sleep(0.1)
    except (OSError, ValueError):
        return


def keep_consoles_short():
    """A guest writes to its console as much as it likes. QEMU appends, so that the file can be cut while it is open."""
    while True:
        for path in glob.glob(f"{INSTANCES}/*/console.log"):
            try:
                if os.path.getsize(path) > CONSOLE_BYTES:
                    shutil.copyfile(path, f"{path}.0")
                    os.truncate(path, 0)
            except OSError as error:
                say(f"{path}: {error}")
        time.sleep(10)


def beside(work):
    """Runs something beside libvirtd that ends with it."""
    parent = os.getpid()
    if os.fork() == 0:
        end_with(parent, signal.SIGKILL)
        work()


def end_with(parent, how):
    """Has the kernel send this process a signal when its parent ends. Processes that it starts do not inherit that."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        os._exit(1)


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    folders()
    virt_type(settings["virtType"])
    options = configure(settings)
    end_old_one()
    # libvirt refuses to migrate a guest between hosts of one name, and nodes may share one.
    os.unshare(os.CLONE_NEWUTS)
    socket.sethostname(re.sub(r"\..*", "", NODE) if len(NODE) > 64 else NODE)
    beside(keep_consoles_short)
    leave_pod()
    end_with(os.getppid(), signal.SIGTERM)
    os.execvp("libvirtd", ["libvirtd", "--config", "/etc/libvirt/libvirtd.conf", "--pid-file", PIDFILE, *options])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes which options and policies a release of a service has, as the service's own code lists them.

    tools/options.py SERVICE RELEASE        such as: tools/options.py nova 2026.1

It needs Python (3.13, which the images have, is best), access to PyPI and nothing else: it installs what the service's image
holds (images/releases/RELEASE/locks/SERVICE.txt, checked by hash) into a virtual environment in a temporary directory, asks
oslo.config and oslo.policy there what the service registers, and removes the environment. The same lock gives the same
files. Run it again for each service whose lock changed its versions; `git diff` shows what upstream added and removed.

It writes two files to crates/service/options/RELEASE, which `catalogue.rs` compiles in:

SERVICE.options has a header for each section and below it one option a line, its name and its type:

    [section]               a section; DEFAULT is the first
    [section *]             the same, and any section that the user names (backends of Cinder, stores of Glance)
    [mdev_*]                any section whose name begins so
    name text               also multi (may be repeated), bool, float
    name int 0 65535        an integer and its bounds, `-` for none; `int` without both
    name choice one two     one of these words; `ichoice` if case does not matter
    name > section.other    a deprecated name, and the option that replaced it

SERVICE.policies has the name of one policy a line; `name:*` stands for every name that begins with `name:`.
"""

import argparse
import importlib
import logging
import pathlib
import subprocess
import sys
import tempfile
import venv
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What the sample configuration of a service is made from, as the config-generator files in its source list it (they are
# not part of what pip installs), and what it registers beside that: oslo.concurrency of Keystone and Placement.
NAMESPACES = {
    "keystone": [
        "keystone", "oslo.cache", "oslo.concurrency", "oslo.db", "oslo.log", "oslo.messaging", "oslo.middleware",
        "oslo.policy", "osprofiler",
    ],
    # glance-api, glance-cache, glance-image-import, glance-manage, glance-scrubber: the API reads the options of all.
    "glance": [
        "glance", "glance.api", "glance.cache", "glance.manage", "glance.scrubber", "glance.store", "glance.multi_store",
        "castellan.config", "keystonemiddleware.auth_token", "os_brick", "oslo.concurrency", "oslo.db", "oslo.limit",
        "oslo.log", "oslo.messaging", "oslo.middleware.cors", "oslo.middleware.healthcheck",
        "oslo.middleware.http_proxy_to_wsgi", "oslo.policy", "oslo.reports", "osprofiler",
    ],
    "placement": [
        "placement.conf", "keystonemiddleware.auth_token", "oslo.concurrency", "oslo.log", "oslo.middleware.cors",
        "oslo.middleware.http_proxy_to_wsgi", "oslo.policy", "osprofiler",
    ],
    "nova": [
        "nova.conf", "keystonemiddleware.auth_token", "os_brick", "os_brick.lightos", "os_vif", "oslo.concurrency", "oslo.limit", "oslo.log",
        "oslo.messaging", "oslo.middleware", "oslo.policy", "oslo.privsep", "oslo.reports", "oslo.service.periodic_task",
        "oslo.service.service", "oslo.versionedobjects", "osprofiler",
    ],
    # neutron.conf, ml2_conf.ini and the files of all agents: the driver for OVN reads [network_log] and [ovs], too.
    "neutron": [
        "neutron", "neutron.agent", "neutron.az.agent", "neutron.base.agent", "neutron.db", "neutron.dhcp.agent",
        "neutron.experimental", "neutron.extensions", "neutron.l3.agent", "neutron.metadata.agent",
        "neutron.metering.agent", "neutron.ml2", "neutron.ml2.macvtap.agent", "neutron.ml2.ovn", "neutron.ml2.ovn.agent",
        "neutron.ml2.ovs.agent", "neutron.ml2.sriov.agent", "neutron.ovn.metadata.agent", "nova.auth", "ironic.auth",
        "placement.auth", "designate.auth", "keystonemiddleware.auth_token", "oslo.cache", "oslo.concurrency", "oslo.db",
        "oslo.log", "oslo.messaging", "oslo.middleware.cors", "oslo.middleware.healthcheck",
        "oslo.middleware.http_proxy_to_wsgi", "oslo.policy", "oslo.privsep", "oslo.reports", "oslo.service.periodic_task",
        "oslo.service.service", "oslo.service.sslutils", "oslo.service.wsgi", "oslo.versionedobjects", "osprofiler",
    ],
    "cinder": [
        "cinder", "castellan.config", "keystonemiddleware.auth_token", "os_brick", "os_brick.lightos", "oslo.concurrency",
        "oslo.db", "oslo.log", "oslo.messaging", "oslo.middleware", "oslo.policy", "oslo.privsep", "oslo.reports",
        "oslo.service.periodic_task", "oslo.service.service", "oslo.service.sslutils", "oslo.service.wsgi",
        "oslo.versionedobjects", "osprofiler",
    ],
}

# Of these, what a release, or an image, may not have.
OPTIONAL = {"os_brick", "os_brick.lightos", "osprofiler", "oslo.service.sslutils"}

# Modules with contexts of oslo.privsep, each of which has a section of its own that no generator lists.
PRIVILEGED = {
    "nova": ["nova.privsep", "os_brick.privileged", "vif_plug_linux_bridge.privsep", "vif_plug_ovs.privsep"],
    "neutron": ["neutron.privileged"],
    "cinder": ["cinder.privsep", "os_brick.privileged"],
}

# Modules that patches of ours add (images/releases/*/patches), with their section and the types of their options: what is
# installed for the list has no patches.
PATCHED = {
    "nova": {
        "external_scheduler": {
            "endpoint": "text", "token_file": "text", "ca_file": "text", "timeout": "int 1 -", "on_failure": "choice closed open",
        },
    },
}

# What images leave out (images/releases/*/overrides) although the module that lists the options imports it.
LEFT_OUT = {"cinder": ["googleapiclient"]}

# Ways to log in that a section with credentials may name as its `auth_type`. Its options are those of the one it names,
# which generators of sample files do not know.
LOGINS = ["password", "v3password", "v3applicationcredential", "http_basic", "none"]


def kind(option):
    """The type of an option in one word."""
    from oslo_config import cfg, types

    of = option.type
    if isinstance(option, cfg.MultiOpt):
        return "multi"
    if isinstance(of, types.Boolean):
        return "bool"
    if isinstance(of, types.Port):
        return "int 0 65535"
    if isinstance(of, types.Integer):
        low, high = of.min, of.max
        return "int" if low is None and high is None else f"int {'-' if low is None else low} {'-' if high is None else high}"
    if isinstance(of, types.Float):
        return "float"
    choices = getattr(of, "choices", None)
    if isinstance(of, types.String) and choices and not any(c is None or " " in str(c) or not str(c) for c in choices):
        fold = "choice" if not getattr(of, "ignore_case", False) else "ichoice"
        return fold + " " + " ".join(sorted(str(choice) for choice in choices))
    return "text"


class Options:
    """Sections with the types of their options, and the deprecated names."""

    def __init__(self):
        self.sections = {}
        self.deprecated = {}

    def add(self, section, options):
        for option in options:
            types = self.sections.setdefault(section, {})
            of = kind(option)
            # Two parts of a service may register an option differently: then it is not for us to refuse a value.
            types[option.dest] = of if types.get(option.dest, of) == of else "text"
            for old in option.deprecated_opts:
                name = (old.name or option.dest).replace("-", "_")
                self.deprecated.setdefault((old.group or section, name), f"{section.split()[0]}.{option.dest}")

    def lines(self):
        sections = {section: dict(types) for section, types in self.sections.items()}
        for (section, name), now in self.deprecated.items():
            sections.setdefault(section, {}).setdefault(name, f"> {now}")
        for section in sorted(sections, key=lambda name: (name != "DEFAULT", name)):
            yield f"[{section}]"
            yield from (f"{name} {of}" for name, of in sorted(sections[section].items()))


def listed(service):
    """What the service's generators list, as (namespace, section, options)."""
    from importlib.metadata import entry_points

    from oslo_config import cfg, generator

    there = {entry.name for entry in entry_points(group="oslo.config.opts")}
    missing = set(NAMESPACES[service]) - there - OPTIONAL
    if missing:
        sys.exit(f"{service} lists no options as {', '.join(sorted(missing))}; see its config-generator files")
    for namespace, groups in generator._list_opts([name for name in NAMESPACES[service] if name in there]):
        for group, options in groups:
            yield namespace, group.name if isinstance(group, cfg.OptGroup) else group or "DEFAULT", list(options)


def registered(conf):
    """What was registered, by section; a few options are, but are not listed."""
    for section, group in sorted(conf._groups.items()):
        yield section, [registered["opt"] for registered in group._opts.values()]


def registered_by_nova():
    """Among it sections for each type of mediated device and each physical network, when it has read which there are."""
    import nova.conf

    conf = nova.conf.CONF
    conf([], project="nova", default_config_files=[])
    conf.set_override("enabled_mdev_types", ["*"], "devices")
    conf.set_override("physnets", ["*"], "neutron")
    nova.conf.devices.register_dynamic_opts(conf)
    nova.conf.neutron.register_dynamic_opts(conf)
    return registered(conf)


def privileged_sections(service):
    for module in map(importlib.import_module, PRIVILEGED.get(service, [])):
        from oslo_privsep import priv_context

        for context in vars(module).values():
            if isinstance(context, priv_context.PrivContext):
                yield context.cfg_section, priv_context.OPTS


def logins():
    from keystoneauth1 import loading

    return [loading.get_auth_common_conf_options(), *map(loading.get_auth_plugin_conf_options, LOGINS)]


def options(service):
    from oslo_config import cfg

    for module in LEFT_OUT.get(service, []):
        sys.modules[module] = mock.MagicMock()
    found = Options()
    for namespace, section, members in listed(service):
        # Each driver has a section here that users name as they like, `[cheap]` with `enabled_backends = cheap:rbd`.
        store = namespace == "glance.multi_store" and section != "glance_store"
        fabric = section.endswith("_fabric_example")
        # Sections of Cinder's backends take the options of drivers, and so do these defaults for all of them.
        defaults = section == "backend_defaults"
        found.add("*" if store or fabric or section == "backend" else f"{section} *" if defaults else section, members)
    for section, members in registered_by_nova() if service == "nova" else []:
        found.add(section, members)
    for section, members in privileged_sections(service):
        found.add(section, members)
    for section, types in PATCHED.get(service, {}).items():
        found.sections.setdefault(section, {}).update(types)
    for section, members in registered(cfg.CONF):
        if section == "oslo_messaging_metrics":
            found.add(section, members)
    for section, types in list(found.sections.items()):
        # With the options of a keystoneauth session.
        if "auth_section" in types or {"auth_url", "cafile"} <= types.keys():
            for options in logins():
                found.add(section, [option for option in options if option.dest not in types])
    return found


def policies(service):
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="oslo.policy.policies", name=service)
    names = {rule.name for rule in entry.load()()}
    if service == "neutron":
        # Any attribute of an answer can be hidden by a policy of its own, whether Neutron has one for it or not.
        names |= {f"{name}:*" for name in names if name.startswith("get_") and ":" not in name}
    return sorted(names)


def write(service, folder):
    """Inside the virtual environment."""
    # Services warn of much that does not matter here, such as parts of oslo that change no defaults.
    logging.disable(logging.WARNING)
    files = {"options": list(options(service).lines()), "policies": policies(service)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (folder / f"{service}.{name}").write_text("\n".join(lines) + "\n")
        print(f"{service}.{name}: {len(lines)} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service", choices=sorted(NAMESPACES))
    parser.add_argument("release", help="one of those in images/releases")
    parser.add_argument("--installed", action="store_true", help="this Python has the service already")
    asked = parser.parse_args()
    lock = ROOT / "images" / "releases" / asked.release / "locks" / f"{asked.service}.txt"
    if not lock.exists():
        parser.error(f"there is no {lock.relative_to(ROOT)}")
    if asked.installed:
        write(asked.service, ROOT / "crates" / "service" / "options" / asked.release)
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--requirement", lock], check=True)
        subprocess.run([python, __file__, asked.service, asked.release, "--installed"], check=True)


if __name__ == "__main__":
    main()

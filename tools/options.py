"""Writes which options and policies a release of a service has, for crates/service/options.

Run it with the Python of a virtual environment that holds the service, and what its images hold beside it:

    python tools/options.py keystone crates/service/options/2025.2

`SERVICE.options` has a section for each group, and in it one option a line: its name and its type. A name that an option
had before stands as `old > group.new`. `SERVICE.policies` has the name of one policy a line.
"""

import pathlib
import sys

import stevedore
from oslo_config import cfg, generator, types

# What the sample configuration of a service is made from, as its own config-generator file lists it.
NAMESPACES = {
    "keystone": [
        "keystone", "oslo.cache", "oslo.log", "oslo.messaging", "oslo.policy", "oslo.db", "oslo.middleware", "osprofiler",
    ],
    "glance": [
        "glance.api", "glance.store", "glance.multi_store", "oslo.concurrency", "oslo.messaging", "oslo.db", "oslo.policy",
        "keystonemiddleware.auth_token", "oslo.log", "oslo.middleware", "oslo.limit", "oslo.cache",
    ],
    "placement": [
        "placement.conf", "keystonemiddleware.auth_token", "oslo.log", "oslo.middleware.cors", "oslo.policy",
        "oslo.middleware.http_proxy_to_wsgi",
    ],
}


def kind(option):
    """The type of an option in one word."""
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


def options(service):
    groups = {}
    for _, listed in generator._list_opts(NAMESPACES[service]):
        for group, members in listed:
            name = group.name if isinstance(group, cfg.OptGroup) else group or "DEFAULT"
            for option in members:
                groups.setdefault(name, {})[option.dest] = kind(option)
                for old in option.deprecated_opts:
                    place = groups.setdefault(old.group or name, {})
                    place.setdefault((old.name or option.dest).replace("-", "_"), f"> {name}.{option.dest}")
    return groups


def policies(service):
    manager = stevedore.NamedExtensionManager(
        "oslo.policy.policies", names=[service], invoke_on_load=True, on_load_failure_callback=None
    )
    return sorted({rule.name for extension in manager for rule in extension.obj})


def main(service, folder):
    lines = []
    groups = options(service)
    for group in sorted(groups, key=lambda name: (name != "DEFAULT", name)):
        lines.append(f"[{group}]")
        lines += [f"{name} {of}" for name, of in sorted(groups[group].items())]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{service}.options").write_text("\n".join(lines) + "\n")
    (folder / f"{service}.policies").write_text("\n".join(policies(service)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

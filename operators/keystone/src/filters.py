"""Puts filters into Keystone's pipeline, which has been code and not a paste file for many releases."""

import importlib
import operator
import types

import stevedore
from keystone.server.flask import core

OURS = "filters of the Keystone object"


def factory(name):
    module, _, attribute = name.partition(":")
    return operator.attrgetter(attribute)(importlib.import_module(module))


def insert(outer, inner):
    """`outer` runs in this order before `inner`. A plain name is one of Keystone's own, an object is one to put in."""
    given = {one["name"]: one for one in outer if not isinstance(one, str)}
    own = {middleware.ep: middleware for middleware in core._APP_MIDDLEWARE}
    core._APP_MIDDLEWARE = tuple(
        own[one] if isinstance(one, str) else core._Middleware(OURS, one["name"], one["config"]) for one in outer
    )

    def manager(namespace, name, **options):
        if namespace != OURS:
            return stevedore.DriverManager(namespace, name, **options)
        driver = types.SimpleNamespace(factory=factory(given[name]["factory"]))
        return types.SimpleNamespace(driver=driver)

    core.stevedore = types.SimpleNamespace(DriverManager=manager)
    order = dict(zip(("url_normalize", "authtoken"), core._KEYSTONE_MIDDLEWARE))
    core._KEYSTONE_MIDDLEWARE = tuple(
        order[one] if isinstance(one, str) else factory(one["factory"])({}, **one["config"]) for one in inner
    )

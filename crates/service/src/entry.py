"""The WSGI application of an OpenStack service, with what has to be so before it is loaded."""

import importlib
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "entry.json")) as file:
    SETTINGS = json.load(file)


def load(name):
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def forgive_cache():
    """Makes a cache server that is gone a miss, at once. Neither oslo.cache nor dogpile has an option for that with pymemcache:
    a request would fail, or wait for as long as the network does."""
    try:
        from pymemcache.client.hash import HashClient
    except ImportError:
        return
    begin = HashClient.__init__

    def forgiving(self, *args, **options):
        options.update(connect_timeout=0.5, timeout=1, ignore_exc=True, retry_attempts=0)
        begin(self, *args, **options)

    HashClient.__init__ = forgiving


forgive_cache()
for hook in SETTINGS["hooks"]:
    load(hook["call"])(*hook["args"])

service = load(SETTINGS["application"])
# Before there are threads: what a service makes at its first request may not bear that two make it at once.
for name in SETTINGS["warm"]:
    load(name)()


def application(environ, start_response):
    # What somebody else in the pod decrypted came encrypted, and links must say so.
    environ["wsgi.url_scheme"] = SETTINGS["scheme"] or environ["wsgi.url_scheme"]
    return service(environ, start_response)

"""One run of Tempest: it prepares the cloud, chooses the tests, runs them, says what came of it and cleans up.

What came of it is JSON in the container's termination message, which the operator reads:
{"passed", "failed", "skipped", "total", "duration", "failures", "error"}. Exit status 0: all tests passed. 1: tests failed.
2: the run could not be carried out.
"""

import configparser
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from cloud import Cloud, Refused  # noqa: E402

BIN = os.path.dirname(sys.executable)
WORK = os.environ.get("TEMPEST_WORK", "/tmp/tempest")
MESSAGE = os.environ.get("TEMPEST_MESSAGE", "/dev/termination-log")

# What Kubernetes keeps of a termination message, in bytes, and how many names of tests are told.
LONGEST_MESSAGE = 4096
MOST_FAILURES = 50

# How long listing the tests, and cleaning up, may take, in seconds.
LIST_PATIENCE = 300
CLEANUP_PATIENCE = 600

# Services by the names that tests have for them. Tests with another tag need a service that this cloud does not have.
SERVICES = ("compute", "identity", "image", "network", "volume")
OTHER_SERVICES = ("object_storage", "dashboard")

# Tests that need what no catalog tells of: an image on a web server (set image.http_image), a second store.
NEEDS_WEB = re.compile(r"test_image_web_download_import\b")
NEEDS_STORES = re.compile(r"test_image_copy_image_import\b")


class Broken(Exception):
    """The run cannot be carried out."""


def say(text):
    print(text, flush=True)


def shortened(text, length):
    return text if len(text) <= length else text[: length - 3] + "..."


def message(results):
    """The termination message: as many names of failed tests as fit."""
    results = dict(results, failures=results.get("failures", [])[:MOST_FAILURES])
    while True:
        text = json.dumps(results, separators=(",", ":"))
        if len(text.encode()) <= LONGEST_MESSAGE:
            return text
        if results["failures"]:
            results["failures"] = results["failures"][:-1]
        else:
            results["error"] = shortened(results.get("error", ""), 1000)


def pattern(settings, field):
    """A regular expression of the spec; none if it is absent."""
    text = settings.get(field)
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise Broken("spec.tests.%s is not a regular expression of Python: %s" % (field, error)) from None


def service_of(test):
    """The service that a test of the API is about, and the services that it is tagged with."""
    api = re.match(r"tempest\.(?:serial_tests\.)?api\.([a-z_]+)\.", test)
    tags = re.search(r"\[([^\]]*)\]$", test)
    tags = set(tags.group(1).split(",")) if tags else set()
    return (api.group(1) if api else None), tags & set(SERVICES + OTHER_SERVICES)


def is_asked(test, services):
    api, tags = service_of(test)
    if api is not None:
        return api in services
    # A scenario is about every service that it is tagged with.
    return bool(tags) and tags <= services


def chosen(tests, settings, left_out):
    """The tests that run, in order. `left_out` are patterns of tests that this cloud cannot pass."""
    include, exclude = pattern(settings, "includeRegex"), pattern(settings, "excludeRegex")
    services = set(settings["services"])
    found = [test for test in tests if is_asked(test, services)]
    if not found:
        raise Broken("there are no tests of %s" % ", ".join(sorted(services)))
    if include:
        found = [test for test in found if include.search(test)]
        if not found:
            raise Broken("spec.tests.includeRegex fits none of the tests of %s" % ", ".join(sorted(services)))
    if exclude:
        found = [test for test in found if not exclude.search(test)]
        if not found:
            raise Broken("spec.tests.excludeRegex leaves no test")
    kept = [test for test in found if not any(one.search(test) for one in left_out)]
    for test in sorted(set(found) - set(kept)):
        say("left out: %s" % test)
    return kept


class Results:
    """Counts tests as stestr does, from the stream that it writes."""

    def __init__(self, total):
        self.total, self.begun = total, time.monotonic()
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def add(self, test, status, details):
        if status in ("success", "xfail"):
            self.passed += 1
        elif status == "skip":
            self.skipped += 1
        else:
            self.failed += 1
            self.failures.append(re.sub(r"\[[^\]]*\]$", "", test))
        outcome = "ok" if status == "success" else status
        if status == "skip" and details.get("reason"):
            outcome += ": " + shortened(details["reason"].strip(), 200)
        say("[%s/%s] %s ... %s" % (self.count(), self.total, test, outcome))
        for name, text in details.items():
            # The log of a test is long, and its traceback says what failed.
            if status not in ("success", "xfail", "skip") and "traceback" in name:
                say(shortened(text, 20000))

    def count(self):
        return self.passed + self.failed + self.skipped

    def told(self):
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "total": self.count(),
            "duration": int(round(time.monotonic() - self.begun)),
            "failures": sorted(self.failures),
        }


def consume(stream, results):
    """Reads a subunit stream to its end."""
    import subunit
    import testtools

    def on_test(test):
        if test["status"] in ("exists", "inprogress"):
            return
        results.add(test["id"], test["status"], {name: content.as_text() for name, content in test["details"].items()})

    result = testtools.StreamToDict(on_test)
    result.startTestRun()
    try:
        subunit.ByteStreamToStreamResult(stream, non_subunit_name="stdout").run(result)
    finally:
        result.stopTestRun()


class Run:
    """A run, and the process that it waits for."""

    def __init__(self, settings):
        self.settings = settings
        self.cloud = Cloud(settings["keystone"])
        self.conf = os.path.join(WORK, "etc", "tempest.conf")
        self.process = None
        self.stopped = None
        self.results = None

    def stop(self, why):
        """Ends the tests that run; those that have ended count."""
        self.stopped = self.stopped or why
        if self.process is not None and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def tempest(self, *arguments, patience):
        return self.command("tempest", *arguments, patience=patience)

    def command(self, program, *arguments, patience):
        """What a command prints."""
        command = [os.path.join(BIN, program), *arguments]
        try:
            done = subprocess.run(command, cwd=WORK, env=self.env(), timeout=patience, text=True, errors="replace",
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Broken("%s %s did not end within %s s" % (program, arguments[0], patience)) from None
        if done.returncode != 0:
            say(done.stdout[-4000:] + done.stderr[-4000:])
            raise Broken("%s %s failed: %s" % (program, arguments[0], last_line(done.stderr or done.stdout)))
        return done.stdout

    def env(self):
        folder, name = os.path.split(self.conf)
        return dict(os.environ, HOME=WORK, PYTHON=sys.executable, TEMPEST_CONFIG_DIR=folder, TEMPEST_CONFIG=name)

    def write(self, options):
        """Writes the operator's tempest.conf with what was found; what a user has set stays."""
        conf = configparser.RawConfigParser(strict=False)
        conf.optionxform = str
        conf.read(os.path.join(HERE, "tempest.conf"))
        for section, values in options.items():
            if section != "DEFAULT" and not conf.has_section(section):
                conf.add_section(section)
            for option, value in values.items():
                if not conf.has_option(section, option):
                    conf.set(section, option, str(value))
        os.makedirs(os.path.dirname(self.conf), exist_ok=True)
        with open(os.open(self.conf, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            conf.write(file)
        return conf

    def found(self, administrator, prepared):
        """The options that the cloud itself decides."""
        has = {service: self.cloud.endpoint(service) is not None for service in ("compute", "image", "network", "volume")}
        options = {
            "auth": administrator,
            "oslo_concurrency": {"lock_path": os.path.join(WORK, "lock")},
            "service_available": {
                "nova": has["compute"],
                "glance": has["image"],
                "neutron": has["network"],
                "cinder": has["volume"],
                "swift": False,
                "horizon": False,
            },
            "volume": {"catalog_type": self.cloud.catalog_type("volume")},
        }
        for section, values in prepared.items():
            options.setdefault(section, {}).update(values)
        return options

    def prepare(self, asked):
        """Finds or makes what the tests of these services need. Gives options, and patterns of tests to leave out."""
        prefix, cloud = self.settings["prefix"], self.cloud
        has = {service for service in ("compute", "image", "network", "volume") if cloud.endpoint(service)}
        missing = sorted(asked - has - {"identity"})
        if missing:
            raise Broken("the catalog has no service for %s; remove it from spec.tests.services" % ", ".join(missing))
        options, left_out = {}, []
        if "image" in asked:
            options["image"] = {"image_caching_enabled": cloud.caches_images()}
            if cloud.stores() < 2:
                left_out.append(NEEDS_STORES)
            if not self.is_set("image", "http_image"):
                left_out.append(NEEDS_WEB)
        if "image" in has and asked & {"compute", "volume", "network"}:
            if not self.is_set("compute", "image_ref"):
                image = cloud.image(prefix)
                options["compute"] = {"image_ref": image, "image_ref_alt": image}
        if "compute" in has and asked & {"compute", "volume", "network", "image"}:
            if not self.is_set("compute", "flavor_ref"):
                first, second = cloud.flavors(prefix)
                options.setdefault("compute", {}).update(flavor_ref=first, flavor_ref_alt=second)
        # Also for what is removed in the end: of an extension that Neutron lacks nothing can be listed.
        if "network" in has:
            external, extensions = cloud.network()
            options["network-feature-enabled"] = {
                "api_extensions": ",".join(extensions),
                "floating_ips": external is not None,
            }
            if external is not None:
                options["network"] = {"public_network_id": external["id"], "floating_network_name": external["name"]}
        if "volume" in has and asked & {"volume"}:
            options["volume"], options["volume-feature-enabled"] = cloud.volumes()
        return options, left_out

    def is_set(self, section, option):
        conf = configparser.RawConfigParser(strict=False)
        conf.read(os.path.join(HERE, "tempest.conf"))
        return conf.has_option(section, option)

    def clean(self):
        """Removes what tests have left that is in no project, by the prefix that this object's runs give to names."""
        self.tempest("cleanup", "--prefix", self.settings["prefix"], patience=CLEANUP_PATIENCE)

    def tests(self):
        # A list is refused where there is no repository of results.
        if not os.path.exists(os.path.join(WORK, ".stestr")):
            self.command("stestr", "init", patience=LIST_PATIENCE)
        listed = self.tempest("run", "--config-file", self.conf, "--list-tests", patience=LIST_PATIENCE)
        return [line.strip() for line in listed.splitlines() if line.startswith("tempest.")]

    def carry_out(self):
        for field in ("includeRegex", "excludeRegex"):
            pattern(self.settings, field)
        os.makedirs(os.path.join(WORK, "lock"), exist_ok=True)
        self.cloud.sign_in()
        left = self.cloud.domains(self.settings["prefix"])
        for domain in left:
            say("cleaning up after a run that was killed")
            self.cloud.remove_domain(domain)
        administrator, domain = self.cloud.administrator(self.settings["prefix"])
        # The default domain of tests is one that their users may look at.
        identity = {"identity": {"default_domain_id": domain}}
        if left:
            self.write(self.found(administrator, identity))
            self.clean()
        options, left_out = self.prepare(set(self.settings["services"]))
        options.update(identity)
        self.write(self.found(administrator, options))
        tests = chosen(self.tests(), self.settings, left_out)
        if not tests:
            raise Broken("every test that is asked for needs what this cloud does not have")
        path = os.path.join(WORK, "tests.txt")
        with open(path, "w") as file:
            file.write("\n".join(tests) + "\n")
        say("%s tests, %s at a time" % (len(tests), self.settings["concurrency"]))
        self.run_tests(path, len(tests))

    def run_tests(self, path, total):
        self.results = Results(total)
        if self.stopped:
            return
        command = [os.path.join(BIN, "tempest"), "run", "--config-file", self.conf, "--load-list", path,
                   "--concurrency", str(self.settings["concurrency"]), "--subunit"]
        self.process = subprocess.Popen(command, cwd=WORK, env=self.env(), stdout=subprocess.PIPE, start_new_session=True)
        limit = threading.Timer(max(1, self.settings["limit"] - time.monotonic() + BEGUN), self.stop, ["TimedOut"])
        limit.daemon = True
        limit.start()
        try:
            consume(self.process.stdout, self.results)
        finally:
            limit.cancel()
            code = self.process.wait()
        if self.stopped is None and self.results.count() == 0:
            raise Broken("tempest run ended with status %s and ran no test" % code)

    def end(self, failed):
        """Removes what the run has made, and what its tests may have left."""
        left = []
        if self.cloud.made and (failed or self.stopped):
            try:
                for domain in self.cloud.domains(self.settings["prefix"]):
                    left += self.cloud.empty_domain(domain)
                self.clean()
            except (Broken, Refused, OSError) as error:
                left.append(str(error))
        try:
            left += self.cloud.remove()
        except OSError as error:
            left.append(str(error))
        for one in left:
            say("cannot clean up, and the next run tries again: %s" % one)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shortened(lines[-1], 400) if lines else "it printed nothing"


BEGUN = time.monotonic()


def main():
    with open(os.path.join(HERE, "settings.json")) as file:
        settings = json.load(file)
    run = Run(settings)
    signal.signal(signal.SIGTERM, lambda *_: run.stop("Terminated"))
    error = None
    try:
        run.carry_out()
    except (Broken, Refused) as broken:
        error = str(broken)
    except Exception as broken:  # noqa: BLE001: whatever it is, it is told, and what was made is removed
        error = "%s: %s" % (type(broken).__name__, broken)
    told = run.results.told() if run.results else Results(0).told()
    if run.stopped == "TimedOut":
        told["timedOut"] = True
        error = "the tests did not end within the time limit; %s of %s ended" % (run.results.count(), run.results.total)
    elif run.stopped:
        error = "the run was ended before its tests were"
    if error:
        told["error"] = error
        say("error: %s" % error)
    # Before the cleanup, which may be cut short.
    with open(MESSAGE, "w") as file:
        file.write(message(told))
    run.end(bool(told["failed"] or error))
    counts = "passed: %(passed)s, failed: %(failed)s, skipped: %(skipped)s, total: %(total)s" % told
    say("%s, in %s s" % (counts, told["duration"]))
    for name in told["failures"]:
        say("failed: %s" % name)
    return 2 if error else 1 if told["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

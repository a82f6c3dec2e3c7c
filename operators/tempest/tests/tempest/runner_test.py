"""Tests of run.py and cloud.py that need neither Tempest nor a cloud."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import cloud
import run

TESTS = [
    "tempest.api.compute.servers.test_servers.ServersTestJSON.test_create[id-1,smoke]",
    "tempest.api.identity.v3.test_tokens.TokensV3Test.test_create[id-2,smoke]",
    "tempest.api.identity.v3.test_users.UsersV3Test.test_update[id-3]",
    "tempest.api.image.v2.admin.test_images.T.test_image_copy_image_import[id-4]",
    "tempest.api.object_storage.test_x.T.test_y[id-5,smoke]",
    "tempest.scenario.test_minimum_basic.T.test_z[compute,id-6,image,network,volume]",
    "tempest.serial_tests.api.compute.admin.test_aggregates.T.test_a[id-7]",
]


def chosen(left_out=(), **settings):
    with contextlib.redirect_stdout(io.StringIO()):
        found = run.chosen(TESTS, dict({"services": ["identity"]}, **settings), left_out)
    return [TESTS.index(test) for test in found]


class Selection(unittest.TestCase):
    def test_services_are_those_of_the_tests(self):
        self.assertEqual(chosen(), [1, 2])
        self.assertEqual(chosen(services=["compute"]), [0, 6])
        self.assertEqual(chosen(services=["compute", "network", "volume", "image", "identity"]), [0, 1, 2, 3, 5, 6])

    def test_expressions_choose_among_them(self):
        self.assertEqual(chosen(includeRegex=r"\bsmoke\b"), [1])
        self.assertEqual(chosen(excludeRegex="users"), [1])
        self.assertEqual(chosen(services=["image", "identity"], left_out=[run.NEEDS_STORES]), [1, 2])

    def test_what_is_wrong_with_them_is_told_with_the_field(self):
        for settings, word in [
            ({"includeRegex": "(?P<a"}, "spec.tests.includeRegex is not a regular expression"),
            ({"excludeRegex": "*"}, "spec.tests.excludeRegex is not a regular expression"),
            ({"includeRegex": "nothing"}, "spec.tests.includeRegex fits none"),
            ({"excludeRegex": "."}, "spec.tests.excludeRegex leaves no test"),
        ]:
            with self.assertRaisesRegex(run.Broken, word):
                chosen(**settings)


class Telling(unittest.TestCase):
    def test_tests_are_counted_by_how_they_ended(self):
        results = run.Results(4)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            results.add("tempest.a[id-1]", "success", {})
            results.add("tempest.b[id-2]", "skip", {"reason": "why"})
            results.add("tempest.c[id-3,smoke]", "fail", {"traceback": "Traceback: 409", "pythonlogging": "much"})
            results.add("setUpClass (tempest.D)", "fail", {})
        told = results.told()
        self.assertEqual([told[key] for key in ("passed", "failed", "skipped", "total")], [1, 2, 1, 4])
        self.assertEqual(told["failures"], ["setUpClass (tempest.D)", "tempest.c"])
        self.assertIn("Traceback: 409", said.getvalue())
        self.assertIn("tempest.b[id-2] ... skip: why\n", said.getvalue())
        self.assertNotIn("much", said.getvalue())

    def test_a_message_fits_and_names_as_many_tests_as_it_can(self):
        names = ["tempest.api.compute.%s" % ("x" * 150)] * 200
        text = run.message({"failed": 200, "failures": names})
        self.assertLessEqual(len(text.encode()), 4096)
        self.assertTrue(10 < len(json.loads(text)["failures"]) <= 50)
        self.assertEqual(len(json.loads(run.message({"failures": ["t"] * 200}))["failures"]), 50)
        self.assertLessEqual(len(run.message({"error": "e" * 9000})), 4096)


class Preparation(unittest.TestCase):
    def setUp(self):
        self.run = run.Run({"keystone": {"auth_url": "http://k/v3"}, "prefix": "tempest-x", "services": ["identity"]})
        self.run.cloud.catalog = [
            {"type": "image", "endpoints": [
                {"interface": "public", "url": "https://out/", "region_id": "R"},
                {"interface": "internal", "url": "http://in:9292/", "region_id": "R"}]},
            {"type": "block-storage", "endpoints": [{"interface": "public", "url": "http://v/v3", "region_id": "Q"}]},
        ]

    def test_endpoints_are_those_of_the_catalog(self):
        self.assertEqual(self.run.cloud.endpoint("image"), "http://in:9292")
        self.run.cloud.settings["region"] = "R"
        self.assertIsNone(self.run.cloud.endpoint("volume"))
        self.assertIsNone(self.run.cloud.endpoint("compute"))

    def test_a_service_that_is_not_there_is_told(self):
        with self.assertRaisesRegex(run.Broken, "no service for compute, network; remove it from spec.tests.services"):
            self.run.prepare({"identity", "compute", "network"})
        self.assertEqual(self.run.prepare({"identity"}), ({}, []))

    def test_volumes_are_tested_as_the_backends_are(self):
        def pool(name, protocol):
            return {"capabilities": {"volume_backend_name": name, "storage_protocol": protocol, "vendor_name": "Open Source"}}

        answers = {
            "/": {"versions": [{"id": "v3.0", "version": "3.71"}]},
            "/os-services": {"services": [{"binary": "cinder-backup", "state": "up"}]},
            "/scheduler-stats/get_pools?detail=True": {"pools": [pool("fast", "ceph")]},
        }
        self.run.cloud.request = lambda method, url: (answers[url.removeprefix("http://v/v3")], {})
        options, features = self.run.cloud.volumes()
        self.assertEqual(options, {"max_microversion": "3.71", "storage_protocol": "ceph", "vendor_name": "Open Source"})
        self.assertEqual(features, {"backup": True, "multi_backend": False})
        answers["/scheduler-stats/get_pools?detail=True"]["pools"].append(pool("slow", "NFS"))
        options, features = self.run.cloud.volumes()
        self.assertEqual((options["backend_names"], "storage_protocol" in options), ("fast,slow", False))
        self.assertTrue(features["multi_backend"])

    def test_what_a_user_has_set_stays(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(run, "HERE", folder):
            with open(os.path.join(folder, "tempest.conf"), "w") as file:
                file.write("[compute]\nflavor_ref = mine\n[volume]\ncatalog_type = volumev3\n")
            self.run.conf = os.path.join(folder, "etc", "tempest.conf")
            administrator = {"admin_password": "pa%ss"}
            found = self.run.found(administrator, {"compute": {"flavor_ref": "found", "image_ref": "i"}})
            conf = self.run.write(found)
            self.assertTrue(self.run.is_set("compute", "flavor_ref"))
            self.assertEqual(os.stat(self.run.conf).st_mode & 0o777, 0o600)
        self.assertEqual((conf["compute"]["flavor_ref"], conf["compute"]["image_ref"]), ("mine", "i"))
        self.assertEqual((conf["volume"]["catalog_type"], conf["auth"]["admin_password"]), ("volumev3", "pa%ss"))
        self.assertEqual((conf["service_available"]["glance"], conf["service_available"]["nova"]), ("True", "False"))

    def test_what_was_made_goes_the_last_first_and_what_cannot_go_is_told(self):
        asked = []

        def request(method, url, *_, **__):
            asked.append(url)
            if url == "u1":
                raise cloud.Refused(method, url, 500, "no")
            if url == "u2":
                raise cloud.Refused(method, url, 404, "gone")
            return {}, {}

        self.run.cloud.request = request
        for name in ("u1", "u2", "u3"):
            self.run.cloud.keep("user " + name, "DELETE", name)
        left = self.run.cloud.remove()
        self.assertEqual(asked, ["u3", "u2", "u1"])
        self.assertEqual((len(left), left[0][:7], self.run.cloud.made), (1, "user u1", []))


if __name__ == "__main__":
    unittest.main()

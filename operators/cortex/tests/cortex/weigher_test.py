"""Runs the weigher of Nova's image, its text the first argument, without Nova: what it imports is made here."""

import http.server
import json
import sys
import tempfile
import threading
import types
import unittest


class Group(types.SimpleNamespace):
    pass


class Conf(dict):
    def register_opts(self, options, group):
        self[group] = Group(**{option.name: option.default for option in options})


def option(name, default=None, **_):
    return types.SimpleNamespace(name=name, default=default)


def module(name, **names):
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    return made


CONF = Conf()
quiet = types.SimpleNamespace(info=lambda *_: None, warning=lambda *_: None, error=lambda *_: None)
cfg = types.SimpleNamespace(StrOpt=option, IntOpt=option)
module("oslo_config", cfg=cfg)
module("oslo_log", log=types.SimpleNamespace(getLogger=lambda _: quiet))
nova = module("nova")
nova.conf = module("nova.conf", CONF=CONF)
weights = module("nova.scheduler.weights", BaseHostWeigher=object)
module("nova.scheduler", weights=weights)
cortex = module("nova.scheduler.cortex")
exec(compile(sys.argv.pop(1), "cortex.py", "exec"), vars(cortex))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        status, answer = self.server.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_):
        pass


class Spec:
    instance_uuid = "11111111-2222-3333-4444-555555555555"
    _context = types.SimpleNamespace(to_dict=lambda: {"user_id": "u", "auth_token": "s3cret"})

    def obj_to_primitive(self):
        return {"nova_object.name": "RequestSpec", "nova_object.data": {"instance_uuid": self.instance_uuid}}


def offered(*names):
    host = lambda name: types.SimpleNamespace(host=name, nodename=name + ".example.net")
    return [types.SimpleNamespace(obj=host(name), weight=float(at)) for at, name in enumerate(names)]


class Weigher(unittest.TestCase):
    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.server.asked, self.server.answers = [], []
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        file = tempfile.NamedTemporaryFile("w")
        self.addCleanup(file.close)
        file.write("pass\nanother\n")
        file.flush()
        self.conf = CONF["external_scheduler"]
        self.conf.endpoint = "http://127.0.0.1:%d/" % self.server.server_port
        self.conf.token_file, self.conf.timeout, self.conf.on_failure = file.name, 2, "open"

    def order(self, hosts, spec=None):
        given = cortex.CortexWeigher().weigh_objects(hosts, spec or Spec())
        return sorted(zip(given, [one.obj.host for one in hosts]), reverse=True)

    def test_hosts_are_in_the_order_of_the_answer_and_others_are_left_out(self):
        self.server.answers = [(200, {"hosts": ["c", "a"]})]
        hosts = offered("a", "b", "c")
        self.assertEqual([host for _, host in self.order(hosts)], ["c", "a"])
        self.assertEqual([one.weight for one in hosts], [0.0, 0.0])
        path, token, body = self.server.asked[0]
        self.assertEqual((path, token), ("/scheduler/nova/external", "Bearer pass"))
        self.assertEqual(body["weights"], {"a": 0.0, "b": 1.0, "c": 2.0})
        self.assertEqual(body["hosts"][0], {"host": "a", "hypervisor_hostname": "a.example.net"})
        self.assertEqual(body["context"], {"user_id": "u"})
        self.assertFalse(body["options"]["read_only"])

    def test_that_no_host_fits_is_an_answer(self):
        self.server.answers = [(200, {"hosts": []})]
        hosts = offered("a")
        self.assertEqual((self.order(hosts), hosts), ([], []))

    def test_a_second_question_about_the_same_server_only_looks(self):
        self.server.answers = [(200, {"hosts": ["a"]})] * 3
        spec = Spec()
        for uuid in [Spec.instance_uuid, Spec.instance_uuid, "another"]:
            spec.instance_uuid = uuid
            self.order(offered("a"), spec)
        self.assertEqual([body["options"]["read_only"] for _, _, body in self.server.asked], [False, True, False])

    def test_a_scheduler_that_is_replaced_is_asked_again(self):
        self.server.answers = [(503, b"a standby"), (200, {"hosts": ["b", "a"]})]
        self.assertEqual([host for _, host in self.order(offered("a", "b"))], ["b", "a"])

    def test_without_a_good_answer_novas_order_is_kept_or_no_host_is_found(self):
        bad = [(500, b"no pipeline"), (200, {"hosts": None}), (200, {"hosts": ["x"]}), (200, b"<html>"), (200, [])]
        for closed in [False, True]:
            self.conf.on_failure = "closed" if closed else "open"
            for answer in bad:
                self.server.answers = [answer]
                hosts = offered("a", "b")
                given = cortex.CortexWeigher().weigh_objects(hosts, Spec())
                self.assertEqual((given, len(hosts)), ([], 0) if closed else ([0.0, 0.0], 2), answer)
                if not closed:
                    self.assertEqual([one.weight for one in hosts], [0.0, 1.0])

    def test_a_server_or_a_token_that_is_not_there_is_no_answer(self):
        self.conf.timeout = 1
        self.conf.endpoint = "http://127.0.0.1:1"
        self.assertEqual(cortex.CortexWeigher().weigh_objects(offered("a"), Spec()), [0.0])
        self.conf.token_file = "/nonexistent/token"
        self.assertEqual(cortex.CortexWeigher().weigh_objects(offered("a"), Spec()), [0.0])


unittest.main()

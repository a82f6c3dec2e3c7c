//! What users type to see what their containers say and to talk to them: an unmodified kubectl, the API server, a node
//! in its network namespace, and real containers.

mod desk;

use c5c3_cri::images::BUSYBOX;
use desk::{Desk, pod, sh};
use serde_json::json;

#[test]
fn logs_are_shown_as_asked() {
    let desk = Desk::open();
    // Longer than what the runtime writes at once.
    let long = sh("long", "tr '\\0' x < /dev/zero | head -c 40000; echo; sleep 1000");
    let talker = sh("talker", "for i in 1 2 3; do echo out $i; done; echo err >&2; sleep 1000");
    let side = sh("side", "echo aside; sleep 1000");
    desk.apply(&pod("web", &[talker, side, long], "Always"));
    // Which of two streams comes first is not said.
    desk.until("kubectl logs web -c talker | sort", "err\nout 1\nout 2\nout 3");
    desk.until("kubectl logs web -c long | wc -lc | xargs", "1 40001");
    desk.until("kubectl logs web -c side", "aside");
    desk.says("kubectl logs web -c long --limit-bytes=9", "xxxxxxxxx");
    desk.says("kubectl logs web -c side --tail=0", "");
    desk.says("kubectl logs web -c side --since=1h", "aside");
    desk.says("kubectl logs web -c talker --since-time=2999-01-01T00:00:00Z", "");
    desk.says("kubectl logs web -c side --timestamps | grep -cE '^[0-9-]{10}T[0-9:]{8}\\.[0-9]{9}Z aside$'", "1");
    desk.until("kubectl logs web --all-containers --prefix | grep -c '^.pod/web/'", "6");
    desk.fails("kubectl logs web -c none", "container none is not valid for pod web");
    desk.fails(
        "kubectl logs web -c side --previous",
        "previous terminated container \"side\" in pod \"web\" not found",
    );
    let get = "kubectl get --raw /api/v1/namespaces/default/pods/web/log";
    desk.fails(get, "a container name must be specified for pod web, choose one of: [talker side long]");
    desk.fails("kubectl logs none", "pods \"none\" not found");
}

#[test]
fn a_log_is_followed_to_the_end_and_the_one_before_is_kept() {
    let desk = Desk::open();
    let slow = sh("slow", "n=0; while [ $n -lt 5 ]; do n=$((n+1)); echo line $n; sleep 0.2; done");
    desk.apply(&pod("once", &[slow], "Never"));
    desk.until("kubectl logs once --tail=-1 | head -1", "line 1");
    desk.says("kubectl logs -f once", "line 1\nline 2\nline 3\nline 4\nline 5");
    desk.apply(&pod("again", &[sh("app", "echo run; test -e /tmp/x; exit 1")], "Always"));
    desk.until("kubectl logs again --previous", "run");
    let broken = json!({"name": "app", "image": "none.invalid/none:1", "imagePullPolicy": "Never"});
    desk.apply(&pod("broken", &[broken], "Always"));
    desk.until(
        "kubectl get pod broken -o 'jsonpath={.status.containerStatuses[0].state.waiting.reason}'",
        "ErrImageNeverPull",
    );
    desk.fails("kubectl logs broken", "container \"app\" in pod \"broken\" is waiting to start: ErrImageNeverPull");
    desk.fails("kubectl exec broken -- true", "unable to upgrade connection: container not found (\"app\")");
}

#[test]
fn commands_run_in_containers_with_streams_codes_and_terminals() {
    let desk = Desk::open();
    desk.apply(&pod("web", &[sh("app", "mkdir /tmp; sleep 1000")], "Always"));
    desk.ready("web");
    desk.says("kubectl exec web -- echo hello", "hello");
    desk.says("kubectl exec web -- sh -c 'echo out; echo err >&2' 2>/dev/null", "out");
    desk.says("printf 'a b c' | kubectl exec -i web -- wc -w", "3");
    desk.says("kubectl exec web -- sh -c 'exit 42'; echo code $?", "command terminated with exit code 42\ncode 42");
    desk.fails("kubectl exec web -- /no/such", "exec: \"/no/such\"");
    let in_terminal = "kubectl exec -it web -- sh -c \"test -t 0 && test -t 1 && echo terminal\"";
    // The end of its own input may be echoed, too.
    desk.tells(&format!("script -qec '{in_terminal}' /dev/null </dev/null | tr -d '\\r'"), "terminal");
    // A megabyte there and back, by tar through exec.
    desk.says("head -c 1000000 /dev/urandom > big && kubectl cp big web:/tmp/big", "");
    desk.tells("kubectl cp web:/tmp/big back 2>/dev/null && cmp big back && echo same", "same");
    let overrides = "--overrides='{\"spec\":{\"nodeName\":\"node-0\"}}'";
    let run = format!("kubectl run loud -i --rm --image={BUSYBOX} --restart=Never {overrides}");
    desk.tells(&format!("echo shouted | {run} -- tr a-z A-Z"), "SHOUTED");
    let mut asks = sh("app", "while read line; do echo heard $line; done");
    (asks["stdin"], asks["stdinOnce"]) = (true.into(), true.into());
    desk.apply(&pod("asks", &[asks], "Never"));
    desk.ready("asks");
    desk.tells("echo word | kubectl attach -i asks -c app", "heard word");
}

#[test]
fn a_running_pod_is_debugged_by_containers_that_are_added_to_it() {
    let desk = Desk::open();
    desk.apply(&pod("web", &[sh("app", "sleep 12345")], "Always"));
    desk.ready("web");
    let debug = format!("kubectl debug web --image={BUSYBOX}");
    desk.says(&format!("{debug} --target=app -c watcher -q -- sh -c 'echo watching; sleep 1000' 2>/dev/null"), "");
    desk.until("kubectl logs web -c watcher", "watching");
    // It sees the processes of its target, and streams lead into it as into any other.
    desk.tells("kubectl exec web -c watcher -- ps", "sleep 12345");
    desk.says("printf 'a b' | kubectl exec -i web -c watcher -- wc -w", "2");
    // What it says at the very end may come after kubectl has stopped reading; its log has it all.
    desk.tells(&format!("printf 'echo sum $((40+2))\\nexit 3\\n' | {debug} -i -c talker -- sh"), "");
    desk.until("kubectl logs web -c talker", "sum 42");
    let ended = "kubectl get pod web -o 'jsonpath={.status.ephemeralContainerStatuses[1].state.terminated.exitCode}'";
    desk.until(ended, "3");
    let status = "{.status.phase} {.status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount}";
    desk.says(&format!("kubectl get pod web -o 'jsonpath={status}'"), "Running true 0");
    desk.fails(&format!("{debug} -c app -- true"), "Duplicate value");
}

#[test]
fn ports_are_forwarded_and_pods_are_proxied() {
    let desk = Desk::open();
    let serve = "mkdir -p /www; echo '<a href=\"/next\">page</a>' > /www/index.html; exec httpd -f -p 8080 -h /www";
    desk.apply(&pod("web", &[sh("app", serve)], "Always"));
    desk.ready("web");
    // A container that runs need not listen yet.
    let proxy = "/api/v1/namespaces/default/pods/web:8080/proxy";
    desk.until(&format!("kubectl get --raw {proxy}/index.html"), &format!("<a href=\"{proxy}/next\">page</a>"));
    let forwarded = ": > said; kubectl port-forward pod/web :8080 > said & trap \"kill $!\" EXIT
        until port=$(sed -n 's/^Forwarding from 127.0.0.1:\\([0-9]*\\) .*/\\1/p' said) && [ \"$port\" ]; do sleep 0.1; done
        ask() { exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3; }
        { ask; ask; } | grep -c page";
    desk.says(forwarded, "2");
    desk.says("kubectl get --raw /api/v1/nodes/node-0/proxy/healthz", "ok");
    desk.tells("kubectl get --raw /api/v1/nodes/node-0/proxy/pods", "\"name\":\"web\"");
}

#[test]
fn the_python_client_streams_too() {
    let desk = Desk::open();
    desk.apply(&pod("web", &[sh("app", "echo said; sleep 1000")], "Always"));
    desk.ready("web");
    desk.python(
        "
from kubernetes import client, config
from kubernetes.stream import stream
config.load_kube_config()
core = client.CoreV1Api()
assert core.read_namespaced_pod_log('web', 'default') == 'said\\n'
call = dict(name='web', namespace='default', stderr=True, stdin=False, stdout=True, tty=False)
assert stream(core.connect_get_namespaced_pod_exec, command=['echo', 'hello'], **call) == 'hello\\n'
call['stdin'] = True
shell = stream(core.connect_get_namespaced_pod_exec, command=['sh'], _preload_content=False, **call)
shell.write_stdin('echo got it\\n')
assert shell.readline_stdout(timeout=60) == 'got it'
shell.write_stdin('exit 3\\n')
shell.run_forever(timeout=60)
assert shell.returncode == 3, shell.returncode
",
    );
}

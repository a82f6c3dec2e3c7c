//! What `pools.py` says of Ceph pools, with a client of Ceph that the test stands in for.

use std::process::Command;

/// Runs the program with a module `rados` of which `hangs` never answers, `gone` is no pool, `closed` may not be opened, and the
/// cluster of `away` is not reached.
const SCRIPT: &str = r#"
import json, os, sys, tempfile, threading, types

class Error(Exception): pass
class ObjectNotFound(Error): pass
class PermissionDenied(Error): pass

class Objects:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def stat(self, name): raise ObjectNotFound(name)

class Rados:
    def __init__(self, conffile, rados_id, conf): self.conf = conffile
    def __enter__(self):
        if self.conf == "away.conf":
            raise Error("error connecting\n to the cluster")
        return self
    def __exit__(self, *_): pass
    def open_ioctx(self, pool):
        if pool == "hangs":
            threading.Event().wait()
        if pool == "gone":
            raise ObjectNotFound("error opening pool 'gone'")
        if pool == "closed":
            raise PermissionDenied("not permitted")
        return Objects()

sys.modules["rados"] = types.SimpleNamespace(Rados=Rados, Error=Error, ObjectNotFound=ObjectNotFound,
    PermissionError=PermissionDenied, PermissionDeniedError=PermissionDenied)
program, *pools = sys.argv[1:]
settings = tempfile.NamedTemporaryFile("w", suffix=".json")
json.dump({"pools": [{"name": f"of-{pool}", "pool": pool, "user": "u", "conf": f"{pool}.conf"} for pool in pools]}, settings)
settings.flush()
sys.argv = [program, settings.name]
source = open(program).read()
assert source.count("PATIENCE = 5.5") == 1
exec(compile(source.replace("PATIENCE = 5.5", "PATIENCE = 0.5"), program, "exec"), {"__name__": "__main__"})
"#;

fn said(pools: &[&str]) -> (String, bool) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pools.py");
    let output =
        Command::new("python3").args(["-c", SCRIPT, program]).args(pools).output().expect("python3 is installed");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (String::from_utf8(output.stderr).unwrap(), output.status.success())
}

#[test]
fn each_pool_that_cannot_be_used_is_named_with_the_reason_of_a_condition() {
    assert_eq!(said(&["good", "fine"]), (String::new(), true));
    let (text, is_good) = said(&["gone", "good", "closed", "away"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "of-gone: PoolNotFound: pool gone as client.u: error opening pool 'gone'",
            "of-closed: AccessDenied: pool closed as client.u: not permitted",
            "of-away: Unreachable: pool away as client.u: error connecting to the cluster",
        ]
    );
    assert!(!is_good);
}

#[test]
fn a_pool_that_does_not_answer_hides_no_other() {
    let (text, is_good) = said(&["hangs", "good", "gone"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "of-hangs: Unreachable: pool hangs as client.u: no answer within 0.5 s");
    assert!(lines.len() == 2 && lines[1].starts_with("of-gone: PoolNotFound"), "{text}");
    assert!(!is_good);
}

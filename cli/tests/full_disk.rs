//! The disk under a whole `c5c3 up` gets full: the API says so, what runs goes on, and all is well when there is room again.

mod machine;

use std::process::Command;

use machine::Machine;

/// Room for a cluster to start: `c5c3 up` wants 2 GiB. What is not written takes no memory.
const ROOMY: &str = "4g";
/// Little enough to be filled; a cluster with one small image has about a tenth of it.
const SMALL: &str = "256m";

/// A file system in memory, on which the data folder is. Removing the cluster unmounts it.
struct Disk<'a>(&'a Machine);

impl<'a> Disk<'a> {
    /// Takes the place of the data folder of a cluster that is stopped, with all that is in it.
    fn under(it: &'a Machine) -> Self {
        it.ok("mv data before && mkdir -m 700 data");
        it.ok(&format!("mount -t tmpfs -o mode=700,size={ROOMY} tmpfs data && cp -a before/. data/ && rm -r before"));
        Self(it)
    }

    /// Leaves room for nothing, not even for a line in the logs, which are at the end of a page then.
    fn fill(&self) {
        self.0.ok(&format!("mount -o remount,size={SMALL} data"));
        self.0.ok("cat /dev/zero > data/filler 2>/dev/null || true");
        self.0.ok("truncate -s %4096 data/c5c3.log data/nodes/node-1/agent.log");
    }

    fn make_room(&self) {
        self.0.ok(&format!("mount -o remount,size={ROOMY} data"));
    }
}

impl Drop for Disk<'_> {
    /// A test that fails leaves the disk full, and removing a cluster takes room.
    fn drop(&mut self) {
        let _ = Command::new("mount").args(["-o", &format!("remount,size={ROOMY}")]).arg(self.0.data()).status();
    }
}

/// Which pod it is, and how often its container was started.
const BOX: &str = "kubectl get pod box -o jsonpath='{.metadata.uid} {.status.containerStatuses[*].restartCount}'";

/// What there is of what was written while the disk was full, and before.
const KEPT: &str = "kubectl get configmaps -o name | grep -c of-; kubectl get pod box -o name";

#[test]
fn a_cluster_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    let mut it = Machine::up(1);
    it.down(false);
    let disk = Disk::under(&it);
    it.again();
    it.ok("kubectl run box --image=c5c3.local/busybox:1 --restart=Never -- sleep 3600");
    it.ok("kubectl wait --for=condition=Ready pod/box --timeout=90s");
    let before = it.ok(BOX);

    disk.fill();
    // From large to small until none has room: a write that has, such as that of a lease, would make the server ready again.
    for size in ["100000", "10000", "1000", "1"] {
        it.ok(&format!("head -c {size} /dev/zero | tr '\\0' x > value"));
        let create = format!("kubectl create configmap of-{size}-$n --from-file=value");
        let until_refused = format!("for n in $(seq 40); do {create} >/dev/null 2>refusal || break; done; cat refusal");
        let refused = it.ok(&until_refused);
        assert!(refused.contains("No space left on device"), "{size} bytes: {refused}");
    }
    let why = "[-]store failed: the log cannot be written: No space left on device";
    for look in ["kubectl get --raw /readyz", "$C5C3 status", "$C5C3 why"] {
        let said = it.ok(&format!("if {look}; then echo it is well; fi 2>&1"));
        assert!(said.contains(why) && !said.contains("it is well"), "{look}: {said}");
    }
    it.says("kubectl get --raw /livez", "ok");
    let kept = it.ok(KEPT);

    disk.make_room();
    it.eventually("kubectl get --raw /readyz", "ok");
    it.ok("kubectl create configmap after --from-literal=room=much");
    it.ok("kubectl run later --image=c5c3.local/busybox:1 --restart=Never -- sleep 3600");
    it.ok("kubectl wait --for=condition=Ready pod/later node/node-1 --timeout=120s");
    it.says(BOX, &before);
    assert!(!it.ok("$C5C3 status 2>&1 || true").contains("the API server is not ready"));

    // And what was acknowledged while the disk was full is there after a crash.
    it.kill();
    it.again();
    it.says(KEPT, &kept);
    it.ok("kubectl get configmap after");
}

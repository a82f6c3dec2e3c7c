//! A cluster of a test's own on this machine, with the image that its pods are made of.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use c5c3_cri::images;

/// How long something may take that needs a node, a scheduler and a few pods on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A cluster that runs. Dropping it removes it.
pub struct Machine {
    folder: tempfile::TempDir,
    nodes: u8,
    /// What it is started with: without a ControlPlane, or with the one of a file.
    content: &'static str,
}

impl Machine {
    /// Starts a cluster with that many nodes.
    pub fn up(nodes: u8) -> Self {
        Self::up_marked(nodes, "")
    }

    /// Starts a cluster with that many nodes, and with these options.
    pub fn up_marked(nodes: u8, options: &str) -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap(), nodes, content: "--bare" };
        let image = images::busybox(Path::new("/bin/busybox")).unwrap().archive().unwrap();
        std::fs::create_dir_all(it.data().join("images")).unwrap();
        std::fs::write(it.data().join("images/busybox.tar"), image).unwrap();
        it.start(options);
        it.has_image("c5c3.local/busybox");
        it
    }

    /// Starts a cluster that has images of ours, which are built first if need be.
    pub fn up_with(nodes: u8, images: &[&str]) -> Self {
        let it = Self::up(nodes);
        it.ok(&format!("$C5C3 image import --data $PWD/data {}", images.join(" ")));
        for image in images {
            it.has_image(&format!("ghcr.io/c5c3/{image}"));
        }
        it
    }

    /// Gives the nodes the image of this very program, which speaks TLS for services: itself without symbols, and what it
    /// is linked to. What `image import` makes of it would stay in the cache of images, another one after each build.
    pub fn import_itself(&self) {
        self.ok("strip -o c5c3 $C5C3");
        let libraries = self.ok("ldd $C5C3 | grep -o '/[^ ]*'");
        let files = libraries.lines().map(|path| (path.trim_start_matches('/'), PathBuf::from(path)));
        let files = files.chain([("usr/local/bin/c5c3", self.folder.path().join("c5c3"))]);
        let layer = files
            .fold(images::Layer::new(), |layer, (path, file)| layer.file(path, 0o755, std::fs::read(file).unwrap()));
        let name = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));
        let image = images::Image { name: name.into(), config: images::Config::default(), layer };
        self.write("c5c3.part", &image.archive().unwrap());
        // A half-written archive would be imported.
        self.ok("mv c5c3.part data/images/c5c3.tar");
        self.has_image("ghcr.io/c5c3/c5c3");
    }

    /// Waits until every node has an image.
    fn has_image(&self, name: &str) {
        for node in 1..=self.nodes {
            let names = format!("kubectl get node node-{node} -o jsonpath='{{.status.images[*].names}}'");
            self.eventually(&format!("{names} | grep -c {name}:"), "1");
        }
    }

    /// Starts a cluster with one node, and stays until the ControlPlane in this text is ready.
    pub fn up_to_ready(control_plane: &str) -> Self {
        Self::up_to_ready_with(control_plane, "")
    }

    /// The same with more options.
    pub fn up_to_ready_with(control_plane: &str, options: &str) -> Self {
        Self::up_to_ready_on(1, control_plane, options)
    }

    /// The same with so many nodes.
    pub fn up_to_ready_on(nodes: u8, control_plane: &str, options: &str) -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap(), nodes, content: "-f $PWD/plane.yaml" };
        it.write("plane.yaml", control_plane);
        it.start(options);
        it
    }

    /// The same for one that is called late before it is ready, and comes up nevertheless.
    pub fn up_late_to_ready(control_plane: &str) -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap(), nodes: 1, content: "-f $PWD/plane.yaml" };
        it.write("plane.yaml", control_plane);
        let said = it.ok("$C5C3 up -f $PWD/plane.yaml --timeout 0 --detach --data $PWD/data && echo not late || true");
        assert!(said.contains("is late") && said.contains("c5c3 why") && !said.contains("not late"), "{said}");
        it.ok("! test -e data/clouds.yaml");
        it.eventually("test -s data/clouds.yaml && echo written", "written");
        it
    }

    /// Starts the cluster once more.
    pub fn again(&self) {
        self.start("");
    }

    fn start(&self, options: &str) {
        self.ok(&format!("$C5C3 up {} --detach --data $PWD/data --nodes {} {options}", self.content, self.nodes));
    }

    /// Kills the process that runs the cluster with SIGKILL, and waits until it is gone.
    pub fn kill(&self) {
        self.ok("pid=$(cat data/lock); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done");
    }

    /// Kills a program in pods as a crash would, in all of them at once, and waits until that has been noticed.
    pub fn crash(&self, namespace: &str, pods: &[String], program: &str) {
        let restarts = |pod: &String| {
            let count = "{.status.containerStatuses[0].restartCount}";
            format!("kubectl -n {namespace} get pod {pod} -o jsonpath='{count}'")
        };
        let before: Vec<u32> = pods.iter().map(|pod| self.ok(&restarts(pod)).parse().unwrap()).collect();
        let kill = format!("sh -c 'kill -9 $(pgrep -x {program})'");
        let kills = pods.iter().map(|pod| format!("kubectl -n {namespace} exec {pod} -- {kill} &\n"));
        self.ok(&format!("{}wait", kills.collect::<String>()));
        for (pod, before) in pods.iter().zip(before) {
            self.eventually(&restarts(pod), &(before + 1).to_string());
        }
    }

    /// Ends the cluster.
    pub fn down(&mut self, wipe: bool) {
        self.ok(if wipe { "$C5C3 down --data $PWD/data --wipe" } else { "$C5C3 down --data $PWD/data" });
    }

    /// The cluster's data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What this cluster has on the machine outside its data folder: processes, mounts, links, rules, cgroups, files.
    pub fn traces(&self) -> String {
        let look = "
            ps -eo pid,args | grep -v grep | grep -e DATA -e /run/c5c3-INSTANCE
            grep -e DATA -e c5c3-INSTANCE /proc/self/mounts
            ip -o link | grep -e -INSTANCE
            nft list tables | grep -e -INSTANCE
            find /sys/fs/cgroup -name 'c5c3-INSTANCE*'
            ls -d /run/c5c3-INSTANCE /var/lib/cni/results/*INSTANCE* 2>/dev/null";
        let instance = c5c3_cri::Instance::of(&self.data()).to_string();
        let data = self.data().display().to_string();
        let look = look.replace("INSTANCE", &instance).replace("DATA", &data);
        // Not by way of a shell that would have these words in its own arguments.
        self.write("look.sh", &look);
        self.run("sh look.sh").0
    }

    /// Writes a file for the commands to read.
    pub fn write(&self, name: &str, content: &(impl AsRef<[u8]> + ?Sized)) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn run(&self, line: &str) -> (String, bool) {
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {line}\n}} 2>&1")])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.data().join("kubeconfig"))
            .env("C5C3", env!("CARGO_BIN_EXE_c5c3"))
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said: String = said.split_inclusive('\n').filter(|line| !is_of_the_first_message(line)).collect();
        (said.trim_end().to_owned(), output.status.success())
    }

    /// What a line prints that succeeds.
    pub fn ok(&self, line: &str) -> String {
        let (text, good) = self.run(line);
        assert!(good, "{line}\n{text}\n{}", self.logs());
        text
    }

    /// Asserts that a line succeeds and prints exactly this.
    pub fn says(&self, line: &str, wanted: &str) {
        let text = self.ok(line);
        assert_eq!(text, wanted, "{line}\n{}", self.logs());
    }

    /// Repeats a line until it prints exactly this.
    pub fn eventually(&self, line: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let (text, _) = self.run(line);
            if text == wanted {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never {wanted:?}, but {text:?}: {line}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// What is needed to understand a failure.
    fn logs(&self) -> String {
        let state = self.run("kubectl get nodes,pods -A -o wide; kubectl get events -A | tail -n 30").0;
        // Of pods that are ready only what looks like the trace of a failure: an answer of theirs may be the cause.
        let pods = r#"kubectl get pods -A --no-headers | grep -v Completed | while read -r namespace pod ready rest; do
            if [ "${ready%/*}" = "${ready#*/}" ]; then
                kubectl logs -n "$namespace" "$pod" --all-containers --tail=3000 2>/dev/null |
                    grep -E 'ERROR|CRITICAL|WARN| (401|500|503) ' | tail -n 12 | sed "s|^|$namespace/$pod: |"
            else
                echo "$namespace/$pod:"; kubectl logs -n "$namespace" "$pod" --tail=40
            fi
        done"#;
        let pods = self.run(pods).0;
        let end = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(15).collect();
            format!("{}:\n{}", path.display(), lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
        };
        let nodes = (1..=self.nodes).map(|node| end(self.data().join(format!("nodes/node-{node}/agent.log"))));
        [state, pods, end(self.data().join("c5c3.log"))].into_iter().chain(nodes).collect::<Vec<_>>().join("\n")
    }
}

/// Whether kubectl logs that it dropped a message: containerd begins each exec with an empty one, which sometimes arrives before
/// kubectl reads that stream.
fn is_of_the_first_message(line: &str) -> bool {
    line.contains("websocket.go") && line.contains("Unknown stream id 1, discarding message")
}

/// Where things are kept for longer than a test: images, the Python clients.
pub fn cache() -> PathBuf {
    c5c3_images::Cache::default_path().ancestors().nth(2).unwrap().to_owned()
}

impl Drop for Machine {
    fn drop(&mut self) {
        let (text, good) = self.run("$C5C3 down --data $PWD/data --wipe");
        assert!(good || std::thread::panicking(), "the cluster could not be removed: {text}");
    }
}

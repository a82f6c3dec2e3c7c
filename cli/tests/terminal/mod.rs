//! A terminal with kubectl and a server of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::server::Apiserver;

/// The oldest kubectl that these sessions are written for. Older ones read OpenAPI as protobuf only.
const OLDEST: u32 = 29;

/// A deployment, a config map and a Keystone, as a user would write them.
const FILES: [(&str, &str); 4] = [
    (
        "web.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: 'nginx:1', ports: [{containerPort: 80}]}]}
",
    ),
    (
        "settings.yaml",
        "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {colour: blue}
",
    ),
    (
        "red.yaml",
        "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {colour: red}
",
    ),
    (
        "identity.yaml",
        "apiVersion: keystone.openstack.c5c3.io/v1alpha1
kind: Keystone
metadata: {name: identity}
spec: {replicas: 1}
",
    ),
];

/// A shell in a folder with [`FILES`], where kubectl and c5c3 speak to a fresh server.
pub struct Terminal {
    folder: tempfile::TempDir,
    _server: Apiserver,
}

impl Terminal {
    pub fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
        let terminal = Self { folder, _server: server };
        for (name, text) in FILES {
            terminal.write(name, text);
        }
        let version = terminal.ok("kubectl version --client -o json");
        let version: serde_json::Value = serde_json::from_str(&version).unwrap();
        let minor = version["clientVersion"]["minor"].as_str().unwrap().trim_end_matches('+').parse::<u32>().unwrap();
        assert!(minor >= OLDEST, "kubectl 1.{minor} is older than 1.{OLDEST}; `make test` installs a newer one");
        terminal
    }

    /// A terminal where Keystone's definition is served.
    pub fn with_keystone() -> Self {
        let terminal = Self::open();
        let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/keystone.openstack.c5c3.io_keystones.yaml");
        terminal.ok(&format!("kubectl apply --server-side -f {crd}"));
        let name = "keystones.keystone.openstack.c5c3.io";
        let waited = terminal.ok(&format!("kubectl wait --for=condition=Established crd/{name} --timeout=20s"));
        assert_eq!(waited, format!("customresourcedefinition.apiextensions.k8s.io/{name} condition met"));
        terminal
    }

    /// Where the server's address and the administrator's certificate are.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Writes a file for the commands to read.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// A shell that runs this.
    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.folder.path()).env("HOME", self.folder.path());
        shell.env("KUBECONFIG", self.kubeconfig()).env("C5C3", env!("CARGO_BIN_EXE_c5c3"));
        shell
    }

    /// Runs a line: what it prints, both streams, and its exit code.
    pub fn run(&self, line: &str) -> (String, i32) {
        let output = self.shell(&format!("{{ {line}\n}} 2>&1")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
        let code = output.status.code().unwrap();
        assert!(code != 127, "{line}: {text}\nkubectl is not on the PATH; `make test` installs it");
        (text, code)
    }

    /// Starts a kubectl that watches something, and returns when it does: it hears of all that happens from now on.
    pub fn watching(&self, line: &str) -> Watching {
        let (out, log) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
        // It logs each request that was answered.
        let mut shell = self.shell(&format!("exec {line} -v=6"));
        shell.stdout(out.reopen().unwrap()).stderr(log.reopen().unwrap()).stdin(Stdio::null());
        let watching = Watching { line: line.to_owned(), child: shell.spawn().unwrap(), out, log };
        watching.wait("watches", |watching| read(&watching.log).contains("watch=true"));
        watching
    }

    /// What a line prints that succeeds.
    pub fn ok(&self, line: &str) -> String {
        let (text, code) = self.run(line);
        assert_eq!(code, 0, "{line}\n{text}");
        text
    }

    /// Asserts that a line succeeds and prints exactly this.
    pub fn says(&self, line: &str, wanted: &str) {
        assert_eq!(self.ok(line), wanted, "{line}");
    }

    /// Asserts that a line succeeds and prints all of these parts.
    pub fn tells(&self, line: &str, parts: &[&str]) {
        let text = self.ok(line);
        for part in parts {
            assert!(text.contains(part), "{line}\ndoes not print {part:?}, but:\n{text}");
        }
    }

    /// Asserts that a line fails with exit code 1 and a message that holds this part.
    pub fn fails(&self, line: &str, part: &str) {
        let (text, code) = self.run(line);
        assert_eq!(code, 1, "{line}\n{text}");
        assert!(text.contains(part), "{line}\ndoes not fail with {part:?}, but:\n{text}");
    }

    /// The words of each line that a line prints, without its header: a table without its spacing.
    pub fn rows(&self, line: &str) -> Vec<Vec<String>> {
        let text = self.ok(line);
        text.lines().skip(1).map(|row| row.split_whitespace().map(ToOwned::to_owned).collect()).collect()
    }
}

/// A kubectl that watches something. Dropping it kills it.
pub struct Watching {
    line: String,
    child: Child,
    out: NamedTempFile,
    log: NamedTempFile,
}

impl Watching {
    /// What it has printed, once that is enough.
    pub fn until(self, enough: impl Fn(&str) -> bool) -> String {
        self.wait("prints enough", |watching| enough(&read(&watching.out)));
        read(&self.out)
    }

    /// Asserts that it ends well, and has printed exactly this by then.
    pub fn ends(mut self, wanted: &str) {
        let began = Instant::now();
        let ended = loop {
            match self.child.try_wait().unwrap() {
                Some(ended) => break ended,
                None => self.pause(began, "ends"),
            }
        };
        let text = read(&self.out);
        assert!(ended.success() && text.trim_end() == wanted, "{}: {ended}\n{text}{}", self.line, read(&self.log));
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            self.pause(began, what);
        }
    }

    fn pause(&self, began: Instant, what: &str) {
        let told = || format!("{}{}", read(&self.out), read(&self.log));
        assert!(began.elapsed() < Duration::from_mins(1), "{} never {what}:\n{}", self.line, told());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(file: &NamedTempFile) -> String {
    std::fs::read_to_string(file.path()).unwrap()
}

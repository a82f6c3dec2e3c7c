//! The Python client of the Kubernetes project against `c5c3 apiserver`; what is checked is in `python_client.py`.

mod interpreter;
mod server;

use std::process::Command;

use interpreter::interpreter;
use server::Apiserver;

#[test]
fn the_python_client_cannot_tell_it_from_another_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Apiserver::start(folder.path(), &["--in-memory", "--listen", "127.0.0.1:0"]);
    let output = Command::new(interpreter())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_client.py"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/keystone.openstack.c5c3.io_keystones.yaml"))
        .env("KUBECONFIG", &server.kubeconfig)
        // The dynamic client keeps what it discovers in the temporary folder.
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.ends_with("ok\n"), "{said}");
}

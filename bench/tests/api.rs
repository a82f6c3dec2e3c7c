//! `bench api` on a small scale, against a server that listens.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::Command;
use std::time::Duration;

use c5c3_apiserver::{Config, Server, Storage, listen};
use c5c3_auth::{Credential, kubeconfig, write_kubeconfig};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_are_put_beside_each_other_and_left_as_they_were() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
    let listening = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let life = Duration::from_hours(1);
    let admin = server.pki().issue_client("admin", &["system:masters"], life, jiff::Timestamp::now()).unwrap();
    let url = format!("https://{}", listening.address);
    let content = kubeconfig(&url, server.pki().ca_pem(), &Credential::Certificate(admin));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    write_kubeconfig(&file, &content).unwrap();

    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(["api", "--objects", "40", "--clients", "4", "--watchers", "3", "--changes", "5", "--kubeconfig"]);
    bench.arg(&file).arg("--against").arg(&file);
    let pid = std::process::id().to_string();
    bench.args(["--pid", &pid, "--against-pid", &pid]);
    let output = tokio::task::spawn_blocking(move || bench.output().unwrap()).await.unwrap();
    let (table, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    for row in ["creates", "gets", "lists of all, by 500", "events delivered", "applies of the same", "memory"] {
        let line = table.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no {row}: {table}"));
        assert!(line.ends_with(" x"), "no ratio: {line}");
    }

    let read = Kubeconfig::read_from(&file).unwrap();
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(kube::Client::try_from(config).unwrap());
    let gone = async {
        while namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .any(|namespace| namespace.metadata.name.as_deref().is_some_and(|name| name.starts_with("bench-")))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone).await.expect("its namespaces go");
}

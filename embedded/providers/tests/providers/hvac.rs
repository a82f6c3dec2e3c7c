//! The store, used by the `hvac` client; what is checked is in `hvac_client.py`.

use std::path::PathBuf;

use crate::external_secrets::Served;
use crate::stage::Stage;

/// The interpreter that has the client: where the Makefile puts it.
fn interpreter() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.expect("HOME is not set").join("c5c3/python/bin/python")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hvac_client_cannot_tell_it_from_openbao() {
    let python = interpreter();
    assert!(python.exists(), "there is no {}; `make test` makes it", python.display());
    let (stage, folder) = (Stage::set().await, tempfile::tempdir().unwrap());
    let served = Served::start(folder.path(), &stage).await;
    let output = tokio::process::Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/providers/hvac_client.py"))
        .arg(&served.url)
        .env("VAULT_TOKEN", &served.token)
        .output()
        .await
        .unwrap();
    let [said, warned] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && said == "ok\n", "{said}{warned}");
}

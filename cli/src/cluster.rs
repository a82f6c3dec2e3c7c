//! `c5c3 down`, `env`, `doctor` and `node`: what is done with the cluster on this machine beside starting it.

use std::fmt::Write as _;
use std::future::Future;
use std::process::ExitCode;

use c5c3_cluster::{Ask, Folder, agent, doctor};
use c5c3_kit::logging::{self, Format};
use c5c3_providers::store;

use crate::args::{DataArgs, DownArgs, NodeAgentArgs, NodeArgs, NodeChange};
use crate::up::{clouds, folder, say};
use crate::{Done, print};

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    Ok(runtime.block_on(work))
}

pub(crate) fn down(args: &DownArgs) -> Done {
    let folder = folder(&args.data)?;
    let ended = block_on(c5c3_cluster::down(&folder, args.wipe, &say))?;
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

pub(crate) fn env(args: &DataArgs) -> Done {
    let folder = folder(args)?;
    let kubeconfig = folder.kubeconfig();
    if !kubeconfig.exists() {
        return Err(format!("{} does not exist: start the cluster with `c5c3 up`", kubeconfig.display()));
    }
    let mut lines = format!("export KUBECONFIG={}\n", quoted(&kubeconfig.display().to_string()));
    let clouds = clouds::path(&folder);
    if clouds.exists() {
        let file = quoted(&clouds.display().to_string());
        let _ = writeln!(lines, "export OS_CLIENT_CONFIG_FILE={file}\nexport OS_CLOUD={}", clouds::CLOUD);
    }
    lines.push_str(&store_env(&folder));
    print(&lines)
}

/// How OpenBao's clients find the store of secrets. Its token stays in its file.
fn store_env(folder: &Folder) -> String {
    let place = folder.store();
    let Ok(address) = std::fs::read_to_string(place.join(store::ADDRESS)) else { return String::new() };
    let path = |name: &str| quoted(&place.join(name).display().to_string());
    format!(
        "export VAULT_ADDR={}\nexport VAULT_CACERT={}\n# The token that may do everything is in {}\n",
        quoted(&address),
        path(store::AUTHORITY),
        path(store::ROOT_TOKEN)
    )
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(crate) fn doctor(args: &DataArgs) -> Done {
    let findings = doctor::examine(&folder(args)?);
    for finding in &findings {
        say(&finding.to_string());
    }
    let good = findings.iter().all(doctor::Finding::is_bearable);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn node(args: NodeArgs) -> Done {
    let (ask, name): (fn(String) -> Ask, _) = match args.change {
        NodeChange::Stop(name) => (Ask::Stop, name),
        NodeChange::Start(name) => (Ask::Start, name),
        NodeChange::Cut(name) => (Ask::Cut, name),
    };
    let folder = folder(&name.data)?;
    say(&block_on(c5c3_cluster::ask(&folder, &ask(name.name)))??);
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn node_agent(args: &NodeAgentArgs) -> Done {
    logging::start(Format::Text, &args.log)?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    block_on(agent::run(&args.config))?.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_any_path_as_one_word() {
        assert_eq!(quoted("/home/ada lovelace/it's"), r"'/home/ada lovelace/it'\''s'");
    }
}

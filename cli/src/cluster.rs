//! `c5c3 down`, `env`, `doctor` and `node`: what is done with the cluster on this machine beside starting it.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;

use c5c3_cluster::{Ask, Folder, agent, doctor};
use c5c3_kit::logging::{self, Format};
use c5c3_providers::store;
use serde_json::{Value, json};

use crate::args::{DoctorArgs, DownArgs, EnvArgs, NodeAgentArgs, NodeArgs, NodeChange, Output, Shell};
use crate::up::{clouds, folder, say};
use crate::{Done, print, print_value};

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    Ok(runtime.block_on(work))
}

pub(crate) fn down(args: &DownArgs) -> Done {
    let folder = folder(&args.data)?;
    let ended = block_on(c5c3_cluster::down(&folder, args.wipe, &say))?;
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

pub(crate) fn env(args: &EnvArgs) -> Done {
    let folder = folder(&args.data)?;
    let kubeconfig = folder.kubeconfig();
    if !kubeconfig.exists() {
        return Err(format!("{} does not exist: start the cluster with `c5c3 up`", kubeconfig.display()));
    }
    let token = folder.store().join(store::ROOT_TOKEN);
    let comment = format!("# The token that may do everything in the store of secrets is in {}\n", token.display());
    print(&(script(&variables(&folder), args.shell) + if token.exists() { &comment } else { "" }))
}

/// What binds a shell to the cluster of a folder. What the cluster does not have is unset, or the shell would keep the value
/// of another cluster.
fn variables(folder: &Folder) -> Vec<(&'static str, Option<String>)> {
    let text = |path: &Path| path.display().to_string();
    let mut variables =
        vec![("KUBECONFIG", Some(text(&folder.kubeconfig()))), ("C5C3_DATA", Some(text(folder.path())))];
    let clouds = Some(clouds::path(folder)).filter(|clouds| clouds.exists());
    variables.push(("OS_CLIENT_CONFIG_FILE", clouds.as_deref().map(text)));
    variables.push(("OS_CLOUD", clouds.map(|_| clouds::CLOUD.to_owned())));
    let provider = folder.provider_network();
    variables.push(("C5C3_PROVIDER_RANGE", provider.map(|(range, _)| range.to_string())));
    variables.push(("C5C3_PROVIDER_GATEWAY", provider.map(|(_, gateway)| gateway.to_string())));
    let place = folder.store();
    let address = std::fs::read_to_string(place.join(store::ADDRESS)).ok();
    let authority = address.as_ref().map(|_| text(&place.join(store::AUTHORITY)));
    variables.extend([("VAULT_ADDR", address), ("VAULT_CACERT", authority)]);
    variables
}

/// Sets and unsets variables, in the words of a shell.
fn script(variables: &[(&str, Option<String>)], shell: Shell) -> String {
    let line = |(name, value): &(&str, Option<String>)| match (shell, value) {
        (Shell::Sh, Some(value)) => format!("export {name}={}\n", quoted(value)),
        (Shell::Sh, None) => format!("unset {name}\n"),
        (Shell::Fish, Some(value)) => format!("set -gx {name} '{}'\n", value.replace('\\', r"\\").replace('\'', r"\'")),
        (Shell::Fish, None) => format!("set -e {name}\n"),
    };
    variables.iter().map(line).collect()
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(crate) fn doctor(args: &DoctorArgs) -> Done {
    let findings = doctor::examine(&folder(&args.data)?);
    match args.output {
        Output::Text => findings.iter().for_each(|finding| say(&finding.to_string())),
        Output::Json | Output::Yaml => {
            let findings: Vec<Value> = findings.iter().map(as_json).collect();
            print_value(&json!({ "findings": findings }), args.output)?;
        }
    }
    let good = findings.iter().all(doctor::Finding::is_bearable);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(finding: &doctor::Finding) -> Value {
    let state = match (&finding.fix, finding.is_bearable()) {
        (None, _) => "ok",
        (Some(_), true) => "warning",
        (Some(_), false) => "problem",
    };
    json!({"check": finding.check, "state": state, "seen": finding.seen, "remedy": finding.fix})
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

    #[test]
    fn a_shell_is_bound_to_one_cluster_and_keeps_nothing_of_another() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::new(data.path()).unwrap();
        let bare = script(&variables(&folder), Shell::Sh);
        assert!(bare.contains(&format!("export C5C3_DATA='{}'\n", data.path().display())), "{bare}");
        assert!(bare.contains("unset OS_CLOUD\n") && bare.contains("unset VAULT_ADDR\n"), "{bare}");
        std::fs::write(clouds::path(&folder), "").unwrap();
        assert!(script(&variables(&folder), Shell::Sh).contains("export OS_CLOUD='c5c3'\n"));
        let fish = script(&[("A", Some(r"it's a \".into())), ("B", None)], Shell::Fish);
        assert_eq!(fish, "set -gx A 'it\\'s a \\\\'\nset -e B\n");
    }
}

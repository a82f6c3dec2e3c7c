//! Which cluster a command is about. A cluster that was named is the one that is asked, or the command fails: it never answers
//! about another one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use c5c3_cluster::Folder;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::TargetArgs;

/// Where the description of the cluster is.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// Kubeconfigs, merged in this order.
    Files(Vec<PathBuf>),
    /// The service account of the pod that this runs in.
    Pod,
}

/// What decides when no flag does.
struct Environment {
    kubeconfig: Option<OsString>,
    data: Option<PathBuf>,
    /// The kubeconfig of the user.
    home: Option<PathBuf>,
    is_in_pod: bool,
    /// The data folder when none is named.
    default_data: PathBuf,
}

impl Environment {
    fn here() -> Self {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            kubeconfig: named("KUBECONFIG"),
            data: named("C5C3_DATA").map(Into::into),
            home: named("HOME").map(|home| Path::new(&home).join(".kube/config")),
            is_in_pod: named("KUBERNETES_SERVICE_HOST").is_some(),
            default_data: Folder::default_path(),
        }
    }
}

/// The cluster that the flags name, else `KUBECONFIG`, `C5C3_DATA`, the user's kubeconfig, the pod, the cluster on this machine.
fn choose(args: &TargetArgs, data: Option<&Path>, environment: &Environment) -> Result<Source, String> {
    if let Some(data) = data {
        return started(data);
    }
    if let Some(file) = &args.kubeconfig {
        return Ok(Source::Files(vec![file.clone()]));
    }
    if let Some(files) = &environment.kubeconfig {
        let files = std::env::split_paths(files).filter(|file| !file.as_os_str().is_empty());
        return Ok(Source::Files(files.collect()));
    }
    if let Some(data) = &environment.data {
        return started(data);
    }
    if let Some(file) = environment.home.clone().filter(|file| file.exists()) {
        return Ok(Source::Files(vec![file]));
    }
    if environment.is_in_pod {
        return Ok(Source::Pod);
    }
    started(&environment.default_data)
}

/// The cluster of a data folder.
fn started(data: &Path) -> Result<Source, String> {
    let file = data.join("kubeconfig");
    if file.exists() {
        return Ok(Source::Files(vec![file]));
    }
    Err(format!(
        "there is no cluster in {}; start one with `c5c3 up`, or name another with --kubeconfig or KUBECONFIG",
        data.display()
    ))
}

/// How to reach the cluster that the flags and the environment name.
pub(crate) async fn config(args: &TargetArgs, data: Option<&Path>) -> Result<Config, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match choose(args, data, &Environment::here())? {
        Source::Files(files) => read(&files, args.context.as_deref()).await,
        Source::Pod => {
            Config::incluster().map_err(|error| format!("cannot use the service account of this pod: {error}"))
        }
    }
}

/// The log of the process that runs the cluster, if it is one of this machine.
pub(crate) fn log_of(args: &TargetArgs, data: Option<&Path>) -> Option<PathBuf> {
    let Ok(Source::Files(files)) = choose(args, data, &Environment::here()) else { return None };
    let [kubeconfig] = files.as_slice() else { return None };
    let folder = kubeconfig.parent().filter(|folder| folder.join("kubeconfig") == *kubeconfig)?;
    let log = Folder::new(folder).ok()?.log();
    log.is_file().then_some(log)
}

async fn read(files: &[PathBuf], context: Option<&str>) -> Result<Config, String> {
    let mut merged = Kubeconfig::default();
    let names = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    for file in files {
        let read = Kubeconfig::read_from(file).and_then(|read| merged.merge(read));
        merged = read.map_err(|error| format!("cannot read the kubeconfig {}: {}", file.display(), root(&error)))?;
    }
    let options = KubeConfigOptions { context: context.map(ToOwned::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(merged, &options).await;
    config.map_err(|error| format!("cannot use the kubeconfig {names}: {}", root(&error)))
}

/// The innermost cause of an error: what the system said, without the layers above it.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(folder: &Path) -> Environment {
        Environment {
            kubeconfig: None,
            data: None,
            home: Some(folder.join("home")),
            is_in_pod: false,
            default_data: folder.join("default"),
        }
    }

    /// A data folder of a cluster that was started.
    fn cluster(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        let file = folder.join(name).join("kubeconfig");
        std::fs::write(&file, "").unwrap();
        file
    }

    #[test]
    fn a_flag_beats_the_environment_and_the_environment_beats_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (named, default) = (cluster(folder, "named"), cluster(folder, "default"));
        let none = TargetArgs::default();
        let mut here = environment(folder);
        assert_eq!(choose(&none, None, &here), Ok(Source::Files(vec![default])));
        here.is_in_pod = true;
        assert_eq!(choose(&none, None, &here), Ok(Source::Pod));
        std::fs::write(folder.join("home"), "").unwrap();
        assert_eq!(choose(&none, None, &here), Ok(Source::Files(vec![folder.join("home")])));
        here.data = Some(folder.join("named"));
        assert_eq!(choose(&none, None, &here), Ok(Source::Files(vec![named.clone()])));
        here.kubeconfig = Some("/a:/b".into());
        assert_eq!(choose(&none, None, &here), Ok(Source::Files(vec!["/a".into(), "/b".into()])));
        let flag = TargetArgs { kubeconfig: Some("/c".into()), context: None };
        assert_eq!(choose(&flag, None, &here), Ok(Source::Files(vec!["/c".into()])));
        assert_eq!(choose(&none, Some(&folder.join("named")), &here), Ok(Source::Files(vec![named])));
    }

    #[test]
    fn a_cluster_that_was_named_and_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        cluster(folder.path(), "default");
        let here = environment(folder.path());
        let error = choose(&TargetArgs::default(), Some(&folder.path().join("typo")), &here).unwrap_err();
        assert!(error.starts_with("there is no cluster in ") && error.contains("typo"), "{error}");
        let lost = Environment { data: Some(folder.path().join("typo")), ..here };
        assert!(choose(&TargetArgs::default(), None, &lost).is_err());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_missing_or_broken_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken");
        std::fs::write(&broken, "clusters: [").unwrap();
        for file in [folder.path().join("missing"), broken] {
            let error = read(std::slice::from_ref(&file), None).await.unwrap_err();
            assert!(
                error.starts_with("cannot read the kubeconfig") && error.contains(file.to_str().unwrap()),
                "{error}"
            );
        }
    }
}

//! Tells what tests left on a cluster, and removes it: `leftovers KUBECONFIG [--remove]`. Ends with 1 if anything is left.

use std::process::ExitCode;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (file, remove) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [file] => (file, false),
        [file, "--remove"] => (file, true),
        _ => return Err("usage: leftovers KUBECONFIG [--remove]".into()),
    };
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let left = if remove {
        c5c3_harness::remove_leftovers(&client).await?
    } else {
        c5c3_harness::leftovers(&client).await?.iter().map(ToString::to_string).collect()
    };
    for what in &left {
        eprintln!("{what}");
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `c5c3 providers`: what stands in for the operators of MariaDB, RabbitMQ, Valkey, Ceph, cert-manager, External Secrets and Flux, on a
//! cluster that has none of them.

use std::process::ExitCode;

use c5c3_kit::logging::{self, Format};
use c5c3_providers::definitions_without;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::args::ProvidersArgs;
use crate::cluster::block_on;
use crate::operator::stop_asked;
use crate::{Done, target};

pub(crate) fn run(args: &ProvidersArgs) -> Done {
    logging::start(Format::Text, &args.log)?;
    block_on(async {
        let config = target::config(&args.target, None).await?;
        let client =
            c5c3_kit::client::client(config).map_err(|error| format!("no cluster: {}", target::root(&error)))?;
        let switched_off = &args.without.without_provider;
        let genuine = genuine(&client, switched_off).await?;
        if !genuine.is_empty() {
            let kinds = genuine.join(", ");
            eprintln!(
                "c5c3: their own projects installed {kinds}; stop their operators, or leave out the providers of these \
                 kinds with --without-provider, because two would undo each other's work"
            );
        }
        let stop = CancellationToken::new();
        tokio::select! {
            () = c5c3_providers::run(client, switched_off.clone(), stop.clone()) => {}
            () = stop_asked() => stop.cancel(),
        }
        Ok(ExitCode::SUCCESS)
    })?
}

/// The kinds of the providers that run which other projects installed themselves.
async fn genuine(client: &Client, switched_off: &[String]) -> Result<Vec<String>, String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let installed = definitions.list(&ListParams::default()).await;
    let installed =
        installed.map_err(|error| format!("cannot list the kinds of the cluster: {}", target::root(&error)))?;
    let ours: Vec<String> = definitions_without(switched_off).iter().map(ResourceExt::name_any).collect();
    let is_foreign = |definition: &&CustomResourceDefinition| {
        ours.contains(&definition.name_any()) && !c5c3_providers::definitions::is_ours(definition)
    };
    Ok(installed.iter().filter(is_foreign).map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests {
    use c5c3_harness::TestCluster;

    use super::*;

    #[tokio::test]
    async fn kinds_that_another_project_installed_are_named() {
        let cluster = TestCluster::start().await.unwrap();
        let mut definition = definitions_without(&[]).into_iter().find(|one| one.spec.names.kind == "Valkey").unwrap();
        definition.metadata.labels = None;
        cluster.install(&definition).await.unwrap();
        let client = cluster.client();
        assert_eq!(genuine(&client, &[]).await.unwrap(), ["valkeys.cache.cs.sap.com"]);
        let off = ["valkey-operator".to_owned()];
        assert!(genuine(&client, &off).await.unwrap().is_empty(), "nothing here touches them");
    }
}

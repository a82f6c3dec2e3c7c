//! The operators of an embedded cluster: their kinds, their accounts, and themselves, in this process. They may do what they
//! may on any cluster.

use c5c3_cluster::Cluster;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{Settings, hash};
use c5c3_operator_hypervisor::{CloudSecret, Settings as Hypervisors};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{manifests, operator};

/// The annotation of a CRD by which an unchanged one is known at the next start.
const HASH: &str = "c5c3.io/installed-hash";

/// Who wrote it, among the managers of fields.
const MANAGER: &str = "c5c3";

/// Installs the kinds of the operators and their accounts.
pub(super) async fn install(client: &Client) -> Result<(), String> {
    definitions(client).await.map_err(|error| format!("cannot install the CRDs: {error}"))?;
    for (name, operator) in operator::named() {
        for object in manifests::account(name, &operator) {
            apply(client, &object).await.map_err(|error| format!("cannot apply the RBAC rules of {name}: {error}"))?;
        }
    }
    for role in manifests::people() {
        apply(client, &role).await.map_err(|error| format!("cannot say what people may do: {error}"))?;
    }
    Ok(())
}

/// How many CRDs are installed at once.
const AT_ONCE: usize = 4;

/// Installs the CRDs that are not there as they are now.
async fn definitions(client: &Client) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = stream::iter(c5c3_api::all()).map(|kind| define(&definitions, kind.crd()));
    all.buffer_unordered(AT_ONCE).try_collect().await
}

async fn define(
    definitions: &Api<CustomResourceDefinition>,
    mut definition: CustomResourceDefinition,
) -> Result<(), kube::Error> {
    let name = definition.name_any();
    let hash = hash::of_json(&serde_json::to_value(&definition).map_err(kube::Error::SerdeError)?);
    let installed = definitions.get_metadata_opt(&name).await?;
    if installed.is_some_and(|installed| installed.annotations().get(HASH) == Some(&hash)) {
        return Ok(());
    }
    definition.annotations_mut().insert(HASH.to_owned(), hash);
    definitions.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(definition)).await.map(drop)
}

pub(super) async fn apply(client: &Client, object: &Value) -> Result<(), kube::Error> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let params = PatchParams::apply(MANAGER).force();
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object)).await.map(drop)
}

/// The credential of a cloud that nothing is known of yet: a cluster without a ControlPlane may get one.
pub(super) fn usual_credential() -> CloudSecret {
    Hypervisors::default().cloud
}

/// What the operator of hypervisors is told.
fn hypervisors(credential: &CloudSecret) -> Hypervisors {
    let agent_namespaces = vec![credential.namespace.clone()];
    Hypervisors { cloud: credential.clone(), agent_namespaces, ..Hypervisors::default() }
}

/// How an operator runs. All look after every namespace; that of high availability has its Secrets in the cloud's.
fn options(name: &str, credential: &CloudSecret) -> RunOptions {
    let namespace = (name == "ha").then(|| credential.namespace.clone());
    RunOptions { namespace, ..RunOptions::default() }
}

/// Starts them, each with its own account. `credential` is that of the cloud whose hypervisors are looked after.
pub(super) fn start(cluster: &Cluster, credential: &CloudSecret, tasks: &TaskTracker, stop: &CancellationToken) {
    hypervisors(credential).set();
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    for (name, operator) in operator::named() {
        let client = cluster.account(manifests::embedded_home(name), &manifests::account_name(name, &operator));
        let (metrics, readiness, stop) = (metrics.clone(), readiness.clone(), stop.clone());
        let settings = Settings { options: options(name, credential), election: None };
        tasks.spawn(async move {
            operator.run(client, settings, metrics, readiness, stop).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use c5c3_cortex_server::DeschedulingSettings;
    use c5c3_kit::inputs::Found;
    use c5c3_kit::{Child, Controller, Inputs, Verdict};
    use c5c3_operator_controlplane::ControlPlanes;
    use c5c3_operator_cortex::Cortexes;
    use clap::Parser;
    use jiff::Timestamp;
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::json;

    use crate::args::{Args, Command};

    use super::*;

    /// The children of an object beside which nothing is there.
    fn children<C: Controller>(controller: &C, object: &Value) -> Vec<Child> {
        let parsed = controller.parse(object).map_err(|problems| problems.to_string()).unwrap();
        let mut inputs = Inputs::new(parsed, Timestamp::UNIX_EPOCH);
        while let Some(needed) = controller.needs(&inputs).into_iter().find(|needed| !inputs.has_read(needed)) {
            inputs.insert(needed, Found::Missing);
        }
        let Verdict::Valid(valid) = controller.validate(&inputs) else { panic!("{object} is not valid") };
        controller.plan(&valid, &inputs).steps.into_iter().flat_map(|step| step.children).collect()
    }

    /// The Secrets that rules allow to read by name.
    fn secrets(rules: &[PolicyRule]) -> BTreeSet<String> {
        let of_secrets = rules.iter().filter(|rule| rule.resources.iter().flatten().any(|kind| kind == "secrets"));
        of_secrets.flat_map(|rule| rule.resource_names.clone().unwrap_or_default()).collect()
    }

    #[test]
    fn what_acts_in_nova_reads_the_secret_that_a_control_plane_makes_for_it_and_none_of_korc() {
        let services = json!({"keystone": {}, "glance": {}, "placement": {}, "nova": {}, "neutron": {}});
        let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "lab", "namespace": "orchard"}, "spec": {"services": services, "cortex": {"enabled": true}}});
        let made = children(&ControlPlanes, &plane).into_iter();
        let made: BTreeSet<String> = made
            .filter(|child| child.resource.kind == "CredentialRotation")
            .filter_map(|child| Some(child.object.data.pointer("/spec/targetSecretRef/name")?.as_str()?.to_owned()))
            .collect();

        let ha = operator::named().find(|(name, _)| *name == "ha").unwrap().1;
        let ha = secrets(&ha.access().in_namespaces());
        let own = [c5c3_operator_ha::CLOUDS_SECRET, c5c3_operator_ha::FENCING_SECRET].map(ToOwned::to_owned);
        assert_eq!(ha, BTreeSet::from(own));
        let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex",
            "metadata": {"name": "cortex", "namespace": "orchard", "uid": "1"}, "spec": {}});
        let roles = children(&Cortexes, &object).into_iter().filter(|child| child.resource.kind == "Role");
        let rules = roles.map(|role| role.object.data["rules"].clone());
        let rules: Vec<PolicyRule> = rules.flat_map(|rules| serde_json::from_value::<Vec<_>>(rules).unwrap()).collect();
        let scheduler = DeschedulingSettings::default().clouds_secret;
        assert_eq!(secrets(&rules), BTreeSet::from([scheduler.clone()]));

        let read = [usual_credential().name, c5c3_operator_ha::CLOUDS_SECRET.to_owned(), scheduler];
        assert_eq!(made, BTreeSet::from(read));
    }

    #[test]
    fn the_flag_of_the_hypervisor_operator_is_its_own_secret_when_absent() {
        let parsed = Args::try_parse_from(["c5c3", "operator", "hypervisor"]).unwrap();
        let Command::Operator(args) = parsed.command else { panic!("another command") };
        assert_eq!(args.hypervisor.settings().cloud, usual_credential());
    }

    #[test]
    fn what_reaches_nova_is_told_the_namespace_of_the_cloud() {
        let credential = CloudSecret { namespace: "orchard".into(), ..usual_credential() };
        let told = hypervisors(&credential);
        assert_eq!((told.cloud.namespace.as_str(), told.agent_namespaces), ("orchard", vec!["orchard".to_owned()]));
        for name in operator::names() {
            let wanted = if name == "ha" { Some("orchard") } else { None };
            assert_eq!(options(name, &credential).namespace.as_deref(), wanted, "{name}");
        }
    }
}

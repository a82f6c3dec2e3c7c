//! The OVN that Neutron writes networks to: where its databases are, with what certificate they are reached, and whether they
//! are.

use c5c3_api::blocks::OvsdbConnection;
use c5c3_api::openstack::{Neutron, NeutronOvn, NeutronSpec};
use c5c3_api::ovn::OVNCluster;
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Inputs, Ref, Step, Wait};
use c5c3_service::network::Egress;
use c5c3_service::service::LookedUp;
use c5c3_service::{BackingServices, ServicePlan};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::Networking;
use crate::config::FOLDER;

/// The condition that says whether the databases answer.
pub(crate) const CONDITION: &str = "OVNConnected";

/// The OVNCluster that is used when none is named.
const CLUSTER: &str = "ovn";

/// The keys of a Secret with a certificate, and the files that they become.
const CERTIFICATE: [(&str, &str); 3] = [("tls.crt", "ovn.crt"), ("tls.key", "ovn.key"), ("ca.crt", "ovn-ca.crt")];

/// The databases, as options name them.
const NORTHBOUND: &str = "nb";
const SOUTHBOUND: &str = "sb";

/// What API pods say of the databases.
#[derive(Deserialize)]
struct Report {
    /// `Connected`, or what is wrong, which begins with the reason.
    northbound: String,
    southbound: String,
    /// Physical networks that no chassis has a bridge for.
    unmapped: Vec<String>,
}

/// What has to be read: the OVNCluster, and the certificate.
pub(crate) fn needs(inputs: &Inputs<Neutron>) -> Vec<Ref> {
    let neutron = &inputs.object;
    if !neutron.spec.has_ovn() {
        return Vec::new();
    }
    let cluster = cluster(neutron);
    let known: Option<OVNCluster> = cluster.as_ref().and_then(|cluster| inputs.typed(cluster).ok());
    cluster.into_iter().chain(secret(neutron, known.as_ref()).ok().flatten()).collect()
}

/// A certificate is three files, whatever they are called elsewhere.
pub(crate) fn problems(spec: &NeutronSpec) -> Option<Problem> {
    spec.ovn.as_ref()?.cert_secret_ref.as_ref()?.key.as_ref()?;
    let what = "names one key, and a certificate has three: tls.crt, tls.key and ca.crt";
    Some(problem("spec.ovn.certSecretRef.key", what, "remove it"))
}

/// The OVNCluster, as far as something is taken from it that the Neutron does not say itself.
fn cluster(neutron: &Neutron) -> Option<Ref> {
    let ovn = written(&neutron.spec);
    let has_both = ovn.nb_connection.is_some() && ovn.sb_connection.is_some();
    let needs_certificate = is_encrypted(&ovn) && ovn.cert_secret_ref.is_none() && ovn.cluster_ref.is_some();
    if has_both && !needs_certificate {
        return None;
    }
    let own = || neutron.namespace().unwrap_or_default();
    let (namespace, name) = match &ovn.cluster_ref {
        Some(named) => (named.namespace.as_ref().map_or_else(own, ToString::to_string), named.name.to_string()),
        None => (own(), CLUSTER.to_owned()),
    };
    Some(Ref::namespaced::<OVNCluster>(namespace, name))
}

fn written(spec: &NeutronSpec) -> NeutronOvn {
    spec.ovn.clone().unwrap_or_default()
}

/// Whether a connection that the Neutron has itself is encrypted.
fn is_encrypted(ovn: &NeutronOvn) -> bool {
    let ssl =
        |connection: &Option<OvsdbConnection>| connection.as_ref().is_some_and(|one| one.as_str().contains("ssl:"));
    ssl(&ovn.nb_connection) || ssl(&ovn.sb_connection)
}

/// The Secret with the certificate that encrypted connections need: the one that the Neutron names, or that of an OVNCluster in
/// its own namespace. Secrets of other namespaces are not read: whoever may create a Neutron would see them.
fn secret(neutron: &Neutron, cluster: Option<&OVNCluster>) -> Result<Option<Ref>, Wait> {
    let own = neutron.namespace().unwrap_or_default();
    let ovn = written(&neutron.spec);
    let needs =
        is_encrypted(&ovn) || cluster.is_some_and(|cluster| cluster.spec.tls.as_ref().is_some_and(|tls| tls.enabled));
    if !needs {
        return Ok(None);
    }
    if let Some(named) = ovn.cert_secret_ref {
        return Ok(Some(Ref::namespaced::<Secret>(own, named.name.to_string())));
    }
    let Some(cluster) = cluster else {
        let wait = Wait::on(&Ref::namespaced::<Neutron>(&own, neutron.name_any())).condition("names a certificate");
        let wait = wait.now("has encrypted connections and no certificate").look_at("set spec.ovn.certSecretRef");
        return Err(wait.failed("NoCertificate"));
    };
    let namespace = cluster.namespace().unwrap_or_default();
    if namespace != own {
        let wait = Wait::on(&Ref::namespaced::<OVNCluster>(&namespace, cluster.name_any()));
        let now = "is encrypted, and its certificate is in another namespace";
        let fix = format!("create a Secret with tls.crt, tls.key and ca.crt in {own}, and set spec.ovn.certSecretRef");
        return Err(wait.condition("has a certificate that can be used").now(now).look_at(fix).failed("NoCertificate"));
    }
    let given = cluster.spec.tls.as_ref().and_then(|tls| tls.cert_secret_ref.as_ref());
    let name = given.map_or_else(|| format!("{}-tls", cluster.name_any()), |given| given.name.to_string());
    Ok(Some(Ref::namespaced::<Secret>(own, name)))
}

/// Addresses and certificate, or the waits for them.
pub(crate) fn look_up(inputs: &Inputs<Neutron>) -> Result<LookedUp, Vec<Wait>> {
    let neutron = &inputs.object;
    if !neutron.spec.has_ovn() {
        return Ok(LookedUp::default());
    }
    let because = |wait: Wait| wait.because("Neutron writes networks to OVN's databases").with_reason("WaitingForOVN");
    let reference = cluster(neutron);
    let known: Option<OVNCluster> =
        reference.as_ref().map(|cluster| inputs.typed(cluster)).transpose().map_err(|wait| vec![because(wait)])?;
    let endpoints = known.as_ref().and_then(|cluster| cluster.status.as_ref()?.endpoints.clone()).unwrap_or_default();
    let ovn = written(&neutron.spec);
    let own = |connection: Option<OvsdbConnection>| connection.map(|one| one.as_str().to_owned());
    let mut found = LookedUp::default();
    let mut waits = Vec::new();
    let namespace = reference.as_ref().and_then(|cluster| cluster.namespace.clone());
    let databases = [
        (NORTHBOUND, "northbound", own(ovn.nb_connection), endpoints.northbound),
        (SOUTHBOUND, "southbound", own(ovn.sb_connection), endpoints.southbound),
    ];
    for (name, title, written, of_cluster) in databases {
        let namespace = namespace.clone().filter(|_| written.is_none());
        match (written.or(of_cluster), &reference) {
            (Some(connection), _) => {
                found.egress.extend(ports(&connection).map(|port| Egress::new(namespace.clone(), port)));
                found.values.push((name, connection.into()));
            }
            (None, Some(cluster)) => {
                let wait = Wait::on(cluster).condition(format!("has an address of its {title} database"));
                let look = format!("kubectl describe ovncluster {} -n {}", cluster.name, namespace.unwrap_or_default());
                waits.push(because(wait.now(format!("has no address of its {title} database yet")).look_at(look)));
            }
            // Without a cluster both are written.
            (None, None) => {}
        }
    }
    match secret(neutron, known.as_ref()) {
        Err(wait) => waits.push(wait.because("Neutron authenticates to OVN with it")),
        Ok(None) => {}
        Ok(Some(secret)) => {
            for (key, file) in CERTIFICATE {
                match inputs.secret(&secret, key) {
                    Ok(value) => found.values.push((file, value)),
                    Err(wait) => {
                        let wait = wait.because("Neutron authenticates to OVN with it");
                        let wait = wait.with_reason("WaitingForOVNCertificate");
                        // Of a Secret that is not there, several keys are missing.
                        if !waits.contains(&wait) {
                            waits.push(wait);
                        }
                    }
                }
            }
        }
    }
    if waits.is_empty() { Ok(found) } else { Err(waits) }
}

fn ports(connection: &str) -> impl Iterator<Item = i32> {
    connection.split(',').filter_map(|remote| remote.rsplit_once(':')?.1.parse().ok())
}

/// `[ovn]`.
pub(crate) fn configure(spec: &NeutronSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    for name in [NORTHBOUND, SOUTHBOUND] {
        connection(name, backing, conf)?;
    }
    conf.set("ovn", "ovn_metadata_enabled", spec.metadata_agent.is_some())?;
    Ok(())
}

/// The options by which a database is reached.
fn connection(name: &str, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let Some(address) = backing.looked_up(name) else { return Ok(()) };
    // It is no secret, and is to be read in files.
    conf.set("ovn", &format!("ovn_{name}_connection"), address.expose_secret())?;
    if address.expose_secret().contains("ssl:") {
        for (option, file) in [("private_key", "ovn.key"), ("certificate", "ovn.crt"), ("ca_cert", "ovn-ca.crt")] {
            conf.set("ovn", &format!("ovn_{name}_{option}"), format!("{FOLDER}/{file}"))?;
        }
    }
    Ok(())
}

/// The options of a client of the southbound database alone, such as an agent on a hypervisor.
pub(crate) fn southbound(backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    connection(SOUTHBOUND, backing, conf)
}

/// The files of the certificate.
pub(crate) fn certificates(backing: &BackingServices) -> Vec<(&'static str, SecretString)> {
    CERTIFICATE.iter().filter_map(|(_, file)| Some((*file, backing.looked_up(file)?))).collect()
}

/// Whether API pods reach the databases. Nothing waits for it but `Ready`: reads are answered without OVN.
pub(crate) fn connected(plan: &ServicePlan<'_, Networking>) -> Step {
    let step = Step::new(CONDITION).reasons("Connected", "Unreachable").childless();
    let parts = plan.parts;
    let api = parts.api_component().filter(|_| parts.object.spec.has_ovn());
    let Some(api) = api else { return step.node("ovn", []).done("networks are not made by OVN") };
    if api.replicas == 0 && parts.object.spec.exposure.autoscaling.is_none() {
        return step.node("ovn", []).done("switched off");
    }
    let wait = Wait::on(&parts.workload(api)).condition("reaches OVN").because("networks are made there");
    // While pods are replaced the others answer.
    let needs = if plan.report().is_some() { Vec::new() } else { vec![api.step.clone()] };
    let step = step.node("ovn", needs);
    match plan.report() {
        None => step.wait(wait.now("has not been asked yet").with_reason("NotAskedYet")),
        Some(Err(said)) => step.wait(wait.now(format!("does not say: {}", said.trim())).with_reason("Unreachable")),
        Some(Ok(said)) => match serde_json::from_str::<Report>(said) {
            Err(error) => step.wait(wait.now(format!("says what is no report: {error}")).with_reason("Unreachable")),
            Ok(report) => judged(step, &wait, &report),
        },
    }
}

fn judged(step: Step, wait: &Wait, report: &Report) -> Step {
    let databases = [("northbound", &report.northbound), ("southbound", &report.southbound)];
    let faults: Vec<Wait> = databases
        .iter()
        .filter(|(_, said)| *said != "Connected")
        .map(|(title, said)| {
            let (reason, what) = match said.split_once(": ") {
                Some(("WrongCA", what)) => ("WrongCA", what),
                Some((_, what)) => ("Unreachable", what),
                None => ("Unreachable", said.as_str()),
            };
            wait.clone().now(format!("does not reach OVN's {title} database: {what}")).with_reason(reason)
        })
        .collect();
    if !faults.is_empty() {
        return faults.into_iter().fold(step, Step::wait);
    }
    match report.unmapped.as_slice() {
        [] => step.done("both databases answer"),
        names => step.done(format!(
            "both databases answer; no chassis has a bridge for {}, so that no port there works, floating IPs among them: add it \
             to spec.bridgeMappings of an OVNChassis",
            names.join(", ")
        )),
    }
}

//! A scheduler that Nova's own asks, such as Cortex: `nova.scheduler.cortex` in the image (images/releases/*/patches/service/nova)
//! does the asking.

use std::time::Duration;

use c5c3_api::openstack::{ExternalScheduler, ExternalSchedulerFailure, Nova, NovaSpec};
use c5c3_api::{Problem, problem};
use c5c3_kit::cluster_domain;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::Instance;
use c5c3_service::network::Egress;
use c5c3_service::pod::Mount;

const SECTION: &str = "external_scheduler";

/// Every weigher of Nova's, and last the one that asks: what it tells are the weights of all others.
const WEIGHERS: &str = "nova.scheduler.weights.all_weighers,nova.scheduler.cortex.CortexWeigher";

const FIELD: &str = "spec.scheduler.externalScheduler";

const TOKEN_FOLDER: &str = "/etc/external-scheduler";
const CA_FOLDER: &str = "/etc/external-scheduler-ca";

/// What a Cortex called `cortex` makes.
const TOKEN: (&str, &str) = ("cortex-token", "token");
const CA: (&str, &str) = ("cortex-api-tls", "ca.crt");

const USUAL_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The scheduler that is asked, if any is.
fn asked(spec: &NovaSpec) -> Option<&ExternalScheduler> {
    spec.scheduler.as_ref()?.external_scheduler.as_ref().filter(|external| external.enabled)
}

fn endpoint(external: &ExternalScheduler, namespace: &str) -> String {
    let usual = || format!("https://{}:8080", cluster_domain::service_host("cortex", namespace));
    external.endpoint.as_ref().map_or_else(usual, ToString::to_string)
}

/// The Secret and the key of the authorities; none for an address without TLS, or one that the image's own are for.
fn authorities(external: &ExternalScheduler, namespace: &str) -> Option<(String, String)> {
    let endpoint = endpoint(external, namespace);
    let host = endpoint.strip_prefix("https://")?.split(['/', ':']).next()?;
    let is_service = !host.contains('.') || host.split('.').any(|label| label == "svc");
    let written = external.ca_secret_ref.as_ref();
    let written = written.map(|secret| (secret.name.to_string(), key(secret.key.as_ref(), CA.1)));
    written.or_else(|| is_service.then(|| (CA.0.to_owned(), CA.1.to_owned())))
}

fn key(written: Option<&impl ToString>, usual: &str) -> String {
    written.map_or_else(|| usual.to_owned(), ToString::to_string)
}

/// The files of the scheduler's pods. They may come later: the scheduler may need a Nova to start.
pub(crate) fn mounts(spec: &NovaSpec, instance: &Instance) -> Vec<Mount> {
    let Some(external) = asked(spec) else { return Vec::new() };
    let token = external.token_secret_ref.as_ref();
    let secret = token.map_or_else(|| TOKEN.0.to_owned(), |secret| secret.name.to_string());
    let token = key(token.and_then(|secret| secret.key.as_ref()), TOKEN.1);
    let token =
        Mount::secret_items("external-scheduler", &secret, TOKEN_FOLDER, &[(token.as_str(), "token")]).optional();
    let authorities = authorities(external, &instance.namespace).map(|(secret, key)| {
        Mount::secret_items("external-scheduler-ca", &secret, CA_FOLDER, &[(key.as_str(), "ca.crt")]).optional()
    });
    [token].into_iter().chain(authorities).collect()
}

/// What pods have to reach.
pub(crate) fn egress(spec: &NovaSpec, instance: &Instance) -> Vec<Egress> {
    let namespace = &instance.namespace;
    asked(spec).map(|external| Egress::to_url(&endpoint(external, namespace), namespace)).unwrap_or_default()
}

pub(crate) fn configure(nova: &Nova, instance: &Instance, conf: &mut Ini) -> Result<(), IniError> {
    let Some(external) = asked(&nova.spec) else { return Ok(()) };
    conf.set("filter_scheduler", "weight_classes", WEIGHERS)?;
    conf.set(SECTION, "endpoint", endpoint(external, &instance.namespace))?;
    conf.set(SECTION, "token_file", format!("{TOKEN_FOLDER}/token"))?;
    if authorities(external, &instance.namespace).is_some() {
        conf.set(SECTION, "ca_file", format!("{CA_FOLDER}/ca.crt"))?;
    }
    let seconds = external.timeout.as_ref().map_or(USUAL_TIMEOUT, c5c3_api::blocks::Duration::get).as_secs();
    conf.set(SECTION, "timeout", i32::try_from(seconds).unwrap_or(i32::MAX))?;
    let on_failure = match external.on_failure {
        ExternalSchedulerFailure::Open => "open",
        ExternalSchedulerFailure::Closed => "closed",
    };
    conf.set(SECTION, "on_failure", on_failure)?;
    Ok(())
}

pub(crate) fn problems(nova: &Nova) -> Vec<Problem> {
    let Some(external) = asked(&nova.spec) else { return Vec::new() };
    let mut problems = Vec::new();
    let allowed = Duration::from_secs(1)..=LONGEST_TIMEOUT;
    if let Some(timeout) = external.timeout.as_ref().filter(|timeout| !allowed.contains(&timeout.get())) {
        let what = format!("is {timeout}, and requests of users wait for it");
        problems.push(problem(format!("{FIELD}.timeout"), what, "set it to between 1s and 60s"));
    }
    let is_set = nova.spec.extra_config.get("filter_scheduler").is_some_and(|set| set.contains_key("weight_classes"));
    if is_set {
        let what = format!("names the weighers, and {FIELD} adds one that must be the last");
        let fix = format!("remove it, or set {FIELD}.enabled to false");
        problems.push(problem("spec.extraConfig.filter_scheduler.weight_classes", what, fix));
    }
    problems
}

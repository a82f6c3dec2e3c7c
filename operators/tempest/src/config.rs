//! The files of a run: `tempest.conf` as far as it is known without asking the cloud, the settings of the runner, and the runner.

use c5c3_api::openstack::Tempest;
use c5c3_api::{Problem, problem};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::hash;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::Instance;
use c5c3_service::config::{Additions, Owned};
use c5c3_service::identity::Access;
use serde_json::json;

/// The files of a run.
pub(crate) type Files = ConfigFiles;

/// Where they are mounted.
pub(crate) const FOLDER: &str = "/etc/tempest";

/// The folder that a run writes to.
pub(crate) const WORK: &str = "/tmp/tempest";

/// How much of the time limit is left for the cleanup after tests that did not end, in seconds, at most.
const LONGEST_CLEANUP: u64 = 120;

const SIGNS_IN: &str = "each run makes an administrator of its own; use spec.keystone.appCredentialRef";

/// Options that are the operator's own.
const OWNED: &[Owned] = &[
    ("DEFAULT", "resource_name_prefix", "what runs leave behind is removed by this prefix; remove it"),
    ("DEFAULT", "log_file", "Tempest logs into the folder of the run; remove it"),
    ("DEFAULT", "log_dir", "Tempest logs into the folder of the run; remove it"),
    ("auth", "use_dynamic_credentials", "each test class has users of its own; remove it"),
    ("auth", "test_accounts_file", "each test class has users of its own; remove it"),
    ("auth", "admin_username", SIGNS_IN),
    ("auth", "admin_password", SIGNS_IN),
    ("auth", "admin_project_name", SIGNS_IN),
    ("auth", "admin_domain_name", SIGNS_IN),
    ("identity", "uri_v3", "use spec.keystone.authUrl"),
    ("identity", "region", "use spec.keystone.region"),
    ("identity", "ca_certificates_file", "use spec.keystone.caSecretRef"),
    ("oslo_concurrency", "lock_path", "locks are in the folder of the run; remove it"),
];

/// The services whose endpoints within the cluster are used.
const ENDPOINTS: &[&str] = &["compute", "image", "network", "placement", "volume"];

/// Everything that is wrong with what users add.
pub(crate) fn problems(tempest: &Tempest) -> Vec<Problem> {
    additions(tempest).problems(None, OWNED)
}

fn additions(tempest: &Tempest) -> Additions<'_> {
    Additions { plugins: &[], extra: &tempest.spec.extra_config }
}

/// An option that cannot be written, which no field of the spec is known to be the reason of.
pub(crate) fn unwritable(error: &IniError) -> Problem {
    problem("spec", error.to_string(), "")
}

/// What the names begin with of what runs of this object make in the cloud, but for users and projects, which are in a domain
/// that is named after it. The uid keeps it apart from that of other objects, which may run at the same time.
pub(crate) fn prefix(tempest: &Tempest) -> String {
    format!("tempest-{}", hash::short(tempest.metadata.uid.clone().unwrap_or_default().as_bytes()))
}

/// The files.
pub(crate) fn files(
    instance: &Instance,
    tempest: &Tempest,
    access: &Access,
    conf: &mut Ini,
) -> Result<Files, IniError> {
    let (tests, prefix) = (&tempest.spec.tests, prefix(tempest));
    let mut keystone = access.settings();
    conf.set("DEFAULT", "resource_name_prefix", prefix.as_str())?;
    conf.set("DEFAULT", "log_dir", WORK)?;
    conf.set("DEFAULT", "log_file", "tempest.log")?;
    conf.set("auth", "use_dynamic_credentials", true)?;
    conf.set("identity", "auth_version", "v3")?;
    conf.set("identity", "uri_v3", access.auth_url.as_str())?;
    conf.set("identity", "v3_endpoint_type", "internal")?;
    conf.set("identity-feature-enabled", "application_credentials", true)?;
    conf.set("identity-feature-enabled", "access_rules", true)?;
    // Guests are not logged in to: no image is known to have a user for that.
    conf.set("validation", "run_validation", false)?;
    for section in ENDPOINTS {
        conf.set(section, "endpoint_type", "internal")?;
    }
    if let Some(region) = &access.region {
        conf.set("identity", "region", region.as_str())?;
        keystone["region"] = region.as_str().into();
    }
    if let Some(file) = keystone["verify"].as_str() {
        conf.set("identity", "ca_certificates_file", file)?;
    }
    additions(tempest).apply(conf)?;
    let mut settings = json!({
        "keystone": keystone,
        "prefix": prefix,
        "services": tests.services,
        "concurrency": tests.concurrency,
        "limit": limit(tests.timeout.get().as_secs()),
    });
    for (field, regex) in [("includeRegex", &tests.include_regex), ("excludeRegex", &tests.exclude_regex)] {
        if let Some(regex) = regex {
            settings[field] = regex.as_str().into();
        }
    }
    let files = ConfigFiles::new(&instance.namespace, instance.named("config"));
    Ok(files
        .file("tempest.conf", conf.render())
        .file("settings.json", settings.to_string().into())
        .file("run.py", include_str!("run.py").to_owned().into())
        .file("cloud.py", include_str!("cloud.py").to_owned().into()))
}

/// When the runner ends the tests itself, in seconds after it began, so that it can clean up before Kubernetes ends it.
fn limit(timeout: u64) -> u64 {
    timeout - (timeout / 10).min(LONGEST_CLEANUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_end_before_the_time_is_up() {
        assert_eq!([60, 600, 4 * 3600].map(limit), [54, 540, 4 * 3600 - LONGEST_CLEANUP]);
    }
}

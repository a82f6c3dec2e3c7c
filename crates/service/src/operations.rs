//! What a spec says of how all pods of an instance are run: pull secrets, files of the user's, certificates to trust.

use c5c3_api::blocks::{CaBundleRef, ExtraFile, LogFormat, LogLevel, Operations};
use c5c3_kit::ini::{Ini, IniError};

use k8s_openapi::api::core::v1::Container;

use crate::pod::{Mount, Shared, container, resources};

/// Where certificates of the user's are mounted, and where they are joined with the system's.
const GIVEN: &str = "/etc/ca-bundle";
const JOINED: &str = "/run/ca-bundle.pem";

/// Joins the certificates that Python trusts with those of a file, in another file.
const JOIN: &str = "import certifi, sys; out = open(sys.argv[2], 'w'); [out.write(open(name).read() + '\\n') for name in (certifi.where(), sys.argv[1])]";

/// The variables by which OpenSSL, requests and OpenLDAP find the file.
const VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "LDAPTLS_CACERT"];

/// What oslo.log lets libraries say by default.
const LOG_LEVELS: &[&str] = &[
    "amqp=WARN",
    "amqplib=WARN",
    "dogpile.core.dogpile=INFO",
    "iso8601=WARN",
    "keystonemiddleware=WARN",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "oslo_policy=INFO",
    "requests.packages.urllib3.connectionpool=WARN",
    "sqlalchemy=WARN",
    "stevedore=WARN",
    "urllib3.connectionpool=WARN",
];

/// What all pods of an instance have in common.
pub(crate) fn shared(service: &str, image: &str, operations: &Operations) -> Shared {
    let mut shared = Shared {
        pull_secrets: operations.image_pull_secrets.iter().map(|secret| secret.name.to_string()).collect(),
        mounts: operations.extra_files.iter().map(file).collect(),
        ..Shared::default()
    };
    if let Some(bundle) = &operations.ca_bundle_ref {
        let (mount, key) = certificates(bundle);
        shared.mounts.push(mount);
        shared.env.extend(VARIABLES.map(|name| (name, JOINED.to_owned())));
        let python = format!("/opt/{service}/bin/python");
        let join = container("ca-bundle", image, &[&python, "-c", JOIN, &format!("{GIVEN}/{key}"), JOINED], &[]);
        let resources = resources(operations.job_resources.as_ref());
        shared.init_containers.push(Container { resources, ..join });
    }
    shared
}

fn file(file: &ExtraFile) -> Mount {
    let volume = format!("extra-{}", file.name);
    match (&file.secret_ref, &file.config_map_ref) {
        (Some(secret), _) => Mount::secret(&volume, &secret.name.to_string(), file.mount_path.as_str()),
        (None, map) => {
            let map = map.as_ref().map(|map| map.name.to_string()).unwrap_or_default();
            Mount::config_map(&volume, &map, file.mount_path.as_str())
        }
    }
}

fn certificates(bundle: &CaBundleRef) -> (Mount, String) {
    let given = bundle.secret_ref.as_ref().or(bundle.config_map_ref.as_ref());
    let (name, key) = given.map(|given| (given.name.to_string(), given.key.to_string())).unwrap_or_default();
    let mount = if bundle.secret_ref.is_some() {
        Mount::secret_items("ca-bundle", &name, GIVEN, &[(&key, &key)])
    } else {
        Mount::config_map("ca-bundle", &name, GIVEN)
    };
    (mount, key)
}

/// Whether requests are logged, and how.
pub(crate) fn access_log(operations: &Operations) -> Option<LogFormat> {
    operations.logging.as_ref().filter(|logging| logging.access_log).map(|logging| logging.format)
}

/// What is logged, and how. `quieter` are loggers of the service's own that say too much.
pub(crate) fn logging(
    conf: &mut Ini,
    service: &str,
    operations: &Operations,
    quieter: &[&str],
) -> Result<(), IniError> {
    let logging = operations.logging.unwrap_or_default();
    conf.set("DEFAULT", "use_stderr", true)?;
    if logging.format == LogFormat::Json {
        conf.set("DEFAULT", "use_json", true)?;
    }
    let own = match logging.level {
        LogLevel::Debug => {
            conf.set("DEFAULT", "debug", true)?;
            None
        }
        LogLevel::Info => None,
        LogLevel::Warning => Some(format!("{service}=WARNING")),
        LogLevel::Error => Some(format!("{service}=ERROR")),
    };
    let levels: Vec<&str> = LOG_LEVELS.iter().chain(quieter).copied().chain(own.as_deref()).collect();
    conf.set("DEFAULT", "default_log_levels", levels.as_slice())?;
    Ok(())
}

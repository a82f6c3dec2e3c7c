//! What is counted: requests, how long they took, and what is stored.

use std::fmt::Write;
use std::time::Duration;

use c5c3_kinds::Verb;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Metered;

use crate::path::Target;
use crate::server::Server;

/// The bounds of a real API server's histogram, in seconds.
const BOUNDS: [f64; 21] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0];

/// What a request was for.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct About {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

/// What it was for, and what came of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    #[prometheus(flatten)]
    about: About,
    code: u16,
}

/// The counts of one server.
pub(crate) struct Metrics {
    registry: Metered,
    requests: Family<Outcome, Counter>,
    durations: Family<About, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::<Outcome, Counter>::default();
        let durations = Family::<About, Histogram, fn() -> Histogram>::new_with_constructor(|| Histogram::new(BOUNDS));
        let mut registry = Metered::default();
        // The encoder adds `_total`.
        registry.register("apiserver_request", "Requests by what they are for and what came of them", requests.clone());
        let help = "How long requests took to be answered, watches excepted";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        Self { registry, requests, durations }
    }
}

impl Metrics {
    /// Counts a request for a resource that is served.
    pub(crate) fn count(&self, verb: Option<Verb>, target: &Target, code: StatusCode, took: Duration) {
        let verb = match verb {
            Some(Verb::Create) => "POST".to_owned(),
            Some(Verb::Update) => "PUT".to_owned(),
            Some(other) => other.as_str().to_uppercase(),
            None => "UNKNOWN".to_owned(),
        };
        let scope = match (&target.name, &target.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        let about = About {
            verb,
            group: target.group.clone(),
            version: target.version.clone(),
            resource: target.plural.clone(),
            subresource: target.subresource.clone().unwrap_or_default(),
            scope,
            component: "apiserver",
        };
        if about.verb != "WATCH" {
            self.durations.get_or_create(&about).observe(took.as_secs_f64());
        }
        self.requests.get_or_create(&Outcome { about, code: code.as_u16() }).inc();
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(&self, server: &Server) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        let mut text = text.trim_end().trim_end_matches("# EOF").to_owned();
        text += "# HELP apiserver_storage_objects Objects that are stored, by kind.\n# TYPE apiserver_storage_objects gauge\n";
        for served in server.registry().stored() {
            let (name, count) = (served.resource.qualified_plural(), server.store().list(&served.prefix(None)).len());
            writeln!(text, "apiserver_storage_objects{{resource=\"{name}\"}} {count}")?;
        }
        text += "# HELP apiserver_storage_revision The revision of the last write.\n# TYPE apiserver_storage_revision gauge\n";
        writeln!(text, "apiserver_storage_revision {}", server.store().revision())?;
        Ok(text)
    }
}

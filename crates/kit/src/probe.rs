//! A question to a service in the cluster, asked through the API server: whether it answers at all, or what it says.

use std::time::Duration;

use kube::Client;

use crate::object::said;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A path of a Service that is asked for with GET.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// One of its ports.
    pub port: i32,
    /// Whether it speaks TLS. Its certificate is not looked at: the question is whether it lives.
    pub tls: bool,
    /// The path, beginning with a slash.
    pub path: String,
    /// Whether what it says is an input, good or bad: then another text is another answer, and starts a reconcile.
    pub keeps_text: bool,
    /// How long a good answer is believed before it is asked for again: [`Probe::INTERVAL`] unless something depends on it.
    pub interval: Duration,
}

/// What the service said if it answered well (empty unless the probe keeps the text), or what was wrong.
pub type Answer = Result<String, String>;

impl Probe {
    /// How long a good answer is usually believed.
    pub const INTERVAL: Duration = Duration::from_mins(1);

    /// The same for an answer that may change though the service answers well, such as that another server is gone.
    pub const SHORT_INTERVAL: Duration = Duration::from_secs(20);

    /// Asks. The API server passes the question on, so that it works wherever the operator runs.
    pub async fn ask(&self, client: &Client) -> Answer {
        let Self { namespace, service, port, tls, path, keeps_text, .. } = self;
        let scheme = if *tls { "https:" } else { "" };
        let url = format!("/api/v1/namespaces/{namespace}/services/{scheme}{service}:{port}/proxy{path}");
        let request = http::Request::get(url).body(Vec::new()).map_err(|error| error.to_string())?;
        match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
            Ok(Ok(text)) => Ok(if *keeps_text { text } else { String::new() }),
            Ok(Err(error)) => Err(said(&error)),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

//! How long OpenStack's APIs take to answer, for Prometheus.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    service: String,
    method: String,
    code: String,
}

fn seconds() -> Histogram {
    // The last bucket is the time limit of a call.
    Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0])
}

/// The request metrics of a process. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { durations: Family::new_with_constructor(seconds) }
    }
}

impl Metrics {
    /// Adds `openstack_api_request_duration_seconds` to a registry. Once per registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Time from sending a request to an OpenStack API until it is answered or fails";
        registry.register("openstack_api_request_duration_seconds", help, self.durations.clone());
    }

    /// Records one request. `None` is a request without an answer, with the code `error`.
    pub(crate) fn answered(&self, service: &str, method: &Method, status: Option<StatusCode>, time: Duration) {
        let code = status.map_or_else(|| "error".into(), |status| status.as_str().into());
        let labels = Labels { service: service.into(), method: method.as_str().into(), code };
        self.durations.get_or_create(&labels).observe(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_request_is_counted_by_service_method_and_code() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.answered("compute", &Method::GET, Some(StatusCode::NOT_FOUND), Duration::from_millis(30));
        metrics.answered("identity", &Method::POST, None, Duration::from_secs(5));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let name = "openstack_api_request_duration_seconds";
        let line = |labels: &str| format!("{name}_count{{{labels}}} 1");
        assert!(text.contains(&line(r#"service="compute",method="GET",code="404""#)), "{text}");
        assert!(text.contains(&line(r#"service="identity",method="POST",code="error""#)), "{text}");
    }
}

//! One deployment of a service: what its objects are called and labelled.

use std::collections::BTreeMap;

use c5c3_kit::cluster_domain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

/// A service's object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Which service, such as `keystone`.
    pub service: &'static str,
    /// Name of its object.
    pub name: String,
    /// The namespace that everything of it is in.
    pub namespace: String,
}

impl Instance {
    /// The instance that this metadata is of.
    pub fn new(service: &'static str, meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { service, name: text(&meta.name), namespace: text(&meta.namespace) }
    }

    /// The name of one of its objects: `keystone-api`.
    pub fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// The labels of a component.
    pub fn labels(&self, component: &str) -> BTreeMap<String, String> {
        [("name", self.service), ("instance", &self.name), ("component", component)]
            .map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()))
            .into()
    }

    /// What selects the pods of a component.
    pub fn selector(&self, component: &str) -> LabelSelector {
        LabelSelector { match_labels: Some(self.labels(component)), ..LabelSelector::default() }
    }

    /// The metadata of one of its objects.
    pub fn meta(&self, name: impl Into<String>, component: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels(component)),
            ..ObjectMeta::default()
        }
    }

    /// The host name of its Service.
    pub fn host(&self) -> String {
        host(&self.name, &self.namespace)
    }
}

/// The host name of a Service.
pub fn host(service: &str, namespace: &str) -> String {
    cluster_domain::service_host(service, namespace)
}

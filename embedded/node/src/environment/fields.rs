//! What a pod may know about itself: fields of its object and the resources of its containers.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};

use crate::pod::{Pod, milli, units};

/// What a pod can learn of its node.
#[derive(Debug, Clone)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) address: String,
    /// What pods may use in all, in thousandths of a core.
    pub(crate) milli_cpu: i64,
    /// In bytes.
    pub(crate) memory: i64,
    /// In bytes.
    pub(crate) storage: i64,
}

/// A field that cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("unsupported fieldPath: {0}")]
    Path(String),
    #[error("unsupported container resource: {0}")]
    Resource(String),
}

/// The value of a field.
pub(crate) fn value(pod: &Pod, path: &str, node: &NodeFacts, ips: &[String]) -> Result<String, FieldError> {
    let metadata = &pod.object().metadata;
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => &metadata.labels,
            "metadata.annotations" => &metadata.annotations,
            _ => return Err(FieldError::Path(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        "metadata.labels" => lines(metadata.labels.as_ref()),
        "metadata.annotations" => lines(metadata.annotations.as_ref()),
        "spec.nodeName" => node.name.clone(),
        "spec.serviceAccountName" => pod.spec().service_account_name.clone().unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => node.address.clone(),
        "status.podIP" => ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => ips.join(","),
        _ => return Err(FieldError::Path(path.to_owned())),
    })
}

/// `metadata.labels['app']` as its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key))
}

/// A map as a file: `key="value"`, a line each.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    map.into_iter().flatten().fold(String::new(), |mut text, (key, value)| {
        let separator = if text.is_empty() { "" } else { "\n" };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{key}={value:?}");
        text
    })
}

/// A container's request or limit, in units of the divisor, rounded up. A limit that is not set is what the node has.
pub(crate) fn resource(
    container: &Container,
    selector: &ResourceFieldSelector,
    node: &NodeFacts,
) -> Result<String, FieldError> {
    let unknown = || FieldError::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unknown)?;
    let resources = container.resources.as_ref();
    let list = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(unknown()),
    };
    let quantity = list.and_then(|list| list.get(name));
    let divisor = selector.divisor.as_ref().filter(|divisor| divisor.0 != "0");
    let (amount, divisor) = match name {
        "cpu" => (milli(quantity), milli(divisor).unwrap_or(1000)),
        _ => (units(quantity), units(divisor).unwrap_or(1)),
    };
    let of_node = match name {
        "cpu" => node.milli_cpu,
        "memory" => node.memory,
        "ephemeral-storage" => node.storage,
        _ => 0,
    };
    let amount = amount.filter(|amount| *amount > 0).unwrap_or(if kind == "limits" { of_node } else { 0 });
    let divisor = divisor.max(1);
    Ok((amount / divisor + i64::from(amount % divisor != 0)).to_string())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::NodeFacts;

    /// A node with two cores and 4 GiB.
    pub(crate) fn node() -> NodeFacts {
        NodeFacts {
            name: "n1".to_owned(),
            address: "10.123.0.11".to_owned(),
            milli_cpu: 2000,
            memory: 4 << 30,
            storage: 10 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::testing::node;
    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn fields_of_a_pod() {
        let mut object = pod(json!({"serviceAccountName": "cashier"})).object().clone();
        object.metadata.labels =
            Some([("app".to_owned(), "till".to_owned()), ("b".to_owned(), "q\"q".to_owned())].into());
        let pod = Pod::new(Arc::new(object)).unwrap();
        let expected = [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['app']", "till"),
            ("metadata.labels['none']", ""),
            ("metadata.labels", "app=\"till\"\nb=\"q\\\"q\""),
            ("spec.nodeName", "n1"),
            ("spec.serviceAccountName", "cashier"),
            ("status.hostIP", "10.123.0.11"),
            ("status.podIP", "10.124.1.7"),
            ("status.podIPs", "10.124.1.7,fd00::7"),
        ];
        let ips = ["10.124.1.7".to_owned(), "fd00::7".to_owned()];
        for (path, wanted) in expected {
            assert_eq!(value(&pod, path, &node(), &ips).unwrap(), wanted, "{path}");
        }
        assert!(value(&pod, "spec.nodeIP", &node(), &ips).is_err());
    }

    #[test]
    fn resources_are_counted_in_the_divisor_and_limits_default_to_the_nodes() {
        let pod = pod(json!({"containers": [{"name": "app", "resources": {
            "requests": {"cpu": "250m", "memory": "65Mi"}, "limits": {"cpu": "1500m"}}}]}));
        let read = |name: &str, divisor: &str| {
            let selector = json!({"resource": name, "divisor": divisor});
            resource(&pod.main_containers()[0], &serde_json::from_value(selector).unwrap(), &node()).unwrap()
        };
        let expected = [
            ("requests.cpu", "1m", "250"),
            ("requests.cpu", "1", "1"),
            ("limits.cpu", "0", "2"),
            ("requests.memory", "1Mi", "65"),
            ("requests.memory", "10Mi", "7"),
            ("limits.memory", "1Gi", "4"),
            ("requests.ephemeral-storage", "1", "0"),
        ];
        for (name, divisor, wanted) in expected {
            assert_eq!(read(name, divisor), wanted, "{name} by {divisor}");
        }
    }
}

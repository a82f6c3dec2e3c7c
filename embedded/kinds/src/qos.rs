//! The quality of service class of a pod, which decides who is killed first when memory runs out.

use serde_json::Value;

use crate::quantity::Quantity;
use crate::read::list_at;

/// `Guaranteed` if every container's requests for cpu and memory equal its limits, `BestEffort` if none has any,
/// `Burstable` otherwise.
pub(crate) fn class(spec: &Value) -> &'static str {
    let containers = || list_at(spec, "containers").iter().chain(list_at(spec, "initContainers"));
    let amount = |container: &Value, kind: &str, name: &str| {
        let amount = container["resources"][kind].get(name).and_then(Quantity::from_json)?;
        (!amount.is_zero()).then_some(amount)
    };
    let mut any = false;
    let mut guaranteed = true;
    for container in containers() {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let class = |resources: Value| class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        let both = json!({"cpu": "1000m", "memory": "1Gi"});
        assert_eq!(class(json!({"requests": {"cpu": "1", "memory": "1024Mi"}, "limits": both})), "Guaranteed");
    }
}

//! Which container of a pod is meant.

use serde_json::Value;

use crate::object::meta;
use crate::status::ApiError;

/// The container of that name; without a name the only one.
pub(super) fn choose<'a>(pod: &'a Value, asked: Option<&'a str>) -> Result<&'a str, ApiError> {
    let pod_name = meta(pod, "name");
    let all: Vec<&str> =
        ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| names(pod, list)).collect();
    let refused = |message: String| Err(ApiError::bad_request(message));
    match (asked, names(pod, "containers").collect::<Vec<_>>().as_slice()) {
        (Some(asked), _) if all.contains(&asked) => Ok(asked),
        (Some(asked), _) => refused(format!("container {asked} is not valid for pod {pod_name}")),
        (None, [only]) => Ok(only),
        (None, []) => refused(format!("a container name must be specified for pod {pod_name}")),
        (None, _) => {
            let choice = all.join(" ");
            refused(format!("a container name must be specified for pod {pod_name}, choose one of: [{choice}]"))
        }
    }
}

fn names<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    pod["spec"][list].as_array().into_iter().flatten().filter_map(|container| container["name"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_container_needs_no_name_and_of_several_one_is_chosen() {
        let one = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "setup"}]}});
        assert_eq!(choose(&one, None).unwrap(), "app");
        assert_eq!(choose(&one, Some("setup")).unwrap(), "setup");
        let said = |pod: &Value, asked| choose(pod, asked).unwrap_err().message;
        assert_eq!(said(&one, Some("none")), "container none is not valid for pod web");
        let two = json!({"metadata": {"name": "web"}, "spec": {
            "containers": [{"name": "app"}, {"name": "side"}], "initContainers": [{"name": "setup"}],
        }});
        let choice = "a container name must be specified for pod web, choose one of: [setup app side]";
        assert_eq!(said(&two, None), choice);
        assert_eq!(choose(&two, Some("side")).unwrap(), "side");
    }
}

//! Default classes: of storage for claims, of controllers for Ingresses.

use serde_json::Value;

use super::all;
use crate::object::meta;
use crate::server::Server;

/// Gives a claim that names no class the default one. An empty name is one: it asks for no class.
pub(super) fn storage(server: &Server, claim: &mut Value) {
    let beta = claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class");
    if beta.is_none() && claim["spec"].get("storageClassName").is_none_or(Value::is_null) {
        let classes = all(server, "storage.k8s.io", "storageclasses");
        fill(claim, "storageClassName", default(&classes, "storageclass.kubernetes.io/is-default-class"));
    }
}

/// Gives an Ingress that names no class the default one.
pub(super) fn ingress(server: &Server, ingress: &mut Value) {
    let old = ingress["metadata"]["annotations"].get("kubernetes.io/ingress.class");
    if old.is_none() && ingress["spec"].get("ingressClassName").is_none_or(Value::is_null) {
        let classes = all(server, "networking.k8s.io", "ingressclasses");
        fill(ingress, "ingressClassName", default(&classes, "ingressclass.kubernetes.io/is-default-class"));
    }
}

fn fill(object: &mut Value, field: &str, class: Option<String>) {
    if let (Some(class), Some(spec)) = (class, object.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert(field.to_owned(), class.into());
    }
}

/// The class that is marked as the default. Of several, the newest; of those made at once, the first by name.
fn default(classes: &[Value], mark: &str) -> Option<String> {
    let marked = classes.iter().filter(|class| class["metadata"]["annotations"][mark] == "true");
    let newest = marked.rev().max_by_key(|class| meta(class, "creationTimestamp"));
    newest.map(|class| meta(class, "name").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_default_counts() {
        let class = |name: &str, mark: &str, made: &str| json!({"metadata": {"name": name, "creationTimestamp": made, "annotations": {"m": mark}}});
        let classes = [
            class("a", "true", "2026-01-01T00:00:00Z"),
            class("b", "true", "2026-01-02T00:00:00Z"),
            class("c", "true", "2026-01-02T00:00:00Z"),
            class("d", "false", "2026-01-03T00:00:00Z"),
        ];
        assert_eq!(default(&classes, "m").as_deref(), Some("b"));
        assert_eq!(default(&[], "m"), None);
    }
}

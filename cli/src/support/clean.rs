//! Objects without what is confidential in them by its place: a field's name says so, or that of a variable.

use serde_json::Value;

use crate::redact::is_confidential;

/// What stands in the place of a value.
const HIDDEN: &str = "<redacted>";

/// The object as it may be passed on. `is_name` tells names of Secrets, which fields called so often hold.
pub(super) fn object(mut value: Value, is_name: &dyn Fn(&str) -> bool) -> Value {
    if let Some(meta) = value["metadata"].as_object_mut() {
        meta.remove("managedFields");
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    hide(&mut value, is_name);
    value
}

fn hide(value: &mut Value, is_name: &dyn Fn(&str) -> bool) {
    match value {
        Value::Object(fields) => {
            let variable = fields.get("name").and_then(Value::as_str).is_some_and(is_confidential);
            for (field, inner) in fields.iter_mut() {
                // The key of a Secret is no secret, and is called so.
                let may_be_one = is_confidential(field) && field != "key" || variable && field == "value";
                match inner {
                    Value::String(text) if may_be_one && !is_name(text) => *text = HIDDEN.into(),
                    inner => hide(inner, is_name),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, is_name)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_variables_that_are_confidential_are_hidden_and_names_of_secrets_are_not() {
        let from = json!({
            "metadata": {"name": "a", "managedFields": [1], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}},
            "spec": {"extraConfig": {"ldap": {"password": "riddle", "url": "ldap://x"}}, "secret": "db-credentials",
                     "env": [{"name": "OS_PASSWORD", "value": "owl"}, {"name": "HOME", "value": "/root"}],
                     "secretRef": {"name": "db-credentials", "key": "password"}}});
        let clean = object(from, &|name| name == "db-credentials");
        assert_eq!(clean["spec"]["extraConfig"]["ldap"], json!({"password": HIDDEN, "url": "ldap://x"}));
        assert_eq!(clean["spec"]["env"][0]["value"], HIDDEN);
        assert_eq!(clean["spec"]["env"][1]["value"], "/root");
        assert_eq!(clean["spec"]["secret"], "db-credentials");
        assert_eq!(clean["spec"]["secretRef"], json!({"name": "db-credentials", "key": "password"}));
        assert_eq!(clean["metadata"], json!({"name": "a", "annotations": {}}));
    }
}

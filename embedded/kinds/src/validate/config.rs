//! Validation of ConfigMaps and Secrets.

use serde_json::Value;

use super::names;
use super::report::Report;
use crate::read::{bool_at, entries_at, is_empty_at, str_at};

/// All data of a ConfigMap or a Secret together.
const SIZE_LIMIT: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, old: Option<&Value>, report: &mut Report) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in entries_at(object, field) {
            report.name(format!("{field}[{key}]"), key, names::config_key);
            size += value.as_str().map_or(0, str::len);
        }
    }
    for (key, _) in entries_at(object, "data") {
        if object["binaryData"].get(key).is_some() {
            report.invalid(format!("data[{key}]"), key.clone(), "duplicate of key present in binaryData");
        }
    }
    if size > SIZE_LIMIT {
        report.too_long("", SIZE_LIMIT);
    }
    frozen(object, old, &["data", "binaryData"], report);
}

pub(super) fn secret(object: &Value, old: Option<&Value>, report: &mut Report) {
    let mut size = 0;
    for (key, value) in entries_at(object, "data") {
        report.name(format!("data[{key}]"), key, names::config_key);
        let text = value.as_str().unwrap_or_default();
        size += text.len() / 4 * 3;
        if !is_base64(text) {
            report.invalid(format!("data[{key}]"), "<redacted>", "must be base64 encoded");
        }
    }
    if size > SIZE_LIMIT {
        report.too_long("data", SIZE_LIMIT);
    }
    typed(object, report);
    if let Some(old) = old {
        report.immutable("type", &object["type"], &old["type"]);
    }
    frozen(object, old, &["data"], report);
}

/// Types that promise certain keys.
fn typed(secret: &Value, report: &mut Report) {
    let data = &secret["data"];
    let mut need = |key: &str| {
        if data.get(key).is_none() {
            report.required(format!("data[{key}]"), "");
        }
    };
    match str_at(secret, "type") {
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().for_each(need),
        "kubernetes.io/dockerconfigjson" => need(".dockerconfigjson"),
        "kubernetes.io/dockercfg" => need(".dockercfg"),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
            ["username", "password"].into_iter().for_each(need);
        }
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if is_empty_at(&secret["metadata"]["annotations"], ACCOUNT) {
                report.required(format!("metadata.annotations[{ACCOUNT}]"), "");
            }
        }
        _ => {}
    }
}

/// What is marked as immutable stays, the mark included.
fn frozen(object: &Value, old: Option<&Value>, fields: &[&str], report: &mut Report) {
    let Some(old) = old.filter(|old| bool_at(old, "immutable")) else { return };
    if !bool_at(object, "immutable") {
        report.forbidden("immutable", FROZEN);
    }
    for field in fields {
        let (after, before) = (&object[*field], &old[*field]);
        if after != before && !(crate::read::is_empty(after) && crate::read::is_empty(before)) {
            report.forbidden(*field, FROZEN);
        }
    }
}

fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let of_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && text[..text.len() - padding].iter().all(of_alphabet)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    #[test]
    fn keys_are_names_of_files() {
        let found = problems("", "configmaps", &json!({"data": {"a/b": "", "c": ""}, "binaryData": {"c": ""}}), None);
        assert!(found[0].starts_with(r#"data[a/b]: Invalid value: "a/b": a valid config key"#));
        assert_has(&found, r#"data[c]: Invalid value: "c": duplicate of key present in binaryData"#);
    }

    #[test]
    fn what_is_immutable_stays_so() {
        for plural in ["configmaps", "secrets"] {
            let old = json!({"immutable": true, "data": {"a": "AAAA"}});
            let found = problems("", plural, &json!({"data": {"a": "BBBB"}}), Some(&old));
            assert_has(&found, "immutable: Forbidden: field is immutable when `immutable` is set");
            assert_has(&found, "data: Forbidden: field is immutable when `immutable` is set");
            assert!(problems("", plural, &old, Some(&old)).is_empty());
        }
    }

    #[test]
    fn the_type_of_a_secret_promises_its_keys_and_does_not_change() {
        let tls = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}});
        assert_eq!(problems("", "secrets", &tls, None), ["data[tls.key]: Required value"]);
        let found = problems("", "secrets", &json!({"type": "b"}), Some(&json!({"type": "a"})));
        assert_eq!(found, [r#"type: Invalid value: "b": field is immutable"#]);
    }

    #[test]
    fn data_is_base64_and_never_repeated_in_a_message() {
        let found = problems("", "secrets", &json!({"data": {"a": "not base64!"}}), None);
        assert_eq!(found, [r#"data[a]: Invalid value: "<redacted>": must be base64 encoded"#]);
        assert!(is_base64("") && is_base64("cm93YW4=") && is_base64("AA=="));
        assert!(!is_base64("A") && !is_base64("A===") && !is_base64("A=A="));
    }
}

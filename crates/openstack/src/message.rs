//! The message in the body of an error, in the shapes that OpenStack's services use, without secrets that it echoes.

use http::StatusCode;
use serde_json::Value;

/// A message longer than this is cut: it ends in conditions and events.
const LIMIT: usize = 500;

/// The service's own words without these secrets, or the status' name if the body has none.
pub(crate) fn of(status: StatusCode, body: &[u8], secrets: &[String]) -> String {
    let found = serde_json::from_slice::<Value>(body).ok().and_then(|body| find(&body)).or_else(|| plain(body));
    let message = found.unwrap_or_else(|| status.canonical_reason().unwrap_or("no message").into());
    // Cut afterwards: half of a secret would not be found.
    redact(message, secrets).chars().take(LIMIT).collect()
}

/// - Keystone, Heat and Octavia's predecessors: `{"error": {"message": ...}}`
/// - Nova and Cinder: `{"itemNotFound": {"code": 404, "message": ...}}`
/// - Neutron: `{"NeutronError": {"type": ..., "message": ...}}`
/// - Placement: `{"errors": [{"title": ..., "detail": ...}]}`
/// - Octavia and Ironic: `{"faultstring": ...}`, Ironic within `error_message`, sometimes as text
/// - others: `{"message": ...}`
fn find(body: &Value) -> Option<String> {
    let object = body.as_object()?;
    for key in ["message", "faultstring", "detail"] {
        if let Some(text) = text(object.get(key)) {
            return Some(text);
        }
    }
    if let Some(first) = object.get("errors").and_then(Value::as_array).and_then(|errors| errors.first()) {
        return find(first).or_else(|| text(first.get("title")));
    }
    if let Some(message) = object.get("error_message") {
        let nested = message.as_str().and_then(|text| serde_json::from_str(text).ok());
        return find(nested.as_ref().unwrap_or(message)).or_else(|| text(Some(message)));
    }
    object.values().filter(|value| value.is_object()).find_map(find).or_else(|| text(object.get("error")))
}

fn text(value: Option<&Value>) -> Option<String> {
    let text = one_line(value?.as_str()?);
    (!text.is_empty()).then_some(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A body that is not JSON: a line of text is a message, the HTML page of a proxy is not.
fn plain(body: &[u8]) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?.trim();
    let is_text = !body.is_empty() && !body.starts_with(['<', '{', '[']) && !body.contains('\n');
    is_text.then(|| body.into())
}

/// Replaces secrets in a message. Keystone's schema errors quote the value that they refuse, passwords among them, in
/// Python's notation.
fn redact(message: String, secrets: &[String]) -> String {
    let forms = |secret: &String| {
        let quoted = secret.replace('\\', "\\\\");
        [secret.clone(), one_line(secret), one_line(&quoted), one_line(&quoted.replace('\'', "\\'"))]
    };
    let mut forms: Vec<String> = secrets.iter().flat_map(forms).filter(|form| !form.is_empty()).collect();
    // One secret may contain another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.iter().fold(message, |message, form| message.replace(form.as_str(), "***"))
}

/// The values of a body that are secret by their key.
pub(crate) fn secrets_in(body: &Value) -> Vec<String> {
    const KEYS: [&str; 5] = ["password", "original_password", "secret", "blob", "adminPass"];
    match body {
        Value::Object(object) => object
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(text) if KEYS.contains(&key.as_str()) && !text.is_empty() => vec![text.clone()],
                other => secrets_in(other),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(secrets_in).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_service_s_message_is_found() {
        let bodies = [
            json!({ "error": { "code": 404, "message": "not here", "title": "Not Found" } }),
            json!({ "itemNotFound": { "code": 404, "message": "not here" } }),
            json!({ "NeutronError": { "type": "PortNotFound", "message": "not here", "detail": "" } }),
            json!({ "errors": [{ "status": 404, "title": "Not Found", "detail": "not\n here", "request_id": "req-1" }] }),
            json!({ "faultcode": "Client", "faultstring": "not here", "debuginfo": null }),
            json!({ "error_message": "{\"faultstring\": \"not here\"}" }),
            json!({ "error_message": { "faultstring": "not here" } }),
            json!({ "message": "not here", "code": "404" }),
            json!({ "error": "not here" }),
        ];
        for body in bodies {
            assert_eq!(of(StatusCode::NOT_FOUND, body.to_string().as_bytes(), &[]), "not here", "{body}");
        }
        assert_eq!(of(StatusCode::NOT_FOUND, b"not here", &[]), "not here");
    }

    #[test]
    fn a_page_of_a_proxy_is_not_a_message() {
        assert_eq!(of(StatusCode::BAD_GATEWAY, b"<html><body>oops</body></html>", &[]), "Bad Gateway");
        assert_eq!(of(StatusCode::BAD_GATEWAY, b"", &[]), "Bad Gateway");
    }

    #[test]
    fn secrets_of_a_body_are_replaced_in_a_message() {
        let body = json!({ "user": { "name": "gardener", "password": "plum" }, "list": [{ "secret": "cherry" }] });
        let message = redact("'plum' is too short, cherry too".into(), &secrets_in(&body));
        assert_eq!(message, "'***' is too short, *** too");
        let nested = ["plum".to_owned(), "plum-cake".to_owned()];
        assert_eq!(redact("plum-cake is refused".into(), &nested), "*** is refused");
        let odd = r"it's  a \ plum".to_owned();
        assert_eq!(redact(r"'it\'s a \\ plum' is too short".into(), &[odd]), "'***' is too short");
    }

    #[test]
    fn a_secret_at_the_limit_is_not_cut_in_half() {
        let body = json!({ "message": format!("{}plum", "x".repeat(LIMIT - 2)) }).to_string();
        assert!(!of(StatusCode::BAD_REQUEST, body.as_bytes(), &["plum".into()]).contains("pl"));
    }
}

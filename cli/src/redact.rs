//! Takes secrets out of text that leaves the cluster: by what a value looks like, and by the values that are known.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// What stands in the place of a secret.
const HIDDEN: &str = "<redacted>";

/// The shortest value that is looked for: a shorter one is in many words.
const SHORTEST: usize = 6;

/// Patterns of secrets, and what is left of each.
static PATTERNS: LazyLock<Vec<(Regex, String)>> = LazyLock::new(|| {
    let name = r"(?:[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key))";
    [
        // A private key, with its lines as lines or as \n of JSON.
        (r"(?s)-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END [A-Z ]*PRIVATE KEY-----".to_owned(), HIDDEN.to_owned()),
        // A password in a URL: scheme://user:password@host.
        (r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'\x22]*):[^\s/@'\x22]+@".to_owned(), format!("$1:{HIDDEN}@")),
        // The same of the other servers of one URL, as for RabbitMQ: ,user:password@host.
        (r"(,[A-Za-z0-9_.%-]+):[^\s/@,'\x22]+@".to_owned(), format!("$1:{HIDDEN}@")),
        // Headers.
        (
            r"(?i)(authorization['\x22]?\s*[:=]\s*['\x22]?(?:bearer|basic)\s+)[^\s'\x22,;]+".to_owned(),
            format!("$1{HIDDEN}"),
        ),
        (r"(?i)\b(bearer)\s+[A-Za-z0-9+/=._~-]{20,}".to_owned(), format!("$1 {HIDDEN}")),
        (
            r"(?i)(x-(?:auth|subject|service|vault)-token['\x22]?\s*[:=]\s*['\x22]?)[^\s'\x22,;]+".to_owned(),
            format!("$1{HIDDEN}"),
        ),
        // A field of JSON or YAML, or an option, whose name says what it is.
        (format!(r#"(?i)(["']{name}["']\s*:\s*["'])(?:[^"'\\]|\\.)+"#), format!("$1{HIDDEN}")),
        (format!(r#"(?i)(\b{name}\s*=\s*["']?)[^\s"',;&<]+"#), format!("$1{HIDDEN}")),
        (r#"(?i)(\b(?:password|passwd|passphrase)\s*:\s*["']?)[^\s"',;<]+"#.to_owned(), format!("$1{HIDDEN}")),
        // Tokens by their form: Fernet, JSON Web Tokens, and those of Vault and OpenBao.
        (r"\bgAAAAA[A-Za-z0-9_-]{20,}={0,2}".to_owned(), HIDDEN.to_owned()),
        (r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*".to_owned(), HIDDEN.to_owned()),
        (r"\b(?:hv[sbr]|s|b)\.[A-Za-z0-9_-]{20,}".to_owned(), HIDDEN.to_owned()),
    ]
    .into_iter()
    .map(|(pattern, left)| (Regex::new(&pattern).expect("the patterns are constants"), left))
    .collect()
});

/// The text without what looks like a secret.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for (pattern, left) in PATTERNS.iter() {
        if let Cow::Owned(replaced) = pattern.replace_all(&text, left.as_str()) {
            text = Cow::Owned(replaced);
        }
    }
    text
}

/// Secrets whose values are known, to be looked for word for word.
#[derive(Default)]
pub(crate) struct Known(BTreeSet<String>);

impl Known {
    /// Adds the value of a key of a Secret: as it is, and as it is written in JSON and in base64. Of a file of options those
    /// whose names say that they are secret.
    pub(crate) fn add(&mut self, key: &str, value: &[u8]) {
        self.insert(base64_of(value), true);
        let Ok(text) = std::str::from_utf8(value) else { return };
        self.insert(text.trim().to_owned(), is_confidential(key));
        for (option, value) in text.lines().filter_map(|line| line.split_once('=')) {
            if is_confidential(option.trim()) {
                self.insert(value.trim().trim_matches('"').to_owned(), true);
            }
        }
    }

    /// A plain word may be a name, which is in many texts, unless its key says that it is a secret.
    fn insert(&mut self, value: String, is_named_so: bool) {
        let is_plain = value.chars().all(|letter| letter.is_ascii_lowercase() || "-_./:".contains(letter));
        let is_number = value.parse::<f64>().is_ok() || value == "false";
        if value.len() >= SHORTEST && (is_named_so || !is_plain && !is_number) {
            self.0.insert(value);
        }
    }

    /// The text without the known values and what looks like a secret.
    pub(crate) fn redact(&self, from: &str) -> String {
        let mut clean = from.to_owned();
        // The longest first: one may be a part of another.
        let mut values: Vec<&String> = self.0.iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            for form in [value.clone(), json_of(value)] {
                if clean.contains(&form) {
                    clean = clean.replace(&form, HIDDEN);
                }
            }
        }
        text(&clean).into_owned()
    }
}

/// Whether the name of a field, an option or a variable says that its value is a secret.
pub(crate) fn is_confidential(name: &str) -> bool {
    const LAST: &[&str] =
        &["password", "passwd", "passphrase", "secret", "token", "key", "connection", "transport_url"];
    let name = name.to_lowercase();
    // That of a spread constraint names a label.
    name != "topologykey" && LAST.iter().any(|word| name.ends_with(word))
}

/// A text as it is within a string of JSON.
fn json_of(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn base64_of(value: &[u8]) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(value.to_vec())).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_taken_out_and_the_rest_stays() {
        let fernet = format!("gAAAAA{}", "Bq1_".repeat(20));
        for (line, left) in [
            (
                "connection = mysql+pymysql://keystone:p%24ss@db:3306/keystone",
                "connection = mysql+pymysql://keystone:<redacted>@db:3306/keystone",
            ),
            (
                "transport_url=rabbit://nova:x@mq:5672,nova:y@mq2:5672/",
                "transport_url=rabbit://nova:<redacted>@mq:5672,nova:<redacted>@mq2:5672/",
            ),
            (
                r#"{"auth": {"password": "tell \"me\"", "user": "ada"}}"#,
                r#"{"auth": {"password": "<redacted>", "user": "ada"}}"#,
            ),
            ("admin_password = hunter2", "admin_password = <redacted>"),
            ("X-Auth-Token: abc123def", "X-Auth-Token: <redacted>"),
            ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer <redacted>"),
            ("secretRef.name is keystone-db-credentials", "secretRef.name is keystone-db-credentials"),
            ("spec.database.secretRef: missing", "spec.database.secretRef: missing"),
            ("nothing to see: 200 OK in 3 ms", "nothing to see: 200 OK in 3 ms"),
        ] {
            assert_eq!(text(line), left);
        }
        assert_eq!(text(&format!("token {fernet} was refused")), "token <redacted> was refused");
        let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(text(key), "a\n<redacted>\nb");
        assert_eq!(text("say eyJhbGciOi.eyJzdWIi.c2ln now"), "say <redacted> now");
    }

    #[test]
    fn known_values_are_taken_out_wherever_they_are_and_names_stay() {
        let mut known = Known::default();
        known.add("password", b"Tr0ub4dor&3");
        known.add("admin-password", b"riddleofowls");
        known.add("username", b"keystone");
        known.add("keystone.conf", b"[ldap]\npassword = \"d1rectory\"\n");
        let told =
            known.redact("keystone says Tr0ub4dor&3 and VHIwdWI0ZG9yJjM= and d1rectory, riddleofowls to keystone");
        assert_eq!(told, "keystone says <redacted> and <redacted> and <redacted>, <redacted> to keystone");
    }
}

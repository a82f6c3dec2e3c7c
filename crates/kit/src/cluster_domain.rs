//! The DNS domain of the cluster that an operator works for. It is a setting of the process: host names of Services are in
//! plans, certificates and configuration files everywhere, and a cluster has one domain.

use std::sync::OnceLock;

/// The domain of a cluster that is not told otherwise.
pub const DEFAULT: &str = "cluster.local";

static DOMAIN: OnceLock<String> = OnceLock::new();

/// Sets the domain, before any operator is started. It can be set once.
pub fn set(domain: &str) -> Result<(), String> {
    let domain = parse(domain)?;
    match DOMAIN.get_or_init(|| domain.clone()) {
        found if *found == domain => Ok(()),
        found => Err(format!("the cluster domain is {found} already; a process works for one cluster")),
    }
}

/// The domain, without dots at its ends.
pub fn get() -> &'static str {
    DOMAIN.get().map_or(DEFAULT, String::as_str)
}

/// The host name of a Service.
pub fn service_host(service: &str, namespace: &str) -> String {
    format!("{service}.{namespace}.svc.{}", get())
}

/// Checks a domain, and gives it without the dot that may end it.
pub fn parse(text: &str) -> Result<String, String> {
    let domain = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let inside = label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        (1..=63).contains(&label.len()) && inside && !label.starts_with('-') && !label.ends_with('-')
    };
    if domain.len() <= 200 && domain.split('.').all(is_label) {
        return Ok(domain.to_owned());
    }
    Err(format!("{text:?} is not a DNS domain; write lower case labels with dots between them, such as {DEFAULT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_labels_with_dots_between_them() {
        assert_eq!(parse("clouds.example.").as_deref(), Ok("clouds.example"));
        assert_eq!(parse("k8s").as_deref(), Ok("k8s"));
        for wrong in ["", ".", "a..b", "-a.b", "A.b", "a b", "svc.cluster.local/"] {
            assert!(parse(wrong).unwrap_err().contains("cluster.local"), "{wrong}");
        }
    }
}

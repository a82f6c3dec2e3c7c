//! The files that a broker reads, but for those with secrets in them.

use std::fmt::Write as _;

use c5c3_api::blocks::Quantity;
use c5c3_api::ext::rabbitmq::{RabbitmqCluster, RabbitmqTls};
use c5c3_kit::hash;
use kube::ResourceExt;

use super::names::Names;

/// Plugins that every broker has: the topology provider talks to the first.
const PLUGINS: [&str; 2] = ["rabbitmq_management", "rabbitmq_prometheus"];

/// The files of a RabbitMQ cluster, by what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// What the provider decides.
    pub(super) defaults: String,
    /// Who the members are. New members need it; for those that run, a change of it means nothing.
    pub(super) members: String,
    /// What the user decides.
    pub(super) user: String,
    /// `advanced.config` of the user.
    pub(super) advanced: String,
    /// `rabbitmq-env.conf` of the user.
    pub(super) environment: String,
    /// Which plugins run.
    pub(super) plugins: String,
    /// Host names of the members, line by line.
    pub(super) peers: String,
}

impl Files {
    /// The files of a cluster.
    pub(super) fn of(cluster: &RabbitmqCluster, names: &Names) -> Self {
        let given = cluster.spec.rabbitmq.clone().unwrap_or_default();
        let mut plugins: Vec<&str> = PLUGINS.to_vec();
        plugins.extend(given.additional_plugins.iter().map(String::as_str).filter(|plugin| !PLUGINS.contains(plugin)));
        Self {
            defaults: defaults(cluster),
            members: members(names),
            user: given.additional_config.unwrap_or_default(),
            advanced: given.advanced_config.unwrap_or_else(|| "[].\n".to_owned()),
            environment: given.env_config.unwrap_or_default(),
            plugins: format!("[{}].\n", plugins.join(",")),
            peers: names.hosts().fold(String::new(), |text, host| text + &host + "\n"),
        }
    }

    /// Stands for whatever makes a running broker out of date.
    pub(super) fn hash(&self) -> String {
        let Self { defaults, user, advanced, environment, plugins, .. } = self;
        hash::of_json(&serde_json::json!([defaults, user, advanced, environment, plugins, super::plan::START]))
    }
}

fn defaults(cluster: &RabbitmqCluster) -> String {
    let mut lines = vec![
        format!("cluster_name = {}", cluster.name_any()),
        "default_queue_type = quorum".to_owned(),
        // A member that sees no majority stops serving rather than going a way of its own.
        "cluster_partition_handling = pause_minority".to_owned(),
        "disk_free_limit.absolute = 200MB".to_owned(),
        "log.console = true".to_owned(),
        "log.console.level = info".to_owned(),
        "log.file = false".to_owned(),
    ];
    lines.push(match memory(cluster) {
        Some(limit) => format!("total_memory_available_override_value = {limit}"),
        None => "vm_memory_high_watermark.absolute = 512MiB".to_owned(),
    });
    if let Some(tls) = cluster.spec.tls.as_ref().filter(|tls| tls.secret_name.is_some()) {
        lines.extend(encrypted(tls));
    }
    lines.join("\n") + "\n"
}

/// What listens with a certificate, and whether that is all that listens. Once the interfaces speak TLS, they listen in the
/// clear only where they are told to.
fn encrypted(tls: &RabbitmqTls) -> Vec<String> {
    let mut lines = vec!["listeners.ssl.default = 5671".to_owned()];
    let is_plain = tls.disable_non_tls_listeners != Some(true);
    if !is_plain {
        lines.push("listeners.tcp = none".to_owned());
    }
    for (interface, port, plain_port) in [("management", 15671, 15672), ("prometheus", 15691, 15692)] {
        lines.push(format!("{interface}.ssl.port = {port}"));
        lines.extend(is_plain.then(|| format!("{interface}.tcp.port = {plain_port}")));
    }
    for options in ["ssl_options", "management.ssl", "prometheus.ssl"] {
        lines.push(format!("{options}.certfile = /tls/tls.crt"));
        lines.push(format!("{options}.keyfile = /tls/tls.key"));
        if tls.ca_secret_name.is_some() {
            lines.push(format!("{options}.cacertfile = /tls-ca/ca.crt"));
        }
    }
    // Clients show certificates to the queues; the interfaces ask for passwords alone.
    lines.extend(tls.ca_secret_name.is_some().then(|| "ssl_options.verify = verify_peer".to_owned()));
    lines
}

/// The memory that a broker may use, as RabbitMQ writes it.
fn memory(cluster: &RabbitmqCluster) -> Option<String> {
    let limit = cluster.spec.resources.as_ref()?.get().limits.get("memory").map(Quantity::as_str)?;
    let digits = limit.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &limit[digits.len()..] {
        unit @ ("Ki" | "Mi" | "Gi" | "Ti" | "M" | "G" | "T") => format!("{unit}B"),
        "k" => "kB".to_owned(),
        "" => String::new(),
        _ => return None,
    };
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{digits}{unit}"))
}

fn members(names: &Names) -> String {
    if names.members <= 1 {
        return String::new();
    }
    let mut text = String::from("cluster_formation.peer_discovery_backend = classic_config\n");
    for (number, host) in names.hosts().enumerate() {
        let _ = writeln!(text, "cluster_formation.classic_config.nodes.{} = rabbit@{host}", number + 1);
    }
    let size = names.members;
    let _ = write!(
        text,
        "cluster_formation.target_cluster_size_hint = {size}\n\
         cluster_formation.discovery_retry_limit = 120\n\
         cluster_formation.discovery_retry_interval = 1000\n\
         quorum_queue.continuous_membership_reconciliation.enabled = true\n\
         quorum_queue.continuous_membership_reconciliation.auto_remove = true\n\
         quorum_queue.continuous_membership_reconciliation.interval = 60000\n\
         quorum_queue.continuous_membership_reconciliation.target_group_size = {size}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster;
    use serde_json::json;

    fn files(spec: serde_json::Value) -> Files {
        let cluster = cluster(spec);
        Files::of(&cluster, &Names::of(&cluster))
    }

    #[test]
    fn three_members_know_each_other_by_their_lasting_names() {
        insta::assert_snapshot!(files(json!({"replicas": 3})).members);
        assert_eq!(files(json!({})).members, "");
    }

    #[test]
    fn the_watermark_follows_the_memory_that_is_allowed() {
        let with = |limit: &str| files(json!({"resources": {"limits": {"memory": limit}}})).defaults;
        assert!(with("2Gi").contains("total_memory_available_override_value = 2GiB"));
        assert!(with("900M").contains("total_memory_available_override_value = 900MB"));
        assert!(files(json!({})).defaults.contains("vm_memory_high_watermark.absolute = 512MiB"));
    }

    #[test]
    fn more_members_restart_nobody_and_other_settings_do() {
        let hash = |spec| files(spec).hash();
        assert_eq!(hash(json!({"replicas": 1})), hash(json!({"replicas": 3})));
        assert_ne!(hash(json!({})), hash(json!({"rabbitmq": {"additionalConfig": "channel_max = 7"}})));
        assert_ne!(hash(json!({})), hash(json!({"rabbitmq": {"additionalPlugins": ["rabbitmq_stream"]}})));
    }

    #[test]
    fn with_a_certificate_everything_speaks_tls_and_nothing_else_if_that_is_asked_for() {
        let with =
            |only: bool| files(json!({"tls": {"secretName": "burrow-tls", "disableNonTLSListeners": only}})).defaults;
        for line in ["listeners.ssl.default = 5671", "management.ssl.port = 15671", "prometheus.ssl.port = 15691"] {
            assert!(with(false).contains(line) && with(true).contains(line), "{line}");
        }
        for line in ["management.tcp.port = 15672", "prometheus.tcp.port = 15692"] {
            assert!(with(false).contains(line) && !with(true).contains(line), "{line}");
        }
        assert!(with(true).contains("listeners.tcp = none") && !with(false).contains("listeners.tcp"));
    }

    #[test]
    fn additional_plugins_come_after_those_that_are_needed() {
        let plugins =
            files(json!({"rabbitmq": {"additionalPlugins": ["rabbitmq_management", "rabbitmq_shovel"]}})).plugins;
        assert_eq!(plugins, "[rabbitmq_management,rabbitmq_prometheus,rabbitmq_shovel].\n");
    }
}

//! The releases of our own charts: operators, and the agents of hypervisors.

use serde_json::{Value, json};

use super::{CLOUD, Release};
use crate::manifests::{self, Agent, Installation};
use crate::operator;

/// The chart with the CRDs of Hypervisors and Migrations.
const HYPERVISORS: &str = "hypervisor-operator";

/// A chart of ours.
pub(super) struct Own {
    pub(super) chart: String,
    pub(super) home: String,
    pub(super) is_agent: bool,
    /// The releases that its objects or its CRDs come from.
    after: &'static [&'static str],
    values: Value,
}

/// All of them, operators first.
pub(super) fn all() -> Vec<Own> {
    let operators = operator::named().map(|(name, operator)| Own::operator(Installation::new(name, &operator, None)));
    operators.chain(manifests::agents(CLOUD).iter().map(Own::agent)).collect()
}

impl Own {
    /// Webhooks need certificates; all else that an operator needs may come later, and is waited for by the operator itself.
    fn operator(installation: Installation) -> Self {
        Self {
            chart: installation.own,
            home: installation.home,
            is_agent: false,
            after: &["cert-manager"],
            values: json!({"replicaCount": 2, "watchNamespace": CLOUD, "metrics": {"enabled": true}}),
        }
    }

    /// An agent about a cloud writes Hypervisors and Migrations, whose CRDs are those of another chart.
    fn agent(agent: &Agent) -> Self {
        let is_about_a_cloud = agent.is_about_a_cloud();
        Self {
            chart: agent.own(),
            home: agent.home().to_owned(),
            is_agent: true,
            after: if is_about_a_cloud { &[HYPERVISORS] } else { &[] },
            values: if is_about_a_cloud { json!({"watchNamespace": agent.objects()}) } else { json!({}) },
        }
    }

    pub(super) fn release(&self) -> Value {
        let mut release = Release {
            name: &self.chart,
            chart: &self.chart,
            source: "c5c3",
            versions: &versions(env!("CARGO_PKG_VERSION")),
            namespace: &self.home,
            after: self.after,
            values: self.values.clone(),
        }
        .object();
        if self.is_agent {
            // A host that is down would make a DaemonSet wait until the release is rolled back on all others.
            for action in ["install", "upgrade", "rollback"] {
                release["spec"][action]["disableWait"] = true.into();
            }
        }
        release
    }
}

/// From a version on to the next one that may break what is written for it: by semantic versioning the next major version, and
/// below 1.0 the next minor version.
fn versions(least: &str) -> String {
    let mut numbers = least.split('.').map(|number| number.parse::<u64>().unwrap_or_default());
    let next = match (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) {
        (0, minor) => format!("0.{}.0", minor + 1),
        (major, _) => format!("{}.0.0", major + 1),
    };
    format!(">={least} <{next}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_upgrade_never_reaches_a_version_that_may_break_something() {
        assert_eq!(versions("0.1.7"), ">=0.1.7 <0.2.0");
        assert_eq!(versions("1.4.2"), ">=1.4.2 <2.0.0");
        assert!(all().iter().all(|own| {
            let range = own.release()["spec"]["chart"]["spec"]["version"].clone();
            range.as_str().unwrap().contains(" <")
        }));
    }

    #[test]
    fn each_chart_is_released_in_the_namespace_that_its_operator_or_agent_runs_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/charts");
        let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let charts =
            folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap());
        // The chart of all has the others.
        let charts: BTreeSet<String> = charts.filter(|name| name != "c5c3").collect();
        let all = all();
        assert_eq!(all.iter().map(|own| own.chart.clone()).collect::<BTreeSet<_>>(), charts);
        let agents: Vec<_> = all.iter().filter(|own| own.is_agent).map(|own| (&*own.chart, &*own.home)).collect();
        assert_eq!(agents, [("c5c3-agent-node", "c5c3-system"), ("c5c3-agent-ovs", "ovn-system")]);
    }

    #[test]
    fn one_host_that_is_down_rolls_no_agent_back() {
        for own in all() {
            let release = own.release();
            let waits = |action: &str| release["spec"][action]["disableWait"] != true;
            assert!(["install", "upgrade", "rollback"].into_iter().all(|action| waits(action) != own.is_agent));
        }
    }
}

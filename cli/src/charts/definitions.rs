//! Which chart installs the CRD of which kind.

use c5c3_api::Kind;
use c5c3_kit::Operator;

use super::Files;
use crate::crds;
use crate::manifests::{self, Agent};

/// The chart of the operator of ControlPlanes.
const CONTROL_PLANES: &str = "c5c3-operator";

/// The CRDs of all charts, by their paths.
pub(super) fn files(operators: &[(&'static str, Operator)]) -> Result<Files, String> {
    let agents = manifests::agents("");
    let file = |kind: &Kind| {
        let (name, text) = crds::file(kind)?;
        Ok((format!("{}/crds/{name}", chart(kind, operators, &agents)), text))
    };
    c5c3_api::all().iter().map(file).collect()
}

/// The one chart that has the CRD of a kind: two releases of different versions would replace each other's. It belongs to
///
/// 1. the operator that looks after the kind,
/// 2. or one that looks after another kind of its group: a Pipeline is of no use without Cortex, nor is Cortex without it,
/// 3. or the agent that writes it,
/// 4. or else the operator of ControlPlanes: no program looks after such a kind yet.
fn chart(kind: &Kind, operators: &[(&'static str, Operator)], agents: &[Agent]) -> String {
    let looked_after = |is_it: &dyn Fn(&str, &str) -> bool| {
        let found = operators.iter().find(|(_, operator)| operator.kinds().iter().any(|(of, name)| is_it(of, name)));
        found.map(|(name, operator)| manifests::account_name(name, operator))
    };
    let is_of_group = |version: &str| version.split_once('/').is_some_and(|(group, _)| group == kind.group());
    looked_after(&|version, name| version == kind.api_version() && name == kind.name())
        .or_else(|| looked_after(&|version, _| is_of_group(version)))
        .or_else(|| agents.iter().find(|agent| agent.writes(kind)).map(Agent::own))
        .unwrap_or_else(|| CONTROL_PLANES.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::operator;

    /// The charts of each CRD, by its file.
    fn charts() -> BTreeMap<String, Vec<String>> {
        let operators: Vec<_> = operator::named().collect();
        let mut charts = BTreeMap::<String, Vec<String>>::new();
        for path in files(&operators).unwrap().into_keys() {
            let (chart, file) = path.split_once("/crds/").unwrap();
            charts.entry(file.to_owned()).or_default().push(chart.to_owned());
        }
        charts
    }

    #[test]
    fn each_kind_is_in_one_chart() {
        let charts = charts();
        assert_eq!(charts.len(), c5c3_api::all().len());
        assert!(charts.values().all(|charts| charts.len() == 1), "{charts:?}");
    }

    #[test]
    fn kinds_that_no_operator_looks_after_are_in_the_chart_of_who_writes_them() {
        let charts = charts();
        for (file, chart) in [
            ("cortex.c5c3.io_decisions.yaml", "cortex-operator"),
            ("cortex.c5c3.io_deschedulings.yaml", "cortex-operator"),
            ("cortex.c5c3.io_pipelines.yaml", "cortex-operator"),
            ("hypervisor.c5c3.io_migrations.yaml", "hypervisor-operator"),
            ("ovs.c5c3.io_ovsnodes.yaml", "c5c3-agent-ovs"),
            ("ceph.c5c3.io_remoteclusters.yaml", "c5c3-operator"),
        ] {
            assert_eq!(charts[file], [chart], "{file}");
        }
    }
}

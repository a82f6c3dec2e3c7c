//! The chart of an agent: its DaemonSet, its rights, and the policy that confines its tokens to the objects of their node.

use super::template::Node;
use super::{CONTAINER, Files, HELPERS, HOME, NAMESPACE, POD, document, metadata, values};
use crate::manifests::{self, Agent};

/// The namespace of the cloud's objects. What agents write of a cloud is always in one.
const CLOUD: &str = ".Values.watchNamespace | default \"openstack\"";

/// The charts of all agents, each with its files.
pub(super) fn charts() -> Result<Vec<(String, Files)>, String> {
    let agents = manifests::agents(NAMESPACE).into_iter().map(|agent| agent.in_namespace(HOME));
    agents.map(|agent| Ok((agent.own(), files(&agent)?))).collect()
}

fn files(agent: &Agent) -> Result<Files, String> {
    let chart = agent.own();
    let marks = [(HOME, format!("include \"{chart}.namespace\" .")), (NAMESPACE, CLOUD.to_owned())];
    let mut files = Files::from([
        ("Chart.yaml".to_owned(), metadata(&chart)?),
        ("values.yaml".to_owned(), values::agent_yaml(agent.is_about_a_cloud())),
        ("values.schema.json".to_owned(), format!("{:#}\n", values::agent_schema(&chart, agent.is_about_a_cloud()))),
        ("templates/_helpers.tpl".to_owned(), HELPERS.replace("CHART", &chart)),
        ("templates/NOTES.txt".to_owned(), NOTES.replace("CHART", &chart)),
    ]);
    for object in agent.manifests() {
        let mut node = Node::new(&object, &marks);
        let file = match object["kind"].as_str().unwrap_or_default() {
            // Helm makes the namespace of a release itself.
            "Namespace" => continue,
            "DaemonSet" => {
                daemon_set(&mut node, &chart);
                "daemonset"
            }
            "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => "policy",
            "ServiceAccount" => {
                values::account_annotations(&mut node);
                "rbac"
            }
            _ => "rbac",
        };
        *files.entry(format!("templates/{file}.yaml")).or_default() += &document(&node, None);
    }
    Ok(files)
}

/// What users choose of a DaemonSet.
fn daemon_set(node: &mut Node, chart: &str) {
    node.set(&format!("{CONTAINER}.image"), Node::text(format!("include \"{chart}.image\" .")));
    node.set(&format!("{CONTAINER}.resources"), Node::expression("toJson .Values.resources"));
    node.set(&format!("{POD}.tolerations"), Node::expression("toJson .Values.tolerations"));
    node.set(&format!("{POD}.priorityClassName"), Node::text(".Values.priorityClassName"));
    values::pod(node, &["nodeSelector"]);
}

/// What Helm prints after an installation.
const NOTES: &str = "\
CHART {{ .Chart.AppVersion }} runs on every node with the label node-role.kubernetes.io/hypervisor.

  kubectl -n {{ include \"CHART.namespace\" . }} rollout status daemonset/CHART
";

//! `c5c3 charts`: a Helm chart for each operator and each agent, and one for all of them. Their templates are made of the objects that
//! `c5c3 manifests` prints, so that both install the same.

mod agents;
mod definitions;
mod template;
mod umbrella;
mod values;

use std::collections::BTreeMap;
use std::process::ExitCode;

use c5c3_kit::Operator;
use c5c3_operator_hypervisor::{Hold, Issuer};
use serde_json::{Value, json};

use crate::args::FolderArgs;
use crate::manifests::{self, CERTIFICATES, Extras, HOLD, Installation, Places};
use crate::{Done, crds, operator};
use template::Node;

/// The version of the charts, and the tag of the images that they name.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Stands for the namespace that an operator runs in.
const HOME: &str = "@home@";

/// Stands for the namespace that an operator looks after.
const NAMESPACE: &str = "@namespace@";

/// Stand for the settings of the hypervisor operator's hold and issuer, which are values of its chart.
const PLACES: [(&str, &str); 5] = [
    ("@hold@", ".Values.hold.namespace"),
    ("@hold-image@", ".Values.hold.image"),
    ("@issuer-namespace@", ".Values.certificateIssuer.namespace"),
    ("@issuer-kind@", ".Values.certificateIssuer.kind"),
    ("@issuer-name@", "required \"certificateIssuer.name is empty\" .Values.certificateIssuer.name"),
];

/// What depends on whether they are set.
const HOLDS: &str = "if .Values.hold.namespace";
const ISSUES: &str = "if .Values.certificateIssuer.namespace";

/// What depends on whether an operator looks after one namespace.
const ONE_NAMESPACE: &str = "if .Values.watchNamespace";
const ALL_NAMESPACES: &str = "if not .Values.watchNamespace";
const WEBHOOKS: &str = "if .Values.webhooks.enabled";

/// The fields of a pod and its container that a Deployment's templates fill.
const POD: &str = "spec.template.spec";
const CONTAINER: &str = "spec.template.spec.containers.0";

/// Files by their path.
type Files = BTreeMap<String, String>;

pub(crate) fn run(args: &FolderArgs) -> Done {
    crds::replace(&args.output, &files()?)?;
    Ok(ExitCode::SUCCESS)
}

fn files() -> Result<Files, String> {
    let operators: Vec<(&str, Operator)> = operator::named().collect();
    let mut files = umbrella::files(&operators)?;
    for (chart, parts) in agents::charts()? {
        files.extend(parts.into_iter().map(|(path, text)| (format!("{chart}/{path}"), text)));
    }
    for (name, operator) in &operators {
        let chart = Chart::new(name, operator);
        for (path, text) in chart.files()? {
            files.insert(format!("{}/{path}", chart.name()), text);
        }
    }
    files.extend(definitions::files(&operators)?);
    Ok(files)
}

/// The chart of an operator.
struct Chart<'a> {
    operator: &'a Operator,
    installation: Installation,
}

impl<'a> Chart<'a> {
    fn new(name: &'static str, operator: &'a Operator) -> Self {
        let [hold, image, namespace, kind, issuer] = PLACES.map(|(mark, _)| mark.to_owned());
        let places = Places {
            hold: Some(Hold { namespace: hold, image }),
            issuer: Some(Issuer { namespace, kind, name: issuer }),
        };
        let installation = Installation::new(name, operator, Some(NAMESPACE)).with_places(places);
        Self { operator, installation: Installation { home: HOME.into(), ..installation } }
    }

    fn name(&self) -> &str {
        &self.installation.own
    }

    fn files(&self) -> Result<Files, String> {
        let mut files = Files::from([
            ("Chart.yaml".to_owned(), metadata(self.name())?),
            ("values.yaml".to_owned(), values::yaml(self.installation.name)),
            ("values.schema.json".to_owned(), format!("{:#}\n", values::schema(self.name()))),
            ("templates/_helpers.tpl".to_owned(), HELPERS.replace("CHART", self.name())),
            ("templates/NOTES.txt".to_owned(), NOTES.replace("CHART", self.name())),
        ]);
        let with = manifests::objects(&self.installation, self.operator, Extras { webhooks: true, monitor: true });
        let everywhere = Installation { namespace: None, ..self.installation.clone() };
        let without = manifests::objects(&everywhere, self.operator, Extras { webhooks: true, monitor: true });
        files.insert("templates/rbac.yaml".to_owned(), self.rights(&with, &without));
        for object in &with {
            if let Some((file, object)) = self.template(object) {
                *files.entry(format!("templates/{file}.yaml")).or_default() += &object;
            }
        }
        if self.installation.name == "controlplane" {
            let roles = manifests::people().iter().map(|role| document(&self.node(role), None)).collect();
            files.insert("templates/people.yaml".to_owned(), roles);
        }
        Ok(files)
    }

    fn node(&self, object: &Value) -> Node {
        let mut marks = vec![
            (HOME, format!("include \"{}.namespace\" .", self.name())),
            (NAMESPACE, ".Values.watchNamespace".to_owned()),
        ];
        marks.extend(PLACES.map(|(mark, expression)| (mark, expression.to_owned())));
        Node::new(object, &marks)
    }

    /// The account and its rights: some objects are others when all namespaces are looked after.
    fn rights(&self, with: &[Value], without: &[Value]) -> String {
        let is_right = |object: &&Value| {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            version.starts_with("rbac.") || object["kind"] == "ServiceAccount"
        };
        let mut text = String::new();
        for object in with.iter().filter(is_right) {
            let mut node = self.node(object);
            if object["kind"] == "ServiceAccount" {
                values::account_annotations(&mut node);
            }
            let one = (!without.contains(object)).then_some(ONE_NAMESPACE);
            text += &document(&node, self.asked(object).or(one));
        }
        for object in without.iter().filter(is_right).filter(|object| !with.contains(object)) {
            text += &document(&self.node(object), Some(ALL_NAMESPACES));
        }
        text
    }

    /// The condition under which the chart has a role of [`Places`], or its binding.
    fn asked(&self, object: &Value) -> Option<&'static str> {
        let role = object["metadata"]["name"].as_str()?.strip_prefix(self.name())?.strip_prefix('-')?;
        match role {
            HOLD => Some(HOLDS),
            CERTIFICATES => Some(ISSUES),
            _ => None,
        }
    }

    /// The template of another object, and the file that it is in. Helm makes the namespace of a release itself.
    fn template(&self, object: &Value) -> Option<(&'static str, String)> {
        let mut node = self.node(object);
        let (file, condition) = match object["kind"].as_str().unwrap_or_default() {
            "Deployment" => {
                self.deployment(&mut node);
                ("deployment", None)
            }
            "Service" => {
                node.items_within("spec.ports", "webhooks", WEBHOOKS);
                ("service", None)
            }
            "PodDisruptionBudget" => {
                node.set("spec.maxUnavailable", Node::expression("toJson .Values.podDisruptionBudget.maxUnavailable"));
                ("poddisruptionbudget", Some("if .Values.podDisruptionBudget.enabled"))
            }
            "NetworkPolicy" => {
                node.items_within("spec.ingress.0.ports", "webhooks", WEBHOOKS);
                node.add("spec.ingress.0", "from", Node::expression("toJson ."), "with .Values.networkPolicy.from");
                ("networkpolicy", Some("if .Values.networkPolicy.enabled"))
            }
            "ServiceMonitor" => {
                node.set("spec.endpoints.0.interval", Node::text(".Values.metrics.serviceMonitor.interval"));
                let labels = "range $key, $value := .Values.metrics.serviceMonitor.labels";
                node.add("metadata.labels", "{{ $key }}", Node::expression("toJson $value"), labels);
                ("servicemonitor", Some(MONITOR))
            }
            "Issuer" | "Certificate" => ("webhooks", Some(WEBHOOKS)),
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                // A webhook for other projects' kinds is called in all namespaces, and must never block them.
                if object["webhooks"][0].get("namespaceSelector").is_some() {
                    node.set("webhooks.0.failurePolicy", Node::expression(".Values.webhooks.failurePolicy"));
                    node.within("webhooks.0.namespaceSelector", ONE_NAMESPACE);
                }
                ("webhooks", Some(WEBHOOKS))
            }
            _ => return None,
        };
        Some((file, document(&node, condition)))
    }

    /// What users choose of a Deployment.
    fn deployment(&self, node: &mut Node) {
        let chart = self.name();
        node.set("spec.replicas", Node::expression(format!("include \"{chart}.replicas\" .")));
        node.set(&format!("{CONTAINER}.image"), Node::text(format!("include \"{chart}.image\" .")));
        node.set(&format!("{CONTAINER}.resources"), Node::expression("toJson .Values.resources"));
        let args = format!("{CONTAINER}.args");
        node.items_within(&args, "--namespace", ONE_NAMESPACE);
        node.items_within(&args, "--webhook", WEBHOOKS);
        if self.installation.name == "hypervisor" {
            node.items_within(&args, "--hold-", HOLDS);
            node.items_within(&args, "--certificate-issuer", ISSUES);
        }
        node.add(&args, "", Node::Scalar("'--cluster-domain={{ . }}'".into()), "with .Values.clusterDomain");
        node.items_within(&format!("{CONTAINER}.ports"), "webhooks", WEBHOOKS);
        node.within(&format!("{CONTAINER}.volumeMounts"), WEBHOOKS);
        node.within(&format!("{POD}.volumes"), WEBHOOKS);
        node.within(&format!("{POD}.securityContext.fsGroup"), WEBHOOKS);
        values::pod(node, &["affinity", "nodeSelector", "priorityClassName", "tolerations"]);
    }
}

/// A ServiceMonitor is left out on a cluster that does not know the kind: it would fail the whole release.
const MONITOR: &str = "if and .Values.metrics.enabled .Values.metrics.serviceMonitor.enabled \
    (.Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\")";

/// The description of the chart of an operator or an agent.
fn metadata(name: &str) -> Result<String, String> {
    let metadata = json!({
        "apiVersion": "v2", "type": "application", "name": name, "version": VERSION, "appVersion": VERSION,
        "description": format!("The {name} of CobaltCore"),
        "kubeVersion": ">=1.32.0-0",
        "sources": [SOURCE],
        "annotations": {"artifacthub.io/license": "Apache-2.0", "artifacthub.io/operator": "true"},
    });
    manifests::text(&[metadata])
}

/// Where the code is.
const SOURCE: &str = "https://github.com/c5c3/c5c3";

/// An object as a document of a template, if a condition holds.
fn document(node: &Node, condition: Option<&str>) -> String {
    let text = node.render(0);
    match condition {
        None => format!("---\n{text}"),
        Some(condition) => format!("{{{{- {condition} }}}}\n---\n{text}{{{{- end }}}}\n"),
    }
}

/// Named templates. Each chart has its own: those of all charts of a release share their names.
const HELPERS: &str = include_str!("helpers.tpl");

/// What Helm prints after an installation.
const NOTES: &str = include_str!("notes.txt");

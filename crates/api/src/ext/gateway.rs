//! HTTPRoute of the Gateway API (`gateway.networking.k8s.io`).

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::readiness::{Judge, Readiness, Ready};
use crate::blocks::Condition;

/// Requests for some host names, and where they go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    plural = "httproutes",
    namespaced,
    status = "HTTPRouteStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct HTTPRouteSpec {
    /// The Gateways that the requests come through.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The host names; those of the Gateways when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Where they go.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its group. It and the kind are always written: a default within a list makes each apply a change to some servers.
    #[serde(default = "group")]
    pub group: String,
    /// Its kind.
    #[serde(default = "gateway")]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; that of the route when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One of its listeners; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

impl ParentRef {
    /// The Gateway of that name in the route's namespace, with all of its listeners.
    pub fn new(name: impl Into<String>) -> Self {
        Self { group: group(), kind: gateway(), name: name.into(), ..Self::default() }
    }
}

fn group() -> String {
    "gateway.networking.k8s.io".into()
}

fn gateway() -> String {
    "Gateway".into()
}

/// Which requests go where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Which requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Match>,
    /// What becomes of them on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// Where they go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

impl Rule {
    /// Requests below `path` go to a port of the Service `service`.
    pub fn prefix(path: &str, service: &str, port: i32) -> Self {
        let path = PathMatch { r#type: "PathPrefix".into(), value: path.into() };
        let backend_refs = vec![BackendRef::new(service, port)];
        Self { matches: vec![Match { path }], filters: Vec::new(), backend_refs }
    }
}

/// What becomes of requests on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Filter {
    /// They ask for something else.
    #[serde(rename = "URLRewrite", rename_all = "camelCase")]
    UrlRewrite {
        /// What they ask for.
        url_rewrite: UrlRewrite,
    },
    /// They have other headers.
    #[serde(rename_all = "camelCase")]
    RequestHeaderModifier {
        /// Which.
        request_header_modifier: Headers,
    },
    /// Something that this version does not know.
    #[serde(other, skip_serializing)]
    Unknown,
}

impl Filter {
    /// Puts another path in the place of the one that the rule is about.
    pub fn replace_prefix(path: &str) -> Self {
        let path = PathRewrite { r#type: "ReplacePrefixMatch".into(), replace_prefix_match: path.into() };
        Self::UrlRewrite { url_rewrite: UrlRewrite { path } }
    }

    /// Sets a header, whatever it was.
    pub fn set_header(name: &str, value: &str) -> Self {
        let header = Header { name: name.into(), value: value.into() };
        Self::RequestHeaderModifier { request_header_modifier: Headers { set: vec![header] } }
    }
}

/// What requests ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlRewrite {
    /// The path.
    #[serde(default)]
    pub path: PathRewrite,
}

/// A changed path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathRewrite {
    /// How it is changed.
    #[serde(default)]
    pub r#type: String,
    /// What is in the place of the path that the rule is about.
    #[serde(default)]
    pub replace_prefix_match: String,
}

/// Changed headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// Those that are set, whatever they were.
    #[serde(default)]
    pub set: Vec<Header>,
}

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// Which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// By their path.
    #[serde(default)]
    pub path: PathMatch,
}

/// Paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMatch {
    /// How they are compared.
    #[serde(default)]
    pub r#type: String,
    /// With what.
    #[serde(default)]
    pub value: String,
}

/// A port of a Service, with everything that has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRef {
    /// The Service's group, which has no name.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// The Service.
    #[serde(default)]
    pub name: String,
    /// The port.
    #[serde(default)]
    pub port: i32,
    /// How many of the requests go there, compared with others.
    #[serde(default)]
    pub weight: i32,
}

impl BackendRef {
    /// A port of the Service `name`, for all requests.
    pub fn new(name: &str, port: i32) -> Self {
        Self { group: String::new(), kind: "Service".into(), name: name.into(), port, weight: 1 }
    }
}

/// What is said of a route, Gateway by Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HTTPRouteStatus {
    /// Each Gateway that a controller looks after.
    #[serde(default)]
    pub parents: Vec<ParentStatus>,
}

/// What the controller of a Gateway says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentStatus {
    /// The Gateway.
    #[serde(default)]
    pub parent_ref: ParentRef,
    /// What is true of the route there.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl HTTPRoute {
    fn is_same(&self, one: &ParentRef, other: &ParentRef) -> bool {
        let namespace = |parent: &ParentRef| parent.namespace.clone().or_else(|| self.metadata.namespace.clone());
        one.name == other.name && one.section_name == other.section_name && namespace(one) == namespace(other)
    }
}

impl Readiness for HTTPRoute {
    /// A route leads somewhere when each of its Gateways takes it, and finds what it leads to.
    fn readiness(&self) -> Ready {
        const CONTROLLER: &str = "the controller of its Gateway";
        Judge::judge(CONTROLLER, &self.metadata, self.status.as_ref(), |judge, status| {
            for parent in &self.spec.parent_refs {
                let said = status.parents.iter().find(|said| self.is_same(parent, &said.parent_ref));
                let Some(said) = said else {
                    let message = format!(
                        "Gateway {} does not take notice of it: is it there, with its controller?",
                        parent.name
                    );
                    return Err(Ready::no("NoGateway", message));
                };
                judge.holds(&said.conditions, "Accepted")?;
                judge.holds(&said.conditions, "ResolvedRefs")?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What is said of a route of the namespace `orchard` to the Gateway `fence` with that status.
    fn judged(status: &Value) -> String {
        let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "apples", "namespace": "orchard", "generation": 2},
            "spec": {"parentRefs": [{"name": "fence"}]}, "status": status});
        match serde_json::from_value::<HTTPRoute>(route).unwrap().readiness() {
            Ready::Yes => "yes".into(),
            Ready::No { reason, message } => format!("{reason}: {message}"),
        }
    }

    fn parent(name: &str, accepted: &str, resolved: &str, generation: i64) -> Value {
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": format!("{kind}{status}"),
            "message": "", "observedGeneration": generation})
        };
        json!({"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name, "namespace": "orchard"},
               "controllerName": "gardener", "conditions": [condition("Accepted", accepted), condition("ResolvedRefs", resolved)]})
    }

    #[test]
    fn a_route_is_ready_when_its_gateway_takes_it_and_finds_what_it_leads_to() {
        assert_eq!(judged(&json!({"parents": [parent("fence", "True", "True", 2)]})), "yes");
        let gone = parent("hedge", "False", "False", 1);
        assert_eq!(judged(&json!({"parents": [gone, parent("fence", "True", "True", 2)]})), "yes");
        for (parents, word) in [
            (json!([parent("fence", "False", "True", 2)]), "AcceptedFalse"),
            (json!([parent("fence", "True", "False", 2)]), "ResolvedRefsFalse"),
            (json!([parent("fence", "True", "True", 1)]), "Outdated"),
            (json!([parent("hedge", "True", "True", 2)]), "NoGateway"),
            (json!([]), "NoGateway"),
        ] {
            let said = judged(&json!({"parents": parents}));
            assert!(said.starts_with(word), "{said}");
        }
        assert_eq!(judged(&Value::Null), "NoStatus: has no status yet: is the controller of its Gateway running?");
    }
}

//! The roles of the hypervisor operator in the namespaces of `--hold-namespace` and `--certificate-issuer`, bound there and nowhere
//! else.

use c5c3_kit::Access;
use c5c3_operator_hypervisor::{Hold, Issuer, certificate_access, event_access, hold_access};
use serde_json::Value;

use super::{Installation, grant};

/// What the hypervisor operator makes outside the namespace that it watches; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// How machines are held.
    pub(crate) hold: Option<Hold>,
    /// Who signs the certificates of libvirt.
    pub(crate) issuer: Option<Issuer>,
}

/// The last parts of the names of roles.
pub(crate) const HOLD: &str = "hold";
pub(crate) const CERTIFICATES: &str = "certificates";
const EVENTS: &str = "events";

impl Places {
    /// The arguments of the operator.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(Hold { namespace, image }) = &self.hold {
            args.extend([format!("--hold-namespace={namespace}"), format!("--hold-image={image}")]);
        }
        if let Some(Issuer { namespace, kind, name }) = &self.issuer {
            args.push(format!("--certificate-issuer={namespace}/{kind}/{name}"));
        }
        args
    }
}

/// The roles in those namespaces, and their bindings. The namespaces must exist.
pub(super) fn objects(installation: &Installation) -> Vec<Value> {
    let Places { hold, issuer } = &installation.places;
    let mut places: Vec<(&str, &str, Access)> = Vec::new();
    places.extend(hold.as_ref().map(|hold| (HOLD, hold.namespace.as_str(), hold_access())));
    places.extend(issuer.as_ref().map(|issuer| (CERTIFICATES, issuer.namespace.as_str(), certificate_access())));
    if installation.name == "hypervisor" && installation.namespace.is_some() {
        // Events about cluster-scoped objects are in that namespace.
        places.push((EVENTS, "default", event_access()));
    }
    let (account, own) = (installation.account(), &installation.own);
    let bound = |(role, namespace, access): (&str, &str, Access)| {
        grant(account, &format!("{own}-{role}"), None, Some(namespace), &access.in_namespaces())
    };
    places.into_iter().flat_map(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use c5c3_kit::access;
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::json;

    use super::*;
    use crate::manifests::{Extras, objects};
    use crate::operator;

    /// What is bound, by namespace; in all of them under the empty name.
    fn given(objects: &[Value]) -> BTreeMap<String, Value> {
        let bindings = objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("RoleBinding"));
        let of = |binding: &Value| {
            let is_role = |object: &&Value| {
                object["kind"] == binding["roleRef"]["kind"]
                    && object["metadata"]["name"] == binding["roleRef"]["name"]
                    && (object["kind"] == "ClusterRole"
                        || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
            };
            objects.iter().find(is_role).expect("the role of a binding")["rules"].clone()
        };
        let namespace = |binding: &Value| binding["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        bindings.map(|binding| (namespace(binding), of(binding))).collect()
    }

    #[test]
    fn what_the_operator_of_hypervisors_is_given_is_what_it_asks_for_in_each_setting() {
        let hold = Hold { namespace: "cellar".into(), image: "pause".into() };
        let issuer = Issuer { namespace: "pki".into(), kind: "ClusterIssuer".into(), name: "libvirt".into() };
        let (name, operator) = operator::named().find(|(name, _)| *name == "hypervisor").unwrap();
        for (hold, issuer) in
            [(None, None), (Some(hold.clone()), None), (None, Some(issuer.clone())), (Some(hold), Some(issuer))]
        {
            let places = Places { hold: hold.clone(), issuer: issuer.clone() };
            let installation = Installation { places, ..Installation::new(name, &operator, Some("orchard")) };
            let written = objects(&installation, &operator, Extras::default());
            let mut asked: BTreeMap<&str, Vec<PolicyRule>> = BTreeMap::from([
                ("", operator.access().in_cluster()),
                ("orchard", operator.access().in_namespaces()),
                ("default", event_access().in_namespaces()),
                (installation.home.as_str(), access::lease("c5c3-hypervisor-operator")),
            ]);
            asked.extend(hold.as_ref().map(|_| ("cellar", hold_access().in_namespaces())));
            asked.extend(issuer.as_ref().map(|_| ("pki", certificate_access().in_namespaces())));
            assert_eq!(json!(given(&written)), json!(asked), "{hold:?} {issuer:?}");
            let deployment = written.iter().find(|object| object["kind"] == "Deployment").unwrap().to_string();
            assert_eq!(deployment.contains("--hold-namespace=cellar"), hold.is_some());
            assert_eq!(deployment.contains("--certificate-issuer=pki/ClusterIssuer/libvirt"), issuer.is_some());
        }
    }

    #[test]
    fn no_other_operator_has_a_role_in_a_namespace_of_its_own() {
        for (name, operator) in operator::named().filter(|(name, _)| *name != "hypervisor") {
            let installation = Installation::new(name, &operator, Some("orchard"));
            assert_eq!(super::objects(&installation), Vec::<Value>::new(), "{name}");
        }
    }
}

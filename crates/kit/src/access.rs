//! What an operator has to be allowed, as data: told by the kinds that its controllers say they read and write, and by
//! what the kit does with those. A role that is made of it is enough, and has nothing that is not used.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::controller::Controller;
use crate::object::KindRef;

/// To know of objects: they are watched, and read one by one.
const READ: &[&str] = &["get", "list", "watch"];

/// To make children: an apply of what is not there yet has to be allowed to create it.
const MAKE: &[&str] = &["create", "delete", "patch"];

/// What has to be allowed, kind by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it is about kinds in namespaces, group and resource, the name of a single object; and the verbs.
    verbs: BTreeMap<(bool, String, String, Option<String>), BTreeSet<&'static str>>,
}

impl Access {
    /// What one controller has to be allowed.
    pub fn of<C: Controller>(controller: &C) -> Self
    where
        <C::Kind as kube::Resource>::Scope: 'static,
    {
        let own = KindRef::of::<C::Kind>();
        let mut access = Self::default();
        access.allow(&own, "", READ);
        if C::REPORTS {
            access.allow(&own, "/status", &["patch"]);
        }
        // Children hold their owner back until they are gone, which some clusters ask this right for.
        access.allow(&own, "/finalizers", &["update"]);
        if C::FINALIZER.is_some() {
            access.allow(&own, "", &["patch"]);
        }
        for child in controller.children() {
            access.allow(&child, "", READ);
            access.allow(&child, "", MAKE);
        }
        if controller.children().contains(&KindRef::of::<Job>()) {
            // Before another run of the same thing is started, it is looked whether the one before it works.
            access.allow(&KindRef::of::<Pod>(), "", &["list"]);
        }
        for kind in controller.reads() {
            access.allow(&kind, "", READ);
        }
        for kind in controller.descendants() {
            access.allow(&kind, "", READ);
        }
        for (kind, part, verbs) in controller.rights() {
            access.allow(&kind, part, verbs);
        }
        for kind in controller.guarded() {
            access.allow(&kind, "", &["patch"]);
        }
        if C::PROBES {
            access.allow(&KindRef::of::<Service>(), "/proxy", &["get"]);
        }
        access.allow(&KindRef::of::<Event>(), "", &["create", "patch"]);
        access
    }

    /// Adds what another has to be allowed.
    pub fn extend(&mut self, other: Self) {
        for (what, verbs) in other.verbs {
            self.verbs.entry(what).or_default().extend(verbs);
        }
    }

    /// Also allows these verbs on a kind (or on a part of it, such as `/status`), in the namespaces that the operator looks
    /// after.
    pub fn grant(mut self, kind: &KindRef, part: &str, verbs: &[&'static str]) -> Self {
        self.allow(kind, part, verbs);
        self
    }

    /// Also allows these verbs on a kind in all namespaces, whichever the operator looks after.
    pub fn grant_everywhere(mut self, kind: &KindRef, part: &str, verbs: &[&'static str]) -> Self {
        self.add((false, kind, None), part, verbs);
        self
    }

    /// Also allows these verbs on one object: in the namespaces that the operator looks after, if its kind is in namespaces.
    pub fn grant_named(mut self, kind: &KindRef, name: &str, verbs: &[&'static str]) -> Self {
        self.add((kind.namespaced, kind, Some(name)), "", verbs);
        self
    }

    /// Allows to read one object, wherever it is.
    pub(crate) fn read_named(&mut self, kind: &KindRef, name: &str) {
        self.add((false, kind, Some(name)), "", &["get"]);
    }

    fn allow(&mut self, kind: &KindRef, part: &str, verbs: &[&'static str]) {
        self.add((kind.namespaced, kind, None), part, verbs);
    }

    fn add(&mut self, what: (bool, &KindRef, Option<&str>), part: &str, verbs: &[&'static str]) {
        let (in_namespaces, kind, name) = what;
        let (group, resource) = (kind.resource.group.clone(), format!("{}{part}", kind.resource.plural));
        let key = (in_namespaces, group, resource, name.map(ToOwned::to_owned));
        self.verbs.entry(key).or_default().extend(verbs);
    }

    /// The rules for the namespaces that the operator looks after.
    pub fn in_namespaces(&self) -> Vec<PolicyRule> {
        self.rules(true)
    }

    /// The rules for kinds that are in no namespace, and for what is reached in all of them.
    pub fn in_cluster(&self) -> Vec<PolicyRule> {
        self.rules(false)
    }

    /// One rule for all resources of a group that the same is allowed with; those for single objects come last.
    fn rules(&self, namespaced: bool) -> Vec<PolicyRule> {
        type Same<'a> = (Option<&'a str>, &'a str, &'a BTreeSet<&'static str>);
        let mut rules: BTreeMap<Same<'_>, Vec<String>> = BTreeMap::new();
        for ((in_namespaces, group, resource, name), verbs) in &self.verbs {
            if *in_namespaces == namespaced {
                rules.entry((name.as_deref(), group, verbs)).or_default().push(resource.clone());
            }
        }
        let rule = |((name, group, verbs), resources): (Same<'_>, Vec<String>)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(resources),
            resource_names: name.map(|name| vec![name.to_owned()]),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        };
        rules.into_iter().map(rule).collect()
    }
}

/// The rules for holding the Lease of that name, where leases are.
pub fn lease(name: &str) -> Vec<PolicyRule> {
    let rule = |verbs: &[&str], names: Option<Vec<String>>| {
        let KindRef { resource, .. } = KindRef::of::<Lease>();
        PolicyRule {
            api_groups: Some(vec![resource.group]),
            resources: Some(vec![resource.plural]),
            resource_names: names,
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        }
    };
    // A name is not known yet when something is created. Who may delete an object may change its owner, where that is protected.
    let own = &["get", "list", "update", "watch", "delete"];
    vec![rule(&["create"], None), rule(own, Some(vec![name.to_owned()]))]
}

//! What is wrong with a plan that only a bug in its operator can get wrong. A plan with a flaw is not carried out.

use std::collections::HashSet;

use kube::core::ApiResource;

use crate::object::{KindRef, Ref};
use crate::plan::{Decision, Plan, Step, StepName};

/// What a controller has declared, and its plans are held against.
pub(crate) struct Declared<'a> {
    /// The kind of the object.
    pub(crate) kind: &'a ApiResource,
    /// The conditions of its status.
    pub(crate) conditions: &'a [&'static str],
    /// The conditions about the object as a whole, which a plan may state too.
    pub(crate) summary: &'a [&'static str],
    /// The kinds of its children.
    pub(crate) children: &'a [KindRef],
    /// Whether it has a remote.
    pub(crate) remote: bool,
}

impl Declared<'_> {
    /// The first flaw of a plan.
    pub(crate) fn flaw(&self, plan: &Plan) -> Option<String> {
        let mut names: Vec<&StepName> = plan.removed_steps.iter().collect();
        let mut seen = HashSet::new();
        for step in &plan.steps {
            let flaw = self.flaw_of_step(step).or_else(|| place(step, &names)).or_else(|| repeated(step, &mut seen));
            if flaw.is_some() {
                return flaw;
            }
            names.extend(step.node.as_ref().map(|node| &node.name));
        }
        let mut stated = plan.conditions.iter().map(|state| state.condition.as_str());
        if let Some(stranger) =
            stated.find(|stated| !self.conditions.contains(stated) && !self.summary.contains(stated))
        {
            return Some(format!("{stranger} is not in CONDITIONS"));
        }
        self.undeclared_status(plan)
    }

    fn flaw_of_step(&self, step: &Step) -> Option<String> {
        if !self.conditions.contains(&step.condition) {
            return Some(format!("{} is not in CONDITIONS", step.condition));
        }
        if step.children.is_empty() && step.calls.is_empty() && step.decision == Decision::Planned {
            return Some(format!("step {} has no children and is neither undecided() nor childless()", step.title()));
        }
        if !self.remote && !step.calls.is_empty() {
            return Some(format!("step {} has calls, and remote() names no remote", step.title()));
        }
        let is_known = |resource: &ApiResource| self.children.iter().any(|kind| kind.resource == *resource);
        let stranger = step.children.iter().find(|child| !is_known(&child.resource))?;
        Some(format!("{} is of a kind that is not in children()", stranger.reference()))
    }

    /// A field that the schema lacks would be pruned by the API server without a word.
    fn undeclared_status(&self, plan: &Plan) -> Option<String> {
        let kind = c5c3_api::find(&self.kind.api_version, &self.kind.kind)?;
        let unknown = plan.status.keys().find(|field| !kind.has_status_field(field))?;
        Some(format!("{} has no field status.{unknown}", self.kind.kind))
    }
}

/// Whether the step's name and needs fit the steps before it. Those that were dropped count as steps before it.
fn place(step: &Step, before: &[&StepName]) -> Option<String> {
    let node = step.node.as_ref()?;
    if before.contains(&&node.name) {
        return Some(format!("there are two steps of the name {}", node.name));
    }
    let need = node.needs.iter().find(|need| !before.contains(need))?;
    Some(format!("{} needs {need}, which does not come before it", node.name))
}

fn repeated(step: &Step, seen: &mut HashSet<Ref>) -> Option<String> {
    let child = step.children.iter().map(crate::plan::Child::reference).find(|child| !seen.insert(child.clone()))?;
    Some(format!("{child} is in the plan twice"))
}

#[cfg(test)]
mod tests {
    use c5c3_api::openstack::Keystone;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::ObjectMeta;

    use super::*;
    use crate::plan::Child;

    fn flaw(plan: &Plan) -> Option<String> {
        let kind = KindRef::of::<Keystone>().resource;
        let children = [KindRef::of::<ConfigMap>()];
        Declared { kind: &kind, conditions: &["Ripe"], summary: &[], children: &children, remote: false }.flaw(plan)
    }

    fn named(name: &str) -> ObjectMeta {
        ObjectMeta { name: Some(name.into()), namespace: Some("orchard".into()), ..ObjectMeta::default() }
    }

    fn apple() -> Child {
        Child::new(&ConfigMap { metadata: named("apple"), ..ConfigMap::default() })
    }

    fn step(name: &'static str, needs: &[&'static str]) -> Step {
        Step::new("Ripe").node(name, needs).childless()
    }

    #[test]
    fn a_step_without_children_says_whether_it_is_undecided_or_wants_none() {
        let empty = Step::new("Ripe").node("tree", []);
        let said = flaw(&Plan::new().step(empty.clone())).unwrap();
        assert_eq!(said, "step tree has no children and is neither undecided() nor childless()");
        assert_eq!(flaw(&Plan::new().step(empty.clone().childless())), None);
        assert_eq!(flaw(&Plan::new().step(empty.clone().undecided([]))), None);
        assert_eq!(flaw(&Plan::new().step(empty.child(apple()))), None);
    }

    #[test]
    fn names_of_steps_are_unique_and_needs_come_before() {
        let twice = flaw(&Plan::new().step(step("tree", &[])).step(step("tree", &[])));
        assert_eq!(twice.as_deref(), Some("there are two steps of the name tree"));
        let early = flaw(&Plan::new().step(step("tree", &["soil"])).step(step("soil", &[])));
        assert_eq!(early.as_deref(), Some("tree needs soil, which does not come before it"));
        assert_eq!(flaw(&Plan::new().step(step("tree", &["soil"])).without_step("soil")), None);
        assert!(
            flaw(&Plan::new().step(step("soil", &[])).without_step("soil")).is_some(),
            "it is there or dropped, not both"
        );
    }

    #[test]
    fn a_child_is_in_one_step_and_of_a_declared_kind() {
        let tree = Step::new("Ripe").node("tree", []).child(apple());
        let basket = Step::new("Ripe").node("basket", []).child(apple());
        let twice = flaw(&Plan::new().step(tree).step(basket));
        assert_eq!(twice.as_deref(), Some("configmap/orchard/apple is in the plan twice"));
        let stranger = Child::new(&Secret { metadata: named("apple"), ..Secret::default() });
        let said = flaw(&Plan::new().step(Step::new("Ripe").child(stranger))).unwrap();
        assert!(said.ends_with("is of a kind that is not in children()"), "{said}");
        let said = flaw(&Plan::new().step(Step::new("Rotten").child(apple())));
        assert_eq!(said.as_deref(), Some("Rotten is not in CONDITIONS"));
    }

    #[test]
    fn a_status_has_the_fields_of_its_schema() {
        let plan = || Plan::new().step(step("tree", &[]));
        assert_eq!(flaw(&plan().status("endpoint", "http://orchard")), None);
        assert_eq!(flaw(&plan().status("endpont", "x")).as_deref(), Some("Keystone has no field status.endpont"));
    }
}

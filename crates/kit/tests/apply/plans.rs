//! Plans as values: what their builders set, and what is printed of them.

use std::time::Duration;

use c5c3_kit::plan::{Basis, Decision};
use c5c3_kit::{Child, Node, Plan, Ref, Step, Wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::ground::{secret, step};

fn flood() -> Wait {
    Wait::on(&Ref::namespaced::<Secret>("valley", "dam")).now("leaks")
}

#[test]
fn each_builder_of_a_plan_sets_its_own_field_and_keeps_the_others() {
    let plan = Plan::new()
        .step(step("mill", &[]).childless())
        .without_step("mule")
        .status("stones", 2)
        .event("Fed", "one bale")
        .failed_event("Burnt", "two bales")
        .upgrading(true)
        .ready_reason("Grinding");
    assert_eq!((plan.steps.len(), plan.removed_steps.as_slice()), (1, &["mule".into()][..]));
    assert_eq!(json!(plan.status), json!({"stones": 2}));
    let events: Vec<_> = plan.events.iter().map(|note| (note.reason, note.note.as_str(), note.warning)).collect();
    assert_eq!(events, [("Fed", "one bale", false), ("Burnt", "two bales", true)]);
    assert_eq!((plan.upgrading, plan.ready_reason), (true, "Grinding"));
    assert_eq!(Plan::new().ready_reason, "Ready");
}

#[test]
fn each_builder_of_a_step_sets_its_own_field_and_keeps_the_others() {
    let mill = Step::new("MillReady")
        .child(secret("key", "b25l"))
        .children([secret("lock", "dHdv"), secret("bolt", "dHdv")])
        .wait(flood())
        .reasons("Ground", "Grinding")
        .done("there is flour")
        .node("mill", ["well"]);
    assert_eq!((mill.condition, mill.children.len(), mill.waits.as_slice()), ("MillReady", 3, &[flood()][..]));
    assert_eq!(
        (mill.done_reason, mill.waiting_reason, mill.done.as_str()),
        ("Ground", Some("Grinding"), "there is flour")
    );
    assert_eq!(mill.node, Some(Node { name: "mill".into(), needs: vec!["well".into()] }));
    assert_eq!(mill.decision, Decision::Planned);
    assert_eq!(Step::new("MillReady").childless().decision, Decision::Childless);
    let undecided = Step::new("MillReady").undecided([flood()]);
    assert_eq!((undecided.decision, undecided.waits), (Decision::Undecided, vec![flood()]));
}

#[test]
fn each_builder_of_a_child_sets_its_own_field_and_keeps_the_others() {
    let child = secret("key", "b25l")
        .kept(true)
        .irreplaceable(flood())
        .adoptable()
        .readiness_optional()
        .because("the town eats bread")
        .keep_previous(2)
        .retry_after(Duration::from_mins(1))
        .based_on(Some("7".into()));
    assert_eq!((child.kept, child.lost.clone()), (Some(true), Some(flood())));
    assert!(child.adoptable && child.readiness_optional);
    assert_eq!((child.because.as_deref(), child.keep_previous), (Some("the town eats bread"), 2));
    assert_eq!((child.retry_after, &child.basis), (Some(Duration::from_mins(1)), &Basis::Version("7".into())));
    assert_eq!(secret("key", "b25l").based_on(None).basis, Basis::Absent);
}

#[test]
fn a_printed_plan_has_its_steps_children_and_status_and_no_value_of_a_secret() {
    let note: ConfigMap = serde_json::from_value(
        json!({"metadata": {"name": "note", "namespace": "valley"}, "data": {"price": "cheap"}}),
    )
    .unwrap();
    let mill = step("mill", &["well"]).child(secret("key", "b25l")).child(Child::new(&note));
    let plan = Plan::new().step(step("well", &[]).childless()).step(mill).without_step("mule");
    let headings = |plan: &Plan| -> Vec<String> {
        plan.golden().lines().filter(|line| line.starts_with("== ")).map(ToOwned::to_owned).collect()
    };
    assert_eq!(headings(&plan), ["== MillReady: well", "== MillReady: mill after well", "== dropped: mule"]);
    let printed = plan.golden();
    assert!(printed.contains("cheap") && printed.contains("<secret ") && !printed.contains("b25l"), "{printed}");
    assert_eq!(headings(&plan.status("stones", 2)).last().map(String::as_str), Some("== status"));
    assert!(!format!("{:?}", secret("key", "b25l")).contains("b25l"));
    assert!(format!("{:?}", secret("key", "b25l")).contains("key"));
}

#[test]
fn a_printed_plan_tells_undecided_steps_and_marks_of_children() {
    let marks = |step: Step| Plan::new().step(step).golden().lines().filter(|line| line.starts_with("-- ")).count();
    assert_eq!(marks(step("mill", &[]).childless()), 0);
    assert_eq!(marks(step("mill", &[]).undecided([])), 1);
    assert_eq!(marks(step("mill", &[]).undecided([flood()])), 2);
    assert_eq!(marks(step("mill", &[]).child(secret("key", "b25l").kept(false))), 0);
    assert_eq!(marks(step("mill", &[]).child(secret("key", "b25l").kept(true))), 1);
    assert_eq!(
        marks(
            step("mill", &[]).child(secret("key", "b25l").kept(true).readiness_optional().adoptable().based_on(None))
        ),
        4
    );
}

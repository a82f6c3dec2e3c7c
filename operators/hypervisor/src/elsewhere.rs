//! Controllers whose children are all in a namespace that a flag names, whichever namespace the operator watches. Their rights are
//! bound in that namespace and nowhere else.

use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::run::{RunOptions, run};
use c5c3_kit::{Access, Child, Controller, KindRef, Task};
use k8s_openapi::api::events::v1::Event;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{certificate, hold};

/// What the operator has to be allowed in the namespace of `--hold-namespace`.
pub fn hold_access() -> Access {
    makes(&hold::kinds())
}

/// What the operator has to be allowed in the namespace of `--certificate-issuer`.
pub fn certificate_access() -> Access {
    makes(&certificate::kinds())
}

/// What the operator has to be allowed in the namespace `default`, where events about cluster-scoped objects are.
pub fn event_access() -> Access {
    Access::default().grant(&KindRef::of::<Event>(), "", &["create", "patch"])
}

fn makes(kinds: &[KindRef]) -> Access {
    const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
    kinds.iter().fold(Access::default(), |access, kind| access.grant(kind, "", VERBS))
}

/// Runs a controller whose children are all in that namespace.
pub(crate) async fn work<C>(mut task: Task, controller: C, manager: &'static str, namespace: String)
where
    C: Controller<Kind = Hypervisor>,
{
    let (client, stop) = (task.client.clone(), task.stop.clone());
    let options = RunOptions { namespace: Some(namespace), ..task.options.clone() };
    let metrics = task.metrics.clone();
    run(controller, manager, client, options, metrics, stop, move || task.started()).await;
}

/// The statuses of these conditions: a controller that depends on them is started by their changes.
pub(crate) fn statuses(object: &DynamicObject, conditions: &[&str]) -> String {
    let all = object.data["status"]["conditions"].as_array().into_iter().flatten();
    let wanted = all.filter(|one| one["type"].as_str().is_some_and(|name| conditions.contains(&name)));
    format!("{:?}", wanted.map(|one| (&one["type"], &one["status"])).collect::<Vec<_>>())
}

/// A child in a namespace.
pub(crate) fn child<K: kube::Resource<DynamicType = ()>>(namespace: &str, name: &str, content: Value) -> Child
where
    K::Scope: 'static,
{
    let kind = KindRef::of::<K>();
    let mut object = DynamicObject::new(name, &kind.resource).within(namespace);
    object.data = content;
    Child::dynamic(kind.resource, object)
}

//! Pods: made from templates, judged, deleted, and told about.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ObjectMeta, Selector};
use kube::{Client, ResourceExt};

use crate::context::Context;
use crate::error::{is_gone, is_namespace_going};
use crate::owners;
use crate::watched::Kind;

/// A pod from a template: with its labels, annotations and finalizers, a name that begins with the owner's, and the
/// owner as its controller.
pub(crate) fn from_template<O: Kind>(template: &PodTemplateSpec, owner: &O) -> Pod {
    let wanted = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name_any())),
            namespace: owner.namespace(),
            labels: wanted.labels,
            annotations: wanted.annotations,
            finalizers: wanted.finalizers,
            owner_references: Some(vec![owners::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The phase that a pod is in: `Pending` until someone says otherwise.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether a pod runs or will: it has neither ended nor been told to.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !owners::is_going(&pod.metadata)
}

/// Whether a pod has ended, well or not.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// A condition of a pod.
pub(crate) fn condition<'p>(pod: &'p Pod, name: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// How long until a pod that is ready has been so for `min_ready_seconds`: zero if it is available. None: it is not
/// ready, and only a change can make it so.
pub(crate) fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    let wanted = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    if wanted.is_zero() {
        return Some(Duration::ZERO);
    }
    let since = ready.last_transition_time.as_ref()?.0;
    let been = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(wanted.saturating_sub(been))
}

/// Whether a pod has been ready for long enough.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    until_available(pod, min_ready_seconds, now).is_some_and(|left| left.is_zero())
}

/// The pods of a namespace that a selector selects, as they are now.
pub(crate) async fn list(client: &Client, namespace: &str, selector: &Selector) -> Result<Vec<Pod>, kube::Error> {
    let params = ListParams::default().labels_from(selector);
    Ok(Api::<Pod>::namespaced(client.clone(), namespace).list(&params).await?.items)
}

/// Creates a pod for its owner, and tells about it. None: its namespace is going, and there is nothing to be told.
pub(crate) async fn create<O: Kind>(context: &Context, owner: &O, pod: &Pod) -> Result<Option<Pod>, kube::Error> {
    let api = Api::<Pod>::namespaced(context.client.clone(), &owner.namespace().unwrap_or_default());
    match api.create(&PostParams::default(), pod).await {
        Ok(made) => {
            context.events.normal(owner, "SuccessfulCreate", format!("Created pod: {}", made.name_any())).await;
            Ok(Some(made))
        }
        Err(error) if is_namespace_going(&error) => Ok(None),
        Err(error) => {
            context.events.warning(owner, "FailedCreate", format!("Error creating: {}", said(&error))).await;
            Err(error)
        }
    }
}

/// Deletes a pod for its owner, and tells about it. That it is gone already is fine.
pub(crate) async fn delete<O: Kind>(context: &Context, owner: &O, pod: &Pod) -> Result<(), kube::Error> {
    let name = pod.name_any();
    match remove(&context.client, pod).await {
        Ok(true) => {
            context.events.normal(owner, "SuccessfulDelete", format!("Deleted pod: {name}")).await;
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(error) => {
            context.events.warning(owner, "FailedDelete", format!("Error deleting: {}", said(&error))).await;
            Err(error)
        }
    }
}

/// Deletes a pod, that one and no other of its name, with its own grace period. False: it is gone already.
pub(crate) async fn remove(client: &Client, pod: &Pod) -> Result<bool, kube::Error> {
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    match api.delete(&pod.name_any(), &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        // The name belongs to another pod by now.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Does something so many times, one at first, then twice as many at once each time that all went well: what cannot
/// work fails once and not a hundred times.
pub(crate) async fn slowly<T, F>(count: usize, mut once: impl FnMut(usize) -> F) -> Result<(), kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let (mut done, mut batch) = (0, 1);
    while done < count {
        let until = count.min(done + batch);
        let results = join_all((done..until).map(&mut once)).await;
        results.into_iter().collect::<Result<Vec<T>, _>>()?;
        (done, batch) = (until, batch * 2);
    }
    Ok(())
}

/// What the API said, as upstream's events have it.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_available_once_it_has_been_ready_for_long_enough() {
        let pod: Pod = serde_json::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap();
        let after = |seconds| {
            Timestamp::from_second("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap().as_second() + seconds)
        };
        assert_eq!(until_available(&pod, 0, after(0).unwrap()), Some(Duration::ZERO));
        assert_eq!(until_available(&pod, 10, after(4).unwrap()), Some(Duration::from_secs(6)));
        assert!(is_available(&pod, 10, after(10).unwrap()));
        assert_eq!(until_available(&Pod::default(), 0, after(0).unwrap()), None, "it is not ready");
    }

    #[tokio::test]
    async fn what_cannot_work_is_not_tried_a_hundred_times() {
        let tried = Cell::new(0);
        let fail = |_| {
            tried.set(tried.get() + 1);
            let status = serde_json::from_value(json!({"code": 403, "message": "exceeded quota"})).unwrap();
            std::future::ready(if tried.get() > 2 { Err::<(), _>(kube::Error::Api(status)) } else { Ok(()) })
        };
        assert!(slowly(100, fail).await.is_err());
        assert_eq!(tried.get(), 3, "one, then two at once");
    }
}

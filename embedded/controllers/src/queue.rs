//! How a controller is run: one object at a time, again when it fails, later and later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;

use crate::context::Context;
use crate::error::Error;
use crate::watched::Kind;

/// When to look at an object again though nothing changed.
pub(crate) type Again = Option<Duration>;

/// How soon a failure is tried again at first, as upstream's rate limiter has it.
const SHORTEST: Duration = Duration::from_millis(5);
/// How late it is tried again at most. Upstream goes to a thousand seconds, which no one waits for on one machine.
const LONGEST: Duration = Duration::from_mins(1);

/// How often in a row each object failed.
struct Failures<K: Kind>(Mutex<HashMap<ObjectRef<K>, u32>>);

impl<K: Kind> Failures<K> {
    fn count(&self, object: &K) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ObjectRef::from_obj(object)).or_default();
        *count += 1;
        *count
    }

    fn forget(&self, object: &K) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&ObjectRef::from_obj(object));
    }
}

/// Runs a controller until the context says stop.
pub(crate) async fn run<K, F>(
    controller: Controller<K>,
    context: Context,
    reconcile: impl Fn(Arc<K>, Context) -> F + Send + Sync + 'static,
) where
    K: Kind,
    F: Future<Output = Result<Again, Error>> + Send + 'static,
{
    let stop = context.stop.clone();
    let failures = Arc::new(Failures::<K>(Mutex::default()));
    let (forget, count) = (failures.clone(), failures);
    let once = move |object: Arc<K>, context: Arc<Context>| {
        let (done, forget) = (reconcile(object.clone(), Context::clone(&context)), forget.clone());
        async move {
            let again = done.await?;
            forget.forget(&object);
            Ok::<Action, Error>(again.map_or_else(Action::await_change, Action::requeue))
        }
    };
    let failed = move |object: Arc<K>, error: &Error, _: Arc<Context>| {
        let times = count.count(&object);
        if !error.is_conflict() {
            let (kind, name) = (K::kind(&()), object.meta().name.as_deref().unwrap_or_default());
            tracing::warn!(%kind, name, times, %error, "a reconciliation has failed");
        }
        Action::requeue(pause(times))
    };
    let controller = controller.graceful_shutdown_on(stop.cancelled_owned());
    controller.run(once, failed, Arc::new(context)).for_each(|_| std::future::ready(())).await;
}

/// How long to wait after failing that often.
fn pause(times: u32) -> Duration {
    SHORTEST.saturating_mul(1 << times.saturating_sub(1).min(20)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_later_and_later() {
        let waits = [1, 2, 3, 12, 40].map(|times| pause(times).as_millis());
        assert_eq!(waits, [5, 10, 20, 10_240, 60_000]);
    }
}

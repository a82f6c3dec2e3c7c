//! Keeping what runs running.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// The first pause before something that ended is started again.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest pause before something that keeps ending is started again.
const LONGEST: Duration = Duration::from_secs(30);

/// Something that runs until it is told to stop.
pub(crate) struct Task {
    name: &'static str,
    run: Box<dyn Fn(Context) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Task {
    /// A task of that name, which is also the component that its events come from.
    pub(crate) fn new<F>(name: &'static str, run: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { name, run: Box::new(move |context| Box::pin(run(context))) }
    }
}

/// Runs all of them until the context says stop.
pub(crate) async fn all(context: &Context, tasks: &[Task]) {
    join_all(tasks.iter().map(|task| one(context, task))).await;
}

async fn one(context: &Context, task: &Task) {
    keep_running(task.name, context.stop.clone(), || (task.run)(context.of(task.name))).await;
}

/// Runs something until `stop`. When it ends before, by itself or by a panic, it is started again, after a pause that
/// grows while it keeps ending.
pub async fn keep_running<F>(name: &'static str, stop: CancellationToken, run: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut pause = SHORTEST;
    loop {
        let began = tokio::time::Instant::now();
        let ended = tokio::spawn(run()).await;
        if stop.is_cancelled() {
            return;
        }
        match ended {
            Ok(()) => tracing::error!(task = name, "has ended, and is started again"),
            Err(error) => tracing::error!(task = name, %error, "has failed, and is started again"),
        }
        if began.elapsed() > LONGEST {
            pause = SHORTEST;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use c5c3_harness::TestCluster;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Options;

    #[tokio::test]
    async fn what_panics_or_ends_is_started_again_while_the_others_go_on() {
        let cluster = TestCluster::in_process().await.unwrap();
        let stop = CancellationToken::new();
        let context = Context::new(cluster.client(), Options::new(""), stop.clone());
        let starts = Arc::new(AtomicUsize::new(0));
        let steady = Arc::new(AtomicUsize::new(0));
        let (counted, once) = (starts.clone(), steady.clone());
        let tasks = vec![
            Task::new("restless", move |context| {
                let count = counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    match count {
                        0 => panic!("the first time"),
                        1 => {}
                        _ => context.stop.cancel(),
                    }
                }
            }),
            Task::new("steady", move |context| {
                once.fetch_add(1, Ordering::Relaxed);
                async move { context.stop.cancelled().await }
            }),
        ];
        all(&context, &tasks).await;
        assert_eq!((starts.load(Ordering::Relaxed), steady.load(Ordering::Relaxed)), (3, 1));
    }
}

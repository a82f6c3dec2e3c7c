//! What has to be done now and then, whatever pods do: logs are rotated, images collected, archives imported.

pub(crate) mod archives;
mod images;
mod logs;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::node::Node;

pub(crate) use logs::rotated;

/// How often logs and disks are looked at.
const LOGS: Duration = Duration::from_secs(10);
const IMAGES: Duration = Duration::from_mins(5);
const ARCHIVES: Duration = Duration::from_secs(1);

/// Does it, for ever.
pub(crate) async fn run(node: Arc<Node>) {
    let every = |period| {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    };
    let logs = async {
        let mut ticks = every(LOGS);
        loop {
            ticks.tick().await;
            logs::rotate(&node).await;
        }
    };
    let images = async {
        let (mut ticks, mut unused) = (every(IMAGES), HashSet::new());
        loop {
            ticks.tick().await;
            images::collect(&node, &mut unused).await;
        }
    };
    let archives = async {
        let mut ticks = every(ARCHIVES);
        loop {
            ticks.tick().await;
            archives::import(&node).await;
        }
    };
    tokio::join!(logs, images, archives);
}

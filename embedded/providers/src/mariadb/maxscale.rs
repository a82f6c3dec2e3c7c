//! MaxScale, which is refused: its server is not free software, and so there is no image of it.

use c5c3_api::blocks::Condition;
use c5c3_api::ext::mariadb::{MaxScale, MaxScaleStatus};
use c5c3_kit::condition::ConditionState;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::controller::Action;

use super::MANAGER;
use crate::failure::Error;
use crate::objects;

/// Says of a MaxScale that there will be none.
pub(super) async fn reconcile(maxscale: MaxScale, client: Client) -> Result<Action, Error> {
    let before = maxscale.status.clone().unwrap_or_default();
    let said = ConditionState::unmet(
        "Ready",
        "MaxScaleNotReady",
        "the embedded cluster has no MaxScale; connect to the Service of the MariaDB's primary, and leave \
         spec.maxScaleRef of the MariaDB out",
    );
    let ready: Condition = said.to_condition(before.conditions.first(), None, Timestamp::now());
    let status = MaxScaleStatus { conditions: vec![ready], ..MaxScaleStatus::default() };
    objects::report(&client, &maxscale, MANAGER, maxscale.status.as_ref(), &status).await?;
    Ok(Action::await_change())
}

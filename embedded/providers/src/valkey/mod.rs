//! What stands in for SAP's valkey-operator: one primary and its replicas, with Sentinel or without.
//!
//! Members know each other by lasting names. With Sentinel, a member that starts asks the sentinels who the primary is,
//! and without an answer remembers what its own sentinel knew last; so a stale member does not lead after all were down.
//!
//! With TLS, servers, replicas and sentinels talk in no other way, with one certificate of them all; clients find whom to
//! trust in the binding. Members that trust another authority than the others, or talk in the clear, are not understood by
//! them: while that changes, what is only in memory may be lost, as with the genuine operator.
//!
//! Not provided: binding templates, which are refused by name, and exporters, which the condition `MetricsReady` says.

mod config;
mod definitions;
mod names;
mod plan;
mod tls;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::ext::valkey::{Valkey, ValkeyStatus};
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::wait::Wait;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::controller::Action;
use tokio_util::sync::CancellationToken;

use crate::certificates::Signed;
use crate::failure::Error;
use crate::queue::RESYNC;
use crate::{generated, objects, queue};
use names::Names;
use plan::Given;

pub(crate) use definitions::definitions;

/// The field manager, and the label of everything that is made here.
const MANAGER: &str = "c5c3-valkey";

/// Why there are no metrics.
const NO_EXPORTER: &str = "spec.metrics: the embedded cluster has no exporter for Valkey; leave it out, or set \
                           spec.metrics.enabled to false";

/// Looks after every Valkey until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    let controller = queue::controller::<Valkey>(&client)
        .owns_stream(queue::children::<StatefulSet>(&client, MANAGER))
        .owns_stream(queue::children::<Certificate>(&client, MANAGER))
        .owns_stream(queue::children::<Secret>(&client, MANAGER));
    queue::run(controller, client, stop, reconcile).await;
}

/// Brings a Valkey to what its object says, as far as it can, and says how far it got.
async fn reconcile(valkey: Valkey, client: Client) -> Result<Action, Error> {
    if valkey.metadata.deletion_timestamp.is_some() {
        // What belongs to it is collected after it.
        return Ok(Action::await_change());
    }
    let outcome = match refused(&valkey) {
        Some(said) => Ok(said),
        None => carry_out(&client, &valkey).await,
    };
    let said = match &outcome {
        Ok(said) => said.clone(),
        Err(error) => ConditionState::unmet("Ready", "Error", error.to_string()),
    };
    let status = status(&valkey, &said, Timestamp::now());
    objects::report(&client, &valkey, MANAGER, valkey.status.as_ref(), &status).await?;
    outcome.map(|_| Action::requeue(RESYNC))
}

async fn carry_out(client: &Client, valkey: &Valkey) -> Result<ConditionState, Error> {
    let names = Names::of(valkey);
    let password = password(client, &names).await?;
    let signed = match &names.tls {
        Some(secret) => objects::secret(client, &names.namespace, secret).await?.and_then(Signed::of),
        None => None,
    };
    let plan = plan::plan(valkey, &Given { password: &password, signed: signed.as_ref() });
    let applied = objects::apply(client, valkey, MANAGER, &plan).await?;
    let mut waits: Vec<&Wait> = applied.outcomes.iter().flat_map(|outcome| &outcome.waits).collect();
    waits.sort_by_key(|wait| !wait.failed);
    let message = |wait: &&Wait| wait.message(Some(&names.namespace));
    let unsigned = names.tls.as_ref().filter(|_| signed.is_none());
    Ok(match (waits.first(), unsigned) {
        (Some(wait), _) if wait.failed => ConditionState::unmet("Ready", "Error", message(wait)),
        (Some(wait), _) => ConditionState::unmet("Ready", "Processing", message(wait)),
        // It may have been issued since it was looked for, which is told by the Certificate.
        (None, Some(secret)) => {
            ConditionState::unmet("Ready", "Processing", format!("certificate/{secret} is not issued yet"))
        }
        (None, None) => ConditionState::met("Ready", "Ready", "Dependent resources successfully reconciled"),
    })
}

/// The password of the members. Members that run know no other, so one that was lost is taken from the binding.
async fn password(client: &Client, names: &Names) -> Result<String, Error> {
    for (secret, key) in [(names.base().as_str(), "valkey-password"), (names.binding(), "password")] {
        let values = objects::secret(client, &names.namespace, secret).await?;
        if let Some(password) = values.and_then(|mut values| values.remove(key)) {
            return Ok(password);
        }
    }
    Ok(generated::password())
}

/// Why nothing is done with a Valkey as it is.
fn refused(valkey: &Valkey) -> Option<ConditionState> {
    let no = |message: &str| Some(ConditionState::unmet("Ready", "Error", message));
    if valkey.spec.binding.as_ref().is_some_and(|binding| binding.template.is_some()) {
        return no("spec.binding.template: the embedded cluster writes bindings with their usual keys; leave it out");
    }
    if valkey.spec.sentinel.is_some_and(|sentinel| sentinel.enabled) && valkey.spec.replicas == Some(2) {
        return no("spec.replicas: two sentinels cannot agree when one of them is gone; write 1 or 3");
    }
    None
}

/// What there is to say of a Valkey: in the words of the genuine operator, the reason of `Ready` is the state.
fn status(valkey: &Valkey, ready: &ConditionState, now: Timestamp) -> ValkeyStatus {
    let before = valkey.status.clone().unwrap_or_default();
    let ready = match ready.reason.as_str() {
        "Processing" => ConditionState { status: ConditionStatus::Unknown, ..ready.clone() },
        _ => ready.clone(),
    };
    let said = [Some(ready.clone()), metrics(valkey)];
    let conditions = said.into_iter().flatten();
    let conditions = conditions.map(|said| said.to_condition(find(&before.conditions, &said.condition), None, now));
    ValkeyStatus {
        observed_generation: valkey.metadata.generation.unwrap_or_default(),
        state: Some(ready.reason),
        conditions: conditions.collect(),
    }
}

/// What there is to say of metrics that are asked for. Servers are none the worse for it, so that this is no part of `Ready`.
fn metrics(valkey: &Valkey) -> Option<ConditionState> {
    let is_wanted = valkey.spec.metrics.as_ref().is_some_and(|metrics| metrics.enabled);
    is_wanted.then(|| ConditionState::unmet("MetricsReady", "NotProvided", NO_EXPORTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::valkey;
    use c5c3_api::ext::Readiness;
    use c5c3_kit::testing::FakeApi;
    use serde_json::json;

    #[test]
    fn the_state_is_the_reason_of_the_condition() {
        let mut valkey = valkey(json!({}));
        for (said, is_ready) in [
            (ConditionState::unmet("Ready", "Processing", "0 of 1 available"), false),
            (ConditionState::met("Ready", "Ready", ""), true),
            (ConditionState::unmet("Ready", "Error", "in the way"), false),
        ] {
            valkey.status = Some(status(&valkey, &said, Timestamp::UNIX_EPOCH));
            assert_eq!(valkey.status.as_ref().unwrap().state.as_ref(), Some(&said.reason));
            assert_eq!(valkey.readiness().is_yes(), is_ready);
        }
    }

    #[test]
    fn metrics_are_refused_as_long_as_they_are_asked_for_and_the_state_is_what_it_is() {
        let ready = ConditionState::met("Ready", "Ready", "");
        let told = |valkey: &Valkey| status(valkey, &ready, Timestamp::UNIX_EPOCH);
        let mut valkey = valkey(json!({"metrics": {"enabled": true}}));
        let refused = told(&valkey);
        let metrics = find(&refused.conditions, "MetricsReady").unwrap();
        assert_eq!((metrics.status, metrics.reason.as_deref()), (ConditionStatus::False, Some("NotProvided")));
        assert_eq!(refused.state.as_deref(), Some("Ready"));
        valkey.status = Some(refused);
        valkey.spec.metrics = None;
        assert_eq!(find(&told(&valkey).conditions, "MetricsReady"), None);
    }

    #[tokio::test]
    async fn a_password_that_was_lost_is_taken_from_the_binding() {
        let api = FakeApi::default();
        let names = Names::of(&valkey(json!({})));
        api.put(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "a25vd24="},
            "metadata": {"name": names.binding(), "namespace": names.namespace}}));
        assert_eq!(password(&api.client(), &names).await.unwrap(), "known");
        api.put(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"valkey-password": "bmV3"},
            "metadata": {"name": names.base(), "namespace": names.namespace}}));
        assert_eq!(password(&api.client(), &names).await.unwrap(), "new", "its own Secret decides");
    }

    #[test]
    fn what_is_not_provided_is_refused_by_name() {
        let why = |spec| refused(&valkey(spec)).map(|said| said.message).unwrap_or_default();
        assert!(why(json!({"replicas": 2, "sentinel": {"enabled": true}})).starts_with("spec.replicas"));
        assert!(why(json!({"binding": {"template": "{{ .host }}"}})).starts_with("spec.binding.template"));
        assert_eq!(why(json!({"replicas": 2, "binding": {"secretName": "key"}})), "");
    }
}

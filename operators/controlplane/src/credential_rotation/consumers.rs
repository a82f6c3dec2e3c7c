//! The services that sign in with a credential, and whether they say that they run with it.

use c5c3_api::blocks::{AccountState, ServiceAccount};
use c5c3_api::c5c3::{ConsumerKind, CredentialConsumer, CredentialRotation};
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement};
use c5c3_kit::object::condition;
use c5c3_kit::{Inputs, KindRef, Ref, Wait};
use kube::api::DynamicObject;

/// The kinds of consumers.
pub(crate) fn reads() -> [KindRef; 6] {
    [
        KindRef::of::<Cinder>(),
        KindRef::of::<Glance>(),
        KindRef::of::<Keystone>(),
        KindRef::of::<Neutron>(),
        KindRef::of::<Nova>(),
        KindRef::of::<Placement>(),
    ]
}

/// The object of a consumer.
pub(crate) fn reference(consumer: &CredentialConsumer, namespace: &str) -> Ref {
    let name = consumer.name.to_string();
    match consumer.kind {
        ConsumerKind::Cinder => Ref::namespaced::<Cinder>(namespace, name),
        ConsumerKind::Glance => Ref::namespaced::<Glance>(namespace, name),
        ConsumerKind::Keystone => Ref::namespaced::<Keystone>(namespace, name),
        ConsumerKind::Neutron => Ref::namespaced::<Neutron>(namespace, name),
        ConsumerKind::Nova => Ref::namespaced::<Nova>(namespace, name),
        ConsumerKind::Placement => Ref::namespaced::<Placement>(namespace, name),
    }
}

/// The waits for consumers that do not run with the credential of this id yet. One that does not exist uses none.
pub(crate) fn unverified(inputs: &Inputs<CredentialRotation>, namespace: &str, id: &str) -> Vec<Wait> {
    let consumers = inputs.object.spec.consumers.iter().map(|consumer| reference(consumer, namespace));
    consumers.filter_map(|reference| wait(&reference, inputs.get(&reference)?, id)).collect()
}

fn wait(reference: &Ref, consumer: &DynamicObject, id: &str) -> Option<Wait> {
    let identity = &consumer.data["status"]["identity"];
    let uses_it = identity["credentialID"] == id;
    if uses_it && identity["verified"] == true {
        return None;
    }
    let now = match identity["credentialID"].as_str() {
        Some(_) if uses_it => format!("runs with {id} and has not got a token with it"),
        Some(other) => format!("runs with {other}"),
        None => "does not say which credential it runs with".to_owned(),
    };
    let kind = reference.resource.kind.to_lowercase();
    Some(
        Wait::on(reference)
            .condition(format!("runs with application credential {id}"))
            .now(format!("{now}{}", held_up(consumer)))
            .because("the credential of before is revoked only when every consumer uses the new one")
            .look_at(format!("c5c3 why {kind}/{}", reference.name))
            .with_reason("WaitingForConsumer"),
    )
}

/// What a consumer is waited for because of an account.
pub(crate) struct Wanted<'a> {
    /// The Secret of the account.
    pub(crate) secret: &'a str,
    /// The states that are good.
    pub(crate) states: &'a [AccountState],
    /// The condition in words.
    pub(crate) condition: &'a str,
    pub(crate) because: &'a str,
}

/// The waits for consumers that do not report one of these states of an account. One that does not exist has none.
pub(crate) fn lagging(inputs: &Inputs<CredentialRotation>, namespace: &str, wanted: &Wanted<'_>) -> Vec<Wait> {
    let consumers = inputs.object.spec.consumers.iter().map(|consumer| reference(consumer, namespace));
    let waits = consumers.filter_map(|reference| {
        let consumer = inputs.get(&reference)?;
        let all = consumer.data["status"]["accounts"].as_array().into_iter().flatten();
        let mut all = all.filter_map(|one| serde_json::from_value::<ServiceAccount>(one.clone()).ok());
        let state = all.find(|one| one.secret == wanted.secret).map(|one| one.state);
        if state.is_some_and(|state| wanted.states.contains(&state)) {
            return None;
        }
        let now = match state {
            Some(state) => format!("reports {state:?} of the account of secret/{}", wanted.secret),
            None => format!("does not report the account of secret/{} yet", wanted.secret),
        };
        let kind = reference.resource.kind.to_lowercase();
        Some(
            Wait::on(&reference)
                .condition(wanted.condition.to_owned())
                .now(format!("{now}{}", held_up(consumer)))
                .because(wanted.because.to_owned())
                .look_at(format!("c5c3 why {kind}/{}", reference.name))
                .with_reason("WaitingForConsumer"),
        )
    });
    waits.collect()
}

/// What holds a consumer up holds up the rotation.
fn held_up(consumer: &DynamicObject) -> String {
    let first = &consumer.data["status"]["waitingFor"][0];
    let link = first["object"].as_str().map(|object| {
        let because = first["because"].as_str().map(|because| format!(": {because}")).unwrap_or_default();
        format!("; it waits for {object}{because}")
    });
    let link = link.or_else(|| {
        let ready = condition(consumer, "Ready").filter(|ready| ready["status"] != "True")?;
        Some(format!("; it is not Ready: {}", ready["message"].as_str()?))
    });
    link.unwrap_or_default()
}

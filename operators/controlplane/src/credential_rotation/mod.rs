//! CredentialRotation: credentials that are created, delivered, replaced regularly, and revoked.
//!
//! [`machine`] says what comes next. K-ORC's objects create and delete application credentials in Keystone: [`objects`] and
//! [`delivery`] make them, [`view`] sees what has become of them. Accounts on databases and message brokers are created and
//! deleted by the services that use them, as [`server_account`] asks for; users of Ceph by the ControlPlane ([`ceph_user`]).

mod account;
mod ceph_user;
mod consumers;
mod delivery;
mod keystone;
mod machine;
mod objects;
mod server_account;
mod state;
mod summary;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::c5c3::{CredentialRotation, RotatedCredential, RotationPhase, RotationType};
use c5c3_api::ext::external_secrets::{ExternalSecret, PushSecret};
use c5c3_api::ext::rook::{CephClient, CephCluster};
use c5c3_api::orc::{ApplicationCredential, Project, User};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Question, Ref, RemoteHandle, Step, Summary, Verdict};
use c5c3_openstack::Options;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) use account::Names;
pub(crate) use ceph_user::{kept as ceph_users, replaced as replaced_ceph_user};

use account::Account;
use delivery::Delivery;
use keystone::SignIns;
use machine::{Schedule, advance};
use state::State;
use view::View;

/// The annotation that asks for a rotation, with any value that it has not had before.
pub const ROTATE: &str = "c5c3.io/rotate";

/// The step of the credential in use.
const CREDENTIAL: &str = "credential";

/// The condition of the credential in use.
const AVAILABLE: &str = "CredentialAvailable";

/// The condition of the rotation.
const SCHEDULED: &str = "RotationScheduled";

/// How soon Keystone is asked again whether it refuses a credential.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The controller.
pub struct CredentialRotations {
    keystone: Arc<SignIns>,
}

impl CredentialRotations {
    /// Signs in to Keystones with these options.
    pub fn new(options: Options) -> Self {
        Self { keystone: Arc::new(SignIns::new(options)) }
    }
}

impl Controller for CredentialRotations {
    type Kind = CredentialRotation;
    type Valid = ValidRotation;
    const NAME: &'static str = "credentialrotation";
    const CONDITIONS: &'static [&'static str] = &[AVAILABLE, delivery::CONDITION, SCHEDULED];

    fn children(&self) -> Vec<KindRef> {
        vec![
            KindRef::of::<Secret>(),
            KindRef::of::<ApplicationCredential>(),
            KindRef::of::<PushSecret>(),
            KindRef::of::<ExternalSecret>(),
        ]
    }

    fn reads(&self) -> Vec<KindRef> {
        let mut kinds = vec![KindRef::of::<User>(), KindRef::of::<Project>()];
        kinds.extend(delivery::reads());
        kinds.extend(consumers::reads());
        kinds.extend([KindRef::of::<CephCluster>(), KindRef::of::<CephClient>(), KindRef::of::<ConfigMap>()]);
        kinds
    }

    /// For a status that was lost.
    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<ApplicationCredential>()]
    }

    fn needs(&self, inputs: &Inputs<CredentialRotation>) -> Vec<Ref> {
        if let Some(names) = server_account::names(inputs) {
            return server_account::needs(inputs, &names);
        }
        let mut needs = account::needs(inputs);
        let Some(names) = account::names(inputs) else { return needs };
        needs.extend(delivery::needs(inputs, &names));
        for credential in State::recorded(inputs.object.status.as_ref()).iter().flat_map(State::all) {
            needs.push(objects::reference(&names, credential));
            needs.push(names.secret(names.version(credential.version)));
        }
        let consumers = inputs.object.spec.consumers.iter();
        needs.extend(consumers.map(|consumer| consumers::reference(consumer, &names.namespace)));
        needs
    }

    fn remote(&self) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(self.keystone.clone()))
    }

    fn questions(&self, inputs: &Inputs<CredentialRotation>) -> Vec<Question> {
        if server_account::names(inputs).is_some() {
            return Vec::new();
        }
        let recorded = State::recorded(inputs.object.status.as_ref());
        let (Ok(account), Some(state)) = (Account::find(inputs), recorded) else { return Vec::new() };
        let question = View::new(inputs, &account, &state).question();
        question.into_iter().map(Question::to::<SignIns>).collect()
    }

    fn validate(&self, inputs: &Inputs<CredentialRotation>) -> Verdict<ValidRotation> {
        let of_server = server_account::names(inputs);
        let names = of_server.clone().or_else(|| account::names(inputs));
        if let Some(problem) = names.as_ref().and_then(account::problem_of) {
            return Verdict::Invalid(vec![problem].into());
        }
        if let Some(names) = of_server {
            return Verdict::Valid(ValidRotation::Server(names));
        }
        match Account::find(inputs) {
            Ok(account) => Verdict::Valid(ValidRotation::Application(account)),
            Err(waits) => Verdict::Wait(waits),
        }
    }

    fn plan(&self, valid: &ValidRotation, inputs: &Inputs<CredentialRotation>) -> Plan {
        match valid {
            ValidRotation::Application(account) => plan(account, inputs),
            ValidRotation::Server(names) => server_account::plan(names, inputs),
        }
    }

    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        summary::summary(&state)
    }
}

/// What is rotated.
pub enum ValidRotation {
    /// The application credential of a user that can sign in.
    #[expect(private_interfaces, reason = "it is made and used here alone")]
    Application(Account),
    /// An account on a database, a message broker or Ceph.
    #[expect(private_interfaces, reason = "it is made and used here alone")]
    Server(Names),
}

fn plan(account: &Account, inputs: &Inputs<CredentialRotation>) -> Plan {
    let (names, now) = (&account.names, inputs.now);
    let schedule = Schedule::new(&inputs.object.spec);
    let Some(state) = State::recorded(inputs.object.status.as_ref()) else {
        let request = view::request(inputs);
        let state = State::recovered(view::existing(inputs, names), request.clone(), now)
            .unwrap_or_else(|| State::first(schedule.credential(1, now), request, now));
        return with_status(written_down(), &state, schedule, names);
    };
    let view = View::new(inputs, account, &state);
    let seen = view.seen();
    let next = advance(&state, schedule, &seen, now);
    let waits = view.waits();
    let message = waits.first().map(|wait| wait.message(Some(&names.namespace)));
    let is_same = next == state;
    let next = if next.phase == state.phase { next.saying(message) } else { next };

    let delivery = Delivery::new(inputs, names);
    let own = |credential: &RotatedCredential| -> [Child; 2] {
        [objects::value(names, credential), objects::application_credential(inputs, names, credential)]
    };
    let used = state.current.as_ref().or(state.next.as_ref());
    let available = Step::new(AVAILABLE)
        .node(CREDENTIAL, [])
        .child(objects::user_clouds(account))
        .children(used.into_iter().flat_map(own))
        .done("Keystone has it")
        .reasons("CredentialValid", "WaitingForApplicationCredential");
    let undelivered = view.undelivered();
    let plan = Plan::new().step(available).ready_reason("CredentialValid");
    let plan = delivery.steps(plan, view.content().as_ref(), undelivered, view.expired());
    let coming: Vec<Child> = state.current.iter().zip(&state.next).flat_map(|(_, next)| own(next)).collect();
    let going = leaving(&view, &state, own);
    // What is seen of a phase that has steps of its own is said there.
    let held =
        waits.into_iter().filter(|_| !matches!(state.phase, RotationPhase::Creating | RotationPhase::Delivering));
    let plan = plan
        .step(with(rotation("next"), coming))
        .step(with(rotation("previous"), going))
        .step(held.fold(rotation("rotation").childless(), Step::wait).done(says(&next, schedule)));
    let plan = told(plan, &state, &next, names);
    let due = if is_same { due(&next, schedule, delivery.is_through_store(), now) } else { Some(Duration::ZERO) };
    with_status(Plan { requeue_after: due, ..plan }, &next, schedule, names)
}

/// A plan that does nothing yet: nothing is done before it is written down.
fn written_down() -> Plan {
    let steps = [(AVAILABLE, CREDENTIAL), (delivery::CONDITION, delivery::TARGET), (SCHEDULED, "rotation")];
    let steps = steps.map(|(condition, name)| Step::new(condition).node(name, []).undecided([]));
    Plan { requeue_after: Some(Duration::ZERO), ..steps.into_iter().fold(Plan::new(), Plan::step) }
}

/// A step of the rotation.
fn rotation(name: &'static str) -> Step {
    Step::new(SCHEDULED).node(name, []).done("")
}

fn with(step: Step, children: Vec<Child>) -> Step {
    if children.is_empty() { step.childless() } else { step.children(children) }
}

/// The objects of the credential of before. Its secret stays until Keystone is known to refuse it.
fn leaving(view: &View<'_>, state: &State, own: impl Fn(&RotatedCredential) -> [Child; 2]) -> Vec<Child> {
    match (state.kept_previous(), &state.previous) {
        (Some(kept), _) => own(kept).into(),
        (None, Some(old)) if view.has_value(old) => own(old).into_iter().take(1).collect(),
        _ => Vec::new(),
    }
}

/// What there is to say of a rotation that is not held up.
fn says(state: &State, schedule: Schedule) -> String {
    let at = |time: Option<Timestamp>| time.map_or_else(|| "never".to_owned(), |time| format!("at {time:.0}"));
    let next = state.current.as_ref().and_then(|current| schedule.next_rotation(current));
    match state.phase {
        RotationPhase::Idle => format!("the credential is replaced {}", at(next)),
        RotationPhase::Grace => {
            let revoked = state.previous.as_ref().and_then(|old| old.revoke_at.as_ref()).map(|time| time.0);
            format!("the credential of before is revoked {}, the next rotation is {}", at(revoked), at(next))
        }
        phase => format!("a rotation is under way: {phase:?}"),
    }
}

/// When to look again though nothing changes.
fn due(state: &State, schedule: Schedule, through_store: bool, now: Timestamp) -> Option<Duration> {
    let until = |time: Timestamp| Duration::try_from(time.duration_since(now).max(SignedDuration::ZERO)).ok();
    let next = state.current.as_ref().and_then(|current| schedule.next_rotation(current));
    let revoked = state.previous.as_ref().and_then(|old| old.revoke_at.as_ref()).map(|time| time.0);
    match state.phase {
        RotationPhase::Idle => next.and_then(until),
        RotationPhase::Grace => revoked.into_iter().chain(next).min().and_then(until),
        RotationPhase::Delivering if through_store => Some(Duration::from_secs(delivery::AGAIN.unsigned_abs())),
        RotationPhase::Delivering => Some(Duration::from_secs(1)),
        RotationPhase::Verifying | RotationPhase::VerifyingRevoked => Some(ASK_AGAIN),
        RotationPhase::Creating | RotationPhase::Revoking => None,
    }
}

/// The events of a rotation: one for each phase.
fn told(plan: Plan, before: &State, after: &State, names: &Names) -> Plan {
    if before.phase == after.phase {
        return plan;
    }
    let name = |credential: Option<&RotatedCredential>| {
        credential.map(|credential| names.version(credential.version)).unwrap_or_default()
    };
    let (current, next, old) =
        (name(after.current.as_ref()), name(after.next.as_ref()), name(before.previous.as_ref()));
    let place = match names.kind {
        RotationType::ApplicationCredential => "Keystone",
        RotationType::DatabaseAccount => "the database",
        RotationType::BrokerAccount => "the message broker",
        RotationType::CephUser => "Ceph",
    };
    match after.phase {
        RotationPhase::Creating => {
            plan.event("RotationStarted", format!("{next} takes the place of {current}: {:?}", after.reason))
        }
        RotationPhase::Delivering => plan.event("CredentialCreated", format!("{place} has {next}")),
        RotationPhase::Verifying => plan.event("CredentialDelivered", format!("services can read {next}")),
        RotationPhase::Grace => plan.event("CredentialSwitched", format!("all consumers use {current}")),
        RotationPhase::Revoking => plan.event("CredentialRevoking", format!("{old} is being deleted from {place}")),
        RotationPhase::VerifyingRevoked => plan,
        RotationPhase::Idle if before.phase == RotationPhase::VerifyingRevoked => {
            plan.event("CredentialRevoked", format!("{place} refuses {old}"))
        }
        RotationPhase::Idle => plan.event("CredentialDelivered", format!("services can read {current}")),
    }
}

fn with_status(plan: Plan, state: &State, schedule: Schedule, names: &Names) -> Plan {
    let next = state.current.as_ref().and_then(|current| schedule.next_rotation(current));
    let object = |credential: Option<&RotatedCredential>| {
        credential.map(|credential| json!({"name": names.version(credential.version)}))
    };
    let time = |time: Timestamp| json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    let fields: [(&str, Option<Value>); 11] = [
        ("phase", Some(json!(state.phase))),
        ("reason", Some(json!(state.reason))),
        ("steps", Some(json!(state.steps))),
        ("handledRequest", state.handled.clone().map(Into::into)),
        ("lastRotation", state.last_rotation.as_ref().map(|at| json!(at))),
        ("nextRotation", next.map(time)),
        ("currentCredential", state.current.as_ref().map(|credential| json!(credential))),
        ("nextCredential", state.next.as_ref().map(|credential| json!(credential))),
        ("previousCredential", state.previous.as_ref().map(|credential| json!(credential))),
        ("currentCredentialRef", object(state.current.as_ref())),
        ("previousCredentialRef", object(state.previous.as_ref())),
    ];
    let known = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
    known.fold(plan, |plan, (field, value)| plan.status(field, value))
}

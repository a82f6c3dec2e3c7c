//! Accounts on databases, message brokers and Ceph. Two alternate: no password changes while it is in use.
//!
//! A Secret for each account has its name and password, which never change. The Secret that services read has the account in
//! use, and its annotations name the accounts that have to exist on the server and those that must not. The services create and
//! delete them, and report how far they are in `status.accounts`.

use std::collections::BTreeMap;

use c5c3_api::blocks::AccountState;
use c5c3_api::c5c3::{ACCOUNTS, CredentialRotation, REVOKED_ACCOUNTS, RotatedCredential, RotationPhase, RotationType};
use c5c3_api::ext::mariadb::WATCH_LABEL;
use c5c3_api::ext::rabbitmq::IMPORT_LABEL;
use c5c3_kit::{Child, Inputs, Plan, Ref, Step, Wait, random_secret};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::ExposeSecret;

use super::account::{Names, namespace};
use super::ceph_user;
use super::consumers::Wanted;
use super::delivery::{CONDITION, TARGET};
use super::machine::{Schedule, Seen, advance};
use super::objects::{self, Data};
use super::state::State;
use super::{AVAILABLE, CREDENTIAL, consumers, due, rotation, says, told, view, with, with_status, written_down};

pub(super) const USERNAME: &str = "username";
pub(super) const PASSWORD: &str = "password";

/// What the objects of an account are called; none for a rotation of application credentials.
pub(crate) fn names(inputs: &Inputs<CredentialRotation>) -> Option<Names> {
    let kind = inputs.object.spec.rotation_type;
    let service = inputs.object.spec.target_service_user.to_string();
    (kind != RotationType::ApplicationCredential).then(|| Names { service, namespace: namespace(inputs), kind })
}

/// What has to be read.
pub(crate) fn needs(inputs: &Inputs<CredentialRotation>, names: &Names) -> Vec<Ref> {
    let mut needs = vec![names.secret(names.target(&inputs.object))];
    let state = State::recorded(inputs.object.status.as_ref());
    let accounts = state.iter().flat_map(State::all);
    let versions: Vec<i64> = accounts.map(|account| account.version).collect();
    needs.extend(versions.iter().map(|version| names.secret(names.version(*version))));
    if names.kind == RotationType::CephUser {
        needs.extend(ceph_user::needs(inputs, versions.iter().map(|version| username(names, *version))));
    }
    let consumers = inputs.object.spec.consumers.iter();
    needs.extend(consumers.map(|consumer| consumers::reference(consumer, &names.namespace)));
    needs
}

/// The name of an account on the server.
pub(super) fn username(names: &Names, version: i64) -> String {
    if version % 2 == 1 { names.service.clone() } else { format!("{}-b", names.service) }
}

/// The versions of a list of Secrets.
pub(super) fn versions(names: &Names, listed: &str) -> impl Iterator<Item = i64> {
    listed.split(',').filter_map(|name| name.strip_prefix(&names.prefix())?.parse::<i64>().ok())
}

/// The accounts of a rotation whose status was lost: those that services were asked to have.
fn existing(inputs: &Inputs<CredentialRotation>, names: &Names) -> Vec<RotatedCredential> {
    let Some(target) = inputs.get(&names.secret(names.target(&inputs.object))) else { return Vec::new() };
    let annotation = target.metadata.annotations.as_ref().and_then(|all| all.get(ACCOUNTS));
    versions(names, annotation.map(String::as_str).unwrap_or_default())
        .map(|version| RotatedCredential {
            version,
            id: Some(username(names, version)),
            created_at: target.metadata.creation_timestamp.clone(),
            ..RotatedCredential::default()
        })
        .collect()
}

/// A rotation of accounts and what was read about it.
struct Accounts<'a> {
    inputs: &'a Inputs<CredentialRotation>,
    names: &'a Names,
    state: &'a State,
}

impl Accounts<'_> {
    fn reference(&self, account: &RotatedCredential) -> Ref {
        self.names.secret(self.names.version(account.version))
    }

    fn target(&self) -> Ref {
        self.names.secret(self.names.target(&self.inputs.object))
    }

    /// Name and password of an account; none before its Secret is there.
    fn content(&self, account: &RotatedCredential) -> Option<Data> {
        let secret: Secret = self.inputs.typed(&self.reference(account)).ok()?;
        let data = secret.data?;
        [USERNAME, PASSWORD].iter().map(|key| Some(((*key).to_owned(), data.get(*key)?.clone()))).collect()
    }

    fn is_of_ceph(&self) -> bool {
        self.names.kind == RotationType::CephUser
    }

    /// The Secret of an account; of a user of Ceph none before there is a key, which the Secret then follows.
    fn secret(&self, account: &RotatedCredential) -> Option<Child> {
        if !self.is_of_ceph() {
            return Some(self.made_up(account));
        }
        let made = ceph_user::content(self.inputs, &username(self.names, account.version)).ok();
        let data = made.or_else(|| self.content(account))?;
        Some(objects::secret(self.names, self.names.version(account.version), data))
    }

    /// The Secret of an account that is made up here. One that is lost is copied from the Secret that services read, as long as
    /// that has it.
    fn made_up(&self, account: &RotatedCredential) -> Child {
        let (name, username) = (self.names.version(account.version), username(self.names, account.version));
        let in_use = self.delivered().filter(|data| {
            data.get(USERNAME) == Some(&ByteString(username.clone().into_bytes())) && self.content(account).is_none()
        });
        let mut child = match in_use {
            Some(data) => objects::secret(self.names, name, data),
            None => random_secret::child(&self.names.namespace, &name, &[(USERNAME, &username)], &[PASSWORD]),
        };
        // The operator of the server sees changes by this label.
        let (label, value) = match self.names.kind {
            RotationType::BrokerAccount => IMPORT_LABEL,
            _ => (WATCH_LABEL, ""),
        };
        child.object.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
        child
    }

    /// What services read now.
    fn delivered(&self) -> Option<Data> {
        [USERNAME, PASSWORD].into_iter().map(|key| self.read(key)).collect()
    }

    fn read(&self, key: &str) -> Option<(String, ByteString)> {
        let value = self.inputs.secret(&self.target(), key).ok()?;
        Some((key.to_owned(), ByteString(value.expose_secret().as_bytes().to_vec())))
    }

    /// What services are to read, or the wait for it; neither before there is an account.
    fn to_read(&self) -> Option<Result<Data, Wait>> {
        let content = self.content(self.state.active()?)?;
        Some(if self.is_of_ceph() { ceph_user::delivered(self.inputs, &content) } else { Ok(content) })
    }

    /// The accounts that have to exist, and those that must not.
    fn annotations(&self) -> BTreeMap<String, String> {
        let State { phase, previous, .. } = self.state;
        // Services read the Secrets of all accounts, and that of a user of Ceph has to wait for its key.
        let kept = self.state.kept().filter(|account| !self.is_of_ceph() || self.content(account).is_some());
        let is_revoked = match self.names.kind {
            // Services delete their accounts, and the ControlPlane users of Ceph.
            RotationType::CephUser => *phase == RotationPhase::VerifyingRevoked,
            _ => self.state.kept_previous().is_none(),
        };
        let revoked = previous.iter().filter(|_| is_revoked);
        let list = |accounts: &mut dyn Iterator<Item = &RotatedCredential>| {
            accounts.map(|account| self.names.version(account.version)).collect::<Vec<_>>().join(",")
        };
        let (kept, revoked) = (list(&mut { kept }), list(&mut { revoked }));
        let revoked = (!revoked.is_empty()).then(|| (REVOKED_ACCOUNTS.to_owned(), revoked));
        [(ACCOUNTS.to_owned(), kept)].into_iter().chain(revoked).collect()
    }

    /// The Secret that services read; none before there is an account.
    fn target_child(&self) -> Option<Child> {
        let data = self.to_read()?.ok()?;
        let mut child = objects::secret(self.names, self.names.target(&self.inputs.object), data);
        child.object.metadata.annotations = Some(self.annotations());
        Some(child)
    }

    /// Whether services can read the account that they are to use, and know of all others.
    fn has_arrived(&self) -> bool {
        let Some(Ok(data)) = self.to_read() else { return false };
        let found = self.inputs.get(&self.target());
        let live = found.and_then(|target| target.metadata.annotations.clone()).unwrap_or_default();
        let is_said = self.annotations().iter().all(|(key, value)| live.get(key) == Some(value));
        is_said && data.into_iter().all(|(key, value)| self.read(&key) == Some((key, value)))
    }

    /// What services have not done yet with an account.
    fn lagging(&self, account: &RotatedCredential, states: &[AccountState], condition: &str) -> Vec<Wait> {
        let secret = self.names.version(account.version);
        let because = "services create, use and delete the accounts";
        let wanted = Wanted { secret: &secret, states, condition, because };
        consumers::lagging(self.inputs, &self.names.namespace, &wanted)
    }

    /// What an account waits for until services can sign in with it. For a first one nothing waits: services are created with it.
    fn uncreated(&self, account: &RotatedCredential) -> Vec<Wait> {
        if self.is_of_ceph() {
            let made = ceph_user::content(self.inputs, &username(self.names, account.version));
            let unread = self.state.active() == Some(account);
            let unread = self.to_read().filter(|_| unread).and_then(Result::err);
            return made.err().into_iter().chain(unread).collect();
        }
        if self.content(account).is_none() {
            return vec![self.inputs.missing(&self.reference(account))];
        }
        if self.state.current.is_none() || !self.has_arrived() {
            return Vec::new();
        }
        self.lagging(account, &[AccountState::Available, AccountState::InUse], "has created the account")
    }

    fn is_created(&self, account: &RotatedCredential) -> bool {
        let is_next = self.state.next.as_ref() == Some(account) && self.state.current.is_some();
        self.content(account).is_some() && (!is_next || (self.has_arrived() && self.uncreated(account).is_empty()))
    }

    /// What holds the present phase up.
    fn waits(&self) -> Vec<Wait> {
        let State { phase, next, previous, .. } = self.state;
        match phase {
            RotationPhase::Creating => next.iter().flat_map(|next| self.uncreated(next)).collect(),
            RotationPhase::Delivering if self.has_arrived() => Vec::new(),
            RotationPhase::Delivering => {
                vec![Wait::on(&self.target()).condition("has the new account").now("does not have it yet")]
            }
            RotationPhase::Verifying => {
                let used = |next| self.lagging(next, &[AccountState::InUse], "uses the new account");
                next.iter().flat_map(used).collect()
            }
            RotationPhase::Revoking => previous.iter().flat_map(|old| self.unrevoked(old)).collect(),
            RotationPhase::VerifyingRevoked => {
                let known = previous.iter().filter(|old| self.content(old).is_some());
                known
                    .flat_map(|old| self.lagging(old, &[AccountState::Refused], "is refused the old account"))
                    .collect()
            }
            RotationPhase::Grace | RotationPhase::Idle => Vec::new(),
        }
    }

    /// An account whose Secret is lost is not reported any more; services delete it because it is not listed.
    fn unrevoked(&self, old: &RotatedCredential) -> Vec<Wait> {
        if self.is_of_ceph() {
            return ceph_user::undeleted(self.inputs, &username(self.names, old.version)).into_iter().collect();
        }
        if self.content(old).is_none() {
            return Vec::new();
        }
        if !self.has_arrived() {
            return vec![Wait::on(&self.target()).condition("names the revoked account").now("does not name it yet")];
        }
        self.lagging(old, &[AccountState::Revoked, AccountState::Refused], "has deleted the old account")
    }

    fn seen(&self) -> Seen {
        let is_held = |phase: RotationPhase| self.state.phase != phase || !self.waits().is_empty();
        let created = self.state.all().filter(|account| self.is_created(account));
        let ids = created.map(|account| (account.version, username(self.names, account.version))).collect();
        let old = self.state.previous.iter().filter(|_| is_held(RotationPhase::Revoking));
        Seen {
            ids,
            objects: old.map(|old| old.version).collect(),
            delivered: self.has_arrived(),
            verified: !is_held(RotationPhase::Verifying),
            refused: !is_held(RotationPhase::VerifyingRevoked),
            request: view::request(self.inputs),
            outdated: false,
        }
    }
}

/// The plan of a rotation of accounts.
pub(crate) fn plan(names: &Names, inputs: &Inputs<CredentialRotation>) -> Plan {
    let (schedule, now) = (Schedule::new(&inputs.object.spec), inputs.now);
    let Some(state) = State::recorded(inputs.object.status.as_ref()) else {
        let request = view::request(inputs);
        let state = State::recovered(existing(inputs, names), request.clone(), now)
            .unwrap_or_else(|| State::first(schedule.credential(1, now), request, now));
        return with_status(written_down(), &endless(state), schedule, names);
    };
    let accounts = Accounts { inputs, names, state: &state };
    let next = endless(advance(&state, schedule, &accounts.seen(), now));
    let waits = accounts.waits();
    let is_same = next == state;
    let message = waits.first().map(|wait| wait.message(Some(&names.namespace)));
    let next = if next.phase == state.phase { next.saying(message) } else { next };

    let used = state.current.as_ref().or(state.next.as_ref());
    let available = Step::new(AVAILABLE)
        .node(CREDENTIAL, [])
        .done("it has a name and a password")
        .reasons("CredentialValid", "WaitingForAccount");
    let available = match used.and_then(|used| accounts.secret(used)) {
        Some(child) => available.child(child),
        None => available.undecided(used.map(|used| accounts.uncreated(used)).unwrap_or_default()),
    };
    let coming = state.current.iter().zip(&state.next).filter_map(|(_, next)| accounts.secret(next)).collect();
    // The Secret of the old account stays until the server is known to refuse it.
    let leaving =
        state.previous.iter().filter(|old| state.kept_previous().is_some() || accounts.content(old).is_some());
    let leaving: Vec<Child> = leaving.filter_map(|old| accounts.secret(old)).collect();
    let target = Step::new(CONDITION)
        .node(TARGET, [CREDENTIAL, "next", "previous"])
        .done(format!("{} has it", accounts.target().short()))
        .reasons("Delivered", "DeliveryInProgress");
    let target = match accounts.target_child() {
        Some(child) => target.child(child),
        None => target.undecided(used.map(|used| accounts.uncreated(used)).unwrap_or_default()),
    };
    let held = waits.into_iter().filter(|_| state.phase != RotationPhase::Delivering);
    let plan = Plan::new()
        .step(available)
        .step(with(rotation("next"), coming))
        .step(with(rotation("previous"), leaving))
        .step(target)
        .step(held.fold(rotation("rotation").childless(), Step::wait).done(says(&next, schedule)))
        .ready_reason("CredentialValid");
    let plan = told(plan, &state, &next, names);
    let due = if is_same { due(&next, schedule, false, now) } else { Some(std::time::Duration::ZERO) };
    with_status(Plan { requeue_after: due, ..plan }, &next, schedule, names)
}

/// An account does not expire.
fn endless(mut state: State) -> State {
    for account in state.all_mut() {
        account.expires_at = None;
    }
    state
}

//! The accounts that a CredentialRotation replaces, as the service sees them: which exist on the server, which one all pods use,
//! and whether a deleted one is refused. The rotation goes on by what is reported here.

use c5c3_api::blocks::{AccountState, ServiceAccount};
use c5c3_api::ext::{mariadb, rabbitmq};
use c5c3_api::openstack::ServiceObject;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, KindRef, Plan, Ref, Step, readiness};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::job::{Command, Run};
use crate::pod::Mount;
use crate::rotated_account::{RotatedAccount, RotatedAccounts};
use crate::service::Service;
use crate::service_plan::{Resolved, ServicePlan, is_complete};

/// The program that tries accounts: `accounts.py SETTINGS`.
const PROGRAM: &str = include_str!("accounts.py");

/// The step of it.
const STEP: &str = "accounts";

/// What is said of any account.
type OfAccount<T> = Box<dyn Fn(&RotatedAccount) -> T>;

/// A server whose account is rotated.
struct Rotating {
    accounts: RotatedAccounts,
    /// The name of the account that the configuration has.
    active: String,
    /// What every account has on the server: a user and its grants.
    objects: OfAccount<Vec<Ref>>,
    /// `database`, `broker` or `ceph`, and how it is reached with an account.
    on: &'static str,
    connection: OfAccount<Value>,
}

/// The kinds of objects that an account has on a server.
pub(crate) fn observes() -> [KindRef; 4] {
    [
        KindRef::of::<mariadb::User>(),
        KindRef::of::<mariadb::Grant>(),
        KindRef::of::<rabbitmq::User>(),
        KindRef::of::<rabbitmq::Permission>(),
    ]
}

/// How far an account is: the order of its states.
fn rank(state: AccountState) -> u8 {
    match state {
        AccountState::Pending => 0,
        AccountState::Available => 1,
        AccountState::InUse => 2,
        AccountState::Revoking => 3,
        AccountState::Revoked => 4,
        AccountState::Refused => 5,
    }
}

impl<S: Service> ServicePlan<'_, S> {
    fn rotating(&self, resolved: &Resolved) -> Vec<Rotating> {
        let databases = resolved.backing.databases.iter().map(|opened| {
            let (server, connection) = (opened.server.clone(), opened.clone());
            Rotating {
                accounts: opened.account.rotated.clone(),
                active: opened.account.username.clone(),
                objects: Box::new(move |account| server.objects_of(account)),
                on: "database",
                connection: Box::new(move |account| connection.connection_of(account)),
            }
        });
        let buses = resolved.backing.buses.iter().map(|opened| {
            let (bus, connection) = (opened.bus().clone(), opened.clone());
            Rotating {
                accounts: RotatedAccounts::find(self.inputs, bus.secret()).unwrap_or_default(),
                active: opened.username().to_owned(),
                objects: Box::new(move |account| bus.objects_of(account)),
                on: "broker",
                connection: Box::new(move |account| connection.connection_of(account)),
            }
        });
        // Several pools may be used with the key of one Secret. The ControlPlane creates and deletes users of Ceph.
        let mut pools = resolved.backing.pools.clone();
        pools.sort_by(|a, b| a.secret().cmp(b.secret()));
        pools.dedup_by(|a, b| a.secret() == b.secret());
        let ceph = pools.into_iter().map(|pool| Rotating {
            accounts: pool.rotated.clone(),
            active: pool.user.clone(),
            objects: Box::new(|_| Vec::new()),
            on: "ceph",
            connection: Box::new(move |account| pool.connection_of(account)),
        });
        databases.chain(buses).chain(ceph).filter(|one| !one.accounts.kept.is_empty()).collect()
    }

    fn live(&self, reference: &Ref) -> Option<&DynamicObject> {
        let is_it = |kind: KindRef| kind.resource == reference.resource;
        match observes().into_iter().position(is_it)? {
            0 => self.inputs.own_named::<mariadb::User>(&reference.name),
            1 => self.inputs.own_named::<mariadb::Grant>(&reference.name),
            2 => self.inputs.own_named::<rabbitmq::User>(&reference.name),
            _ => self.inputs.own_named::<rabbitmq::Permission>(&reference.name),
        }
    }

    fn is_available(&self, objects: &[Ref]) -> bool {
        let is_ready = |reference: &Ref| {
            let live = self.live(reference).filter(|live| live.metadata.deletion_timestamp.is_none());
            live.is_some_and(|live| readiness::wait(reference, live).is_none())
        };
        objects.iter().all(is_ready)
    }

    /// What is reported of all accounts that are rotated. While something is missing it is what was reported before.
    pub(crate) fn accounts(&self) -> Vec<ServiceAccount> {
        let Some(resolved) = self.known() else {
            return self.parts.object.status().map(|status| status.accounts.clone()).unwrap_or_default();
        };
        let rotating = self.rotating(resolved);
        if rotating.is_empty() {
            return Vec::new();
        }
        let tried = self.trial(resolved).is_none_or(|(_, job)| is_complete(self.inputs, &job));
        let is_used = tried && self.parts.rolled_out(self.inputs, &self.files(resolved).name());
        let report = |account: &RotatedAccount, state| ServiceAccount { secret: account.secret.clone(), state };
        let of_one = |one: &Rotating| -> Vec<ServiceAccount> {
            let kept = one.accounts.kept.iter().map(|account| {
                let state = match self.is_available(&(one.objects)(account)) {
                    false => AccountState::Pending,
                    true if is_used && account.username == one.active => AccountState::InUse,
                    true => AccountState::Available,
                };
                report(account, state)
            });
            let revoked = one.accounts.revoked.iter().map(|account| match (self.is_gone(one, account), tried) {
                (false, _) => report(account, AccountState::Revoking),
                (true, false) => report(account, AccountState::Revoked),
                (true, true) => report(account, AccountState::Refused),
            });
            kept.chain(revoked).collect()
        };
        let mut reported: Vec<ServiceAccount> = Vec::new();
        for account in rotating.iter().flat_map(of_one) {
            // An account on several servers, such as the brokers of cells, is as far as it is where it is least so.
            match reported.iter_mut().find(|other| other.secret == account.secret) {
                Some(other) if rank(account.state) < rank(other.state) => other.state = account.state,
                Some(_) => {}
                None => reported.push(account),
            }
        }
        reported
    }

    fn is_gone(&self, one: &Rotating, account: &RotatedAccount) -> bool {
        (one.objects)(account).iter().all(|reference| self.live(reference).is_none())
    }

    /// The accounts that are tried: the new one during a rotation, and one that was deleted.
    fn settings(&self, resolved: &Resolved) -> Vec<Value> {
        let of_one = |one: &Rotating| -> Vec<Value> {
            let is_new = |account: &&RotatedAccount| account.username == one.active && one.accounts.kept.len() > 1;
            let new = one.accounts.kept.iter().filter(is_new).map(|account| (account, true));
            let deleted = one.accounts.revoked.iter().filter(|account| self.is_gone(one, account));
            let all = new.chain(deleted.map(|account| (account, false)));
            all.map(|(account, accepted)| {
                let connection = (one.connection)(account);
                json!({"on": one.on, "secret": account.secret, "accepted": accepted, "connection": connection})
            })
            .collect()
        };
        self.rotating(resolved).iter().flat_map(of_one).collect()
    }

    /// The Job that tries accounts, and its files; none if there is nothing to try.
    fn trial(&self, resolved: &Resolved) -> Option<(Child, Child)> {
        let settings = self.settings(resolved);
        if settings.is_empty() {
            return None;
        }
        let instance = &self.parts.instance;
        let files = ConfigFiles::new(&instance.namespace, instance.named(STEP))
            .file("accounts.py", PROGRAM.into())
            .file("accounts.json", Value::from(settings).to_string().into());
        let (script, file) = (format!("{}/accounts.py", S::FOLDER), format!("{}/accounts.json", S::FOLDER));
        let command = [Command::new(&[&format!("/opt/{}/bin/python", S::NAME), &script, &file])];
        let mut mounts = vec![Mount::secret("config", &files.name(), S::FOLDER)];
        mounts.extend(resolved.backing.mounts());
        let run = Run { identity: json!({ "accounts": files.hash() }), ..self.run(STEP, &command, mounts) };
        Some((files.child(), run.child()))
    }

    /// Tries accounts while they are rotated; no step for a service whose accounts are not.
    pub(crate) fn try_accounts(&self, plan: Plan) -> Plan {
        let Some(resolved) = self.known() else { return plan };
        if self.rotating(resolved).is_empty() {
            let was_there = self.parts.object.status().is_some_and(|status| !status.accounts.is_empty());
            return if was_there { plan.without_step(STEP) } else { plan };
        }
        let has_bus = !self.parts.description.messaging.is_empty();
        let needs = if has_bus { vec!["database", "messaging"] } else { vec!["database"] };
        let step = Step::new("SecretsReady").node(STEP, needs).done("the accounts are as they should be");
        let step = step.reasons("SecretsAvailable", "TryingAccounts");
        plan.step(match self.trial(resolved) {
            Some((files, job)) => step.child(files).child(job),
            None => step.childless(),
        })
    }
}
